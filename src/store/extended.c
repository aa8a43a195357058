/* SPDX-License-Identifier: Apache-2.0 */
/* Queues, lists of keys, barriers and clones: what a class need not have. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "store/store_impl.h"
#include "store/wire.h"

static ts_status not_offered(const char *op, const ts_store *store)
{
    char where[256];
    return ts_fail(TS_EUNSUPPORTED, "%s: %s does not offer this", op,
                   ts_store_describe(store, where, sizeof where));
}

ts_status ts_store_clone(ts_store **out, ts_store *store)
{
    if (!out || !store) return ts_fail(TS_EINVAL, "store_clone: %s is NULL", out ? "store" : "out");
    *out = NULL;
    if (TS_STORE_OPTIONAL(store, clone)) return store->klass->clone(out, store);
    *out = ts_store_retain(store);
    return TS_OK;
}

bool ts_store_has_extended_api(const ts_store *store)
{
    const ts_store *inside = ts_store_innermost(store);
    return inside && TS_STORE_OPTIONAL(inside, multi_set);
}

/* ---- queues ---------------------------------------------------------------------------------- */

ts_status ts_store_queue_push(ts_store *store, const char *key, const void *value, size_t size)
{
    TS_TRY(ts_store_check_key("store_queue_push", store, key));
    TS_TRY(ts_store_check_value("store_queue_push", key, value, size));
    if (!TS_STORE_OPTIONAL(store, queue_push)) return not_offered("store_queue_push", store);
    return store->klass->queue_push(store, key, value, size);
}

ts_status ts_store_queue_pop(ts_store *store, const char *key, bool block, void **value,
                             size_t *size)
{
    char where[256];
    size_t length = 0;
    if (value) *value = NULL;
    TS_TRY(ts_store_check_key("store_queue_pop", store, key));
    if (!value) return ts_fail(TS_EINVAL, "store_queue_pop: there is no place for the value");
    if (!TS_STORE_OPTIONAL(store, queue_pop)) return not_offered("store_queue_pop", store);
    TS_TRY(store->klass->queue_pop(store, key, block, ts_store_timeout(store), value, &length));
    if (size) *size = length;
    if (*value) return TS_OK;
    return ts_fail(TS_EEMPTY, "store_queue_pop: queue '%s' of %s is empty", key,
                   ts_store_describe(store, where, sizeof where));
}

ts_status ts_store_queue_len(ts_store *store, const char *key, int64_t *length)
{
    TS_TRY(ts_store_check_key("store_queue_len", store, key));
    if (!length) return ts_fail(TS_EINVAL, "store_queue_len: there is no place for the result");
    if (!TS_STORE_OPTIONAL(store, queue_len)) return not_offered("store_queue_len", store);
    return store->klass->queue_len(store, key, length);
}

/* ---- keys ------------------------------------------------------------------------------------ */

typedef struct key_list {
    ts_buffer text; /* each with its NUL */
    int64_t count;
} key_list;

static ts_status take_key(void *user, const char *key, size_t size)
{
    key_list *list = user;
    ts_buffer_put(&list->text, key, size);
    ts_buffer_put_byte(&list->text, '\0');
    list->count++;
    return list->text.failed ? ts_fail_memory(list->text.size, "the keys of a store") : TS_OK;
}

/* One block: the pointers, then the texts. */
static ts_status pack_keys(const key_list *list, char ***out)
{
    size_t lead = ((size_t)list->count + 1) * sizeof(char *);
    char **keys = malloc(lead + list->text.size);
    if (!keys) return ts_fail_memory(lead + list->text.size, "the keys of a store");
    char *at = (char *)keys + lead;
    if (list->text.size > 0) memcpy(at, list->text.data, list->text.size);
    for (int64_t i = 0; i < list->count; i++, at += strlen(at) + 1) keys[i] = at;
    keys[list->count] = NULL;
    *out = keys;
    return TS_OK;
}

ts_status ts_store_list_keys(ts_store *store, char ***keys, int64_t *count)
{
    key_list list = {0};
    if (!store || !keys || !count)
        return ts_fail(TS_EINVAL, "store_list_keys: %s is NULL", store ? "keys or count" : "store");
    *keys = NULL;
    *count = 0;
    if (!TS_STORE_OPTIONAL(store, list_keys)) return not_offered("store_list_keys", store);
    ts_status status = store->klass->list_keys(store, take_key, &list);
    if (status == TS_OK) status = pack_keys(&list, keys);
    if (status == TS_OK) *count = list.count;
    ts_buffer_fini(&list.text);
    return status;
}

/* ---- barriers -------------------------------------------------------------------------------- */

static ts_status too_few(ts_store *store, const char *key, int n, int64_t timeout_ms)
{
    char where[256];
    int64_t arrived = 0;
    ts_store_add(store, key, 0, &arrived);
    return ts_fail(TS_ETIMEOUT,
                   "%s: %" PRId64 " of %d have come to barrier '%s' within %" PRId64 " ms",
                   ts_store_describe(store, where, sizeof where), arrived, n, key, timeout_ms);
}

/* Who completes the number opens a gate for the others. */
static ts_status count_and_wait(ts_store *store, const char *key, int n, int64_t timeout_ms)
{
    int64_t arrived;
    TS_TRY(ts_store_add(store, key, 1, &arrived));
    char *gate = ts_asprintf("%s/open", key);
    if (!gate) return ts_fail_memory(strlen(key), "a key of the store");
    const char *keys[] = {gate};
    ts_status status =
        arrived >= n ? ts_store_set(store, gate, "", 0) : ts_store_wait(store, keys, 1, timeout_ms);
    free(gate);
    return status;
}

ts_status ts_store_barrier(ts_store *store, const char *key, int n, int64_t timeout_ms)
{
    TS_TRY(ts_store_check_key("store_barrier", store, key));
    if (n < 1) return ts_fail(TS_EINVAL, "store_barrier: %d callers; at least 1 is needed", n);
    TS_TRY(ts_store_check_timeout("store_barrier", store, &timeout_ms));
    ts_status status = TS_STORE_OPTIONAL(store, barrier)
                           ? store->klass->barrier(store, key, n, timeout_ms)
                           : count_and_wait(store, key, n, timeout_ms);
    return status == TS_ETIMEOUT ? too_few(store, key, n, timeout_ms) : status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions: arguments are checked here, once for every kind of store, and multi_set
 * is a loop where a class has none. */
#include "store/store_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/settings.h"

/* ---- handles --------------------------------------------------------------------------------- */

ts_status ts_store_new(ts_store **out, const ts_store_class *klass, void *state)
{
    if (!out || !klass) return ts_fail(TS_EINVAL, "store_new: %s is NULL", out ? "klass" : "out");
    *out = NULL;
    if (klass->struct_size < offsetof(ts_store_class, multi_set) || !klass->change ||
        !klass->fetch || !klass->check || !klass->num_keys || !klass->free)
        return ts_fail(TS_EINVAL,
                       "store_new: the class lacks struct_size or a function that it must have");
    ts_store *store = ts_calloc(1, sizeof *store);
    if (!store) return ts_fail_memory(sizeof *store, "a store");
    store->refs = 1;
    store->klass = klass;
    store->state = state;
    store->timeout_ms = ts_setting_int(TS_SETTING_STORE_TIMEOUT);
    *out = store;
    return TS_OK;
}

ts_store *ts_store_retain(ts_store *store)
{
    if (store) ts_ref_retain(&store->refs);
    return store;
}

void ts_store_free(ts_store *store)
{
    if (!store || !ts_ref_release(&store->refs)) return;
    store->klass->free(store);
    free(store);
}

void *ts_store_state(const ts_store *store) { return store->state; }

bool ts_store_is(const ts_store *store, const ts_store_class *klass)
{
    return store->klass == klass;
}

ts_store *ts_store_inner(const ts_store *store)
{
    return store && TS_STORE_OPTIONAL(store, inner) ? store->klass->inner(store) : NULL;
}

ts_store *ts_store_innermost(const ts_store *store)
{
    for (const ts_store *inner = store; inner; inner = ts_store_inner(inner)) store = inner;
    return (ts_store *)(uintptr_t)store;
}

const char *ts_store_describe(const ts_store *store, char *text, size_t size)
{
    if (TS_STORE_OPTIONAL(store, describe))
        store->klass->describe(store, text, size);
    else
        snprintf(text, size, "%s", store->klass->name ? store->klass->name : "store");
    return text;
}

ts_status ts_store_set_timeout(ts_store *store, int64_t timeout_ms)
{
    if (!store || timeout_ms < 0)
        return ts_fail(TS_EINVAL, "store_set_timeout: %s",
                       store ? "the limit is negative" : "store is NULL");
    ts_store_innermost(store)->timeout_ms = timeout_ms;
    return TS_OK;
}

int64_t ts_store_timeout(const ts_store *store)
{
    return store ? ts_store_innermost(store)->timeout_ms : -1;
}

/* ---- checks ---------------------------------------------------------------------------------- */

ts_status ts_store_check_key(const char *op, const ts_store *store, const char *key)
{
    if (!store) return ts_fail(TS_EINVAL, "%s: store is NULL", op);
    if (!key) return ts_fail(TS_EINVAL, "%s: a key is NULL", op);
    size_t size = strnlen(key, TS_STORE_MAX_KEY + 1);
    if (size > TS_STORE_MAX_KEY)
        return ts_fail(TS_EINVAL, "%s: key '%.32s...' is longer than %d bytes", op, key,
                       TS_STORE_MAX_KEY);
    return TS_OK;
}

ts_status ts_store_check_value(const char *op, const char *key, const void *value, size_t size)
{
    if (!value && size > 0)
        return ts_fail(TS_EINVAL, "%s: key '%s': value is NULL but size is %zu", op, key, size);
    if (size > TS_STORE_MAX_VALUE)
        return ts_fail(TS_EINVAL, "%s: key '%s': the value has %zu bytes, more than %d; split it",
                       op, key, size, TS_STORE_MAX_VALUE);
    return TS_OK;
}

static ts_status check_keys(const char *op, const ts_store *store, const char *const *keys, int n)
{
    if (!store) return ts_fail(TS_EINVAL, "%s: store is NULL", op);
    if (n < 0 || n > TS_STORE_MAX_KEYS)
        return ts_fail(TS_EINVAL, "%s: number of keys %d is not in 0 .. %d", op, n,
                       TS_STORE_MAX_KEYS);
    if (n > 0 && !keys) return ts_fail(TS_EINVAL, "%s: keys is NULL", op);
    for (int i = 0; i < n; i++) TS_TRY(ts_store_check_key(op, store, keys[i]));
    return TS_OK;
}

ts_status ts_store_check_timeout(const char *op, const ts_store *store, int64_t *timeout_ms)
{
    if (*timeout_ms < -1)
        return ts_fail(TS_EINVAL, "%s: time limit %" PRId64 " ms; -1 is the store's, 0 none", op,
                       *timeout_ms);
    if (*timeout_ms == -1) *timeout_ms = ts_store_timeout(store);
    return TS_OK;
}

/* ---- changes --------------------------------------------------------------------------------- */

static ts_status change_key(const char *op, ts_store *store, ts_store_change *change)
{
    TS_TRY(ts_store_check_key(op, store, change->key));
    TS_TRY(ts_store_check_value(op, change->key, change->value, change->size));
    TS_TRY(ts_store_check_value(op, change->key, change->expected, change->expected_size));
    return store->klass->change(store, change);
}

ts_status ts_store_set(ts_store *store, const char *key, const void *value, size_t size)
{
    ts_store_change change = {.op = TS_STORE_SET, .key = key, .value = value, .size = size};
    return change_key("store_set", store, &change);
}

ts_status ts_store_add(ts_store *store, const char *key, int64_t n, int64_t *total)
{
    ts_store_change change = {.op = TS_STORE_ADD, .key = key, .n = n};
    TS_TRY(change_key("store_add", store, &change));
    if (total) *total = change.total;
    return TS_OK;
}

ts_status ts_store_compare_set(ts_store *store, const char *key, const void *expected,
                               size_t expected_size, const void *desired, size_t desired_size,
                               void **value, size_t *size)
{
    ts_store_change change = {.op = TS_STORE_COMPARE_SET,
                              .key = key,
                              .value = desired,
                              .size = desired_size,
                              .expected = expected,
                              .expected_size = expected_size};
    if (value) *value = NULL;
    TS_TRY(change_key("store_compare_set", store, &change));
    if (size) *size = change.result_size;
    if (value)
        *value = change.result;
    else
        free(change.result);
    return TS_OK;
}

ts_status ts_store_append(ts_store *store, const char *key, const void *value, size_t size)
{
    ts_store_change change = {.op = TS_STORE_APPEND, .key = key, .value = value, .size = size};
    return change_key("store_append", store, &change);
}

ts_status ts_store_delete_key(ts_store *store, const char *key, bool *existed)
{
    ts_store_change change = {.op = TS_STORE_DELETE, .key = key};
    TS_TRY(change_key("store_delete_key", store, &change));
    if (existed) *existed = change.existed;
    return TS_OK;
}

ts_status ts_store_multi_set(ts_store *store, const char *const *keys, int n,
                             const void *const *values, const size_t *sizes)
{
    TS_TRY(check_keys("store_multi_set", store, keys, n));
    if (n > 0 && (!values || !sizes))
        return ts_fail(TS_EINVAL, "store_multi_set: values or sizes is NULL");
    for (int i = 0; i < n; i++)
        TS_TRY(ts_store_check_value("store_multi_set", keys[i], values[i], sizes[i]));
    if (n == 0) return TS_OK;
    if (TS_STORE_OPTIONAL(store, multi_set))
        return store->klass->multi_set(store, keys, n, values, sizes);
    for (int i = 0; i < n; i++) TS_TRY(ts_store_set(store, keys[i], values[i], sizes[i]));
    return TS_OK;
}

/* ---- queries --------------------------------------------------------------------------------- */

ts_status ts_store_fetch(ts_store *store, const char *const *keys, int n, int64_t timeout_ms,
                         void **values, size_t *sizes)
{
    for (int i = 0; values && i < n; i++) values[i] = NULL;
    TS_TRY(check_keys("store_get", store, keys, n));
    TS_TRY(ts_store_check_timeout("store_get", store, &timeout_ms));
    if (n > 0 && !values) return ts_fail(TS_EINVAL, "store_get: there is no place for the value");
    if (n == 0) return TS_OK;
    ts_status status = store->klass->fetch(store, keys, n, timeout_ms, values, sizes);
    for (int i = 0; status != TS_OK && i < n; i++) {
        free(values[i]);
        values[i] = NULL;
    }
    return status;
}

ts_status ts_store_multi_get(ts_store *store, const char *const *keys, int n, void **values,
                             size_t *sizes)
{
    return ts_store_fetch(store, keys, n, -1, values, sizes);
}

ts_status ts_store_get(ts_store *store, const char *key, void **value, size_t *size)
{
    return ts_store_fetch(store, &key, 1, -1, value, size);
}

ts_status ts_store_wait(ts_store *store, const char *const *keys, int n, int64_t timeout_ms)
{
    TS_TRY(check_keys("store_wait", store, keys, n));
    TS_TRY(ts_store_check_timeout("store_wait", store, &timeout_ms));
    return n == 0 ? TS_OK : store->klass->fetch(store, keys, n, timeout_ms, NULL, NULL);
}

ts_status ts_store_check(ts_store *store, const char *const *keys, int n, bool *all_exist)
{
    TS_TRY(check_keys("store_check", store, keys, n));
    if (!all_exist) return ts_fail(TS_EINVAL, "store_check: there is no place for the result");
    *all_exist = true;
    return n == 0 ? TS_OK : store->klass->check(store, keys, n, all_exist);
}

ts_status ts_store_num_keys(ts_store *store, int64_t *count)
{
    if (!store || !count)
        return ts_fail(TS_EINVAL, "store_num_keys: %s is NULL", store ? "count" : "store");
    return store->klass->num_keys(store, count);
}

ts_status ts_store_fail_missing(ts_store *store, const char *const *keys, int n, int64_t timeout_ms)
{
    char list[1024], where[256];
    size_t used = 0;
    int missing = 0, shown = 0;
    for (int i = 0; i < n && missing < 1000; i++) { /* asks for each key: bounded */
        bool there = false;
        if (store->klass->check(store, &keys[i], 1, &there) == TS_OK && there) continue;
        missing++;
        if (used + strlen(keys[i]) + 8 > sizeof list) continue;
        used += (size_t)snprintf(list + used, sizeof list - used, "%s'%s'", shown++ ? ", " : "",
                                 keys[i]);
    }
    list[used] = '\0';
    if (shown < missing) snprintf(list + used, sizeof list - used, " (%d keys)", missing);
    return ts_fail(TS_ETIMEOUT, "%s: after waiting %" PRId64 " ms still missing: %s",
                   ts_store_describe(store, where, sizeof where), timeout_ms,
                   missing ? list : "nothing, just now");
}

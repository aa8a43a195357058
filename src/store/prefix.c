/* SPDX-License-Identifier: Apache-2.0 */
/* A store whose keys lie under a prefix in another store. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/store.h"
#include "store/table.h"

typedef struct prefix_store {
    ts_store *inner;
    char *prefix;
} prefix_store;

/* One block: the pointers, then the texts.  NULL: out of memory. */
static const char **prefixed(const prefix_store *p, const char *const *keys, int n)
{
    size_t lead = strlen(p->prefix), total = (size_t)n * sizeof(char *);
    for (int i = 0; i < n; i++) total += lead + strlen(keys[i]) + 2;
    const char **list = malloc(total);
    if (!list) return NULL;
    char *text = (char *)(list + n);
    for (int i = 0; i < n; i++) {
        list[i] = text;
        text = stpcpy(text, p->prefix);
        *text++ = '/';
        text = stpcpy(text, keys[i]) + 1;
    }
    return list;
}

static ts_status no_room(void) { return ts_fail_memory(0, "the keys of a prefix store"); }

static ts_status forward_change(ts_store *inner, ts_store_change *c)
{
    switch (c->op) {
    case TS_STORE_SET: return ts_store_set(inner, c->key, c->value, c->size);
    case TS_STORE_APPEND: return ts_store_append(inner, c->key, c->value, c->size);
    case TS_STORE_ADD: return ts_store_add(inner, c->key, c->n, &c->total);
    case TS_STORE_DELETE: return ts_store_delete_key(inner, c->key, &c->existed);
    case TS_STORE_COMPARE_SET: break;
    }
    return ts_store_compare_set(inner, c->key, c->expected, c->expected_size, c->value, c->size,
                                &c->result, &c->result_size);
}

static ts_status prefix_change(ts_store *store, ts_store_change *change)
{
    prefix_store *p = ts_store_state(store);
    const char *own = change->key, **list = prefixed(p, &own, 1);
    if (!list) return no_room();
    change->key = list[0];
    ts_status status = forward_change(p->inner, change);
    change->key = own;
    free(list);
    return status;
}

static ts_status prefix_fetch(ts_store *store, const char *const *keys, int n, int64_t timeout_ms,
                              void **values, size_t *sizes)
{
    prefix_store *p = ts_store_state(store);
    const char **list = prefixed(p, keys, n);
    if (!list) return no_room();
    ts_status status = values ? ts_store_fetch(p->inner, list, n, timeout_ms, values, sizes)
                              : ts_store_wait(p->inner, list, n, timeout_ms);
    free(list);
    return status;
}

static ts_status prefix_check(ts_store *store, const char *const *keys, int n, bool *all_exist)
{
    prefix_store *p = ts_store_state(store);
    const char **list = prefixed(p, keys, n);
    if (!list) return no_room();
    ts_status status = ts_store_check(p->inner, list, n, all_exist);
    free(list);
    return status;
}

static ts_status prefix_multi_set(ts_store *store, const char *const *keys, int n,
                                  const void *const *values, const size_t *sizes)
{
    prefix_store *p = ts_store_state(store);
    const char **list = prefixed(p, keys, n);
    if (!list) return no_room();
    ts_status status = ts_store_multi_set(p->inner, list, n, values, sizes);
    free(list);
    return status;
}

static ts_status prefix_queue_push(ts_store *store, const char *key, const void *value, size_t size)
{
    prefix_store *p = ts_store_state(store);
    const char **list = prefixed(p, &key, 1);
    if (!list) return no_room();
    ts_status status = ts_store_queue_push(p->inner, list[0], value, size);
    free(list);
    return status;
}

/* The time limit is that of the inner store anyway. */
static ts_status prefix_queue_pop(ts_store *store, const char *key, bool block, int64_t timeout_ms,
                                  void **value, size_t *size)
{
    prefix_store *p = ts_store_state(store);
    const char **list = prefixed(p, &key, 1);
    (void)timeout_ms;
    if (!list) return no_room();
    ts_status status = ts_store_queue_pop(p->inner, list[0], block, value, size);
    free(list);
    return status;
}

static ts_status prefix_queue_len(ts_store *store, const char *key, int64_t *length)
{
    prefix_store *p = ts_store_state(store);
    const char **list = prefixed(p, &key, 1);
    if (!list) return no_room();
    ts_status status = ts_store_queue_len(p->inner, list[0], length);
    free(list);
    return status;
}

static ts_status prefix_barrier(ts_store *store, const char *key, int n, int64_t timeout_ms)
{
    prefix_store *p = ts_store_state(store);
    const char **list = prefixed(p, &key, 1);
    if (!list) return no_room();
    ts_status status = ts_store_barrier(p->inner, list[0], n, timeout_ms);
    free(list);
    return status;
}

static ts_status prefix_list_keys(ts_store *store, ts_store_key_fn *take, void *user)
{
    prefix_store *p = ts_store_state(store);
    size_t lead = strlen(p->prefix);
    char **keys;
    int64_t count;
    TS_TRY(ts_store_list_keys(p->inner, &keys, &count));
    ts_status status = TS_OK;
    for (int64_t i = 0; i < count && status == TS_OK; i++)
        if (strncmp(keys[i], p->prefix, lead) == 0 && keys[i][lead] == '/')
            status = take(user, keys[i] + lead + 1, strlen(keys[i] + lead + 1));
    free(keys);
    return status;
}

static ts_status prefix_clone(ts_store **out, ts_store *store)
{
    prefix_store *p = ts_store_state(store);
    ts_store *inner;
    TS_TRY(ts_store_clone(&inner, p->inner));
    ts_status status = ts_prefix_store_new(out, p->prefix, inner);
    ts_store_free(inner);
    return status;
}

static ts_status prefix_num_keys(ts_store *store, int64_t *count)
{
    return ts_store_num_keys(((prefix_store *)ts_store_state(store))->inner, count);
}

static ts_store *prefix_inner(const ts_store *store)
{
    return ((prefix_store *)ts_store_state(store))->inner;
}

static void prefix_describe(const ts_store *store, char *text, size_t size)
{
    ts_store_describe(prefix_inner(store), text, size);
}

static void prefix_free(ts_store *store)
{
    prefix_store *p = ts_store_state(store);
    ts_store_free(p->inner);
    free(p->prefix);
    free(p);
}

static const ts_store_class prefix_class = {
    .struct_size = sizeof(ts_store_class),
    .name = "prefix store",
    .change = prefix_change,
    .fetch = prefix_fetch,
    .check = prefix_check,
    .num_keys = prefix_num_keys,
    .free = prefix_free,
    .multi_set = prefix_multi_set,
    .describe = prefix_describe,
    .inner = prefix_inner,
    .queue_push = prefix_queue_push,
    .queue_pop = prefix_queue_pop,
    .queue_len = prefix_queue_len,
    .list_keys = prefix_list_keys,
    .barrier = prefix_barrier,
    .clone = prefix_clone,
};

ts_status ts_prefix_store_new(ts_store **out, const char *prefix, ts_store *store)
{
    if (!out || !prefix || !store)
        return ts_fail(TS_EINVAL, "prefix_store: %s is NULL",
                       !out      ? "out"
                       : !prefix ? "prefix"
                                 : "store");
    prefix_store *p = ts_calloc(1, sizeof *p);
    if (!p) return ts_fail_memory(sizeof *p, "a prefix store");
    p->prefix = ts_strdup(prefix);
    ts_status status = p->prefix ? ts_store_new(out, &prefix_class, p) : no_room();
    if (status != TS_OK) {
        free(p->prefix);
        free(p);
        return status;
    }
    p->inner = ts_store_retain(store);
    return TS_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The store in memory, for ranks that are threads of one process. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "store/table.h"

typedef struct hash_store {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    ts_table table;
} hash_store;

static ts_status hash_change(ts_store *store, ts_store_change *change)
{
    hash_store *h = ts_store_state(store);
    bool written;
    pthread_mutex_lock(&h->lock);
    ts_status status = ts_table_change_text(&h->table, "", change, &written);
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    return status;
}

static ts_status hash_multi_set(ts_store *store, const char *const *keys, int n,
                                const void *const *values, const size_t *sizes)
{
    hash_store *h = ts_store_state(store);
    ts_status status = TS_OK;
    pthread_mutex_lock(&h->lock);
    for (int i = 0; i < n && status == TS_OK; i++) {
        ts_table_change c = {
            .op = TS_STORE_SET, .key = ts_bytes_of(keys[i]), .value = {values[i], sizes[i]}};
        status = ts_table_apply(&h->table, &c);
    }
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    return status;
}

/* False: the deadline has passed. */
static bool await_change(hash_store *h, ts_deadline deadline)
{
    if (deadline.at_ns == INT64_MAX) return pthread_cond_wait(&h->changed, &h->lock), true;
    struct timespec at = {deadline.at_ns / 1000000000, deadline.at_ns % 1000000000};
    return pthread_cond_timedwait(&h->changed, &h->lock, &at) != ETIMEDOUT;
}

static ts_status hash_fetch(ts_store *store, const char *const *keys, int n, int64_t timeout_ms,
                            void **values, size_t *sizes)
{
    hash_store *h = ts_store_state(store);
    ts_deadline deadline = ts_deadline_in(timeout_ms);
    ts_status status = TS_OK;
    pthread_mutex_lock(&h->lock);
    bool in_time = true, all = ts_table_has_all(&h->table, "", keys, n);
    while (!all && in_time) {
        in_time = await_change(h, deadline);
        all = ts_table_has_all(&h->table, "", keys, n);
    }
    if (all && values) status = ts_table_copy_all(&h->table, "", keys, n, values, sizes);
    pthread_mutex_unlock(&h->lock);
    return all ? status : ts_store_fail_missing(store, keys, n, timeout_ms);
}

static ts_status hash_check(ts_store *store, const char *const *keys, int n, bool *all_exist)
{
    hash_store *h = ts_store_state(store);
    pthread_mutex_lock(&h->lock);
    *all_exist = ts_table_has_all(&h->table, "", keys, n);
    pthread_mutex_unlock(&h->lock);
    return TS_OK;
}

static ts_status hash_num_keys(ts_store *store, int64_t *count)
{
    hash_store *h = ts_store_state(store);
    pthread_mutex_lock(&h->lock);
    *count = h->table.keys;
    pthread_mutex_unlock(&h->lock);
    return TS_OK;
}

static ts_status hash_queue_push(ts_store *store, const char *key, const void *value, size_t size)
{
    hash_store *h = ts_store_state(store);
    pthread_mutex_lock(&h->lock);
    ts_status status = ts_table_push(&h->table, ts_bytes_of(key), (ts_bytes){value, size});
    pthread_cond_broadcast(&h->changed); /* of those who wait for the queue one will find it */
    pthread_mutex_unlock(&h->lock);
    return status;
}

static ts_status hash_queue_pop(ts_store *store, const char *key, bool block, int64_t timeout_ms,
                                void **value, size_t *size)
{
    hash_store *h = ts_store_state(store);
    ts_deadline deadline = ts_deadline_in(timeout_ms);
    bool there, in_time = true;
    pthread_mutex_lock(&h->lock);
    while (there = ts_table_queued(&h->table, ts_bytes_of(key)) > 0, !there && block && in_time)
        in_time = await_change(h, deadline);
    ts_status status = there ? ts_table_pop(&h->table, ts_bytes_of(key), value, size) : TS_OK;
    pthread_mutex_unlock(&h->lock);
    return there || !block ? status : ts_store_fail_missing(store, &key, 1, timeout_ms);
}

static ts_status hash_queue_len(ts_store *store, const char *key, int64_t *length)
{
    hash_store *h = ts_store_state(store);
    pthread_mutex_lock(&h->lock);
    *length = ts_table_queued(&h->table, ts_bytes_of(key));
    pthread_mutex_unlock(&h->lock);
    return TS_OK;
}

static ts_status hash_list_keys(ts_store *store, ts_store_key_fn *take, void *user)
{
    hash_store *h = ts_store_state(store);
    pthread_mutex_lock(&h->lock);
    ts_status status = ts_table_list(&h->table, "", take, user);
    pthread_mutex_unlock(&h->lock);
    return status;
}

static void hash_free(ts_store *store)
{
    hash_store *h = ts_store_state(store);
    ts_table_fini(&h->table);
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

static const ts_store_class hash_class = {
    .struct_size = sizeof(ts_store_class),
    .name = "hash store",
    .change = hash_change,
    .fetch = hash_fetch,
    .check = hash_check,
    .num_keys = hash_num_keys,
    .free = hash_free,
    .multi_set = hash_multi_set,
    .queue_push = hash_queue_push,
    .queue_pop = hash_queue_pop,
    .queue_len = hash_queue_len,
    .list_keys = hash_list_keys,
};

ts_status ts_hash_store_new(ts_store **out)
{
    if (!out) return ts_fail(TS_EINVAL, "hash_store: out is NULL");
    hash_store *h = ts_calloc(1, sizeof *h);
    if (!h) return ts_fail_memory(sizeof *h, "a hash store");
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&h->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&h->lock, NULL);
    ts_status status = ts_store_new(out, &hash_class, h);
    if (status != TS_OK) free(h);
    return status;
}

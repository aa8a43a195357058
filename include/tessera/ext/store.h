/* SPDX-License-Identifier: Apache-2.0 */
/* For those who bring their own store: fill in a ts_store_class and make handles with ts_store_new.
 *
 * Arguments reach the class checked: keys are text of at most TS_STORE_MAX_KEY bytes, values have
 * at most TS_STORE_MAX_VALUE bytes, n is at least 1, timeout_ms is 0 (no limit) or positive.  Calls
 * come from several threads at once, and one that waits must not hold up the others. */
#ifndef TESSERA_EXT_STORE_H
#define TESSERA_EXT_STORE_H

#include <tessera/store.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    TS_STORE_MAX_KEY = 8000,
    TS_STORE_MAX_VALUE = 8 * 1024 * 1024,
    TS_STORE_MAX_KEYS = 128 * 1024
};

typedef enum ts_store_op {
    TS_STORE_SET = 0,    /* value */
    TS_STORE_APPEND = 1, /* value; cannot be made of COMPARE_SET, whose result may be another's */
    TS_STORE_ADD = 2,    /* n -> total */
    TS_STORE_COMPARE_SET = 3, /* expected, value -> result (malloc'd, NUL behind it) */
    TS_STORE_DELETE = 4       /* -> existed */
} ts_store_op;

/* One atomic change of one key: what to do and, below, what came out. */
typedef struct ts_store_change {
    ts_store_op op;
    const char *key;
    const void *value;
    size_t size;
    const void *expected;
    size_t expected_size;
    int64_t n;

    int64_t total;
    void *result;
    size_t result_size;
    bool existed;
} ts_store_change;

/* size bytes, not NUL-terminated. */
typedef ts_status ts_store_key_fn(void *user, const char *key, size_t size);

typedef struct ts_store_class {
    size_t struct_size;
    const char *name; /* "file store", for messages */
    ts_status (*change)(ts_store *store, ts_store_change *change);
    /* Waits until all keys exist, then copies their values (malloc'd, NUL behind; values NULL: only
     * waits).  At the limit: ts_store_fail_missing. */
    ts_status (*fetch)(ts_store *store, const char *const *keys, int n, int64_t timeout_ms,
                       void **values, size_t *sizes);
    ts_status (*check)(ts_store *store, const char *const *keys, int n, bool *all_exist);
    ts_status (*num_keys)(ts_store *store, int64_t *count);
    void (*free)(ts_store *store); /* of the state, when the last reference goes */
    /* Any of these may be NULL. */
    ts_status (*multi_set)(ts_store *store, const char *const *keys, int n,
                           const void *const *values, const size_t *sizes);
    void (*describe)(const ts_store *store, char *text,
                     size_t size); /* "TCP store 10.0.0.1:29500" */
    ts_store *(*inner)(
        const ts_store *store); /* the store that this one wraps; its time limit rules */
    ts_status (*queue_push)(ts_store *store, const char *key, const void *value, size_t size);
    /* *value stays NULL if the queue is empty and block is false. */
    ts_status (*queue_pop)(ts_store *store, const char *key, bool block, int64_t timeout_ms,
                           void **value, size_t *size);
    ts_status (*queue_len)(ts_store *store, const char *key, int64_t *length);
    /* Calls take for every key of users, until it fails. */
    ts_status (*list_keys)(ts_store *store, ts_store_key_fn *take, void *user);
    ts_status (*barrier)(ts_store *store, const char *key, int n, int64_t timeout_ms);
    ts_status (*clone)(ts_store **out, ts_store *store); /* NULL: a reference */
} ts_store_class;

/* klass must outlive the store.  On failure state stays yours. */
TS_API ts_status ts_store_new(ts_store **out, const ts_store_class *klass, void *state);
TS_API void *ts_store_state(const ts_store *store);

/* The wrapped store of a prefix store, NULL for others; and the one inside all wrappers. */
TS_API ts_store *ts_store_inner(const ts_store *store);
TS_API ts_store *ts_store_innermost(const ts_store *store);

/* Name with address, into text, which is returned. */
TS_API const char *ts_store_describe(const ts_store *store, char *text, size_t size);

/* TS_ETIMEOUT that names the keys that are still missing, the limit and the store. */
TS_API ts_status ts_store_fail_missing(ts_store *store, const char *const *keys, int n,
                                       int64_t timeout_ms);

#ifdef __cplusplus
}
#endif
#endif

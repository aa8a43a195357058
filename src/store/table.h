/* SPDX-License-Identifier: Apache-2.0 */
/* The dictionary inside the hash store, the file store and the TCP server: keys and values are
 * bytes; a key may also name a queue.  Not locked. */
#ifndef TS_STORE_TABLE_H
#define TS_STORE_TABLE_H

#include <tessera/ext/store.h>

#include "base/error.h"

typedef struct ts_bytes {
    const char *data;
    size_t size;
} ts_bytes;

ts_bytes ts_bytes_of(const char *text);

typedef struct ts_entry {
    struct ts_entry *next;
    uint64_t hash;
    bool present; /* has a value */
    char *value;
    size_t size, capacity;
    struct ts_queued *first, *last; /* its queue */
    int64_t queued;
    struct ts_waiter *waiters; /* of the TCP server; keeps the entry even if it holds nothing */
    size_t key_size;
    char key[];
} ts_entry;

typedef struct ts_table {
    ts_entry **bucket;
    size_t buckets, entries;
    int64_t keys; /* entries with a value */
} ts_table;

void ts_table_fini(ts_table *table);
ts_entry *ts_table_find(const ts_table *table, ts_bytes key); /* NULL: absent */
ts_entry *ts_table_make(ts_table *table, ts_bytes key); /* found or new; NULL: out of memory */
void ts_table_tidy(ts_table *table, ts_entry *entry);   /* frees an entry that holds nothing */
/* All entries, in no order: NULL begins, and NULL ends. */
ts_entry *ts_table_next(const ts_table *table, const ts_entry *entry);

/* Has a value or a queue that is not empty.  NULL is fine. */
bool ts_entry_exists(const ts_entry *entry);

/* A change in terms of bytes, for keys that need not be text.  result points into the table or to
 * expected, valid until the next change; existed: for DELETE. */
typedef struct ts_table_change {
    ts_store_op op;
    ts_bytes key, value, expected;
    int64_t n;
    int64_t total;
    ts_bytes result;
    bool existed;
    bool written; /* the table differs from before */
} ts_table_change;
ts_status ts_table_apply(ts_table *table, ts_table_change *change);

/* Applies change to key lead + change->key and fills in its results. */
ts_status ts_table_change_text(ts_table *table, const char *lead, ts_store_change *change,
                               bool *written);

/* old + n, where old is decimal text (empty key: old.data NULL counts as 0).  TS_ESTORE naming key.
 */
ts_status ts_add_number(int64_t *total, ts_bytes key, ts_bytes old, int64_t n);

/* TS_ESTORE: the key is a queue, or has a value, and cannot be both. */
ts_status ts_fail_mixed(ts_bytes key, bool is_queue);

ts_status ts_table_push(ts_table *table, ts_bytes key, ts_bytes value);
/* The oldest value into *value (malloc'd, NUL behind it); the queue must not be empty. */
ts_status ts_table_pop(ts_table *table, ts_bytes key, void **value, size_t *size);
int64_t ts_table_queued(const ts_table *table, ts_bytes key);

/* Hands over the keys that have a value and begin with lead, without it, until take fails. */
ts_status ts_table_list(const ts_table *table, const char *lead, ts_store_key_fn *take, void *user);

/* For text keys, each with lead in front. */
bool ts_table_has_all(const ts_table *table, const char *lead, const char *const *keys, int n);
ts_status ts_table_copy_all(const ts_table *table, const char *lead, const char *const *keys, int n,
                            void **values, size_t *sizes);

/* malloc'd copy with a NUL behind it. */
ts_status ts_copy_value(void **out, size_t *size, ts_bytes value);

#endif

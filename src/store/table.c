/* SPDX-License-Identifier: Apache-2.0 */
/* Chained hashing; the number of buckets is a power of two and doubles with the entries. */
#include "store/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

typedef struct ts_queued {
    struct ts_queued *next;
    size_t size;
    char value[];
} ts_queued;

ts_bytes ts_bytes_of(const char *text) { return (ts_bytes){text, strlen(text)}; }

static bool bytes_equal(ts_bytes a, ts_bytes b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static uint64_t hash_bytes(ts_bytes key)
{
    uint64_t h = 1469598103934665603u; /* FNV-1a */
    for (size_t i = 0; i < key.size; i++) h = (h ^ (unsigned char)key.data[i]) * 1099511628211u;
    return h ^ (h >> 29);
}

/* ---- entries --------------------------------------------------------------------------------- */

static void free_entry(ts_entry *entry)
{
    for (ts_queued *q = entry->first; q;) {
        ts_queued *next = q->next;
        free(q);
        q = next;
    }
    free(entry->value);
    free(entry);
}

void ts_table_fini(ts_table *table)
{
    for (size_t i = 0; i < table->buckets; i++) {
        for (ts_entry *e = table->bucket[i]; e;) {
            ts_entry *next = e->next;
            free_entry(e);
            e = next;
        }
    }
    free(table->bucket);
    *table = (ts_table){0};
}

static ts_entry *find(const ts_table *table, ts_bytes key, uint64_t hash)
{
    if (table->buckets == 0) return NULL;
    ts_entry *e = table->bucket[hash & (table->buckets - 1)];
    while (e && !(e->hash == hash && bytes_equal((ts_bytes){e->key, e->key_size}, key)))
        e = e->next;
    return e;
}

ts_entry *ts_table_find(const ts_table *table, ts_bytes key)
{
    return find(table, key, hash_bytes(key));
}

static int grow(ts_table *table)
{
    if (table->entries < table->buckets) return 1;
    size_t buckets = table->buckets ? 2 * table->buckets : 16;
    ts_entry **bucket = ts_calloc(buckets, sizeof(ts_entry *));
    if (!bucket) return table->buckets > 0; /* longer chains are still right */
    for (size_t i = 0; i < table->buckets; i++) {
        for (ts_entry *e = table->bucket[i]; e;) {
            ts_entry *next = e->next;
            e->next = bucket[e->hash & (buckets - 1)];
            bucket[e->hash & (buckets - 1)] = e;
            e = next;
        }
    }
    free(table->bucket);
    table->bucket = bucket;
    table->buckets = buckets;
    return 1;
}

ts_entry *ts_table_make(ts_table *table, ts_bytes key)
{
    uint64_t hash = hash_bytes(key);
    ts_entry *e = find(table, key, hash);
    if (e) return e;
    if (!grow(table)) return NULL;
    e = ts_calloc(1, sizeof *e + key.size);
    if (!e) return NULL;
    if (key.size > 0) memcpy(e->key, key.data, key.size);
    e->key_size = key.size;
    e->hash = hash;
    e->next = table->bucket[hash & (table->buckets - 1)];
    table->bucket[hash & (table->buckets - 1)] = e;
    table->entries++;
    return e;
}

bool ts_entry_exists(const ts_entry *entry)
{
    return entry && (entry->present || entry->queued > 0);
}

void ts_table_tidy(ts_table *table, ts_entry *entry)
{
    if (ts_entry_exists(entry) || entry->waiters) return;
    ts_entry **link = &table->bucket[entry->hash & (table->buckets - 1)];
    while (*link != entry) link = &(*link)->next;
    *link = entry->next;
    table->entries--;
    free_entry(entry);
}

ts_entry *ts_table_next(const ts_table *table, const ts_entry *entry)
{
    if (entry && entry->next) return entry->next;
    size_t i = entry ? (entry->hash & (table->buckets - 1)) + 1 : 0;
    while (i < table->buckets && !table->bucket[i]) i++;
    return i < table->buckets ? table->bucket[i] : NULL;
}

/* ---- changes --------------------------------------------------------------------------------- */

static int append_value(ts_table *table, ts_entry *e, ts_bytes value)
{
    if (value.size > SIZE_MAX / 4 - e->size) return 0;
    size_t size = e->size + value.size;
    if (size > e->capacity || !e->value) {
        size_t capacity = size > 2 * e->capacity ? size : 2 * e->capacity;
        char *grown = ts_grow(e->value, capacity + 1, 1);
        if (!grown) return 0;
        e->value = grown;
        e->capacity = capacity;
    }
    if (value.size > 0) memcpy(e->value + e->size, value.data, value.size);
    e->size = size;
    table->keys += !e->present;
    e->present = true;
    return 1;
}

ts_status ts_fail_mixed(ts_bytes key, bool is_queue)
{
    return ts_fail(TS_ESTORE, "store: key '%.*s' %s; use another key", (int)key.size, key.data,
                   is_queue ? "is a queue, which cannot have a value too"
                            : "has a value, so it cannot be a queue too");
}

static ts_status put(ts_table *table, ts_bytes key, ts_bytes value, bool append)
{
    ts_entry *e = ts_table_make(table, key);
    if (!e) return ts_fail_memory(key.size, "a key of the store");
    if (e->queued > 0) return ts_fail_mixed(key, true);
    size_t former = e->size;
    if (!append) e->size = 0;
    if (append_value(table, e, value)) return TS_OK;
    e->size = former;
    ts_table_tidy(table, e);
    return ts_fail_memory(value.size, "a value of the store");
}

ts_status ts_add_number(int64_t *total, ts_bytes key, ts_bytes old, int64_t n)
{
    char text[32] = "0", *end = text;
    int64_t value = 0;
    bool fits =
        !old.data || (old.size > 0 && old.size < sizeof text && !memchr(old.data, '\0', old.size));
    if (fits && old.data) {
        memcpy(text, old.data, old.size);
        text[old.size] = '\0';
        value = strtoll(text, &end, 10);
        fits = *end == '\0' && (text[0] == '-' || (text[0] >= '0' && text[0] <= '9'));
    }
    if (!fits)
        return ts_fail(TS_ESTORE, "store: add: key '%.*s' holds '%.*s', which is not a number",
                       (int)key.size, key.data, (int)(old.size < 64 ? old.size : 64), old.data);
    if (__builtin_add_overflow(value, n, total))
        return ts_fail(TS_ESTORE,
                       "store: add: key '%.*s': %" PRId64 " + %" PRId64 " exceeds 64 bits",
                       (int)key.size, key.data, value, n);
    return TS_OK;
}

static ts_status apply_add(ts_table *table, ts_table_change *change)
{
    char text[32];
    const ts_entry *e = ts_table_find(table, change->key);
    ts_bytes old = e && e->present ? (ts_bytes){e->value, e->size} : (ts_bytes){NULL, 0};
    TS_TRY(ts_add_number(&change->total, change->key, old, change->n));
    snprintf(text, sizeof text, "%" PRId64, change->total);
    return put(table, change->key, ts_bytes_of(text), false);
}

static ts_status apply_compare_set(ts_table *table, ts_table_change *change)
{
    const ts_entry *e = ts_table_find(table, change->key);
    bool present = e && e->present;
    bool store = present ? bytes_equal((ts_bytes){e->value, e->size}, change->expected)
                         : change->expected.size == 0;
    change->written = store;
    if (store) TS_TRY(put(table, change->key, change->value, false));
    e = ts_table_find(table, change->key);
    change->result = e && e->present ? (ts_bytes){e->value, e->size} : change->expected;
    return TS_OK;
}

static void apply_delete(ts_table *table, ts_table_change *change)
{
    ts_entry *e = ts_table_find(table, change->key);
    change->existed = change->written = e && e->present;
    if (!change->existed) return;
    free(e->value);
    e->value = NULL;
    e->size = e->capacity = 0;
    e->present = false;
    table->keys--;
    ts_table_tidy(table, e);
}

ts_status ts_table_apply(ts_table *table, ts_table_change *change)
{
    change->written = true;
    switch (change->op) {
    case TS_STORE_SET: return put(table, change->key, change->value, false);
    case TS_STORE_APPEND: return put(table, change->key, change->value, true);
    case TS_STORE_ADD: return apply_add(table, change);
    case TS_STORE_COMPARE_SET: return apply_compare_set(table, change);
    case TS_STORE_DELETE: return apply_delete(table, change), TS_OK;
    }
    return ts_fail(TS_EINVAL, "store: no operation has number %d", (int)change->op);
}

/* ---- queues ---------------------------------------------------------------------------------- */

ts_status ts_table_push(ts_table *table, ts_bytes key, ts_bytes value)
{
    ts_queued *q = ts_calloc(1, sizeof *q + value.size);
    ts_entry *e = q ? ts_table_make(table, key) : NULL;
    if (!e) {
        free(q);
        return ts_fail_memory(value.size, "a value of a queue");
    }
    if (e->present) {
        free(q);
        return ts_fail_mixed(key, false);
    }
    q->size = value.size;
    if (value.size > 0) memcpy(q->value, value.data, value.size);
    *(e->last ? &e->last->next : &e->first) = q;
    e->last = q;
    e->queued++;
    return TS_OK;
}

ts_status ts_table_pop(ts_table *table, ts_bytes key, void **value, size_t *size)
{
    ts_entry *e = ts_table_find(table, key);
    ts_queued *q = e->first;
    TS_TRY(ts_copy_value(value, size, (ts_bytes){q->value, q->size}));
    e->first = q->next;
    if (!e->first) e->last = NULL;
    e->queued--;
    free(q);
    ts_table_tidy(table, e);
    return TS_OK;
}

int64_t ts_table_queued(const ts_table *table, ts_bytes key)
{
    const ts_entry *e = ts_table_find(table, key);
    return e ? e->queued : 0;
}

ts_status ts_table_list(const ts_table *table, const char *lead, ts_store_key_fn *take, void *user)
{
    size_t size = strlen(lead);
    for (const ts_entry *e = NULL; (e = ts_table_next(table, e));)
        if (e->present && e->key_size >= size && memcmp(e->key, lead, size) == 0)
            TS_TRY(take(user, e->key + size, e->key_size - size));
    return TS_OK;
}

/* ---- keys that are text ---------------------------------------------------------------------- */

typedef char key_room[TS_STORE_MAX_KEY + 16];

static ts_bytes join_key(key_room room, const char *lead, const char *key)
{
    if (!*lead) return ts_bytes_of(key);
    int size = snprintf(room, sizeof(key_room), "%s%s", lead, key);
    return (ts_bytes){room, (size_t)size};
}

ts_status ts_copy_value(void **out, size_t *size, ts_bytes value)
{
    char *copy = malloc(value.size + 1);
    if (!copy) return ts_fail_memory(value.size, "a value of the store");
    if (value.size > 0) memcpy(copy, value.data, value.size);
    copy[value.size] = '\0';
    *out = copy;
    if (size) *size = value.size;
    return TS_OK;
}

ts_status ts_table_change_text(ts_table *table, const char *lead, ts_store_change *change,
                               bool *written)
{
    key_room room;
    ts_table_change c = {.op = change->op,
                         .key = join_key(room, lead, change->key),
                         .value = {change->value, change->size},
                         .expected = {change->expected, change->expected_size},
                         .n = change->n};
    TS_TRY(ts_table_apply(table, &c));
    *written = c.written;
    change->total = c.total;
    change->existed = c.existed;
    if (change->op != TS_STORE_COMPARE_SET) return TS_OK;
    return ts_copy_value(&change->result, &change->result_size, c.result);
}

bool ts_table_has_all(const ts_table *table, const char *lead, const char *const *keys, int n)
{
    key_room room;
    for (int i = 0; i < n; i++)
        if (!ts_entry_exists(ts_table_find(table, join_key(room, lead, keys[i])))) return false;
    return true;
}

ts_status ts_table_copy_all(const ts_table *table, const char *lead, const char *const *keys, int n,
                            void **values, size_t *sizes)
{
    key_room room;
    for (int i = 0; i < n; i++) {
        const ts_entry *e = ts_table_find(table, join_key(room, lead, keys[i]));
        ts_bytes value = e && e->present ? (ts_bytes){e->value, e->size} : (ts_bytes){"", 0};
        TS_TRY(ts_copy_value(&values[i], sizes ? &sizes[i] : NULL, value));
    }
    return TS_OK;
}

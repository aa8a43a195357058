/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for the library's own objects (tensor data comes from allocators, see tensor/allocator.h).
 */
#ifndef TS_BASE_MEMORY_H
#define TS_BASE_MEMORY_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed memory for a small object (tensor, node, work); NULL: out of memory.  Freed blocks are
 * kept per thread by size, so a steady state asks the system for nothing.  size must be given back
 * to ts_small_free. */
void *ts_small_new(size_t size);
void ts_small_free(void *object, size_t size);

/* calloc, realloc, strdup with overflow checks; NULL: out of memory. */
void *ts_calloc(size_t count, size_t size);
void *ts_grow(void *array, size_t count, size_t size);
char *ts_strdup(const char *text);
char *ts_strndup(const char *text, size_t length);
/* malloc'd text; NULL: out of memory. */
char *ts_asprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Reference counts.  Both assert that the count was positive. */
static inline void ts_ref_retain(_Atomic int64_t *refs)
{
    atomic_fetch_add_explicit(refs, 1, memory_order_relaxed);
}
/* 1 if this was the last reference. */
int ts_ref_release(_Atomic int64_t *refs);

/* A growable array of pointers, enough for lists of tensors, modules and hooks. */
typedef struct ts_vec {
    void **item;
    int64_t count, capacity;
} ts_vec;
int ts_vec_push(ts_vec *vec, void *item); /* 0: out of memory */
void ts_vec_fini(ts_vec *vec);            /* frees the array, not the items */

/* A map from text to pointer, in insertion order. */
typedef struct ts_map {
    struct ts_map_entry {
        char *key;
        void *value;
    } * entry;
    int64_t count, capacity;
    int64_t *bucket;
    int64_t buckets;
} ts_map;
int ts_map_set(ts_map *map, const char *key, void *value); /* 0: out of memory; key is copied */
void *ts_map_get(const ts_map *map, const char *key);      /* NULL: absent */
void ts_map_fini(ts_map *map);

#endif

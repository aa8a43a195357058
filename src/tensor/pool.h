/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks by size class over a source of chunks: the one pool behind the pooled heap and the shared
 * heap.
 *
 * There are eight classes per doubling (multiples of 64 bytes up to 512), so at most an eighth of a
 * block is unused.  Blocks below 1 MiB are cut from chunks; larger ones are chunks of their own.
 * Where chunks lie on pages, so do the blocks of classes that are a multiple of a page (all from
 * 32 KiB on).
 * Freed blocks wait in the list of their class.  Nothing goes back to the source until the source
 * refuses to grow.
 *
 * A pool lives until its rank and every thread cache have let it go and its last block is back.
 * All functions: any thread. */
#ifndef TS_TENSOR_POOL_H
#define TS_TENSOR_POOL_H

#include <pthread.h>

#include "tensor/ledger.h"

typedef struct ts_chunk_source {
    /* bytes (a multiple of 4096) at a 64-byte boundary; NULL after ts_fail, which names what. */
    void *(*grow)(void *state, size_t bytes, const char *what);
    /* Takes back what grow gave. */
    void (*shrink)(void *state, void *chunk, size_t bytes);
    /* The pool is gone. */
    void (*close)(void *state);
    size_t chunk; /* bytes of a chunk for small blocks */
} ts_chunk_source;

enum {
    TS_POOL_FINE = 512, /* classes are multiples of 64 bytes up to here */
    TS_POOL_FINE_CLASSES = 8,
    TS_POOL_CLASSES = TS_POOL_FINE_CLASSES + 8 * 38,
    TS_POOL_SMALL = 1 << 20
};

typedef struct ts_free_block {
    struct ts_free_block *next;
} ts_free_block;

typedef struct ts_pool {
    pthread_mutex_t lock;
    struct ts_pool *next; /* of all pools */
    const ts_chunk_source *source;
    void *state;
    ts_ledger *ledger;
    int64_t owners;          /* rank and thread caches */
    int64_t out;             /* blocks in use or in a thread's cache */
    char *fresh, *fresh_end; /* what is left of the newest chunk */
    ts_free_block *free[TS_POOL_CLASSES];
    uint64_t occupied[(TS_POOL_CLASSES + 63) / 64]; /* bit: free[class] is not empty */
} ts_pool;

/* One owner, the caller's.  Takes a reference of ledger.  NULL: out of memory (state is not
 * closed). */
ts_pool *ts_pool_new(const ts_chunk_source *source, void *state, ts_ledger *ledger);
void ts_pool_retain(ts_pool *pool);
void ts_pool_release(ts_pool *pool);

/* Class of the smallest blocks that hold bytes; -1: too large for any. */
static inline int ts_pool_class(size_t bytes)
{
    if (bytes <= TS_POOL_FINE) return bytes == 0 ? 0 : (int)((bytes - 1) / 64);
    uint64_t last = bytes - 1;
    int high = 63 - __builtin_clzll(last);
    int class_index = TS_POOL_FINE_CLASSES + (high - 9) * 8 + (int)(last >> (high - 3) & 7);
    return class_index < TS_POOL_CLASSES ? class_index : -1;
}

static inline size_t ts_pool_class_size(int class_index)
{
    if (class_index < TS_POOL_FINE_CLASSES) return (size_t)(class_index + 1) * 64;
    int high = 9 + (class_index - TS_POOL_FINE_CLASSES) / 8;
    return (size_t)(9 + (class_index - TS_POOL_FINE_CLASSES) % 8) << (high - 3);
}

/* A block of class *class_index, or of a somewhat larger one, which is then stored there.  NULL
 * after ts_fail. */
void *ts_pool_take(ts_pool *pool, int *class_index, const char *what);
void ts_pool_give(ts_pool *pool, void *block, int class_index);
/* A block that was taken never comes back. */
void ts_pool_lose(ts_pool *pool);

/* Moves up to n blocks of exactly that class to a list, and back; for thread caches. */
int ts_pool_take_many(ts_pool *pool, int class_index, int n, ts_free_block **list);
void ts_pool_give_many(ts_pool *pool, int class_index, ts_free_block *list);

#endif

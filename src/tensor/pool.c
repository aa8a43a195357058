/* SPDX-License-Identifier: Apache-2.0 */
/* Pooled memory: free lists by size class over large chunks. */
#include "tensor/pool.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

enum { PAGE = 4096, NEAR_CLASSES = 4 };

static bool is_small(int class_index) { return ts_pool_class_size(class_index) < TS_POOL_SMALL; }

/* ---- forks ----------------------------------------------------------------------------------- */

/* No pool is in the middle of anything when the process forks. */
static struct {
    pthread_mutex_t lock;
    ts_pool *first;
} pools = {PTHREAD_MUTEX_INITIALIZER, NULL};

static void before_fork(void)
{
    pthread_mutex_lock(&pools.lock);
    for (ts_pool *pool = pools.first; pool; pool = pool->next) pthread_mutex_lock(&pool->lock);
}

static void after_fork(void)
{
    for (ts_pool *pool = pools.first; pool; pool = pool->next) pthread_mutex_unlock(&pool->lock);
    pthread_mutex_unlock(&pools.lock);
}

static void register_fork_handlers(void) { pthread_atfork(before_fork, after_fork, after_fork); }

static void enlist(ts_pool *pool)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_fork_handlers);
    pthread_mutex_lock(&pools.lock);
    pool->next = pools.first;
    pools.first = pool;
    pthread_mutex_unlock(&pools.lock);
}

static void strike_off(const ts_pool *pool)
{
    pthread_mutex_lock(&pools.lock);
    ts_pool **at = &pools.first;
    while (*at != pool) at = &(*at)->next;
    *at = pool->next;
    pthread_mutex_unlock(&pools.lock);
}

/* ---- life ------------------------------------------------------------------------------------ */

ts_pool *ts_pool_new(const ts_chunk_source *source, void *state, ts_ledger *ledger)
{
    ts_pool *pool = ts_calloc(1, sizeof *pool);
    if (!pool) return NULL;
    pthread_mutex_init(&pool->lock, NULL);
    pool->source = source;
    pool->state = state;
    pool->ledger = ledger;
    pool->owners = 1;
    ts_ledger_retain(ledger);
    enlist(pool);
    return pool;
}

/* Chunks of small blocks are not tracked one by one: close lets the whole source go. */
static void destroy(ts_pool *pool)
{
    strike_off(pool);
    pool->source->close(pool->state);
    pthread_mutex_destroy(&pool->lock);
    ts_ledger_release(pool->ledger);
    free(pool);
}

static void unlock_or_destroy(ts_pool *pool)
{
    bool last = pool->owners == 0 && pool->out == 0;
    pthread_mutex_unlock(&pool->lock);
    if (last) destroy(pool);
}

void ts_pool_retain(ts_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->owners++;
    pthread_mutex_unlock(&pool->lock);
}

void ts_pool_release(ts_pool *pool)
{
    if (!pool) return;
    pthread_mutex_lock(&pool->lock);
    TS_ASSERT(pool->owners > 0);
    pool->owners--;
    unlock_or_destroy(pool);
}

/* ---- lists ----------------------------------------------------------------------------------- */

static void push(ts_pool *pool, int class_index, void *block)
{
    ts_free_block *b = block;
    b->next = pool->free[class_index];
    pool->free[class_index] = b;
    pool->occupied[class_index / 64] |= (uint64_t)1 << (class_index % 64);
}

static void *pop(ts_pool *pool, int class_index)
{
    ts_free_block *b = pool->free[class_index];
    if (!b) return NULL;
    pool->free[class_index] = b->next;
    if (!b->next) pool->occupied[class_index / 64] &= ~((uint64_t)1 << (class_index % 64));
    return b;
}

/* A free block of the first class in [*class_index, end) that has one. */
static void *pop_from(ts_pool *pool, int *class_index, int end)
{
    for (int c = *class_index; c < end && c < TS_POOL_CLASSES; c++) {
        uint64_t word = pool->occupied[c / 64] >> (c % 64);
        if (!word) {
            c |= 63;
            continue;
        }
        c += __builtin_ctzll(word);
        if (c >= end) break;
        *class_index = c;
        return pop(pool, c);
    }
    return NULL;
}

/* ---- the source ------------------------------------------------------------------------------ */

static void *grow(ts_pool *pool, size_t bytes, const char *what)
{
    void *chunk = pool->source->grow(pool->state, bytes, what);
    if (chunk)
        atomic_fetch_add_explicit(&pool->ledger->pool_bytes, (int64_t)bytes, memory_order_relaxed);
    return chunk;
}

/* Large free blocks go back to the source.  False: there were none. */
static bool trim(ts_pool *pool)
{
    bool any = false;
    for (int c = ts_pool_class(TS_POOL_SMALL); c < TS_POOL_CLASSES; c++) {
        size_t size = ts_pool_class_size(c);
        for (void *block; (block = pop(pool, c)); any = true) {
            pool->source->shrink(pool->state, block, size);
            atomic_fetch_sub_explicit(&pool->ledger->pool_bytes, (int64_t)size,
                                      memory_order_relaxed);
        }
    }
    return any;
}

/* Whole pages come from the end, so that they stay on pages. */
static void *cut_fresh(ts_pool *pool, size_t size)
{
    if (size % PAGE == 0) return pool->fresh_end -= size;
    pool->fresh += size;
    return pool->fresh - size;
}

/* What is left of the newest chunk becomes free blocks, the largest first. */
static void retire_fresh(ts_pool *pool)
{
    while (pool->fresh_end - pool->fresh >= 64) {
        size_t left = (size_t)(pool->fresh_end - pool->fresh);
        int c = ts_pool_class(left < TS_POOL_SMALL ? left : TS_POOL_SMALL - PAGE);
        if (ts_pool_class_size(c) > left || !is_small(c)) c--;
        push(pool, c, cut_fresh(pool, ts_pool_class_size(c)));
    }
}

static void *cut(ts_pool *pool, int class_index, const char *what)
{
    size_t size = ts_pool_class_size(class_index);
    if ((size_t)(pool->fresh_end - pool->fresh) < size) {
        char *chunk = grow(pool, pool->source->chunk, what);
        if (!chunk) return NULL;
        retire_fresh(pool);
        pool->fresh = chunk;
        pool->fresh_end = chunk + pool->source->chunk;
    }
    return cut_fresh(pool, size);
}

static void *take_new(ts_pool *pool, int class_index, const char *what)
{
    if (is_small(class_index)) return cut(pool, class_index, what);
    return grow(pool, ts_pool_class_size(class_index), what);
}

/* ---- taking and giving ----------------------------------------------------------------------- */

/* Refused by the source: any larger free block will do, then what trimming frees. */
static void *take_last_resort(ts_pool *pool, int *class_index, const char *what)
{
    void *block = pop_from(pool, class_index, TS_POOL_CLASSES);
    if (!block && trim(pool)) block = take_new(pool, *class_index, what);
    return block;
}

void *ts_pool_take(ts_pool *pool, int *class_index, const char *what)
{
    pthread_mutex_lock(&pool->lock);
    int near = is_small(*class_index) ? 1 : NEAR_CLASSES;
    void *block = pop_from(pool, class_index, *class_index + near);
    if (!block) block = take_new(pool, *class_index, what);
    if (!block) block = take_last_resort(pool, class_index, what);
    if (block) pool->out++;
    pthread_mutex_unlock(&pool->lock);
    return block;
}

void ts_pool_give(ts_pool *pool, void *block, int class_index)
{
    pthread_mutex_lock(&pool->lock);
    push(pool, class_index, block);
    pool->out--;
    unlock_or_destroy(pool);
}

void ts_pool_lose(ts_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->out--;
    unlock_or_destroy(pool);
}

int ts_pool_take_many(ts_pool *pool, int class_index, int n, ts_free_block **list)
{
    int taken = 0;
    pthread_mutex_lock(&pool->lock);
    for (ts_free_block *b; taken < n && (b = pop(pool, class_index)); taken++) {
        b->next = *list;
        *list = b;
    }
    pool->out += taken;
    pthread_mutex_unlock(&pool->lock);
    return taken;
}

void ts_pool_give_many(ts_pool *pool, int class_index, ts_free_block *list)
{
    pthread_mutex_lock(&pool->lock);
    while (list) {
        ts_free_block *next = list->next;
        push(pool, class_index, list);
        pool->out--;
        list = next;
    }
    unlock_or_destroy(pool);
}

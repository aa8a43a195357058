/* SPDX-License-Identifier: Apache-2.0 */
/* The pooled heap of a rank: chunks from mmap, small blocks cached per thread. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/memory.h"
#include "tensor/allocator.h"
#include "tensor/poison_impl.h"
#include "tensor/pool.h"

enum { HUGE_PAGE = 2 << 20, CACHED_CLASSES = 56, CACHE_BYTES = 256 << 10, REFILL = 8 };

/* ---- chunks ---------------------------------------------------------------------------------- */

typedef struct chunk {
    void *start;
    size_t bytes;
} chunk;

typedef struct chunks {
    chunk *chunk;
    size_t count, capacity;
} chunks;

static bool remember(chunks *all, void *start, size_t bytes)
{
    if (all->count == all->capacity) {
        size_t capacity = all->capacity ? 2 * all->capacity : 64;
        chunk *grown = ts_grow(all->chunk, capacity, sizeof *grown);
        if (!grown) return false;
        all->chunk = grown;
        all->capacity = capacity;
    }
    all->chunk[all->count++] = (chunk){start, bytes};
    return true;
}

static void unmap(char *start, char *end)
{
    if (end > start) munmap(start, (size_t)(end - start));
}

/* Large chunks start at a huge page. */
static void *map_chunk(size_t bytes)
{
    size_t slack = bytes >= HUGE_PAGE ? HUGE_PAGE : 0;
    char *start =
        mmap(NULL, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) return NULL;
    if (!slack) return start;
    char *aligned = start + (-(uintptr_t)start & (HUGE_PAGE - 1));
    unmap(start, aligned);
    unmap(aligned + bytes, start + bytes + slack);
    madvise(aligned, bytes, MADV_HUGEPAGE);
    return aligned;
}

static void *heap_grow(void *state, size_t bytes, const char *what)
{
    void *start = map_chunk(bytes);
    if (start && remember(state, start, bytes)) return start;
    if (start) munmap(start, bytes);
    ts_fail(TS_ENOMEM, "out of memory: the system refuses %zu bytes (%s memory)", bytes, what);
    return NULL;
}

static void heap_shrink(void *state, void *start, size_t bytes)
{
    chunks *all = state;
    size_t i = 0;
    while (all->chunk[i].start != start) i++;
    all->chunk[i] = all->chunk[--all->count];
    ts_unpoison(start, bytes);
    munmap(start, bytes);
}

static void heap_close(void *state)
{
    chunks *all = state;
    for (size_t i = 0; i < all->count; i++) {
        ts_unpoison(all->chunk[i].start, all->chunk[i].bytes);
        munmap(all->chunk[i].start, all->chunk[i].bytes);
    }
    free(all->chunk);
    free(all);
}

static const ts_chunk_source heap_source = {heap_grow, heap_shrink, heap_close, 4 << 20};

/* ---- the rank's pool ------------------------------------------------------------------------- */

static void *create_pool(ts_rank_ctx *rank)
{
    ts_ledger *ledger = atomic_load(&rank->slot[TS_SLOT_LEDGER]);
    chunks *all = ts_calloc(1, sizeof *all);
    ts_pool *pool = all ? ts_pool_new(&heap_source, all, ledger) : NULL;
    if (!pool) free(all);
    return pool;
}

static void destroy_pool(void *pool) { ts_pool_release(pool); }

static ts_pool *make_pool(ts_rank_ctx *rank)
{
    if (!ts_ledger_of(rank)) return NULL;
    return ts_rank_slot_get(rank, TS_SLOT_POOL, create_pool, destroy_pool);
}

static ts_pool *current_pool(void)
{
    ts_rank_ctx *rank = ts_rank_current();
    void *pool = atomic_load_explicit(&rank->slot[TS_SLOT_POOL], memory_order_acquire);
    return pool ? pool : make_pool(rank);
}

/* ---- blocks cached by the thread ------------------------------------------------------------- */

typedef struct cached_list {
    ts_free_block *head;
    int count, limit;
} cached_list;

/* Blocks of one pool, that of the rank the thread last allocated for. */
typedef struct block_cache {
    ts_pool *pool;
    cached_list list[CACHED_CLASSES];
} block_cache;

static _Thread_local block_cache *cache; /* NULL: none */

void ts_heap_thread_ends(void)
{
    if (!cache) return;
    for (int c = 0; c < CACHED_CLASSES; c++)
        if (cache->list[c].head) ts_pool_give_many(cache->pool, c, cache->list[c].head);
    ts_pool_release(cache->pool);
    free(cache);
    cache = NULL;
}

/* Makes the cache one of pool; false: out of memory. */
static bool cache_use(ts_pool *pool)
{
    ts_heap_thread_ends();
    cache = ts_calloc(1, sizeof *cache);
    if (!cache) return false;
    for (int c = 0; c < CACHED_CLASSES; c++)
        cache->list[c].limit = (int)(CACHE_BYTES / ts_pool_class_size(c));
    ts_pool_retain(pool);
    cache->pool = pool;
    return true;
}

static inline void *cache_take(ts_pool *pool, int class_index, ts_category category)
{
    if ((!cache || cache->pool != pool) && !cache_use(pool))
        return ts_pool_take(pool, &class_index, ts_category_name(category));
    cached_list *list = &cache->list[class_index];
    if (!list->head) list->count = ts_pool_take_many(pool, class_index, REFILL, &list->head);
    ts_free_block *block = list->head;
    if (!block) return ts_pool_take(pool, &class_index, ts_category_name(category));
    list->head = block->next;
    list->count--;
    return block;
}

/* Half of a list that has grown long goes to the pool. */
static void cache_shorten(cached_list *list, int class_index)
{
    ts_free_block *give = list->head, *last = give;
    int n = list->count / 2;
    for (int i = 1; i < n; i++) last = last->next;
    list->head = last->next;
    last->next = NULL;
    list->count -= n;
    ts_pool_give_many(cache->pool, class_index, give);
}

static inline void cache_give(void *block, int class_index)
{
    cached_list *list = &cache->list[class_index];
    ts_free_block *b = block;
    b->next = list->head;
    list->head = b;
    if (++list->count > list->limit) cache_shorten(list, class_index);
}

/* ---- the allocator --------------------------------------------------------------------------- */

static ts_status heap_alloc(ts_storage *storage, size_t nbytes)
{
    ts_pool *pool = current_pool();
    int class_index = ts_pool_class(nbytes);
    if (!pool || class_index < 0)
        return ts_fail_memory(nbytes, ts_category_name(storage->category));
    void *block = class_index < CACHED_CLASSES
                      ? cache_take(pool, class_index, storage->category)
                      : ts_pool_take(pool, &class_index, ts_category_name(storage->category));
    if (!block) return TS_ENOMEM;
    ts_poison_tail(block, ts_pool_class_size(class_index), nbytes);
    storage->data = block;
    storage->block_class = class_index;
    storage->allocator_state = pool;
    ts_ledger_add(pool->ledger, storage->category, nbytes);
    return TS_OK;
}

static void heap_free(ts_storage *storage)
{
    ts_pool *pool = storage->allocator_state;
    ts_ledger_sub(pool->ledger, storage->category, storage->nbytes);
    ts_poison_tail(storage->data, ts_pool_class_size(storage->block_class), sizeof(ts_free_block));
    if (storage->block_class < CACHED_CLASSES && cache && cache->pool == pool)
        cache_give(storage->data, storage->block_class);
    else
        ts_pool_give(pool, storage->data, storage->block_class);
}

const ts_allocator ts_allocator_heap = {"heap", true, heap_alloc, heap_free};

/* SPDX-License-Identifier: Apache-2.0 */
/* The shared heap of a rank: a memfd reserved once, handed out by the pool from the bottom up.
 * Memory is taken from the system with fallocate, so that running out is an error here and not a
 * bus error at the first write. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/settings.h"
#include "tensor/allocator.h"
#include "tensor/poison_impl.h"
#include "tensor/pool.h"

enum { MAX_GAPS = 1024, CHUNK = 1 << 20, CONTROL_HEADER = 64, PAGE = 4096 };
static const size_t smallest_reserve = 1 << 20;

typedef struct gap {
    size_t start, bytes;
} gap;

/* Pages that peers may still store to, although their owner has given up the operation. */
typedef struct detached {
    struct detached *next;
    size_t start, end;
} detached;

typedef struct heap {
    ts_shared_heap view; /* first: what the layers above see */
    size_t top;          /* bytes handed out so far */
    gap gap[MAX_GAPS];   /* given back below top, without memory; guarded by the pool's lock */
    int gaps;
    ts_pool *pool;
    _Atomic(detached *) detached; /* only grows */
    detached everything;          /* in that list, where there was no memory for an entry */
    atomic_flag everything_listed;
    atomic_bool warned;
    struct heap *next; /* of those that have memory */
    ts_rank_ctx *rank; /* whose it is; NULL: the rank has ended */
    bool inherited;    /* by a fork: see adopt */
    char why[256];     /* why there is none (view.fd is -1) */
} heap;

/* ---- chunks ---------------------------------------------------------------------------------- */

/* First fit among the gaps, else the top; SIZE_MAX: the reserve is used up. */
static size_t find_place(heap *h, size_t bytes)
{
    for (int i = 0; i < h->gaps; i++) {
        gap *g = &h->gap[i];
        if (g->bytes < bytes) continue;
        size_t at = g->start;
        g->start += bytes;
        g->bytes -= bytes;
        if (g->bytes == 0) *g = h->gap[--h->gaps];
        return at;
    }
    if (bytes > h->view.reserved - h->top) return SIZE_MAX;
    h->top += bytes;
    return h->top - bytes;
}

/* Too many gaps: the address space is lost, the memory is not. */
static void leave_gap(heap *h, size_t start, size_t bytes)
{
    for (int i = 0; i < h->gaps; i++) {
        gap *g = &h->gap[i];
        if (g->start + g->bytes != start && start + bytes != g->start) continue;
        start = g->start < start ? g->start : start;
        bytes += g->bytes;
        *g = h->gap[--h->gaps];
        i = -1; /* may join another one now */
    }
    if (start + bytes == h->top)
        h->top = start;
    else if (h->gaps < MAX_GAPS)
        h->gap[h->gaps++] = (gap){start, bytes};
}

static int reserve_memory(int fd, size_t at, size_t bytes)
{
    while (fallocate(fd, 0, (off_t)at, (off_t)bytes) != 0)
        if (errno != EINTR) return errno;
    return 0;
}

static void *shared_grow(void *state, size_t bytes, const char *what)
{
    heap *h = state;
    size_t at = find_place(h, bytes);
    if (at == SIZE_MAX) {
        ts_fail(TS_ENOMEM,
                "out of memory: the shared heap has no room for %zu bytes (%s); it is reserved for "
                "%zu bytes, set TESSERA_SHARED_HEAP higher",
                bytes, what, h->view.reserved);
        return NULL;
    }
    int error = reserve_memory(h->view.fd, at, bytes);
    if (error) {
        leave_gap(h, at, bytes);
        ts_fail(TS_ENOMEM,
                "out of memory: the system refuses %zu bytes of shared memory (%s): %s; check the "
                "memory limit of the container and free memory",
                bytes, what, strerror(error));
        return NULL;
    }
    return h->view.base + at;
}

static void shared_shrink(void *state, void *chunk, size_t bytes)
{
    heap *h = state;
    size_t at = (size_t)((char *)chunk - h->view.base);
    fallocate(h->view.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)bytes);
    ts_unpoison(chunk, bytes);
    leave_gap(h, at, bytes);
}

static void forget(heap *h);

static void shared_close(void *state)
{
    heap *h = state;
    forget(h);
    ts_unpoison(h->view.base, h->top);
    munmap(h->view.base, h->view.reserved);
    close(h->view.fd);
    for (detached *d = atomic_load(&h->detached), *next; d; d = next) {
        next = d->next;
        if (d != &h->everything) free(d);
    }
    free(h);
}

static const ts_chunk_source shared_source = {shared_grow, shared_shrink, shared_close, CHUNK};

/* ---- opening --------------------------------------------------------------------------------- */

/* What the setting asks for, within the limit on file sizes (passing it would raise a signal). */
static size_t wanted_reserve(void)
{
    size_t bytes = (size_t)ts_setting_int(TS_SETTING_SHARED_HEAP);
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        limit.rlim_cur < bytes)
        bytes = limit.rlim_cur;
    bytes &= ~(size_t)4095;
    return bytes;
}

/* A limit on address space may refuse the whole reserve; less will do. */
static void *map_reserve(heap *h, size_t bytes)
{
    for (; bytes >= smallest_reserve; bytes = bytes / 2 & ~(size_t)4095) {
        void *base =
            mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, h->view.fd, 0);
        if (base != MAP_FAILED) {
            h->view.reserved = bytes;
            return base;
        }
    }
    return NULL;
}

static bool say_why(heap *h, const char *step, int error)
{
    snprintf(h->why, sizeof h->why, "no shared memory available: %s: %s", step, strerror(error));
    if (h->view.fd >= 0) close(h->view.fd);
    h->view.fd = -1;
    return false;
}

static bool open_heap(heap *h)
{
    h->view.fd = -1;
    if (!ts_setting_bool(TS_SETTING_SHARED_MEMORY)) {
        snprintf(h->why, sizeof h->why, "shared memory is switched off by TESSERA_SHARED_MEMORY=0");
        atomic_store(&h->warned, true); /* as asked for */
        return false;
    }
    size_t bytes = wanted_reserve();
    if (bytes < smallest_reserve) {
        snprintf(h->why, sizeof h->why,
                 "no shared memory available: TESSERA_SHARED_HEAP or the limit on file sizes "
                 "(ulimit -f) allows %zu bytes; at least %zu are needed",
                 bytes, smallest_reserve);
        return false;
    }
    h->view.fd = memfd_create("tessera-heap", MFD_CLOEXEC);
    if (h->view.fd < 0) return say_why(h, "memfd_create", errno);
    if (ftruncate(h->view.fd, (off_t)bytes) != 0) return say_why(h, "reserving it", errno);
    h->view.base = map_reserve(h, bytes);
    if (!h->view.base) return say_why(h, "mapping it (see ulimit -v)", errno);
    madvise(h->view.base, h->view.reserved, MADV_DONTFORK);
    madvise(h->view.base, h->view.reserved, MADV_HUGEPAGE);
    return true;
}

/* ---- forks ----------------------------------------------------------------------------------- */

/* A child must not write into its parent's memory, which the mapping would let it do: it is not
 * inherited.  The child gets a private one at the same addresses: tensors from before the fork stay,
 * with the contents that the parent has when the child first touches a page, and what the child
 * writes only it sees.  The pool's lists lie in that memory and go on changing in the parent, so the
 * child takes nothing from it any more; what is freed there is lost. */
static struct {
    pthread_mutex_t lock;
    heap *first;
} heaps = {PTHREAD_MUTEX_INITIALIZER, NULL};

static void map_own(const heap *h, size_t start, size_t end)
{
    mmap(h->view.base + start, end - start, PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, h->view.fd, (off_t)start);
}

/* Detached pages are private already and inherited as such. */
static void adopt(heap *h)
{
    size_t at = 0;
    while (at < h->view.reserved) {
        size_t next = h->view.reserved, end = at;
        for (const detached *d = atomic_load(&h->detached); d; d = d->next) {
            if (d == &h->everything) continue;
            if (d->start <= at && at < d->end) end = d->end;
            if (d->start > at && d->start < next) next = d->start;
        }
        if (end == at) map_own(h, at, end = next);
        at = end;
    }
    h->inherited = true;
    if (h->rank && h->rank->slot[TS_SLOT_SHARED] == h) h->rank->slot[TS_SLOT_SHARED] = NULL;
}

static void before_fork(void) { pthread_mutex_lock(&heaps.lock); }

static void after_fork(void) { pthread_mutex_unlock(&heaps.lock); }

static void in_child(void)
{
    for (heap *h = heaps.first; h; h = h->next)
        if (!h->inherited) adopt(h);
    after_fork();
}

static void register_fork_handlers(void) { pthread_atfork(before_fork, after_fork, in_child); }

static void remember(heap *h, ts_rank_ctx *rank)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_fork_handlers);
    pthread_mutex_lock(&heaps.lock);
    h->rank = rank;
    h->next = heaps.first;
    heaps.first = h;
    pthread_mutex_unlock(&heaps.lock);
}

static void forget(heap *h)
{
    pthread_mutex_lock(&heaps.lock);
    for (heap **at = &heaps.first; *at; at = &(*at)->next)
        if (*at == h) {
            *at = h->next;
            break;
        }
    pthread_mutex_unlock(&heaps.lock);
}

static void rank_ends(heap *h)
{
    pthread_mutex_lock(&heaps.lock);
    h->rank = NULL;
    pthread_mutex_unlock(&heaps.lock);
    ts_pool_release(h->pool);
}

/* ---- the rank's ------------------------------------------------------------------------------ */

/* A heap without memory stays in the slot too: it knows why. */
static void *create(ts_rank_ctx *rank)
{
    heap *h = ts_calloc(1, sizeof *h);
    if (!h || !open_heap(h)) return h;
    h->pool = ts_pool_new(&shared_source, h, atomic_load(&rank->slot[TS_SLOT_LEDGER]));
    if (h->pool) {
        remember(h, rank);
        return h;
    }
    munmap(h->view.base, h->view.reserved);
    say_why(h, "its pool", ENOMEM);
    return h;
}

static void destroy(void *value)
{
    heap *h = value;
    if (h->pool)
        rank_ends(h);
    else
        free(h);
}

static heap *current_heap(void)
{
    ts_rank_ctx *rank = ts_rank_current();
    void *h = atomic_load_explicit(&rank->slot[TS_SLOT_SHARED], memory_order_acquire);
    if (h || !ts_ledger_of(rank)) return h;
    return ts_rank_slot_get(rank, TS_SLOT_SHARED, create, destroy);
}

ts_shared_heap *ts_shared_heap_get(void)
{
    heap *h = current_heap();
    if (!h) {
        ts_fail_memory(sizeof *h, "the shared heap");
        return NULL;
    }
    if (h->pool) return &h->view;
    ts_fail(TS_EUNSUPPORTED, "%s", h->why);
    return NULL;
}

bool ts_shared_heap_usable(void)
{
    heap *h = current_heap();
    if (h && h->pool) return true;
    if (h && !atomic_exchange(&h->warned, true))
        TS_LOG(TS_LOG_TENSOR, TS_LEVEL_WARNING, "%s; the ordinary heap is used instead", h->why);
    return false;
}

int64_t ts_shared_heap_offset(const ts_shared_heap *view, const void *address)
{
    uintptr_t base = (uintptr_t)view->base, at = (uintptr_t)address;
    return view->fd >= 0 && at >= base && at - base < view->reserved ? (int64_t)(at - base) : -1;
}

/* ---- detached pages -------------------------------------------------------------------------- */

static bool has_detached(const heap *h, size_t start, size_t bytes)
{
    const detached *d = atomic_load_explicit(&h->detached, memory_order_acquire);
    while (d && (start >= d->end || d->start >= start + bytes)) d = d->next;
    return d != NULL;
}

static void note_detached(heap *h, size_t start, size_t end)
{
    detached *d = ts_calloc(1, sizeof *d);
    if (d) {
        d->start = start;
        d->end = end;
    } else if (!atomic_flag_test_and_set(&h->everything_listed)) {
        d = &h->everything;
        d->end = h->view.reserved;
    } else {
        return;
    }
    d->next = atomic_load(&h->detached);
    while (!atomic_compare_exchange_weak(&h->detached, &d->next, d)) continue;
}

/* The copy is complete before it takes their place. */
static bool replace_by_copy(char *pages, size_t bytes)
{
    void *copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED) return false;
    madvise(copy, bytes, MADV_HUGEPAGE);
    memcpy(copy, pages, bytes);
    if (mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, pages) != MAP_FAILED) return true;
    munmap(copy, bytes);
    return false;
}

ts_status ts_shared_heap_detach(ts_shared_heap *view, int64_t offset, size_t bytes)
{
    size_t start = ((size_t)offset + PAGE - 1) & ~(size_t)(PAGE - 1);
    size_t end = ((size_t)offset + bytes) & ~(size_t)(PAGE - 1);
    if (start >= end) return TS_OK;
    note_detached((heap *)view, start, end);
    if (replace_by_copy(view->base + start, end - start)) return TS_OK;
    return ts_fail(TS_ENOMEM, "no memory for a copy of %zu bytes: %s", end - start,
                   strerror(errno));
}

int64_t ts_shared_heap_place(const ts_shared_heap *view, const void *address, size_t bytes)
{
    int64_t offset = ts_shared_heap_offset(view, address);
    return offset >= 0 && has_detached((const heap *)view, (size_t)offset, bytes) ? -1 : offset;
}

int64_t ts_storage_place(const ts_storage *storage, size_t skip, size_t bytes)
{
    if (storage->shared_offset < 0) return -1;
    const heap *h = ((const ts_pool *)storage->allocator_state)->state;
    size_t offset = (size_t)storage->shared_offset + skip;
    return h->inherited || has_detached(h, offset, bytes) ? -1 : (int64_t)offset;
}

/* Detached pages are private to this rank for good, so their block must never be shared again. */
static void give_back(ts_pool *pool, void *block, int class_index)
{
    const heap *h = pool->state;
    size_t start = (size_t)((char *)block - h->view.base);
    if (h->inherited || has_detached(h, start, ts_pool_class_size(class_index)))
        ts_pool_lose(pool);
    else
        ts_pool_give(pool, block, class_index);
}

/* ---- control blocks -------------------------------------------------------------------------- */

void *ts_shared_heap_take(ts_shared_heap *view, size_t bytes)
{
    heap *h = (heap *)view;
    int class_index = bytes < SIZE_MAX / 2 ? ts_pool_class(bytes + CONTROL_HEADER) : -1;
    if (class_index < 0) {
        ts_fail_memory(bytes, "a shared block");
        return NULL;
    }
    char *block = ts_pool_take(h->pool, &class_index, "control");
    if (!block) return NULL;
    ts_unpoison(block, ts_pool_class_size(class_index));
    memcpy(block, &class_index, sizeof class_index);
    return block + CONTROL_HEADER;
}

void *ts_shared_heap_alloc(ts_shared_heap *view, size_t bytes)
{
    void *block = ts_shared_heap_take(view, bytes);
    return block ? memset(block, 0, bytes) : NULL;
}

void ts_shared_heap_free(ts_shared_heap *view, void *data)
{
    if (!data) return;
    char *block = (char *)data - CONTROL_HEADER;
    int class_index;
    memcpy(&class_index, block, sizeof class_index);
    give_back(((heap *)view)->pool, block, class_index);
}

/* ---- the allocator --------------------------------------------------------------------------- */

static ts_status shared_alloc(ts_storage *storage, size_t nbytes)
{
    const char *what = ts_category_name(storage->category);
    heap *h = current_heap();
    int class_index = ts_pool_class(nbytes);
    if (!h || !h->pool || class_index < 0) return ts_fail_memory(nbytes, what);
    void *block = ts_pool_take(h->pool, &class_index, what);
    if (!block) return TS_ENOMEM;
    ts_poison_tail(block, ts_pool_class_size(class_index), nbytes);
    storage->data = block;
    storage->block_class = class_index;
    storage->allocator_state = h->pool;
    storage->shared_offset = ts_shared_heap_offset(&h->view, block);
    ts_ledger_add(h->pool->ledger, storage->category, nbytes);
    return TS_OK;
}

static void shared_free(ts_storage *storage)
{
    ts_pool *pool = storage->allocator_state;
    ts_ledger_sub(pool->ledger, storage->category, storage->nbytes);
    ts_poison_tail(storage->data, ts_pool_class_size(storage->block_class), sizeof(ts_free_block));
    give_back(pool, storage->data, storage->block_class);
}

const ts_allocator ts_allocator_shared = {"shared heap", true, shared_alloc, shared_free};

/* SPDX-License-Identifier: Apache-2.0 */
/* Life of storages: bytes from an allocator, counted in the ledger. */
#include "base/memory.h"
#include "tensor/allocator.h"
#include "tensor/pool.h"

ts_storage *ts_storage_bare(const ts_allocator *allocator, ts_category category)
{
    ts_storage *storage = ts_small_new(sizeof *storage);
    if (!storage) {
        ts_fail_memory(sizeof *storage, "a storage");
        return NULL;
    }
    atomic_init(&storage->refs, 1);
    storage->allocator = allocator;
    storage->category = category;
    storage->shared_offset = -1;
    storage->inference = ts_thread()->mode & TS_MODE_INFERENCE;
    return storage;
}

static const ts_allocator *pick(ts_device device, ts_memory memory)
{
    if (device == TS_META) return &ts_allocator_meta;
    if (memory == TS_MEMORY_SHARED && ts_shared_heap_usable()) return &ts_allocator_shared;
    return &ts_allocator_heap;
}

ts_storage *ts_storage_new(size_t nbytes, ts_device device, ts_memory memory, ts_category category)
{
    ts_storage *storage = ts_storage_bare(pick(device, memory), category);
    if (!storage || nbytes == 0) return storage;
    if (storage->allocator->alloc(storage, nbytes) != TS_OK) {
        ts_small_free(storage, sizeof *storage);
        return NULL;
    }
    storage->nbytes = nbytes;
    return storage;
}

static void free_bytes(ts_storage *storage)
{
    if (storage->nbytes > 0) storage->allocator->free(storage);
    storage->data = NULL;
    storage->nbytes = 0;
    storage->shared_offset = -1;
}

void ts_storage_retain(ts_storage *storage) { ts_ref_retain(&storage->refs); }

void ts_storage_release(ts_storage *storage)
{
    if (!storage) return;
    /* The only reference is ours: nobody else can take one, no need to decrement. */
    if (atomic_load_explicit(&storage->refs, memory_order_acquire) != 1 &&
        !ts_ref_release(&storage->refs))
        return;
    void *data = storage->data;
    if (storage->release) storage->release(data, storage->user);
    free_bytes(storage);
    ts_small_free(storage, sizeof *storage);
}

ts_status ts_storage_resize(ts_storage *storage, size_t nbytes)
{
    if (!storage->allocator->resizable)
        return ts_fail(TS_ESTATE, "resize: %s memory cannot be resized", storage->allocator->name);
    free_bytes(storage);
    if (nbytes == 0) return TS_OK;
    TS_TRY(storage->allocator->alloc(storage, nbytes));
    storage->nbytes = nbytes;
    return TS_OK;
}

void ts_storage_set_category(ts_storage *storage, ts_category category)
{
    const ts_allocator *allocator = storage->allocator;
    bool counted = allocator == &ts_allocator_heap || allocator == &ts_allocator_shared;
    if (counted && storage->nbytes > 0) {
        ts_ledger *ledger = ((ts_pool *)storage->allocator_state)->ledger;
        ts_ledger_sub(ledger, storage->category, storage->nbytes);
        ts_ledger_add(ledger, category, storage->nbytes);
    }
    storage->category = category;
}

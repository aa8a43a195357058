/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's memory.  It is not ours, so the ledger does not count it. */
#include "tensor/allocator.h"

static ts_status wrap_alloc(ts_storage *storage, size_t nbytes)
{
    (void)storage;
    return ts_fail(TS_ESTATE, "wrapped memory cannot be resized (to %zu bytes)", nbytes);
}

static void wrap_free(ts_storage *storage) { (void)storage; }

const ts_allocator ts_allocator_wrap = {"wrap", false, wrap_alloc, wrap_free};

ts_storage *ts_storage_wrap(void *data, size_t nbytes, ts_category category,
                            void (*release)(void *data, void *user), void *user)
{
    ts_storage *storage = ts_storage_bare(&ts_allocator_wrap, category);
    if (!storage) return NULL;
    storage->data = data;
    storage->nbytes = nbytes;
    storage->release = release;
    storage->user = user;
    return storage;
}

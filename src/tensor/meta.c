/* SPDX-License-Identifier: Apache-2.0 */
/* Storages of the meta device have a size and no bytes. */
#include "tensor/allocator.h"

static ts_status meta_alloc(ts_storage *storage, size_t nbytes)
{
    (void)storage, (void)nbytes;
    return TS_OK;
}

static void meta_free(ts_storage *storage) { (void)storage; }

const ts_allocator ts_allocator_meta = {"meta", true, meta_alloc, meta_free};

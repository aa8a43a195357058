/* SPDX-License-Identifier: Apache-2.0 */
/* Where storage bytes come from: one table per kind of memory, one file each. */
#ifndef TS_TENSOR_ALLOCATOR_H
#define TS_TENSOR_ALLOCATOR_H

#include "tensor/ledger.h"
#include "tensor/tensor.h"

struct ts_allocator {
    const char *name;
    bool resizable;
    /* Sets data, allocator_state, block_class and shared_offset of a storage whose other fields
     * stand; nbytes is > 0.  Counts them in the ledger.  Any thread. */
    ts_status (*alloc)(ts_storage *storage, size_t nbytes);
    /* Undoes alloc.  Any thread, also after the rank has ended. */
    void (*free)(ts_storage *storage);
};

extern const ts_allocator ts_allocator_heap, ts_allocator_shared, ts_allocator_wrap,
    ts_allocator_file, ts_allocator_meta;

/* Passes the blocks that the calling thread has cached back; its rank may end then. */
void ts_heap_thread_ends(void);

/* A storage object without bytes; NULL after ts_fail. */
ts_storage *ts_storage_bare(const ts_allocator *allocator, ts_category category);

/* Does the rank's shared heap serve TS_MEMORY_SHARED?  If not, warns once per rank. */
bool ts_shared_heap_usable(void);

#endif

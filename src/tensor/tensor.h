/* SPDX-License-Identifier: Apache-2.0 */
/* The tensor and its storage, for the layers above. */
#ifndef TS_TENSOR_TENSOR_H
#define TS_TENSOR_TENSOR_H

#include <stdatomic.h>
#include <tessera/scope.h>
#include <tessera/tensor.h>

#include "base/context.h"
#include "base/error.h"

/* ---- storage --------------------------------------------------------------------------------- */

typedef struct ts_allocator ts_allocator;

typedef struct ts_storage {
    _Atomic int64_t refs;
    _Atomic uint64_t version; /* counts in-place changes */
    void *data; /* fetched at kernel time; NULL when nbytes is 0, meta or resized to 0 */
    size_t nbytes;
    const ts_allocator *allocator;
    void *allocator_state; /* of the rank that allocated it; keeps what freeing needs alive */
    int block_class;       /* allocator: size class of the block at data */
    ts_category category;
    int64_t shared_offset;                   /* offset in the rank's shared heap; -1 elsewhere */
    void (*release)(void *data, void *user); /* wrapped memory */
    void *user;
    bool read_only; /* file maps: ts_data_mut fails */
    bool inference; /* made in inference mode: has no version, cannot be saved for backward */
} ts_storage;

/* data of a storage is at least 64-byte aligned.  Contents undefined.  NULL after ts_fail: the
 * message names bytes and category. */
ts_storage *ts_storage_new(size_t nbytes, ts_device device, ts_memory memory, ts_category category);
ts_storage *ts_storage_wrap(void *data, size_t nbytes, ts_category category,
                            void (*release)(void *data, void *user), void *user);
/* Moves the storage's bytes to another line of the ledger. */
void ts_storage_set_category(ts_storage *storage, ts_category category);
void ts_storage_retain(ts_storage *storage);
void ts_storage_release(ts_storage *storage); /* NULL is fine */

/* Frees the block and gives the storage one of nbytes (0: none) from the same allocator; contents
 * are lost, tensors over the storage stay.  TS_ESTATE for wrapped and mapped memory; on failure the
 * storage has no bytes. */
ts_status ts_storage_resize(ts_storage *storage, size_t nbytes);

/* ---- tensor ---------------------------------------------------------------------------------- */

/* Dispatch key bits of a tensor, ORed with the mode bits of the thread by the dispatcher. */
enum {
    TS_KEY_AUTOGRAD = 1 << 8, /* requires grad */
    TS_KEY_DTENSOR = 1 << 9,  /* reserved */
    TS_KEY_PENDING = 1 << 10, /* reserved: waits for an asynchronous result */
    TS_KEY_FAILED = 1 << 11
};

struct ts_tensor {
    _Atomic int64_t refs;
    uint32_t keys;
    ts_status status;
    uint8_t dtype;  /* ts_dtype */
    uint8_t device; /* ts_device */
    bool contiguous;
    _Atomic bool reported; /* a failed value that an action has reported */
    ts_shape shape;
    int64_t stride[TS_MAX_DIMS]; /* elements */
    int64_t offset;              /* elements */
    int64_t numel;
    ts_storage *storage; /* NULL when failed */
    struct ts_autograd
        *autograd; /* NULL until the tensor takes part; owned by the autograd layer */
    struct ts_tensor
        *base;   /* views: the tensor they view (autograd of in-place changes), or NULL */
    char *error; /* failed: first cause */
    char *name;
};

/* Installed by the autograd layer: frees t->autograd; ts_set_requires_grad. */
extern void (*ts_autograd_free_hook)(ts_tensor *t);
extern ts_status (*ts_autograd_leaf_hook)(ts_tensor *t, bool requires_grad);

static inline ts_spec ts_tensor_spec(const ts_tensor *t)
{
    return (ts_spec){t->shape, (ts_dtype)t->dtype, (ts_device)t->device};
}

/* A new row-major tensor in the caller's scope (never NULL: failure is in the value). */
ts_tensor *ts_tensor_new(const ts_spec *spec, ts_memory memory, ts_category category);
/* The same outside any scope: one reference, the caller's. */
ts_tensor *ts_tensor_new_owned(const ts_spec *spec, ts_memory memory, ts_category category);

/* A view of t's storage with other geometry, in the scope; no autograd.  The caller has checked
 * that it lies within the storage. */
ts_tensor *ts_tensor_view(ts_tensor *t, ts_shape shape, const int64_t *stride, int64_t offset);
/* A row-major view of storage (its reference is taken anew), outside any scope. */
ts_tensor *ts_tensor_over(ts_storage *storage, const ts_spec *spec, int64_t offset);

/* A failed tensor in the scope, worded by ts_fail.  Never NULL; out of memory gives one static
 * object. */
ts_tensor *ts_fail_tensor(ts_status status, const char *format, ...) TS_PRINTF(2, 3);
/* The same for an error that ts_fail has just worded. */
ts_tensor *ts_fail_tensor_last(ts_status status);

/* TS_OK, or the failed value's status with its text made the thread's last error, and the value
 * marked as reported.  NULL is TS_EINVAL: "<what> is missing". */
ts_status ts_tensor_check(const ts_tensor *t, const char *what);

/* Hands a reference to the innermost scope of the calling thread; returns t. */
ts_tensor *ts_scope_give(ts_tensor *t);

/* Bytes of an element of a known dtype, without a call: log2 of the size in four bits each. */
static inline size_t ts_element_size(unsigned dtype)
{
    return (size_t)1 << (UINT64_C(0x430321001132) >> 4 * dtype & 15);
}

/* Element access by row-major strides. */
void ts_row_major_strides(int64_t *stride, ts_shape shape);
static inline char *ts_tensor_bytes(const ts_tensor *t)
{
    return (char *)t->storage->data + t->offset * (int64_t)ts_element_size(t->dtype);
}
/* Autograd sees an in-place change. */
static inline void ts_tensor_bump(ts_tensor *t)
{
    if (t->storage->inference) return;
    atomic_fetch_add_explicit(&t->storage->version, 1, memory_order_relaxed);
}
/* May the tensor's elements overlap in memory (expanded views)? */
bool ts_tensor_overlaps(const ts_tensor *t);

/* dim counted from the end if negative; -1 after ts_fail(TS_ESHAPE) naming op, dim and rank. */
int ts_wrap_dim(const char *op, int dim, int ndim);

/* Copies elements between equal shapes with conversion; both row-major or strided, and they may
 * overlap.  TS_EDTYPE between complex and other dtypes.  Does not bump the version. */
ts_status ts_tensor_copy_data(ts_tensor *to, const ts_tensor *from);
/* Sets every element to value, converted.  Does not bump the version. */
ts_status ts_tensor_fill_data(ts_tensor *to, double value);

/* May t be written in place by op?  TS_ESTATE names op for read-only memory and for views whose
 * elements overlap. */
ts_status ts_tensor_check_writable(const char *op, const ts_tensor *t);

/* ---- the shared rank heap -------------------------------------------------------------------- */

/* One reserved memfd per rank.  Peers get the descriptor once and map it. */
typedef struct ts_shared_heap {
    int fd;     /* -1: no shared memory available */
    char *base; /* this rank's writable mapping */
    size_t reserved;
} ts_shared_heap;

/* The calling thread's rank's heap, made at the first use.  NULL after ts_fail when the system
 * gives no shared memory; the reason is worded (limit, size, what to do). */
ts_shared_heap *ts_shared_heap_get(void);
/* Offset of address in that heap; -1 if it lies elsewhere. */
int64_t ts_shared_heap_offset(const ts_shared_heap *heap, const void *address);
/* The same for bytes that peers are to see; -1 also if some of them are detached. */
int64_t ts_shared_heap_place(const ts_shared_heap *heap, const void *address, size_t bytes);
/* The same for bytes of a storage from `skip` on. */
int64_t ts_storage_place(const ts_storage *storage, size_t skip, size_t bytes);
/* Detaches the whole pages within these bytes: this rank gets copies that nobody else sees, at the
 * same addresses, and what peers still store goes to the old pages.  Blocks with detached pages are
 * not handed out again.  TS_ENOMEM: the pages are still shared; they are not handed out either. */
ts_status ts_shared_heap_detach(ts_shared_heap *heap, int64_t offset, size_t bytes);
/* A block for control data (64-byte aligned, zeroed).  NULL after ts_fail. */
void *ts_shared_heap_alloc(ts_shared_heap *heap, size_t bytes);
void *ts_shared_heap_take(ts_shared_heap *heap, size_t bytes); /* not zeroed */
void ts_shared_heap_free(ts_shared_heap *heap, void *block);

#endif

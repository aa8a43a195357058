/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets: which tensors share one flat buffer, and the buffer with a view per tensor. */
#ifndef TS_DIST_COMMON_BUCKET_H
#define TS_DIST_COMMON_BUCKET_H

#include "tensor/tensor.h"

/* A partition of tensor indices: bucket b holds index[start[b] .. start[b + 1] - 1]. */
typedef struct ts_bucket_plan {
    int num_buckets;
    int num_tensors;
    int *start; /* num_buckets + 1 entries */
    int *index; /* num_tensors entries */
} ts_bucket_plan;

/* Walks tensors in the given order (indices 0 .. n-1, each once).  Per dtype there is one open
 * bucket; a tensor joins it, and when its bytes reach the current cap the bucket closes and the
 * next cap counts (the last cap stays).  Tensors are never split, dtypes never mixed.  Closed
 * buckets come in the order of closing, open ones last, in the order of their first tensor. */
ts_status ts_bucket_plan_make(ts_bucket_plan *out, ts_tensor *const *tensors, const int *order,
                              int n, const int64_t *caps, int num_caps);
void ts_bucket_plan_fini(ts_bucket_plan *plan);

/* One row-major buffer over tensors back to back, and a view of it in the shape of each. */
typedef struct ts_flat {
    ts_tensor *buffer; /* 1-D; one reference, held here; NULL after fini */
    ts_tensor **view;  /* n tensors, one reference each */
    int n;
} ts_flat;

/* tensors[index[i]] gives shape and dtype of view i; all share one dtype; values are zero. */
ts_status ts_flat_make(ts_flat *out, ts_tensor *const *tensors, const int *index, int n,
                       ts_memory memory, ts_category category);
void ts_flat_fini(ts_flat *flat);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The shortest loop nest over the elements of one or two strided operands. */
#ifndef TS_TENSOR_LOOP_IMPL_H
#define TS_TENSOR_LOOP_IMPL_H

#include "tensor/tensor.h"

typedef struct ts_loop {
    int ndim; /* at least 2; the innermost dimensions come last */
    int64_t dim[TS_MAX_DIMS + 2];
    int64_t to[TS_MAX_DIMS + 2], from[TS_MAX_DIMS + 2]; /* steps in elements */
} ts_loop;

/* Sorts the dimensions by the steps of `to`, merges those that can be walked as one and drops
 * sizes of 1. */
void ts_loop_init(ts_loop *loop, const ts_shape *shape, const int64_t *to, const int64_t *from);

/* A position in all but the last two dimensions, with the offsets of the operands there. */
typedef struct ts_loop_at {
    int64_t index[TS_MAX_DIMS + 2], to, from;
} ts_loop_at;

void ts_loop_seek(const ts_loop *loop, ts_loop_at *at, int64_t plane);
void ts_loop_next(const ts_loop *loop, ts_loop_at *at);
int64_t ts_loop_planes(const ts_loop *loop);

#endif

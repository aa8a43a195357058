/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TS_COMM_REDUCE_SCATTER_H
#define TS_COMM_REDUCE_SCATTER_H

#include "comm/backend/native/native.h"

/* In shared memory: picks one of the following two. */
ts_status ts_reduce_scatter_local(ts_shm *s, const ts_coll *coll);
/* Small: all parts lie in the slot. */
ts_status ts_reduce_scatter_flat(ts_shm *s, const ts_coll *coll);
ts_status ts_reduce_scatter_shm(ts_shm *s, const ts_coll *coll);
ts_status ts_reduce_scatter_socket(ts_native *n, const ts_coll *coll);

static inline size_t ts_part_bytes(const ts_coll *coll, int q)
{
    return (size_t)coll->parts[q].count * ts_dtype_size(coll->dtype);
}

/* Bytes of piece i when a part of that many bytes is cut into steps. */
static inline size_t ts_piece_bytes(size_t bytes, uint64_t i, size_t step)
{
    size_t begin = i * step;
    return begin >= bytes ? 0 : bytes - begin < step ? bytes - begin : step;
}

#endif

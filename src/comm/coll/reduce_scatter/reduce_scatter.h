/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TS_COMM_REDUCE_SCATTER_H
#define TS_COMM_REDUCE_SCATTER_H

#include "comm/backend/native/team.h"

/* In shared memory: picks one of the following two. */
ts_status ts_reduce_scatter_local(ts_shm *s, const ts_coll *coll);
/* Small: all parts lie in the slot. */
ts_status ts_reduce_scatter_flat(ts_shm *s, const ts_coll *coll);
ts_status ts_reduce_scatter_shm(ts_shm *s, const ts_coll *coll);

/* Ranks on several hosts: picks one of those below for the way between hosts.  Rank q's share lies
 * at piece[q]; out may be piece[rank].  p ranks, n bytes of all pieces; a: latency of a message, b:
 * time per byte sent, c: per byte reduced. */
ts_status ts_reduce_scatter_hosts(ts_native *n, const ts_coll *coll);
/* a + (p - 1) / p n (b + c), with p - 1 messages at a time; sums in the order of ranks */
ts_status ts_reduce_scatter_direct(ts_team *t, char *const *piece, const size_t *bytes, char *out);
/* (p - 1) a + (p - 1) / p n (b + c), in little room */
ts_status ts_reduce_scatter_pairwise(ts_team *t, char *const *piece, const size_t *bytes,
                                     char *out);

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

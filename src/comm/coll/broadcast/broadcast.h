/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TS_COMM_BROADCAST_H
#define TS_COMM_BROADCAST_H

#include "comm/backend/native/team.h"

/* In shared memory: picks one of the following two. */
ts_status ts_broadcast_local(ts_shm *s, const ts_coll *coll);
/* Small: the data rides with the root's header or in its slot. */
ts_status ts_broadcast_flat(ts_shm *s, const ts_coll *coll);
/* All copy from the root. */
ts_status ts_broadcast_shm(ts_shm *s, const ts_coll *coll);

/* Ranks on several hosts: picks one of those below for the way between hosts.  p ranks, n bytes; a:
 * latency of a message, b: time per byte. */
ts_status ts_broadcast_hosts(ts_native *n, const ts_coll *coll);
/* log2 p (a + n b) */
ts_status ts_broadcast_tree(ts_team *t, int root, char *data, size_t bytes);
/* (p - 2 + n / s) (a + s b) with segments of s bytes.  shares: so many ranks, counted from the root,
 * have a share each already; 1: the root alone. */
ts_status ts_broadcast_chain(ts_team *t, int root, char *data, size_t bytes, int shares,
                             size_t segment);
/* (log2 p + p - 1) a + 2 (p - 1) / p n b */
ts_status ts_broadcast_scatter(ts_team *t, int root, char *data, size_t bytes, size_t segment);

static inline size_t ts_tensor_bytes_of(const ts_coll *coll)
{
    return (size_t)coll->tensor.count * ts_dtype_size(coll->dtype);
}

#endif

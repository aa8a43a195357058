/* SPDX-License-Identifier: Apache-2.0 */
/* The root reads the tensors of all ranks and reduces them in their order; the same bits as
 * all_reduce.  Only the root's tensor changes. */
#ifndef TS_COMM_REDUCE_H
#define TS_COMM_REDUCE_H

#include "comm/backend/native/team.h"

ts_status ts_reduce_shm(ts_shm *s, const ts_coll *coll);

/* Ranks on several hosts: picks one of those below for the way between hosts.  In data, which the
 * algorithm may overwrite; the result is on the root.  p ranks, n bytes; a: latency of a message, b:
 * time per byte sent, c: per byte reduced. */
ts_status ts_reduce_hosts(ts_native *n, const ts_coll *coll);
/* log2 p (a + n b + n c) */
ts_status ts_reduce_tree(ts_team *t, int root, char *data, size_t bytes);
/* a + (p - 1) n (b + c); sums in the order of ranks */
ts_status ts_reduce_direct(ts_team *t, int root, char *data, size_t bytes);

#endif

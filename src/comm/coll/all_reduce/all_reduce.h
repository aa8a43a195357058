/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TS_COMM_ALL_REDUCE_H
#define TS_COMM_ALL_REDUCE_H

#include "comm/backend/native/team.h"

/* ---- in shared memory ------------------------------------------------------------------------ */

/* Picks one of the following. */
ts_status ts_all_reduce_local(ts_shm *s, const ts_coll *coll);
/* Small: everybody reads everybody's copy; one meeting. */
ts_status ts_all_reduce_flat(ts_shm *s, const ts_coll *coll);
/* The same, after an agreement on data that lies in everybody's slot. */
void ts_all_reduce_slots(ts_shm *s, const ts_coll *coll, size_t bytes);
/* Each rank reduces its share, then all copy the shares of the others.  push: stores it into
 * everybody's tensor instead; or, if the tensors are short and none is in the shared heap, flat. */
ts_status ts_all_reduce_shm(ts_shm *s, const ts_coll *coll, bool push);
/* That, after an agreement on places to which all can store. */
ts_status ts_all_reduce_push(ts_pieces *p);

/* ---- between hosts --------------------------------------------------------------------------- */

/* Ranks on several hosts: picks one of those below for the way between hosts. */
ts_status ts_all_reduce_hosts(ts_native *n, const ts_coll *coll);

/* In place, bytes of the operation's dtype.  p ranks, n bytes; a: latency of a message, b: time per
 * byte sent, c: time per byte reduced.  In all of them the same bits come out on all ranks. */

/* log2 p (a + n b + n c).  For short data on many hosts. */
ts_status ts_all_reduce_doubling(ts_team *t, char *data, size_t bytes);
/* 2 log2 p a + 2 (p - 1) / p n b + (p - 1) / p n c. */
ts_status ts_all_reduce_halving(ts_team *t, char *data, size_t bytes);
/* 2 (p - 1) a + 2 (p - 1) / p n b + (p - 1) / p n c, the last two overlapped. */
ts_status ts_all_reduce_ring(ts_team *t, char *data, size_t bytes, size_t segment);
/* 2 a + 2 (p - 1) / p n b + (p - 1) / p n c, with p - 1 messages at a time; sums in the order of
 * ranks, so an element's bits do not depend on its place. */
ts_status ts_all_reduce_direct(ts_team *t, char *data, size_t bytes, size_t segment);

#endif

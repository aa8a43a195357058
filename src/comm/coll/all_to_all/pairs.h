/* SPDX-License-Identifier: Apache-2.0 */
/* Operations in which every rank gives every rank a piece of its own: all_to_all, and, with most
 * pieces empty, gather and scatter. */
#ifndef TS_COMM_PAIRS_H
#define TS_COMM_PAIRS_H

#include "comm/backend/native/native.h"

/* What the calling rank gives to rank q, and takes from it. */
ts_buffer ts_pairs_given(const ts_coll *coll, int rank, int q);
ts_buffer ts_pairs_taken(const ts_coll *coll, int rank, int q);

/* Elements of the longest piece that the calling rank gives. */
int64_t ts_pairs_most(const ts_coll *coll, int rank, int size);
/* After an agreement whose sum is not 0: TS_EMISMATCH naming a pair.  On all ranks. */
ts_status ts_pairs_mismatch(ts_native *n, const ts_coll *coll);

ts_status ts_pairs_run(ts_native *n, const ts_coll *coll);
/* Each rank reads what is for it. */
ts_status ts_pairs_shm(ts_shm *s, const ts_coll *coll);
/* Ranks on several hosts.  p ranks, n bytes that a rank gives; a: latency, b: time per byte.
 *     flat: log2 p a + p n b     direct: a + n b     pairwise: (p - 1) a + n b, one at a time */
ts_status ts_pairs_hosts(ts_native *n, const ts_coll *coll);
/* What the rank gives itself. */
void ts_pairs_keep_own(const ts_coll *coll, int rank);

#endif

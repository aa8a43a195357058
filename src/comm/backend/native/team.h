/* SPDX-License-Identifier: Apache-2.0 */
/* What algorithms between hosts are made of. */
#ifndef TS_COMM_TEAM_H
#define TS_COMM_TEAM_H

#include "comm/backend/native/native.h"

/* This rank's lane. */
ts_team ts_lane_team(ts_native *n, const ts_coll *coll);

/* Nothing is sent for no bytes. */
static inline void ts_team_send(ts_exchange *e, const ts_team *t, int to, const void *data,
                                size_t bytes)
{
    if (bytes > 0) ts_exchange_send(e, t->member[to], t->step, data, bytes);
}
static inline void ts_team_recv(ts_exchange *e, const ts_team *t, int from, void *data,
                                size_t bytes)
{
    if (bytes > 0) ts_exchange_recv(e, t->member[from], t->step, data, bytes);
}
/* Sends to one and receives from another. */
ts_status ts_team_swap(ts_team *t, int to, const void *out, size_t out_bytes, int from, void *in,
                       size_t in_bytes);

/* to = first op second, of the operation's dtype; an average is only summed up. */
void ts_team_combine(const ts_team *t, void *to, const void *first, const void *second,
                     size_t bytes);
/* The reduction of parts of an average. */
static inline ts_reduce_op ts_partial_op(const ts_coll *coll)
{
    return coll->reduce == TS_AVG ? TS_SUM : coll->reduce;
}
/* Makes the sum over all ranks of the group an average, if that is wanted. */
void ts_team_finish(const ts_team *t, void *data, size_t bytes);

/* Cuts whole into n->parts, one for each lane worth using, if each should have at least `least` bytes;
 * the host's other ranks get none. */
void ts_cut_for_lanes(ts_native *n, const ts_buffer *whole, size_t element, size_t least);

/* Recursive algorithms work on powers of two.  Of the other ranks each odd one of the first pairs
 * hands its data to the even one before, which stands for both: place is the number of those who
 * go on, -1 for those who wait.  Costs one step before and one after. */
typedef struct ts_fold {
    int place, size; /* size: a power of two */
    int extra;       /* pairs at the begin */
} ts_fold;
ts_fold ts_fold_of(const ts_team *t);
int ts_fold_rank(const ts_fold *f, int place); /* whose place that is */
/* Reduces the data of each pair on its even rank / brings the result back to the odd one. */
ts_status ts_fold_in(ts_team *t, const ts_fold *f, char *data, char *scratch, size_t bytes);
ts_status ts_fold_out(ts_team *t, const ts_fold *f, char *data, size_t bytes);

/* Ring: the data is cut into a chunk per rank.  With sum, each rank starts with all chunks, and
 * ends with its own one reduced; with gather each rank starts with its own chunk, and ends with
 * all; with both the one follows the other, segment by segment.  Chunks may differ in size.
 *     sum:    (p - 1) (a + n / p b + n / p c)     gather: (p - 1) (a + n / p b)
 * for latency a, time b per byte sent and c per byte reduced; segments overlap b and c.
 * (Patarasuk, Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations, JPDC 69,
 * 2009.) */
typedef struct ts_ring {
    char *const *chunk;
    const size_t *bytes;
    bool sum, gather;
    size_t segment; /* 0: default */
    int full;       /* 1 + a rank that has all chunks already and gets none; 0: none */
} ts_ring;
ts_status ts_ring_run(ts_team *t, const ts_ring *ring);

#endif

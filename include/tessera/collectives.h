/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives.
 *
 * Called by all members of the group in the same order.  With work NULL a call is synchronous: it
 * returns when the result is there.  Otherwise it returns at once, *work is yours, and the tensors
 * (which the work keeps alive) must not be touched before ts_work_wait.
 *
 * Tensors lie on the CPU and may be of any dtype where data only moves; complex64 goes together
 * with float32 and complex128 with float64, as pairs.  Strided tensors are packed and unpacked;
 * memory outside the view is not touched.  Zero elements are fine.  Sizes are not bounded by 2^31.
 *
 * Errors reach every rank concerned: TS_EMISMATCH when members disagree (both sides and the rank
 * sets are named), TS_EREMOTE when a member failed or entered with bad arguments (which that one
 * gets as TS_EINVAL and its kin), TS_ENETWORK when a peer is gone, TS_ETIMEOUT naming who has not
 * arrived, TS_EABORTED.  After TS_EMISMATCH and bad arguments the group stays usable and no tensor
 * has changed; after the others it is broken until it is destroyed. */
#ifndef TESSERA_COLLECTIVES_H
#define TESSERA_COLLECTIVES_H

#include <tessera/group.h>
#include <tessera/work.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- reductions ------------------------------------------------------------------------------
 *
 * In an order that depends on the ranks and the count only, never on who arrives when: the same
 * bits on every rank and in every run.  float16 and bfloat16 accumulate in float32 and round once
 * per host.  Integers wrap.  SUM and MAX of bool are "or", PRODUCT and MIN "and".  NaN wins in MIN
 * and MAX.  Complex numbers take SUM, AVG and PREMUL_SUM. */

typedef enum ts_reduce_op {
    TS_SUM = 0,
    TS_AVG = 1, /* sum, divided by the number of ranks; integers truncate; not bool */
    TS_PRODUCT = 2,
    TS_MIN = 3,
    TS_MAX = 4,
    TS_BAND = 5, /* integers and bool */
    TS_BOR = 6,
    TS_BXOR = 7,
    TS_PREMUL_SUM = 8 /* the functions that end in _premul */
} ts_reduce_op;

TS_API bool ts_reduce_op_supports_complex(ts_reduce_op op);

/* In place; the same bits on every rank. */
TS_API ts_status ts_all_reduce(ts_group *group, ts_tensor *tensor, ts_reduce_op op, ts_work **work);
/* The result in dst's tensor; the others' are left alone. */
TS_API ts_status ts_reduce(ts_group *group, ts_tensor *tensor, int dst, ts_reduce_op op,
                           ts_work **work);
/* out gets block `rank` of the reduction of in, which has size times its elements. */
TS_API ts_status ts_reduce_scatter_tensor(ts_group *group, ts_tensor *out, ts_tensor *in,
                                          ts_reduce_op op, ts_work **work);
/* out gets the reduction of every rank's in[rank]; pieces may differ in size. */
TS_API ts_status ts_reduce_scatter(ts_group *group, ts_tensor *out, ts_tensor *const *in, int n,
                                   ts_reduce_op op, ts_work **work);

/* PREMUL_SUM: each rank's input times its own factor, then the sum.  Inputs that are not also
 * outputs stay as they are.  Floating and complex numbers. */
TS_API ts_status ts_all_reduce_premul(ts_group *group, ts_tensor *tensor, double factor,
                                      ts_work **work);
TS_API ts_status ts_reduce_premul(ts_group *group, ts_tensor *tensor, int dst, double factor,
                                  ts_work **work);
TS_API ts_status ts_reduce_scatter_tensor_premul(ts_group *group, ts_tensor *out, ts_tensor *in,
                                                 double factor, ts_work **work);

/* Reduces V = n * size virtual shards, n of them on every rank in the order of ranks, into out (the
 * same on every rank), along one binary tree over the shards: the same bits for every number of ranks
 * that divides V.  16-bit types stay float32 until the end; TS_AVG divides by V.  shard[] are n tensors
 * of out's dtype and count, n the same on all ranks; out may be one of them. */
TS_API ts_status ts_all_reduce_shards(ts_group *group, ts_tensor *out, ts_tensor *const *shard,
                                      int n, ts_reduce_op op, ts_work **work);

/* ---- moving data ----------------------------------------------------------------------------- */

TS_API ts_status ts_broadcast(ts_group *group, ts_tensor *tensor, int src, ts_work **work);
/* out has size times the elements of in, as (W * d0, ...) or (W, d0, ...): only counts decide. */
TS_API ts_status ts_all_gather_into_tensor(ts_group *group, ts_tensor *out, ts_tensor *in,
                                           ts_work **work);
/* out[i] gets rank i's tensor; sizes may differ between ranks. */
TS_API ts_status ts_all_gather(ts_group *group, ts_tensor *const *out, int n, ts_tensor *in,
                               ts_work **work);
/* On dst, out[i] gets rank i's tensor (sizes may differ); elsewhere out is NULL and n 0. */
TS_API ts_status ts_gather(ts_group *group, ts_tensor *in, ts_tensor *const *out, int n, int dst,
                           ts_work **work);
/* out gets src's in[rank] (sizes may differ); elsewhere in is NULL and n 0. */
TS_API ts_status ts_scatter(ts_group *group, ts_tensor *out, ts_tensor *const *in, int n, int src,
                            ts_work **work);
/* Piece j of rank i's in becomes piece i of rank j's out.  Splits are lengths along dimension 0, one
 * per rank; NULL: equal pieces, and dimension 0 must be divisible by size. */
TS_API ts_status ts_all_to_all_single(ts_group *group, ts_tensor *out, ts_tensor *in,
                                      const int64_t *out_splits, const int64_t *in_splits,
                                      ts_work **work);
/* out[i] gets rank i's in[rank]; sizes may differ, and must agree in pairs. */
TS_API ts_status ts_all_to_all(ts_group *group, ts_tensor *const *out, ts_tensor *const *in, int n,
                               ts_work **work);

/* ---- meeting --------------------------------------------------------------------------------- */

/* Ends on no rank before all have entered, and all this rank issued before is done. */
TS_API ts_status ts_barrier(ts_group *group, ts_work **work);
/* Rank 0 of the group waits for all, then lets all go: either all leave with TS_OK or none.  On rank
 * 0 TS_ETIMEOUT names the missing: the first one found or, with wait_all_ranks, all of them.
 * timeout_ms 0: the group's.  Needs point-to-point only; a group survives it. */
TS_API ts_status ts_monitored_barrier(ts_group *group, int64_t timeout_ms, bool wait_all_ranks);

/* ---- several at once -------------------------------------------------------------------------
 *
 * One operation for many small tensors of one dtype.  Only the total count is compared across ranks. */

TS_API ts_status ts_all_reduce_coalesced(ts_group *group, ts_tensor *const *tensors, int n,
                                         ts_reduce_op op, ts_work **work);
/* out[i * n + k] gets rank i's in[k]. */
TS_API ts_status ts_all_gather_coalesced(ts_group *group, ts_tensor *const *out,
                                         ts_tensor *const *in, int n, ts_work **work);
/* As n calls of the single form. */
TS_API ts_status ts_all_gather_into_tensor_coalesced(ts_group *group, ts_tensor *const *out,
                                                     ts_tensor *const *in, int n, ts_work **work);
TS_API ts_status ts_reduce_scatter_tensor_coalesced(ts_group *group, ts_tensor *const *out,
                                                    ts_tensor *const *in, int n, ts_reduce_op op,
                                                    ts_work **work);

/* Between begin and end all_reduce, all_gather_into_tensor and reduce_scatter_tensor on this group
 * are only noted (a work that they are asked for is NULL); end runs them as one.  One kind, one
 * reduction and one dtype; anything else fails at the call, and end fails then too, running nothing.
 * One scope at a time per group. */
TS_API ts_status ts_coalesce_begin(ts_group *group);
TS_API ts_status ts_coalesce_end(ts_group *group, ts_work **work);

#ifdef __cplusplus
}
#endif
#endif

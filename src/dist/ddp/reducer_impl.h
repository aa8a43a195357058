/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TS_DIST_DDP_REDUCER_IMPL_H
#define TS_DIST_DDP_REDUCER_IMPL_H

#include "dist/ddp/reducer.h"
#include <tessera/collectives.h>

typedef struct reducer_param {
    ts_reducer *reducer;
    ts_tensor *tensor; /* held by the parameter list */
    const char *name;
    int64_t hook;
    int bucket, slot; /* its view is buckets[bucket].flat.view[slot] */
    bool ready;       /* in this armed backward */
} reducer_param;

typedef struct reducer_bucket {
    ts_flat flat;
    const int *params; /* indices, flat.n of them; owned by the plan */
    int pending;       /* parameters not ready yet */
    ts_work *work;     /* the all-reduce in flight */
} reducer_bucket;

/* Sums over the iterations that the log tells of. */
typedef struct reducer_times {
    int64_t samples, forward_ns, backward_ns, communication_ns, overlap_ns;
} reducer_times;

struct ts_reducer {
    ts_group *group;
    ts_tensor_list *parameters;
    int64_t caps[2];
    int num_params;
    reducer_param *params;
    ts_bucket_plan plan;
    reducer_bucket *buckets;

    bool armed;         /* a synchronising forward has run, its backward has not ended */
    bool in_backward;   /* the end-of-backward callback is queued */
    int next_bucket;    /* buckets start strictly in index order */
    ts_tensor *use_map; /* int32 per parameter: 1 if it became ready; summed over the ranks */

    int *ready_order; /* parameters as they became ready in the first armed backward */
    int num_ready;
    bool order_known, rebuilt;

    int64_t iterations;
    int64_t forward_ns, armed_ns, launched_ns; /* when they began; launched: the first bucket */
    int64_t backward_ns, wait_ns;
    reducer_times times;
};

static inline ts_tensor *reducer_view(const ts_reducer *r, const reducer_param *p)
{
    return r->buckets[p->bucket].flat.view[p->slot];
}

/* reducer_buckets.c: makes buckets by a parameter order and points the gradients at them. */
ts_status reducer_build(ts_reducer *r, const int *order);
void reducer_drop_buckets(ts_reducer *r);
/* Makes p's gradient the view in its bucket, keeping its value; no gradient: none is set. */
ts_status reducer_attach_grad(ts_reducer *r, reducer_param *p);

/* reducer_unused.c: after the use map has been summed.  TS_OK if every parameter was used on every
 * rank, else TS_ESTATE naming parameters and ranks (collective in that case). */
ts_status reducer_check_use(ts_reducer *r);

/* reducer_log.c: with the debug level DETAIL, at the end of some iterations: when the last gradient
 * was computed, and when all were reduced. */
void reducer_log_times(ts_reducer *r, int64_t computed_ns, int64_t reduced_ns);
void reducer_log_rebuild(const ts_reducer *r);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The reducer averages gradients over a group while backward is still running.
 *
 * Its three entry points are separate so that each can be tested and extended alone:
 *   ts_reducer_new      cuts the parameters into buckets and installs a hook on each accumulator;
 *   the hook            counts a gradient as ready; the last one of a bucket starts its all-reduce;
 *   ts_reducer_arm      at the end of a synchronising forward: expect every parameter once.
 * At the end of backward a callback waits for the buckets and exchanges the map of used parameters.
 *
 * Every rank starts the same collectives in the same order in every armed iteration: the buckets
 * 0, 1, ..., then the use map.  A rank on which forward or backward failed starts them with the
 * failed value instead, so its peers learn the cause and nobody waits. */
#ifndef TS_DIST_DDP_REDUCER_H
#define TS_DIST_DDP_REDUCER_H

#include <tessera/ddp.h>

#include "dist/common/bucket.h"

typedef struct ts_reducer ts_reducer;

typedef struct ts_reducer_options {
    ts_group *group;
    int64_t first_bucket_bytes;
    int64_t bucket_bytes;
} ts_reducer_options;

/* parameters (trainable, in registration order; names in messages) is taken over, also on error. */
ts_status ts_reducer_new(ts_reducer **out, ts_tensor_list *parameters,
                         const ts_reducer_options *opt);
void ts_reducer_free(ts_reducer *reducer); /* removes its hooks; NULL is fine */

/* Before a grad-enabled forward: rebuilds the buckets once, in the order in which the gradients of
 * the first armed backward became ready on rank 0.  Collective when it rebuilds. */
ts_status ts_reducer_prepare(ts_reducer *reducer);
/* After a synchronising forward. */
void ts_reducer_arm(ts_reducer *reducer);
/* Instead of arming, when forward failed: enters this iteration's collectives with failed. */
void ts_reducer_poison(ts_reducer *reducer, ts_tensor *failed);

/* With the debug level INFO: how the module, whose class is named, was wrapped. */
void ts_reducer_log_creation(const ts_reducer *reducer, const char *module, bool broadcast_buffers);

void ts_reducer_stats(ts_ddp_stats *out, const ts_reducer *reducer);

#endif

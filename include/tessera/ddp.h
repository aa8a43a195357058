/* SPDX-License-Identifier: Apache-2.0 */
/* Distributed data parallel: one replica per rank, gradients averaged during backward.
 *
 * Source: Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training",
 * VLDB 2020. */
#ifndef TESSERA_DDP_H
#define TESSERA_DDP_H

#include <tessera/group.h>
#include <tessera/module.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ts_ddp_options {
    size_t struct_size;      /* set by _INIT; 0 is refused */
    ts_group *process_group; /* NULL: the default group */
    double bucket_cap_mb;    /* 0: unset (25 MiB, first bucket 1 MiB) */
    bool broadcast_buffers;  /* true */
    bool init_sync;          /* true: check shapes, broadcast rank 0's values */
} ts_ddp_options;
#define TS_DDP_OPTIONS_INIT                                                                        \
    {                                                                                              \
        sizeof(ts_ddp_options), NULL, 0.0, true, true                                              \
    }

/* Wraps module, which it takes over as its child "module" (freed with the DDP module, or at once on
 * error).  Collective: all ranks of the group, models with the same parameters in the same order;
 * a difference is TS_EMISMATCH on all ranks, naming parameter, ranks and shapes.  Afterwards every
 * replica has rank 0's values.  Gradients become views of the reduction buckets, which lie in the
 * shared heap.  *ddp is a module: call it with ts_forward or ts_module_call. */
TS_API ts_status ts_ddp_new(ts_module **ddp, ts_module *module, const ts_ddp_options *opt);
TS_API ts_module *ts_ddp_module(ts_module *ddp); /* the wrapped module; NULL if ddp is not one */

/* Backward of a forward between begin and end (wherever it runs) accumulates locally; that of the
 * first forward after end reduces the sum.  Nests; begin returns the former state for end. */
TS_API bool ts_ddp_no_sync_begin(ts_module *ddp);
TS_API void ts_ddp_no_sync_end(ts_module *ddp, bool former);

typedef struct ts_ddp_stats {
    int64_t iterations; /* backward passes that reduced */
    int num_buckets;
    int64_t bucket_bytes_total;
    bool rebuilt_buckets;
    int64_t wait_ns;     /* time the last backward waited for reductions after its last gradient */
    int64_t backward_ns; /* last backward from the end of forward to the last gradient */
} ts_ddp_stats;
TS_API ts_status ts_ddp_get_stats(ts_ddp_stats *out, ts_module *ddp);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors as contiguous buffers, and results back into tensors. */
#ifndef TS_COMM_PACK_H
#define TS_COMM_PACK_H

#include "comm/group_impl.h"

enum { TS_PACK_IN = 1, TS_PACK_OUT = 2 };

/* A contiguous stand-in for a tensor. */
typedef struct ts_packed {
    ts_tensor *original, *copy;
    bool back; /* the copy is a result */
} ts_packed;

enum { TS_FEW_RANKS = 16 };

/* The buffers of one call.  Few ranks need no memory. */
typedef struct ts_pack {
    ts_buffer few_parts[2 * TS_FEW_RANKS], *parts; /* of both sides */
    ts_packed few_packed[2 * TS_FEW_RANKS + 1], *packed;
    int num_packed;
    bool scaled; /* inputs are multiplied by factor, in float32 at least */
    double factor;
} ts_pack;

/* sides: parts and received of that many ranks are needed. */
ts_status ts_pack_begin(ts_pack *pack, const ts_call *call, int ranks, bool sides);
void ts_pack_end(ts_pack *pack);
/* use: TS_PACK_ bits.  A contiguous tensor is its own buffer. */
ts_status ts_pack_tensor(ts_buffer *out, ts_pack *pack, ts_tensor *t, int use);
/* Copies results back. */
ts_status ts_pack_results(const ts_pack *pack);

/* bunch.c: the tensors of call->bunch, and their parts, as one each; both belong to pack. */
ts_status ts_bunch_load(ts_tensor **tensor, ts_tensor **parts, ts_pack *pack, const ts_call *call,
                        int size);
/* Copies the results out of them. */
ts_status ts_bunch_store(const ts_tensor *tensor, const ts_tensor *parts, const ts_call *call,
                         int size);

#endif

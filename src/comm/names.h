/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TS_COMM_NAMES_H
#define TS_COMM_NAMES_H

#include <tessera/ext/backend.h>

const char *ts_collective_name(ts_collective op); /* "all_reduce"; "?" */
const char *ts_reduce_name(ts_reduce_op op);      /* "SUM"; "?" */

/* Which fields of a call mean something, and so must agree on all ranks. */
enum {
    TS_AGREE_DTYPE = 1,
    TS_AGREE_REDUCE = 2,
    TS_AGREE_ROOT = 4,
    TS_AGREE_COUNT = 8,
    TS_AGREE_PARTS = 16, /* the counts of the parts */
    TS_AGREE_PAIRS = 32  /* what rank i gives rank j with what j takes from i */
};
int ts_collective_agreement(ts_collective op);

#endif

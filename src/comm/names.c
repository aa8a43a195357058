/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/names.h"

static const struct {
    const char *name;
    int agreement;
} collectives[TS_NUM_COLLECTIVES] = {
    [TS_COLL_BARRIER] = {"barrier", 0},
    [TS_COLL_ALL_REDUCE] = {"all_reduce", TS_AGREE_DTYPE | TS_AGREE_REDUCE | TS_AGREE_COUNT},
    [TS_COLL_BROADCAST] = {"broadcast", TS_AGREE_DTYPE | TS_AGREE_ROOT | TS_AGREE_COUNT},
    [TS_COLL_ALL_GATHER] = {"all_gather", TS_AGREE_DTYPE | TS_AGREE_COUNT | TS_AGREE_PARTS},
    [TS_COLL_REDUCE_SCATTER] = {"reduce_scatter",
                                TS_AGREE_DTYPE | TS_AGREE_REDUCE | TS_AGREE_COUNT | TS_AGREE_PARTS},
    [TS_COLL_REDUCE] = {"reduce",
                        TS_AGREE_DTYPE | TS_AGREE_REDUCE | TS_AGREE_ROOT | TS_AGREE_COUNT},
    [TS_COLL_GATHER] = {"gather", TS_AGREE_DTYPE | TS_AGREE_ROOT | TS_AGREE_PAIRS},
    [TS_COLL_SCATTER] = {"scatter", TS_AGREE_DTYPE | TS_AGREE_ROOT | TS_AGREE_PAIRS},
    [TS_COLL_ALL_TO_ALL] = {"all_to_all", TS_AGREE_DTYPE | TS_AGREE_PAIRS},
};

const char *ts_collective_name(ts_collective op)
{
    return (unsigned)op < TS_NUM_COLLECTIVES ? collectives[op].name : "?";
}

int ts_collective_agreement(ts_collective op)
{
    return (unsigned)op < TS_NUM_COLLECTIVES ? collectives[op].agreement : 0;
}

const char *ts_reduce_name(ts_reduce_op op)
{
    static const char *const names[] = {
        [TS_SUM] = "SUM", [TS_AVG] = "AVG",   [TS_PRODUCT] = "PRODUCT",
        [TS_MIN] = "MIN", [TS_MAX] = "MAX",   [TS_BAND] = "BAND",
        [TS_BOR] = "BOR", [TS_BXOR] = "BXOR", [TS_PREMUL_SUM] = "PREMUL_SUM"};
    return op >= TS_SUM && op <= TS_PREMUL_SUM ? names[op] : "?";
}

bool ts_reduce_op_supports_complex(ts_reduce_op op)
{
    return op == TS_SUM || op == TS_AVG || op == TS_PREMUL_SUM;
}

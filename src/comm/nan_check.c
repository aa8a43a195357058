/* SPDX-License-Identifier: Apache-2.0 */
/* Looks for NaN in what goes out: the first rank that has one is named on all. */
#include <string.h>

#include "base/memory.h"
#include "comm/group_impl.h"

static bool is_nan(const char *at, unsigned dtype)
{
    uint16_t half;
    float single;
    double real;
    switch (dtype) {
    case TS_FLOAT32:
    case TS_COMPLEX64: memcpy(&single, at, sizeof single); return single != single;
    case TS_FLOAT64:
    case TS_COMPLEX128: memcpy(&real, at, sizeof real); return real != real;
    default:
        memcpy(&half, at, sizeof half);
        return (half & 0x7fff) > (dtype == TS_FLOAT16 ? 0x7c00 : 0x7f80);
    }
}

/* Index of the first one, in row-major order; -1: none. */
static int64_t find_nan(const ts_tensor *t)
{
    bool pair = ts_is_complex(t->dtype);
    size_t element = ts_element_size(t->dtype) / (pair ? 2 : 1);
    const char *data = ts_tensor_bytes(t);
    for (int64_t i = 0; i < ts_real_count(t); i++)
        if (is_nan(data + (size_t)i * element, t->dtype)) return pair ? i / 2 : i;
    return -1;
}

ts_status ts_tensor_check_nan(const ts_group *group, ts_tensor *t, const char *op)
{
    bool real = ts_dtype_is_floating((ts_dtype)t->dtype) || ts_is_complex(t->dtype);
    if (!group->checks_nan || !real || t->numel == 0) return TS_OK;
    ts_tensor *copy = NULL;
    if (!t->contiguous) {
        ts_spec spec = ts_tensor_spec(t);
        copy = ts_pack_room(&spec);
        if (!copy) return TS_ENOMEM;
        ts_tensor_copy_data(copy, t);
    }
    int64_t at = find_nan(copy ? copy : t);
    ts_release(copy);
    if (at < 0) return TS_OK;
    return ts_fail(TS_EINVAL, "%s: element %lld of the input is NaN (TESSERA_NAN_CHECK)", op,
                   (long long)at);
}

static void check(const ts_group *group, ts_call *call, ts_tensor *t)
{
    if (!t || call->coll.status != TS_OK) return;
    ts_status status = ts_tensor_check_nan(group, t, call->coll.name);
    if (status != TS_OK) ts_call_fail_last(call, status);
}

void ts_call_check_nan(const ts_group *group, ts_call *call)
{
    bool root = call->coll.root == group->rank;
    ts_collective op = call->coll.op;
    bool writes =
        op == TS_COLL_REDUCE_SCATTER || op == TS_COLL_SCATTER || (op == TS_COLL_BROADCAST && !root);
    bool parts =
        op == TS_COLL_REDUCE_SCATTER || op == TS_COLL_ALL_TO_ALL || (op == TS_COLL_SCATTER && root);
    if (!writes) check(group, call, call->tensor);
    for (int i = 0; !writes && i < call->bunch.n; i++) check(group, call, call->bunch.tensor[i]);
    if (!parts || call->coll.status != TS_OK) return;
    check(group, call, call->parts.whole);
    for (int i = 0; call->parts.list && i < group->size; i++)
        check(group, call, call->parts.list[i]);
}

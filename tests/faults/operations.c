/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of random kind, dtype and size. */
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "faults.h"

/* Sums and products of these are exact in every dtype. */
static int value_of(const member *m, ts_reduce_op op, int rank, int64_t i)
{
    uint64_t mixed = (uint64_t)i * 0x9e3779b97f4a7c15u + m->salt + (uint64_t)rank * 977;
    return op == TS_PRODUCT ? 1 + (int)(mixed >> 20 & 1) : (int)(mixed >> 20 & 15);
}

static int combine(ts_reduce_op op, int a, int b)
{
    switch (op) {
    case TS_PRODUCT: return a * b;
    case TS_MIN: return a < b ? a : b;
    case TS_MAX: return a > b ? a : b;
    case TS_BAND: return a & b;
    case TS_BOR: return a | b;
    case TS_BXOR: return a ^ b;
    default: return a + b;
    }
}

typedef struct reduction {
    ts_reduce_op op;
    ts_dtype dtype;
} reduction;

static reduction some_reduction(member *m)
{
    static const ts_reduce_op ops[] = {TS_SUM, TS_SUM,  TS_PRODUCT, TS_MIN,
                                       TS_MAX, TS_BAND, TS_BOR,     TS_BXOR};
    reduction r = {.dtype = (ts_dtype)dice_below(&m->dice, TS_BOOL)};
    r.op = ops[dice_below(&m->dice, ts_dtype_is_floating(r.dtype) ? 5 : 8)];
    return r;
}

static ts_tensor *values_of(member *m, reduction r, int rank, int64_t count)
{
    ts_tensor *t = ts_empty(TS_SHAPE(count), NULL);
    float *x = count ? ts_data_mut(t) : NULL;
    for (int64_t i = 0; i < count; i++) x[i] = (float)value_of(m, r.op, rank, i);
    return ts_to_dtype(t, r.dtype);
}

/* t is elements first... of the reduction over all ranks. */
static void expect_reduced(member *m, const char *what, ts_tensor *t, reduction r, int64_t first)
{
    ts_tensor *as_float = ts_to_dtype(t, TS_FLOAT32);
    const float *x = ts_data(as_float);
    for (int64_t i = 0; i < ts_numel(t); i++) {
        int sum = value_of(m, r.op, 0, first + i);
        for (int rank = 1; rank < m->size; rank++)
            sum = combine(r.op, sum, value_of(m, r.op, rank, first + i));
        if (x[i] != (float)sum) {
            complain(m->seat, "wrong data: %s of %d x %s, reduction %d: element %d is %g, not %d",
                     what, (int)ts_numel(t), ts_dtype_name(r.dtype), (int)r.op, (int)i, x[i], sum);
            return;
        }
    }
}

static int some_rank(member *m) { return (int)dice_below(&m->dice, m->size); }

static ts_status op_all_reduce(member *m)
{
    reduction r = some_reduction(m);
    ts_tensor *t = values_of(m, r, m->rank, some_count(m));
    TS_TRY(ts_all_reduce(m->group, t, r.op, NULL));
    expect_reduced(m, "all_reduce", t, r, 0);
    return TS_OK;
}

static ts_status op_reduce(member *m)
{
    reduction r = some_reduction(m);
    int dst = some_rank(m);
    ts_tensor *t = values_of(m, r, m->rank, some_count(m));
    TS_TRY(ts_reduce(m->group, t, TS_GROUP_RANK(dst), r.op, NULL));
    if (m->rank == dst) expect_reduced(m, "reduce", t, r, 0);
    return TS_OK;
}

static ts_status op_reduce_scatter(member *m)
{
    reduction r = some_reduction(m);
    int64_t count = some_count(m);
    ts_tensor *in = values_of(m, r, m->rank, count * m->size), *out = blank(count, r.dtype);
    TS_TRY(ts_reduce_scatter_tensor(m->group, out, in, r.op, NULL));
    expect_reduced(m, "reduce_scatter", out, r, count * m->rank);
    return TS_OK;
}

static ts_status op_broadcast(member *m)
{
    int src = some_rank(m);
    int64_t count = some_count(m);
    ts_dtype dtype = some_dtype(m);
    ts_tensor *t = m->rank == src ? bytes_of(m, src, count, dtype) : blank(count, dtype);
    TS_TRY(ts_broadcast(m->group, t, TS_GROUP_RANK(src), NULL));
    expect_bytes(m, "broadcast", t, 0, src, count);
    return TS_OK;
}

static ts_status op_all_gather_into(member *m)
{
    int64_t count = some_count(m);
    ts_dtype dtype = some_dtype(m);
    ts_tensor *out = blank(count * m->size, dtype);
    TS_TRY(ts_all_gather_into_tensor(m->group, out, bytes_of(m, m->rank, count, dtype), NULL));
    for (int i = 0; i < m->size; i++)
        expect_bytes(m, "all_gather_into_tensor", out, count * i, i, count);
    return TS_OK;
}

/* Sizes that differ between ranks, for those that follow. */
static void some_counts(member *m, int64_t count[MOST_RANKS])
{
    for (int i = 0; i < m->size; i++) count[i] = some_count(m);
}

static ts_status op_all_gather(member *m)
{
    int64_t count[MOST_RANKS];
    ts_tensor *out[MOST_RANKS];
    ts_dtype dtype = some_dtype(m);
    some_counts(m, count);
    for (int i = 0; i < m->size; i++) out[i] = blank(count[i], dtype);
    TS_TRY(
        ts_all_gather(m->group, out, m->size, bytes_of(m, m->rank, count[m->rank], dtype), NULL));
    for (int i = 0; i < m->size; i++) expect_bytes(m, "all_gather", out[i], 0, i, count[i]);
    return TS_OK;
}

static ts_status op_gather(member *m)
{
    int64_t count[MOST_RANKS];
    ts_tensor *out[MOST_RANKS];
    ts_dtype dtype = some_dtype(m);
    int dst = some_rank(m);
    bool here = m->rank == dst;
    some_counts(m, count);
    for (int i = 0; i < m->size && here; i++) out[i] = blank(count[i], dtype);
    TS_TRY(ts_gather(m->group, bytes_of(m, m->rank, count[m->rank], dtype), here ? out : NULL,
                     here ? m->size : 0, TS_GROUP_RANK(dst), NULL));
    for (int i = 0; i < m->size && here; i++) expect_bytes(m, "gather", out[i], 0, i, count[i]);
    return TS_OK;
}

static ts_status op_scatter(member *m)
{
    int64_t count[MOST_RANKS];
    ts_tensor *in[MOST_RANKS];
    ts_dtype dtype = some_dtype(m);
    int src = some_rank(m);
    bool here = m->rank == src;
    some_counts(m, count);
    for (int i = 0; i < m->size && here; i++) in[i] = bytes_of(m, i, count[i], dtype);
    ts_tensor *out = blank(count[m->rank], dtype);
    TS_TRY(
        ts_scatter(m->group, out, here ? in : NULL, here ? m->size : 0, TS_GROUP_RANK(src), NULL));
    expect_bytes(m, "scatter", out, 0, m->rank, count[m->rank]);
    return TS_OK;
}

/* Rank i sends `count[j]` bytes of its own to rank j. */
static ts_status op_all_to_all(member *m)
{
    int64_t count[MOST_RANKS];
    ts_tensor *in[MOST_RANKS], *out[MOST_RANKS];
    ts_dtype dtype = some_dtype(m);
    some_counts(m, count);
    for (int i = 0; i < m->size; i++) {
        in[i] = bytes_of(m, m->rank, count[i], dtype);
        out[i] = blank(count[m->rank], dtype);
    }
    TS_TRY(ts_all_to_all(m->group, out, in, m->size, NULL));
    for (int i = 0; i < m->size; i++) expect_bytes(m, "all_to_all", out[i], 0, i, count[m->rank]);
    return TS_OK;
}

static ts_status op_barrier(member *m) { return ts_barrier(m->group, NULL); }

static ts_status op_monitored_barrier(member *m)
{
    return ts_monitored_barrier(m->group, 0, dice_chance(&m->dice, 50));
}

static ts_status op_coalesced(member *m)
{
    ts_tensor *t[4];
    reduction r = some_reduction(m);
    int n = 1 + (int)dice_below(&m->dice, 4);
    for (int i = 0; i < n; i++) t[i] = values_of(m, r, m->rank, some_count(m));
    TS_TRY(ts_all_reduce_coalesced(m->group, t, n, r.op, NULL));
    for (int i = 0; i < n; i++) expect_reduced(m, "all_reduce_coalesced", t[i], r, 0);
    return TS_OK;
}

/* Several under way; all are waited for, whatever becomes of one. */
static ts_status op_async(member *m)
{
    ts_tensor *t[5];
    ts_work *work[5] = {0};
    reduction r[5];
    ts_status first = TS_OK;
    int n = 1 + (int)dice_below(&m->dice, 5), started = 0;
    for (int i = 0; i < n; i++) {
        r[i] = some_reduction(m);
        t[i] = values_of(m, r[i], m->rank, some_count(m));
    }
    while (started < n && first == TS_OK) {
        first = ts_all_reduce(m->group, t[started], r[started].op, &work[started]);
        if (first == TS_OK) started++;
    }
    char text[sizeof m->seat->text];
    if (first != TS_OK) snprintf(text, sizeof text, "%s", ts_error_last());
    for (int i = 0; i < started; i++) {
        ts_status status = ts_work_wait(work[i], 0);
        if (status == TS_OK) expect_reduced(m, "asynchronous all_reduce", t[i], r[i], 0);
        if (status != TS_OK && first == TS_OK) {
            first = status;
            snprintf(text, sizeof text, "%s", ts_error_last());
        }
        ts_work_free(work[i]);
    }
    return first == TS_OK ? TS_OK : ts_fail(first, "%s", text);
}

static const struct {
    const char *name;
    ts_status (*run)(member *m);
} kinds[] = {
    {"barrier", op_barrier},
    {"all_reduce", op_all_reduce},
    {"reduce", op_reduce},
    {"reduce_scatter_tensor", op_reduce_scatter},
    {"broadcast", op_broadcast},
    {"all_gather_into_tensor", op_all_gather_into},
    {"all_gather", op_all_gather},
    {"gather", op_gather},
    {"scatter", op_scatter},
    {"all_to_all", op_all_to_all},
    {"monitored_barrier", op_monitored_barrier},
    {"all_reduce_coalesced", op_coalesced},
    {"asynchronous all_reduce", op_async},
    {"messages in a ring", op_ring},
    {"messages in pairs", op_pairs},
    {"messages from any", op_from_any},
    {"batch of messages", op_batch},
    {"objects", op_objects},
    {"coalesced scope", op_coalesced_scope},
    {"DDP step", op_train},
    {"new group", op_new_group},
    {"split group", op_split_group},
};

ts_status some_plain_operation(member *m)
{
    static const int plain[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 16, 17};
    return kinds[plain[dice_below(&m->dice, (int)(sizeof plain / sizeof *plain))]].run(m);
}

ts_status operation(member *m, uint64_t seed, int index)
{
    ts_scope scope = ts_scope_begin();
    m->dice.state = seed * 1000003 + (uint64_t)index;
    m->salt = dice_next(&m->dice);
    int kind = (int)dice_below(&m->dice, (int)(sizeof kinds / sizeof *kinds));
    if (index == 0) kind = 0; /* all have joined before anything can go wrong */
    snprintf(m->seat->name, sizeof m->seat->name, "%s", kinds[kind].name);
    m->seat->operation = index;
    m->seat->began_ns = ts_now_ns();
    ts_status status = kinds[kind].run(m);
    m->seat->status = status;
    if (status != TS_OK) {
        m->seat->ended_ns = ts_now_ns();
        snprintf(m->seat->text, sizeof m->seat->text, "%s", ts_error_last());
    }
    if (ts_scope_end(scope) != TS_OK && status == TS_OK)
        complain(m->seat, "a tensor has failed: %s", ts_error_last());
    return status;
}

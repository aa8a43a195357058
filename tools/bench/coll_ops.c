/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of tessera bench coll: one row each. */
#include <math.h>
#include <stdlib.h>
#include <tessera/tessera.h>

#include "base/error.h"
#include "base/memory.h"
#include "bench/coll.h"

enum { CHUNK = 1 << 16 /* elements that are filled or looked at at a time */ };

/* ---- data ------------------------------------------------------------------------------------ */

/* Element i of a rank's input: small whole numbers, whose sums every dtype holds for some ranks. */
static double pattern(int64_t i, int rank) { return (double)(i % 3 + rank % 4); }

static double sum_at(const coll_case *c, int64_t i)
{
    double sum = 0;
    for (int r = 0; r < c->ranks; r++) sum += pattern(i, r);
    return sum;
}

static double expect_sum(const coll_case *c, int root, int64_t i)
{
    (void)root;
    return sum_at(c, i);
}

static double expect_my_sum(const coll_case *c, int root, int64_t i)
{
    (void)root;
    return sum_at(c, c->rank * c->piece + i);
}

static double expect_root(const coll_case *c, int root, int64_t i)
{
    (void)c;
    return pattern(i, root);
}

static double expect_root_piece(const coll_case *c, int root, int64_t i)
{
    return pattern(c->rank * c->piece + i, root);
}

/* Inputs of one piece are all numbered from 0. */
static double expect_pieces(const coll_case *c, int root, int64_t i)
{
    (void)root;
    return pattern(i % c->piece, (int)(i / c->piece));
}

static double expect_my_pieces(const coll_case *c, int root, int64_t i)
{
    (void)root;
    return pattern(c->rank * c->piece + i % c->piece, (int)(i / c->piece));
}

/* Rank 0's, also after it has come back. */
static double expect_first(const coll_case *c, int root, int64_t i)
{
    (void)c, (void)root;
    return pattern(i, 0);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static ts_status all_reduce(const coll_case *c, int root, ts_work **work)
{
    (void)root;
    return ts_all_reduce(NULL, c->in, TS_SUM, work);
}

static ts_status coalesced(const coll_case *c, int root, ts_work **work)
{
    (void)root;
    return ts_all_reduce_coalesced(NULL, c->in_parts, COLL_PARTS, TS_SUM, work);
}

static ts_status reduce(const coll_case *c, int root, ts_work **work)
{
    return ts_reduce(NULL, c->in, root, TS_SUM, work);
}

static ts_status broadcast(const coll_case *c, int root, ts_work **work)
{
    return ts_broadcast(NULL, c->in, root, work);
}

static ts_status all_gather(const coll_case *c, int root, ts_work **work)
{
    (void)root;
    return ts_all_gather_into_tensor(NULL, c->out, c->in, work);
}

static ts_status gather(const coll_case *c, int root, ts_work **work)
{
    bool mine = c->rank == root;
    return ts_gather(NULL, c->in, mine ? c->out_parts : NULL, mine ? c->ranks : 0, root, work);
}

static ts_status scatter(const coll_case *c, int root, ts_work **work)
{
    bool mine = c->rank == root;
    return ts_scatter(NULL, c->out, mine ? c->in_parts : NULL, mine ? c->ranks : 0, root, work);
}

static ts_status reduce_scatter(const coll_case *c, int root, ts_work **work)
{
    (void)root;
    return ts_reduce_scatter_tensor(NULL, c->out, c->in, TS_SUM, work);
}

static ts_status all_to_all(const coll_case *c, int root, ts_work **work)
{
    (void)root;
    return ts_all_to_all_single(NULL, c->out, c->in, NULL, NULL, work);
}

static ts_status barrier(const coll_case *c, int root, ts_work **work)
{
    (void)c, (void)root;
    return ts_barrier(NULL, work);
}

static ts_status message(const coll_case *c, bool sending, ts_work **work)
{
    int peer = c->rank == 0 ? c->ranks - 1 : 0;
    if (sending) return work ? ts_isend(NULL, c->in, peer, 0, work) : ts_send(NULL, c->in, peer, 0);
    return work ? ts_irecv(NULL, c->in, peer, 0, work) : ts_recv(NULL, c->in, peer, 0, NULL);
}

static ts_status send_recv(const coll_case *c, int root, ts_work **work)
{
    (void)root;
    return message(c, c->rank == 0, work);
}

/* There and back; the way back is the one that is waited for. */
static ts_status ping_pong(const coll_case *c, int root, ts_work **work)
{
    (void)root;
    TS_TRY(message(c, c->rank == 0, NULL));
    return message(c, c->rank != 0, work);
}

/* ---- the rows -------------------------------------------------------------------------------- */

static double bus_twice(int ranks) { return 2.0 * (ranks - 1) / ranks; }
static double bus_once(int ranks) { return (double)(ranks - 1) / ranks; }

const coll_op coll_ops[] = {
    {"all_reduce", BENCH_LIMIT_ALL_REDUCE, .expected = expect_sum, .in = COLL_WHOLE,
     .out = COLL_IN_PLACE, .issue = all_reduce, .bus = bus_twice},
    {"reduce", BENCH_LIMIT_REDUCE, .expected = expect_sum, .in = COLL_WHOLE, .out = COLL_IN_PLACE,
     .issue = reduce, .rooted = true, .result_at_root = true},
    {"broadcast", BENCH_LIMIT_BROADCAST, .expected = expect_root, .in = COLL_WHOLE,
     .out = COLL_IN_PLACE, .issue = broadcast, .rooted = true, .fills_at_root = true},
    {"all_gather", BENCH_LIMIT_ALL_GATHER, .expected = expect_pieces, .in = COLL_PIECE,
     .out = COLL_PIECES, .issue = all_gather, .bus = bus_once},
    {"gather", BENCH_LIMIT_GATHER, .expected = expect_pieces, .in = COLL_PIECE, .out = COLL_PIECES,
     .issue = gather, .rooted = true, .result_at_root = true, .bus = bus_once},
    {"scatter", BENCH_LIMIT_SCATTER, .expected = expect_root_piece, .in = COLL_PIECES,
     .out = COLL_PIECE, .issue = scatter, .rooted = true, .fills_at_root = true, .bus = bus_once},
    {"reduce_scatter", BENCH_LIMIT_REDUCE_SCATTER, .expected = expect_my_sum, .in = COLL_PIECES,
     .out = COLL_PIECE, .issue = reduce_scatter, .bus = bus_once},
    {"all_to_all", BENCH_LIMIT_ALL_TO_ALL, .expected = expect_my_pieces, .in = COLL_PIECES,
     .out = COLL_PIECES, .issue = all_to_all, .bus = bus_once},
    {"barrier", BENCH_LIMIT_NONE, .in = COLL_WHOLE, .out = COLL_IN_PLACE, .issue = barrier,
     .no_data = true},
    {"send_recv", BENCH_LIMIT_NONE, .expected = expect_first, .in = COLL_WHOLE,
     .out = COLL_IN_PLACE, .issue = send_recv, .fills_at_root = true, .pair = true},
    {"ping_pong", BENCH_LIMIT_NONE, .expected = expect_first, .in = COLL_WHOLE,
     .out = COLL_IN_PLACE, .issue = ping_pong, .fills_at_root = true, .pair = true, .share = 0.5},
    {"all_reduce_coalesced", BENCH_LIMIT_ALL_REDUCE, .expected = expect_sum, .in = COLL_WHOLE,
     .out = COLL_IN_PLACE, .issue = coalesced, .bus = bus_twice},
};
const int coll_num_ops = sizeof coll_ops / sizeof *coll_ops;

/* ---- cases ----------------------------------------------------------------------------------- */

static int64_t extent_of(const coll_case *c, coll_extent extent)
{
    if (extent == COLL_WHOLE) return c->count;
    return extent == COLL_PIECE ? c->piece : c->piece * c->ranks;
}

static ts_tensor *make_tensor(const coll_case *c, coll_extent extent)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = c->plan->dtype;
    opt.memory = c->plan->memory;
    opt.category = TS_CATEGORY_COMMUNICATION;
    return ts_zeros(TS_SHAPE(extent_of(c, extent)), &opt);
}

/* t cut into n pieces, the last ones shorter. */
static ts_status cut(ts_tensor ***parts, ts_tensor *t, int n)
{
    int64_t each = (ts_numel(t) + n - 1) / n;
    *parts = ts_calloc((size_t)n, sizeof **parts);
    if (!*parts) return ts_fail_memory((size_t)n * sizeof **parts, "bench coll");
    for (int i = 0; i < n; i++) {
        int64_t begin = i * each < ts_numel(t) ? i * each : ts_numel(t);
        int64_t left = ts_numel(t) - begin;
        (*parts)[i] = ts_narrow(t, 0, begin, left < each ? left : each);
        TS_TRY(ts_tensor_status((*parts)[i]));
    }
    return TS_OK;
}

ts_status coll_case_make(coll_case *c, const coll_plan *plan, const coll_op *op, int64_t bytes)
{
    *c = (coll_case){.plan = plan, .op = op, .bytes = bytes};
    c->rank = ts_rank();
    c->ranks = ts_world_size();
    c->count = bytes / (int64_t)ts_dtype_size(plan->dtype);
    if (c->count < 1) c->count = 1;
    c->piece = c->count / c->ranks > 0 ? c->count / c->ranks : 1;
    c->in = make_tensor(c, op->in);
    c->out = op->out == COLL_IN_PLACE ? c->in : make_tensor(c, op->out);
    TS_TRY(ts_tensor_status(c->in));
    TS_TRY(ts_tensor_status(c->out));
    if (op->issue == gather) TS_TRY(cut(&c->out_parts, c->out, c->ranks));
    if (op->issue == scatter) TS_TRY(cut(&c->in_parts, c->in, c->ranks));
    if (op->issue == coalesced) TS_TRY(cut(&c->in_parts, c->in, COLL_PARTS));
    return TS_OK;
}

void coll_case_free(coll_case *c)
{
    free(c->in_parts);
    free(c->out_parts);
}

static int root_of(const coll_case *c, int64_t call)
{
    return c->op->rooted && !c->plan->fake ? (int)(call % c->ranks) : 0;
}

/* Messages go between the first and the last rank. */
static bool is_aside(const coll_case *c)
{
    return c->op->pair && c->rank != 0 && c->rank != c->ranks - 1;
}

ts_status coll_case_call(const coll_case *c, int64_t i)
{
    ts_work *work = NULL;
    int root = root_of(c, i);
    if (is_aside(c)) return TS_OK;
    if (!c->plan->v->async) return c->op->issue(c, root, NULL);
    ts_status status = c->op->issue(c, root, &work);
    if (status == TS_OK) status = ts_work_wait(work, 0);
    ts_work_free(work);
    return status;
}

/* ---- the check ------------------------------------------------------------------------------- */

static ts_status fill_chunk(const coll_case *c, int64_t begin, int64_t n, double *values)
{
    ts_scope scope = ts_scope_begin();
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_FLOAT64;
    for (int64_t i = 0; i < n; i++) values[i] = pattern(begin + i, c->rank);
    ts_tensor *wide = ts_from_data(values, TS_SHAPE(n), &opt);
    ts_status status = ts_tensor_status(ts_copy_(ts_narrow(c->in, 0, begin, n), wide));
    ts_status left = ts_scope_end(scope);
    return status != TS_OK ? status : left;
}

static double wrap(const coll_case *c, double value)
{
    return c->plan->dtype == TS_UINT8 ? fmod(value, 256) : value;
}

static ts_status look_at_chunk(const coll_case *c, int root, int64_t begin, int64_t n,
                               double *values)
{
    ts_scope scope = ts_scope_begin();
    ts_tensor *wide = ts_to_dtype(ts_narrow(c->out, 0, begin, n), TS_FLOAT64);
    ts_status status = ts_copy_out(wide, values, (size_t)n * sizeof *values);
    for (int64_t i = 0; i < n && status == TS_OK; i++) {
        double wanted = wrap(c, c->op->expected(c, root, begin + i));
        if (!(fabs(values[i] - wanted) <= 0.01 * wanted))
            status = ts_fail(TS_EUSER, "bench coll: %s of %lld bytes: element %lld is %g, not %g",
                             c->op->name, (long long)c->bytes, (long long)(begin + i), values[i],
                             wanted);
    }
    ts_status left = ts_scope_end(scope);
    return status != TS_OK ? status : left;
}

static ts_status fill(const coll_case *c, int root, double *values)
{
    int64_t n = ts_numel(c->in);
    TS_TRY(ts_tensor_status(ts_zero_(c->out)));
    if (c->op->fills_at_root && c->rank != root) return TS_OK;
    for (int64_t i = 0; i < n; i += CHUNK)
        TS_TRY(fill_chunk(c, i, n - i < CHUNK ? n - i : CHUNK, values));
    return TS_OK;
}

static ts_status look_at(const coll_case *c, int root, double *values)
{
    int64_t n = ts_numel(c->out);
    if (c->op->result_at_root && c->rank != root) return TS_OK;
    if (is_aside(c)) return TS_OK;
    for (int64_t i = 0; i < n; i += CHUNK)
        TS_TRY(look_at_chunk(c, root, i, n - i < CHUNK ? n - i : CHUNK, values));
    return TS_OK;
}

ts_status coll_case_check(const coll_case *c, int64_t i)
{
    int root = root_of(c, i);
    if (c->op->no_data || c->plan->fake) return coll_case_call(c, i);
    double *values = ts_calloc(CHUNK, sizeof *values);
    if (!values) return ts_fail_memory(CHUNK * sizeof *values, "bench coll");
    ts_status status = fill(c, root, values);
    if (status == TS_OK) status = coll_case_call(c, i);
    if (status == TS_OK) status = look_at(c, root, values);
    free(values);
    return status;
}

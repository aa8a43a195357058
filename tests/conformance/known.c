/* SPDX-License-Identifier: Apache-2.0 */
/* The examples that PyTorch documents, number by number. */
#include <stdarg.h>
#include <string.h>

#include "conformance.h"

static ts_tensor *int64s(int n, ...)
{
    int64_t value[16];
    va_list args;
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_INT64;
    va_start(args, n);
    for (int i = 0; i < n; i++) value[i] = va_arg(args, int);
    va_end(args);
    return ts_from_data(value, TS_SHAPE(n), &opt);
}

/* The complex numbers k + k i for those k. */
static ts_tensor *complexes(ts_tensor *ks)
{
    int64_t k[16];
    float pair[32];
    int n = (int)ts_numel(ks);
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_COMPLEX64;
    if (ts_copy_out(ks, k, ts_nbytes(ks)) != TS_OK) return ks;
    for (int i = 0; i < 2 * n; i++) pair[i] = (float)k[i / 2];
    return ts_from_data(pair, TS_SHAPE(n), &opt);
}

static void same(conf *c, int line, ts_tensor *got, ts_tensor *wanted)
{
    char a[256], b[256];
    size_t bytes = ts_nbytes(wanted);
    if (c->flags & CONF_FAKE) return;
    if (ts_nbytes(got) != bytes || ts_copy_out(got, a, bytes) != TS_OK ||
        ts_copy_out(wanted, b, bytes) != TS_OK || memcmp(a, b, bytes) != 0)
        conf_fail(c, line, "not the documented numbers");
}
#define SAME(got, wanted) same(c, __LINE__, (got), (wanted))

static void sums(conf *c)
{
    int r = c->rank;
    ts_tensor *t = int64s(2, 1 + 2 * r, 2 + 2 * r), *z = complexes(t);
    CONF_OK(ts_all_reduce(c->group, t, TS_SUM, NULL));
    SAME(t, int64s(2, 4, 6));
    CONF_OK(ts_all_reduce(c->group, z, TS_SUM, NULL));
    SAME(z, complexes(int64s(2, 4, 6)));
    ts_tensor *in = int64s(4, 0, 1, 2, 3), *out = int64s(2, -1, -1);
    CONF_OK(ts_reduce_scatter_tensor(c->group, out, in, TS_SUM, NULL));
    SAME(out, int64s(2, 4 * r, 4 * r + 2));
    CONF_OK(ts_reduce_scatter_tensor(c->group, out, ts_view(in, TS_SHAPE(2, 2)), TS_SUM, NULL));
    SAME(out, int64s(2, 4 * r, 4 * r + 2));
    ts_tensor *mean = int64s(1, r + 1);
    CONF_OK(ts_all_reduce(c->group, mean, TS_AVG, NULL));
    SAME(mean, int64s(1, 1));
}

static void gathers(conf *c)
{
    int r = c->rank;
    ts_tensor *in = int64s(2, 1 + 2 * r, 2 + 2 * r);
    ts_tensor *out[] = {int64s(2, 0, 0), int64s(2, 0, 0)};
    CONF_OK(ts_all_gather(c->group, out, 2, in, NULL));
    SAME(out[0], int64s(2, 1, 2));
    SAME(out[1], int64s(2, 3, 4));
    ts_tensor *z[] = {complexes(out[0]), complexes(out[0])};
    CONF_OK(ts_all_gather(c->group, z, 2, complexes(in), NULL));
    SAME(z[0], complexes(int64s(2, 1, 2)));
    SAME(z[1], complexes(int64s(2, 3, 4)));
    ts_tensor *flat = int64s(4, 0, 0, 0, 0),
              *stacked = ts_view(int64s(4, 0, 0, 0, 0), TS_SHAPE(2, 2));
    CONF_OK(ts_all_gather_into_tensor(c->group, flat, in, NULL));
    CONF_OK(ts_all_gather_into_tensor(c->group, stacked, in, NULL));
    SAME(flat, int64s(4, 1, 2, 3, 4));
    SAME(stacked, flat);
    ts_tensor *own = int64s(2, 1 + r, 1 + r);
    CONF_OK(ts_gather(c->group, own, r ? NULL : out, r ? 0 : 2, 0, NULL));
    if (r == 0) SAME(out[0], int64s(2, 1, 1));
    if (r == 0) SAME(out[1], int64s(2, 2, 2));
    ts_tensor *from[] = {int64s(2, 1, 1), int64s(2, 5, 5)};
    CONF_OK(ts_scatter(c->group, own, r ? NULL : from, r ? 0 : 2, 0, NULL));
    SAME(own, r ? int64s(2, 5, 5) : int64s(2, 1, 1));
}

static void even_exchange(conf *c)
{
    int r = c->rank;
    ts_tensor *in = int64s(4, 4 * r, 4 * r + 1, 4 * r + 2, 4 * r + 3), *out = int64s(4, 0, 0, 0, 0);
    ts_tensor *z = complexes(out);
    CONF_OK(ts_all_to_all_single(c->group, out, in, NULL, NULL, NULL));
    SAME(out, int64s(4, r, 4 + r, 8 + r, 12 + r));
    CONF_OK(ts_all_to_all_single(c->group, z, complexes(in), NULL, NULL, NULL));
    SAME(z, complexes(out));
}

static void uneven_exchange(conf *c)
{
    static const int64_t gives[4][4] = {{2, 2, 1, 1}, {3, 2, 2, 2}, {2, 1, 1, 1}, {2, 2, 2, 1}};
    static const int64_t takes[4][4] = {{2, 3, 2, 2}, {2, 2, 1, 2}, {1, 2, 1, 2}, {1, 2, 1, 1}};
    ts_tensor *in[] = {int64s(6, 0, 1, 2, 3, 4, 5), int64s(9, 10, 11, 12, 13, 14, 15, 16, 17, 18),
                       int64s(5, 20, 21, 22, 23, 24), int64s(7, 30, 31, 32, 33, 34, 35, 36)};
    ts_tensor *want[] = {int64s(9, 0, 1, 10, 11, 12, 20, 21, 30, 31),
                         int64s(7, 2, 3, 13, 14, 22, 32, 33), int64s(6, 4, 15, 16, 23, 34, 35),
                         int64s(5, 5, 17, 18, 24, 36)};
    ts_tensor *out = ts_zeros_like(want[c->rank]), *list = ts_zeros_like(out), *ins[4], *outs[4];
    int64_t in_at = 0, out_at = 0;
    CONF_OK(ts_all_to_all_single(c->group, out, in[c->rank], takes[c->rank], gives[c->rank], NULL));
    SAME(out, want[c->rank]);
    for (int q = 0; q < 4; q++) {
        ins[q] = ts_narrow(in[c->rank], 0, in_at, gives[c->rank][q]);
        outs[q] = ts_narrow(list, 0, out_at, takes[c->rank][q]);
        in_at += gives[c->rank][q];
        out_at += takes[c->rank][q];
    }
    CONF_OK(ts_all_to_all(c->group, outs, ins, 4, NULL));
    SAME(list, want[c->rank]);
}

static void ring(conf *c)
{
    int r = c->rank, before = (r + c->size - 1) % c->size;
    ts_tensor *out = int64s(2, 2 * r, 2 * r + 1), *in = int64s(2, 0, 0);
    ts_work *work[2];
    if (c->flags & CONF_NO_MESSAGES) return;
    ts_p2p_op op[] = {{true, out, (r + 1) % c->size, 0, NULL}, {false, in, before, 0, NULL}};
    CONF_OK(ts_batch_isend_irecv(op, 2, work));
    CONF_OK(ts_wait_all(work, 2));
    SAME(in, int64s(2, 2 * before, 2 * before + 1));
}

const conf_case conf_known[] = {
    {"known sums", sums, 2, 2},
    {"known gathers", gathers, 2, 2},
    {"known even exchange", even_exchange, 4, 4},
    {"known uneven exchange", uneven_exchange, 4, 4},
    {"known ring", ring, 1, 0},
    {NULL, NULL, 0, 0},
};

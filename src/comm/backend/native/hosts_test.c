/* SPDX-License-Identifier: Apache-2.0 */
/* Every algorithm between hosts, on even and uneven hosts, around the borders of its segments: exact
 * results, the same bits everywhere and every time, and no more bytes between hosts than needed. */
#include <stdlib.h>
#include <time.h>

#include "comm/backend/native/native.h"
#include "comm/engine_impl.h"
#include "comm/group_impl.h"
#include "test.h"

static ts_native *native_of(ts_test *test) { return test->group->state; }

/* Makes op run algorithm, in segments of that many bytes; the table's rows stay behind it. */
static void force(ts_test *test, ts_collective op, int algorithm, size_t segment)
{
    ts_choice *choice = native_of(test)->selection.choice[op];
    ts_selection_init(&native_of(test)->selection, test->size, native_of(test)->topology.hosts);
    memmove(choice + 1, choice, (TS_MAX_CHOICES - 1) * sizeof *choice);
    choice[0] = (ts_choice){SIZE_MAX, (ts_algorithm)algorithm, segment};
}

static const int64_t sizes[] = {0, 1, 7, 1000, 16384, 70001, 262147};
enum { NUM_SIZES = sizeof sizes / sizeof *sizes };

static double value_of(int rank, int64_t i) { return (double)((i * 7 + rank * 3) % 4 + 1); }

static ts_tensor *make(int rank, int64_t n, int64_t from, ts_dtype dtype, int memory)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    ts_tensor *values = ts_empty(TS_SHAPE(n), NULL);
    float *data = ts_data_mut(values);
    for (int64_t i = 0; i < n; i++) data[i] = (float)value_of(rank, from + i);
    opt.memory = memory % 2 ? TS_MEMORY_SHARED : TS_MEMORY_HEAP;
    opt.dtype = dtype;
    return ts_copy_(ts_empty(TS_SHAPE(n), &opt), values);
}

/* Elements from .. of what a reduction of make() over all ranks gives. */
static bool is_reduced(ts_test *test, ts_tensor *t, int64_t from, ts_reduce_op op)
{
    ts_tensor *wide = ts_to_dtype(t, TS_FLOAT64);
    const double *data = ts_data(wide);
    if (ts_failed(wide)) return false;
    for (int64_t i = 0; i < ts_numel(wide); i++) {
        double sum = 0, most = 0;
        for (int r = 0; r < test->size; r++) {
            double v = value_of(r, from + i);
            sum += v;
            most = v > most ? v : most;
        }
        double want = op == TS_MAX ? most : op == TS_AVG ? sum / test->size : sum;
        if (fabs(data[i] - want) <= (op == TS_AVG ? 0.004 * want : 0)) continue;
        ts_test_fail(test, __FILE__, __LINE__, "element %lld of %lld is %g, expected %g",
                     (long long)i, (long long)ts_numel(t), data[i], want);
        return false;
    }
    return true;
}

static bool is_made(ts_tensor *t, int rank, int64_t from)
{
    const float *data = ts_data(t);
    for (int64_t i = 0; i < ts_numel(t); i++)
        if (data[i] != (float)value_of(rank, from + i)) return false;
    return true;
}

/* ---- one operation each, of about n elements ------------------------------------------------- */

static void all_reduces(ts_test *test, int64_t n)
{
    ts_tensor *a = make(test->rank, n, 0, TS_FLOAT32, (int)n);
    TS_PASS(ts_all_reduce(test->group, a, TS_SUM, NULL));
    TS_EXPECT(is_reduced(test, a, 0, TS_SUM));
    ts_tensor *b = make(test->rank, n, 0, TS_BFLOAT16, (int)n + test->rank);
    TS_PASS(ts_all_reduce(test->group, b, TS_AVG, NULL));
    TS_EXPECT(is_reduced(test, b, 0, TS_AVG));
    ts_tensor *c = make(test->rank, n, 0, TS_INT64, (int)n + 1);
    TS_PASS(ts_all_reduce(test->group, c, TS_MAX, NULL));
    TS_EXPECT(is_reduced(test, c, 0, TS_MAX));
}

static void reduces(ts_test *test, int64_t n)
{
    for (int root = 0; root < test->size; root++) {
        ts_tensor *t = make(test->rank, n, 0, TS_FLOAT32, (int)n + root);
        TS_PASS(ts_reduce(test->group, t, root, root % 2 ? TS_AVG : TS_SUM, NULL));
        TS_EXPECT(test->rank == root ? is_reduced(test, t, 0, root % 2 ? TS_AVG : TS_SUM)
                                     : is_made(t, test->rank, 0));
    }
}

static void broadcasts(ts_test *test, int64_t n)
{
    for (int root = 0; root < test->size; root++) {
        ts_tensor *t = make(test->rank, n, 0, TS_FLOAT32, (int)n + root);
        TS_PASS(ts_broadcast(test->group, t, root, NULL));
        TS_EXPECT(is_made(t, root, 0));
    }
}

/* Rank r has n - r elements, or none. */
static int64_t count_of(int rank, int64_t n) { return n > rank ? n - rank : 0; }

static void all_gathers(ts_test *test, int64_t n)
{
    ts_tensor *out[TS_MAX_CHOICES * 2];
    for (int r = 0; r < test->size; r++)
        out[r] = make(100, count_of(r, n), 1, TS_FLOAT32, (int)n + 1);
    ts_tensor *in = make(test->rank, count_of(test->rank, n), 0, TS_FLOAT32, (int)n);
    TS_PASS(ts_all_gather(test->group, out, test->size, in, NULL));
    for (int r = 0; r < test->size; r++) TS_EXPECT(is_made(out[r], r, 0));
}

static void reduce_scatters(ts_test *test, int64_t n)
{
    ts_tensor *in[TS_MAX_CHOICES * 2];
    for (int r = 0; r < test->size; r++)
        in[r] = make(test->rank, count_of(r, n), r, TS_FLOAT32, (int)n);
    ts_tensor *out = make(7, count_of(test->rank, n), 0, TS_FLOAT32, (int)n + 1);
    ts_reduce_op op = n % 2 ? TS_SUM : TS_AVG;
    TS_PASS(ts_reduce_scatter(test->group, out, in, test->size, op, NULL));
    TS_EXPECT(is_reduced(test, out, test->rank, op));
    for (int r = 0; r < test->size; r++) TS_EXPECT(is_made(in[r], test->rank, r));
}

static void gathers(ts_test *test, int64_t n)
{
    ts_tensor *out[TS_MAX_CHOICES * 2];
    int root = (int)(n % test->size);
    bool here = test->rank == root;
    for (int r = 0; r < test->size; r++) out[r] = make(99, count_of(r, n), 1, TS_FLOAT32, (int)n);
    ts_tensor *in = make(test->rank, count_of(test->rank, n), 0, TS_FLOAT32, (int)n);
    TS_PASS(ts_gather(test->group, in, here ? out : NULL, here ? test->size : 0, root, NULL));
    for (int r = 0; r < test->size && here; r++) TS_EXPECT(is_made(out[r], r, 0));
}

static void scatters(ts_test *test, int64_t n)
{
    ts_tensor *in[TS_MAX_CHOICES * 2];
    int root = (int)(n % test->size);
    bool here = test->rank == root;
    for (int r = 0; r < test->size; r++) in[r] = make(r, count_of(r, n), r, TS_FLOAT32, (int)n);
    ts_tensor *out = make(99, count_of(test->rank, n), 0, TS_FLOAT32, (int)n);
    TS_PASS(ts_scatter(test->group, out, here ? in : NULL, here ? test->size : 0, root, NULL));
    TS_EXPECT(is_made(out, test->rank, test->rank));
}

/* Rank i gives rank j n - i - j elements. */
static void exchanges(ts_test *test, int64_t n)
{
    ts_tensor *in[TS_MAX_CHOICES * 2], *out[TS_MAX_CHOICES * 2];
    for (int r = 0; r < test->size; r++) {
        in[r] = make(test->rank, count_of(r + test->rank, n), r, TS_FLOAT32, (int)n);
        out[r] = make(99, count_of(r + test->rank, n), 0, TS_FLOAT32, (int)n + 1);
    }
    TS_PASS(ts_all_to_all(test->group, out, in, test->size, NULL));
    for (int r = 0; r < test->size; r++) TS_EXPECT(is_made(out[r], r, test->rank));
}

static void (*const run[TS_NUM_COLLECTIVES])(ts_test *test, int64_t n) = {
    [TS_COLL_ALL_REDUCE] = all_reduces, [TS_COLL_BROADCAST] = broadcasts,
    [TS_COLL_ALL_GATHER] = all_gathers, [TS_COLL_REDUCE_SCATTER] = reduce_scatters,
    [TS_COLL_REDUCE] = reduces,         [TS_COLL_GATHER] = gathers,
    [TS_COLL_SCATTER] = scatters,       [TS_COLL_ALL_TO_ALL] = exchanges,
};

static void all_algorithms(ts_test *test)
{
    for (int op = 0; op < TS_NUM_COLLECTIVES; op++) {
        unsigned offered = ts_algorithms_offered((ts_collective)op, TS_HOSTS_FEW);
        for (int a = 0; a < TS_NUM_ALGORITHMS && run[op]; a++) {
            if (!(offered >> a & 1)) continue;
            force(test, (ts_collective)op, a, a % 2 ? 4096 : 0);
            for (int i = 0; i < NUM_SIZES && !test->failures; i++) {
                ts_scope scope = ts_scope_begin();
                run[op](test, sizes[i]);
                TS_PASS(ts_scope_end(scope));
            }
            if (test->failures)
                ts_test_fail(test, __FILE__, __LINE__, "with %s",
                             ts_algorithm_name((ts_algorithm)a));
            if (test->failures) return;
        }
    }
}

TS_TEST(algorithms_hosts_1_1, .ranks = 2, .hosts = 2) { all_algorithms(test); }
TS_TEST(algorithms_hosts_2_2, .ranks = 4, .hosts = 2) { all_algorithms(test); }
TS_TEST(algorithms_hosts_3_1, .ranks = 4, .hosts = 2, .split = "3+1") { all_algorithms(test); }
TS_TEST(algorithms_hosts_1_2, .ranks = 3, .hosts = 2, .split = "1+2") { all_algorithms(test); }
TS_TEST(algorithms_hosts_3_alone, .ranks = 3, .hosts = 3) { all_algorithms(test); }
TS_TEST(algorithms_hosts_5_alone, .ranks = 5, .hosts = 5) { all_algorithms(test); }
TS_TEST(algorithms_hosts_4_of_2, .ranks = 8, .hosts = 4, .timeout_s = 60) { all_algorithms(test); }

/* ---- data behind an agreement that fails ----------------------------------------------------- */

static bool nothing_came_early(ts_test *test)
{
    ts_engine *engine = native_of(test)->port->engine;
    bool empty = true;
    ts_engine_lock(engine);
    for (int i = 0; i < TS_BUCKETS; i++) empty = empty && ts_list_empty(&engine->bucket[i].early);
    ts_engine_unlock(engine);
    return empty;
}

static void disagreements(ts_test *test, int64_t n)
{
    bool odd = test->rank == 1;
    ts_group *group = test->group;
    ts_tensor *t = make(test->rank, n, 0, TS_FLOAT32, 0);
    ts_tensor *longer = make(test->rank, n + odd, 0, TS_FLOAT32, 0);
    ts_tensor *both[2] = {make(0, n, 0, TS_FLOAT32, 0), make(1, n, 0, TS_FLOAT32, 0)};
    TS_FAIL(odd ? ts_barrier(group, NULL) : ts_broadcast(group, t, 0, NULL), TS_EMISMATCH,
            "barrier");
    TS_FAIL(odd ? ts_all_reduce(group, t, TS_SUM, NULL) : ts_reduce(group, t, 1, TS_SUM, NULL),
            TS_EMISMATCH, "reduce");
    TS_FAIL(ts_all_reduce(group, longer, TS_SUM, NULL), TS_EMISMATCH, "all_reduce");
    TS_FAIL(ts_gather(group, longer, odd ? NULL : both, odd ? 0 : 2, 0, NULL), TS_EMISMATCH,
            "rank 1 gives rank 0");
    if (odd)
        TS_FAIL(ts_all_reduce(group, ts_reshape(t, TS_SHAPE(3)), TS_SUM, NULL), TS_ESHAPE,
                "reshape");
    else
        TS_FAIL(ts_all_reduce(group, t, TS_SUM, NULL), TS_EREMOTE, "reshape");
    TS_EXPECT(is_made(t, test->rank, 0));
    broadcasts(test, n);
    all_reduces(test, n);
}

TS_TEST(data_behind_a_disagreement_is_dropped, .ranks = 2, .hosts = 2)
{
    static const int64_t lengths[] = {100, 5000, 131072, 131073, 400000};
    for (int i = 0; i < 5 && !test->failures; i++) disagreements(test, lengths[i]);
    TS_PASS(ts_barrier(test->group, NULL));
    TS_EXPECT(nothing_came_early(test));
}

/* ---- bits ------------------------------------------------------------------------------------ */

static double hash_of(ts_tensor *t)
{
    uint64_t h = 0xcbf29ce484222325u;
    const unsigned char *data = ts_data(t);
    for (size_t i = 0; i < ts_nbytes(t); i++) h = (h ^ data[i]) * 0x100000001b3u;
    return (double)(h >> 12);
}

static ts_tensor *fractions(int rank, int64_t n)
{
    ts_tensor *t = ts_empty(TS_SHAPE(n), NULL);
    float *data = ts_data_mut(t);
    for (int64_t i = 0; i < n; i++) data[i] = 1.0f / (float)(i * 31 % 977 + rank * 13 + 1);
    return t;
}

/* Ranks come late by random times; the sums are the same every time, on every rank. */
static void bits(ts_test *test, int algorithm)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_FLOAT64;
    unsigned seed = (unsigned)test->rank + 1;
    double first = 0;
    force(test, TS_COLL_ALL_REDUCE, algorithm, 4096);
    for (int k = 0; k < 5; k++) {
        ts_tensor *t = fractions(test->rank, algorithm == TS_ALGORITHM_FLAT ? 3001 : 20011);
        seed = seed * 1103515245u + 12345u;
        nanosleep(&(struct timespec){0, (long)(seed >> 16 & 3) * 1000000}, NULL);
        TS_PASS(ts_all_reduce(test->group, t, TS_SUM, NULL));
        double mine = hash_of(t);
        if (k == 0) first = mine;
        TS_EXPECT(mine == first);
        ts_tensor *most = ts_full(TS_SHAPE(1), mine, &opt);
        TS_PASS(ts_all_reduce(test->group, most, TS_MAX, NULL));
        TS_EXPECT_ALL(most, mine);
    }
}

static void bits_of_all(ts_test *test)
{
    unsigned offered = ts_algorithms_offered(TS_COLL_ALL_REDUCE, TS_HOSTS_FEW);
    for (int a = 0; a < TS_NUM_ALGORITHMS; a++)
        if (offered >> a & 1) bits(test, a);
}

TS_TEST(same_bits_hosts_2_1_2, .ranks = 5, .hosts = 3, .split = "2+1+2") { bits_of_all(test); }
TS_TEST(same_bits_hosts_5_alone, .ranks = 5, .hosts = 5) { bits_of_all(test); }

/* ---- bytes between hosts --------------------------------------------------------------------- */

static int64_t sent_by_all(ts_test *test, uint64_t before)
{
    int64_t sent = (int64_t)(ts_port_traffic(native_of(test)->port).sent_bytes - before);
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_INT64;
    ts_tensor *sum = ts_from_data(&sent, TS_SHAPE(1), &opt);
    if (ts_all_reduce(test->group, sum, TS_SUM, NULL) != TS_OK) return -1;
    return *(const int64_t *)ts_data(sum);
}

/* What the agreement of the hosts takes: a note per host in hand in each step. */
static int64_t agreement_bytes(int hosts)
{
    int64_t bytes = 0;
    for (int have = 1; have < hosts; have *= 2)
        bytes += (have < hosts - have ? have : hosts - have) * 32;
    return bytes * hosts;
}

static void counts_bytes(ts_test *test, int algorithm)
{
    enum { N = 240000 };
    int hosts = native_of(test)->topology.hosts;
    int64_t bytes = N * (int64_t)sizeof(float), extra = agreement_bytes(hosts);
    force(test, TS_COLL_ALL_REDUCE, algorithm, 0);
    ts_tensor *t = make(test->rank, N, 0, TS_FLOAT32, 1);
    uint64_t before = ts_port_traffic(native_of(test)->port).sent_bytes;
    TS_PASS(ts_all_reduce(test->group, t, TS_SUM, NULL));
    TS_EXPECT_INT(sent_by_all(test, before), 2 * bytes * (hosts - 1) + extra);
    before = ts_port_traffic(native_of(test)->port).sent_bytes;
    TS_PASS(ts_broadcast(test->group, t, test->size - 1, NULL));
    TS_EXPECT_INT(sent_by_all(test, before), bytes * (hosts - 1) + extra);
    ts_tensor *all = make(0, (int64_t)N * test->size, 0, TS_FLOAT32, 1);
    before = ts_port_traffic(native_of(test)->port).sent_bytes;
    TS_PASS(ts_all_gather_into_tensor(test->group, all, t, NULL));
    TS_EXPECT_INT(sent_by_all(test, before), bytes * test->size * (hosts - 1) + extra);
    before = ts_port_traffic(native_of(test)->port).sent_bytes;
    TS_PASS(ts_reduce_scatter_tensor(test->group, t, all, TS_SUM, NULL));
    TS_EXPECT_INT(sent_by_all(test, before), bytes * test->size * (hosts - 1) + extra);
}

/* all_reduce takes 2 (h - 1) / h of the data per host, the least possible. */
TS_TEST(least_bytes_hosts_2_2, .ranks = 4, .hosts = 2)
{
    counts_bytes(test, TS_ALGORITHM_RING);
    counts_bytes(test, TS_ALGORITHM_HALVING);
    counts_bytes(test, TS_ALGORITHM_DIRECT);
}
TS_TEST(least_bytes_hosts_3_1, .ranks = 4, .hosts = 2, .split = "3+1")
{
    counts_bytes(test, TS_ALGORITHM_RING);
}
TS_TEST(least_bytes_hosts_2_1_2, .ranks = 5, .hosts = 3, .split = "2+1+2")
{
    counts_bytes(test, TS_ALGORITHM_RING);
    counts_bytes(test, TS_ALGORITHM_DIRECT);
}

/* ---- the table ------------------------------------------------------------------------------- */

TS_TEST(table_offers_what_it_names, .ranks = 0)
{
    static const int hosts[] = {1, 2, 3, 8, 9, 1000};
    for (int i = 0; i < 6; i++)
        for (int op = 0; op < TS_NUM_COLLECTIVES; op++) {
            ts_selection s = {0};
            ts_selection_init(&s, hosts[i] < 2 ? 2 : hosts[i], hosts[i]);
            unsigned offered =
                ts_algorithms_offered((ts_collective)op, ts_hosts_class_of(hosts[i]));
            for (int k = 0; k < TS_MAX_CHOICES; k++) {
                const ts_choice *c = &s.choice[op][k];
                TS_EXPECT(offered >> c->algorithm & 1 || k > 0);
                if (c->max_bytes == SIZE_MAX) break;
            }
            const ts_choice *last = ts_choose(&s, (ts_collective)op, SIZE_MAX);
            TS_EXPECT(op == TS_COLL_BARRIER || last->algorithm != TS_ALGORITHM_FLAT);
        }
}

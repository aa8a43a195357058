/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <unistd.h>

#include "comm/coll/all_reduce_shards/tree.h"
#include "test.h"

enum { V = 12 };

static const ts_dtype dtypes[] = {TS_FLOAT32, TS_FLOAT64, TS_BFLOAT16, TS_FLOAT16, TS_INT32};

/* ---- the tree -------------------------------------------------------------------------------- */

/* Covers hold each shard once, in order, with at most two nodes per level, none of which could be
 * larger. */
TS_TEST(shards_tree_covers)
{
    ts_tree_node node[TS_TREE_NODES];
    for (int64_t shards = 1; shards <= 40; shards++)
        for (int64_t begin = 0; begin < shards; begin++)
            for (int64_t end = begin + 1; end <= shards; end++) {
                int64_t at = begin;
                int n = ts_tree_cover(node, begin, end, shards), height = ts_tree_height(shards);
                TS_EXPECT(n <= 2 * height + 1);
                for (int i = 0; i < n; i++) {
                    TS_EXPECT_INT(node[i].index << node[i].level, at);
                    TS_EXPECT(node[i].level <= height);
                    at += INT64_C(1) << node[i].level;
                }
                TS_EXPECT(at == end || (end == shards && at > end));
            }
    TS_EXPECT_INT(ts_tree_cover(node, 0, 12, 12), 1);
    TS_EXPECT_INT(ts_tree_cover(node, 0, 6, 12), 2);
    TS_EXPECT_INT(ts_tree_cover(node, 4, 8, 12), 1);
    TS_EXPECT_INT(ts_tree_height(1), 0);
    TS_EXPECT_INT(ts_tree_height(12), 4);
}

/* ---- what must come out, by tensor operations ------------------------------------------------ */

static ts_tensor_options of(ts_dtype dtype)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = dtype;
    return opt;
}

/* Shard i of V, the same wherever it is made.  Sums of such numbers depend on their order. */
static ts_tensor *make(int64_t n, ts_dtype dtype, int i)
{
    ts_tensor_options opt = of(dtype);
    ts_manual_seed(100 + (uint64_t)i);
    if (dtype == TS_INT32) return ts_randint(-1000, 1000, TS_SHAPE(n), &opt);
    ts_tensor *t = ts_empty(TS_SHAPE(n), &opt);
    return ts_copy_(t, ts_mul(ts_randn(TS_SHAPE(n), NULL), ts_randn(TS_SHAPE(n), NULL)));
}

static ts_tensor *sum(ts_tensor *const *shard, int level, int index)
{
    if (level == 0) return shard[index];
    ts_tensor *left = sum(shard, level - 1, 2 * index);
    if ((2 * index + 1) << (level - 1) >= V) return left;
    return ts_add(left, sum(shard, level - 1, 2 * index + 1));
}

static void divide(ts_tensor *t)
{
    void *data = ts_data_mut(t);
    for (int64_t i = 0; i < ts_numel(t); i++) switch (ts_tensor_dtype(t)) {
        case TS_FLOAT32: ((float *)data)[i] /= V; break;
        case TS_FLOAT64: ((double *)data)[i] /= V; break;
        default: ((int32_t *)data)[i] /= V; break;
        }
}

static ts_tensor *expected(int64_t n, ts_dtype dtype, ts_reduce_op op)
{
    ts_tensor *shard[V];
    ts_dtype wide = dtype == TS_BFLOAT16 || dtype == TS_FLOAT16 ? TS_FLOAT32 : dtype;
    ts_tensor_options opt = of(wide), narrow = of(dtype);
    for (int i = 0; i < V; i++) shard[i] = ts_copy_(ts_empty(TS_SHAPE(n), &opt), make(n, dtype, i));
    ts_tensor *t = sum(shard, 4, 0);
    if (op == TS_AVG) divide(t);
    return ts_copy_(ts_empty(TS_SHAPE(n), &narrow), t);
}

/* ---- every number of ranks ------------------------------------------------------------------- */

static bool same_bits(ts_tensor *a, ts_tensor *b)
{
    return ts_nbytes(a) == ts_nbytes(b) &&
           (ts_numel(a) == 0 || memcmp(ts_data(a), ts_data(b), ts_nbytes(a)) == 0);
}

static void reduce(ts_test *test, int64_t n, ts_dtype dtype, ts_reduce_op op)
{
    ts_tensor_options opt = of(dtype);
    ts_tensor *own[V], *out = ts_zeros(TS_SHAPE(n), &opt);
    int each = V / test->size;
    ts_scope scope = ts_scope_begin();
    for (int i = 0; i < each; i++) own[i] = make(n, dtype, test->rank * each + i);
    usleep((useconds_t)(rand() % 300));
    TS_PASS(ts_all_reduce_shards(test->group, out, own, each, op, NULL));
    TS_EXPECT(same_bits(out, expected(n, dtype, op)));
    TS_PASS(ts_scope_end(scope));
}

static void every_dtype(ts_test *test)
{
    static const int64_t sizes[] = {0, 1, 5, 4099};
    srand((unsigned)(test->rank + 1));
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            reduce(test, sizes[i], dtypes[d], TS_SUM);
            reduce(test, sizes[i], dtypes[d], TS_AVG);
        }
    reduce(test, 300001, TS_FLOAT32, TS_SUM); /* more than a piece */
}

TS_TEST(shards_give_the_same_bits_on_1, .ranks = 1) { every_dtype(test); }
TS_TEST(shards_give_the_same_bits_on_2, .ranks = 2) { every_dtype(test); }
TS_TEST(shards_give_the_same_bits_on_3, .ranks = 3) { every_dtype(test); }
TS_TEST(shards_give_the_same_bits_on_4, .ranks = 4) { every_dtype(test); }
TS_TEST(shards_give_the_same_bits_on_6, .ranks = 6) { every_dtype(test); }
TS_TEST(shards_give_the_same_bits_on_12, .ranks = 12, .mode = TS_TEST_THREADS)
{
    every_dtype(test);
}
TS_TEST(shards_give_the_same_bits_on_hosts, .ranks = 4, .hosts = 2) { every_dtype(test); }

/* ---- forms ----------------------------------------------------------------------------------- */

/* The output may be a shard; shards and output may be strided; asynchronous; the bits stay. */
TS_TEST(shards_in_every_form, .ranks = 2)
{
    int64_t n = 3001;
    ts_tensor *own[6], *wide = ts_zeros(TS_SHAPE(n, 2), NULL), *column = ts_select(wide, 1, 1);
    ts_tensor *wanted = expected(n, TS_FLOAT32, TS_AVG);
    ts_work *work;
    for (int i = 0; i < 6; i++) own[i] = make(n, TS_FLOAT32, test->rank * 6 + i);
    ts_tensor *other =
        ts_select(ts_copy_(ts_zeros(TS_SHAPE(n, 2), NULL), ts_unsqueeze(own[2], 1)), 1, 0);
    own[2] = other;
    TS_PASS(ts_all_reduce_shards(test->group, column, own, 6, TS_AVG, &work));
    TS_PASS(ts_work_wait(work, 0));
    ts_work_free(work);
    TS_EXPECT(same_bits(ts_contiguous(column), wanted));
    TS_EXPECT_ALL(ts_select(wide, 1, 0), 0);
    TS_PASS(ts_all_reduce_shards(test->group, own[4], own, 6, TS_AVG, NULL));
    TS_EXPECT(same_bits(own[4], wanted));
}

TS_TEST(shards_with_other_operations, .ranks = 3)
{
    ts_tensor_options bits = of(TS_UINT8), pair = of(TS_COMPLEX64);
    ts_tensor *own[2], *out = ts_zeros(TS_SHAPE(5), NULL);
    for (int i = 0; i < 2; i++) own[i] = ts_full(TS_SHAPE(5), 2 * test->rank + i - 3, NULL);
    TS_PASS(ts_all_reduce_shards(test->group, out, own, 2, TS_MAX, NULL));
    TS_EXPECT_ALL(out, 2);
    TS_PASS(ts_all_reduce_shards(test->group, out, own, 2, TS_MIN, NULL));
    TS_EXPECT_ALL(out, -3);
    for (int i = 0; i < 2; i++) own[i] = ts_full(TS_SHAPE(5), 1 << (2 * test->rank + i), &bits);
    out = ts_zeros(TS_SHAPE(5), &bits);
    TS_PASS(ts_all_reduce_shards(test->group, out, own, 2, TS_BOR, NULL));
    TS_EXPECT_ALL(out, 63);
    float numbers[4] = {1, 2, 3, 4}, sum[4];
    for (int i = 0; i < 2; i++) own[i] = ts_from_data(numbers, TS_SHAPE(2), &pair);
    TS_PASS(ts_all_reduce_shards(test->group, own[0], own, 2, TS_SUM, NULL));
    TS_PASS(ts_copy_out(own[0], sum, sizeof sum));
    for (int i = 0; i < 4; i++) TS_EXPECT_NEAR((double)sum[i], 6.0 * (i + 1), 0);
}

/* What is wrong on one rank, or not the same on all, every rank learns; the group stays usable. */
TS_TEST(shards_checks, .ranks = 3)
{
    bool bad = test->rank == 1;
    ts_tensor *a = ts_ones(TS_SHAPE(4), NULL), *b = ts_ones(TS_SHAPE(5), NULL);
    ts_tensor *own[2] = {a, a}, *other[2] = {a, b}, *none[2] = {a, NULL};
    ts_tensor *out = ts_zeros(TS_SHAPE(4), NULL);
    ts_status status = bad ? TS_ESHAPE : TS_EREMOTE;
    TS_FAIL(ts_all_reduce_shards(NULL, out, bad ? other : own, 2, TS_SUM, NULL), status,
            "shard 1 has 5 elements of float32, but the output 4 of float32");
    status = bad ? TS_EINVAL : TS_EREMOTE;
    TS_FAIL(ts_all_reduce_shards(NULL, out, bad ? none : own, 2, TS_SUM, NULL), status,
            "shard 1 is missing");
    TS_FAIL(ts_all_reduce_shards(NULL, out, own, bad ? 0 : 2, TS_SUM, NULL), status, "0 shards");
    TS_FAIL(ts_all_reduce_shards(NULL, out, own, bad ? 1 : 2, TS_SUM, NULL), TS_EMISMATCH,
            "rank 0 has 2 shards of 4 elements (float32, SUM), rank 1 1 of 4");
    TS_FAIL(ts_all_reduce_shards(NULL, out, own, 2, bad ? TS_AVG : TS_SUM, NULL), TS_EMISMATCH,
            "(float32, AVG)");
    TS_FAIL(ts_all_reduce_shards(NULL, out, own, 2, TS_BAND, NULL), TS_EDTYPE, "BAND");
    TS_EXPECT_ALL(out, 0);
    TS_PASS(ts_all_reduce_shards(NULL, out, own, 2, TS_SUM, NULL));
    TS_EXPECT_ALL(out, 6);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "test.h"

/* Small whole numbers, exact in every dtype, as are their sums, products and halves. */
static double value_of(int rank, int64_t i) { return (double)((i * 7 + rank * 3) % 4 + 1); }

static ts_tensor *make(int rank, int64_t n, ts_dtype dtype, ts_memory memory)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    ts_tensor *values = ts_empty(TS_SHAPE(n), NULL);
    float *data = ts_data_mut(values);
    for (int64_t i = 0; i < n; i++) data[i] = (float)value_of(rank, i);
    opt.memory = memory;
    opt.dtype = dtype;
    return ts_copy_(ts_empty(TS_SHAPE(n), &opt), values);
}

static double combined(int size, int64_t i, ts_reduce_op op)
{
    double sum = 0, product = 1, least = 100, most = -100;
    for (int r = 0; r < size; r++) {
        double v = value_of(r, i);
        sum += v;
        product *= v;
        least = v < least ? v : least;
        most = v > most ? v : most;
    }
    switch (op) {
    case TS_AVG: return sum / size;
    case TS_PRODUCT: return product;
    case TS_MIN: return least;
    case TS_MAX: return most;
    default: return sum;
    }
}

static bool check(ts_test *test, ts_tensor *t, ts_reduce_op op)
{
    bool floating = ts_dtype_is_floating(ts_tensor_dtype(t));
    ts_tensor *wide = ts_to_dtype(t, TS_FLOAT64);
    const double *data = ts_data(wide);
    if (ts_failed(wide)) ts_test_fail(test, __FILE__, __LINE__, "%s", ts_tensor_error(wide));
    for (int64_t i = 0; i < ts_numel(wide); i++) {
        double want = combined(test->size, i, op);
        if (!floating) want = trunc(want);
        if (fabs(data[i] - want) <= (op == TS_AVG ? 0.004 : 0) * want) continue;
        ts_test_fail(test, __FILE__, __LINE__, "%s %d: element %lld of %lld is %g, expected %g",
                     ts_dtype_name(ts_tensor_dtype(t)), op, (long long)i, (long long)ts_numel(t),
                     data[i], want);
        return false;
    }
    return true;
}

static bool run(ts_test *test, int64_t n, ts_dtype dtype, ts_memory memory, ts_reduce_op op)
{
    ts_scope scope = ts_scope_begin();
    ts_tensor *t = make(test->rank, n, dtype, memory);
    ts_status status = ts_all_reduce(test->group, t, op, NULL);
    if (status != TS_OK) ts_test_fail(test, __FILE__, __LINE__, "%s", ts_error_last());
    bool good = status == TS_OK && check(test, t, op);
    return ts_scope_end(scope) == TS_OK && good;
}

/* Around the borders of the algorithms, from both heaps. */
static void sizes(ts_test *test)
{
    static const int64_t n[] = {0, 1, 6, 7, 1000, 16384, 16385, 32768, 32769, 262145, 1200007};
    for (size_t i = 0; i < sizeof n / sizeof *n; i++)
        for (int memory = 0; memory < 2; memory++)
            TS_EXPECT(run(test, n[i], TS_FLOAT32, (ts_memory)memory, TS_SUM));
}

TS_TEST(all_reduce_sizes_2, .ranks = 2) { sizes(test); }
TS_TEST(all_reduce_sizes_3, .ranks = 3) { sizes(test); }
TS_TEST(all_reduce_sizes_5, .ranks = 5) { sizes(test); }
TS_TEST(all_reduce_sizes_hosts, .ranks = 4, .hosts = 2) { sizes(test); }

static void dtypes(ts_test *test)
{
    static const int64_t n[] = {3, 257, 70001};
    for (size_t i = 0; i < sizeof n / sizeof *n; i++)
        for (int dtype = TS_FLOAT32; dtype < TS_BOOL; dtype++)
            for (int op = TS_SUM; op <= TS_MAX; op++)
                TS_EXPECT(run(test, n[i], (ts_dtype)dtype, TS_MEMORY_SHARED, (ts_reduce_op)op));
}

TS_TEST(all_reduce_dtypes, .ranks = 3) { dtypes(test); }
TS_TEST(all_reduce_dtypes_hosts, .ranks = 2, .hosts = 2) { dtypes(test); }

TS_TEST(all_reduce_bits_and_bool, .ranks = 3)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_UINT8;
    ts_tensor *t = ts_full(TS_SHAPE(50), 1 << test->rank, &opt);
    TS_PASS(ts_all_reduce(test->group, t, TS_BOR, NULL));
    TS_EXPECT_ALL(t, 7);
    opt.dtype = TS_BOOL;
    ts_tensor *b = ts_full(TS_SHAPE(50), test->rank == 1, &opt);
    TS_PASS(ts_all_reduce(test->group, b, TS_SUM, NULL));
    TS_EXPECT_ALL(b, 1);
    TS_PASS(ts_all_reduce(test->group, b, TS_BXOR, NULL));
    TS_EXPECT_ALL(b, 1);
    ts_fill_(b, test->rank == 1);
    TS_PASS(ts_all_reduce(test->group, b, TS_PRODUCT, NULL));
    TS_EXPECT_ALL(b, 0);
    TS_FAIL(ts_all_reduce(test->group, b, TS_AVG, NULL), TS_EDTYPE, "AVG of bool");
    TS_FAIL(ts_all_reduce(test->group, b, (ts_reduce_op)9, NULL), TS_EINVAL, "not a reduction");
}

TS_TEST(all_reduce_averages_integers_by_truncation, .ranks = 2)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_INT32;
    ts_tensor *t = ts_full(TS_SHAPE(3), test->rank + 1, &opt);
    TS_PASS(ts_all_reduce(test->group, t, TS_AVG, NULL));
    TS_EXPECT_ALL(t, 1);
}

static void rounds_once(ts_test *test, double want)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_BFLOAT16;
    static const int64_t sizes_of[] = {1, 5000, 100000};
    for (int i = 0; i < 3; i++) {
        ts_tensor *t = ts_full(TS_SHAPE(sizes_of[i]), test->rank == 0 ? 256 : 1, &opt);
        TS_PASS(ts_all_reduce(test->group, t, TS_SUM, NULL));
        TS_EXPECT_ALL(t, want);
    }
}

/* 256 + 7 is 263, in steps of bfloat16 it would stay at 256.  A host rounds when it sends: 256 + 1
 * gives 256, the other host 2. */
TS_TEST(all_reduce_bfloat16_rounds_once, .ranks = 8) { rounds_once(test, 264); }
TS_TEST(all_reduce_bfloat16_rounds_once_hosts, .ranks = 4, .hosts = 2) { rounds_once(test, 258); }

static uint64_t hash(const void *data, size_t bytes)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < bytes; i++) h = (h ^ ((const unsigned char *)data)[i]) * 0x100000001b3u;
    return h;
}

static ts_tensor *fractions(int rank, int64_t n, ts_memory memory)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.memory = memory;
    ts_tensor *t = ts_empty(TS_SHAPE(n), &opt);
    float *data = ts_data_mut(t);
    for (int64_t i = 0; i < n; i++) data[i] = 1.0f / (float)(i * 31 % 977 + rank * 13 + 1);
    return t;
}

/* The same bits on every rank, in every run, from either heap; within a host whatever the position,
 * too: the elements of a short tensor are the first ones of a long one. */
static void bits(ts_test *test, bool hosts)
{
    static const int64_t n[] = {6, 5000, 300000};
    double first[6] = {0};
    for (int k = 0; k < 6; k++) {
        ts_tensor *t = fractions(test->rank, n[k % 3], (ts_memory)(k / 3));
        TS_PASS(ts_all_reduce(test->group, t, TS_SUM, NULL));
        first[k] = (double)(hash(ts_data(t), 6 * sizeof(float)) >> 12);
        TS_EXPECT(first[k] == first[hosts ? k % 3 : 0]);
        ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
        opt.dtype = TS_FLOAT64;
        double mine = (double)(hash(ts_data(t), ts_nbytes(t)) >> 12);
        ts_tensor *all = ts_full(TS_SHAPE(1), mine, &opt);
        TS_PASS(ts_all_reduce(test->group, all, TS_MAX, NULL));
        TS_EXPECT_ALL(all, mine);
    }
}

TS_TEST(all_reduce_same_bits, .ranks = 5) { bits(test, false); }
TS_TEST(all_reduce_same_bits_hosts, .ranks = 3, .hosts = 3) { bits(test, true); }

/* Memory outside a strided view is not touched. */
TS_TEST(all_reduce_strided, .ranks = 2)
{
    static const int64_t rows[] = {2, 5000, 200000};
    for (int i = 0; i < 3; i++) {
        ts_tensor *whole = ts_full(TS_SHAPE(rows[i], 2), test->rank + 1, NULL);
        ts_tensor *column = ts_select(whole, 1, 0);
        TS_PASS(ts_all_reduce(test->group, column, TS_SUM, NULL));
        TS_EXPECT_ALL(column, 3);
        TS_EXPECT_ALL(ts_select(whole, 1, 1), test->rank + 1);
    }
    ts_tensor *spread = ts_expand(ts_ones(TS_SHAPE(1), NULL), TS_SHAPE(4));
    TS_FAIL(ts_all_reduce(test->group, spread, TS_SUM, NULL), TS_EINVAL, "share memory");
}

/* Views that begin and end anywhere in a page, elsewhere on each rank: their neighbours stay as they
 * are, and the bits are those of a copy outside the shared heap. */
static void edges(ts_test *test)
{
    static const int64_t n[] = {16385, 40000, 300001};
    for (int i = 0; i < 9; i++) {
        int64_t count = n[i % 3], skip = i / 3 * 700 + 513 * test->rank;
        ts_tensor *whole = fractions(test->rank, skip + count + 9, TS_MEMORY_SHARED);
        ts_tensor *before = ts_clone(whole), *part = ts_slice(whole, 0, skip, skip + count, 1);
        ts_tensor *twin = ts_copy_(ts_empty(TS_SHAPE(count), NULL), part);
        TS_PASS(ts_all_reduce(test->group, part, TS_SUM, NULL));
        TS_PASS(ts_all_reduce(test->group, twin, TS_SUM, NULL));
        TS_EXPECT(memcmp(ts_data(part), ts_data(twin), ts_nbytes(twin)) == 0);
        ts_tensor *head = ts_slice(whole, 0, 0, skip, 1);
        TS_EXPECT_EQUAL(head, ts_slice(before, 0, 0, skip, 1));
        TS_EXPECT_EQUAL(ts_slice(whole, 0, skip + count, skip + count + 9, 1),
                        ts_slice(before, 0, skip + count, skip + count + 9, 1));
    }
}

TS_TEST(all_reduce_views_off_the_pages_2, .ranks = 2) { edges(test); }
TS_TEST(all_reduce_views_off_the_pages_3, .ranks = 3) { edges(test); }

/* One rank's tensor in the shared heap, the other's not. */
static void mixed(ts_test *test)
{
    for (int i = 0; i < ts_group_size(test->group); i++) {
        ts_memory memory = test->rank == i ? TS_MEMORY_SHARED : TS_MEMORY_HEAP;
        TS_EXPECT(run(test, 500009, TS_FLOAT32, memory, TS_SUM));
        TS_EXPECT(run(test, 500009, TS_FLOAT32, TS_MEMORY_SHARED, TS_SUM));
        TS_EXPECT(run(test, 1200007, TS_FLOAT32, memory, TS_SUM));
    }
}

TS_TEST(all_reduce_mixed_memory_2, .ranks = 2) { mixed(test); }
TS_TEST(all_reduce_mixed_memory_3, .ranks = 3) { mixed(test); }

TS_TEST(all_reduce_scalar_and_empty, .ranks = 4)
{
    ts_tensor *scalar = ts_scalar(test->rank, NULL), *empty = ts_ones(TS_SHAPE(1, 0, 2), NULL);
    TS_PASS(ts_all_reduce(test->group, empty, TS_SUM, NULL));
    TS_PASS(ts_all_reduce(test->group, scalar, TS_SUM, NULL));
    TS_EXPECT_ALL(scalar, 6);
    TS_EXPECT_INT(ts_ndim(empty), 3);
}

/* More ranks than cores must not collapse. */
TS_TEST(all_reduce_many_ranks, .ranks = 8, .timeout_s = 20)
{
    for (int i = 0; i < 300; i++) {
        ts_scope scope = ts_scope_begin();
        ts_tensor *t = ts_full(TS_SHAPE(1 + i % 5 * 400), 1, NULL);
        TS_PASS(ts_all_reduce(test->group, t, TS_SUM, NULL));
        TS_EXPECT_ALL(t, 8);
        TS_PASS(ts_scope_end(scope));
    }
}

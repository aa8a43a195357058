/* SPDX-License-Identifier: Apache-2.0 */
/* PREMUL_SUM: inputs times a factor of each rank's own, then the sum. */
#include "test.h"

static ts_tensor *full(int64_t n, double value, ts_dtype dtype)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = dtype;
    return ts_full(TS_SHAPE(n), value, &opt);
}

static const ts_dtype floating[] = {TS_FLOAT32, TS_FLOAT64, TS_FLOAT16, TS_BFLOAT16};

static void scaled_sums(ts_test *test)
{
    int size = test->size, last = size - 1;
    double factor = test->rank + 1, sum = size * (size + 1) / 2.0;
    for (int d = 0; d < 4; d++)
        for (int64_t n = 0; n < 100000; n = n * 40 + 3) {
            ts_scope scope = ts_scope_begin();
            ts_tensor *t = full(n, 2, floating[d]), *r = full(n, 2, floating[d]);
            ts_tensor *in = full(n * size, 2, floating[d]), *out = full(n, -1, floating[d]);
            TS_PASS(ts_all_reduce_premul(test->group, t, factor, NULL));
            TS_EXPECT_ALL(t, 2 * sum);
            TS_PASS(ts_reduce_premul(test->group, r, last, factor, NULL));
            TS_EXPECT_ALL(r, test->rank == last ? 2 * sum : 2);
            TS_PASS(ts_reduce_scatter_tensor_premul(test->group, out, in, factor, NULL));
            TS_EXPECT_ALL(out, 2 * sum);
            TS_EXPECT_ALL(in, 2);
            TS_PASS(ts_scope_end(scope));
        }
}

TS_TEST(premul_sum_1, .ranks = 1) { scaled_sums(test); }
TS_TEST(premul_sum_3, .ranks = 3) { scaled_sums(test); }
TS_TEST(premul_sum_hosts, .ranks = 2, .hosts = 2) { scaled_sums(test); }

/* 257 is no bfloat16: rounded first, two of them and 2 would be 512. */
TS_TEST(premul_sum_rounds_short_types_once, .ranks = 3)
{
    bool last = test->rank == 2;
    ts_tensor *t = full(9, last ? 2 : 256, TS_BFLOAT16);
    TS_PASS(ts_all_reduce_premul(test->group, t, last ? 1 : 257.0 / 256, NULL));
    TS_EXPECT_ALL(t, 516);
}

TS_TEST(premul_sum_of_strided_tensors, .ranks = 2)
{
    ts_tensor *whole = full(6, 1, TS_FLOAT16), *view = ts_slice(whole, 0, 0, 6, 2);
    TS_PASS(ts_all_reduce_premul(test->group, view, 0.5, NULL));
    TS_EXPECT_VALUES(whole, 0, 1, 1, 1, 1, 1, 1);
    TS_PASS(ts_all_reduce_premul(test->group, view, 3, NULL));
    TS_EXPECT_VALUES(whole, 0, 6, 1, 6, 1, 6, 1);
}

TS_TEST(premul_sum_of_complex_numbers, .ranks = 2)
{
    const double parts[] = {1, 2, 3, 4};
    double sum[4];
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_COMPLEX128;
    ts_tensor *t = ts_from_data(parts, TS_SHAPE(2), &opt);
    TS_PASS(ts_all_reduce_premul(test->group, t, test->rank + 1, NULL));
    TS_PASS(ts_copy_out(t, sum, sizeof sum));
    for (int i = 0; i < 4; i++) TS_EXPECT(sum[i] == 3 * parts[i]);
}

/* A mismatch leaves the tensor as it was. */
TS_TEST(premul_sum_checks, .ranks = 2)
{
    ts_tensor *t = full(2 + test->rank, 5, TS_FLOAT32), *whole = full(4, 1, TS_INT32);
    TS_FAIL(ts_all_reduce_premul(test->group, t, 3, NULL), TS_EMISMATCH, "all_reduce SUM");
    TS_EXPECT_ALL(t, 5);
    TS_FAIL(ts_all_reduce_premul(test->group, whole, 3, NULL), TS_EDTYPE, "PREMUL_SUM of int32");
    TS_FAIL(ts_all_reduce(test->group, t, TS_PREMUL_SUM, NULL), TS_EINVAL, "ts_all_reduce_premul");
    TS_FAIL(ts_reduce(test->group, t, 0, TS_PREMUL_SUM, NULL), TS_EINVAL, "ts_reduce_premul");
    TS_FAIL(ts_reduce_scatter_tensor(test->group, full(2, 0, TS_FLOAT32), full(4, 0, TS_FLOAT32),
                                     TS_PREMUL_SUM, NULL),
            TS_EINVAL, "ts_reduce_scatter_tensor_premul");
    TS_EXPECT(ts_reduce_op_supports_complex(TS_SUM) && ts_reduce_op_supports_complex(TS_AVG));
    TS_EXPECT(ts_reduce_op_supports_complex(TS_PREMUL_SUM));
    for (int op = TS_PRODUCT; op <= TS_BXOR; op++)
        TS_EXPECT(!ts_reduce_op_supports_complex((ts_reduce_op)op));
}

/* A complex tensor and real ones of twice the count in one call. */
TS_TEST(complex_and_real_tensors_in_one_call, .ranks = 2)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_COMPLEX64;
    float parts[4] = {1, 2, 3, 4};
    for (int i = 0; i < 4; i++) parts[i] += 10 * (float)test->rank;
    ts_tensor *in = ts_from_data(parts, TS_SHAPE(2), &opt), *out = full(8, 0, TS_FLOAT32);
    TS_PASS(ts_all_gather_into_tensor(test->group, out, in, NULL));
    TS_EXPECT_VALUES(out, 0, 1, 2, 3, 4, 11, 12, 13, 14);
    ts_tensor *sum = full(4, 0, TS_FLOAT32), *both = ts_empty(TS_SHAPE(4), &opt);
    TS_PASS(ts_all_gather_into_tensor(test->group, both, in, NULL));
    TS_PASS(ts_reduce_scatter_tensor(test->group, sum, both, TS_SUM, NULL));
    TS_EXPECT_VALUES(sum, 0, 2 + 20 * test->rank, 4 + 20 * test->rank, 6 + 20 * test->rank,
                     8 + 20 * test->rank);
    TS_FAIL(ts_reduce_scatter_tensor(test->group, sum, both, TS_MAX, NULL), TS_EDTYPE,
            "MAX of complex64");
    TS_FAIL(ts_all_gather_into_tensor(test->group, full(8, 0, TS_FLOAT64), in, NULL), TS_EDTYPE,
            "complex64 and float64");
    TS_FAIL(ts_all_gather_into_tensor(test->group, full(4, 0, TS_FLOAT32), in, NULL), TS_ESHAPE,
            "two real ones");
}

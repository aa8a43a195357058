/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions where they are delicate: zeros, ties, nothing, infinities. */
#include <math.h>
#include <tessera/tessera.h>

#include "test.h"

static ts_tensor *floats(const float *x, ts_shape shape)
{
    ts_tensor *t = ts_from_data(x, shape, NULL);
    ts_set_requires_grad(t, true);
    return t;
}
static const int last[] = {-1};

TS_TEST(products_with_zeros_have_gradients)
{
    ts_tensor *a = floats((const float[]){2, 3, 4, 2, 0, 4, 0, 0, 4}, TS_SHAPE(3, 3));
    ts_tensor *y = ts_prod_dims(a, last, 1, false);
    TS_EXPECT_VALUES(y, 0, 24, 0, 0);
    TS_PASS(ts_backward(ts_sum(y)));
    TS_EXPECT_VALUES(ts_grad(a), 0, 12, 8, 6, 0, 8, 0, 0, 0, 0);
}

TS_TEST(equal_extremes_share_the_gradient)
{
    ts_tensor *a = floats((const float[]){5, 1, 5, 2}, TS_SHAPE(4)), *place;
    TS_PASS(ts_backward(ts_max(a)));
    TS_EXPECT_VALUES(ts_grad(a), 0, 0.5, 0, 0.5, 0);
    ts_set_grad(a, NULL);
    TS_PASS(ts_backward(ts_max_dim(a, 0, false, &place))); /* the first of them has it */
    TS_EXPECT_VALUES(ts_grad(a), 0, 1, 0, 0, 0);
    TS_EXPECT_ALL(place, 0.0);
    TS_EXPECT_ALL(ts_argmin(a, 0, false), 1.0);
    const float with_nan[] = {1, NAN, 7};
    ts_tensor *n = ts_from_data(with_nan, TS_SHAPE(3), NULL);
    TS_EXPECT_ALL(ts_min(n), NAN);
    TS_EXPECT_ALL(ts_argmin(n, 0, false), 1.0);
    TS_EXPECT_ALL(ts_argmax(n, 0, false), 1.0);
    TS_BAD(ts_max_dim(a, 1, false, &place), TS_ESHAPE, "max_dim: dim 1");
    TS_EXPECT(ts_failed(place));
}

TS_TEST(statistics_of_nothing_and_of_one)
{
    ts_tensor *none = ts_zeros(TS_SHAPE(2, 0), NULL), *one = ts_ones(TS_SHAPE(2, 1), NULL);
    TS_EXPECT_VALUES(ts_prod_dims(none, last, 1, false), 0, 1, 1);
    TS_EXPECT_VALUES(ts_logsumexp(none, last, 1, false), 0, -INFINITY, -INFINITY);
    TS_EXPECT_VALUES(ts_any(none, last, 1, false), 0, 0, 0);
    TS_EXPECT_VALUES(ts_all(none, last, 1, false), 0, 1, 1);
    TS_EXPECT_VALUES(ts_norm_dims(none, 2, last, 1, false), 0, 0, 0);
    TS_EXPECT_ALL(ts_var(none, last, 1, 1, false), NAN);
    TS_EXPECT_ALL(ts_var(one, last, 1, 1, false), NAN);
    TS_EXPECT_ALL(ts_var(one, last, 1, 0, false), 0.0);
    TS_EXPECT_INT(ts_numel(ts_cumsum(none, 1)), 0);
    TS_EXPECT_ALL(ts_cumsum(ts_scalar(3, NULL), 0), 3.0);
    TS_BAD(ts_amax(none, last, 1, false), TS_ESHAPE, "dim 1 has no elements");
    TS_BAD(ts_norm_dims(none, INFINITY, last, 1, false), TS_ESHAPE, "norm");
    TS_BAD(ts_var(ts_to_dtype(one, TS_INT32), last, 1, 1, false), TS_EDTYPE, "int32");
    TS_BAD(ts_cumsum(one, 2), TS_ESHAPE, "cumsum: dim 2");
}

TS_TEST(deviation_of_equal_elements_has_no_gradient)
{
    ts_tensor *a = floats((const float[]){3, 3, 3}, TS_SHAPE(3));
    TS_PASS(ts_backward(ts_std(a, NULL, 0, 1, false)));
    TS_EXPECT_ALL(ts_grad(a), 0.0);
}

TS_TEST(variance_is_taken_about_the_mean)
{
    const float x[] = {10000001, 10000002, 10000003, 10000004};
    TS_EXPECT_ALL(ts_var(ts_from_data(x, TS_SHAPE(4), NULL), NULL, 0, 0, false), 1.25);
}

TS_TEST(log_sum_exp_of_infinities)
{
    const float x[] = {-INFINITY, -INFINITY, INFINITY, 1, 1000, 1000};
    TS_EXPECT_VALUES(ts_logsumexp(ts_from_data(x, TS_SHAPE(3, 2), NULL), last, 1, false), 1e-4,
                     -INFINITY, INFINITY, 1000.6931);
    ts_tensor *a = floats(x, TS_SHAPE(2));
    TS_PASS(ts_backward(ts_logsumexp(a, NULL, 0, false)));
    TS_EXPECT_ALL(ts_grad(a), 0.0);
}

TS_TEST(sums_that_run_wrap_around_and_turn_bool_into_int64)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_BOOL;
    ts_tensor *y = ts_cumsum(ts_ones(TS_SHAPE(2, 2), &opt), 0);
    TS_EXPECT_VALUES(y, 0, 1, 1, 2, 2);
    TS_EXPECT_INT(ts_tensor_dtype(y), TS_INT64);
    opt.dtype = TS_UINT8;
    TS_EXPECT_ALL(ts_prod(ts_full(TS_SHAPE(2), 200, &opt)), 40000.0);
}

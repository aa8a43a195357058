/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "ops/op.h"

static ts_tensor *doubles(ts_shape shape, const double *values)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_FLOAT64;
    return ts_from_data(values, shape, &opt);
}

static ts_tensor *integers(ts_shape shape, const int64_t *values)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_INT64;
    return ts_from_data(values, shape, &opt);
}

/* Rows of 3 logits whose log-sum-exp is log 4, log 6 and log 8. */
static ts_tensor *some_logits(void)
{
    const double values[] = {0, log(2), 0, log(3), log(2), 0, log(4), log(2), log(2)};
    return doubles(TS_SHAPE(3, 3), values);
}

static ts_tensor *cross_entropy(ts_tensor *x, ts_tensor *target, ts_reduction reduction,
                                double smoothing)
{
    ts_cross_entropy_options opt = TS_CROSS_ENTROPY_OPTIONS_INIT;
    opt.reduction = reduction;
    opt.label_smoothing = smoothing;
    return ts_cross_entropy(x, target, &opt);
}

TS_TEST(softmax_over_any_dim)
{
    ts_tensor *x = some_logits();
    TS_EXPECT_VALUES(ts_softmax(x, -1), 1e-15, 0.25, 0.5, 0.25, 0.5, 1. / 3, 1. / 6, 0.5, 0.25,
                     0.25);
    TS_EXPECT_VALUES(ts_softmax(ts_transpose(x, 0, 1), 0), 1e-15, 0.25, 0.5, 0.5, 0.5, 1. / 3, 0.25,
                     0.25, 1. / 6, 0.25);
    TS_EXPECT_CLOSE(ts_log_softmax(x, 0), ts_log(ts_softmax(x, 0)), 0, 1e-14);
    TS_EXPECT_VALUES(ts_softmax(ts_scalar(3, NULL), 0), 0, 1);
    TS_EXPECT_INT(ts_numel(ts_softmax(ts_zeros(TS_SHAPE(0, 4), NULL), 1)), 0);
    TS_EXPECT_INT(ts_numel(ts_softmax(ts_zeros(TS_SHAPE(4, 0), NULL), 1)), 0);
    TS_BAD(ts_softmax(x, 2), TS_ESHAPE, "softmax");
    TS_BAD(ts_log_softmax(ts_to_dtype(x, TS_INT32), 0), TS_EDTYPE, "int32");
    TS_EXPECT_INT(ts_tensor_dtype(ts_softmax(ts_to_dtype(x, TS_FLOAT16), 0)), TS_FLOAT16);
}

TS_TEST(cross_entropy_reductions)
{
    ts_tensor *x = some_logits(), *target = integers(TS_SHAPE(3), (const int64_t[]){1, 0, 0});
    const double each[] = {log(2), log(2), log(2)};
    TS_EXPECT_VALUES(ts_cross_entropy(x, target, NULL), 1e-15, log(2));
    TS_EXPECT_VALUES(cross_entropy(x, target, TS_REDUCTION_SUM, 0), 1e-15, 3 * log(2));
    TS_EXPECT_CLOSE(cross_entropy(x, target, TS_REDUCTION_NONE, 0), doubles(TS_SHAPE(3), each), 0,
                    1e-15);
    ts_tensor *one = ts_cross_entropy(ts_select(x, 0, 0), ts_select(target, 0, 0), NULL);
    TS_EXPECT_VALUES(one, 1e-15, log(2));
    TS_EXPECT_INT(ts_ndim(one), 0);
}

TS_TEST(cross_entropy_ignores_rows)
{
    ts_tensor *x = some_logits(), *target = integers(TS_SHAPE(3), (const int64_t[]){2, -100, 0});
    TS_EXPECT_VALUES(ts_cross_entropy(x, target, NULL), 1e-15, (log(4) + log(2)) / 2);
    TS_EXPECT_VALUES(cross_entropy(x, target, TS_REDUCTION_NONE, 0), 1e-15, log(4), 0, log(2));
    TS_PASS(ts_set_requires_grad(x, true));
    TS_PASS(ts_backward(cross_entropy(x, target, TS_REDUCTION_SUM, 0)));
    TS_EXPECT_VALUES(ts_grad(x), 1e-15, 0.25, 0.5, -0.75, 0, 0, 0, -0.5, 0.25, 0.25);
    ts_tensor *all = integers(TS_SHAPE(3), (const int64_t[]){-100, -100, -100});
    TS_EXPECT_ALL(ts_cross_entropy(x, all, NULL), NAN);
    TS_EXPECT_ALL(cross_entropy(x, all, TS_REDUCTION_SUM, 0), 0);
    ts_tensor *none = ts_zeros(TS_SHAPE(0, 3), NULL), *no_target = integers(TS_SHAPE(0), NULL);
    TS_EXPECT_ALL(ts_cross_entropy(none, no_target, NULL), NAN);
}

TS_TEST(cross_entropy_smoothing)
{
    ts_tensor *x = some_logits(), *target = integers(TS_SHAPE(3), (const int64_t[]){1, 0, 2});
    ts_tensor *log_p = ts_log_softmax(x, 1);
    ts_tensor *even = ts_neg(ts_mean_dim(log_p, 1, false));
    ts_tensor *sure = cross_entropy(x, target, TS_REDUCTION_NONE, 0);
    ts_tensor *expected = ts_add(ts_mul_scalar(sure, 0.8), ts_mul_scalar(even, 0.2));
    TS_EXPECT_CLOSE(cross_entropy(x, target, TS_REDUCTION_NONE, 0.2), expected, 0, 1e-15);
}

TS_TEST(cross_entropy_says_what_is_wrong)
{
    ts_tensor *x = ts_zeros(TS_SHAPE(3, 5), NULL);
    ts_tensor *target = integers(TS_SHAPE(3), (const int64_t[]){0, 5, 1});
    TS_BAD(ts_cross_entropy(x, target, NULL), TS_EINVAL, "target 5 at position 1 is not in 0 .. 4");
    TS_BAD(ts_cross_entropy(x, ts_narrow(target, 0, 0, 2), NULL), TS_ESHAPE,
           "(3, 5) and target (2,)");
    TS_BAD(ts_cross_entropy(x, ts_zeros(TS_SHAPE(3), NULL), NULL), TS_EDTYPE, "float32");
    TS_BAD(cross_entropy(x, target, TS_REDUCTION_SUM, 1.5), TS_EINVAL, "label_smoothing is 1.5");
    ts_cross_entropy_options opt = {0};
    TS_BAD(ts_cross_entropy(x, target, &opt), TS_EINVAL, "_INIT");
}

/* Strided and expanded logits and targets give what their copies give. */
TS_TEST(cross_entropy_takes_strided_inputs)
{
    ts_tensor *wide = ts_reshape(ts_arange(0, 24, 1, NULL), TS_SHAPE(4, 6));
    ts_tensor *x = ts_slice(wide, 1, 0, 6, 2);
    ts_tensor *target = ts_expand(integers(TS_SHAPE(1), (const int64_t[]){2}), TS_SHAPE(4));
    TS_EXPECT_EQUAL(ts_cross_entropy(x, target, NULL),
                    ts_cross_entropy(ts_clone(x), ts_clone(target), NULL));
}

TS_TEST(mse_loss_is_the_mean)
{
    ts_tensor *x = doubles(TS_SHAPE(2, 2), (const double[]){1, 2, 3, 4});
    ts_tensor *y = doubles(TS_SHAPE(2, 2), (const double[]){1, 0, 3, 0});
    TS_PASS(ts_set_requires_grad(x, true));
    TS_PASS(ts_set_requires_grad(y, true));
    ts_tensor *loss = ts_mse_loss(x, ts_transpose(y, 0, 1));
    TS_EXPECT_VALUES(loss, 1e-15, (0 + 1 + 9 + 16) / 4.0);
    TS_PASS(ts_backward(loss));
    TS_EXPECT_VALUES(ts_grad(x), 1e-15, 0, -0.5, 1.5, 2);
    TS_EXPECT_VALUES(ts_grad(y), 1e-15, 0, -1.5, 0.5, -2);
    TS_EXPECT_ALL(ts_mse_loss(ts_zeros(TS_SHAPE(0), NULL), ts_zeros(TS_SHAPE(0), NULL)), NAN);
    TS_BAD(ts_mse_loss(x, ts_zeros(TS_SHAPE(4), NULL)), TS_EDTYPE, "float32");
    TS_BAD(ts_mse_loss(x, ts_reshape(y, TS_SHAPE(4))), TS_ESHAPE, "(2, 2) and target (4,)");
}

TS_TEST(losses_without_anything_that_counts)
{
    ts_tensor *x = ts_zeros(TS_SHAPE(2, 3), NULL), *w = ts_ones(TS_SHAPE(3), NULL);
    ts_tensor *ignored = integers(TS_SHAPE(2), (const int64_t[]){-100, -100});
    ts_cross_entropy_options entropy = TS_CROSS_ENTROPY_OPTIONS_INIT;
    ts_nll_loss_options nll = TS_NLL_LOSS_OPTIONS_INIT;
    entropy.weight = nll.weight = w;
    TS_EXPECT_ALL(ts_cross_entropy(x, ignored, &entropy), NAN);
    TS_EXPECT_ALL(ts_nll_loss(x, ignored, &nll), NAN);
    entropy.reduction = nll.reduction = TS_REDUCTION_SUM;
    TS_EXPECT_ALL(ts_cross_entropy(x, ignored, &entropy), 0);
    TS_EXPECT_ALL(ts_nll_loss(x, ignored, &nll), 0);
    ts_tensor *none = ts_zeros(TS_SHAPE(0), NULL);
    TS_EXPECT_ALL(ts_binary_cross_entropy_with_logits(none, none, NULL), NAN);
    TS_EXPECT_ALL(ts_mse_loss_reduced(none, none, TS_REDUCTION_SUM), 0);
}

TS_TEST(losses_of_no_rows)
{
    ts_tensor *x = ts_zeros(TS_SHAPE(0, 3, 2), NULL);
    ts_tensor *target = integers(TS_SHAPE(0, 2), NULL);
    ts_nll_loss_options opt = TS_NLL_LOSS_OPTIONS_INIT;
    opt.reduction = TS_REDUCTION_NONE;
    TS_PASS(ts_set_requires_grad(x, true));
    ts_tensor *entropy = cross_entropy(x, target, TS_REDUCTION_NONE, 0.1);
    ts_tensor *likelihood = ts_nll_loss(x, target, &opt);
    TS_EXPECT(ts_shape_equal(ts_tensor_shape(entropy), TS_SHAPE(0, 2)));
    TS_EXPECT(ts_shape_equal(ts_tensor_shape(likelihood), TS_SHAPE(0, 2)));
    TS_PASS(ts_backward(ts_add(ts_sum(entropy), ts_sum(likelihood))));
    TS_EXPECT(ts_shape_equal(ts_tensor_shape(ts_grad(x)), TS_SHAPE(0, 3, 2)));
}

/* At 0 and far out, where the formula would overflow or has a corner. */
TS_TEST(binary_cross_entropy_saturates)
{
    ts_tensor *x = doubles(TS_SHAPE(3), (const double[]){0, 1000, -1000});
    ts_tensor *y = doubles(TS_SHAPE(3), (const double[]){1, 0, 1});
    ts_binary_cross_entropy_with_logits_options opt =
        TS_BINARY_CROSS_ENTROPY_WITH_LOGITS_OPTIONS_INIT;
    opt.reduction = TS_REDUCTION_NONE;
    TS_PASS(ts_set_requires_grad(x, true));
    ts_tensor *loss = ts_binary_cross_entropy_with_logits(x, y, &opt);
    TS_EXPECT_VALUES(loss, 1e-15, log(2), 1000, 1000);
    TS_PASS(ts_backward(ts_sum(loss)));
    TS_EXPECT_VALUES(ts_grad(x), 1e-15, -0.5, 1, -1);
}

TS_TEST(losses_say_what_is_wrong)
{
    ts_tensor *x = ts_zeros(TS_SHAPE(2, 3, 4), NULL), *w = ts_ones(TS_SHAPE(2), NULL);
    ts_tensor *target = integers(TS_SHAPE(2), (const int64_t[]){0, 1});
    ts_tensor *rows = ts_select(x, 2, 0);
    ts_cross_entropy_options entropy = TS_CROSS_ENTROPY_OPTIONS_INIT;
    ts_nll_loss_options nll = TS_NLL_LOSS_OPTIONS_INIT;
    entropy.weight = nll.weight = w;
    TS_BAD(ts_cross_entropy(x, target, NULL), TS_ESHAPE, "logits (2, 3, 4) and target (2,)");
    TS_BAD(ts_cross_entropy(rows, target, &entropy), TS_ESHAPE, "weight has shape (2,)");
    TS_BAD(ts_nll_loss(x, target, NULL), TS_ESHAPE, "input (2, 3, 4) and target (2,)");
    TS_BAD(ts_nll_loss(rows, target, &nll), TS_ESHAPE, "weight must have shape (3,)");
    TS_BAD(ts_nll_loss(rows, integers(TS_SHAPE(2), (const int64_t[]){0, 3}), NULL), TS_EINVAL, "3");
    TS_BAD(ts_l1_loss(x, rows, TS_REDUCTION_SUM), TS_ESHAPE, "l1_loss: input (2, 3, 4)");
    TS_BAD(ts_l1_loss(x, NULL, TS_REDUCTION_SUM), TS_EINVAL, "l1_loss");
    TS_BAD(ts_huber_loss(x, x, 0, TS_REDUCTION_SUM), TS_EINVAL, "delta is 0");
    TS_BAD(ts_kl_div(x, ts_to_dtype(x, TS_FLOAT64), false, TS_REDUCTION_SUM), TS_EDTYPE, "float64");
    ts_binary_cross_entropy_with_logits_options binary =
        TS_BINARY_CROSS_ENTROPY_WITH_LOGITS_OPTIONS_INIT;
    binary.weight = ts_ones(TS_SHAPE(5, 1, 1, 1), NULL);
    TS_BAD(ts_binary_cross_entropy_with_logits(x, x, &binary), TS_ESHAPE, "become (5, 2, 3, 4)");
}

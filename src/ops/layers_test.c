/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "ops/op.h"

static const ts_backward_options keep_graph = {sizeof(ts_backward_options), true, false};

static ts_tensor *leaf(ts_shape shape, ts_dtype dtype)
{
    ts_tensor *t = ts_to_dtype(ts_randn(shape, NULL), dtype);
    ts_set_requires_grad(t, true);
    return t;
}

static ts_tensor *integers(ts_shape shape, const int64_t *values)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_INT64;
    return ts_from_data(values, shape, &opt);
}

/* Values and gradients of y and e, which are functions of in, agree. */
static void expect_same(ts_test *test, ts_tensor *y, ts_tensor *e, ts_tensor *const *in, int n,
                        double tolerance)
{
    ts_tensor *weights = ts_to_dtype(ts_randn(ts_tensor_shape(y), NULL), ts_tensor_dtype(y));
    ts_tensor *grad[3], *e_grad[3];
    TS_EXPECT_CLOSE(y, e, tolerance, tolerance);
    ts_tensor *root = ts_sum(ts_mul(y, weights)), *e_root = ts_sum(ts_mul(e, weights));
    TS_PASS(ts_grad_of(grad, &root, NULL, 1, in, n, &keep_graph));
    TS_PASS(ts_grad_of(e_grad, &e_root, NULL, 1, in, n, &keep_graph));
    for (int i = 0; i < n; i++) TS_EXPECT_CLOSE(grad[i], e_grad[i], tolerance, 10 * tolerance);
}

/* By the definition, over the last dimension. */
static ts_tensor *norm_by_definition(ts_tensor *x, ts_tensor *w, ts_tensor *b, double eps)
{
    ts_tensor *centred = ts_sub(x, ts_mean_dim(x, -1, true));
    ts_tensor *variance = ts_mean_dim(ts_mul(centred, centred), -1, true);
    ts_tensor *y = ts_div(centred, ts_sqrt(ts_add_scalar(variance, eps)));
    if (w) y = ts_mul(y, w);
    return b ? ts_add(y, b) : y;
}

TS_TEST(layer_norm_equals_its_definition)
{
    ts_manual_seed(1);
    for (int f64 = 0; f64 < 2; f64++) {
        ts_dtype dtype = f64 ? TS_FLOAT64 : TS_FLOAT32;
        double tolerance = f64 ? 1e-13 : 3e-6;
        for (int64_t n = 1; n < 70; n += 17) {
            ts_tensor *in[] = {leaf(TS_SHAPE(n, 37, 2), dtype), leaf(TS_SHAPE(n), dtype),
                               leaf(TS_SHAPE(n), dtype)};
            ts_tensor *x = ts_transpose(in[0], 0, 2); /* strided */
            expect_same(test, ts_layer_norm(x, TS_SHAPE(n), in[1], in[2], 0.1),
                        norm_by_definition(x, in[1], in[2], 0.1), in, 3, tolerance);
            expect_same(test, ts_layer_norm(x, TS_SHAPE(n), NULL, NULL, 0.1),
                        norm_by_definition(x, NULL, NULL, 0.1), in, 1, tolerance);
            if (test->failures) return;
        }
    }
}

TS_TEST(layer_norm_over_two_dims)
{
    ts_tensor *x = leaf(TS_SHAPE(3, 4, 5), TS_FLOAT64), *w = leaf(TS_SHAPE(4, 5), TS_FLOAT64);
    ts_tensor *in[] = {x, w};
    ts_tensor *flat =
        norm_by_definition(ts_reshape(x, TS_SHAPE(3, 20)), ts_reshape(w, TS_SHAPE(20)), NULL, 1e-5);
    expect_same(test, ts_layer_norm(x, TS_SHAPE(4, 5), w, NULL, 1e-5),
                ts_reshape(flat, TS_SHAPE(3, 4, 5)), in, 2, 1e-12);
}

TS_TEST(layer_norm_without_elements_and_wrong_shapes)
{
    ts_tensor *none = leaf(TS_SHAPE(0, 4), TS_FLOAT32), *w = leaf(TS_SHAPE(4), TS_FLOAT32);
    ts_tensor *y = ts_layer_norm(none, TS_SHAPE(4), w, NULL, 1e-5), *root = ts_sum(y), *grad;
    TS_EXPECT_INT(ts_numel(y), 0);
    TS_PASS(ts_grad_of(&grad, &root, NULL, 1, &w, 1, NULL));
    TS_EXPECT_ALL(grad, 0);
    ts_tensor *x = ts_zeros(TS_SHAPE(2, 4), NULL);
    TS_BAD(ts_layer_norm(x, TS_SHAPE(3), NULL, NULL, 1e-5), TS_ESHAPE, "(2, 4) does not end with");
    TS_BAD(ts_layer_norm(x, TS_SHAPE(4), none, NULL, 1e-5), TS_ESHAPE, "weight has shape (0, 4)");
}

TS_TEST(layer_norm_bits_do_not_depend_on_threads)
{
    ts_tensor *in[] = {leaf(TS_SHAPE(300, 40), TS_FLOAT32), leaf(TS_SHAPE(40), TS_FLOAT32),
                       leaf(TS_SHAPE(40), TS_FLOAT32)};
    ts_tensor *first[3] = {NULL, NULL, NULL}, *grad[3];
    for (int threads = 1; threads <= 3; threads++) {
        TS_PASS(ts_set_num_threads(threads));
        ts_tensor *y = ts_layer_norm(in[0], TS_SHAPE(40), in[1], in[2], 1e-5);
        ts_tensor *root = ts_sum(ts_mul(y, y));
        TS_PASS(ts_grad_of(grad, &root, NULL, 1, in, 3, NULL));
        for (int i = 0; i < 3; i++) {
            if (threads == 1) first[i] = grad[i];
            TS_EXPECT_EQUAL(grad[i], first[i]);
        }
    }
}

TS_TEST(gelu_tanh_form_equals_its_definition)
{
    ts_tensor *x = leaf(TS_SHAPE(7, 31), TS_FLOAT64), *t = ts_transpose(x, 0, 1);
    ts_tensor *cube = ts_mul_scalar(ts_pow_scalar(t, 3), 0.044715);
    ts_tensor *u = ts_mul_scalar(ts_add(t, cube), sqrt(2 / M_PI));
    ts_tensor *e = ts_mul(ts_mul_scalar(t, 0.5), ts_add_scalar(ts_tanh(u), 1));
    expect_same(test, ts_gelu(t, TS_GELU_TANH), e, &x, 1, 1e-13);
    TS_EXPECT_INT(ts_numel(ts_gelu(ts_zeros(TS_SHAPE(0), NULL), TS_GELU_ERF)), 0);
    TS_BAD(ts_gelu(integers(TS_SHAPE(1), (const int64_t[]){4}), TS_GELU_ERF), TS_EDTYPE, "int64");
    TS_BAD(ts_gelu(x, (ts_gelu_form)7), TS_EINVAL, "form 7");
}

TS_TEST(embedding_gathers_and_adds_back)
{
    ts_tensor *w = leaf(TS_SHAPE(4, 3), TS_FLOAT32);
    ts_tensor *index = integers(TS_SHAPE(2, 3), (const int64_t[]){3, 0, 3, 1, 1, 1});
    ts_tensor *y = ts_embedding(w, ts_transpose(index, 0, 1));
    TS_EXPECT(ts_shape_equal(ts_tensor_shape(y), TS_SHAPE(3, 2, 3)));
    TS_EXPECT_EQUAL(ts_select(ts_select(y, 0, 2), 0, 0), ts_select(w, 0, 3));
    TS_PASS(ts_backward(ts_sum(y)));
    TS_EXPECT_VALUES(ts_grad(w), 0, 1, 1, 1, 3, 3, 3, 0, 0, 0, 2, 2, 2);
    ts_tensor *none = ts_embedding(w, integers(TS_SHAPE(0, 2), NULL));
    TS_EXPECT(ts_shape_equal(ts_tensor_shape(none), TS_SHAPE(0, 2, 3)));
    TS_BAD(ts_embedding(w, ts_add_scalar(index, 1)), TS_EINVAL, "index 4 at position 0");
    TS_BAD(ts_embedding(w, ts_zeros(TS_SHAPE(2), NULL)), TS_EDTYPE, "float32");
    TS_EXPECT_INT(ts_tensor_dtype(ts_embedding(ts_to_dtype(w, TS_BFLOAT16), index)), TS_BFLOAT16);
}

TS_TEST(dropout_keeps_its_mask_for_backward)
{
    ts_tensor *x = ts_ones(TS_SHAPE(100, 100), NULL);
    double kept;
    ts_manual_seed(7);
    TS_PASS(ts_set_requires_grad(x, true));
    ts_tensor *y = ts_dropout(x, 0.25, true);
    TS_PASS(ts_backward(ts_sum(y)));
    TS_EXPECT_EQUAL(ts_grad(x), ts_detach(y));
    TS_PASS(ts_item(ts_sum(ts_mul_scalar(y, 0.75)), &kept));
    TS_EXPECT_NEAR(kept, 7500, 200);
    ts_tensor *again = ts_dropout(x, 0.25, true);
    double same;
    TS_PASS(ts_item(ts_sum(ts_abs(ts_sub(again, y))), &same));
    TS_EXPECT(same > 1000); /* other numbers */
    ts_manual_seed(7);
    TS_EXPECT_EQUAL(ts_dropout(x, 0.25, true), y);
}

TS_TEST(dropout_edge_cases)
{
    ts_tensor *x = ts_full(TS_SHAPE(5), INFINITY, NULL);
    TS_EXPECT(ts_dropout(x, 0.5, false) == x);
    TS_EXPECT(ts_dropout(x, 0, true) == x);
    TS_EXPECT_ALL(ts_dropout(x, 1, true), 0);
    TS_EXPECT_INT(ts_numel(ts_dropout(ts_zeros(TS_SHAPE(0), NULL), 0.5, true)), 0);
    TS_BAD(ts_dropout(x, 1.5, true), TS_EINVAL, "p is 1.5");
    TS_BAD(ts_dropout(x, NAN, true), TS_EINVAL, "dropout");
    TS_BAD(ts_dropout(NULL, 0.5, true), TS_EINVAL, "dropout");
}

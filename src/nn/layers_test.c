/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

typedef struct moments {
    double mean, std, least, most;
} moments;

static moments moments_of(ts_tensor *t)
{
    const float *x = ts_data(t);
    int64_t n = ts_numel(t);
    moments m = {0, 0, INFINITY, -INFINITY};
    for (int64_t i = 0; i < n; i++) {
        m.mean += (double)x[i] / (double)n;
        m.std += (double)x[i] * (double)x[i] / (double)n;
        m.least = fmin(m.least, (double)x[i]);
        m.most = fmax(m.most, (double)x[i]);
    }
    m.std = sqrt(m.std - m.mean * m.mean);
    return m;
}

TS_TEST(linear_starts_uniform_within_one_over_root_of_inputs)
{
    ts_manual_seed(1);
    ts_module *m = ts_linear_new(100, 300, NULL);
    moments w = moments_of(ts_module_parameter(m, "weight"));
    moments b = moments_of(ts_module_parameter(m, "bias"));
    TS_EXPECT_NEAR(w.most, 0.1, 0.001);
    TS_EXPECT_NEAR(w.least, -0.1, 0.001);
    TS_EXPECT_NEAR(w.std, 0.1 / sqrt(3.0), 0.001);
    TS_EXPECT(b.most <= 0.1 && b.most > 0.09 && b.least >= -0.1 && b.least < -0.09);
    ts_module_free(m);
}

TS_TEST(linear_with_options_and_strided_input)
{
    ts_linear_options opt = TS_LINEAR_OPTIONS_INIT;
    opt.bias = false;
    opt.dtype = TS_FLOAT64;
    ts_module *m = ts_linear_new(2, 3, &opt);
    ts_tensor *weight = ts_module_parameter(m, "weight");
    TS_EXPECT(!ts_module_parameter(m, "bias"));
    TS_EXPECT_INT(ts_tensor_dtype(weight), TS_FLOAT64);
    TS_EXPECT_INT(ts_module_num_parameters(m), 6);
    ts_init_constant_(weight, 2.0);
    ts_tensor_options f64 = TS_TENSOR_OPTIONS_INIT;
    f64.dtype = TS_FLOAT64;
    ts_tensor *x = ts_transpose(ts_ones(TS_SHAPE(2, 5), &f64), 0, 1);
    TS_EXPECT_ALL(ts_forward(m, x), 4.0);
    TS_EXPECT_INT(ts_numel(ts_forward(m, ts_ones(TS_SHAPE(0, 2), &f64))), 0);
    ts_module_free(m);
    ts_linear_options bare = {0};
    m = ts_linear_new(2, 3, &bare);
    TS_FAIL(ts_module_status(m), TS_EINVAL, "linear_new: options are not initialised");
    ts_module_free(m);
    m = ts_linear_new(0, 3, NULL); /* without inputs the bias is what comes out */
    TS_EXPECT_ALL(ts_forward(m, ts_ones(TS_SHAPE(2, 0), NULL)), 0.0);
    ts_module_free(m);
}

TS_TEST(embedding_starts_normal_and_looks_up)
{
    ts_manual_seed(2);
    ts_module *m = ts_embedding_new(200, 50, NULL);
    moments w = moments_of(ts_module_parameter(m, "weight"));
    TS_EXPECT_NEAR(w.mean, 0.0, 0.05);
    TS_EXPECT_NEAR(w.std, 1.0, 0.05);
    ts_tensor *rows = ts_forward(m, ts_randint(0, 200, TS_SHAPE(3, 4), NULL));
    TS_EXPECT(ts_shape_equal(ts_tensor_shape(rows), TS_SHAPE(3, 4, 50)));
    ts_module_free(m);
    m = ts_embedding_new(-1, 2, NULL);
    TS_FAIL(ts_module_status(m), TS_EINVAL, "-1 embeddings");
    ts_module_free(m);
}

TS_TEST(layer_norm_starts_as_plain_normalisation)
{
    ts_module *m = ts_layer_norm_new(TS_SHAPE(4), NULL);
    const float x[] = {1, 2, 3, 4};
    double s = sqrt(1.25 + 1e-5);
    TS_EXPECT_VALUES(ts_forward(m, ts_from_data(x, TS_SHAPE(1, 4), NULL)), 1e-6, -1.5 / s, -0.5 / s,
                     0.5 / s, 1.5 / s);
    TS_EXPECT_INT(ts_module_num_parameters(m), 8);
    ts_module_free(m);
    ts_layer_norm_options opt = TS_LAYER_NORM_OPTIONS_INIT;
    opt.bias = false;
    m = ts_layer_norm_new(TS_SHAPE(2, 4), &opt);
    TS_EXPECT_INT(ts_module_num_parameters(m), 8);
    ts_module_free(m);
    opt.elementwise_affine = false;
    m = ts_layer_norm_new(TS_SHAPE(2, 4), &opt);
    TS_EXPECT_INT(ts_module_num_parameters(m), 0);
    TS_GOOD(ts_forward(m, ts_ones(TS_SHAPE(3, 2, 4), NULL)));
    ts_module_free(m);
    m = ts_layer_norm_new(ts_shape_scalar(), NULL);
    TS_FAIL(ts_module_status(m), TS_EINVAL, "normalized_shape");
    ts_module_free(m);
}

TS_TEST(dropout_follows_the_mode)
{
    ts_module *m = ts_dropout_new(0.5);
    ts_tensor *x = ts_ones(TS_SHAPE(1000), NULL), *y = ts_forward(m, x);
    moments d = moments_of(y);
    TS_EXPECT(d.least == 0.0 && d.most == 2.0);
    TS_EXPECT_NEAR(d.mean, 1.0, 0.15);
    ts_module_train(m, false);
    TS_EXPECT_ALL(ts_forward(m, x), 1.0);
    ts_module_free(m);
    m = ts_dropout_new(NAN);
    TS_FAIL(ts_module_status(m), TS_EINVAL, "p is nan");
    ts_module_free(m);
}

TS_TEST(sequential_runs_its_modules_in_order)
{
    ts_module *parts[] = {ts_linear_new(3, 4, NULL), ts_relu_new(), ts_gelu_new(TS_GELU_ERF),
                          ts_linear_new(4, 2, NULL)};
    ts_module *m = ts_sequential_new(parts, 4);
    ts_tensor *y = ts_forward(m, ts_ones(TS_SHAPE(5, 3), NULL));
    TS_EXPECT(ts_shape_equal(ts_tensor_shape(y), TS_SHAPE(5, 2)));
    TS_EXPECT(ts_module_parameter(m, "3.weight") != NULL);
    TS_EXPECT(ts_module_list_get(m, 1) == parts[1] && !ts_module_list_get(m, 4));
    TS_BAD(ts_forward(m, ts_ones(TS_SHAPE(5, 2), NULL)), TS_ESHAPE, "0: linear");
    ts_module_free(m);
    m = ts_sequential_new(NULL, 0);
    TS_EXPECT_ALL(ts_forward(m, ts_ones(TS_SHAPE(2), NULL)), 1.0);
    ts_module_free(m);
    m = ts_sequential_new(NULL, 2);
    TS_FAIL(ts_module_status(m), TS_EINVAL, "not a list");
    ts_module_free(m);
}

TS_TEST(initialisers_follow_their_bounds)
{
    ts_manual_seed(3);
    ts_tensor *t = ts_empty(TS_SHAPE(60, 50), NULL);
    moments k = moments_of(ts_init_kaiming_uniform_(t, 0.0));
    TS_EXPECT_NEAR(k.most, sqrt(6.0 / 50.0), 0.01);
    moments x = moments_of(ts_init_xavier_uniform_(t, 2.0));
    TS_EXPECT_NEAR(x.most, 2.0 * sqrt(6.0 / 110.0), 0.01);
    TS_EXPECT_NEAR(moments_of(ts_init_normal_(t, 3.0, 0.5)).mean, 3.0, 0.05);
    double std;
    TS_PASS(ts_item(ts_std(ts_init_kaiming_normal_(t, 1.0), NULL, 0, 0, false), &std));
    TS_EXPECT_NEAR(std, sqrt(1.0 / 50.0), 0.01);
    TS_PASS(ts_item(ts_std(ts_init_xavier_normal_(t, 2.0), NULL, 0, 0, false), &std));
    TS_EXPECT_NEAR(std, 2 * sqrt(2.0 / 110.0), 0.01);
    TS_EXPECT_ALL(ts_init_constant_(t, 4.0), 4.0);
    TS_PASS(ts_set_requires_grad(t, true));
    TS_GOOD(ts_init_uniform_(t, 0.0, 1.0));
    TS_BAD(ts_init_kaiming_uniform_(ts_empty(TS_SHAPE(3), NULL), 0.0), TS_ESHAPE, "no fan");
}

TS_TEST(truncated_normal_numbers_stay_within_their_bounds)
{
    ts_manual_seed(4);
    ts_tensor *t = ts_init_trunc_normal_(ts_empty(TS_SHAPE(100, 200), NULL), 1, 2, -1, 3);
    double std;
    moments m = moments_of(t);
    TS_EXPECT(m.least >= -1 && m.most <= 3 && m.least < -0.99 && m.most > 2.99);
    TS_EXPECT_NEAR(m.mean, 1.0, 0.03);
    TS_PASS(ts_item(ts_std(t, NULL, 0, 0, false), &std));
    TS_EXPECT_NEAR(std, 2 * 0.5396, 0.02); /* of a normal number cut at one deviation */
    m = moments_of(ts_init_trunc_normal_(t, 0, 1, 6, 8)); /* far out in the tail */
    TS_EXPECT(m.least >= 6 && m.mean > 6.1 && m.mean < 6.25);
    TS_BAD(ts_init_trunc_normal_(t, 0, 0, -1, 1), TS_EINVAL, "std 0");
    TS_BAD(ts_init_trunc_normal_(t, 0, 1, 1, 1), TS_EINVAL, "less than");
}

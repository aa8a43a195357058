/* SPDX-License-Identifier: Apache-2.0 */
/* Values, dtypes and errors of element-wise operations and copies. */
#include <math.h>
#include <tessera/tessera.h>

#include "ops/elementwise_impl.h"
#include "test.h"

static ts_tensor *typed(ts_shape shape, ts_dtype dtype, double value)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = dtype;
    return ts_full(shape, value, &opt);
}

/* ---- promotion: PyTorch's table -------------------------------------------------------------- */

#define F4 TS_FLOAT32
#define F8 TS_FLOAT64
#define F2 TS_FLOAT16
#define BF TS_BFLOAT16
#define I1 TS_INT8
#define U1 TS_UINT8
#define I2 TS_INT16
#define I4 TS_INT32
#define I8 TS_INT64
#define BO TS_BOOL

static const ts_dtype promoted[10][10] = {
    /*         F4  F8  F2  BF  I1  U1  I2  I4  I8  BO */
    /* F4 */ {F4, F8, F4, F4, F4, F4, F4, F4, F4, F4},
    /* F8 */ {F8, F8, F8, F8, F8, F8, F8, F8, F8, F8},
    /* F2 */ {F4, F8, F2, F4, F2, F2, F2, F2, F2, F2},
    /* BF */ {F4, F8, F4, BF, BF, BF, BF, BF, BF, BF},
    /* I1 */ {F4, F8, F2, BF, I1, I2, I2, I4, I8, I1},
    /* U1 */ {F4, F8, F2, BF, I2, U1, I2, I4, I8, U1},
    /* I2 */ {F4, F8, F2, BF, I2, I2, I2, I4, I8, I2},
    /* I4 */ {F4, F8, F2, BF, I4, I4, I4, I4, I8, I4},
    /* I8 */ {F4, F8, F2, BF, I8, I8, I8, I8, I8, I8},
    /* BO */ {F4, F8, F2, BF, I1, U1, I2, I4, I8, BO},
};

TS_TEST(dtypes_are_promoted)
{
    for (int a = 0; a < 10; a++)
        for (int b = 0; b < 10; b++) {
            ts_tensor *x = typed(TS_SHAPE(2), (ts_dtype)a, 1),
                      *y = typed(TS_SHAPE(2), (ts_dtype)b, 1);
            ts_tensor *z = ts_mul(x, y);
            TS_GOOD(z);
            if (ts_tensor_dtype(z) != promoted[a][b])
                TS_FAIL_TEST("%s with %s gives %s", ts_dtype_name((ts_dtype)a),
                             ts_dtype_name((ts_dtype)b), ts_dtype_name(ts_tensor_dtype(z)));
            TS_EXPECT_ALL(z, 1.0);
        }
}

TS_TEST(zero_dim_tensors_count_by_category)
{
    static const ts_dtype rows[][3] = {{F4, F8, F4}, {F2, F4, F2}, {I8, F8, F8}, {I4, I8, I4},
                                       {F4, I8, F4}, {BO, U1, U1}, {U1, I8, U1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ts_tensor *x = typed(TS_SHAPE(2), rows[i][0], 1),
                  *y = typed(ts_shape_scalar(), rows[i][1], 1);
        TS_EXPECT_INT(ts_tensor_dtype(ts_add(x, y)), rows[i][2]);
        TS_EXPECT_INT(ts_tensor_dtype(ts_add(y, x)), rows[i][2]);
    }
    TS_EXPECT_INT(ts_tensor_dtype(ts_add_scalar(typed(TS_SHAPE(2), I4, 1), 2)), I4);
    TS_EXPECT_INT(ts_tensor_dtype(ts_add_scalar(typed(TS_SHAPE(2), I4, 1), 2.5)), F4);
    TS_EXPECT_INT(ts_tensor_dtype(ts_div(typed(TS_SHAPE(2), I4, 1), typed(TS_SHAPE(2), I8, 1))),
                  F4);
    TS_BAD(ts_add(typed(TS_SHAPE(2), TS_COMPLEX64, 1), typed(TS_SHAPE(2), F4, 1)), TS_EDTYPE,
           "complex64");
}

TS_TEST(sixteen_bit_types_compute_in_float32)
{
    ts_tensor *a = typed(TS_SHAPE(3), BF, 1.5), *b = typed(TS_SHAPE(3), BF, 2.25);
    TS_EXPECT_ALL(ts_mul(a, b), 3.375);
    TS_EXPECT_ALL(ts_exp(typed(TS_SHAPE(3), F2, 0)), 1.0);
    TS_EXPECT_ALL(ts_sum(typed(TS_SHAPE(1000), BF, 1)), 1000.0);
    TS_EXPECT_ALL(ts_mean(typed(TS_SHAPE(1000), F2, 100)), 100.0); /* the sum exceeds float16 */
    ts_set_requires_grad(a, true);
    TS_PASS(ts_backward(ts_sum(ts_mul(a, ts_to_dtype(b, F4)))));
    TS_EXPECT_INT(ts_tensor_dtype(ts_grad(a)), BF);
    TS_EXPECT_ALL(ts_grad(a), 2.25);
}

TS_TEST(whole_numbers_wrap_around)
{
    ts_tensor *big = typed(TS_SHAPE(2), U1, 200);
    TS_EXPECT_ALL(ts_add(big, big), 144.0);
    TS_EXPECT_ALL(ts_sum(big), 400.0); /* sums are int64 */
    TS_EXPECT_INT(ts_tensor_dtype(ts_sum(typed(TS_SHAPE(2), BO, 1))), I8);
    TS_EXPECT_ALL(ts_neg(typed(TS_SHAPE(2), I8, 5)), -5.0);
    TS_BAD(ts_mean(big), TS_EDTYPE, "uint8");
    TS_BAD(ts_add_(big, typed(TS_SHAPE(2), F4, 1)), TS_EDTYPE, "float32");
    TS_BAD(ts_div_(big, big), TS_EDTYPE, "in place");
    TS_GOOD(ts_add_(big, typed(TS_SHAPE(2), I8, 1)));
    TS_EXPECT_ALL(big, 201.0);
}

/* ---- broadcasting and layouts ---------------------------------------------------------------- */

TS_TEST(shapes_broadcast)
{
    ts_tensor *a = ts_arange(0, 6, 1, NULL), *row = ts_arange(0, 3, 1, NULL);
    a = ts_view(a, TS_SHAPE(2, 3));
    ts_tensor *column = ts_view(ts_arange(0, 2, 1, NULL), TS_SHAPE(2, 1));
    TS_EXPECT_VALUES(ts_add(a, row), 0, 0, 2, 4, 3, 5, 7);
    TS_EXPECT_VALUES(ts_sub(column, row), 0, 0, -1, -2, 1, 0, -1);
    TS_EXPECT_VALUES(ts_mul(ts_transpose(a, 0, 1), ts_transpose(column, 0, 1)), 0, 0, 3, 0, 4, 0,
                     5);
    TS_EXPECT_INT(ts_numel(ts_add(ts_zeros(TS_SHAPE(0, 3), NULL), row)), 0);
    TS_EXPECT_INT(ts_ndim(ts_add(ts_scalar(1, NULL), ts_scalar(2, NULL))), 0);
    TS_BAD(ts_add(a, ts_zeros(TS_SHAPE(4), NULL)), TS_ESHAPE, "add: shapes (2, 3) and (4,)");
    TS_BAD(ts_add(ts_zeros(TS_SHAPE(0), NULL), row), TS_ESHAPE, "(0,) and (3,)");
    TS_BAD(ts_add_(row, a), TS_ESHAPE, "(3,)");
}

TS_TEST(large_and_strided_operands_agree_with_small_ones)
{
    ts_tensor *x = ts_randn(TS_SHAPE(300, 401), NULL), *y = ts_randn(TS_SHAPE(401, 300), NULL);
    ts_tensor *fast = ts_mul(x, ts_contiguous(ts_transpose(y, 0, 1)));
    TS_EXPECT_EQUAL(ts_mul(x, ts_transpose(y, 0, 1)), fast);
    TS_EXPECT_EQUAL(ts_transpose(ts_mul(ts_transpose(x, 0, 1), y), 0, 1), fast);
    ts_tensor *part = ts_slice(x, 1, 1, 401, 3);
    TS_EXPECT_EQUAL(ts_exp(part), ts_exp(ts_clone(part)));
    ts_tensor *sum = ts_sum_dim(part, 0, false);
    TS_EXPECT_EQUAL(sum, ts_sum_dim(ts_clone(part), 0, false));
    TS_EXPECT_CLOSE(ts_sum(sum), ts_sum(part), 1e-5, 1e-4);
    TS_EXPECT_CLOSE(ts_sum_dim(ts_transpose(x, 0, 1), 0, true),
                    ts_transpose(ts_sum_dim(x, 1, true), 0, 1), 0, 0);
}

TS_TEST(results_do_not_depend_on_threads)
{
    ts_tensor *x = ts_randn(TS_SHAPE(500, 700), NULL), *one[4], *many[4];
    for (int k = 0; k < 2; k++) {
        TS_PASS(ts_set_num_threads(k ? 4 : 1));
        ts_tensor **out = k ? many : one;
        out[0] = ts_sum(x);
        out[1] = ts_sum_dim(x, 0, false);
        out[2] = ts_mean_dim(x, 1, false);
        out[3] = ts_tanh(ts_transpose(x, 0, 1));
    }
    for (int i = 0; i < 4; i++) TS_EXPECT_EQUAL(one[i], many[i]);
}

/* ---- in place -------------------------------------------------------------------------------- */

TS_TEST(changes_in_place_on_views_and_themselves)
{
    ts_tensor *a = ts_view(ts_arange(0, 6, 1, NULL), TS_SHAPE(2, 3));
    TS_EXPECT(ts_add_(ts_transpose(a, 0, 1), ts_scalar(1, NULL)) != NULL);
    TS_EXPECT_VALUES(a, 0, 1, 2, 3, 4, 5, 6);
    ts_tensor *line = ts_arange(0, 5, 1, NULL);
    TS_GOOD(ts_add_(ts_narrow(line, 0, 1, 4), ts_narrow(line, 0, 0, 4))); /* as if read before */
    TS_EXPECT_VALUES(line, 0, 0, 1, 3, 5, 7);
    TS_GOOD(ts_mul_(line, line));
    TS_EXPECT_VALUES(line, 0, 0, 1, 9, 25, 49);
    ts_tensor *wide = ts_expand(ts_zeros(TS_SHAPE(1), NULL), TS_SHAPE(3));
    TS_BAD(ts_add_scalar_(wide, 1), TS_ESTATE, "share memory");
    TS_GOOD(ts_copy_(a, ts_to_dtype(ts_arange(7, 10, 1, NULL), I4)));
    TS_EXPECT_VALUES(a, 0, 7, 8, 9, 7, 8, 9);
    TS_BAD(ts_copy_(line, a), TS_ESHAPE, "copy_");
    TS_GOOD(ts_fill_(ts_select(a, 1, 0), 4));
    TS_EXPECT_VALUES(a, 0, 4, 8, 9, 4, 8, 9);
}

/* ---- functions against the C library --------------------------------------------------------- */

static double f_relu(double x) { return x > 0 ? x : 0; }
static double f_sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double f_negative(double x) { return -x; }

TS_TEST(functions_of_one_tensor)
{
    static const struct {
        ts_tensor *(*fn)(ts_tensor *a);
        double (*plain)(double x);
    } rows[] = {{ts_exp, exp},  {ts_log, log},     {ts_sqrt, sqrt},         {ts_tanh, tanh},
                {ts_abs, fabs}, {ts_relu, f_relu}, {ts_sigmoid, f_sigmoid}, {ts_neg, f_negative}};
    static const ts_dtype dtypes[] = {F4, F8};
    for (int d = 0; d < 2; d++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
            opt.dtype = dtypes[d];
            ts_tensor *x = ts_slice(ts_arange(-3, 5, 0.25, &opt), 0, 1, 31, 2), *y = rows[i].fn(x);
            TS_GOOD(y);
            for (int k = 0; k < 15; k++) {
                double in, out;
                TS_PASS(ts_item(ts_select(x, 0, k), &in));
                TS_PASS(ts_item(ts_select(y, 0, k), &out));
                TS_EXPECT_NEAR(out, rows[i].plain(in), (d ? 1e-15 : 3e-7) * (1 + fabs(out)));
            }
        }
    TS_EXPECT_ALL(ts_pow_scalar(typed(TS_SHAPE(2), F8, 3), 2.5), pow(3, 2.5));
    TS_EXPECT_ALL(ts_pow_scalar(typed(TS_SHAPE(2), F4, 3), -1), (double)(1.0f / 3));
    TS_EXPECT_ALL(ts_pow_scalar(typed(TS_SHAPE(2), F4, 3), 3), 27.0);
}

/* ---- reductions ------------------------------------------------------------------------------ */

TS_TEST(reductions_of_nothing_and_of_scalars)
{
    ts_tensor *none = ts_zeros(TS_SHAPE(0, 3), NULL), *one = ts_scalar(5, NULL);
    TS_EXPECT_ALL(ts_sum(none), 0.0);
    TS_EXPECT_ALL(ts_mean(none), NAN);
    TS_EXPECT_VALUES(ts_sum_dim(none, 0, false), 0, 0, 0, 0);
    TS_EXPECT_INT(ts_numel(ts_sum_dim(none, 1, false)), 0);
    TS_BAD(ts_max(none), TS_ESHAPE, "max");
    TS_BAD(ts_argmax(none, 0, false), TS_ESHAPE, "argmax");
    TS_EXPECT_INT(ts_numel(ts_argmax(none, 1, false)), 0);
    TS_EXPECT_ALL(ts_norm(none, 2), 0.0);
    TS_EXPECT_ALL(ts_sum(one), 5.0);
    TS_EXPECT_ALL(ts_sum_dim(one, -1, true), 5.0);
    TS_EXPECT_ALL(ts_argmax(one, 0, false), 0.0);
    TS_BAD(ts_sum_dim(ts_ones(TS_SHAPE(2), NULL), 1, false), TS_ESHAPE, "sum: dim 1");
    TS_BAD(ts_sum_dims(ts_ones(TS_SHAPE(2), NULL), (const int[]){0, -1}, 2, false), TS_ESHAPE,
           "twice");
}

TS_TEST(extremes_of_int64_beyond_the_range_of_double)
{
    const int64_t large = INT64_C(1) << 53;
    const int64_t data[] = {large, large + 1, -large - 1, -large};
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_INT64;
    ts_tensor *x = ts_from_data(data, TS_SHAPE(2, 2), &opt);
    int64_t most = 0;
    TS_PASS(ts_item_int(ts_max(x), &most));
    TS_EXPECT_INT(most, large + 1);
    TS_EXPECT_VALUES(ts_argmax(x, 1, false), 0, 1, 1);
    TS_EXPECT_VALUES(ts_argmax(ts_transpose(x, 0, 1), 0, false), 0, 1, 1);
}

TS_TEST(extremes_and_norms)
{
    ts_tensor *x = ts_from_data((const float[]){3, -4, 1, 5, 5, -7}, TS_SHAPE(2, 3), NULL);
    TS_EXPECT_ALL(ts_max(x), 5.0);
    TS_EXPECT_ALL(ts_min(ts_transpose(x, 0, 1)), -7.0);
    TS_EXPECT_VALUES(ts_argmax(x, 1, false), 0, 0, 0);
    TS_EXPECT_VALUES(ts_argmax(x, 0, true), 0, 1, 1, 0);
    TS_EXPECT_INT(ts_ndim(ts_argmax(x, 0, true)), 2);
    TS_EXPECT_ALL(ts_norm(x, 1), 25.0);
    TS_EXPECT_ALL(ts_norm(x, INFINITY), 7.0);
    TS_EXPECT_ALL(ts_norm(x, 0), 6.0);
    double norm;
    TS_PASS(ts_item(ts_norm(x, 2), &norm));
    TS_EXPECT_NEAR(norm, sqrt(125), 1e-5);
    TS_PASS(ts_item(ts_norm(x, 3), &norm));
    TS_EXPECT_NEAR(norm, cbrt(27 + 64 + 1 + 250 + 343), 1e-5);
    ts_tensor *whole = typed(TS_SHAPE(2), I8, 0x1p60);
    ts_add_scalar_(ts_select(whole, 0, 1), 1);
    int64_t most;
    TS_PASS(ts_item_int(ts_max(whole), &most));
    TS_EXPECT_INT(most, (INT64_C(1) << 60) + 1);
    ts_tensor *zero = ts_zeros(TS_SHAPE(3), NULL);
    ts_set_requires_grad(zero, true);
    TS_PASS(ts_backward(ts_norm(zero, 2)));
    TS_EXPECT_ALL(ts_grad(zero), 0.0);
}

/* ---- meta tensors and devices ---------------------------------------------------------------- */

static ts_tensor *m_views(ts_tensor *a) { return ts_select(ts_transpose(a, 0, 2), 0, -1); }
static ts_tensor *m_reshape(ts_tensor *a)
{
    return ts_reshape(ts_transpose(a, 0, 1), TS_SHAPE(-1));
}
static ts_tensor *m_cat(ts_tensor *a) { return ts_cat((ts_tensor *const[]){a, a, a}, 3, 1); }
static ts_tensor *m_mean(ts_tensor *a) { return ts_mean_dim(a, 1, true); }
static ts_tensor *m_argmax(ts_tensor *a) { return ts_argmax(a, 2, false); }
static ts_tensor *m_expand(ts_tensor *a)
{
    return ts_expand(ts_unsqueeze(a, 0), TS_SHAPE(7, -1, -1, -1));
}
static ts_tensor *m_add(ts_tensor *a) { return ts_add(a, ts_slice(a, 1, 0, 1, 1)); }
static ts_tensor *m_norm(ts_tensor *a) { return ts_norm(a, 2); }
static ts_tensor *m_chain(ts_tensor *a)
{
    return ts_fill_(ts_add_(ts_to_dtype(a, TS_FLOAT64), a), 1);
}

TS_TEST(meta_tensors_have_the_shapes_of_real_ones)
{
    ts_tensor *(*const fn[])(ts_tensor *) = {m_views,  m_reshape, m_cat,   m_mean,
                                             m_argmax, m_expand,  m_add,   m_norm,
                                             m_chain,  ts_exp,    ts_clone};
    ts_tensor_options meta = TS_TENSOR_OPTIONS_INIT;
    meta.device = TS_META;
    ts_tensor *real = ts_ones(TS_SHAPE(2, 3, 4), NULL), *shape = ts_empty(TS_SHAPE(2, 3, 4), &meta);
    for (size_t i = 0; i < sizeof fn / sizeof *fn; i++) {
        ts_tensor *a = fn[i](real), *b = fn[i](shape);
        TS_GOOD(a);
        TS_GOOD(b);
        TS_EXPECT(ts_shape_equal(ts_tensor_shape(a), ts_tensor_shape(b)));
        TS_EXPECT(ts_tensor_dtype(a) == ts_tensor_dtype(b) && ts_tensor_device(b) == TS_META);
    }
    TS_BAD(ts_add(real, shape), TS_EINVAL, "cpu and meta");
    ts_set_requires_grad(shape, true);
    TS_PASS(ts_backward(ts_sum(ts_mul(shape, shape))));
    TS_EXPECT(ts_tensor_device(ts_grad(shape)) == TS_META);
}

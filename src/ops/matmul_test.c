/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"
#include <dirent.h>

#include <stdlib.h>

#include "ops/op.h"

static const ts_tensor_options f64_options = {
    sizeof(ts_tensor_options), TS_FLOAT64, TS_CPU, TS_MEMORY_HEAP, TS_CATEGORY_ACTIVATION, false};

/* Values 0, 1, 2, ... times step, as float64. */
static ts_tensor *ramp(ts_shape shape, double step)
{
    ts_tensor *t = ts_arange(0, (double)ts_shape_numel(shape), 1, &f64_options);
    return ts_reshape(ts_mul_scalar(t, step), shape);
}

TS_TEST(matmul_2d_and_transposed_views)
{
    ts_tensor *a = ramp(TS_SHAPE(2, 3), 1), *b = ramp(TS_SHAPE(3, 2), 1);
    TS_EXPECT_VALUES(ts_matmul(a, b), 0, 10, 13, 28, 40);
    TS_EXPECT_VALUES(ts_matmul(ts_transpose(b, 0, 1), ts_transpose(a, 0, 1)), 0, 10, 28, 13, 40);
    TS_EXPECT_VALUES(ts_matmul(ts_slice(a, 1, 0, 3, 2), ts_slice(b, 0, 0, 3, 2)), 0, 8, 10, 20, 28);
    ts_tensor *ones = ts_expand(ts_ones(TS_SHAPE(1, 1), &f64_options), TS_SHAPE(3, 2));
    TS_EXPECT_VALUES(ts_matmul(a, ones), 0, 3, 3, 12, 12);
}

TS_TEST(matmul_vectors)
{
    ts_tensor *v = ramp(TS_SHAPE(3), 1), *a = ramp(TS_SHAPE(2, 3), 1), *b = ramp(TS_SHAPE(3, 2), 1);
    ts_tensor *dot = ts_matmul(v, v);
    TS_EXPECT_VALUES(dot, 0, 5);
    TS_EXPECT_INT(ts_ndim(dot), 0);
    TS_EXPECT_VALUES(ts_matmul(a, v), 0, 5, 14);
    TS_EXPECT_VALUES(ts_matmul(v, b), 0, 10, 13);
    ts_tensor *batch = ts_matmul(ramp(TS_SHAPE(2, 2, 3), 1), v);
    TS_EXPECT(ts_shape_equal(ts_tensor_shape(batch), TS_SHAPE(2, 2)));
    TS_EXPECT_VALUES(batch, 0, 5, 14, 23, 32);
}

TS_TEST(matmul_batches_broadcast)
{
    ts_tensor *a = ramp(TS_SHAPE(2, 1, 2, 3), 1), *b = ramp(TS_SHAPE(4, 3, 2), 1);
    ts_tensor *c = ts_matmul(a, b);
    TS_GOOD(c);
    TS_EXPECT(ts_shape_equal(ts_tensor_shape(c), TS_SHAPE(2, 4, 2, 2)));
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++) {
            ts_tensor *one = ts_matmul(ts_select(ts_select(a, 0, i), 0, 0), ts_select(b, 0, j));
            TS_EXPECT_EQUAL(ts_select(ts_select(c, 0, i), 0, j), one);
        }
    ts_tensor *rows = ts_matmul(ramp(TS_SHAPE(2, 2, 3), 1), ramp(TS_SHAPE(3, 2), 1));
    TS_EXPECT_VALUES(rows, 0, 10, 13, 28, 40, 46, 67, 64, 94);
}

TS_TEST(matmul_without_elements)
{
    ts_tensor *a = ts_zeros(TS_SHAPE(2, 0), NULL), *b = ts_zeros(TS_SHAPE(0, 3), NULL);
    TS_EXPECT_VALUES(ts_matmul(a, b), 0, 0, 0, 0, 0, 0, 0);
    ts_tensor *none = ts_matmul(ts_zeros(TS_SHAPE(2, 4), NULL), ts_zeros(TS_SHAPE(4, 0), NULL));
    TS_EXPECT(ts_shape_equal(ts_tensor_shape(none), TS_SHAPE(2, 0)));
    none = ts_matmul(ts_zeros(TS_SHAPE(0, 2, 4), NULL), ts_zeros(TS_SHAPE(4, 3), NULL));
    TS_EXPECT(ts_shape_equal(ts_tensor_shape(none), TS_SHAPE(0, 2, 3)));
    TS_EXPECT_VALUES(ts_matmul(ts_zeros(TS_SHAPE(0), NULL), ts_zeros(TS_SHAPE(0), NULL)), 0, 0);
}

TS_TEST(matmul_says_what_does_not_fit)
{
    ts_tensor *a = ts_zeros(TS_SHAPE(2, 3), NULL), *b = ts_zeros(TS_SHAPE(4, 2), NULL);
    TS_BAD(ts_matmul(a, b), TS_ESHAPE, "(2, 3) and (4, 2)");
    TS_BAD(ts_matmul(a, ts_zeros(TS_SHAPE(3, 2), &f64_options)), TS_EDTYPE, "float64");
    TS_BAD(ts_matmul(a, ts_scalar(1, NULL)), TS_ESHAPE, "0-dim");
    TS_BAD(ts_matmul(ts_zeros(TS_SHAPE(2, 2, 3), NULL), ts_zeros(TS_SHAPE(5, 3, 1), NULL)),
           TS_ESHAPE, "(5,)");
    TS_BAD(ts_matmul(a, NULL), TS_EINVAL, "matmul");
}

TS_TEST(matmul_in_half_precision)
{
    ts_tensor *a = ts_to_dtype(ramp(TS_SHAPE(2, 3), 1), TS_BFLOAT16);
    ts_tensor *b = ts_to_dtype(ramp(TS_SHAPE(3, 2), 1), TS_BFLOAT16), *c = ts_matmul(a, b);
    TS_EXPECT_INT(ts_tensor_dtype(c), TS_BFLOAT16);
    TS_EXPECT_VALUES(c, 0, 10, 13, 28, 40);
}

static int threads_of_process(void)
{
    int threads = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *e; tasks && (e = readdir(tasks));) threads += e->d_name[0] != '.';
    if (tasks) closedir(tasks);
    return threads;
}

/* The BLAS library starts no threads beside the pool's. */
TS_TEST(matmul_uses_no_other_threads)
{
    int before = threads_of_process(); /* a sanitizer may have one of its own */
    TS_PASS(ts_set_num_threads(1));
    TS_GOOD(ts_matmul(ts_ones(TS_SHAPE(600, 500), NULL), ts_ones(TS_SHAPE(500, 400), NULL)));
    TS_EXPECT_INT(threads_of_process(), before);
}

TS_TEST(linear_adds_the_bias)
{
    ts_tensor *x = ramp(TS_SHAPE(2, 1, 3), 1), *w = ramp(TS_SHAPE(2, 3), 1);
    ts_tensor *b = ramp(TS_SHAPE(2), 100), *y = ts_linear(x, w, b);
    TS_EXPECT(ts_shape_equal(ts_tensor_shape(y), TS_SHAPE(2, 1, 2)));
    TS_EXPECT_VALUES(y, 0, 5, 114, 14, 150);
    TS_EXPECT_VALUES(ts_linear(x, w, NULL), 0, 5, 14, 14, 50);
    TS_EXPECT_VALUES(ts_linear(ts_select(ts_select(x, 0, 1), 0, 0), w, b), 0, 14, 150);
}

/* Rows at equal distances are not copied, others are; either way the numbers are the same. */
TS_TEST(linear_takes_strided_inputs)
{
    ts_tensor *big = ramp(TS_SHAPE(4, 6, 5), 0.5), *w = ramp(TS_SHAPE(3, 5), 0.25);
    ts_tensor *views[] = {
        ts_slice(big, 1, 0, 6, 2), ts_transpose(big, 0, 1), ts_narrow(big, 1, 1, 3),
        ts_expand(ts_narrow(big, 0, 1, 1), TS_SHAPE(4, 6, 5)), ts_narrow(big, 1, 2, 1)};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++)
        TS_EXPECT_EQUAL(ts_linear(views[i], w, NULL), ts_linear(ts_clone(views[i]), w, NULL));
    ts_tensor *wide = ts_transpose(ramp(TS_SHAPE(5, 3), 0.25), 0, 1);
    TS_EXPECT_EQUAL(ts_linear(big, wide, NULL), ts_linear(big, ts_clone(wide), NULL));
}

TS_TEST(linear_without_elements)
{
    ts_tensor *b = ts_ones(TS_SHAPE(2), NULL);
    ts_tensor *y = ts_linear(ts_zeros(TS_SHAPE(3, 0), NULL), ts_zeros(TS_SHAPE(2, 0), NULL), b);
    TS_EXPECT_ALL(y, 1);
    TS_EXPECT_INT(ts_numel(y), 6);
    y = ts_linear(ts_zeros(TS_SHAPE(0, 4), NULL), ts_zeros(TS_SHAPE(2, 4), NULL), b);
    TS_EXPECT(ts_shape_equal(ts_tensor_shape(y), TS_SHAPE(0, 2)));
}

TS_TEST(linear_says_what_does_not_fit)
{
    ts_tensor *x = ts_zeros(TS_SHAPE(2, 15), NULL), *w = ts_zeros(TS_SHAPE(4, 16), NULL);
    TS_BAD(ts_linear(x, w, NULL), TS_ESHAPE, "linear: input has 15 features, weight expects 16");
    x = ts_zeros(TS_SHAPE(2, 16), NULL);
    TS_BAD(ts_linear(x, w, ts_zeros(TS_SHAPE(5), NULL)), TS_ESHAPE, "bias has shape (5,)");
    TS_BAD(ts_linear(ts_to_dtype(x, TS_INT64), w, NULL), TS_EDTYPE, "int64");
    TS_BAD(ts_linear(x, x, ts_zeros(TS_SHAPE(2), &f64_options)), TS_EDTYPE, "float64");
}

/* Bits of a large product, forward and backward, for 1, 2 and 3 threads. */
TS_TEST(linear_bits_do_not_depend_on_threads)
{
    ts_tensor *first[3] = {NULL, NULL, NULL};
    ts_manual_seed(5);
    ts_tensor *x = ts_randn(TS_SHAPE(300, 130), NULL), *w = ts_randn(TS_SHAPE(270, 130), NULL);
    ts_tensor *b = ts_randn(TS_SHAPE(270), NULL), *in[] = {x, w, b};
    for (int i = 0; i < 3; i++) TS_PASS(ts_set_requires_grad(in[i], true));
    for (int threads = 1; threads <= 3; threads++) {
        TS_PASS(ts_set_num_threads(threads));
        ts_tensor *y = ts_linear(x, w, b), *root = ts_sum(ts_mul(y, y)), *grad[3];
        TS_PASS(ts_grad_of(grad, &root, NULL, 1, in, 3, NULL));
        for (int i = 0; i < 3; i++) {
            if (threads == 1) first[i] = grad[i];
            TS_EXPECT_EQUAL(grad[i], first[i]);
        }
    }
}

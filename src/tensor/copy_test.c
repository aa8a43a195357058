/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "kernels/convert.h"
#include "tensor/tensor.h"
#include "test.h"

static ts_tensor_options of(ts_dtype dtype)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = dtype;
    return opt;
}

/* Element (i, j) by its strides, as a double. */
static double at(const ts_tensor *t, int64_t i, int64_t j)
{
    double value;
    int64_t offset = i * ts_stride(t, 0) + j * ts_stride(t, 1);
    const char *element =
        (const char *)ts_data(t) + offset * (int64_t)ts_dtype_size(ts_tensor_dtype(t));
    ts_kernel_convert(TS_FLOAT64, ts_tensor_dtype(t))(&value, element, 1);
    return value;
}

/* rows x cols laid out in one of several ways over a larger zeroed tensor. */
static ts_tensor *laid_out(ts_dtype dtype, int64_t rows, int64_t cols, int way)
{
    ts_tensor_options opt = of(dtype);
    ts_tensor *all = ts_zeros(TS_SHAPE(2 * rows * cols + 8), &opt);
    const int64_t strides[][2] = {
        {cols, 1}, {1, rows}, {2 * cols, 2}, {2, 2 * rows}, {cols + 1, 1}};
    return ts_tensor_view(all, TS_SHAPE(rows, cols), strides[way], 3);
}

TS_TEST(copy_between_all_dtypes_and_layouts)
{
    enum { ROWS = 37, COLS = 41 };
    for (int d = 0; d <= TS_BOOL; d++)
        for (int s = 0; s <= TS_BOOL; s++)
            for (int way = 0; way < 25; way++) {
                ts_scope scope = ts_scope_begin();
                ts_tensor *from = laid_out((ts_dtype)s, ROWS, COLS, way % 5);
                ts_tensor *to = laid_out((ts_dtype)d, ROWS, COLS, way / 5);
                ts_tensor_options f64 = of(TS_FLOAT64);
                ts_tensor *numbers = ts_arange(0, ROWS * COLS, 1, &f64);
                for (int64_t i = 0; i < ROWS * COLS; i++)
                    ((double *)ts_data_mut(numbers))[i] = (double)(i % 113);
                const int64_t rm[] = {COLS, 1};
                TS_PASS(ts_tensor_copy_data(from,
                                            ts_tensor_view(numbers, TS_SHAPE(ROWS, COLS), rm, 0)));
                TS_PASS(ts_tensor_copy_data(to, from));
                for (int64_t i = 0; i < ROWS; i++)
                    for (int64_t j = 0; j < COLS; j++) {
                        double n = (double)((i * COLS + j) % 113);
                        if (s == TS_BOOL || d == TS_BOOL) n = n != 0;
                        TS_EXPECT_NEAR(at(to, i, j), n, 0);
                    }
                TS_PASS(ts_scope_end(scope));
            }
}

TS_TEST(copy_touches_only_the_elements_of_the_view)
{
    float all[24];
    ts_tensor *t = ts_zeros(TS_SHAPE(24), NULL);
    ts_tensor *view = ts_tensor_view(t, TS_SHAPE(3, 2), (int64_t[]){8, 3}, 1);
    TS_PASS(ts_tensor_copy_data(view, ts_ones(TS_SHAPE(3, 2), NULL)));
    TS_PASS(ts_copy_out(t, all, sizeof all));
    for (int i = 0; i < 24; i++) TS_EXPECT_NEAR(all[i], i % 8 == 1 || i % 8 == 4, 0);
    TS_PASS(ts_tensor_fill_data(view, 7));
    TS_PASS(ts_copy_out(t, all, sizeof all));
    for (int i = 0; i < 24; i++) TS_EXPECT_NEAR(all[i], 7 * (i % 8 == 1 || i % 8 == 4), 0);
}

TS_TEST(copy_of_overlapping_views_reads_before_it_writes)
{
    ts_tensor *t = ts_arange(0, 10, 1, NULL);
    const int64_t one[] = {1};
    TS_PASS(ts_tensor_copy_data(ts_tensor_view(t, TS_SHAPE(9), one, 1),
                                ts_tensor_view(t, TS_SHAPE(9), one, 0)));
    const float *value = ts_data(t);
    for (int i = 1; i < 10; i++) TS_EXPECT_NEAR(value[i], i - 1, 0);
    ts_tensor *square = ts_arange(0, 9, 1, NULL);
    ts_tensor *plain = ts_tensor_view(square, TS_SHAPE(3, 3), (int64_t[]){3, 1}, 0);
    TS_PASS(
        ts_tensor_copy_data(plain, ts_tensor_view(square, TS_SHAPE(3, 3), (int64_t[]){1, 3}, 0)));
    for (int i = 0; i < 9; i++) TS_EXPECT_NEAR(at(plain, i / 3, i % 3), i % 3 * 3 + i / 3, 0);
}

TS_TEST(copy_large_transposed_in_eight_dimensions)
{
    const int64_t size[8] = {2, 3, 1, 5, 2, 7, 3, 4}, reversed[8] = {4, 3, 7, 2, 5, 1, 3, 2};
    ts_shape shape = ts_shape_make(8, size);
    ts_tensor *from = ts_zeros(ts_shape_make(8, reversed), NULL);
    float *raw = ts_data_mut(from);
    for (int64_t i = 0; i < ts_numel(from); i++) raw[i] = (float)i;
    int64_t stride[8];
    for (int i = 0; i < 8; i++) stride[i] = ts_stride(from, 7 - i);
    ts_tensor *turned = ts_tensor_view(from, shape, stride, 0), *to = ts_zeros(shape, NULL);
    TS_PASS(ts_tensor_copy_data(to, turned));
    const float *value = ts_data(to);
    for (int64_t i = 0; i < ts_numel(to); i++) {
        int64_t rest = i, offset = 0;
        for (int d = 7; d >= 0; d--) {
            offset += rest % size[d] * stride[d];
            rest /= size[d];
        }
        TS_EXPECT_NEAR(value[i], (double)offset, 0);
    }
}

TS_TEST(copy_zero_elements_and_scalars)
{
    ts_tensor_options i32 = of(TS_INT32);
    TS_PASS(ts_tensor_copy_data(ts_zeros(TS_SHAPE(0, 3), NULL), ts_zeros(TS_SHAPE(0, 3), &i32)));
    ts_tensor *to = ts_scalar(0, NULL);
    TS_PASS(ts_tensor_copy_data(to, ts_scalar(-5, &i32)));
    double item;
    TS_PASS(ts_item(to, &item));
    TS_EXPECT_NEAR(item, -5, 0);
    TS_PASS(ts_copy_out(ts_zeros(TS_SHAPE(3, 0), NULL), NULL, 0));
    TS_PASS(ts_copy_in(ts_zeros(TS_SHAPE(3, 0), NULL), NULL, 0));
    TS_EXPECT(ts_data(ts_zeros(TS_SHAPE(0), NULL)) == NULL);
    TS_EXPECT_INT(ts_nbytes(ts_zeros(TS_SHAPE(0, 5), NULL)), 0);
    TS_EXPECT(ts_is_contiguous(ts_zeros(TS_SHAPE(0, 5), NULL)));
}

TS_TEST(copy_refuses_what_it_cannot_do)
{
    ts_tensor_options c64 = of(TS_COMPLEX64), meta = of(TS_FLOAT32);
    meta.device = TS_META;
    ts_tensor *two = ts_zeros(TS_SHAPE(2), NULL);
    TS_FAIL(ts_tensor_copy_data(two, ts_zeros(TS_SHAPE(2), &c64)), TS_EDTYPE, "complex64");
    TS_FAIL(ts_tensor_copy_data(two, ts_zeros(TS_SHAPE(3), NULL)), TS_ESHAPE, "(3,)");
    TS_FAIL(ts_tensor_copy_data(two, ts_empty(TS_SHAPE(2), &meta)), TS_EINVAL, "meta");
    TS_FAIL(ts_tensor_copy_data(two, NULL), TS_EINVAL, "source");
    TS_FAIL(ts_tensor_copy_data(ts_zeros(TS_SHAPE(-1), NULL), two), TS_ESHAPE, "(-1,)");
    TS_FAIL(ts_copy_out(two, &c64, 4), TS_ESHAPE, "4 bytes");
    TS_FAIL(ts_copy_in(two, NULL, 8), TS_EINVAL, "missing");
    float value = 1;
    ts_tensor *wide = ts_tensor_view(ts_zeros(TS_SHAPE(1), NULL), TS_SHAPE(4), (int64_t[]){0}, 0);
    float four[4] = {1, 1, 1, 1};
    TS_FAIL(ts_copy_in(wide, four, sizeof four), TS_ESTATE, "share memory");
    TS_PASS(ts_copy_out(wide, four, sizeof four));
    TS_EXPECT_NEAR(four[3], 0, 0);
    double item;
    TS_FAIL(ts_item(ts_zeros(TS_SHAPE(1), &c64), &item), TS_EDTYPE, "complex64");
    TS_FAIL(ts_item(ts_zeros(TS_SHAPE(1), NULL), NULL), TS_EINVAL, "missing");
    TS_FAIL(ts_item(ts_empty(TS_SHAPE(1), &meta), &item), TS_EINVAL, "meta");
    TS_PASS(ts_copy_in(ts_tensor_view(two, TS_SHAPE(1), (int64_t[]){1}, 1), &value, 4));
    TS_EXPECT_NEAR(((const float *)ts_data(two))[1], 1, 0);
}

TS_TEST(copy_complex_keeps_both_parts)
{
    ts_tensor_options opt = of(TS_COMPLEX128);
    const double numbers[] = {1, 2, 3, 4, 5, 6, 7, 8};
    double back[8];
    ts_tensor *t = ts_from_data(numbers, TS_SHAPE(2, 2), &opt);
    ts_tensor *turned = ts_tensor_view(t, TS_SHAPE(2, 2), (int64_t[]){1, 2}, 0);
    TS_PASS(ts_copy_out(turned, back, sizeof back));
    const double expected[] = {1, 2, 5, 6, 3, 4, 7, 8};
    TS_EXPECT(memcmp(back, expected, sizeof back) == 0);
    TS_PASS(ts_copy_out(ts_ones(TS_SHAPE(1), &opt), back, 16));
    TS_EXPECT(back[0] == 1 && back[1] == 0);
}

TS_TEST(copy_to_and_from_places_that_are_not_aligned)
{
    static const ts_dtype dtypes[] = {TS_FLOAT32, TS_BFLOAT16, TS_INT64, TS_COMPLEX128};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        ts_tensor_options opt = of(dtypes[d]);
        size_t bytes = 12 * ts_dtype_size(dtypes[d]);
        _Alignas(16) char given[12 * 16 + 1], taken[12 * 16 + 1] = {0};
        for (size_t i = 0; i < sizeof given; i++) given[i] = (char)i;
        for (int turned = 0; turned < 2; turned++) {
            const int64_t rows[] = {4, 1}, columns[] = {1, 3};
            ts_tensor *t = ts_tensor_view(ts_zeros(TS_SHAPE(12), &opt), TS_SHAPE(3, 4),
                                          turned ? columns : rows, 0);
            TS_PASS(ts_copy_in(t, given + 1, bytes));
            TS_PASS(ts_copy_out(t, taken + 1, bytes));
            TS_EXPECT(memcmp(given + 1, taken + 1, bytes) == 0);
            TS_EXPECT_INT(taken[0], 0);
        }
    }
}

TS_TEST(overlap_of_views_is_found)
{
    ts_tensor *t = ts_zeros(TS_SHAPE(100), NULL);
    static const struct {
        int ndim;
        int64_t size[3], stride[3];
        bool overlaps;
    } known[] = {
        {2, {3, 4}, {4, 1}, false}, {2, {3, 4}, {3, 1}, true},
        {2, {4, 3}, {1, 4}, false}, {1, {5}, {0}, true},
        {1, {1}, {0}, false},       {2, {5, 1}, {1, 0}, false},
        {2, {3, 3}, {2, 1}, true},  {3, {2, 3, 4}, {1, 8, 2}, false},
        {2, {0, 3}, {0, 0}, false},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        ts_shape shape = ts_shape_make(known[i].ndim, known[i].size);
        ts_tensor *view = ts_tensor_view(t, shape, known[i].stride, 0);
        TS_EXPECT_INT(ts_tensor_overlaps(view), known[i].overlaps);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/tensor.h"

#include "test.h"

TS_TEST(tensor_factories_make_values)
{
    double values[6];
    ts_tensor *t = ts_full(TS_SHAPE(2, 3), 1.5, NULL);
    TS_GOOD(t);
    TS_EXPECT_INT(ts_numel(t), 6);
    TS_EXPECT_INT(ts_stride(t, 0), 3);
    float raw[6];
    TS_PASS(ts_copy_out(t, raw, sizeof raw));
    for (int i = 0; i < 6; i++) TS_EXPECT_NEAR(raw[i], 1.5, 0);
    ts_tensor_options f64 = TS_TENSOR_OPTIONS_INIT;
    f64.dtype = TS_FLOAT64;
    TS_PASS(ts_copy_out(ts_arange(0, 3, 0.5, &f64), values, sizeof values));
    for (int i = 0; i < 6; i++) TS_EXPECT_NEAR(values[i], 0.5 * i, 0);
    double eye[9];
    TS_PASS(ts_copy_out(ts_eye(3, &f64), eye, sizeof eye));
    for (int i = 0; i < 9; i++) TS_EXPECT_NEAR(eye[i], i % 4 == 0, 0);
    double item;
    TS_PASS(ts_item(ts_scalar(-2, NULL), &item));
    TS_EXPECT_NEAR(item, -2, 0);
}

TS_TEST(tensor_copy_data_converts_and_transposes)
{
    ts_tensor_options i64 = TS_TENSOR_OPTIONS_INIT;
    i64.dtype = TS_INT64;
    ts_tensor *from = ts_from_data((const int64_t[]){1, 2, 3, 4, 5, 6}, TS_SHAPE(2, 3), &i64);
    ts_tensor *turned = ts_tensor_view(from, TS_SHAPE(3, 2), (const int64_t[]){1, 3}, 0);
    TS_EXPECT(!ts_is_contiguous(turned));
    ts_tensor *to = ts_zeros(TS_SHAPE(3, 2), NULL);
    TS_PASS(ts_tensor_copy_data(to, turned));
    const float expected[] = {1, 4, 2, 5, 3, 6};
    for (int i = 0; i < 6; i++) TS_EXPECT_NEAR(((const float *)ts_data(to))[i], expected[i], 0);
}

TS_TEST(tensor_wrong_shapes_fail_in_the_value)
{
    TS_BAD(ts_zeros(TS_SHAPE(2, -1), NULL), TS_ESHAPE, "(2, -1)");
    TS_BAD(ts_empty(TS_SHAPE(INT64_C(1) << 40, INT64_C(1) << 40), NULL), TS_ESHAPE, "too large");
    TS_BAD(ts_empty(TS_SHAPE(INT64_C(1) << 61, 2), NULL), TS_ESHAPE, "too large");
    TS_BAD(ts_empty(TS_SHAPE(0, INT64_C(1) << 40, INT64_C(1) << 40), NULL), TS_ESHAPE, "large");
    TS_BAD(ts_zeros(TS_SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 1), NULL), TS_ESHAPE, "more than 8");
    TS_BAD(ts_empty(TS_SHAPE(INT64_C(1) << 50), NULL), TS_ENOMEM, "bytes");
    double item;
    TS_FAIL(ts_item(NULL, &item), TS_EINVAL, "item");
    TS_FAIL(ts_item(ts_zeros(TS_SHAPE(2), NULL), &item), TS_ESHAPE, "not one");
}

TS_TEST(element_sizes_agree_with_the_dtype_table)
{
    for (unsigned d = 0; d < TS_NUM_DTYPES; d++)
        TS_EXPECT_INT(ts_element_size(d), ts_dtype_size((ts_dtype)d));
}

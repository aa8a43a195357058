/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "tensor/tensor.h"
#include "test.h"

static bool prints(ts_test *test, const ts_tensor *t, const char *expected)
{
    char *text = ts_tensor_to_string(t);
    bool equal = text && strcmp(text, expected) == 0;
    if (!equal) ts_test_fail(test, __FILE__, __LINE__, "printed %s\nexpected %s", text, expected);
    free(text);
    return equal;
}

static ts_tensor *numbers(int n, const double *values, ts_shape shape, ts_dtype dtype)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_FLOAT64;
    ts_tensor *wide = ts_from_data(values, shape, &opt);
    opt.dtype = dtype;
    ts_tensor *t = ts_empty(shape, &opt);
    ts_tensor_copy_data(t, wide);
    return n == ts_numel(t) ? t : NULL;
}

TS_TEST(print_nests_brackets)
{
    const double v[] = {1, 2, 3, 4, 5, 6, 7, 8};
    prints(test, numbers(4, v, TS_SHAPE(2, 2), TS_FLOAT32),
           "tensor([[1., 2.],\n        [3., 4.]], shape=(2, 2), dtype=float32)");
    prints(test, numbers(8, v, TS_SHAPE(2, 2, 2), TS_INT64),
           "tensor([[[1, 2],\n         [3, 4]],\n\n        [[5, 6],\n         [7, 8]]], "
           "shape=(2, 2, 2), dtype=int64)");
    prints(test, numbers(1, v, ts_shape_scalar(), TS_FLOAT32),
           "tensor(1., shape=(), dtype=float32)");
    prints(test, ts_zeros(TS_SHAPE(0, 3), NULL), "tensor([], shape=(0, 3), dtype=float32)");
}

TS_TEST(print_uses_one_format_for_all_numbers)
{
    const double v[] = {1, -2.5, 100, 0};
    prints(test, numbers(4, v, TS_SHAPE(4), TS_FLOAT32),
           "tensor([  1.0000,  -2.5000, 100.0000,   0.0000], shape=(4,), dtype=float32)");
    const double wide[] = {1e-6, 1, 12345.678, INFINITY};
    prints(test, numbers(4, wide, TS_SHAPE(4), TS_FLOAT64),
           "tensor([1.0000e-06, 1.0000e+00, 1.2346e+04,        inf], shape=(4,), dtype=float64)");
    const double odd[] = {NAN, -INFINITY, 3, -4};
    prints(test, numbers(4, odd, TS_SHAPE(4), TS_BFLOAT16),
           "tensor([ nan, -inf,   3.,  -4.], shape=(4,), dtype=bfloat16)");
    prints(test, numbers(2, v, TS_SHAPE(2), TS_BOOL),
           "tensor([true, true], shape=(2,), dtype=bool)");
    ts_tensor_options c = TS_TENSOR_OPTIONS_INIT;
    c.dtype = TS_COMPLEX64;
    prints(test, ts_from_data((const float[]){1, -2}, TS_SHAPE(1), &c),
           "tensor([1-2j], shape=(1,), dtype=complex64)");
}

TS_TEST(print_shortens_large_tensors)
{
    prints(test, ts_arange(0, 1001, 1, NULL),
           "tensor([   0.,    1.,    2., ...,  998.,  999., 1000.], shape=(1001,), dtype=float32)");
    ts_tensor *t = ts_zeros(TS_SHAPE(500, 7), NULL);
    prints(test, t,
           "tensor([[0., 0., 0., ..., 0., 0., 0.],\n        [0., 0., 0., ..., 0., 0., 0.],\n"
           "        [0., 0., 0., ..., 0., 0., 0.],\n        ...,\n"
           "        [0., 0., 0., ..., 0., 0., 0.],\n        [0., 0., 0., ..., 0., 0., 0.],\n"
           "        [0., 0., 0., ..., 0., 0., 0.]], shape=(500, 7), dtype=float32)");
}

TS_TEST(print_tells_what_is_special)
{
    prints(test, NULL, "none");
    prints(test, ts_fail_tensor(TS_ESHAPE, "matmul: too wide"),
           "failed tensor (TS_ESHAPE): matmul: too wide");
    ts_tensor_options meta = TS_TENSOR_OPTIONS_INIT;
    meta.device = TS_META;
    prints(test, ts_empty(TS_SHAPE(2), &meta),
           "tensor(..., shape=(2,), dtype=float32, device=meta)");
    ts_tensor *turned =
        ts_tensor_view(ts_arange(0, 4, 1, NULL), TS_SHAPE(2, 2), (int64_t[]){1, 2}, 0);
    prints(test, turned, "tensor([[0., 2.],\n        [1., 3.]], shape=(2, 2), dtype=float32)");
}

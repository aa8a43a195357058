/* SPDX-License-Identifier: Apache-2.0 */
/* Selecting, adding and sorting where it is delicate: ranges, nothing, repeated indices. */
#include <math.h>
#include <tessera/tessera.h>

#include "test.h"

static ts_tensor *whole(const int64_t *x, ts_shape shape)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_INT64;
    return ts_from_data(x, shape, &opt);
}

TS_TEST(indices_out_of_range_are_named)
{
    ts_tensor *a = ts_ones(TS_SHAPE(3, 4), NULL);
    ts_tensor *far = whole((const int64_t[]){0, 4}, TS_SHAPE(2)),
              *below = whole((const int64_t[]){-1}, TS_SHAPE(1));
    TS_BAD(ts_index_select(a, 1, far), TS_EINVAL, "index 4 is out of range for dim 1 of size 4");
    TS_BAD(ts_index_select(a, 0, below), TS_EINVAL, "index -1 is out of range for dim 0 of size 3");
    TS_BAD(ts_index_add(a, 0, far, ts_ones(TS_SHAPE(2, 4), NULL)), TS_EINVAL, "index 4");
    TS_BAD(ts_gather_dim(a, 1, ts_unsqueeze(far, 0)), TS_EINVAL, "index 4");
    TS_BAD(ts_scatter_add(a, 1, ts_unsqueeze(far, 0), a), TS_EINVAL, "index 4");
    TS_BAD(ts_index(a, 1, &far, 1), TS_EINVAL, "index 4");
    TS_EXPECT_ALL(ts_index(a, 1, &below, 1), 1.0);
    TS_BAD(ts_one_hot(far, 4), TS_EINVAL, "class 4 is not in 0 .. 3");
    TS_BAD(ts_index_select(a, 0, a), TS_EDTYPE, "index is float32; needs int64");
    TS_BAD(ts_index_select(a, 2, below), TS_ESHAPE, "dim 2");
    TS_BAD(ts_gather_dim(a, 0, ts_view(far, TS_SHAPE(1, 2, 1))), TS_ESHAPE, "does not lie within");
    TS_BAD(ts_topk(a, 5, 1, true, NULL), TS_ESHAPE, "5 of 4 elements");
    TS_BAD(ts_pad(a, (const int64_t[]){-2, -2}, 1, 0), TS_ESHAPE, "pad");
    TS_BAD(ts_tril(far, 0), TS_ESHAPE, "tril");
    TS_BAD(ts_stack((ts_tensor *[]){a, far}, 2, 0), TS_ESHAPE, "stack: input 1");
}

TS_TEST(selections_of_nothing)
{
    ts_tensor *a = ts_ones(TS_SHAPE(3, 0), NULL), *none = whole(NULL, TS_SHAPE(0));
    TS_EXPECT_INT(ts_numel(ts_index_select(a, 0, whole((const int64_t[]){2}, TS_SHAPE(1)))), 0);
    TS_EXPECT_INT(ts_numel(ts_index_select(ts_ones(TS_SHAPE(3, 2), NULL), 0, none)), 0);
    TS_EXPECT_ALL(ts_index_add(ts_ones(TS_SHAPE(2), NULL), 0, none, ts_ones(TS_SHAPE(0), NULL)),
                  1.0);
    TS_EXPECT_INT(ts_numel(ts_sort(a, 1, false, NULL)), 0);
    TS_EXPECT_INT(ts_numel(ts_flip(a, (const int[]){0, 1}, 2)), 0);
    TS_EXPECT_INT(ts_numel(ts_roll(a, 3, 1)), 0);
    TS_EXPECT_ALL(ts_sort(ts_scalar(4, NULL), 0, true, NULL), 4.0);
    TS_EXPECT_INT(ts_numel(ts_repeat(ts_ones(TS_SHAPE(2), NULL), TS_SHAPE(3, 0))), 0);
}

TS_TEST(repeated_indices_add_up_in_float32)
{
    enum { N = 1000 };
    int64_t zero[N] = {0};
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_BFLOAT16;
    ts_tensor *a = ts_zeros(TS_SHAPE(1), &opt), *index = whole(zero, TS_SHAPE(N));
    TS_EXPECT_ALL(ts_index_add(a, 0, index, ts_ones(TS_SHAPE(N), &opt)), 1000.0);
    TS_EXPECT_ALL(ts_scatter_add(a, 0, index, ts_ones(TS_SHAPE(N), &opt)), 1000.0);
}

TS_TEST(sorting_is_stable_and_puts_nan_last)
{
    enum { N = 1000 };
    float x[N];
    for (int i = 0; i < N; i++) x[i] = (float)(i * 7919 % 10);
    x[500] = NAN;
    ts_tensor *t = ts_from_data(x, TS_SHAPE(N), NULL), *place;
    for (int down = 0; down < 2; down++) {
        ts_tensor *y = ts_sort(t, 0, down, &place);
        const float *v = ts_data(y);
        const int64_t *at = ts_data(place);
        TS_EXPECT(isnan(v[down ? 0 : N - 1]));
        for (int i = 1 + down; i < N - 1 + down; i++) {
            TS_EXPECT(v[i] == x[at[i]]);
            bool ordered = v[i - 1] == v[i] ? at[i - 1] < at[i] : (v[i - 1] < v[i]) != down;
            if (i > down + 0 && !isnan(v[i - 1]) && !ordered)
                TS_FAIL_TEST("down %d: element %d is out of order", down, i);
        }
    }
    TS_EXPECT_INT(ts_numel(ts_topk(t, 3, 0, false, &place)), 3);
    TS_EXPECT_VALUES(place, 0, 0, 10, 20);
}

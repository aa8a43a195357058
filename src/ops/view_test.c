/* SPDX-License-Identifier: Apache-2.0 */
/* Values and errors of views, parts and joins. */
#include <tessera/tessera.h>

#include "test.h"

static ts_tensor *grid(void) { return ts_view(ts_arange(0, 6, 1, NULL), TS_SHAPE(2, 3)); }

TS_TEST(views_share_storage)
{
    ts_tensor *a = grid();
    ts_tensor *views[] = {ts_view(a, TS_SHAPE(3, -1)),
                          ts_transpose(a, -1, 0),
                          ts_select(a, 1, 2),
                          ts_narrow(a, 0, 1, 1),
                          ts_unsqueeze(a, -1),
                          ts_flatten(a, 0, 1),
                          ts_expand(ts_select(a, 0, 0), TS_SHAPE(4, -1))};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        TS_GOOD(views[i]);
        TS_EXPECT(ts_same_storage(views[i], a));
    }
    TS_EXPECT_VALUES(views[0], 0, 0, 1, 2, 3, 4, 5);
    TS_EXPECT_VALUES(views[1], 0, 0, 3, 1, 4, 2, 5);
    TS_EXPECT_VALUES(views[2], 0, 2, 5);
    TS_EXPECT_VALUES(views[3], 0, 3, 4, 5);
    TS_EXPECT_INT(ts_size(views[4], 2), 1);
    TS_EXPECT_VALUES(ts_select(views[6], 0, 3), 0, 0, 1, 2);
    ts_fill_(views[2], 9);
    TS_EXPECT_VALUES(a, 0, 0, 1, 9, 3, 4, 9);
}

TS_TEST(views_of_strided_tensors)
{
    ts_tensor *t = ts_transpose(ts_view(ts_arange(0, 24, 1, NULL), TS_SHAPE(2, 3, 4)), 0, 1);
    TS_EXPECT(ts_same_storage(ts_view(t, TS_SHAPE(3, 2, 2, 2)), t)); /* splits are possible */
    TS_EXPECT(ts_same_storage(ts_view(t, TS_SHAPE(3, 1, 2, 4, 1)), t));
    TS_BAD(ts_view(t, TS_SHAPE(6, 4)), TS_ESHAPE, "ts_reshape");
    ts_tensor *copy = ts_reshape(t, TS_SHAPE(6, 4));
    TS_EXPECT(!ts_same_storage(copy, t));
    TS_EXPECT_VALUES(ts_select(copy, 0, 1), 0, 12, 13, 14, 15);
    TS_EXPECT_VALUES(ts_select(ts_select(ts_view(t, TS_SHAPE(3, 2, 2, 2)), 0, 2), 0, 1), 0, 20, 21,
                     22, 23);
    TS_EXPECT(ts_contiguous(copy) == copy && ts_is_contiguous(ts_contiguous(t)));
}

TS_TEST(wrong_views_say_why)
{
    ts_tensor *a = grid();
    TS_BAD(ts_view(a, TS_SHAPE(4, 2)), TS_ESHAPE,
           "shape (4, 2) does not fit the 6 elements of shape (2, 3)");
    TS_BAD(ts_view(a, TS_SHAPE(-1, -1)), TS_ESHAPE, "only one size");
    TS_BAD(ts_view(a, TS_SHAPE(-1, 4)), TS_ESHAPE, "(-1, 4)");
    TS_BAD(ts_view(a, TS_SHAPE(0, -1)), TS_ESHAPE, "(0, -1)");
    TS_BAD(ts_transpose(a, 0, 2), TS_ESHAPE, "transpose: dim 2");
    TS_BAD(ts_permute(a, (const int[]){0, 0}, 2), TS_ESHAPE, "twice");
    TS_BAD(ts_permute(a, (const int[]){0}, 1), TS_ESHAPE, "permute");
    TS_BAD(ts_expand(a, TS_SHAPE(3, 3)), TS_ESHAPE, "(2, 3) cannot be expanded to (3, 3)");
    TS_BAD(ts_expand(a, TS_SHAPE(3)), TS_ESHAPE, "expand");
    TS_BAD(ts_narrow(a, 1, 2, 2), TS_ESHAPE, "size 3 of dim 1");
    TS_BAD(ts_select(a, 0, 2), TS_ESHAPE, "index 2");
    TS_BAD(ts_select(ts_scalar(1, NULL), 0, 0), TS_ESHAPE, "0-dim");
    TS_BAD(ts_slice(a, 0, 0, 2, 0), TS_EINVAL, "step");
    TS_BAD(ts_view(NULL, TS_SHAPE(1)), TS_EINVAL, "missing");
    TS_BAD(ts_view(a, ts_shape_make(9, (const int64_t[9]){1, 1, 1, 1, 1, 1, 1, 1, 6})), TS_ESHAPE,
           "8");
}

TS_TEST(slices_follow_python)
{
    ts_tensor *a = ts_arange(0, 7, 1, NULL);
    TS_EXPECT_VALUES(ts_slice(a, 0, 1, 100, 2), 0, 1, 3, 5);
    TS_EXPECT_VALUES(ts_slice(a, 0, -3, -1, 1), 0, 4, 5);
    TS_EXPECT_INT(ts_numel(ts_slice(a, 0, 5, 2, 1)), 0);
    TS_EXPECT_INT(ts_numel(ts_slice(a, 0, 100, 200, 1)), 0);
    TS_EXPECT_VALUES(ts_narrow(a, 0, -2, 2), 0, 5, 6);
}

TS_TEST(chunks_follow_pytorch)
{
    ts_tensor *a = ts_arange(0, 5, 1, NULL), *out[8];
    TS_EXPECT_INT(ts_chunk(out, a, 2, 0), 2);
    TS_EXPECT_VALUES(out[0], 0, 0, 1, 2);
    TS_EXPECT_VALUES(out[1], 0, 3, 4);
    TS_EXPECT_INT(ts_chunk(out, a, 4, -1), 3); /* pieces of 2 */
    TS_EXPECT(!out[3]);
    TS_EXPECT_VALUES(out[2], 0, 4);
    TS_EXPECT_INT(ts_chunk(out, a, 8, 0), 5);
    TS_EXPECT_INT(ts_chunk(out, ts_zeros(TS_SHAPE(2, 0), NULL), 3, 1), 3);
    TS_EXPECT_INT(ts_numel(out[2]), 0);
    TS_EXPECT_INT(ts_chunk(out, a, 2, 1), 2);
    TS_BAD(out[0], TS_ESHAPE, "chunk: dim 1");
    TS_BAD(out[1], TS_ESHAPE, "chunk: dim 1");
    TS_EXPECT_INT(ts_split(out, a, (const int64_t[]){1, 3}, 2, 0), 2);
    TS_BAD(out[1], TS_ESHAPE, "add up to 4");
    ts_split(out, a, NULL, 2, 0);
    TS_BAD(out[0], TS_EINVAL, "sizes are missing");
    ts_split(out, a, (const int64_t[]){1, 9}, 2, 0);
    TS_BAD(out[0], TS_ESHAPE, "piece 1 of size 9");
    ts_split(out, a, (const int64_t[]){1, 0, 2, 2}, 4, 0);
    TS_EXPECT_VALUES(out[2], 0, 1, 2);
}

TS_TEST(joins)
{
    ts_tensor *a = grid(), *none = ts_zeros(TS_SHAPE(0), NULL);
    TS_EXPECT_VALUES(ts_cat((ts_tensor *const[]){a, none, ts_narrow(a, 0, 1, 1)}, 3, 0), 0, 0, 1, 2,
                     3, 4, 5, 3, 4, 5);
    TS_EXPECT_VALUES(
        ts_cat((ts_tensor *const[]){ts_transpose(a, 0, 1), ts_ones(TS_SHAPE(3, 1), NULL)}, 2, -1),
        0, 0, 3, 1, 1, 4, 1, 2, 5, 1);
    TS_EXPECT_VALUES(ts_cat((ts_tensor *const[]){a, ts_zeros(TS_SHAPE(2, 0), NULL)}, 2, 1), 0, 0, 1,
                     2, 3, 4, 5);
    TS_EXPECT_INT(ts_numel(ts_cat((ts_tensor *const[]){none, none}, 2, 0)), 0);
    TS_BAD(ts_cat((ts_tensor *const[]){a, ts_ones(TS_SHAPE(2, 2), NULL)}, 2, 0), TS_ESHAPE,
           "(2, 2) does not match");
    TS_BAD(ts_cat((ts_tensor *const[]){a, ts_to_dtype(a, TS_INT64)}, 2, 0), TS_EDTYPE, "int64");
    TS_BAD(ts_cat((ts_tensor *const[]){ts_scalar(1, NULL)}, 1, 0), TS_ESHAPE, "0-dim");
    TS_BAD(ts_cat((ts_tensor *const[]){a, NULL}, 2, 0), TS_EINVAL, "input 1");
    TS_BAD(ts_cat(NULL, 0, 0), TS_EINVAL, "at least one");
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "dist/common/bucket.h"
#include "test.h"

/* "0 2|1 3|4" into text, which holds 256 bytes. */
static void plan_text(char *text, const ts_bucket_plan *plan)
{
    int at = 0;
    text[0] = '\0';
    for (int b = 0; b < plan->num_buckets; b++)
        for (int i = plan->start[b]; i < plan->start[b + 1]; i++)
            at += snprintf(text + at, 256 - (size_t)at, "%s%d",
                           i > plan->start[b] ? " "
                           : b                ? "|"
                                              : "",
                           plan->index[i]);
}

static ts_tensor *sized(int64_t numel, ts_dtype dtype)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = dtype;
    return ts_zeros(TS_SHAPE(numel), &opt);
}

TS_TEST(bucket_closes_when_the_cap_is_reached)
{
    ts_tensor *t[] = {sized(100, TS_FLOAT32), sized(200, TS_FLOAT32), sized(100, TS_FLOAT32),
                      sized(50, TS_FLOAT32)};
    const int order[] = {0, 1, 2, 3};
    const int64_t caps[] = {400};
    ts_bucket_plan plan;
    char text[256];
    TS_PASS(ts_bucket_plan_make(&plan, t, order, 4, caps, 1));
    plan_text(text, &plan);
    TS_EXPECT_STR(text, "0|1|2|3");
    ts_bucket_plan_fini(&plan);
}

TS_TEST(bucket_keeps_dtypes_apart)
{
    ts_tensor *t[6];
    const int order[] = {0, 1, 2, 3, 4, 5};
    const int64_t caps[] = {200, 400};
    ts_bucket_plan plan;
    char text[256];
    for (int i = 0; i < 6; i++) t[i] = i % 2 ? sized(25, TS_FLOAT64) : sized(50, TS_FLOAT32);
    TS_PASS(ts_bucket_plan_make(&plan, t, order, 6, caps + 1, 1));
    plan_text(text, &plan);
    TS_EXPECT_STR(text, "0 2|1 3|4|5");
    ts_bucket_plan_fini(&plan);
    TS_PASS(ts_bucket_plan_make(&plan, t, order, 6, caps, 2));
    plan_text(text, &plan);
    TS_EXPECT_STR(text, "0|1|2 4|3 5");
    ts_bucket_plan_fini(&plan);
}

TS_TEST(bucket_follows_the_given_order)
{
    ts_tensor *t[] = {sized(10, TS_FLOAT32), sized(10, TS_FLOAT32), sized(10, TS_FLOAT32),
                      sized(10, TS_FLOAT32)};
    const int order[] = {3, 2, 1, 0};
    const int64_t caps[] = {40, 80};
    ts_bucket_plan plan;
    char text[256];
    TS_PASS(ts_bucket_plan_make(&plan, t, order, 4, caps, 2));
    plan_text(text, &plan);
    TS_EXPECT_STR(text, "3|2 1|0");
    ts_bucket_plan_fini(&plan);
}

TS_TEST(flat_views_lie_back_to_back)
{
    ts_tensor *t[] = {ts_zeros(TS_SHAPE(2, 3), NULL), ts_zeros(TS_SHAPE(0), NULL),
                      ts_scalar(1, NULL), ts_zeros(TS_SHAPE(5), NULL)};
    const int index[] = {3, 1, 2, 0};
    ts_flat flat;
    TS_PASS(ts_flat_make(&flat, t, index, 4, TS_MEMORY_SHARED, TS_CATEGORY_GRADIENT));
    TS_EXPECT_INT(ts_numel(flat.buffer), 12);
    TS_EXPECT_ALL(flat.buffer, 0.0);
    TS_EXPECT_INT(ts_storage_offset(flat.view[3]), 6);
    TS_EXPECT_INT(ts_ndim(flat.view[2]), 0);
    TS_EXPECT_INT(ts_size(flat.view[3], 1), 3);
    TS_EXPECT(ts_same_storage(flat.view[0], flat.buffer));
    ts_flat_fini(&flat);
}

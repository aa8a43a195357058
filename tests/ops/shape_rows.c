/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"

#define ROW(name, expression)                                                                      \
    static ts_tensor *f_##name(ts_tensor *const *in)                                               \
    {                                                                                              \
        ts_tensor *a = in[0], *b = in[1], *c = in[2];                                              \
        (void)b, (void)c;                                                                          \
        return expression;                                                                         \
    }
#define ROWS(X)                                                                                    \
    X(view, ts_view(ts_contiguous(a), TS_SHAPE(6, 4)))                                             \
    X(reshape, ts_reshape(ts_transpose(a, 0, 2), TS_SHAPE(-1, 2)))                                 \
    X(permute, ts_permute(a, (const int[]){2, 0, 1}, 3))                                           \
    X(expand, ts_expand(ts_unsqueeze(a, 1), TS_SHAPE(2, 3, -1, -1)))                               \
    X(narrow, ts_narrow(a, 1, 1, 2))                                                               \
    X(slice, ts_slice(a, -1, 1, 4, 2))                                                             \
    X(select, ts_select(a, 1, -1))                                                                 \
    X(cat, ts_cat((ts_tensor *[]){a, b, a}, 3, 1))                                                 \
    X(stack, ts_stack((ts_tensor *[]){a, b}, 2, -1))                                               \
    X(flip, ts_flip(a, (const int[]){0, -1}, 2))                                                   \
    X(roll, ts_roll(a, -5, 1))                                                                     \
    X(repeat, ts_repeat(a, TS_SHAPE(2, 1, 3, 2)))                                                  \
    X(tril, ts_tril(a, 1))                                                                         \
    X(triu, ts_triu(a, -1))                                                                        \
    X(masked_fill, ts_masked_fill(a, b, 3))                                                        \
    X(pad, ts_pad(a, (const int64_t[]){1, 0, -1, 2, 0, 1}, 3, 1))                                  \
    X(sort, ts_sort(a, 1, false, NULL))                                                            \
    X(sort_down, ts_sort(a, -1, true, NULL))                                                       \
    X(topk, ts_topk(a, 2, -1, true, NULL))                                                         \
    X(index_select, ts_index_select(a, 1, b))                                                      \
    X(index_add, ts_index_add(a, 1, b, c))                                                         \
    X(gather, ts_gather_dim(a, 2, b))                                                              \
    X(scatter_add, ts_scatter_add(a, 1, b, c))                                                     \
    X(index, ts_index(a, 1, (ts_tensor *[]){b, c}, 2))                                             \
    X(one_hot, ts_one_hot(a, 5))
ROWS(ROW)
static ts_tensor *f_argsort(ts_tensor *const *in)
{
    ts_tensor *place;
    ts_sort(in[0], 1, true, &place);
    return place;
}

/* clang-format off */
#define BLOCK {{3, {2, 3, 4}}, -2, 2, TS_ROLE_VALUE}
#define MASK {{2, {3, 4}}, 0, 1, TS_ROLE_MASK}
#define INDEX(limit, ...) {TS_SHAPE_OF(__VA_ARGS__), 0, limit, TS_ROLE_INDEX}
#define TS_SHAPE_OF(...) {sizeof((int[]){__VA_ARGS__}) / sizeof(int), {__VA_ARGS__}}
/* clang-format on */
enum { ALL = TS_ON_REAL | TS_ON_INTS | TS_ON_BOOL | TS_FIRST_ONLY };
#define R(name, ...)                                                                               \
    {                                                                                              \
#name, f_##name, NULL, ALL, { __VA_ARGS__ }                                                \
    }

const ts_case ts_cases_shape[] = {
    R(view, BLOCK),
    R(reshape, BLOCK),
    R(permute, BLOCK),
    R(expand, BLOCK),
    R(narrow, BLOCK),
    R(slice, BLOCK),
    R(select, BLOCK),
    R(cat, BLOCK, BLOCK),
    R(stack, BLOCK, BLOCK),
    R(flip, BLOCK),
    R(roll, BLOCK),
    R(repeat, BLOCK),
    R(tril, BLOCK),
    R(triu, BLOCK),
    R(masked_fill, BLOCK, MASK),
    R(pad, BLOCK),
    R(sort, BLOCK),
    R(sort_down, BLOCK),
    {"topk", f_topk, NULL, TS_ON_REAL | TS_ON_INTS | TS_FIRST_ONLY, {BLOCK}},
    {"argsort", f_argsort, NULL, TS_ON_REAL | TS_ON_INTS | TS_NO_GRADIENT, {BLOCK}},
    R(index_select, BLOCK, INDEX(3, 5)),
    {"index_add",
     f_index_add,
     NULL,
     TS_ON_REAL | TS_ON_INTS | TS_FIRST_ONLY,
     {BLOCK, INDEX(3, 5), {{3, {2, 5, 4}}, -2, 2, TS_ROLE_VALUE}}},
    R(gather, BLOCK, INDEX(4, 2, 2, 6)),
    {"scatter_add",
     f_scatter_add,
     NULL,
     TS_ON_REAL | TS_ON_INTS | TS_FIRST_ONLY,
     {BLOCK, INDEX(3, 2, 5, 4), {{3, {2, 5, 4}}, -2, 2, TS_ROLE_VALUE}}},
    R(index, BLOCK, INDEX(3, 5, 1), INDEX(4, 2)),
    {"one_hot", f_one_hot, NULL, TS_ON_FLOATS | TS_NO_GRADIENT, {INDEX(5, 2, 3)}},
    {.name = NULL},
};

/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"

#define ROW(name, expression)                                                                      \
    static ts_tensor *f_##name(ts_tensor *const *in)                                               \
    {                                                                                              \
        ts_tensor *a = in[0], *b = in[1], *c = in[2], *d = in[3];                                  \
        (void)b, (void)c, (void)d;                                                                 \
        return expression;                                                                         \
    }
#define ROWS(X)                                                                                    \
    X(softmax, ts_softmax(a, -1))                                                                  \
    X(softmax_middle, ts_softmax(a, 1))                                                            \
    X(log_softmax, ts_log_softmax(a, -1))                                                          \
    X(log_softmax_first, ts_log_softmax(a, 0))                                                     \
    X(layer_norm, ts_layer_norm(a, TS_SHAPE(4), b, c, 1e-3))                                       \
    X(rms_norm, ts_rms_norm(a, TS_SHAPE(4), b, 1e-3))                                              \
    X(rms_norm_plain, ts_rms_norm(a, TS_SHAPE(4), NULL, 1e-3))                                     \
    X(group_norm, ts_group_norm(a, 2, b, c, 1e-3))                                                 \
    X(group_norm_plain, ts_group_norm(a, 1, NULL, NULL, 1e-3))                                     \
    X(batch_norm, ts_batch_norm(a, NULL, NULL, b, c, true, 0.1, 1e-3))                             \
    X(batch_norm_flat, ts_batch_norm(a, NULL, NULL, b, NULL, true, 0.1, 1e-3))                     \
    X(batch_norm_eval, ts_batch_norm(a, b, c, d, NULL, false, 0.1, 1e-3))                          \
    X(conv2d, ts_conv2d(a, b, c, NULL))                                                            \
    X(conv2d_strided, ts_conv2d(a, b, c, &(ts_conv_options)STRIDED))                               \
    X(conv2d_groups, ts_conv2d(a, b, NULL, &(ts_conv_options)GROUPED))                             \
    X(conv2d_depthwise, ts_conv2d(a, b, c, &(ts_conv_options)DEPTHWISE))                           \
    X(conv2d_point, ts_conv2d(a, b, c, NULL))                                                      \
    X(conv1d, ts_conv1d(a, b, c, &(ts_conv_options)LINE))                                          \
    X(max_pool2d,                                                                                  \
      ts_max_pool2d(a, (ts_pool_window){.kernel = {3, 2}, .stride = {2, 1}, .padding = {1}}))      \
    X(max_pool1d, ts_max_pool1d(a, (ts_pool_window){.kernel = {2}}))                               \
    X(avg_pool2d,                                                                                  \
      ts_avg_pool2d(a, (ts_pool_window){.kernel = {3, 2}, .stride = {2, 1}, .padding = {1}}))      \
    X(avg_pool1d, ts_avg_pool1d(a, (ts_pool_window){{3}, {2}, {1}, true}))                         \
    X(adaptive_avg_pool2d, ts_adaptive_avg_pool2d(a, 3, 2))                                        \
    X(adaptive_avg_pool1d, ts_adaptive_avg_pool1d(a, 3))
#define STRIDED                                                                                    \
    {                                                                                              \
        sizeof(ts_conv_options), {2, 1}, {1, 2}, {1, 2}, 1                                         \
    }
#define GROUPED                                                                                    \
    {                                                                                              \
        sizeof(ts_conv_options), {1, 1}, {1, 0}, {1, 1}, 2                                         \
    }
#define DEPTHWISE                                                                                  \
    {                                                                                              \
        sizeof(ts_conv_options), {1, 2}, {1, 1}, {1, 1}, 3                                         \
    }
#define LINE                                                                                       \
    {                                                                                              \
        sizeof(ts_conv_options), {2}, {1}, {1}, 1                                                  \
    }
ROWS(ROW)

/* clang-format off */
#define IN(low, high, ...) {TS_SHAPE_OF(__VA_ARGS__), low, high, TS_ROLE_VALUE}
#define FIXED(low, high, ...) {TS_SHAPE_OF(__VA_ARGS__), low, high, TS_ROLE_FIXED}
#define TS_SHAPE_OF(...) {sizeof((int[]){__VA_ARGS__}) / sizeof(int), {__VA_ARGS__}}
/* clang-format on */
#define BLOCK IN(-2, 2, 2, 3, 4)
#define IMAGE IN(-2, 2, 3, 4, 5)
#define PICTURE(channels) IN(-2, 2, 2, channels, 5, 5)
#define CHANNELS(n) IN(-1.5, 1.5, n)
enum { REAL = TS_ON_REAL | TS_EMPTY, ONCE = REAL | TS_FIRST_ONLY };
#define R(name, flags, ...)                                                                        \
    {                                                                                              \
#name, f_##name, NULL, flags, { __VA_ARGS__ }                                              \
    }

const ts_case ts_cases_nn[] = {
    R(softmax, REAL, BLOCK),
    R(softmax_middle, REAL, BLOCK),
    R(log_softmax, REAL, BLOCK),
    R(log_softmax_first, REAL, BLOCK),
    R(layer_norm, ONCE, BLOCK, CHANNELS(4), CHANNELS(4)),
    R(rms_norm, ONCE, BLOCK, CHANNELS(4)),
    R(rms_norm_plain, ONCE, BLOCK),
    R(group_norm, ONCE, IMAGE, CHANNELS(4), CHANNELS(4)),
    R(group_norm_plain, ONCE, IN(-2, 2, 2, 3, 2, 3)),
    R(batch_norm, ONCE, IMAGE, CHANNELS(4), CHANNELS(4)),
    R(batch_norm_flat, ONCE, IN(-2, 2, 6, 3), CHANNELS(3)),
    R(batch_norm_eval, ONCE, IMAGE, FIXED(-1.5, 1.5, 4), FIXED(0.5, 2, 4), CHANNELS(4)),
    R(conv2d, TS_ON_REAL, PICTURE(4), IN(-1, 1, 2, 4, 3, 2), CHANNELS(2)),
    R(conv2d_strided, TS_ON_REAL, PICTURE(3), IN(-1, 1, 2, 3, 3, 2), CHANNELS(2)),
    R(conv2d_groups, TS_ON_REAL, PICTURE(4), IN(-1, 1, 6, 2, 3, 3)),
    R(conv2d_depthwise, TS_ON_REAL, PICTURE(3), IN(-1, 1, 6, 1, 3, 3), CHANNELS(6)),
    R(conv2d_point, TS_ON_REAL, PICTURE(3), IN(-1, 1, 4, 3, 1, 1), CHANNELS(4)),
    R(conv1d, TS_ON_REAL, IN(-2, 2, 2, 3, 7), IN(-1, 1, 4, 3, 3), CHANNELS(4)),
    R(max_pool2d, ONCE, PICTURE(2)),
    R(max_pool1d, ONCE, IN(-2, 2, 2, 3, 7)),
    R(avg_pool2d, ONCE, PICTURE(2)),
    R(avg_pool1d, ONCE, IN(-2, 2, 2, 3, 7)),
    R(adaptive_avg_pool2d, ONCE, PICTURE(2)),
    R(adaptive_avg_pool1d, ONCE, IN(-2, 2, 2, 3, 7)),
    {.name = NULL},
};

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
    X(batch_norm_eval, ts_batch_norm(a, b, c, d, NULL, false, 0.1, 1e-3))
ROWS(ROW)

/* clang-format off */
#define IN(low, high, ...) {TS_SHAPE_OF(__VA_ARGS__), low, high, TS_ROLE_VALUE}
#define FIXED(low, high, ...) {TS_SHAPE_OF(__VA_ARGS__), low, high, TS_ROLE_FIXED}
#define TS_SHAPE_OF(...) {sizeof((int[]){__VA_ARGS__}) / sizeof(int), {__VA_ARGS__}}
/* clang-format on */
#define BLOCK IN(-2, 2, 2, 3, 4)
#define IMAGE IN(-2, 2, 3, 4, 5)
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
    {.name = NULL},
};

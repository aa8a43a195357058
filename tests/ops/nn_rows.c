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
    X(adaptive_avg_pool1d, ts_adaptive_avg_pool1d(a, 3))                                           \
    X(cross_entropy, ts_cross_entropy(a, b, NULL))                                                 \
    X(cross_entropy_each, ENTROPY(TS_REDUCTION_NONE, 3, 0, NULL))                                  \
    X(cross_entropy_smooth, ENTROPY(TS_REDUCTION_SUM, 3, 0.2, NULL))                               \
    X(cross_entropy_weighted, ENTROPY(TS_REDUCTION_MEAN, 1, 0, c))                                 \
    X(cross_entropy_weighted_smooth, ENTROPY(TS_REDUCTION_MEAN, 2, 0.3, c))                        \
    X(cross_entropy_image, ENTROPY(TS_REDUCTION_NONE, 2, 0.1, c))                                  \
    X(cross_entropy_one, ENTROPY(TS_REDUCTION_MEAN, -1, 0.1, c))                                   \
    X(nll_loss, NLL(TS_REDUCTION_MEAN, 1, NULL))                                                   \
    X(nll_loss_weighted, NLL(TS_REDUCTION_MEAN, 2, c))                                             \
    X(nll_loss_image, NLL(TS_REDUCTION_NONE, 2, c))                                                \
    X(nll_loss_one, NLL(TS_REDUCTION_SUM, -1, c))                                                  \
    X(bce_logits, ts_binary_cross_entropy_with_logits(a, b, NULL))                                 \
    X(bce_logits_each, BINARY(TS_REDUCTION_NONE, c, NULL))                                         \
    X(bce_logits_weighted, BINARY(TS_REDUCTION_SUM, c, d))                                         \
    X(mse_loss, ts_mse_loss(a, b))                                                                 \
    X(mse_loss_sum, ts_mse_loss_reduced(a, b, TS_REDUCTION_SUM))                                   \
    X(mse_loss_each, ts_mse_loss_reduced(a, b, TS_REDUCTION_NONE))                                 \
    X(l1_loss, ts_l1_loss(a, b, TS_REDUCTION_MEAN))                                                \
    X(smooth_l1_loss, ts_smooth_l1_loss(a, b, 0.5, TS_REDUCTION_NONE))                             \
    X(smooth_l1_loss_0, ts_smooth_l1_loss(a, b, 0, TS_REDUCTION_SUM))                              \
    X(huber_loss, ts_huber_loss(a, b, 1.5, TS_REDUCTION_MEAN))                                     \
    X(kl_div, ts_kl_div(a, b, false, TS_REDUCTION_NONE))                                           \
    X(kl_div_log, ts_kl_div(a, b, true, TS_REDUCTION_SUM))                                         \
    X(attention, ATTEND(.scale = 0))                                                               \
    X(attention_causal, ATTEND(.scale = 0.5, .is_causal = true))                                   \
    X(attention_added, ATTEND(.attn_mask = d))                                                     \
    X(attention_seen, ATTEND(.attn_mask = d))                                                      \
    X(attention_grouped, ATTEND(.enable_gqa = true))
#define ENTROPY(reduction, ignore, smoothing, weight)                                              \
    ts_cross_entropy(a, b,                                                                         \
                     &(ts_cross_entropy_options){sizeof(ts_cross_entropy_options), reduction,      \
                                                 ignore, smoothing, weight})
#define NLL(reduction, ignore, weight)                                                             \
    ts_nll_loss(a, b,                                                                              \
                &(ts_nll_loss_options){sizeof(ts_nll_loss_options), reduction, ignore, weight})
#define BINARY(reduction, weight, pos_weight)                                                      \
    ts_binary_cross_entropy_with_logits(                                                           \
        a, b,                                                                                      \
        &(ts_binary_cross_entropy_with_logits_options){                                            \
            sizeof(ts_binary_cross_entropy_with_logits_options), reduction, weight, pos_weight})
#define ATTEND(...)                                                                                \
    ts_scaled_dot_product_attention(                                                               \
        a, b, c,                                                                                   \
        &(ts_attention_options){.struct_size = sizeof(ts_attention_options), __VA_ARGS__})
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
#define CLASS(classes, ...) {TS_SHAPE_OF(__VA_ARGS__), 0, classes, TS_ROLE_INDEX}
#define NUMBER(low, high) {{0}, low, high, TS_ROLE_VALUE}
#define ONE_CLASS(classes) {{0}, 0, classes, TS_ROLE_INDEX}
#define SEEN {{4, {2, 1, 3, 5}}, 0, 1, TS_ROLE_MASK}
/* clang-format on */
#define BLOCK IN(-2, 2, 2, 3, 4)
#define IMAGE IN(-2, 2, 3, 4, 5)
#define PICTURE(channels) IN(-2, 2, 2, channels, 5, 5)
#define LOGITS IN(-2, 2, 6, 4)
#define SHARE IN(0.125, 1, 6, 4)
#define MAP IN(-2, 2, 2, 4, 3, 2)
#define WEIGHTS FIXED(0.5, 2, 4)
#define QUERY IN(-1, 1, 2, 4, 3, 8)
#define HEADS(n, width) IN(-1, 1, 2, n, 5, width)
#define CHANNELS(n) IN(-1.5, 1.5, n)
enum {
    REAL = TS_ON_REAL | TS_EMPTY,
    ONCE = REAL | TS_FIRST_ONLY,
    ONLY_ONCE = TS_ON_REAL | TS_FIRST_ONLY
};
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
    R(cross_entropy, TS_ON_REAL, LOGITS, CLASS(4, 6)),
    R(cross_entropy_each, TS_ON_REAL, LOGITS, CLASS(4, 6)),
    R(cross_entropy_smooth, TS_ON_REAL, LOGITS, CLASS(4, 6)),
    R(cross_entropy_weighted, TS_ON_REAL, LOGITS, CLASS(4, 6), WEIGHTS),
    R(cross_entropy_weighted_smooth, TS_ON_REAL, LOGITS, CLASS(4, 6), WEIGHTS),
    R(cross_entropy_image, TS_ON_REAL, MAP, CLASS(4, 2, 3, 2), WEIGHTS),
    R(cross_entropy_one, TS_ON_REAL, IN(-2, 2, 4), ONE_CLASS(4), WEIGHTS),
    R(nll_loss, TS_ON_REAL, LOGITS, CLASS(4, 6)),
    R(nll_loss_weighted, TS_ON_REAL, LOGITS, CLASS(4, 6), WEIGHTS),
    R(nll_loss_image, TS_ON_REAL, MAP, CLASS(4, 2, 3, 2), WEIGHTS),
    R(nll_loss_one, TS_ON_REAL, IN(-2, 2, 4), ONE_CLASS(4), WEIGHTS),
    R(bce_logits, TS_ON_REAL, LOGITS, SHARE),
    R(bce_logits_each, REAL, LOGITS, SHARE, FIXED(0.5, 2, 4)),
    R(bce_logits_weighted, TS_ON_REAL, LOGITS, SHARE, FIXED(0.5, 2, 6, 1), FIXED(0.5, 2, 4)),
    R(mse_loss, TS_ON_REAL, LOGITS, LOGITS),
    R(mse_loss_sum, TS_ON_REAL, LOGITS, LOGITS),
    R(mse_loss_each, REAL, LOGITS, LOGITS),
    R(l1_loss, TS_ON_REAL, LOGITS, LOGITS),
    R(smooth_l1_loss, REAL, LOGITS, LOGITS),
    R(smooth_l1_loss_0, TS_ON_REAL, NUMBER(-2, 2), NUMBER(-1, 2)),
    R(huber_loss, TS_ON_REAL, LOGITS, LOGITS),
    R(kl_div, REAL, LOGITS, SHARE),
    R(kl_div_log, TS_ON_REAL, LOGITS, LOGITS),
    R(attention, ONLY_ONCE, QUERY, HEADS(4, 8), HEADS(4, 6)),
    R(attention_causal, ONLY_ONCE, QUERY, HEADS(4, 8), HEADS(4, 6)),
    R(attention_added, ONLY_ONCE, QUERY, HEADS(4, 8), HEADS(4, 6), FIXED(-2, 2, 4, 1, 5)),
    R(attention_seen, ONLY_ONCE, QUERY, HEADS(4, 8), HEADS(4, 6), SEEN),
    R(attention_grouped, ONLY_ONCE, QUERY, HEADS(2, 8), HEADS(2, 6)),
    {.name = NULL},
};

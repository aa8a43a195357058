/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on tensors.  Values in, values out; recorded for autograd when an input requires grad.
 *
 * Inputs may be non-contiguous, have zero elements or no dimension.  Element-wise operations
 * broadcast and promote dtypes by PyTorch's rules.  Negative dimensions count from the end.  Errors
 * (in the value): TS_ESHAPE and TS_EDTYPE with both shapes or dtypes. */
#ifndef TESSERA_OPS_H
#define TESSERA_OPS_H

#include <tessera/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- element by element ---------------------------------------------------------------------- */
TS_API ts_tensor *ts_add(ts_tensor *a, ts_tensor *b);
TS_API ts_tensor *ts_sub(ts_tensor *a, ts_tensor *b);
TS_API ts_tensor *ts_mul(ts_tensor *a, ts_tensor *b);
TS_API ts_tensor *ts_div(ts_tensor *a, ts_tensor *b); /* integers divide as float32 */
TS_API ts_tensor *ts_pow(ts_tensor *a, ts_tensor *b);
TS_API ts_tensor *ts_maximum(ts_tensor *a, ts_tensor *b); /* NaN if either is; ties share */
TS_API ts_tensor *ts_minimum(ts_tensor *a, ts_tensor *b);
TS_API ts_tensor *ts_where(ts_tensor *condition, ts_tensor *a, ts_tensor *b); /* bool condition */
TS_API ts_tensor *ts_addcmul(ts_tensor *a, ts_tensor *b, ts_tensor *c,
                             double value); /* a + v b c */
TS_API ts_tensor *ts_addcdiv(ts_tensor *a, ts_tensor *b, ts_tensor *c,
                             double value);                               /* a + v b / c */
TS_API ts_tensor *ts_lerp(ts_tensor *a, ts_tensor *b, ts_tensor *weight); /* a + w (b - a) */
TS_API ts_tensor *ts_lerp_scalar(ts_tensor *a, ts_tensor *b, double weight);

/* With a number.  A whole one keeps integer dtypes, another one makes them float32. */
TS_API ts_tensor *ts_add_scalar(ts_tensor *a, double b);
TS_API ts_tensor *ts_sub_scalar(ts_tensor *a, double b);
TS_API ts_tensor *ts_mul_scalar(ts_tensor *a, double b);
TS_API ts_tensor *ts_div_scalar(ts_tensor *a, double b);
TS_API ts_tensor *ts_pow_scalar(ts_tensor *a, double exponent);
TS_API ts_tensor *ts_maximum_scalar(ts_tensor *a, double b);
TS_API ts_tensor *ts_minimum_scalar(ts_tensor *a, double b);
TS_API ts_tensor *ts_clamp(ts_tensor *a, double low, double high); /* -INFINITY, INFINITY: none */

/* bool, without gradient. */
TS_API ts_tensor *ts_eq(ts_tensor *a, ts_tensor *b);
TS_API ts_tensor *ts_ne(ts_tensor *a, ts_tensor *b);
TS_API ts_tensor *ts_lt(ts_tensor *a, ts_tensor *b);
TS_API ts_tensor *ts_le(ts_tensor *a, ts_tensor *b);
TS_API ts_tensor *ts_gt(ts_tensor *a, ts_tensor *b);
TS_API ts_tensor *ts_ge(ts_tensor *a, ts_tensor *b);
TS_API ts_tensor *ts_eq_scalar(ts_tensor *a, double b);
TS_API ts_tensor *ts_ne_scalar(ts_tensor *a, double b);
TS_API ts_tensor *ts_lt_scalar(ts_tensor *a, double b);
TS_API ts_tensor *ts_le_scalar(ts_tensor *a, double b);
TS_API ts_tensor *ts_gt_scalar(ts_tensor *a, double b);
TS_API ts_tensor *ts_ge_scalar(ts_tensor *a, double b);
TS_API ts_tensor *ts_logical_and(ts_tensor *a, ts_tensor *b);
TS_API ts_tensor *ts_logical_or(ts_tensor *a, ts_tensor *b);
TS_API ts_tensor *ts_logical_xor(ts_tensor *a, ts_tensor *b);
TS_API ts_tensor *ts_logical_not(ts_tensor *a);
TS_API ts_tensor *ts_isnan(ts_tensor *a);
TS_API ts_tensor *ts_isfinite(ts_tensor *a);

TS_API ts_tensor *ts_neg(ts_tensor *a);
TS_API ts_tensor *ts_abs(ts_tensor *a);
TS_API ts_tensor *ts_sign(ts_tensor *a);
TS_API ts_tensor *ts_relu(ts_tensor *a);
TS_API ts_tensor *ts_exp(ts_tensor *a); /* this and what follows makes integers float32 */
TS_API ts_tensor *ts_expm1(ts_tensor *a);
TS_API ts_tensor *ts_log(ts_tensor *a);
TS_API ts_tensor *ts_log1p(ts_tensor *a);
TS_API ts_tensor *ts_sqrt(ts_tensor *a);
TS_API ts_tensor *ts_rsqrt(ts_tensor *a);
TS_API ts_tensor *ts_reciprocal(ts_tensor *a);
TS_API ts_tensor *ts_sin(ts_tensor *a);
TS_API ts_tensor *ts_cos(ts_tensor *a);
TS_API ts_tensor *ts_tanh(ts_tensor *a);
TS_API ts_tensor *ts_erf(ts_tensor *a);
TS_API ts_tensor *ts_sigmoid(ts_tensor *a);
TS_API ts_tensor *ts_silu(ts_tensor *a);
TS_API ts_tensor *ts_floor(ts_tensor *a);
TS_API ts_tensor *ts_ceil(ts_tensor *a);
TS_API ts_tensor *ts_round(ts_tensor *a); /* halves to even */
TS_API ts_tensor *ts_trunc(ts_tensor *a);
typedef enum ts_gelu_form { TS_GELU_ERF = 0, TS_GELU_TANH = 1 } ts_gelu_form;
TS_API ts_tensor *ts_gelu(ts_tensor *a, ts_gelu_form form);

/* In place; return a.  a must not need broadcasting; TS_ESTATE on a leaf that requires grad outside
 * ts_no_grad, and on a view with overlapping elements. */
TS_API ts_tensor *ts_add_(ts_tensor *a, ts_tensor *b);
TS_API ts_tensor *ts_sub_(ts_tensor *a, ts_tensor *b);
TS_API ts_tensor *ts_mul_(ts_tensor *a, ts_tensor *b);
TS_API ts_tensor *ts_div_(ts_tensor *a, ts_tensor *b);
TS_API ts_tensor *ts_pow_(ts_tensor *a, ts_tensor *b);
TS_API ts_tensor *ts_maximum_(ts_tensor *a, ts_tensor *b);
TS_API ts_tensor *ts_minimum_(ts_tensor *a, ts_tensor *b);
TS_API ts_tensor *ts_addcmul_(ts_tensor *a, ts_tensor *b, ts_tensor *c, double value);
TS_API ts_tensor *ts_addcdiv_(ts_tensor *a, ts_tensor *b, ts_tensor *c, double value);
TS_API ts_tensor *ts_lerp_(ts_tensor *a, ts_tensor *b, ts_tensor *weight);
TS_API ts_tensor *ts_lerp_scalar_(ts_tensor *a, ts_tensor *b, double weight);
TS_API ts_tensor *ts_add_scalar_(ts_tensor *a, double b);
TS_API ts_tensor *ts_mul_scalar_(ts_tensor *a, double b);
TS_API ts_tensor *ts_pow_scalar_(ts_tensor *a, double b);
TS_API ts_tensor *ts_clamp_(ts_tensor *a, double low, double high);
TS_API ts_tensor *ts_neg_(ts_tensor *a);
TS_API ts_tensor *ts_abs_(ts_tensor *a);
TS_API ts_tensor *ts_sign_(ts_tensor *a);
TS_API ts_tensor *ts_relu_(ts_tensor *a);
TS_API ts_tensor *ts_exp_(ts_tensor *a);
TS_API ts_tensor *ts_expm1_(ts_tensor *a);
TS_API ts_tensor *ts_log_(ts_tensor *a);
TS_API ts_tensor *ts_log1p_(ts_tensor *a);
TS_API ts_tensor *ts_sqrt_(ts_tensor *a);
TS_API ts_tensor *ts_rsqrt_(ts_tensor *a);
TS_API ts_tensor *ts_reciprocal_(ts_tensor *a);
TS_API ts_tensor *ts_sin_(ts_tensor *a);
TS_API ts_tensor *ts_cos_(ts_tensor *a);
TS_API ts_tensor *ts_tanh_(ts_tensor *a);
TS_API ts_tensor *ts_erf_(ts_tensor *a);
TS_API ts_tensor *ts_sigmoid_(ts_tensor *a);
TS_API ts_tensor *ts_silu_(ts_tensor *a);
TS_API ts_tensor *ts_floor_(ts_tensor *a);
TS_API ts_tensor *ts_ceil_(ts_tensor *a);
TS_API ts_tensor *ts_round_(ts_tensor *a);
TS_API ts_tensor *ts_trunc_(ts_tensor *a);
TS_API ts_tensor *ts_gelu_(ts_tensor *a, ts_gelu_form form);
TS_API ts_tensor *ts_fill_(ts_tensor *a, double value);
TS_API ts_tensor *ts_zero_(ts_tensor *a);
TS_API ts_tensor *ts_copy_(ts_tensor *a, ts_tensor *b); /* broadcasts and converts b */

TS_API ts_tensor *ts_to_dtype(ts_tensor *a, ts_dtype dtype); /* a itself if it has that dtype */
TS_API ts_tensor *ts_clone(ts_tensor *a);                    /* row-major copy */
TS_API ts_tensor *ts_contiguous(ts_tensor *a);               /* a itself if it is row-major */

/* ---- views (share storage) ------------------------------------------------------------------- */
TS_API ts_tensor *ts_view(ts_tensor *a,
                          ts_shape shape); /* one size may be -1; TS_ESHAPE if it needs a copy */
TS_API ts_tensor *ts_reshape(ts_tensor *a, ts_shape shape); /* copies if it must */
TS_API ts_tensor *ts_transpose(ts_tensor *a, int dim0, int dim1);
TS_API ts_tensor *ts_permute(ts_tensor *a, const int *dims, int n);
TS_API ts_tensor *ts_expand(ts_tensor *a, ts_shape shape); /* -1 keeps a size */
TS_API ts_tensor *ts_narrow(ts_tensor *a, int dim, int64_t start, int64_t length);
TS_API ts_tensor *ts_slice(ts_tensor *a, int dim, int64_t start, int64_t end, int64_t step);
TS_API ts_tensor *ts_select(ts_tensor *a, int dim, int64_t index);
TS_API ts_tensor *ts_squeeze(ts_tensor *a, int dim);
TS_API ts_tensor *ts_unsqueeze(ts_tensor *a, int dim);
TS_API ts_tensor *ts_flatten(ts_tensor *a, int start_dim, int end_dim);
/* Pieces into out[n]: ts_chunk as torch.chunk (returns how many there are, at most n, and leaves
 * the rest NULL); ts_split takes the sizes.  Every piece is failed if the call is wrong. */
TS_API int ts_chunk(ts_tensor **out, ts_tensor *a, int n, int dim);
TS_API int ts_split(ts_tensor **out, ts_tensor *a, const int64_t *sizes, int n, int dim);

/* ---- joining --------------------------------------------------------------------------------- */
TS_API ts_tensor *ts_cat(ts_tensor *const *tensors, int n, int dim);
TS_API ts_tensor *ts_stack(ts_tensor *const *tensors, int n, int dim); /* along a new dimension */

/* ---- other orders ---------------------------------------------------------------------------- */
TS_API ts_tensor *ts_flip(ts_tensor *a, const int *dims, int n);
TS_API ts_tensor *ts_roll(ts_tensor *a, int64_t shift, int dim);
TS_API ts_tensor *ts_repeat(ts_tensor *a, ts_shape times); /* copies, as torch.Tensor.repeat */
TS_API ts_tensor *ts_tril(ts_tensor *a, int64_t diagonal); /* 0 above the diagonal */
TS_API ts_tensor *ts_triu(ts_tensor *a, int64_t diagonal);
TS_API ts_tensor *ts_masked_fill(ts_tensor *a, ts_tensor *mask, double value); /* bool mask */
TS_API ts_tensor *ts_one_hot(ts_tensor *a, int64_t classes);                   /* int64 */
/* pads: sizes before and after each of the first n dimensions; negative ones cut. */
TS_API ts_tensor *ts_pad(ts_tensor *a, const int64_t *pads, int n, double value);
/* Stable; NaN counts as the largest.  indices (int64) may be NULL. */
TS_API ts_tensor *ts_sort(ts_tensor *a, int dim, bool descending, ts_tensor **indices);
TS_API ts_tensor *ts_topk(ts_tensor *a, int64_t k, int dim, bool largest, ts_tensor **indices);

/* ---- by number (int64 indices; TS_EINVAL names one that is out of range) --------------------- */
TS_API ts_tensor *ts_index_select(ts_tensor *a, int dim, ts_tensor *index);
/* a with the slices of source added at the indices of dim, in the order of the index. */
TS_API ts_tensor *ts_index_add(ts_tensor *a, int dim, ts_tensor *index, ts_tensor *source);
TS_API ts_tensor *ts_gather_dim(ts_tensor *a, int dim, ts_tensor *index); /* as torch.gather */
TS_API ts_tensor *ts_scatter_add(ts_tensor *a, int dim, ts_tensor *index, ts_tensor *source);
/* a[:, i0, i1] with n indices for the dimensions from dim on, which broadcast against each other;
 * negative ones count from the end. */
TS_API ts_tensor *ts_index(ts_tensor *a, int dim, ts_tensor *const *indices, int n);

/* ---- reductions: dims NULL or n = 0 means all ------------------------------------------------ */
TS_API ts_tensor *ts_sum(ts_tensor *a);
TS_API ts_tensor *ts_mean(ts_tensor *a);
TS_API ts_tensor *ts_sum_dim(ts_tensor *a, int dim, bool keepdim);
TS_API ts_tensor *ts_mean_dim(ts_tensor *a, int dim, bool keepdim);
TS_API ts_tensor *ts_sum_dims(ts_tensor *a, const int *dims, int n, bool keepdim);
TS_API ts_tensor *ts_prod(ts_tensor *a);
TS_API ts_tensor *ts_prod_dims(ts_tensor *a, const int *dims, int n, bool keepdim);
/* The largest and the smallest; NaN if any is; equal ones share the gradient; TS_ESHAPE of nothing. */
TS_API ts_tensor *ts_max(ts_tensor *a);
TS_API ts_tensor *ts_min(ts_tensor *a);
TS_API ts_tensor *ts_amax(ts_tensor *a, const int *dims, int n, bool keepdim);
TS_API ts_tensor *ts_amin(ts_tensor *a, const int *dims, int n, bool keepdim);
/* With their places (int64; NULL if you do not need them); the first of equals has the gradient. */
TS_API ts_tensor *ts_max_dim(ts_tensor *a, int dim, bool keepdim, ts_tensor **indices);
TS_API ts_tensor *ts_min_dim(ts_tensor *a, int dim, bool keepdim, ts_tensor **indices);
TS_API ts_tensor *ts_argmax(ts_tensor *a, int dim, bool keepdim); /* int64; first of equals */
TS_API ts_tensor *ts_argmin(ts_tensor *a, int dim, bool keepdim);
TS_API ts_tensor *ts_norm(ts_tensor *a, double p); /* p may be INFINITY */
TS_API ts_tensor *ts_norm_dims(ts_tensor *a, double p, const int *dims, int n, bool keepdim);
/* sum (a - mean)^2 / (count - correction), and its root; torch.var has correction 1. */
TS_API ts_tensor *ts_var(ts_tensor *a, const int *dims, int n, double correction, bool keepdim);
TS_API ts_tensor *ts_std(ts_tensor *a, const int *dims, int n, double correction, bool keepdim);
TS_API ts_tensor *ts_logsumexp(ts_tensor *a, const int *dims, int n, bool keepdim);
TS_API ts_tensor *ts_any(ts_tensor *a, const int *dims, int n, bool keepdim); /* bool */
TS_API ts_tensor *ts_all(ts_tensor *a, const int *dims, int n, bool keepdim);
TS_API ts_tensor *ts_cumsum(ts_tensor *a, int dim);

/* ---- linear algebra (float32, float64) ------------------------------------------------------- */
TS_API ts_tensor *ts_matmul(ts_tensor *a, ts_tensor *b); /* 1-D, 2-D and batched, as torch.matmul */
TS_API ts_tensor *ts_linear(ts_tensor *x, ts_tensor *weight,
                            ts_tensor *bias); /* x w' + b; bias may be NULL */

/* ---- neural networks ------------------------------------------------------------------------- */
TS_API ts_tensor *ts_softmax(ts_tensor *a, int dim);
TS_API ts_tensor *ts_log_softmax(ts_tensor *a, int dim);
typedef enum ts_reduction {
    TS_REDUCTION_MEAN = 0,
    TS_REDUCTION_SUM = 1,
    TS_REDUCTION_NONE = 2
} ts_reduction;
/* Losses.  mean: over what counts, NaN if nothing does.  logits (N, C, ...) or (C), target int64
 * (N, ...) or (): class numbers, of which those equal to ignore_index do not count.  weight (C)
 * weighs classes, in the mean's divisor too; it gets no gradient.  Only the log-sum-exp per row is
 * kept for backward.  TS_EINVAL names a target that is no class. */
typedef struct ts_cross_entropy_options {
    size_t struct_size;
    ts_reduction reduction; /* mean */
    int64_t ignore_index;   /* -100 */
    double label_smoothing; /* 0 */
    ts_tensor *weight;      /* NULL */
} ts_cross_entropy_options;
#define TS_CROSS_ENTROPY_OPTIONS_INIT                                                              \
    {                                                                                              \
        sizeof(ts_cross_entropy_options), TS_REDUCTION_MEAN, -100, 0.0, NULL                       \
    }
TS_API ts_tensor *ts_cross_entropy(ts_tensor *logits, ts_tensor *target,
                                   const ts_cross_entropy_options *opt);
/* The same of log-probabilities (those of ts_log_softmax). */
typedef struct ts_nll_loss_options {
    size_t struct_size;
    ts_reduction reduction; /* mean */
    int64_t ignore_index;   /* -100 */
    ts_tensor *weight;      /* NULL */
} ts_nll_loss_options;
#define TS_NLL_LOSS_OPTIONS_INIT                                                                   \
    {                                                                                              \
        sizeof(ts_nll_loss_options), TS_REDUCTION_MEAN, -100, NULL                                 \
    }
TS_API ts_tensor *ts_nll_loss(ts_tensor *input, ts_tensor *target, const ts_nll_loss_options *opt);
/* Of logits against probabilities of the same shape.  weight and pos_weight (of the positive
 * answers) are broadcast to it. */
typedef struct ts_binary_cross_entropy_with_logits_options {
    size_t struct_size;
    ts_reduction reduction; /* mean */
    ts_tensor *weight;      /* NULL */
    ts_tensor *pos_weight;  /* NULL */
} ts_binary_cross_entropy_with_logits_options;
#define TS_BINARY_CROSS_ENTROPY_WITH_LOGITS_OPTIONS_INIT                                           \
    {                                                                                              \
        sizeof(ts_binary_cross_entropy_with_logits_options), TS_REDUCTION_MEAN, NULL, NULL         \
    }
TS_API ts_tensor *
ts_binary_cross_entropy_with_logits(ts_tensor *logits, ts_tensor *target,
                                    const ts_binary_cross_entropy_with_logits_options *opt);
/* Input and target have one shape and one dtype. */
TS_API ts_tensor *ts_mse_loss(ts_tensor *input, ts_tensor *target); /* mean */
TS_API ts_tensor *ts_mse_loss_reduced(ts_tensor *input, ts_tensor *target, ts_reduction reduction);
TS_API ts_tensor *ts_l1_loss(ts_tensor *input, ts_tensor *target, ts_reduction reduction);
TS_API ts_tensor *ts_smooth_l1_loss(ts_tensor *input, ts_tensor *target, double beta,
                                    ts_reduction reduction);
TS_API ts_tensor *ts_huber_loss(ts_tensor *input, ts_tensor *target, double delta,
                                ts_reduction reduction);
/* target (log target - input) of log-probabilities input; log_target: target holds logarithms. */
TS_API ts_tensor *ts_kl_div(ts_tensor *input, ts_tensor *target, bool log_target,
                            ts_reduction reduction);
/* Over the last dimensions, as many as weight has; weight and bias may be NULL. */
TS_API ts_tensor *ts_layer_norm(ts_tensor *x, ts_shape normalized_shape, ts_tensor *weight,
                                ts_tensor *bias, double eps);
/* x / sqrt(mean x^2 + eps) weight, over the last dimensions too. */
TS_API ts_tensor *ts_rms_norm(ts_tensor *x, ts_shape normalized_shape, ts_tensor *weight,
                              double eps);
/* x (N, C, ...): each sample's channels in groups of C / groups.  weight and bias (C) may be NULL. */
TS_API ts_tensor *ts_group_norm(ts_tensor *x, int64_t groups, ts_tensor *weight, ts_tensor *bias,
                                double eps);
/* x (N, C, ...): each channel over the batch and, when training, running = (1 - momentum) running
 * + momentum batch (variance with n - 1); for a cumulative average pass momentum 1 / number of
 * batches so far.  Not training: by the running statistics.  They may be NULL when training. */
TS_API ts_tensor *ts_batch_norm(ts_tensor *x, ts_tensor *running_mean, ts_tensor *running_var,
                                ts_tensor *weight, ts_tensor *bias, bool training, double momentum,
                                double eps);
/* Height, width; one-dimensional calls take the first. */
typedef struct ts_conv_options {
    size_t struct_size;
    int64_t stride[2];   /* 1 */
    int64_t padding[2];  /* 0 */
    int64_t dilation[2]; /* 1 */
    int64_t groups;      /* 1 */
} ts_conv_options;
#define TS_CONV_OPTIONS_INIT                                                                       \
    {                                                                                              \
        sizeof(ts_conv_options), {1, 1}, {0, 0}, {1, 1}, 1                                         \
    }
/* x (N, C, H, W), weight (O, C / groups, kh, kw), bias (O) or NULL; 1d without H and kh. */
TS_API ts_tensor *ts_conv2d(ts_tensor *x, ts_tensor *weight, ts_tensor *bias,
                            const ts_conv_options *opt);
TS_API ts_tensor *ts_conv1d(ts_tensor *x, ts_tensor *weight, ts_tensor *bias,
                            const ts_conv_options *opt);
/* Windows over the last dimensions of (N, C, H, W) or (N, C, L). */
typedef struct ts_pool_window {
    int64_t kernel[2];
    int64_t stride[2]; /* 0: kernel */
    int64_t padding[2];
    bool count_inside_only; /* means without the padding's zeros */
} ts_pool_window;
TS_API ts_tensor *ts_max_pool2d(ts_tensor *x, ts_pool_window window);
TS_API ts_tensor *ts_max_pool1d(ts_tensor *x, ts_pool_window window);
TS_API ts_tensor *ts_avg_pool2d(ts_tensor *x, ts_pool_window window);
TS_API ts_tensor *ts_avg_pool1d(ts_tensor *x, ts_pool_window window);
TS_API ts_tensor *ts_adaptive_avg_pool2d(ts_tensor *x, int64_t height, int64_t width);
TS_API ts_tensor *ts_adaptive_avg_pool1d(ts_tensor *x, int64_t length);
TS_API ts_tensor *ts_embedding(ts_tensor *weight,
                               ts_tensor *indices); /* indices int64, any shape */
TS_API ts_tensor *ts_dropout(ts_tensor *x, double p, bool training);
/* Scaled dot-product attention.  q (B, H, T, D), k and v (B, H, S, D), D of v may differ.  Memory
 * O(T) per head beyond the output: no T x S matrix is kept.  causal: query i sees keys
 * j <= i + S - T (bottom right). scale 0: 1 / sqrt(D).  Backward recomputes the scores from the
 * log-sum-exp (Dao et al., "FlashAttention", 2022). */
TS_API ts_tensor *ts_attention(ts_tensor *q, ts_tensor *k, ts_tensor *v, bool causal, double scale);

/* As ts_attention, with the names, defaults and conventions of PyTorch's function.  Queries that see
 * no key give 0 and a log-sum-exp of -infinity.  Dropped are probabilities; which ones depends on the
 * default generator only, and backward draws them again.  float16 and bfloat16 are computed in
 * float32.  No second derivative. */
typedef struct ts_attention_options {
    size_t struct_size;
    ts_tensor
        *attn_mask;   /* NULL.  Broadcastable to (B, H, T, S), any strides: bool, true where a key
                           * is seen; or of q's dtype, added to the scores.  Without gradient. */
    double dropout_p; /* 0; give 0 in evaluation */
    bool is_causal;   /* false: query i sees keys j <= i (top left); without attn_mask */
    double scale;     /* 0: 1 / sqrt(D) */
    bool enable_gqa;  /* false: k and v may have fewer heads, a divisor of q's; each serves as
                           * many neighbours */
    ts_tensor **logsumexp; /* NULL, or where log sum exp of the scores (B, H, T) goes: float32, for
                            * float64 that; differentiable */
} ts_attention_options;
#define TS_ATTENTION_OPTIONS_INIT                                                                  \
    {                                                                                              \
        sizeof(ts_attention_options), NULL, 0, false, 0, false, NULL                               \
    }
TS_API ts_tensor *ts_scaled_dot_product_attention(ts_tensor *q, ts_tensor *k, ts_tensor *v,
                                                  const ts_attention_options *options);

#ifdef __cplusplus
}
#endif
#endif

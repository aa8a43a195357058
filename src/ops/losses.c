/* SPDX-License-Identifier: Apache-2.0 */
/* Losses that are a few operations each.  float16 and bfloat16 are computed in float32. */
#include <math.h>

#include "base/options.h"
#include "ops/nn_impl.h"

static ts_status check_reduction(const char *op, ts_reduction reduction)
{
    if (reduction >= TS_REDUCTION_MEAN && reduction <= TS_REDUCTION_NONE) return TS_OK;
    return ts_fail(TS_EINVAL, "%s: %lld is not a reduction", op, (long long)reduction);
}

static ts_tensor *reduce(ts_tensor *each, ts_reduction reduction)
{
    if (reduction == TS_REDUCTION_NONE) return each;
    return reduction == TS_REDUCTION_SUM ? ts_sum(each) : ts_mean(each);
}

/* ---- element by element ---------------------------------------------------------------------- */

/* Both computed in float32 at least; TS_EINVAL, TS_EDTYPE or TS_ESHAPE unless they fit. */
static ts_status take_pair(const char *op, ts_tensor **x, ts_tensor **y)
{
    char x_text[TS_SHAPE_TEXT], y_text[TS_SHAPE_TEXT];
    if (!*x || !*y) return ts_fail(TS_EINVAL, "%s: input and target must not be NULL", op);
    TS_TRY(ts_tensor_check(*x, op));
    TS_TRY(ts_tensor_check(*y, op));
    *x = ts_half_up(*x);
    *y = ts_half_up(*y);
    TS_TRY(ts_need_same_float(op, "input", *x, "target", *y));
    if (ts_shape_equal((*x)->shape, (*y)->shape)) return TS_OK;
    return ts_fail(TS_ESHAPE, "%s: input %s and target %s differ; nothing is broadcast", op,
                   ts_shape_format(x_text, sizeof x_text, (*x)->shape),
                   ts_shape_format(y_text, sizeof y_text, (*y)->shape));
}

typedef ts_tensor *pointwise(ts_tensor *x, ts_tensor *y, double parameter);

static ts_tensor *loss_of(const char *op, pointwise *each, ts_tensor *input, ts_tensor *target,
                          double parameter, ts_reduction reduction)
{
    ts_tensor *x = input, *y = target;
    ts_status status = take_pair(op, &x, &y);
    if (status == TS_OK) status = check_reduction(op, reduction);
    if (status != TS_OK) return ts_fail_tensor_last(status);
    return ts_to_dtype(reduce(each(x, y, parameter), reduction), (ts_dtype)input->dtype);
}

static ts_tensor *squared(ts_tensor *x, ts_tensor *y, double unused)
{
    (void)unused;
    return ts_pow_scalar(ts_sub(x, y), 2);
}

static ts_tensor *absolute(ts_tensor *x, ts_tensor *y, double unused)
{
    (void)unused;
    return ts_abs(ts_sub(x, y));
}

/* With d = x - y and c = d within +-delta: c (d - c / 2) */
static ts_tensor *huber(ts_tensor *x, ts_tensor *y, double delta)
{
    ts_tensor *d = ts_sub(x, y), *c = ts_clamp(d, -delta, delta);
    return ts_mul(c, ts_sub(d, ts_mul_scalar(c, 0.5)));
}

static ts_tensor *smooth(ts_tensor *x, ts_tensor *y, double beta)
{
    return beta > 0 ? ts_div_scalar(huber(x, y, beta), beta) : absolute(x, y, 0);
}

/* y (log y - x), where 0 log 0 is 0 */
static ts_tensor *divergence(ts_tensor *x, ts_tensor *y, double log_target)
{
    if (log_target != 0) return ts_mul(ts_exp(y), ts_sub(y, x));
    return ts_mul(y, ts_sub(ts_log(ts_masked_fill(y, ts_eq_scalar(y, 0), 1)), x));
}

ts_tensor *ts_mse_loss_reduced(ts_tensor *input, ts_tensor *target, ts_reduction reduction)
{
    if (reduction == TS_REDUCTION_MEAN) return ts_mse_loss(input, target);
    return loss_of("mse_loss", squared, input, target, 0, reduction);
}

ts_tensor *ts_l1_loss(ts_tensor *input, ts_tensor *target, ts_reduction reduction)
{
    return loss_of("l1_loss", absolute, input, target, 0, reduction);
}

ts_tensor *ts_smooth_l1_loss(ts_tensor *input, ts_tensor *target, double beta,
                             ts_reduction reduction)
{
    if (!(beta >= 0))
        return ts_fail_tensor(TS_EINVAL, "smooth_l1_loss: beta is %g; it must not be negative",
                              beta);
    return loss_of("smooth_l1_loss", smooth, input, target, beta, reduction);
}

ts_tensor *ts_huber_loss(ts_tensor *input, ts_tensor *target, double delta, ts_reduction reduction)
{
    if (!(delta > 0))
        return ts_fail_tensor(TS_EINVAL, "huber_loss: delta is %g; it must be positive", delta);
    return loss_of("huber_loss", huber, input, target, delta, reduction);
}

ts_tensor *ts_kl_div(ts_tensor *input, ts_tensor *target, bool log_target, ts_reduction reduction)
{
    return loss_of("kl_div", divergence, input, target, log_target, reduction);
}

/* ---- binary cross-entropy -------------------------------------------------------------------- */

/* log(1 + e^x), whose slope is sigmoid(x) */
static ts_status softplus_infer(const ts_op_call *call, ts_spec *out)
{
    TS_TRY(ts_need_float("softplus", "input", call->in[0]));
    *out = ts_tensor_spec(call->in[0]);
    return TS_OK;
}

typedef struct softplus_job {
    const char *x;
    char *y;
    bool f64;
} softplus_job;

static void softplus_part(int64_t begin, int64_t end, void *user)
{
    const softplus_job *job = user;
    for (int64_t i = begin; i < end; i++) {
        double x = ts_read_at(job->x, job->f64, i);
        ts_write_at(job->y, job->f64, i, (x > 0 ? x : x <= 0 ? 0 : x) + log1p(exp(-fabs(x))));
    }
}

static ts_status softplus_kernel(ts_op_call *call)
{
    softplus_job job = {.f64 = call->out[0]->dtype == TS_FLOAT64};
    if (call->out[0]->numel == 0) return TS_OK;
    TS_TRY(ts_row_major_data(&job.x, call->in[0], "softplus"));
    job.y = ts_tensor_bytes(call->out[0]);
    ts_parallel_for(call->out[0]->numel, 1024, softplus_part, &job);
    return TS_OK;
}

static ts_status softplus_backward(const ts_backward_call *call)
{
    call->grad_in[0] = ts_mul(call->grad_out[0], ts_sigmoid(call->in[0]));
    return TS_OK;
}

static const ts_op_def softplus_row = {.name = "softplus",
                                       .num_out = 1,
                                       .save_in = 1,
                                       .infer = softplus_infer,
                                       .kernel = {[TS_CPU] = softplus_kernel},
                                       .backward = softplus_backward};

static ts_tensor *one_minus(ts_tensor *t) { return ts_add_scalar(ts_neg(t), 1); }

/* (1 - y) x + (1 + (p - 1) y) log(1 + e^-x), with p = 1 unless positives have a weight */
static ts_tensor *binary_cross_entropy(ts_tensor *x, ts_tensor *y, ts_tensor *pos_weight)
{
    ts_tensor *log_part = ts_dispatch1(&softplus_row, ts_neg(x));
    if (pos_weight)
        log_part = ts_mul(log_part, one_minus(ts_mul(one_minus(ts_half_up(pos_weight)), y)));
    return ts_add(ts_mul(one_minus(y), x), log_part);
}

ts_tensor *
ts_binary_cross_entropy_with_logits(ts_tensor *logits, ts_tensor *target,
                                    const ts_binary_cross_entropy_with_logits_options *opt)
{
    static const char op[] = "binary_cross_entropy_with_logits";
    ts_binary_cross_entropy_with_logits_options o =
        TS_BINARY_CROSS_ENTROPY_WITH_LOGITS_OPTIONS_INIT;
    ts_tensor *x = logits, *y = target;
    ts_status status = ts_options_read(&o, sizeof o, opt, op);
    if (status == TS_OK) status = take_pair(op, &x, &y);
    if (status == TS_OK) status = check_reduction(op, o.reduction);
    if (status != TS_OK) return ts_fail_tensor_last(status);
    ts_tensor *each = binary_cross_entropy(x, y, o.pos_weight);
    if (o.weight) each = ts_mul(each, ts_half_up(o.weight));
    if (!ts_failed(each) && !ts_shape_equal(each->shape, x->shape)) {
        char wide[TS_SHAPE_TEXT], text[TS_SHAPE_TEXT];
        return ts_fail_tensor(TS_ESHAPE, "%s: with the weights, logits %s become %s", op,
                              ts_shape_format(text, sizeof text, x->shape),
                              ts_shape_format(wide, sizeof wide, each->shape));
    }
    return ts_to_dtype(reduce(each, o.reduction), (ts_dtype)logits->dtype);
}

/* ---- negative log-likelihood ----------------------------------------------------------------- */

static ts_status check_targets(const ts_tensor *x, const ts_tensor *target, int dim)
{
    char x_text[TS_SHAPE_TEXT], t_text[TS_SHAPE_TEXT];
    ts_shape want = {0};
    for (int d = 0; d < x->shape.ndim; d++)
        if (d != dim) want.dim[want.ndim++] = x->shape.dim[d];
    if (x->shape.ndim > 0 && ts_shape_equal(want, target->shape)) return TS_OK;
    return ts_fail(TS_ESHAPE,
                   "nll_loss: input %s and target %s do not fit; they must be (N, C, ...) and "
                   "(N, ...), or (C) and ()",
                   ts_shape_format(x_text, sizeof x_text, x->shape),
                   ts_shape_format(t_text, sizeof t_text, target->shape));
}

static ts_status check_nll(ts_tensor *x, ts_tensor *target, ts_tensor *weight, int dim)
{
    TS_TRY(ts_need_float("nll_loss", "input", x));
    TS_TRY(ts_need_dtype("nll_loss", "target", target, TS_INT64));
    TS_TRY(check_targets(x, target, dim));
    if (!weight) return TS_OK;
    TS_TRY(ts_tensor_check(weight, "nll_loss: weight"));
    TS_TRY(ts_need_same_float("nll_loss", "input", x, "weight", weight));
    if (ts_shape_equal(weight->shape, TS_SHAPE(x->shape.dim[dim]))) return TS_OK;
    return ts_fail(TS_ESHAPE, "nll_loss: weight must have shape (%lld,)",
                   (long long)x->shape.dim[dim]);
}

/* One weight per target, 0 for ignored ones. */
static ts_tensor *weights_of(ts_tensor *x, ts_tensor *target, ts_tensor *ignored, ts_tensor *weight)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    ts_shape shape = target->shape;
    opt.dtype = (ts_dtype)x->dtype;
    opt.device = (ts_device)x->device;
    if (!weight) return ts_masked_fill(ts_ones(shape, &opt), ignored, 0);
    ts_tensor *flat = ts_reshape(target, TS_SHAPE(ts_numel(target)));
    return ts_masked_fill(ts_reshape(ts_index_select(weight, 0, flat), shape), ignored, 0);
}

static ts_tensor *nll_loss(ts_tensor *x, ts_tensor *target, ts_tensor *weight, int dim,
                           const ts_nll_loss_options *opt)
{
    ts_tensor *ignored = ts_eq_scalar(target, (double)opt->ignore_index);
    ts_tensor *class = ts_masked_fill(target, ignored, 0);
    ts_tensor *picked = ts_squeeze(ts_gather_dim(x, dim, ts_unsqueeze(class, dim)), dim);
    ts_tensor *w = weights_of(x, class, ignored, weight);
    ts_tensor *each = ts_masked_fill(ts_neg(ts_mul(picked, w)), ignored, 0);
    if (opt->reduction == TS_REDUCTION_MEAN) return ts_div(ts_sum(each), ts_sum(w));
    return reduce(each, opt->reduction);
}

ts_tensor *ts_nll_loss(ts_tensor *input, ts_tensor *target, const ts_nll_loss_options *opt)
{
    ts_nll_loss_options o = TS_NLL_LOSS_OPTIONS_INIT;
    ts_status status = ts_options_read(&o, sizeof o, opt, "nll_loss");
    if (status == TS_OK) status = check_reduction("nll_loss", o.reduction);
    if (status == TS_OK && (!input || !target))
        status = ts_fail(TS_EINVAL, "nll_loss: input and target must not be NULL");
    if (status == TS_OK) status = ts_tensor_check(input, "nll_loss");
    if (status == TS_OK) status = ts_tensor_check(target, "nll_loss");
    if (status != TS_OK) return ts_fail_tensor_last(status);
    ts_tensor *x = ts_half_up(input), *weight = o.weight ? ts_half_up(o.weight) : NULL;
    int dim = x->shape.ndim > 1;
    status = check_nll(x, target, weight, dim);
    if (status != TS_OK) return ts_fail_tensor_last(status);
    return ts_to_dtype(nll_loss(x, target, weight, dim, &o), (ts_dtype)input->dtype);
}

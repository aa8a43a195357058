/* SPDX-License-Identifier: Apache-2.0 */
/* Cross-entropy of logits against class numbers, fused: only the log-sum-exp per row is kept, and
 * backward writes the gradient of the logits directly.  The rows of the operation are (..., C).
 *
 * With smoothing e, C classes and class weights w (1 if there are none), a row has the loss
 *     (1 - e) w[target] (lse - x[target]) + e / C sum_j w[j] (lse - x[j])
 * and the gradient
 *     a softmax(x) - (1 - e) w[target] [j = target] - e / C w[j]
 * with a = (1 - e) w[target] + e / C sum w.  The mean divides by the sum of w[target]. */
#include "base/options.h"
#include "ops/nn_impl.h"

enum { AT_REDUCTION, AT_IGNORE, AT_SMOOTHING, NUM_ATTRS };

static int64_t classes_of(const ts_tensor *logits)
{
    return logits->shape.dim[logits->shape.ndim - 1];
}

/* Shape as the caller gave it: with the classes second if there are more than two dimensions. */
static ts_shape given_shape(const ts_tensor *x)
{
    ts_shape shape = x->shape;
    for (int d = shape.ndim - 1; d > 1; d--) shape.dim[d] = x->shape.dim[d - 1];
    if (shape.ndim > 1) shape.dim[1] = classes_of(x);
    return shape;
}

static ts_status check_shapes(const ts_tensor *x, const ts_tensor *target)
{
    char x_text[TS_SHAPE_TEXT], t_text[TS_SHAPE_TEXT];
    ts_shape rows = x->shape;
    rows.ndim--;
    if (x->shape.ndim > 0 && ts_shape_equal(rows, target->shape)) return TS_OK;
    return ts_fail(TS_ESHAPE,
                   "cross_entropy: logits %s and target %s do not fit; they must be (N, C, ...) "
                   "and (N, ...), or (C) and ()",
                   ts_shape_format(x_text, sizeof x_text, given_shape(x)),
                   ts_shape_format(t_text, sizeof t_text, target->shape));
}

static ts_status check_weight(const ts_tensor *x, const ts_tensor *weight)
{
    char text[TS_SHAPE_TEXT];
    if (!weight) return TS_OK;
    TS_TRY(ts_need_same_float("cross_entropy", "logits", x, "weight", weight));
    if (ts_shape_equal(weight->shape, TS_SHAPE(classes_of(x)))) return TS_OK;
    return ts_fail(TS_ESHAPE, "cross_entropy: weight has shape %s; there are %lld classes",
                   ts_shape_format(text, sizeof text, weight->shape), (long long)classes_of(x));
}

static ts_status cross_entropy_infer(const ts_op_call *call, ts_spec *out)
{
    const ts_tensor *x = call->in[0], *target = call->in[1];
    double smoothing = call->attr[AT_SMOOTHING].f;
    int64_t reduction = call->attr[AT_REDUCTION].i;
    TS_TRY(ts_need_float("cross_entropy", "logits", x));
    TS_TRY(ts_need_dtype("cross_entropy", "target", target, TS_INT64));
    TS_TRY(check_shapes(x, target));
    TS_TRY(check_weight(x, call->in[2]));
    if (!(smoothing >= 0 && smoothing <= 1))
        return ts_fail(TS_EINVAL, "cross_entropy: label_smoothing is %g; it must be in 0 .. 1",
                       smoothing);
    if (reduction < TS_REDUCTION_MEAN || reduction > TS_REDUCTION_NONE)
        return ts_fail(TS_EINVAL, "cross_entropy: %lld is not a reduction", (long long)reduction);
    out[0] = out[1] = ts_tensor_spec(x);
    out[0].shape = reduction == TS_REDUCTION_NONE ? target->shape : ts_shape_scalar();
    out[1].shape = target->shape;
    return TS_OK;
}

static bool is_class(int64_t target, int64_t classes) { return target >= 0 && target < classes; }

typedef struct loss_job {
    const ts_nn_kernels *kernels;
    const char *x, *weight; /* weight may be NULL */
    const int64_t *target;
    void *lse, *grad_x;
    const void *grad; /* backward: of the loss, one value or one per row */
    double *loss;
    int64_t classes, ignore, esize, rows;
    double smoothing, all_weights; /* sum over the classes */
    double counted;                /* sum of the weights of the targets that count */
    int reduction;
    bool f64;
} loss_job;

static double weight_of(const loss_job *job, int64_t class)
{
    return job->weight ? ts_read_at(job->weight, job->f64, class) : 1;
}

/* Adds up what counts; TS_EINVAL names the first target that is no class. */
static ts_status check_targets(loss_job *job)
{
    for (int64_t i = 0; i < job->rows; i++) {
        int64_t target = job->target[i];
        if (target == job->ignore) continue;
        if (!is_class(target, job->classes))
            return ts_fail(TS_EINVAL,
                           "cross_entropy: target %lld at position %lld is not in 0 .. %lld (nor "
                           "ignore_index %lld)",
                           (long long)target, (long long)i, (long long)job->classes - 1,
                           (long long)job->ignore);
        job->counted += weight_of(job, target);
    }
    return TS_OK;
}

/* sum_j w[j] (lse - x[j]) */
static double even_loss(const loss_job *job, const void *x, double lse, double sum)
{
    if (job->weight) sum = job->kernels->dot(job->weight, x, job->classes);
    return job->all_weights * lse - sum;
}

static void losses(int64_t begin, int64_t end, void *user)
{
    const loss_job *job = user;
    for (int64_t i = begin; i < end; i++) {
        const void *x = job->x + i * job->classes * job->esize;
        int64_t target = job->target[i];
        double lse, sum;
        job->kernels->log_sum_exp(&lse, &sum, x, job->classes);
        ts_write_at(job->lse, job->f64, i, lse);
        if (target == job->ignore) {
            job->loss[i] = 0;
            continue;
        }
        double e = job->smoothing;
        job->loss[i] = (1 - e) * weight_of(job, target) * (lse - ts_read_at(x, job->f64, target));
        if (e > 0) job->loss[i] += e / (double)job->classes * even_loss(job, x, lse, sum);
    }
}

/* Makes the inputs row-major and fills what both directions need. */
static ts_status start_job(loss_job *job, const ts_op_call *call)
{
    ts_tensor *x = ts_row_major(call->in[0]), *target = ts_row_major(call->in[1]);
    TS_TRY(ts_tensor_check(x, "cross_entropy: logits"));
    TS_TRY(ts_tensor_check(target, "cross_entropy: target"));
    *job = (loss_job){.kernels = ts_nn_kernels_for((ts_dtype)x->dtype)};
    TS_TRY(ts_row_major_data(&job->weight, call->in[2], "cross_entropy: weight"));
    job->f64 = x->dtype == TS_FLOAT64;
    job->esize = ts_esize(x);
    job->classes = classes_of(x);
    job->x = ts_tensor_bytes(x);
    job->target = (const int64_t *)(const void *)ts_tensor_bytes(target);
    job->ignore = call->attr[AT_IGNORE].i;
    job->smoothing = call->attr[AT_SMOOTHING].f;
    job->reduction = (int)call->attr[AT_REDUCTION].i;
    job->rows = target->numel;
    for (int64_t j = 0; j < job->classes; j++) job->all_weights += weight_of(job, j);
    return check_targets(job);
}

static void store_losses(const loss_job *job, ts_tensor *out, int64_t rows)
{
    void *to = out->numel ? ts_tensor_bytes(out) : NULL;
    double sum = 0;
    if (job->reduction == TS_REDUCTION_NONE) {
        for (int64_t i = 0; i < rows; i++) ts_write_at(to, job->f64, i, job->loss[i]);
        return;
    }
    for (int64_t i = 0; i < rows; i++) sum += job->loss[i];
    if (job->reduction == TS_REDUCTION_MEAN) sum /= job->counted; /* 0 / 0: NaN */
    ts_write_at(to, job->f64, 0, sum);
}

static ts_status cross_entropy_kernel(ts_op_call *call)
{
    loss_job job;
    ts_storage *scratch;
    int64_t rows = call->in[1]->numel;
    TS_TRY(start_job(&job, call));
    TS_TRY(ts_scratch_new(&scratch, (size_t)rows * sizeof(double)));
    job.loss = scratch->data;
    job.lse = rows ? ts_tensor_bytes(call->out[1]) : NULL;
    if (job.classes == 0) {
        for (int64_t i = 0; i < rows; i++) job.loss[i] = 0; /* all are ignored */
    } else {
        ts_parallel_for(rows, ts_row_grain(job.classes), losses, &job);
    }
    store_losses(&job, call->out[0], rows);
    ts_storage_release(scratch);
    return TS_OK;
}

/* ---- backward -------------------------------------------------------------------------------- */

static double row_scale(const loss_job *job, int64_t i)
{
    if (job->target[i] == job->ignore) return 0;
    double g = ts_read_at(job->grad, job->f64, job->reduction == TS_REDUCTION_NONE ? i : 0);
    return job->reduction == TS_REDUCTION_MEAN ? g / job->counted : g;
}

static void gradient(const loss_job *job, void *to, const void *x, double lse, int64_t target,
                     double scale)
{
    double e = job->smoothing / (double)job->classes, w = weight_of(job, target);
    double sure = scale * (1 - job->smoothing) * w;
    if (job->weight) {
        job->kernels->softmax_minus(to, x, job->classes, lse, sure + scale * e * job->all_weights,
                                    0);
        if (e > 0) job->kernels->add_scaled(to, job->weight, job->classes, -scale * e);
    } else {
        job->kernels->softmax_minus(to, x, job->classes, lse, scale, e);
    }
    ts_write_at(to, job->f64, target, ts_read_at(to, job->f64, target) - sure);
}

static void gradients(int64_t begin, int64_t end, void *user)
{
    const loss_job *job = user;
    int64_t row_bytes = job->classes * job->esize;
    for (int64_t i = begin; i < end; i++) {
        char *to = (char *)job->grad_x + i * row_bytes;
        if (job->target[i] == job->ignore)
            memset(to, 0, (size_t)row_bytes);
        else
            gradient(job, to, job->x + i * row_bytes, ts_read_at(job->lse, job->f64, i),
                     job->target[i], row_scale(job, i));
    }
}

/* in: logits, target, weight, lse, gradient of the loss */
static ts_status grad_infer(const ts_op_call *call, ts_spec *out)
{
    *out = ts_tensor_spec(call->in[0]);
    return TS_OK;
}

static ts_status grad_kernel(ts_op_call *call)
{
    loss_job job;
    const char *lse, *grad;
    if (call->out[0]->numel == 0) return TS_OK;
    TS_TRY(ts_row_major_data(&lse, call->in[3], "cross_entropy"));
    TS_TRY(ts_row_major_data(&grad, call->in[4], "cross_entropy"));
    TS_TRY(start_job(&job, call));
    job.lse = (void *)(uintptr_t)lse;
    job.grad = grad;
    job.grad_x = ts_tensor_bytes(call->out[0]);
    ts_parallel_for(job.rows, ts_row_grain(job.classes), gradients, &job);
    return TS_OK;
}

static ts_tensor *gradient_of(const ts_op_def *row, const ts_attr *attr, ts_tensor *const *in)
{
    ts_op_call call = {.def = row, .in = in, .num_in = 5, .num_attrs = NUM_ATTRS};
    memcpy(call.attr, attr, NUM_ATTRS * sizeof *attr);
    return ts_dispatch(&call);
}

/* a of every row, times the factor that the reduction gives it; 0 for rows that are ignored. */
static ts_tensor *row_factors(const ts_backward_call *call)
{
    ts_tensor *x = call->in[0], *target = call->in[1], *weight = call->in[2];
    double e = call->attr[AT_SMOOTHING].f;
    ts_tensor *ignored = ts_eq_scalar(target, (double)call->attr[AT_IGNORE].i);
    ts_tensor *flat = ts_reshape(ts_masked_fill(target, ignored, 0), TS_SHAPE(target->numel));
    if (!weight) weight = ts_ones_like(ts_select(ts_reshape(x, TS_SHAPE(-1, classes_of(x))), 0, 0));
    ts_tensor *w = ts_reshape(ts_index_select(weight, 0, flat), target->shape);
    w = ts_masked_fill(w, ignored, 0);
    ts_tensor *even = ts_mul_scalar(ts_mean(weight), e);
    ts_tensor *a = ts_masked_fill(ts_add(ts_mul_scalar(w, 1 - e), even), ignored, 0);
    return call->attr[AT_REDUCTION].i == TS_REDUCTION_MEAN ? ts_div(a, ts_sum(w)) : a;
}

/* z = g (a p - constant) with p = softmax(x); for the gradient h of z:
 * dg = sum h z / g,  dx = g a p (h - sum h p) */
static ts_status grad_backward(const ts_backward_call *call)
{
    ts_tensor *x = call->in[0], *g = call->in[4], *h = call->grad_out[0];
    ts_tensor *const unit[] = {x, call->in[1], call->in[2], call->in[3], ts_ones_like(g)};
    if (x->numel == 0) return TS_OK;
    if (call->needs[4]) {
        ts_tensor *product = ts_mul(h, gradient_of(call->def, call->attr, unit));
        call->grad_in[4] = g->shape.ndim ? ts_sum_dim(product, -1, false) : ts_sum(product);
    }
    if (call->needs[0]) {
        ts_tensor *p = ts_softmax(x, -1), *scale = ts_mul(row_factors(call), g);
        ts_tensor *centred = ts_sub(h, ts_sum_dim(ts_mul(h, p), -1, true));
        call->grad_in[0] = ts_mul(ts_mul(ts_unsqueeze(scale, -1), p), centred);
    }
    return TS_OK;
}

static const ts_op_def grad_row = {.name = "cross_entropy_grad",
                                   .num_out = 1,
                                   .save_in = 31,
                                   .optional_in = 1 << 2,
                                   .infer = grad_infer,
                                   .kernel = {[TS_CPU] = grad_kernel},
                                   .backward = grad_backward};

static ts_status cross_entropy_backward(const ts_backward_call *call)
{
    ts_tensor *const in[] = {call->in[0], call->in[1], call->in[2], call->out[1],
                             call->grad_out[0]};
    if (call->grad_out[0] && call->needs[0])
        call->grad_in[0] = gradient_of(&grad_row, call->attr, in);
    return TS_OK;
}

static const ts_op_def cross_entropy_row = {.name = "cross_entropy",
                                            .num_out = 2,
                                            .save_in = 7,
                                            .save_out = 2,
                                            .optional_in = 1 << 2,
                                            .infer = cross_entropy_infer,
                                            .kernel = {[TS_CPU] = cross_entropy_kernel},
                                            .backward = cross_entropy_backward};

/* (N, C, ...) becomes (N, ..., C), as a view. */
static ts_tensor *classes_last(ts_tensor *logits)
{
    int order[TS_MAX_DIMS] = {0}, n = logits->shape.ndim;
    for (int d = 1; d < n; d++) order[d] = d < n - 1 ? d + 1 : 1;
    return ts_permute(logits, order, n);
}

ts_tensor *ts_cross_entropy(ts_tensor *logits, ts_tensor *target,
                            const ts_cross_entropy_options *opt)
{
    ts_cross_entropy_options o = TS_CROSS_ENTROPY_OPTIONS_INIT;
    ts_status status = ts_options_read(&o, sizeof o, opt, "cross_entropy");
    if (status != TS_OK) return ts_fail_tensor_last(status);
    if (ts_is_half(logits))
        return ts_to_dtype(ts_cross_entropy(ts_half_up(logits), target, opt),
                           (ts_dtype)logits->dtype);
    if (logits && !ts_failed(logits) && logits->shape.ndim > 2) logits = classes_last(logits);
    ts_tensor *const in[] = {logits, target, ts_half_up(o.weight)};
    ts_op_call call = {.def = &cross_entropy_row, .in = in, .num_in = 3, .num_attrs = NUM_ATTRS};
    call.attr[AT_REDUCTION].i = o.reduction;
    call.attr[AT_IGNORE].i = o.ignore_index;
    call.attr[AT_SMOOTHING].f = o.label_smoothing;
    return ts_dispatch(&call);
}

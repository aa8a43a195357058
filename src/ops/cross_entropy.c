/* SPDX-License-Identifier: Apache-2.0 */
/* Cross-entropy of logits against class numbers, fused: only the log-sum-exp per row is kept, and
 * backward writes the gradient of the logits directly.
 *
 * With smoothing e and C classes, row i has the loss
 *     (1 - e) (lse - x[target]) + e / C sum_j (lse - x[j])
 * and the gradient
 *     softmax(x) - (1 - e) [j = target] - e / C. */
#include "ops/nn_impl.h"

enum { AT_REDUCTION, AT_IGNORE, AT_SMOOTHING, NUM_ATTRS };

static int64_t classes_of(const ts_tensor *logits)
{
    return logits->shape.dim[logits->shape.ndim - 1];
}

static ts_status check_shapes(const ts_tensor *x, const ts_tensor *target)
{
    char x_text[TS_SHAPE_TEXT], t_text[TS_SHAPE_TEXT];
    bool fits = x->shape.ndim == 1 ? target->shape.ndim == 0
                                   : x->shape.ndim == 2 && target->shape.ndim == 1 &&
                                         target->shape.dim[0] == x->shape.dim[0];
    if (fits) return TS_OK;
    return ts_fail(
        TS_ESHAPE,
        "cross_entropy: logits %s and target %s do not fit; they must be (N, C) and (N), "
        "or (C) and ()",
        ts_shape_format(x_text, sizeof x_text, x->shape),
        ts_shape_format(t_text, sizeof t_text, target->shape));
}

static ts_status cross_entropy_infer(const ts_op_call *call, ts_spec *out)
{
    const ts_tensor *x = call->in[0], *target = call->in[1];
    double smoothing = call->attr[AT_SMOOTHING].f;
    int64_t reduction = call->attr[AT_REDUCTION].i;
    TS_TRY(ts_need_float("cross_entropy", "logits", x));
    TS_TRY(ts_need_dtype("cross_entropy", "target", target, TS_INT64));
    TS_TRY(check_shapes(x, target));
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

/* Counts the rows that take part; TS_EINVAL names the first target that is no class. */
static ts_status check_targets(int64_t *counted, const int64_t *target, int64_t rows,
                               int64_t classes, int64_t ignore)
{
    *counted = 0;
    for (int64_t i = 0; i < rows; i++) {
        if (target[i] == ignore) continue;
        if (!is_class(target[i], classes))
            return ts_fail(TS_EINVAL,
                           "cross_entropy: target %lld at position %lld is not in 0 .. %lld (nor "
                           "ignore_index %lld)",
                           (long long)target[i], (long long)i, (long long)classes - 1,
                           (long long)ignore);
        ++*counted;
    }
    return TS_OK;
}

typedef struct loss_job {
    const ts_nn_kernels *kernels;
    const char *x;
    const int64_t *target;
    void *lse, *grad_x;
    const void *grad; /* backward: of the loss, one value or one per row */
    double *loss;
    int64_t classes, ignore, esize, counted;
    double smoothing;
    int reduction;
    bool f64;
} loss_job;

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
        double sure = lse - ts_read_at(x, job->f64, target), e = job->smoothing;
        double even = e > 0 ? lse - sum / (double)job->classes : 0;
        job->loss[i] = e > 0 ? (1 - e) * sure + e * even : sure;
    }
}

/* Makes the inputs row-major and fills what both directions need. */
static ts_status start_job(loss_job *job, const ts_op_call *call)
{
    ts_tensor *x = ts_row_major(call->in[0]), *target = ts_row_major(call->in[1]);
    TS_TRY(ts_tensor_check(x, "cross_entropy: logits"));
    TS_TRY(ts_tensor_check(target, "cross_entropy: target"));
    *job = (loss_job){.kernels = ts_nn_kernels_for((ts_dtype)x->dtype)};
    job->f64 = x->dtype == TS_FLOAT64;
    job->esize = ts_esize(x);
    job->classes = classes_of(x);
    job->x = ts_tensor_bytes(x);
    job->target = (const int64_t *)(const void *)ts_tensor_bytes(target);
    job->ignore = call->attr[AT_IGNORE].i;
    job->smoothing = call->attr[AT_SMOOTHING].f;
    job->reduction = (int)call->attr[AT_REDUCTION].i;
    return check_targets(&job->counted, job->target, target->numel, job->classes, job->ignore);
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
    if (job->reduction == TS_REDUCTION_MEAN) sum /= (double)job->counted; /* 0 / 0: NaN */
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

static double row_weight(const loss_job *job, int64_t i)
{
    if (job->target[i] == job->ignore) return 0;
    double g = ts_read_at(job->grad, job->f64, job->reduction == TS_REDUCTION_NONE ? i : 0);
    return job->reduction == TS_REDUCTION_MEAN ? g / (double)job->counted : g;
}

static void gradients(int64_t begin, int64_t end, void *user)
{
    const loss_job *job = user;
    int64_t row_bytes = job->classes * job->esize;
    for (int64_t i = begin; i < end; i++) {
        double w = row_weight(job, i), even = job->smoothing / (double)job->classes;
        char *to = (char *)job->grad_x + i * row_bytes;
        int64_t target = job->target[i];
        if (target == job->ignore) {
            memset(to, 0, (size_t)row_bytes);
            continue;
        }
        job->kernels->softmax_minus(to, job->x + i * row_bytes, job->classes,
                                    ts_read_at(job->lse, job->f64, i), w, even);
        double at = ts_read_at(to, job->f64, target);
        ts_write_at(to, job->f64, target, at - w * (1 - job->smoothing));
    }
}

/* in: logits, target, lse, gradient of the loss */
static ts_status grad_infer(const ts_op_call *call, ts_spec *out)
{
    *out = ts_tensor_spec(call->in[0]);
    return TS_OK;
}

static ts_status grad_kernel(ts_op_call *call)
{
    loss_job job;
    if (call->out[0]->numel == 0) return TS_OK;
    ts_tensor *lse = ts_row_major(call->in[2]), *grad = ts_row_major(call->in[3]);
    TS_TRY(ts_tensor_check(lse, "cross_entropy"));
    TS_TRY(ts_tensor_check(grad, "cross_entropy"));
    TS_TRY(start_job(&job, call));
    job.lse = ts_tensor_bytes(lse);
    job.grad = ts_tensor_bytes(grad);
    job.grad_x = ts_tensor_bytes(call->out[0]);
    ts_parallel_for(call->in[1]->numel, ts_row_grain(job.classes), gradients, &job);
    return TS_OK;
}

static const ts_op_def grad_row = {.name = "cross_entropy_grad",
                                   .num_out = 1,
                                   .infer = grad_infer,
                                   .kernel = {[TS_CPU] = grad_kernel}};

static ts_status cross_entropy_backward(const ts_backward_call *call)
{
    ts_tensor *const in[] = {call->in[0], call->in[1], call->out[1], call->grad_out[0]};
    ts_op_call grad = {.def = &grad_row, .in = in, .num_in = 4, .num_attrs = NUM_ATTRS};
    memcpy(grad.attr, call->attr, NUM_ATTRS * sizeof *call->attr);
    if (call->grad_out[0]) call->grad_in[0] = ts_dispatch(&grad);
    return TS_OK;
}

static const ts_op_def cross_entropy_row = {.name = "cross_entropy",
                                            .num_out = 2,
                                            .save_in = 3,
                                            .save_out = 2,
                                            .infer = cross_entropy_infer,
                                            .kernel = {[TS_CPU] = cross_entropy_kernel},
                                            .backward = cross_entropy_backward};

ts_tensor *ts_cross_entropy(ts_tensor *logits, ts_tensor *target,
                            const ts_cross_entropy_options *opt)
{
    ts_cross_entropy_options o = TS_CROSS_ENTROPY_OPTIONS_INIT;
    if (opt && opt->struct_size == 0)
        return ts_fail_tensor(TS_EINVAL, "cross_entropy: options were not set up with "
                                         "TS_CROSS_ENTROPY_OPTIONS_INIT");
    if (opt) o = *opt;
    if (ts_is_half(logits))
        return ts_to_dtype(ts_cross_entropy(ts_half_up(logits), target, opt),
                           (ts_dtype)logits->dtype);
    ts_tensor *const in[] = {logits, target};
    ts_op_call call = {.def = &cross_entropy_row, .in = in, .num_in = 2, .num_attrs = NUM_ATTRS};
    call.attr[AT_REDUCTION].i = o.reduction;
    call.attr[AT_IGNORE].i = o.ignore_index;
    call.attr[AT_SMOOTHING].f = o.label_smoothing;
    return ts_dispatch(&call);
}

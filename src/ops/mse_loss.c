/* SPDX-License-Identifier: Apache-2.0 */
/* loss = avg (x - y)^2    dx = 2 dloss / n (x - y) = -dy */
#include "ops/nn_impl.h"

enum { PART = 16384 };

static ts_status mse_infer(const ts_op_call *call, ts_spec *out)
{
    const ts_tensor *x = call->in[0], *y = call->in[1];
    char x_text[TS_SHAPE_TEXT], y_text[TS_SHAPE_TEXT];
    TS_TRY(ts_need_same_float("mse_loss", "input", x, "target", y));
    if (!ts_shape_equal(x->shape, y->shape))
        return ts_fail(TS_ESHAPE,
                       "mse_loss: input %s and target %s differ; nothing is broadcast, use "
                       "ts_reshape or ts_expand",
                       ts_shape_format(x_text, sizeof x_text, x->shape),
                       ts_shape_format(y_text, sizeof y_text, y->shape));
    *out = ts_tensor_spec(x);
    out->shape = call->num_in == 3 ? x->shape : ts_shape_scalar();
    return TS_OK;
}

typedef struct mse_job {
    const ts_nn_kernels *kernels;
    const char *x, *y;
    char *grad;
    double *part;
    double scale;
    int64_t esize;
} mse_job;

static void sum_part(int64_t begin, int64_t end, void *user)
{
    const mse_job *job = user;
    int64_t at = begin * job->esize;
    job->part[begin / PART] = job->kernels->squared_distance(job->x + at, job->y + at, end - begin);
}

static void grad_part(int64_t begin, int64_t end, void *user)
{
    const mse_job *job = user;
    int64_t at = begin * job->esize;
    job->kernels->scaled_difference(job->grad + at, job->x + at, job->y + at, job->scale,
                                    end - begin);
}

static ts_status start_job(mse_job *job, const ts_op_call *call)
{
    ts_tensor *x = ts_row_major(call->in[0]), *y = ts_row_major(call->in[1]);
    TS_TRY(ts_tensor_check(x, "mse_loss: input"));
    TS_TRY(ts_tensor_check(y, "mse_loss: target"));
    *job = (mse_job){.kernels = ts_nn_kernels_for((ts_dtype)x->dtype), .esize = ts_esize(x)};
    job->x = ts_tensor_bytes(x);
    job->y = ts_tensor_bytes(y);
    return TS_OK;
}

static ts_status mse_kernel(ts_op_call *call)
{
    int64_t n = call->in[0]->numel, parts = (n + PART - 1) / PART;
    ts_storage *scratch;
    mse_job job;
    double sum = 0;
    TS_TRY(start_job(&job, call));
    TS_TRY(ts_scratch_new(&scratch, (size_t)parts * sizeof(double)));
    job.part = scratch->data;
    ts_parallel_for(n, PART, sum_part, &job);
    for (int64_t i = 0; i < parts; i++) sum += job.part[i];
    ts_storage_release(scratch);
    return ts_tensor_fill_data(call->out[0], sum / (double)n); /* 0 / 0: NaN */
}

static ts_status mse_grad_kernel(ts_op_call *call)
{
    mse_job job;
    ts_tensor *grad = call->in[2], *out = call->out[0];
    if (out->numel == 0) return TS_OK;
    TS_TRY(start_job(&job, call));
    const void *g = ts_tensor_bytes(grad);
    double value = grad->dtype == TS_FLOAT64 ? *(const double *)g : (double)*(const float *)g;
    job.scale = 2 * value / (double)out->numel;
    job.grad = ts_tensor_bytes(out);
    ts_parallel_for(out->numel, PART, grad_part, &job);
    return TS_OK;
}

/* z = 2 g / n (x - y), so for the gradient h of z: dx = 2 g / n h = -dy, dg = 2 / n sum h (x - y)
 */
static ts_status mse_grad_backward(const ts_backward_call *call)
{
    ts_tensor *x = call->in[0], *y = call->in[1], *g = call->in[2], *h = call->grad_out[0];
    ts_tensor *scaled = ts_mul_scalar(h, 2 / (double)ts_numel(h));
    if (call->needs[0]) call->grad_in[0] = ts_mul(scaled, g);
    if (call->needs[1]) call->grad_in[1] = ts_neg(ts_mul(scaled, g));
    if (call->needs[2]) call->grad_in[2] = ts_sum(ts_mul(scaled, ts_sub(x, y)));
    return TS_OK;
}

static const ts_op_def mse_grad_row = {.name = "mse_loss_grad",
                                       .num_out = 1,
                                       .save_in = 7,
                                       .infer = mse_infer,
                                       .kernel = {[TS_CPU] = mse_grad_kernel},
                                       .backward = mse_grad_backward};

static ts_status mse_backward(const ts_backward_call *call)
{
    ts_tensor *dx = ts_dispatch3(&mse_grad_row, call->in[0], call->in[1], call->grad_out[0]);
    if (call->needs[0]) call->grad_in[0] = dx;
    if (call->needs[1]) call->grad_in[1] = ts_neg(dx);
    return TS_OK;
}

static const ts_op_def mse_row = {.name = "mse_loss",
                                  .num_out = 1,
                                  .save_in = 3,
                                  .infer = mse_infer,
                                  .kernel = {[TS_CPU] = mse_kernel},
                                  .backward = mse_backward};

ts_tensor *ts_mse_loss(ts_tensor *input, ts_tensor *target)
{
    if (ts_is_half(input) && ts_is_half(target) && input->dtype == target->dtype)
        return ts_to_dtype(ts_mse_loss(ts_half_up(input), ts_half_up(target)),
                           (ts_dtype)input->dtype);
    return ts_dispatch2(&mse_row, input, target);
}

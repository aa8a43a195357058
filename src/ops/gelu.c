/* SPDX-License-Identifier: Apache-2.0 */
/* GELU, in its exact and its tanh form, up to the second derivative. */
#include "ops/nn_impl.h"

typedef struct gelu_job {
    void (*forward)(void *y, const void *x, int64_t n);
    void (*gradient)(void *dx, const void *x, const void *dy, int64_t n);
    char *to;
    const char *x, *dy;
    int64_t esize;
} gelu_job;

static void run_part(int64_t begin, int64_t end, void *user)
{
    const gelu_job *job = user;
    int64_t at = begin * job->esize;
    if (job->forward)
        job->forward(job->to + at, job->x + at, end - begin);
    else
        job->gradient(job->to + at, job->x + at, job->dy + at, end - begin);
}

static ts_status run_job(gelu_job job, ts_tensor *out, ts_tensor *x, ts_tensor *dy)
{
    if (out->numel == 0) return TS_OK;
    x = ts_row_major(x);
    TS_TRY(ts_tensor_check(x, "gelu"));
    if (dy) {
        dy = ts_row_major(dy);
        TS_TRY(ts_tensor_check(dy, "gelu"));
        job.dy = ts_tensor_bytes(dy);
    }
    job.esize = ts_esize(out);
    job.to = ts_tensor_bytes(out);
    job.x = ts_tensor_bytes(x);
    ts_parallel_for(out->numel, 16384, run_part, &job);
    return TS_OK;
}

static ts_status gelu_infer(const ts_op_call *call, ts_spec *out)
{
    TS_TRY(ts_need_float("gelu", "input", call->in[0]));
    if (call->attr[0].i != TS_GELU_ERF && call->attr[0].i != TS_GELU_TANH)
        return ts_fail(TS_EINVAL, "gelu: form %lld is neither TS_GELU_ERF nor TS_GELU_TANH",
                       (long long)call->attr[0].i);
    *out = ts_tensor_spec(call->in[0]);
    return TS_OK;
}

static ts_status gelu_kernel(ts_op_call *call)
{
    const ts_nn_kernels *kernels = ts_nn_kernels_for((ts_dtype)call->out[0]->dtype);
    gelu_job job = {.forward =
                        call->attr[0].i == TS_GELU_TANH ? kernels->gelu_tanh : kernels->gelu_erf};
    return run_job(job, call->out[0], call->in[0], NULL);
}

static ts_status gelu_grad_kernel(ts_op_call *call)
{
    const ts_nn_kernels *kernels = ts_nn_kernels_for((ts_dtype)call->out[0]->dtype);
    gelu_job job = {.gradient = call->attr[0].i == TS_GELU_TANH ? kernels->gelu_tanh_grad
                                                                : kernels->gelu_erf_grad};
    return run_job(job, call->out[0], call->in[0], call->in[1]);
}

static ts_tensor *gelu_dispatch(const ts_op_def *row, ts_tensor *const *in, int n, int64_t form)
{
    ts_op_call call = {.def = row, .in = in, .num_in = n, .num_attrs = 1, .attr = {{.i = form}}};
    return ts_dispatch(&call);
}

/* The second derivative over normal density: erf 2 - x^2; tanh form with s = 1 / (1 + exp(-w)),
 * w = 2 u:  s (1 - s) (2 w' + x w'' + x w'^2 (1 - 2 s)). */
static ts_tensor *second_derivative(ts_tensor *x, int64_t form)
{
    ts_tensor *square = ts_mul(x, x);
    if (form == TS_GELU_ERF) {
        ts_tensor *density =
            ts_mul_scalar(ts_exp(ts_mul_scalar(square, -0.5)), 0.39894228040143268);
        return ts_mul(density, ts_add_scalar(ts_neg(square), 2));
    }
    const double c = 2 * 0.79788456080286536;
    ts_tensor *w1 = ts_add_scalar(ts_mul_scalar(square, 3 * 0.044715 * c), c);
    ts_tensor *w = ts_mul(x, ts_add_scalar(ts_mul_scalar(square, 0.044715 * c), c));
    ts_tensor *s = ts_sigmoid(w), *t = ts_sigmoid(ts_neg(w));
    ts_tensor *curve = ts_mul_scalar(square, 6 * 0.044715 * c); /* x w'' */
    ts_tensor *inner = ts_add(ts_add(ts_mul_scalar(w1, 2), curve),
                              ts_mul(ts_mul(x, ts_mul(w1, w1)), ts_sub(t, s)));
    return ts_mul(ts_mul(s, t), inner);
}

static ts_status gelu_grad_backward(const ts_backward_call *call);

static const ts_op_def gelu_grad_row = {.name = "gelu_grad",
                                        .num_out = 1,
                                        .save_in = 3,
                                        .infer = gelu_infer,
                                        .kernel = {[TS_CPU] = gelu_grad_kernel},
                                        .backward = gelu_grad_backward};

/* z = f'(x) g;  dx = h g f''(x),  dg = h f'(x) */
static ts_status gelu_grad_backward(const ts_backward_call *call)
{
    ts_tensor *x = call->in[0], *g = call->in[1], *h = call->grad_out[0];
    int64_t form = call->attr[0].i;
    if (call->needs[0]) call->grad_in[0] = ts_mul(ts_mul(h, g), second_derivative(x, form));
    if (call->needs[1])
        call->grad_in[1] = gelu_dispatch(&gelu_grad_row, (ts_tensor *[]){x, h}, 2, form);
    return TS_OK;
}

static ts_status gelu_backward(const ts_backward_call *call)
{
    ts_tensor *const in[] = {call->in[0], call->grad_out[0]};
    call->grad_in[0] = gelu_dispatch(&gelu_grad_row, in, 2, call->attr[0].i);
    return TS_OK;
}

static const ts_op_def gelu_row = {.name = "gelu",
                                   .num_out = 1,
                                   .save_in = 1,
                                   .infer = gelu_infer,
                                   .kernel = {[TS_CPU] = gelu_kernel},
                                   .backward = gelu_backward};

ts_tensor *ts_gelu(ts_tensor *a, ts_gelu_form form)
{
    if (ts_is_half(a)) return ts_to_dtype(ts_gelu(ts_half_up(a), form), (ts_dtype)a->dtype);
    return gelu_dispatch(&gelu_row, &a, 1, form);
}

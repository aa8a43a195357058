/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax and its logarithm over the last dimension; others are brought there by a transposed view.
 */
#include "ops/nn_impl.h"

/* The kernels of both have one form: (y, x) and (dx, y, dy). */
typedef struct row_job {
    void (*forward)(void *y, const void *x, int64_t rows, int64_t n);
    void (*gradient)(void *dx, const void *y, const void *dy, int64_t rows, int64_t n);
    char *to;
    const char *a, *b;
    int64_t n, row_bytes;
} row_job;

static void run_rows(int64_t begin, int64_t end, void *user)
{
    const row_job *job = user;
    int64_t at = begin * job->row_bytes;
    if (job->forward)
        job->forward(job->to + at, job->a + at, end - begin, job->n);
    else
        job->gradient(job->to + at, job->a + at, job->b + at, end - begin, job->n);
}

/* Runs job over all rows of out; a and b (may be NULL) are made row-major. */
static ts_status run_job(row_job job, ts_tensor *out, ts_tensor *a, ts_tensor *b)
{
    if (out->numel == 0) return TS_OK;
    a = ts_row_major(a);
    TS_TRY(ts_tensor_check(a, "softmax"));
    if (b) {
        b = ts_row_major(b);
        TS_TRY(ts_tensor_check(b, "softmax"));
    }
    job.n = out->shape.ndim ? out->shape.dim[out->shape.ndim - 1] : 1;
    job.row_bytes = job.n * ts_esize(out);
    job.to = ts_tensor_bytes(out);
    job.a = ts_tensor_bytes(a);
    job.b = b ? ts_tensor_bytes(b) : NULL;
    ts_parallel_for(out->numel / job.n, ts_row_grain(job.n), run_rows, &job);
    return TS_OK;
}

static const ts_nn_kernels *kernels_of(const ts_op_call *call)
{
    return ts_nn_kernels_for((ts_dtype)call->out[0]->dtype);
}

static ts_status same_infer(const ts_op_call *call, ts_spec *out)
{
    TS_TRY(ts_need_float(call->def->name, "input", call->in[0]));
    *out = ts_tensor_spec(call->in[0]);
    return TS_OK;
}

static ts_status softmax_kernel(ts_op_call *call)
{
    return run_job((row_job){.forward = kernels_of(call)->softmax}, call->out[0], call->in[0],
                   NULL);
}

static ts_status softmax_grad_kernel(ts_op_call *call)
{
    return run_job((row_job){.gradient = kernels_of(call)->softmax_grad}, call->out[0], call->in[0],
                   call->in[1]);
}

static ts_status log_softmax_kernel(ts_op_call *call)
{
    return run_job((row_job){.forward = kernels_of(call)->log_softmax}, call->out[0], call->in[0],
                   NULL);
}

static ts_status log_softmax_grad_kernel(ts_op_call *call)
{
    return run_job((row_job){.gradient = kernels_of(call)->log_softmax_grad}, call->out[0],
                   call->in[0], call->in[1]);
}

static ts_tensor *row_sum(ts_tensor *t) { return ts_sum_dim(t, -1, true); }

/* z = y (g - sum(g y));  for the gradient h of z:
 * dg = y (h - sum(h y)),  dy = h (g - sum(g y)) - g sum(h y) */
static ts_status softmax_grad_backward(const ts_backward_call *call)
{
    ts_tensor *y = call->in[0], *g = call->in[1], *h = call->grad_out[0];
    ts_tensor *hy = row_sum(ts_mul(h, y));
    if (call->needs[0])
        call->grad_in[0] = ts_sub(ts_mul(h, ts_sub(g, row_sum(ts_mul(g, y)))), ts_mul(g, hy));
    if (call->needs[1]) call->grad_in[1] = ts_mul(y, ts_sub(h, hy));
    return TS_OK;
}

/* z = g - exp(y) sum(g);  dg = h - sum(h exp(y)),  dy = -h exp(y) sum(g) */
static ts_status log_softmax_grad_backward(const ts_backward_call *call)
{
    ts_tensor *g = call->in[1], *h = call->grad_out[0], *p = ts_exp(call->in[0]);
    if (call->needs[0]) call->grad_in[0] = ts_neg(ts_mul(ts_mul(h, p), row_sum(g)));
    if (call->needs[1]) call->grad_in[1] = ts_sub(h, row_sum(ts_mul(h, p)));
    return TS_OK;
}

static const ts_op_def softmax_grad_row = {.name = "softmax_grad",
                                           .num_out = 1,
                                           .save_in = 3,
                                           .infer = same_infer,
                                           .kernel = {[TS_CPU] = softmax_grad_kernel},
                                           .backward = softmax_grad_backward};

static const ts_op_def log_softmax_grad_row = {.name = "log_softmax_grad",
                                               .num_out = 1,
                                               .save_in = 3,
                                               .infer = same_infer,
                                               .kernel = {[TS_CPU] = log_softmax_grad_kernel},
                                               .backward = log_softmax_grad_backward};

static ts_status softmax_backward(const ts_backward_call *call)
{
    call->grad_in[0] = ts_dispatch2(&softmax_grad_row, call->out[0], call->grad_out[0]);
    return TS_OK;
}

static ts_status log_softmax_backward(const ts_backward_call *call)
{
    call->grad_in[0] = ts_dispatch2(&log_softmax_grad_row, call->out[0], call->grad_out[0]);
    return TS_OK;
}

static const ts_op_def softmax_row = {.name = "softmax",
                                      .num_out = 1,
                                      .save_out = 1,
                                      .infer = same_infer,
                                      .kernel = {[TS_CPU] = softmax_kernel},
                                      .backward = softmax_backward};

static const ts_op_def log_softmax_row = {.name = "log_softmax",
                                          .num_out = 1,
                                          .save_out = 1,
                                          .infer = same_infer,
                                          .kernel = {[TS_CPU] = log_softmax_kernel},
                                          .backward = log_softmax_backward};

static ts_tensor *over_dim(const ts_op_def *row, ts_tensor *a, int dim)
{
    if (!a || ts_failed(a)) return ts_dispatch1(row, a);
    if (ts_is_half(a)) return ts_to_dtype(over_dim(row, ts_half_up(a), dim), (ts_dtype)a->dtype);
    int ndim = a->shape.ndim ? a->shape.ndim : 1;
    int d = ts_wrap_dim(row->name, dim, ndim);
    if (d < 0) return ts_fail_tensor_last(TS_ESHAPE);
    if (d == ndim - 1) return ts_dispatch1(row, a);
    return ts_transpose(ts_dispatch1(row, ts_transpose(a, d, -1)), d, -1);
}

ts_tensor *ts_softmax(ts_tensor *a, int dim) { return over_dim(&softmax_row, a, dim); }
ts_tensor *ts_log_softmax(ts_tensor *a, int dim) { return over_dim(&log_softmax_row, a, dim); }

/* SPDX-License-Identifier: Apache-2.0 */
/* y = x w' + b over the last dimension, as one product whose sums start from the bias. */
#include "ops/nn_impl.h"

static ts_status linear_infer(const ts_op_call *call, ts_spec *out)
{
    const ts_tensor *x = call->in[0], *w = call->in[1], *b = call->in[2];
    char text[TS_SHAPE_TEXT];
    if (w->shape.ndim != 2)
        return ts_fail(TS_ESHAPE, "linear: weight has shape %s; it must be (out, in)",
                       ts_shape_format(text, sizeof text, w->shape));
    if (x->shape.ndim < 1)
        return ts_fail(TS_ESHAPE, "linear: input is 0-dim; it needs a last dimension of %lld",
                       (long long)w->shape.dim[1]);
    int last = x->shape.ndim - 1;
    if (x->shape.dim[last] != w->shape.dim[1])
        return ts_fail(TS_ESHAPE, "linear: input has %lld features, weight expects %lld",
                       (long long)x->shape.dim[last], (long long)w->shape.dim[1]);
    TS_TRY(ts_need_same_float("linear", "input", x, "weight", w));
    if (b) TS_TRY(ts_need_same_float("linear", "input", x, "bias", b));
    if (b && (b->shape.ndim != 1 || b->shape.dim[0] != w->shape.dim[0]))
        return ts_fail(TS_ESHAPE, "linear: bias has shape %s; weight has %lld outputs",
                       ts_shape_format(text, sizeof text, b->shape), (long long)w->shape.dim[0]);
    *out = ts_tensor_spec(x);
    out->shape.dim[last] = w->shape.dim[0];
    return TS_OK;
}

/* Do the rows of t lie at equal distances?  Then *stride is the distance. */
static bool row_stride(int64_t *stride, const ts_tensor *t)
{
    int64_t next = -1; /* stride that the next outer dimension must have */
    *stride = 0;
    for (int d = t->shape.ndim - 2; d >= 0; d--) {
        if (t->shape.dim[d] == 1) continue;
        if (next < 0)
            *stride = t->stride[d];
        else if (t->stride[d] != next)
            return false;
        next = t->stride[d] * t->shape.dim[d];
    }
    return true;
}

static ts_status linear_kernel(ts_op_call *op)
{
    ts_tensor *x = op->in[0], *w = op->in[1], *b = op->in[2], *y = op->out[0];
    int64_t stride;
    if (y->numel == 0) return TS_OK;
    if (!row_stride(&stride, x)) {
        x = ts_row_major(x);
        TS_TRY(ts_tensor_check(x, "linear: input"));
        stride = x->shape.dim[x->shape.ndim - 1];
    }
    if (b) {
        b = ts_row_major(b);
        TS_TRY(ts_tensor_check(b, "linear: bias"));
    }
    ts_gemm_call call = {.dtype = (ts_dtype)y->dtype, .n = w->shape.dim[0], .k = w->shape.dim[1]};
    call.m = y->numel / call.n;
    call.a = (ts_matrix){ts_tensor_bytes(x), stride, x->stride[x->shape.ndim - 1]};
    call.b = (ts_matrix){ts_tensor_bytes(w), w->stride[1], w->stride[0]};
    call.c = ts_tensor_bytes(y);
    call.ldc = call.n;
    call.bias = b ? ts_tensor_bytes(b) : NULL;
    return ts_gemm_run(&call);
}

static ts_tensor *as_rows(ts_tensor *t, int64_t columns)
{
    int64_t rows = columns > 0 ? ts_numel(t) / columns : 0;
    return ts_reshape(t, TS_SHAPE(rows, columns));
}

/* dx = dy w    dw = dy' x    db = sum of the rows of dy */
static ts_status linear_backward(const ts_backward_call *call)
{
    ts_tensor *g = call->grad_out[0], *x = call->in[0], *w = call->in[1];
    ts_shape x_shape = call->in_spec[0].shape;
    int64_t out = call->in_spec[1].shape.dim[0], in = call->in_spec[1].shape.dim[1];
    if (out == 0 || in == 0 || ts_numel(g) == 0) {
        for (int i = 0; i < 2; i++)
            if (call->needs[i]) call->grad_in[i] = ts_zeros(call->in_spec[i].shape, NULL);
        if (call->num_in > 2 && call->needs[2]) call->grad_in[2] = ts_column_sum(g);
        return TS_OK;
    }
    ts_tensor *rows = as_rows(g, out);
    if (call->needs[0]) call->grad_in[0] = ts_reshape(ts_matmul(rows, w), x_shape);
    if (call->needs[1]) call->grad_in[1] = ts_matmul(ts_transpose(rows, 0, 1), as_rows(x, in));
    if (call->needs[2]) call->grad_in[2] = ts_column_sum(rows);
    return TS_OK;
}

static void linear_cost(const ts_op_call *call, double *flops, double *bytes)
{
    const ts_tensor *x = call->in[0], *w = call->in[1], *y = call->out[0];
    *flops = 2.0 * (double)y->numel * (double)w->shape.dim[1];
    *bytes = (double)(ts_nbytes(x) + ts_nbytes(w) + ts_nbytes(y));
}

static const ts_op_def linear_row = {.name = "linear",
                                     .num_out = 1,
                                     .save_in = 3,
                                     .save_in_if = {2, 1},
                                     .optional_in = 1 << 2,
                                     .infer = linear_infer,
                                     .kernel = {[TS_CPU] = linear_kernel},
                                     .backward = linear_backward,
                                     .cost = linear_cost};

ts_tensor *ts_linear(ts_tensor *x, ts_tensor *weight, ts_tensor *bias)
{
    bool half = ts_is_half(x) && ts_is_half(weight) && x->dtype == weight->dtype;
    if (!half) return ts_dispatch3(&linear_row, x, weight, bias);
    ts_tensor *y = ts_linear(ts_half_up(x), ts_half_up(weight), ts_half_up(bias));
    return ts_to_dtype(y, (ts_dtype)x->dtype);
}

/* ---- column_sum ------------------------------------------------------------------------------ */

static ts_status column_sum_infer(const ts_op_call *call, ts_spec *out)
{
    const ts_tensor *t = call->in[0];
    TS_TRY(ts_need_float("column_sum", "input", t));
    if (t->shape.ndim < 1) return ts_fail(TS_ESHAPE, "column_sum: input is 0-dim");
    *out = ts_tensor_spec(t);
    out->shape = TS_SHAPE(t->shape.dim[t->shape.ndim - 1]);
    return TS_OK;
}

typedef struct column_job {
    const ts_nn_kernels *kernels;
    const char *from;
    char *to;
    int64_t rows, n, esize;
} column_job;

static void sum_columns(int64_t begin, int64_t end, void *user)
{
    const column_job *job = user;
    job->kernels->column_sum(job->to + begin * job->esize, job->from + begin * job->esize,
                             job->rows, end - begin, job->n);
}

static ts_status column_sum_kernel(ts_op_call *call)
{
    ts_tensor *t = ts_row_major(call->in[0]), *out = call->out[0];
    TS_TRY(ts_tensor_check(t, "column_sum"));
    column_job job = {.kernels = ts_nn_kernels_for((ts_dtype)t->dtype), .n = out->numel};
    if (job.n == 0) return TS_OK;
    job.rows = t->numel / job.n;
    job.esize = ts_esize(t);
    job.from = job.rows ? ts_tensor_bytes(t) : NULL;
    job.to = ts_tensor_bytes(out);
    if (job.rows == 0)
        memset(job.to, 0, ts_nbytes(out));
    else
        ts_parallel_for(job.n, 256, sum_columns, &job);
    return TS_OK;
}

static ts_status column_sum_backward(const ts_backward_call *call)
{
    call->grad_in[0] = ts_expand(call->grad_out[0], call->in_spec[0].shape);
    return TS_OK;
}

static const ts_op_def column_sum_row = {.name = "column_sum",
                                         .num_out = 1,
                                         .infer = column_sum_infer,
                                         .kernel = {[TS_CPU] = column_sum_kernel},
                                         .backward = column_sum_backward};

ts_tensor *ts_column_sum(ts_tensor *t) { return ts_dispatch1(&column_sum_row, t); }

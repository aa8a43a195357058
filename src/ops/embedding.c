/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a table by number; the gradient adds rows in order of position. */
#include "ops/nn_impl.h"

static ts_status embedding_infer(const ts_op_call *call, ts_spec *out)
{
    const ts_tensor *w = call->in[0], *index = call->in[1];
    char text[TS_SHAPE_TEXT];
    TS_TRY(ts_need_dtype("embedding", "indices", index, TS_INT64));
    if (w->shape.ndim != 2)
        return ts_fail(TS_ESHAPE, "embedding: weight has shape %s; it must be (number, dim)",
                       ts_shape_format(text, sizeof text, w->shape));
    if (index->shape.ndim + 1 > TS_MAX_DIMS)
        return ts_fail(TS_ESHAPE, "embedding: indices have %d dimensions; at most %d are possible",
                       index->shape.ndim, TS_MAX_DIMS - 1);
    *out = ts_tensor_spec(w);
    out->shape = index->shape;
    out->shape.dim[out->shape.ndim++] = w->shape.dim[1];
    return TS_OK;
}

static ts_status check_indices(const int64_t *index, int64_t count, int64_t rows)
{
    for (int64_t i = 0; i < count; i++)
        if (index[i] < 0 || index[i] >= rows)
            return ts_fail(TS_EINVAL,
                           "embedding: index %lld at position %lld is not in 0 .. %lld (weight has "
                           "%lld rows)",
                           (long long)index[i], (long long)i, (long long)rows - 1, (long long)rows);
    return TS_OK;
}

typedef struct gather_job {
    const int64_t *index;
    const char *from;
    char *to;
    int64_t count, row_bytes, n;
    const ts_nn_kernels *kernels;
} gather_job;

static void gather(int64_t begin, int64_t end, void *user)
{
    const gather_job *job = user;
    for (int64_t i = begin; i < end; i++)
        memcpy(job->to + i * job->row_bytes, job->from + job->index[i] * job->row_bytes,
               (size_t)job->row_bytes);
}

static ts_status start_job(gather_job *job, ts_tensor *data, ts_tensor *index, int64_t rows)
{
    data = ts_row_major(data);
    index = ts_row_major(index);
    TS_TRY(ts_tensor_check(data, "embedding"));
    TS_TRY(ts_tensor_check(index, "embedding: indices"));
    job->n = data->shape.dim[data->shape.ndim - 1];
    job->row_bytes = job->n * ts_esize(data);
    job->from = ts_tensor_bytes(data);
    job->index = (const int64_t *)(const void *)ts_tensor_bytes(index);
    job->count = index->numel;
    return check_indices(job->index, job->count, rows);
}

static ts_status embedding_kernel(ts_op_call *call)
{
    gather_job job = {.to = ts_tensor_bytes(call->out[0])};
    if (call->in[1]->numel == 0) return TS_OK;
    TS_TRY(start_job(&job, call->in[0], call->in[1], call->in[0]->shape.dim[0]));
    if (job.n > 0) ts_parallel_for(job.count, ts_row_grain(job.n), gather, &job);
    return TS_OK;
}

/* in: dy, indices; attribute: rows of the table */
static ts_status grad_infer(const ts_op_call *call, ts_spec *out)
{
    const ts_tensor *dy = call->in[0];
    TS_TRY(ts_need_float("embedding", "gradient", dy));
    *out = ts_tensor_spec(dy);
    out->shape = TS_SHAPE(call->attr[0].i, dy->shape.dim[dy->shape.ndim - 1]);
    return TS_OK;
}

/* Table rows begin .. end: each piece looks through all indices, so that one row is added to by one
 * piece, in order. */
static void scatter_add(int64_t begin, int64_t end, void *user)
{
    const gather_job *job = user;
    memset(job->to + begin * job->row_bytes, 0, (size_t)((end - begin) * job->row_bytes));
    for (int64_t i = 0; i < job->count; i++)
        if (job->index[i] >= begin && job->index[i] < end)
            job->kernels->add_to(job->to + job->index[i] * job->row_bytes,
                                 job->from + i * job->row_bytes, job->n);
}

static ts_status grad_kernel(ts_op_call *call)
{
    ts_tensor *out = call->out[0];
    gather_job job = {.kernels = ts_nn_kernels_for((ts_dtype)out->dtype)};
    int64_t rows = call->attr[0].i;
    if (out->numel == 0) return TS_OK;
    if (call->in[1]->numel == 0) return ts_tensor_fill_data(out, 0);
    TS_TRY(start_job(&job, call->in[0], call->in[1], rows));
    job.to = ts_tensor_bytes(out);
    ts_parallel_for(rows, rows / 16 + 1, scatter_add, &job);
    return TS_OK;
}

static ts_status grad_backward(const ts_backward_call *call)
{
    if (call->needs[0]) call->grad_in[0] = ts_embedding(call->grad_out[0], call->in[1]);
    return TS_OK;
}

static const ts_op_def grad_row = {.name = "embedding_grad",
                                   .num_out = 1,
                                   .save_in = 2,
                                   .infer = grad_infer,
                                   .kernel = {[TS_CPU] = grad_kernel},
                                   .backward = grad_backward};

static ts_status embedding_backward(const ts_backward_call *call)
{
    ts_tensor *const in[] = {ts_half_up(call->grad_out[0]), call->in[1]};
    ts_op_call grad = {.def = &grad_row, .in = in, .num_in = 2, .num_attrs = 1};
    grad.attr[0].i = call->in_spec[0].shape.dim[0];
    if (call->needs[0]) call->grad_in[0] = ts_dispatch(&grad);
    return TS_OK;
}

static const ts_op_def embedding_row = {.name = "embedding",
                                        .num_out = 1,
                                        .save_in = 2,
                                        .infer = embedding_infer,
                                        .kernel = {[TS_CPU] = embedding_kernel},
                                        .backward = embedding_backward};

ts_tensor *ts_embedding(ts_tensor *weight, ts_tensor *indices)
{
    return ts_dispatch2(&embedding_row, weight, indices);
}

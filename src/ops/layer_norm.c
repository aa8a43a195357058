/* SPDX-License-Identifier: Apache-2.0 */
/* y = (x - mean) rstd w + b over the last dimensions; rstd and mean of each row are kept.  rms_norm
 * has no mean and no bias: rstd is that of the mean square. */
#include "ops/nn_impl.h"

/* Attributes: eps, then number and sizes of the normalized dimensions. */
enum { AT_EPS, AT_NDIM, AT_SIZE };

static ts_shape normalized_shape(const ts_attr *attr)
{
    ts_shape shape = {.ndim = (int)attr[AT_NDIM].i};
    for (int i = 0; i < shape.ndim; i++) shape.dim[i] = attr[AT_SIZE + i].i;
    return shape;
}

static bool ends_with(ts_shape shape, ts_shape end)
{
    if (end.ndim > shape.ndim) return false;
    for (int i = 0; i < end.ndim; i++)
        if (shape.dim[shape.ndim - end.ndim + i] != end.dim[i]) return false;
    return true;
}

static ts_status check_affine(const char *op, const char *what, const ts_tensor *x,
                              const ts_tensor *t, ts_shape shape)
{
    char t_text[TS_SHAPE_TEXT], text[TS_SHAPE_TEXT];
    if (!t) return TS_OK;
    TS_TRY(ts_need_same_float(op, "input", x, what, t));
    if (ts_shape_equal(t->shape, shape)) return TS_OK;
    return ts_fail(TS_ESHAPE, "%s: %s has shape %s, normalized_shape is %s", op, what,
                   ts_shape_format(t_text, sizeof t_text, t->shape),
                   ts_shape_format(text, sizeof text, shape));
}

static ts_status layer_norm_infer(const ts_op_call *call, ts_spec *out)
{
    const ts_tensor *x = call->in[0], *bias = call->num_in > 2 ? call->in[2] : NULL;
    const char *op = call->def->name;
    char x_text[TS_SHAPE_TEXT], text[TS_SHAPE_TEXT];
    ts_shape shape = normalized_shape(call->attr);
    TS_TRY(ts_need_float(op, "input", x));
    if (shape.ndim < 1 || !ends_with(x->shape, shape))
        return ts_fail(TS_ESHAPE, "%s: input %s does not end with normalized_shape %s", op,
                       ts_shape_format(x_text, sizeof x_text, x->shape),
                       ts_shape_format(text, sizeof text, shape));
    TS_TRY(check_affine(op, "weight", x, call->in[1], shape));
    TS_TRY(check_affine(op, "bias", x, bias, shape));
    for (int i = 0; i < call->def->num_out; i++) out[i] = ts_tensor_spec(x);
    for (int i = 1; i < call->def->num_out; i++) out[i].shape.ndim -= shape.ndim;
    return TS_OK;
}

typedef struct norm_job {
    const ts_nn_kernels *kernels;
    const char *x, *w, *b, *dy;
    char *y, *mean, *rstd, *dx, *dw, *db;
    int64_t n, rows, esize, block; /* backward: rows of a block */
    double eps;
} norm_job;

static void norm_rows(int64_t begin, int64_t end, void *user)
{
    const norm_job *job = user;
    int64_t at = begin * job->n * job->esize;
    job->kernels->layer_norm(job->y + at, job->mean ? job->mean + begin * job->esize : NULL,
                             job->rstd + begin * job->esize, job->x + at, job->w, job->b,
                             end - begin, job->n, job->eps);
}

static ts_status layer_norm_kernel(ts_op_call *call)
{
    norm_job job = {.kernels = ts_nn_kernels_for((ts_dtype)call->out[0]->dtype)};
    if (call->out[0]->numel == 0) return TS_OK;
    job.esize = ts_esize(call->out[0]);
    job.n = ts_shape_numel(normalized_shape(call->attr));
    job.eps = call->attr[AT_EPS].f;
    TS_TRY(ts_row_major_data(&job.x, call->in[0], "layer_norm: input"));
    TS_TRY(ts_row_major_data(&job.w, call->in[1], "layer_norm: weight"));
    TS_TRY(ts_row_major_data(&job.b, call->num_in > 2 ? call->in[2] : NULL, "layer_norm: bias"));
    job.y = ts_tensor_bytes(call->out[0]);
    job.rstd = ts_tensor_bytes(call->out[1]);
    if (call->def->num_out > 2) job.mean = ts_tensor_bytes(call->out[2]);
    ts_parallel_for(call->out[1]->numel, ts_row_grain(job.n), norm_rows, &job);
    return TS_OK;
}

/* ---- backward -------------------------------------------------------------------------------- */

enum { MOST_BLOCKS = 16 };

/* One block of rows; dw and db have a row of their own per block. */
static void grad_blocks(int64_t begin, int64_t end, void *user)
{
    const norm_job *job = user;
    int64_t row_bytes = job->n * job->esize;
    for (int64_t i = begin; i < end; i++) {
        int64_t first = i * job->block, last = first + job->block;
        if (last > job->rows) last = job->rows;
        job->kernels->layer_norm_grad(
            job->dx + first * row_bytes, job->dw ? job->dw + i * row_bytes : NULL,
            job->db ? job->db + i * row_bytes : NULL, job->dy + first * row_bytes,
            job->x + first * row_bytes, job->w, job->mean ? job->mean + first * job->esize : NULL,
            job->rstd + first * job->esize, last - first, job->n);
    }
}

/* in: dy, x, weight, rstd, mean if there is one */
static ts_status grad_infer(const ts_op_call *call, ts_spec *out)
{
    out[0] = out[1] = out[2] = ts_tensor_spec(call->in[1]);
    out[1].shape = out[2].shape = normalized_shape(call->attr);
    return TS_OK;
}

/* Blocks of rows from the number of rows alone, so that sums do not depend on threads. */
static int64_t run_blocks(norm_job *job)
{
    job->block = (job->rows + MOST_BLOCKS - 1) / MOST_BLOCKS;
    if (job->block < 8) job->block = 8;
    int64_t blocks = (job->rows + job->block - 1) / job->block;
    ts_parallel_for(blocks, 1, grad_blocks, job);
    return blocks;
}

static ts_status grad_kernel(ts_op_call *call)
{
    norm_job job = {.kernels = ts_nn_kernels_for((ts_dtype)call->out[0]->dtype)};
    const char *mean, *rstd;
    ts_storage *scratch;
    if (call->out[0]->numel == 0) {
        TS_TRY(ts_tensor_fill_data(call->out[1], 0));
        return ts_tensor_fill_data(call->out[2], 0);
    }
    job.esize = ts_esize(call->out[0]);
    job.n = ts_shape_numel(normalized_shape(call->attr));
    job.rows = call->in[3]->numel;
    TS_TRY(ts_row_major_data(&job.dy, call->in[0], "layer_norm: gradient"));
    TS_TRY(ts_row_major_data(&job.x, call->in[1], "layer_norm: input"));
    TS_TRY(ts_row_major_data(&job.w, call->in[2], "layer_norm: weight"));
    TS_TRY(ts_row_major_data(&rstd, call->in[3], "layer_norm: rstd"));
    TS_TRY(ts_row_major_data(&mean, call->in[4], "layer_norm: mean"));
    job.mean = (char *)(uintptr_t)mean;
    job.rstd = (char *)(uintptr_t)rstd;
    job.dx = ts_tensor_bytes(call->out[0]);
    size_t bytes = (size_t)(MOST_BLOCKS * job.n * job.esize);
    TS_TRY(ts_scratch_new(&scratch, 2 * bytes));
    memset(scratch->data, 0, 2 * bytes);
    job.dw = scratch->data;
    job.db = job.dw + bytes;
    int64_t blocks = run_blocks(&job);
    job.kernels->column_sum(ts_tensor_bytes(call->out[1]), job.dw, blocks, job.n, job.n);
    job.kernels->column_sum(ts_tensor_bytes(call->out[2]), job.db, blocks, job.n, job.n);
    ts_storage_release(scratch);
    return TS_OK;
}

static const ts_op_def grad_row = {.name = "layer_norm_grad",
                                   .num_out = 3,
                                   .optional_in = 1 << 2,
                                   .infer = grad_infer,
                                   .kernel = {[TS_CPU] = grad_kernel}};

static const ts_op_def rms_grad_row = {.name = "rms_norm_grad",
                                       .num_out = 3,
                                       .optional_in = 1 << 2 | 1 << 4,
                                       .infer = grad_infer,
                                       .kernel = {[TS_CPU] = grad_kernel}};

static ts_status layer_norm_backward(const ts_backward_call *call)
{
    bool centred = call->def->num_out > 2;
    ts_tensor *const in[] = {call->grad_out[0], call->in[0], call->in[1], call->out[1],
                             centred ? call->out[2] : NULL};
    ts_op_call grad = {.def = centred ? &grad_row : &rms_grad_row,
                       .in = in,
                       .num_in = 5,
                       .num_attrs = call->num_attrs};
    if (!call->grad_out[0]) return TS_OK;
    memcpy(grad.attr, call->attr, (size_t)call->num_attrs * sizeof *call->attr);
    ts_dispatch(&grad);
    for (int i = 0; i < call->num_in; i++)
        if (call->needs[i]) call->grad_in[i] = grad.out[i];
    return TS_OK;
}

static const ts_op_def layer_norm_row = {.name = "layer_norm",
                                         .num_out = 3,
                                         .save_in = 3,
                                         .save_out = 6,
                                         .optional_in = 6,
                                         .infer = layer_norm_infer,
                                         .kernel = {[TS_CPU] = layer_norm_kernel},
                                         .backward = layer_norm_backward};

static const ts_op_def rms_norm_row = {.name = "rms_norm",
                                       .num_out = 2,
                                       .save_in = 3,
                                       .save_out = 2,
                                       .optional_in = 2,
                                       .infer = layer_norm_infer,
                                       .kernel = {[TS_CPU] = layer_norm_kernel},
                                       .backward = layer_norm_backward};

static ts_tensor *normalize(const ts_op_def *def, ts_tensor *const *in, int num_in, ts_shape shape,
                            double eps)
{
    ts_op_call call = {.def = def, .in = in, .num_in = num_in};
    call.num_attrs = AT_SIZE + (shape.ndim > 0 ? shape.ndim : 0);
    call.attr[AT_EPS].f = eps;
    call.attr[AT_NDIM].i = shape.ndim;
    for (int i = 0; i < shape.ndim; i++) call.attr[AT_SIZE + i].i = shape.dim[i];
    return ts_dispatch(&call);
}

ts_tensor *ts_layer_norm(ts_tensor *x, ts_shape shape, ts_tensor *weight, ts_tensor *bias,
                         double eps)
{
    ts_tensor *const in[] = {ts_half_up(x), ts_half_up(weight), ts_half_up(bias)};
    ts_tensor *y = normalize(&layer_norm_row, in, 3, shape, eps);
    return ts_is_half(x) ? ts_to_dtype(y, (ts_dtype)x->dtype) : y;
}

ts_tensor *ts_rms_norm(ts_tensor *x, ts_shape shape, ts_tensor *weight, double eps)
{
    ts_tensor *const in[] = {ts_half_up(x), ts_half_up(weight)};
    ts_tensor *y = normalize(&rms_norm_row, in, 2, shape, eps);
    return ts_is_half(x) ? ts_to_dtype(y, (ts_dtype)x->dtype) : y;
}

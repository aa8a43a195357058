/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products.  Strides go to the kernel as they are, so transposed operands are not copied. */
#include "kernels/scratch.h"
#include "ops/nn_impl.h"

/* ---- matmul: (..., m, k) (..., k, n) -> (..., m, n) ------------------------------------------ */

static ts_shape batch_shape(ts_shape shape)
{
    shape.ndim -= 2;
    return shape;
}

static ts_status matmul_infer(const ts_op_call *call, ts_spec *out)
{
    const ts_tensor *a = call->in[0], *b = call->in[1];
    char a_text[TS_SHAPE_TEXT], b_text[TS_SHAPE_TEXT];
    int na = a->shape.ndim, nb = b->shape.ndim;
    TS_TRY(ts_need_same_float("matmul", "the first matrix", a, "the second", b));
    if (a->shape.dim[na - 1] != b->shape.dim[nb - 2])
        return ts_fail(TS_ESHAPE,
                       "matmul: %s and %s do not fit: the first has %lld columns, the second %lld "
                       "rows",
                       ts_shape_format(a_text, sizeof a_text, a->shape),
                       ts_shape_format(b_text, sizeof b_text, b->shape),
                       (long long)a->shape.dim[na - 1], (long long)b->shape.dim[nb - 2]);
    *out = ts_tensor_spec(a);
    TS_TRY(ts_broadcast_shape(&out->shape, "matmul", batch_shape(a->shape), batch_shape(b->shape)));
    if (out->shape.ndim + 2 > TS_MAX_DIMS)
        return ts_fail(TS_ESHAPE, "matmul: more than %d dimensions", TS_MAX_DIMS);
    out->shape.dim[out->shape.ndim++] = a->shape.dim[na - 2];
    out->shape.dim[out->shape.ndim++] = b->shape.dim[nb - 1];
    return TS_OK;
}

/* Where matrix number `index` of the broadcast batch begins in t, in bytes. */
static const char *batch_at(const ts_tensor *t, const ts_shape *batch, int64_t index)
{
    int64_t offset = 0;
    int shift = batch->ndim - (t->shape.ndim - 2);
    for (int d = batch->ndim - 1; d >= 0; d--) {
        int64_t i = index % batch->dim[d];
        index /= batch->dim[d];
        if (d >= shift && t->shape.dim[d - shift] != 1) offset += i * t->stride[d - shift];
    }
    return ts_tensor_bytes(t) + offset * ts_esize(t);
}

static ts_gemm_call gemm_of(const ts_tensor *a, const ts_tensor *b, const ts_tensor *c)
{
    int na = a->shape.ndim, nb = b->shape.ndim;
    ts_gemm_call call = {.dtype = (ts_dtype)c->dtype};
    call.m = a->shape.dim[na - 2];
    call.k = a->shape.dim[na - 1];
    call.n = call.ldc = b->shape.dim[nb - 1];
    call.a = (ts_matrix){NULL, a->stride[na - 2], a->stride[na - 1]};
    call.b = (ts_matrix){NULL, b->stride[nb - 2], b->stride[nb - 1]};
    return call;
}

typedef struct batch_job {
    const ts_tensor *a, *b, *c;
    ts_shape batch;
    ts_slots slots;
} batch_job;

static ts_status multiply_one(batch_job *job, int64_t index)
{
    ts_gemm_call call = gemm_of(job->a, job->b, job->c);
    call.a.data = batch_at(job->a, &job->batch, index);
    call.b.data = batch_at(job->b, &job->batch, index);
    call.c = ts_tensor_bytes(job->c) + index * call.m * call.n * ts_esize(job->c);
    void *scratch = ts_slot_claim(&job->slots);
    ts_status status = ts_gemm(&call, scratch);
    ts_slot_release(&job->slots, scratch);
    return status;
}

static void multiply_others(int64_t begin, int64_t end, void *user)
{
    for (int64_t i = begin; i < end; i++) multiply_one(user, i + 1);
}

static ts_status multiply_batch(batch_job *job, const ts_gemm_call *call, int64_t count)
{
    int slots = ts_slots_wanted();
    size_t bytes = ts_round_up_64(ts_gemm_scratch(call) + 1);
    ts_storage *scratch;
    TS_TRY(ts_scratch_new(&scratch, bytes * (size_t)slots));
    ts_slots_init(&job->slots, scratch->data, bytes, slots);
    ts_status status = multiply_one(job, 0); /* if it can, so can the others: they are alike */
    if (status == TS_OK) ts_parallel_for(count - 1, 1, multiply_others, job);
    ts_storage_release(scratch);
    return status;
}

static ts_status matmul_kernel(ts_op_call *op)
{
    const ts_tensor *a = op->in[0], *b = op->in[1], *c = op->out[0];
    if (c->numel == 0) return TS_OK;
    ts_gemm_call call = gemm_of(a, b, c);
    int64_t count = c->numel / (call.m * call.n);
    if (call.k == 0) {
        memset(ts_tensor_bytes(c), 0, ts_nbytes(c));
        return TS_OK;
    }
    if (count > 1) {
        batch_job job = {.a = a, .b = b, .c = c, .batch = batch_shape(c->shape)};
        return multiply_batch(&job, &call, count);
    }
    call.a.data = ts_tensor_bytes(a);
    call.b.data = ts_tensor_bytes(b);
    call.c = ts_tensor_bytes(c);
    return ts_gemm_run(&call);
}

static ts_tensor *transposed(ts_tensor *t) { return ts_transpose(t, -2, -1); }
static ts_tensor *as_rows(ts_tensor *t) { return ts_reshape(t, TS_SHAPE(-1, ts_size(t, -1))); }

/* da = dc b'    db = a' dc, over all rows at once when b is one matrix */
static ts_status matmul_backward(const ts_backward_call *call)
{
    ts_tensor *a = call->in[0], *b = call->in[1], *g = call->grad_out[0];
    bool rows = call->in_spec[1].shape.ndim == 2 && call->in_spec[0].shape.ndim > 2 &&
                call->in_spec[0].shape.dim[call->in_spec[0].shape.ndim - 1] > 0 &&
                ts_size(g, -1) > 0;
    if (call->needs[0]) call->grad_in[0] = ts_matmul(g, transposed(b));
    if (call->needs[1])
        call->grad_in[1] =
            rows ? ts_matmul(transposed(as_rows(a)), as_rows(g)) : ts_matmul(transposed(a), g);
    return TS_OK;
}

static void matmul_cost(const ts_op_call *call, double *flops, double *bytes)
{
    const ts_tensor *a = call->in[0], *b = call->in[1], *c = call->out[0];
    *flops = 2.0 * (double)c->numel * (double)a->shape.dim[a->shape.ndim - 1];
    *bytes = (double)(ts_nbytes(a) + ts_nbytes(b) + ts_nbytes(c));
}

static const ts_op_def matmul_row = {.name = "matmul",
                                     .num_out = 1,
                                     .save_in = 3,
                                     .save_in_if = {2, 1},
                                     .infer = matmul_infer,
                                     .kernel = {[TS_CPU] = matmul_kernel},
                                     .backward = matmul_backward,
                                     .cost = matmul_cost};

/* A matrix (k, n) times many rows needs one product, if the rows lie at equal distances. */
static ts_tensor *rows_times_matrix(ts_tensor *a, ts_tensor *b)
{
    ts_shape shape = a->shape;
    shape.dim[shape.ndim - 1] = b->shape.dim[1];
    return ts_reshape(ts_dispatch2(&matmul_row, as_rows(a), b), shape);
}

ts_tensor *ts_matmul(ts_tensor *a, ts_tensor *b)
{
    if (!a || !b || ts_failed(a) || ts_failed(b)) return ts_dispatch2(&matmul_row, a, b);
    if (a->shape.ndim == 0 || b->shape.ndim == 0)
        return ts_fail_tensor(TS_ESHAPE,
                              "matmul: a 0-dim tensor is not a matrix; use ts_mul to scale");
    if (ts_is_half(a) && a->dtype == b->dtype)
        return ts_to_dtype(ts_matmul(ts_half_up(a), ts_half_up(b)), (ts_dtype)a->dtype);
    if (a->shape.ndim == 1) {
        ts_tensor *c = ts_matmul(ts_unsqueeze(a, 0), b);
        return ts_squeeze(c, b->shape.ndim == 1 ? -1 : -2);
    }
    if (b->shape.ndim == 1) return ts_squeeze(ts_matmul(a, ts_unsqueeze(b, -1)), -1);
    bool fits = a->shape.dim[a->shape.ndim - 1] == b->shape.dim[0] && a->numel > 0;
    if (a->shape.ndim > 2 && b->shape.ndim == 2 && fits && a->contiguous)
        return rows_times_matrix(a, b);
    return ts_dispatch2(&matmul_row, a, b);
}

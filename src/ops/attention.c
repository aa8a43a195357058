/* SPDX-License-Identifier: Apache-2.0 */
/* Attention as operations: checks, and one task per batch entry and head. */
#include "ops/attention.h"

#include <math.h>

#include "kernels/scratch.h"

enum { AT_CAUSAL, AT_SCALE, NUM_ATTRS };

/* Attention reads rows; the elements of a row must lie side by side. */
static ts_status with_plain_rows(ts_tensor **t, const char *what)
{
    if ((*t)->stride[3] == 1 || (*t)->shape.dim[3] == 1) return TS_OK;
    *t = ts_row_major(*t);
    return ts_tensor_check(*t, what);
}

static ts_status check_shapes(const ts_tensor *q, const ts_tensor *k, const ts_tensor *v)
{
    char q_text[TS_SHAPE_TEXT], k_text[TS_SHAPE_TEXT], v_text[TS_SHAPE_TEXT];
    const int64_t *a = q->shape.dim, *b = k->shape.dim, *c = v->shape.dim;
    bool fits = q->shape.ndim == 4 && k->shape.ndim == 4 && v->shape.ndim == 4 && a[0] == b[0] &&
                a[0] == c[0] && a[1] == b[1] && a[1] == c[1] && a[3] == b[3] && b[2] == c[2];
    if (fits) return TS_OK;
    return ts_fail(
        TS_ESHAPE,
        "attention: q %s, k %s and v %s do not fit; they must be (B, H, T, D), (B, H, S, "
        "D) and (B, H, S, E)",
        ts_shape_format(q_text, sizeof q_text, q->shape),
        ts_shape_format(k_text, sizeof k_text, k->shape),
        ts_shape_format(v_text, sizeof v_text, v->shape));
}

static ts_status attention_infer(const ts_op_call *call, ts_spec *out)
{
    const ts_tensor *q = call->in[0], *k = call->in[1], *v = call->in[2];
    TS_TRY(ts_need_same_float("attention", "q", q, "k", k));
    TS_TRY(ts_need_same_float("attention", "q", q, "v", v));
    TS_TRY(check_shapes(q, k, v));
    out[0] = out[1] = ts_tensor_spec(q);
    out[0].shape.dim[3] = v->shape.dim[3];
    out[1].shape.ndim = 3;
    return TS_OK;
}

/* Tensors of a call; backward has all of them. */
typedef struct attention_job {
    ts_attention_head head; /* without addresses */
    ts_tensor *q, *k, *v, *out, *lse, *grad_out, *dq, *dk, *dv;
    ts_slots slots;
} attention_job;

static ts_rows head_rows(const ts_tensor *t, int64_t batch, int64_t head)
{
    int64_t offset = batch * t->stride[0] + head * t->stride[1];
    return (ts_rows){ts_tensor_bytes(t) + offset * ts_esize(t), t->stride[2]};
}

static void run_heads(int64_t begin, int64_t end, void *user)
{
    attention_job *job = user;
    void *scratch = ts_slot_claim(&job->slots);
    for (int64_t n = begin; n < end; n++) {
        ts_attention_head h = job->head;
        int64_t heads = job->q->shape.dim[1], batch = n / heads, head = n % heads;
        h.q = head_rows(job->q, batch, head);
        h.k = head_rows(job->k, batch, head);
        h.v = head_rows(job->v, batch, head);
        h.out = head_rows(job->out, batch, head);
        h.lse = ts_tensor_bytes(job->lse) + n * h.queries * h.esize;
        if (!job->dq) {
            ts_attention_forward(&h, scratch);
            continue;
        }
        h.grad_out = head_rows(job->grad_out, batch, head);
        h.dq = head_rows(job->dq, batch, head);
        h.dk = head_rows(job->dk, batch, head);
        h.dv = head_rows(job->dv, batch, head);
        ts_attention_backward(&h, scratch);
    }
    ts_slot_release(&job->slots, scratch);
}

static void set_head(attention_job *job, const ts_attr *attr)
{
    ts_attention_head *h = &job->head;
    ts_dtype dtype = (ts_dtype)job->q->dtype;
    h->gemm = ts_gemm_kernels_for(dtype);
    h->nn = ts_nn_kernels_for(dtype);
    h->esize = ts_esize(job->q);
    h->queries = job->q->shape.dim[2];
    h->width = job->q->shape.dim[3];
    h->keys = job->k->shape.dim[2];
    h->value_width = job->v->shape.dim[3];
    h->causal = attr[AT_CAUSAL].i != 0;
    h->scale = attr[AT_SCALE].f;
}

static ts_status run_job(attention_job *job, const ts_attr *attr)
{
    TS_TRY(with_plain_rows(&job->q, "attention: q"));
    TS_TRY(with_plain_rows(&job->k, "attention: k"));
    TS_TRY(with_plain_rows(&job->v, "attention: v"));
    set_head(job, attr);
    int slots = ts_slots_wanted();
    size_t bytes = ts_attention_scratch(&job->head, job->dq != NULL);
    ts_storage *scratch;
    TS_TRY(ts_scratch_new(&scratch, bytes * (size_t)slots));
    ts_slots_init(&job->slots, scratch->data, bytes, slots);
    ts_parallel_for(job->q->shape.dim[0] * job->q->shape.dim[1], 1, run_heads, job);
    ts_storage_release(scratch);
    return TS_OK;
}

static ts_status attention_kernel(ts_op_call *call)
{
    attention_job job = {.q = call->in[0], .k = call->in[1], .v = call->in[2]};
    job.out = call->out[0];
    job.lse = call->out[1];
    if (job.lse->numel == 0) return TS_OK;
    if (job.k->numel == 0 || job.v->numel == 0) { /* no keys: nothing is seen */
        TS_TRY(ts_tensor_fill_data(job.lse, -INFINITY));
        return ts_tensor_fill_data(job.out, 0);
    }
    return run_job(&job, call->attr);
}

/* in: q, k, v, output, lse, gradient of the output */
static ts_status grad_infer(const ts_op_call *call, ts_spec *out)
{
    for (int i = 0; i < 3; i++) out[i] = ts_tensor_spec(call->in[i]);
    return TS_OK;
}

static ts_status grad_kernel(ts_op_call *call)
{
    attention_job job = {.q = call->in[0], .k = call->in[1], .v = call->in[2]};
    job.out = call->in[3];
    job.lse = ts_row_major(call->in[4]);
    job.grad_out = call->in[5];
    TS_TRY(ts_tensor_check(job.lse, "attention"));
    TS_TRY(with_plain_rows(&job.out, "attention: output"));
    TS_TRY(with_plain_rows(&job.grad_out, "attention: gradient"));
    job.dq = call->out[0];
    job.dk = call->out[1];
    job.dv = call->out[2];
    if (job.q->numel > 0 && job.k->numel > 0 && job.v->numel > 0) return run_job(&job, call->attr);
    for (int i = 0; i < 3; i++) TS_TRY(ts_tensor_fill_data(call->out[i], 0));
    return TS_OK;
}

static const ts_op_def grad_row = {.name = "attention_grad",
                                   .num_out = 3,
                                   .infer = grad_infer,
                                   .kernel = {[TS_CPU] = grad_kernel}};

static ts_status attention_backward(const ts_backward_call *call)
{
    ts_tensor *const in[] = {call->in[0],  call->in[1],  call->in[2],
                             call->out[0], call->out[1], call->grad_out[0]};
    ts_op_call grad = {.def = &grad_row, .in = in, .num_in = 6, .num_attrs = NUM_ATTRS};
    if (!call->grad_out[0]) return TS_OK;
    memcpy(grad.attr, call->attr, NUM_ATTRS * sizeof *call->attr);
    ts_dispatch(&grad);
    for (int i = 0; i < 3; i++)
        if (call->needs[i]) call->grad_in[i] = grad.out[i];
    return TS_OK;
}

static void attention_cost(const ts_op_call *call, double *flops, double *bytes)
{
    const ts_tensor *q = call->in[0], *k = call->in[1], *v = call->in[2];
    double pairs = (double)call->out[1]->numel * (double)k->shape.dim[2];
    *flops = 2 * pairs * (double)(q->shape.dim[3] + v->shape.dim[3]);
    *bytes = (double)(ts_nbytes(q) + ts_nbytes(k) + ts_nbytes(v) + ts_nbytes(call->out[0]));
}

static const ts_op_def attention_row = {.name = "attention",
                                        .num_out = 2,
                                        .save_in = 7,
                                        .save_out = 3,
                                        .infer = attention_infer,
                                        .kernel = {[TS_CPU] = attention_kernel},
                                        .backward = attention_backward,
                                        .cost = attention_cost};

ts_tensor *ts_attention(ts_tensor *q, ts_tensor *k, ts_tensor *v, bool causal, double scale)
{
    if (ts_is_half(q) && ts_is_half(k) && ts_is_half(v))
        return ts_to_dtype(ts_attention(ts_half_up(q), ts_half_up(k), ts_half_up(v), causal, scale),
                           (ts_dtype)q->dtype);
    ts_tensor *const in[] = {q, k, v};
    ts_op_call call = {.def = &attention_row, .in = in, .num_in = 3, .num_attrs = NUM_ATTRS};
    call.attr[AT_CAUSAL].i = causal;
    int64_t width = ts_size(q, -1);
    call.attr[AT_SCALE].f = scale != 0 ? scale : 1 / sqrt((double)(width > 0 ? width : 1));
    return ts_dispatch(&call);
}

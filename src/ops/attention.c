/* SPDX-License-Identifier: Apache-2.0 */
/* Attention as operations: checks, and one task per batch entry and head. */
#include "ops/attention.h"

#include <math.h>

#include "base/options.h"
#include "kernels/scratch.h"
#include "tensor/random.h"

enum { AT_CAUSAL, AT_BOTTOM_RIGHT, AT_SCALE, AT_DROP_P, AT_SEED, AT_OFFSET, NUM_ATTRS };
enum { Q, K, V, MASK, OUT, LSE, GRAD_OUT, GRAD_LSE };

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
                a[0] == c[0] && b[1] == c[1] && a[3] == b[3] && b[2] == c[2] &&
                (a[1] == b[1] || (b[1] > 0 && a[1] % b[1] == 0));
    if (fits) return TS_OK;
    return ts_fail(
        TS_ESHAPE,
        "attention: q %s, k %s and v %s do not fit; they must be (B, H, T, D), (B, H, S, "
        "D) and (B, H, S, E), with as many heads or, for grouped queries, a divisor of them",
        ts_shape_format(q_text, sizeof q_text, q->shape),
        ts_shape_format(k_text, sizeof k_text, k->shape),
        ts_shape_format(v_text, sizeof v_text, v->shape));
}

/* attn_mask must be broadcastable to (B, H, T, S). */
static ts_status check_mask(const ts_tensor *q, const ts_tensor *k, const ts_tensor *mask)
{
    char text[TS_SHAPE_TEXT];
    const int64_t full[] = {q->shape.dim[0], q->shape.dim[1], q->shape.dim[2], k->shape.dim[2]};
    int skipped = 4 - mask->shape.ndim;
    bool fits = skipped >= 0;
    for (int i = 0; fits && i < mask->shape.ndim; i++)
        fits = mask->shape.dim[i] == 1 || mask->shape.dim[i] == full[skipped + i];
    if (mask->dtype != TS_BOOL && mask->dtype != q->dtype)
        return ts_fail(TS_EDTYPE, "attention: attn_mask is %s; it must be bool or %s as q",
                       ts_dtype_name((ts_dtype)mask->dtype), ts_dtype_name((ts_dtype)q->dtype));
    if (fits) return TS_OK;
    return ts_fail(TS_ESHAPE,
                   "attention: attn_mask %s cannot be broadcast to (%lld, %lld, %lld, %lld)",
                   ts_shape_format(text, sizeof text, mask->shape), (long long)full[0],
                   (long long)full[1], (long long)full[2], (long long)full[3]);
}

static ts_status attention_infer(const ts_op_call *call, ts_spec *out)
{
    const ts_tensor *q = call->in[0], *k = call->in[1], *v = call->in[2];
    TS_TRY(ts_need_same_float("attention", "q", q, "k", k));
    TS_TRY(ts_need_same_float("attention", "q", q, "v", v));
    TS_TRY(check_shapes(q, k, v));
    if (call->in[MASK]) TS_TRY(check_mask(q, k, call->in[MASK]));
    out[0] = out[1] = ts_tensor_spec(q);
    out[0].shape.dim[3] = v->shape.dim[3];
    out[1].shape.ndim = 3;
    return TS_OK;
}

/* Tensors of a call; backward has all of them. */
typedef struct attention_job {
    ts_attention_head head; /* without addresses */
    ts_tensor *q, *k, *v, *mask, *out, *lse, *grad_out, *grad_lse, *dq, *dk, *dv;
    int64_t mask_stride[4]; /* of (B, H, T, S) */
    int64_t group;          /* query heads of a key head */
    ts_slots slots;
} attention_job;

static ts_rows head_rows(const ts_tensor *t, int64_t batch, int64_t head)
{
    int64_t offset = batch * t->stride[0] + head * t->stride[1];
    return (ts_rows){ts_tensor_bytes(t) + offset * ts_esize(t), t->stride[2]};
}

/* Query head n of all, and the key head that it looks at. */
static void run_head(attention_job *job, int64_t n, void *scratch)
{
    ts_attention_head h = job->head;
    int64_t heads = job->q->shape.dim[1], batch = n / heads, head = n % heads;
    int64_t shared = head / job->group;
    h.q = head_rows(job->q, batch, head);
    h.k = head_rows(job->k, batch, shared);
    h.v = head_rows(job->v, batch, shared);
    h.out = head_rows(job->out, batch, head);
    h.lse = ts_tensor_bytes(job->lse) + n * h.queries * h.esize;
    h.drop_offset += (uint64_t)(n * h.queries * h.keys);
    if (job->mask)
        h.mask += (batch * job->mask_stride[0] + head * job->mask_stride[1]) * ts_esize(job->mask);
    if (!job->dq) {
        ts_attention_forward(&h, scratch);
        return;
    }
    h.grad_out = head_rows(job->grad_out, batch, head);
    if (job->grad_lse) h.grad_lse = ts_tensor_bytes(job->grad_lse) + n * h.queries * h.esize;
    h.dq = head_rows(job->dq, batch, head);
    h.dk = head_rows(job->dk, batch, shared);
    h.dv = head_rows(job->dv, batch, shared);
    h.add = head % job->group > 0;
    ts_attention_backward(&h, scratch);
}

/* Heads that share keys run one after the other. */
static void run_heads(int64_t begin, int64_t end, void *user)
{
    attention_job *job = user;
    void *scratch = ts_slot_claim(&job->slots);
    for (int64_t n = begin * job->group; n < end * job->group; n++) run_head(job, n, scratch);
    ts_slot_release(&job->slots, scratch);
}

static void set_mask(attention_job *job)
{
    ts_tensor *mask = job->mask;
    int skipped = 4 - mask->shape.ndim;
    for (int i = 0; i < mask->shape.ndim; i++)
        if (mask->shape.dim[i] != 1) job->mask_stride[skipped + i] = mask->stride[i];
    job->head.mask = ts_tensor_bytes(mask);
    job->head.mask_is_bool = mask->dtype == TS_BOOL;
    job->head.mask_row = job->mask_stride[2];
    job->head.mask_col = job->mask_stride[3];
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
    h->offset = attr[AT_BOTTOM_RIGHT].i ? h->keys - h->queries : 0;
    h->scale = attr[AT_SCALE].f;
    h->drop_p = attr[AT_DROP_P].f;
    h->drop_seed = (uint64_t)attr[AT_SEED].i;
    h->drop_offset = (uint64_t)attr[AT_OFFSET].i;
    job->group = job->q->shape.dim[1] / job->k->shape.dim[1];
    if (job->mask) set_mask(job);
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
    ts_parallel_for(job->k->shape.dim[0] * job->k->shape.dim[1], 1, run_heads, job);
    ts_storage_release(scratch);
    return TS_OK;
}

static ts_status attention_kernel(ts_op_call *call)
{
    attention_job job = {.q = call->in[0], .k = call->in[1], .v = call->in[2]};
    job.mask = call->in[MASK];
    job.out = call->out[0];
    job.lse = call->out[1];
    if (job.lse->numel == 0) return TS_OK;
    if (job.k->shape.dim[2] == 0) { /* no keys: nothing is seen */
        TS_TRY(ts_tensor_fill_data(job.lse, -INFINITY));
        return ts_tensor_fill_data(job.out, 0);
    }
    return run_job(&job, call->attr);
}

/* in: q, k, v, mask, output, lse, gradient of the output, gradient of lse or NULL */
static ts_status grad_infer(const ts_op_call *call, ts_spec *out)
{
    for (int i = 0; i < 3; i++) out[i] = ts_tensor_spec(call->in[i]);
    return TS_OK;
}

static ts_status grad_kernel(ts_op_call *call)
{
    attention_job job = {.q = call->in[0], .k = call->in[1], .v = call->in[2]};
    job.mask = call->in[MASK];
    job.out = call->in[OUT];
    job.lse = ts_row_major(call->in[LSE]);
    job.grad_out = call->in[GRAD_OUT];
    TS_TRY(ts_tensor_check(job.lse, "attention"));
    if (call->in[GRAD_LSE]) {
        job.grad_lse = ts_row_major(call->in[GRAD_LSE]);
        TS_TRY(ts_tensor_check(job.grad_lse, "attention: gradient of the log-sum-exp"));
    }
    TS_TRY(with_plain_rows(&job.out, "attention: output"));
    TS_TRY(with_plain_rows(&job.grad_out, "attention: gradient"));
    job.dq = call->out[0];
    job.dk = call->out[1];
    job.dv = call->out[2];
    if (job.lse->numel > 0 && job.k->shape.dim[2] > 0) return run_job(&job, call->attr);
    for (int i = 0; i < 3; i++) TS_TRY(ts_tensor_fill_data(call->out[i], 0));
    return TS_OK;
}

static const ts_op_def grad_row = {.name = "attention_grad",
                                   .num_out = 3,
                                   .optional_in = 1 << MASK | 1 << GRAD_LSE,
                                   .infer = grad_infer,
                                   .kernel = {[TS_CPU] = grad_kernel}};

static ts_status attention_backward(const ts_backward_call *call)
{
    ts_tensor *grad_out = call->grad_out[0] ? call->grad_out[0] : ts_zeros_like(call->out[0]);
    ts_tensor *const in[] = {call->in[Q],  call->in[K],  call->in[V], call->in[MASK],
                             call->out[0], call->out[1], grad_out,    call->grad_out[1]};
    ts_op_call grad = {.def = &grad_row, .in = in, .num_in = 8, .num_attrs = NUM_ATTRS};
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
                                        .save_in = 1 << Q | 1 << K | 1 << V | 1 << MASK,
                                        .optional_in = 1 << MASK,
                                        .save_out = 3,
                                        .infer = attention_infer,
                                        .kernel = {[TS_CPU] = attention_kernel},
                                        .backward = attention_backward,
                                        .cost = attention_cost};

static double scale_of(const ts_tensor *q, double scale)
{
    int64_t width = ts_size(q, -1);
    return scale != 0 ? scale : 1 / sqrt((double)(width > 0 ? width : 1));
}

ts_tensor *ts_attention(ts_tensor *q, ts_tensor *k, ts_tensor *v, bool causal, double scale)
{
    if (ts_is_half(q) && ts_is_half(k) && ts_is_half(v))
        return ts_to_dtype(ts_attention(ts_half_up(q), ts_half_up(k), ts_half_up(v), causal, scale),
                           (ts_dtype)q->dtype);
    ts_tensor *const in[] = {q, k, v, NULL};
    ts_op_call call = {.def = &attention_row, .in = in, .num_in = 4, .num_attrs = NUM_ATTRS};
    call.attr[AT_CAUSAL].i = call.attr[AT_BOTTOM_RIGHT].i = causal;
    call.attr[AT_SCALE].f = scale_of(q, scale);
    return ts_dispatch(&call);
}

/* ---- with options ---------------------------------------------------------------------------- */

static ts_status check_options(const ts_tensor *q, const ts_tensor *k,
                               const ts_attention_options *o)
{
    if (!(o->dropout_p >= 0 && o->dropout_p <= 1))
        return ts_fail(TS_EINVAL, "attention: dropout_p is %g; it must be in 0 .. 1", o->dropout_p);
    if (o->attn_mask && o->is_causal)
        return ts_fail(TS_EINVAL,
                       "attention: attn_mask and is_causal exclude each other; put the causal part "
                       "into the mask");
    if (o->attn_mask && ts_requires_grad(o->attn_mask))
        return ts_fail(TS_EUNSUPPORTED,
                       "attention: attn_mask requires a gradient, which is not offered; detach it, "
                       "or use matmul and softmax");
    if (!o->enable_gqa && ts_ndim(q) == 4 && ts_ndim(k) == 4 && ts_size(q, 1) != ts_size(k, 1))
        return ts_fail(TS_ESHAPE,
                       "attention: q has %lld heads and k %lld; set enable_gqa for grouped queries",
                       (long long)ts_size(q, 1), (long long)ts_size(k, 1));
    return TS_OK;
}

static ts_tensor *attend(ts_tensor *q, ts_tensor *k, ts_tensor *v, const ts_attention_options *o)
{
    ts_tensor *const in[] = {q, k, v, o->attn_mask};
    ts_op_call call = {.def = &attention_row, .in = in, .num_in = 4, .num_attrs = NUM_ATTRS};
    call.attr[AT_CAUSAL].i = o->is_causal;
    call.attr[AT_SCALE].f = scale_of(q, o->scale);
    if (o->dropout_p > 0 && ts_ndim(q) == 4 && ts_ndim(k) == 4) {
        int64_t rows = ts_size(q, 0) * ts_size(q, 1) * ts_size(q, 2);
        ts_generator_state state = ts_generator_reserve(rows * ts_size(k, 2));
        call.attr[AT_DROP_P].f = o->dropout_p;
        call.attr[AT_SEED].i = (int64_t)state.seed;
        call.attr[AT_OFFSET].i = (int64_t)state.offset;
    }
    ts_tensor *out = ts_dispatch(&call);
    if (o->logsumexp && !ts_failed(out)) *o->logsumexp = call.out[1];
    return out;
}

/* A log-sum-exp that is not there is the failed output. */
static ts_tensor *finished(ts_tensor *out, const ts_attention_options *o)
{
    if (o->logsumexp && ts_failed(out)) *o->logsumexp = out;
    return out;
}

ts_tensor *ts_scaled_dot_product_attention(ts_tensor *q, ts_tensor *k, ts_tensor *v,
                                           const ts_attention_options *options)
{
    ts_attention_options o = TS_ATTENTION_OPTIONS_INIT;
    ts_status status = ts_options_read(&o, sizeof o, options, "scaled_dot_product_attention");
    if (status != TS_OK) return ts_fail_tensor_last(status);
    bool usable = q && k && v && !ts_failed(q) && !ts_failed(k) && !ts_failed(v) &&
                  !(o.attn_mask && ts_failed(o.attn_mask));
    if (usable) status = check_options(q, k, &o);
    if (status != TS_OK) return finished(ts_fail_tensor_last(status), &o);
    bool half = ts_is_half(q) && ts_is_half(k) && ts_is_half(v);
    if (!half) return finished(attend(q, k, v, &o), &o);
    o.attn_mask = ts_half_up(o.attn_mask);
    ts_tensor *out = attend(ts_half_up(q), ts_half_up(k), ts_half_up(v), &o);
    return finished(ts_to_dtype(out, (ts_dtype)q->dtype), &o);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions as operations.  y = conv(x, w) is linear in x and in w, so the gradients of the three
 * rows here are rows of this file again:
 *
 *     y = conv(x, w):       dx = input(g, w)      dw = weight(g, x)
 *     z = input(g, w):      dg = conv(h, w)       dw = weight(g, h)
 *     v = weight(g, x):     dg = conv(x, h)       dx = input(g, h)
 *
 * for the gradients g, h, h of y, z, v. */
#include "ops/conv.h"

#include "kernels/scratch.h"

/* Pairs are of height and width.  AT_SIZE: of x for input, of w for weight. */
enum { AT_STRIDE, AT_PADDING = 2, AT_DILATION = 4, AT_GROUPS = 6, AT_SIZE, NUM_ATTRS = 9 };
enum { MOST_BLOCKS = 8 }; /* partial sums of the gradient of the weight */

static ts_conv conv_of(const ts_spec *x, const ts_spec *w, const ts_attr *attr)
{
    ts_conv c = {.nn = ts_nn_kernels_for(x->dtype), .dtype = x->dtype};
    c.esize = (int64_t)ts_dtype_size(x->dtype);
    c.groups = attr[AT_GROUPS].i;
    c.in_channels = x->shape.dim[1];
    c.out_channels = w->shape.dim[0];
    for (int d = 0; d < 2; d++) {
        c.size[d] = x->shape.dim[2 + d];
        c.kernel[d] = w->shape.dim[2 + d];
        c.stride[d] = attr[AT_STRIDE + d].i;
        c.padding[d] = attr[AT_PADDING + d].i;
        c.dilation[d] = attr[AT_DILATION + d].i;
        int64_t room = c.size[d] + 2 * c.padding[d] - c.dilation[d] * (c.kernel[d] - 1) - 1;
        c.out_size[d] = room < 0 ? 0 : room / c.stride[d] + 1;
    }
    return c;
}

static ts_status check_numbers(const ts_attr *attr)
{
    for (int d = 0; d < 2; d++)
        if (attr[AT_STRIDE + d].i < 1 || attr[AT_DILATION + d].i < 1 || attr[AT_PADDING + d].i < 0)
            return ts_fail(TS_EINVAL,
                           "conv: stride %lld, padding %lld, dilation %lld; stride and "
                           "dilation must be positive, padding not negative",
                           (long long)attr[AT_STRIDE + d].i, (long long)attr[AT_PADDING + d].i,
                           (long long)attr[AT_DILATION + d].i);
    if (attr[AT_GROUPS].i >= 1) return TS_OK;
    return ts_fail(TS_EINVAL, "conv: %lld groups; at least 1", (long long)attr[AT_GROUPS].i);
}

static ts_status check_shapes(const ts_tensor *x, const ts_tensor *w, const ts_tensor *b,
                              int64_t groups)
{
    char x_text[TS_SHAPE_TEXT], w_text[TS_SHAPE_TEXT];
    const int64_t *s = x->shape.dim, *k = w->shape.dim;
    bool fits = x->shape.ndim == 4 && w->shape.ndim == 4 && k[0] % groups == 0 &&
                s[1] == k[1] * groups && k[2] > 0 && k[3] > 0 && s[1] > 0;
    if (fits && b) fits = b->shape.ndim == 1 && b->shape.dim[0] == k[0];
    if (fits) return TS_OK;
    return ts_fail(TS_ESHAPE,
                   "conv: input %s, weight %s and bias do not fit with %lld groups; they must be "
                   "(N, C, ...), (O, C / groups, ...) and (O)",
                   ts_shape_format(x_text, sizeof x_text, x->shape),
                   ts_shape_format(w_text, sizeof w_text, w->shape), (long long)groups);
}

static ts_status conv_infer(const ts_op_call *call, ts_spec *out)
{
    const ts_tensor *x = call->in[0], *w = call->in[1], *b = call->num_in > 2 ? call->in[2] : NULL;
    char x_text[TS_SHAPE_TEXT], w_text[TS_SHAPE_TEXT];
    TS_TRY(ts_need_same_float("conv", "input", x, "weight", w));
    if (b) TS_TRY(ts_need_same_float("conv", "input", x, "bias", b));
    TS_TRY(check_numbers(call->attr));
    TS_TRY(check_shapes(x, w, b, call->attr[AT_GROUPS].i));
    ts_spec x_spec = ts_tensor_spec(x), w_spec = ts_tensor_spec(w);
    ts_conv c = conv_of(&x_spec, &w_spec, call->attr);
    if (c.out_size[0] < 1 || c.out_size[1] < 1)
        return ts_fail(TS_ESHAPE, "conv: the kernel %s is larger than the padded input %s",
                       ts_shape_format(w_text, sizeof w_text, w->shape),
                       ts_shape_format(x_text, sizeof x_text, x->shape));
    *out = x_spec;
    out->shape = TS_SHAPE(x_spec.shape.dim[0], c.out_channels, c.out_size[0], c.out_size[1]);
    return TS_OK;
}

typedef struct conv_job {
    ts_conv c;
    ts_status (*run)(const ts_conv *c, int64_t group, char *to, const char *a, const char *b,
                     void *scratch);
    char *to;
    const char *a, *b, *bias;
    int64_t samples, to_bytes, a_bytes, b_bytes, block; /* bytes of a sample; 0: the same for all */
    ts_slots slots;
    _Atomic int status;
} conv_job;

static void add_bias(const conv_job *job, char *y, int64_t group)
{
    const ts_conv *c = &job->c;
    int64_t outputs = c->out_channels / c->groups, n = c->out_size[0] * c->out_size[1];
    for (int64_t o = group * outputs; job->bias && o < (group + 1) * outputs; o++) {
        char *line = y + o * n * c->esize;
        c->nn->normalize(line, line, n, 0, 1, ts_read_at(job->bias, c->esize == 8, o));
    }
}

static void run_samples(int64_t begin, int64_t end, void *user)
{
    conv_job *job = user;
    void *scratch = ts_slot_claim(&job->slots);
    for (int64_t i = begin; i < end; i++) {
        int64_t n = i / job->c.groups, group = i % job->c.groups;
        char *to = job->to + n * job->to_bytes;
        ts_status status = job->run(&job->c, group, to, job->a + n * job->a_bytes,
                                    job->b + n * job->b_bytes, scratch);
        if (status != TS_OK) job->status = status;
        add_bias(job, to, group);
    }
    ts_slot_release(&job->slots, scratch);
}

/* Block i of the samples adds up its own gradient of the weight. */
static void run_blocks(int64_t begin, int64_t end, void *user)
{
    conv_job *job = user;
    void *scratch = ts_slot_claim(&job->slots);
    for (int64_t i = begin; i < end; i++) {
        int64_t part = i / job->c.groups, group = i % job->c.groups;
        int64_t last = (part + 1) * job->block;
        for (int64_t n = part * job->block; n < last && n < job->samples; n++) {
            ts_status status =
                job->run(&job->c, group, job->to + part * job->to_bytes, job->a + n * job->a_bytes,
                         job->b + n * job->b_bytes, scratch);
            if (status != TS_OK) job->status = status;
        }
    }
    ts_slot_release(&job->slots, scratch);
}

static ts_status run_job(conv_job *job, int64_t count, void (*fn)(int64_t, int64_t, void *))
{
    int slots = ts_slots_wanted();
    size_t bytes = ts_conv_scratch(&job->c);
    ts_storage *scratch;
    TS_TRY(ts_scratch_new(&scratch, bytes * (size_t)slots));
    ts_slots_init(&job->slots, scratch->data, bytes, slots);
    job->status = TS_OK;
    ts_parallel_for(count * job->c.groups, 1, fn, job);
    ts_storage_release(scratch);
    return (ts_status)job->status;
}

/* a, b: the two inputs of the row; per sample or, for the weight, not. */
static ts_status start_job(conv_job *job, const ts_op_call *call, int64_t samples)
{
    TS_TRY(ts_row_major_data(&job->a, call->in[0], "conv: input"));
    TS_TRY(ts_row_major_data(&job->b, call->in[1], "conv: weight"));
    job->samples = samples;
    job->a_bytes = (int64_t)ts_nbytes(call->in[0]) / samples;
    job->to_bytes = (int64_t)ts_nbytes(call->out[0]) / samples;
    job->to = ts_tensor_bytes(call->out[0]);
    return TS_OK;
}

static ts_status conv_kernel(ts_op_call *call)
{
    conv_job job = {.run = ts_conv_forward};
    ts_spec x = ts_tensor_spec(call->in[0]), w = ts_tensor_spec(call->in[1]);
    if (call->out[0]->numel == 0) return TS_OK;
    job.c = conv_of(&x, &w, call->attr);
    TS_TRY(start_job(&job, call, x.shape.dim[0]));
    TS_TRY(ts_row_major_data(&job.bias, call->num_in > 2 ? call->in[2] : NULL, "conv: bias"));
    return run_job(&job, job.samples, run_samples);
}

/* in: g, w; attributes: the size of x */
static ts_status input_infer(const ts_op_call *call, ts_spec *out)
{
    const ts_tensor *g = call->in[0], *w = call->in[1];
    *out = ts_tensor_spec(g);
    out->shape = TS_SHAPE(g->shape.dim[0], w->shape.dim[1] * call->attr[AT_GROUPS].i,
                          call->attr[AT_SIZE].i, call->attr[AT_SIZE + 1].i);
    return TS_OK;
}

static ts_status input_kernel(ts_op_call *call)
{
    conv_job job = {.run = ts_conv_input};
    ts_spec x = ts_tensor_spec(call->out[0]), w = ts_tensor_spec(call->in[1]);
    if (x.shape.dim[0] == 0 || call->in[0]->numel == 0) return ts_tensor_fill_data(call->out[0], 0);
    job.c = conv_of(&x, &w, call->attr);
    TS_TRY(start_job(&job, call, x.shape.dim[0]));
    return run_job(&job, job.samples, run_samples);
}

/* in: g, x; attributes: the size of w */
static ts_status weight_infer(const ts_op_call *call, ts_spec *out)
{
    const ts_tensor *g = call->in[0], *x = call->in[1];
    *out = ts_tensor_spec(x);
    out->shape = TS_SHAPE(g->shape.dim[1], x->shape.dim[1] / call->attr[AT_GROUPS].i,
                          call->attr[AT_SIZE].i, call->attr[AT_SIZE + 1].i);
    return TS_OK;
}

static ts_status weight_kernel(ts_op_call *call)
{
    conv_job job = {.run = ts_conv_weight};
    ts_tensor *dw = call->out[0];
    ts_spec x = ts_tensor_spec(call->in[1]), w = ts_tensor_spec(dw);
    ts_storage *parts;
    if (dw->numel == 0 || call->in[0]->numel == 0) return ts_tensor_fill_data(dw, 0);
    job.c = conv_of(&x, &w, call->attr);
    TS_TRY(start_job(&job, call, x.shape.dim[0]));
    job.b_bytes = (int64_t)ts_nbytes(call->in[1]) / job.samples;
    job.to_bytes = (int64_t)ts_nbytes(dw);
    job.block = (job.samples + MOST_BLOCKS - 1) / MOST_BLOCKS;
    int64_t blocks = (job.samples + job.block - 1) / job.block;
    TS_TRY(ts_scratch_new(&parts, (size_t)(blocks * job.to_bytes)));
    memset(parts->data, 0, (size_t)(blocks * job.to_bytes));
    job.to = parts->data;
    ts_status status = run_job(&job, blocks, run_blocks);
    job.c.nn->column_sum(ts_tensor_bytes(dw), parts->data, blocks, dw->numel, dw->numel);
    ts_storage_release(parts);
    return status;
}

/* ---- gradients ------------------------------------------------------------------------------- */

static ts_tensor *apply(const ts_op_def *def, ts_tensor *a, ts_tensor *b, const ts_attr *attr,
                        const int64_t *size)
{
    ts_tensor *const in[] = {a, b};
    ts_op_call call = {.def = def, .in = in, .num_in = 2, .num_attrs = NUM_ATTRS};
    memcpy(call.attr, attr, AT_SIZE * sizeof *attr);
    for (int d = 0; d < 2; d++) call.attr[AT_SIZE + d].i = size ? size[d] : 0;
    return ts_dispatch(&call);
}

static ts_tensor *conv_again(ts_tensor *x, ts_tensor *w, const ts_attr *attr);
static ts_tensor *conv_input(ts_tensor *g, ts_tensor *w, const ts_attr *attr, const int64_t *size);
static ts_tensor *conv_weight(ts_tensor *g, ts_tensor *x, const ts_attr *attr, const int64_t *size);

static ts_status conv_backward(const ts_backward_call *call)
{
    ts_tensor *g = call->grad_out[0];
    const ts_spec *spec = call->in_spec;
    if (call->needs[0])
        call->grad_in[0] = conv_input(g, call->in[1], call->attr, spec[0].shape.dim + 2);
    if (call->needs[1])
        call->grad_in[1] = conv_weight(g, call->in[0], call->attr, spec[1].shape.dim + 2);
    if (call->num_in > 2 && call->needs[2])
        call->grad_in[2] = ts_sum_dims(g, (const int[]){0, 2, 3}, 3, false);
    return TS_OK;
}

static ts_status input_backward(const ts_backward_call *call)
{
    ts_tensor *h = call->grad_out[0];
    if (call->needs[0]) call->grad_in[0] = conv_again(h, call->in[1], call->attr);
    if (call->needs[1])
        call->grad_in[1] = conv_weight(call->in[0], h, call->attr, call->in_spec[1].shape.dim + 2);
    return TS_OK;
}

static ts_status weight_backward(const ts_backward_call *call)
{
    ts_tensor *h = call->grad_out[0];
    if (call->needs[0]) call->grad_in[0] = conv_again(call->in[1], h, call->attr);
    if (call->needs[1])
        call->grad_in[1] = conv_input(call->in[0], h, call->attr, call->in_spec[1].shape.dim + 2);
    return TS_OK;
}

static void conv_cost(const ts_op_call *call, double *flops, double *bytes)
{
    const ts_tensor *x = call->in[0], *w = call->in[1], *y = call->out[0];
    double patch = (double)w->numel / (double)w->shape.dim[0];
    *flops = 2 * (double)y->numel * patch;
    *bytes = (double)(ts_nbytes(x) + ts_nbytes(w) + ts_nbytes(y));
}

#define ROW(row, text, prefix, cost_fn)                                                            \
    static const ts_op_def row = {.name = text,                                                    \
                                  .num_out = 1,                                                    \
                                  .save_in = 3,                                                    \
                                  .save_in_if = {2, 1},                                            \
                                  .optional_in = 4,                                                \
                                  .infer = prefix##_infer,                                         \
                                  .kernel = {[TS_CPU] = prefix##_kernel},                          \
                                  .backward = prefix##_backward,                                   \
                                  .cost = cost_fn};
ROW(conv_row, "conv", conv, conv_cost)
ROW(input_row, "conv_input", input, NULL)
ROW(weight_row, "conv_weight", weight, NULL)

static ts_tensor *conv_again(ts_tensor *x, ts_tensor *w, const ts_attr *attr)
{
    return apply(&conv_row, x, w, attr, NULL);
}
static ts_tensor *conv_input(ts_tensor *g, ts_tensor *w, const ts_attr *attr, const int64_t *size)
{
    return apply(&input_row, g, w, attr, size);
}
static ts_tensor *conv_weight(ts_tensor *g, ts_tensor *x, const ts_attr *attr, const int64_t *size)
{
    return apply(&weight_row, g, x, attr, size);
}

ts_tensor *ts_conv2d(ts_tensor *x, ts_tensor *weight, ts_tensor *bias, const ts_conv_options *opt)
{
    ts_conv_options o = TS_CONV_OPTIONS_INIT;
    ts_tensor *const in[] = {ts_half_up(x), ts_half_up(weight), ts_half_up(bias)};
    ts_op_call call = {.def = &conv_row, .in = in, .num_in = bias ? 3 : 2, .num_attrs = NUM_ATTRS};
    if (opt && opt->struct_size == 0)
        return ts_fail_tensor(TS_EINVAL, "conv: options were not set up with TS_CONV_OPTIONS_INIT");
    if (opt) o = *opt;
    for (int d = 0; d < 2; d++) {
        call.attr[AT_STRIDE + d].i = o.stride[d];
        call.attr[AT_PADDING + d].i = o.padding[d];
        call.attr[AT_DILATION + d].i = o.dilation[d];
    }
    call.attr[AT_GROUPS].i = o.groups;
    ts_tensor *y = ts_dispatch(&call);
    return ts_is_half(x) ? ts_to_dtype(y, (ts_dtype)x->dtype) : y;
}

ts_tensor *ts_conv1d(ts_tensor *x, ts_tensor *weight, ts_tensor *bias, const ts_conv_options *opt)
{
    ts_conv_options o = TS_CONV_OPTIONS_INIT;
    if (ts_failed(x) || ts_failed(weight)) return ts_conv2d(x, weight, bias, opt);
    if (ts_ndim(x) != 3 || ts_ndim(weight) != 3)
        return ts_fail_tensor(TS_ESHAPE,
                              "conv1d: input has %d and weight %d dimensions; they must "
                              "be (N, C, L) and (O, C / groups, k)",
                              ts_ndim(x), ts_ndim(weight));
    if (opt) o = *opt;
    o.stride[1] = o.stride[0];
    o.padding[1] = o.padding[0];
    o.dilation[1] = o.dilation[0];
    o.stride[0] = o.dilation[0] = 1;
    o.padding[0] = 0;
    return ts_squeeze(ts_conv2d(ts_unsqueeze(x, 2), ts_unsqueeze(weight, 2), bias, &o), 2);
}

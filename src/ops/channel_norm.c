/* SPDX-License-Identifier: Apache-2.0 */
/* Norms of channels: batch_norm, group_norm.
 *
 * x (N, C, ...) is seen as N C lines of L values side by side.  Lines share statistics by channel
 * (batch) or by sample and group.  With h = (x - mean) rstd, g = dy w and averages over the values
 * that share statistics:
 *
 *     y = h w + b     dx = rstd (g - avg g - h avg(g h))     dw = sum dy h     db = sum dy
 *
 * and dx = rstd g where the statistics are given. */
#include <math.h>
#include <tessera/autograd.h>

#include "ops/nn_impl.h"

/* groups 0: over the batch */
enum { AT_EPS, AT_GROUPS, NUM_ATTRS };
enum { IN_X, IN_WEIGHT, IN_BIAS, IN_MEAN, IN_VAR, NUM_IN };

static ts_status check_channels(const ts_op_call *call, int i, const char *what)
{
    const ts_tensor *x = call->in[IN_X], *t = call->in[i];
    char text[TS_SHAPE_TEXT];
    if (!t) return TS_OK;
    TS_TRY(ts_need_same_float(call->def->name, "input", x, what, t));
    if (t->shape.ndim == 1 && t->shape.dim[0] == x->shape.dim[1]) return TS_OK;
    return ts_fail(TS_ESHAPE, "%s: %s has shape %s; the input has %lld channels", call->def->name,
                   what, ts_shape_format(text, sizeof text, t->shape), (long long)x->shape.dim[1]);
}

static ts_status channel_norm_infer(const ts_op_call *call, ts_spec *out)
{
    static const char *const names[] = {"", "weight", "bias", "running_mean", "running_var"};
    const ts_tensor *x = call->in[IN_X];
    int64_t groups = call->attr[AT_GROUPS].i;
    char text[TS_SHAPE_TEXT];
    TS_TRY(ts_need_float(call->def->name, "input", x));
    if (x->shape.ndim < 2)
        return ts_fail(TS_ESHAPE, "%s: input has shape %s; it must be (N, C, ...)", call->def->name,
                       ts_shape_format(text, sizeof text, x->shape));
    for (int i = IN_WEIGHT; i < NUM_IN; i++) TS_TRY(check_channels(call, i, names[i]));
    if (groups < 0 || (groups > 0 && x->shape.dim[1] % groups != 0))
        return ts_fail(TS_EINVAL, "%s: %lld channels are not a multiple of %lld groups",
                       call->def->name, (long long)x->shape.dim[1], (long long)groups);
    out[0] = out[1] = out[2] = ts_tensor_spec(x);
    out[1].shape = out[2].shape =
        groups > 0 ? TS_SHAPE(x->shape.dim[0], groups) : TS_SHAPE(x->shape.dim[1]);
    return TS_OK;
}

typedef struct channel_job {
    const ts_nn_kernels *kernels;
    const char *x, *w, *b, *dy;
    char *to; /* y or dx */
    bool f64, given;
    int64_t lines, length, channels, per_group, stats, share, row_bytes;
    double eps;
    ts_storage *scratch;
    double *first, *second;          /* two sums per line */
    double *mean, *var;              /* per statistic */
    double *sum_g, *sum_gh;          /* per statistic, backward */
    double *grad_weight, *grad_bias; /* per channel, backward */
} channel_job;

static int64_t stat_of(const channel_job *job, int64_t line)
{
    return job->per_group > 0 ? line / job->per_group : line % job->channels;
}

static double rstd_of(const channel_job *job, int64_t stat)
{
    return 1 / sqrt(job->var[stat] + job->eps);
}

static double weight_of(const channel_job *job, int64_t line)
{
    return job->w ? ts_read_at(job->w, job->f64, line % job->channels) : 1;
}

/* Memory and sizes for x with `stats` statistics. */
static ts_status start_job(channel_job *job, const ts_tensor *x, const ts_attr *attr, int64_t stats)
{
    int64_t groups = attr[AT_GROUPS].i;
    *job = (channel_job){.kernels = ts_nn_kernels_for((ts_dtype)x->dtype), .stats = stats};
    job->f64 = x->dtype == TS_FLOAT64;
    job->channels = x->shape.dim[1];
    job->lines = x->shape.dim[0] * job->channels;
    job->length = x->numel / job->lines;
    job->row_bytes = job->length * ts_esize(x);
    job->per_group = groups > 0 ? job->channels / groups : 0;
    job->share = x->numel / stats;
    job->eps = attr[AT_EPS].f;
    size_t count = (size_t)(2 * job->lines + 4 * stats + 2 * job->channels);
    TS_TRY(ts_scratch_new(&job->scratch, count * sizeof(double)));
    memset(job->scratch->data, 0, count * sizeof(double));
    job->first = job->scratch->data;
    job->second = job->first + job->lines;
    job->mean = job->second + job->lines;
    job->var = job->mean + stats;
    job->sum_g = job->var + stats;
    job->sum_gh = job->sum_g + stats;
    job->grad_weight = job->sum_gh + stats;
    job->grad_bias = job->grad_weight + job->channels;
    return TS_OK;
}

static void run_lines(channel_job *job, void (*fn)(int64_t begin, int64_t end, void *user))
{
    ts_parallel_for(job->lines, ts_row_grain(job->length), fn, job);
}

/* ---- forward --------------------------------------------------------------------------------- */

static void sum_lines(int64_t begin, int64_t end, void *user)
{
    channel_job *job = user;
    for (int64_t i = begin; i < end; i++)
        job->kernels->moments(&job->first[i], &job->second[i], job->x + i * job->row_bytes,
                              job->length, job->mean[stat_of(job, i)]);
}

/* Mean, then variance about it. */
static void measure(channel_job *job)
{
    double *shift = job->sum_g, n = (double)job->share;
    run_lines(job, sum_lines);
    for (int64_t i = 0; i < job->lines; i++) shift[stat_of(job, i)] += job->first[i];
    for (int64_t s = 0; s < job->stats; s++) job->mean[s] = shift[s] / n;
    run_lines(job, sum_lines);
    memset(shift, 0, (size_t)job->stats * sizeof *shift);
    for (int64_t i = 0; i < job->lines; i++) {
        shift[stat_of(job, i)] += job->first[i];
        job->var[stat_of(job, i)] += job->second[i];
    }
    for (int64_t s = 0; s < job->stats; s++) {
        double off = shift[s] / n, var = job->var[s] / n - off * off;
        job->var[s] = var < 0 ? 0 : var;
    }
}

static void normalize_lines(int64_t begin, int64_t end, void *user)
{
    const channel_job *job = user;
    for (int64_t i = begin; i < end; i++) {
        int64_t stat = stat_of(job, i), at = i * job->row_bytes;
        double scale = weight_of(job, i) * rstd_of(job, stat);
        double shift = job->b ? ts_read_at(job->b, job->f64, i % job->channels) : 0;
        job->kernels->normalize(job->to + at, job->x + at, job->length, job->mean[stat], scale,
                                shift);
    }
}

static ts_status read_stats(channel_job *job, ts_tensor *mean, ts_tensor *var)
{
    const char *m, *v;
    TS_TRY(ts_row_major_data(&m, mean, "batch_norm: mean"));
    TS_TRY(ts_row_major_data(&v, var, "batch_norm: variance"));
    for (int64_t s = 0; s < job->stats; s++) {
        job->mean[s] = ts_read_at(m, job->f64, s);
        job->var[s] = ts_read_at(v, job->f64, s);
    }
    return TS_OK;
}

static ts_status forward(channel_job *job, ts_op_call *call)
{
    TS_TRY(ts_row_major_data(&job->x, call->in[IN_X], "batch_norm: input"));
    TS_TRY(ts_row_major_data(&job->w, call->in[IN_WEIGHT], "batch_norm: weight"));
    TS_TRY(ts_row_major_data(&job->b, call->in[IN_BIAS], "batch_norm: bias"));
    job->to = ts_tensor_bytes(call->out[0]);
    if (call->in[IN_MEAN])
        TS_TRY(read_stats(job, call->in[IN_MEAN], call->in[IN_VAR]));
    else
        measure(job);
    run_lines(job, normalize_lines);
    for (int64_t s = 0; s < job->stats; s++) {
        ts_write_at(ts_tensor_bytes(call->out[1]), job->f64, s, job->mean[s]);
        ts_write_at(ts_tensor_bytes(call->out[2]), job->f64, s, job->var[s]);
    }
    return TS_OK;
}

static ts_status channel_norm_kernel(ts_op_call *call)
{
    channel_job job;
    if (call->out[0]->numel == 0) {
        TS_TRY(ts_tensor_fill_data(call->out[1], NAN));
        return ts_tensor_fill_data(call->out[2], NAN);
    }
    TS_TRY(start_job(&job, call->in[IN_X], call->attr, call->out[1]->numel));
    ts_status status = forward(&job, call);
    ts_storage_release(job.scratch);
    return status;
}

/* ---- backward -------------------------------------------------------------------------------- */

enum { GRAD_DY, GRAD_X, GRAD_WEIGHT, GRAD_MEAN, GRAD_VAR, GRAD_IN };

static ts_status grad_infer(const ts_op_call *call, ts_spec *out)
{
    out[0] = out[1] = out[2] = ts_tensor_spec(call->in[GRAD_X]);
    out[1].shape = out[2].shape = TS_SHAPE(out[0].shape.dim[1]);
    return TS_OK;
}

static void sum_grad_lines(int64_t begin, int64_t end, void *user)
{
    channel_job *job = user;
    for (int64_t i = begin; i < end; i++) {
        int64_t at = i * job->row_bytes;
        job->kernels->moments_grad(&job->first[i], &job->second[i], job->dy + at, job->x + at,
                                   job->length, job->mean[stat_of(job, i)]);
    }
}

static void combine_grads(channel_job *job)
{
    for (int64_t i = 0; i < job->lines; i++) {
        int64_t stat = stat_of(job, i), channel = i % job->channels;
        double w = weight_of(job, i), with_h = job->second[i] * rstd_of(job, stat);
        job->grad_bias[channel] += job->first[i];
        job->grad_weight[channel] += with_h;
        job->sum_g[stat] += w * job->first[i];
        job->sum_gh[stat] += w * with_h;
    }
}

static void grad_lines(int64_t begin, int64_t end, void *user)
{
    const channel_job *job = user;
    double n = (double)job->share;
    for (int64_t i = begin; i < end; i++) {
        int64_t stat = stat_of(job, i), at = i * job->row_bytes;
        double rstd = rstd_of(job, stat), by_x = 0, constant = 0;
        if (!job->given) {
            by_x = -rstd * rstd * job->sum_gh[stat] / n;
            constant = -rstd * job->sum_g[stat] / n;
        }
        job->kernels->normalize_grad(job->to + at, job->dy + at, job->x + at, job->length,
                                     job->mean[stat], rstd * weight_of(job, i), by_x, constant);
    }
}

static ts_status backward(channel_job *job, ts_op_call *call)
{
    TS_TRY(ts_row_major_data(&job->dy, call->in[GRAD_DY], "batch_norm: gradient"));
    TS_TRY(ts_row_major_data(&job->x, call->in[GRAD_X], "batch_norm: input"));
    TS_TRY(ts_row_major_data(&job->w, call->in[GRAD_WEIGHT], "batch_norm: weight"));
    TS_TRY(read_stats(job, call->in[GRAD_MEAN], call->in[GRAD_VAR]));
    job->to = ts_tensor_bytes(call->out[0]);
    run_lines(job, sum_grad_lines);
    combine_grads(job);
    run_lines(job, grad_lines);
    for (int64_t c = 0; c < job->channels; c++) {
        ts_write_at(ts_tensor_bytes(call->out[1]), job->f64, c, job->grad_weight[c]);
        ts_write_at(ts_tensor_bytes(call->out[2]), job->f64, c, job->grad_bias[c]);
    }
    return TS_OK;
}

/* One more attribute: are the statistics given? */
static ts_status grad_kernel(ts_op_call *call)
{
    channel_job job;
    if (call->out[0]->numel == 0) {
        TS_TRY(ts_tensor_fill_data(call->out[1], 0));
        return ts_tensor_fill_data(call->out[2], 0);
    }
    TS_TRY(start_job(&job, call->in[GRAD_X], call->attr, call->in[GRAD_MEAN]->numel));
    job.given = call->attr[NUM_ATTRS].i != 0;
    ts_status status = backward(&job, call);
    ts_storage_release(job.scratch);
    return status;
}

#define GRAD_ROW(row, text)                                                                        \
    static const ts_op_def row = {.name = text,                                                    \
                                  .num_out = 3,                                                    \
                                  .optional_in = 1 << GRAD_WEIGHT,                                 \
                                  .infer = grad_infer,                                             \
                                  .kernel = {[TS_CPU] = grad_kernel}};
GRAD_ROW(batch_grad_row, "batch_norm_grad")
GRAD_ROW(group_grad_row, "group_norm_grad")

static ts_status channel_norm_backward(const ts_backward_call *call)
{
    bool batch = call->attr[AT_GROUPS].i == 0;
    ts_tensor *const in[] = {call->grad_out[0], call->in[IN_X], call->in[IN_WEIGHT], call->out[1],
                             call->out[2]};
    ts_op_call grad = {.def = batch ? &batch_grad_row : &group_grad_row, .in = in};
    grad.num_in = GRAD_IN;
    grad.num_attrs = NUM_ATTRS + 1;
    if (!call->grad_out[0]) return TS_OK;
    memcpy(grad.attr, call->attr, NUM_ATTRS * sizeof *call->attr);
    grad.attr[NUM_ATTRS].i = call->num_attrs > NUM_ATTRS;
    ts_dispatch(&grad);
    for (int i = 0; i < 3; i++)
        if (call->needs[i]) call->grad_in[i] = grad.out[i];
    return TS_OK;
}

#define ROW(row, text)                                                                             \
    static const ts_op_def row = {.name = text,                                                    \
                                  .num_out = 3,                                                    \
                                  .save_in = 1 << IN_X | 1 << IN_WEIGHT,                           \
                                  .save_out = 6,                                                   \
                                  .optional_in =                                                   \
                                      1 << IN_WEIGHT | 1 << IN_BIAS | 1 << IN_MEAN | 1 << IN_VAR,  \
                                  .infer = channel_norm_infer,                                     \
                                  .kernel = {[TS_CPU] = channel_norm_kernel},                      \
                                  .backward = channel_norm_backward};
ROW(batch_norm_row, "batch_norm")
ROW(group_norm_row, "group_norm")

/* out: the result, mean and variance */
static void run(ts_op_call *call, ts_tensor *const *tensors, int64_t groups, double eps)
{
    ts_tensor *in[NUM_IN];
    for (int i = 0; i < NUM_IN; i++) in[i] = ts_half_up(tensors[i]);
    *call = (ts_op_call){.def = groups ? &group_norm_row : &batch_norm_row, .in = in};
    call->num_in = NUM_IN;
    call->num_attrs = in[IN_MEAN] ? NUM_ATTRS + 1 : NUM_ATTRS;
    call->attr[AT_EPS].f = eps;
    call->attr[AT_GROUPS].i = groups;
    ts_dispatch(call);
    call->in = NULL;
    if (ts_is_half(tensors[IN_X]))
        call->out[0] = ts_to_dtype(call->out[0], (ts_dtype)tensors[IN_X]->dtype);
}

ts_tensor *ts_group_norm(ts_tensor *x, int64_t groups, ts_tensor *weight, ts_tensor *bias,
                         double eps)
{
    ts_tensor *const in[NUM_IN] = {x, weight, bias};
    ts_op_call call;
    if (groups < 1)
        return ts_fail_tensor(TS_EINVAL, "group_norm: %lld groups; at least 1", (long long)groups);
    run(&call, in, groups, eps);
    return call.out[0];
}

static ts_status update_running(ts_tensor *running, ts_tensor *now, double factor, double momentum)
{
    if (!running) return TS_OK;
    ts_tensor *scaled = ts_mul_scalar(now, factor);
    ts_tensor *mixed = ts_lerp_scalar(ts_half_up(running), scaled, momentum);
    return ts_tensor_check(ts_copy_(running, mixed), "batch_norm");
}

static ts_status update_both(const ts_op_call *call, ts_tensor *mean, ts_tensor *var, double count,
                             double momentum)
{
    bool former = ts_no_grad_begin();
    ts_status status = update_running(mean, call->out[1], 1, momentum);
    if (status == TS_OK) status = update_running(var, call->out[2], count / (count - 1), momentum);
    ts_no_grad_end(former);
    return status;
}

/* (N, C) as one sample whose channels are lines */
static ts_tensor *turned(ts_tensor *x) { return ts_unsqueeze(ts_transpose(x, 0, 1), 0); }

ts_tensor *ts_batch_norm(ts_tensor *x, ts_tensor *running_mean, ts_tensor *running_var,
                         ts_tensor *weight, ts_tensor *bias, bool training, double momentum,
                         double eps)
{
    bool flat = x && !ts_failed(x) && x->shape.ndim == 2;
    ts_tensor *const in[NUM_IN] = {flat ? turned(x) : x, weight, bias,
                                   training ? NULL : running_mean, training ? NULL : running_var};
    ts_op_call call;
    if (!training && (!running_mean || !running_var))
        return ts_fail_tensor(TS_EINVAL, "batch_norm: not training, but running_mean or "
                                         "running_var is missing");
    int64_t channels = ts_size(x, 1), count = channels > 0 ? ts_numel(x) / channels : 0;
    if (training && count == 1)
        return ts_fail_tensor(TS_ESHAPE, "batch_norm: one value per channel has no variance; train "
                                         "with larger batches");
    run(&call, in, 0, eps);
    if (ts_failed(call.out[0])) return call.out[0];
    if (training && count > 0) {
        ts_status status = update_both(&call, running_mean, running_var, (double)count, momentum);
        if (status != TS_OK) return ts_fail_tensor_last(status);
    }
    return flat ? ts_transpose(ts_squeeze(call.out[0], 0), 0, 1) : call.out[0];
}

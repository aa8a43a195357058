/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling of (N, C, H, W): the mean or the largest of each window. */
#include <math.h>

#include "ops/nn_impl.h"

/* Pairs are of height and width.  adaptive: AT_KERNEL holds the sizes of the result.  AT_SIZE: of
 * the input, for the gradient. */
enum {
    AT_KERNEL,
    AT_STRIDE = 2,
    AT_PADDING = 4,
    AT_ADAPTIVE = 6,
    AT_INSIDE,
    AT_SIZE,
    NUM_ATTRS = 10
};

typedef struct pool_axis {
    int64_t size, out, kernel, stride, padding;
    bool adaptive;
} pool_axis;

static pool_axis axis_of(const ts_attr *attr, int d, int64_t size)
{
    pool_axis a = {size,
                   0,
                   attr[AT_KERNEL + d].i,
                   attr[AT_STRIDE + d].i,
                   attr[AT_PADDING + d].i,
                   attr[AT_ADAPTIVE].i != 0};
    int64_t room = size + 2 * a.padding - a.kernel;
    a.out = a.adaptive ? a.kernel : room < 0 ? 0 : room / a.stride + 1;
    return a;
}

/* The window of output o: begin .. end - 1, within the input. */
static void window(const pool_axis *a, int64_t o, int64_t *begin, int64_t *end)
{
    int64_t from = o * a->stride - a->padding, to = from + a->kernel;
    if (a->adaptive) {
        from = o * a->size / a->out;
        to = ((o + 1) * a->size + a->out - 1) / a->out;
    }
    *begin = from > 0 ? from : 0;
    *end = to < a->size ? to : a->size;
}

static ts_status check_numbers(const char *op, const ts_attr *attr)
{
    for (int d = 0; d < 2; d++) {
        int64_t k = attr[AT_KERNEL + d].i, s = attr[AT_STRIDE + d].i, p = attr[AT_PADDING + d].i;
        if (k < 1 || s < 1 || p < 0 || 2 * p > k)
            return ts_fail(TS_EINVAL,
                           "%s: kernel %lld, stride %lld, padding %lld; kernel and stride must be "
                           "positive, padding at most half the kernel",
                           op, (long long)k, (long long)s, (long long)p);
    }
    return TS_OK;
}

static ts_status pool_infer(const ts_op_call *call, ts_spec *out)
{
    const ts_tensor *x = call->in[0];
    char text[TS_SHAPE_TEXT];
    TS_TRY(ts_need_float(call->def->name, "input", x));
    TS_TRY(check_numbers(call->def->name, call->attr));
    *out = ts_tensor_spec(x);
    for (int d = 0; d < 2 && x->shape.ndim == 4; d++)
        out->shape.dim[2 + d] = axis_of(call->attr, d, x->shape.dim[2 + d]).out;
    if (x->shape.ndim != 4 || out->shape.dim[2] < 1 || out->shape.dim[3] < 1 ||
        x->shape.dim[2] < 1 || x->shape.dim[3] < 1)
        return ts_fail(TS_ESHAPE,
                       "%s: input %s must be (N, C, ...), its planes not smaller than "
                       "the kernel",
                       call->def->name, ts_shape_format(text, sizeof text, x->shape));
    if (call->def->num_out > 1) {
        out[1] = out[0];
        out[1].dtype = TS_INT64;
    }
    return TS_OK;
}

typedef struct pool_job {
    pool_axis axis[2];
    const char *x;
    char *y;
    int64_t *place; /* of the largest */
    bool f64, inside;
} pool_job;

static double divisor(const pool_job *job, int64_t h0, int64_t h1, int64_t w0, int64_t w1)
{
    const pool_axis *a = job->axis;
    if (job->inside || a[0].adaptive) return (double)((h1 - h0) * (w1 - w0));
    return (double)(a[0].kernel * a[1].kernel);
}

/* Calls BODY for every output `to` of plane n with its window h0 .. h1, w0 .. w1 in plane x. */
#define OVER_WINDOWS(type, y_type, y_plane, x_type, x_plane, BODY)                                 \
    const pool_axis *a = job->axis;                                                                \
    int64_t in_size = a[0].size * a[1].size, out_size = a[0].out * a[1].out;                       \
    y_type *to = (y_type *)(void *)(y_plane) + n * out_size;                                       \
    x_type *x = (x_type *)(void *)(x_plane) + n * in_size;                                         \
    int64_t width = a[1].size, h0, h1, w0, w1;                                                     \
    for (int64_t i = 0; i < a[0].out; i++)                                                         \
        for (int64_t j = 0; j < a[1].out; j++, to++) {                                             \
            window(&a[0], i, &h0, &h1);                                                            \
            window(&a[1], j, &w0, &w1);                                                            \
            BODY                                                                                   \
        }

#define PLANES(name, type)                                                                         \
    static void average_##name(const pool_job *job, int64_t n)                                     \
    {                                                                                              \
        OVER_WINDOWS(type, type, job->y, const type, (uintptr_t)job->x, {                          \
            double sum = 0;                                                                        \
            for (int64_t h = h0; h < h1; h++)                                                      \
                for (int64_t w = w0; w < w1; w++) sum += (double)x[h * width + w];                 \
            *to = (type)(sum / divisor(job, h0, h1, w0, w1));                                      \
        })                                                                                         \
    }                                                                                              \
    static void spread_##name(const pool_job *job, int64_t n)                                      \
    {                                                                                              \
        OVER_WINDOWS(type, const type, (uintptr_t)job->x, type, job->y, {                          \
            type part = (type)((double)*to / divisor(job, h0, h1, w0, w1));                        \
            for (int64_t h = h0; h < h1; h++)                                                      \
                for (int64_t w = w0; w < w1; w++) x[h * width + w] += part;                        \
        })                                                                                         \
    }                                                                                              \
    static void largest_##name(const pool_job *job, int64_t n)                                     \
    {                                                                                              \
        int64_t *place = job->place + n * job->axis[0].out * job->axis[1].out;                     \
        OVER_WINDOWS(type, type, job->y, const type, (uintptr_t)job->x, {                          \
            int64_t best = h0 * width + w0;                                                        \
            for (int64_t h = h0; h < h1; h++)                                                      \
                for (int64_t w = w0; w < w1; w++) {                                                \
                    type v = x[h * width + w];                                                     \
                    if (v > x[best] || v != v) best = h * width + w;                               \
                }                                                                                  \
            *to = x[best];                                                                         \
            *place++ = best;                                                                       \
        })                                                                                         \
    }
PLANES(f32, float)
PLANES(f64, double)

#define RUN(name)                                                                                  \
    static void name##_planes(int64_t begin, int64_t end, void *user)                              \
    {                                                                                              \
        const pool_job *job = user;                                                                \
        for (int64_t n = begin; n < end; n++)                                                      \
            if (job->f64)                                                                          \
                name##_f64(job, n);                                                                \
            else                                                                                   \
                name##_f32(job, n);                                                                \
    }
RUN(average)
RUN(spread)
RUN(largest)

/* shape: of the side that is not pooled. */
static ts_status run_pool(pool_job *job, const ts_op_call *call, ts_shape shape,
                          void (*fn)(int64_t, int64_t, void *))
{
    ts_tensor *out = call->out[0];
    for (int d = 0; d < 2; d++) job->axis[d] = axis_of(call->attr, d, shape.dim[2 + d]);
    TS_TRY(ts_row_major_data(&job->x, call->in[0], call->def->name));
    job->y = ts_tensor_bytes(out);
    job->f64 = out->dtype == TS_FLOAT64;
    job->inside = call->attr[AT_INSIDE].i != 0;
    ts_parallel_for(shape.dim[0] * shape.dim[1], ts_row_grain(shape.dim[2] * shape.dim[3]), fn,
                    job);
    return TS_OK;
}

static ts_status max_kernel(ts_op_call *call)
{
    pool_job job = {.place = NULL};
    if (call->out[0]->numel == 0) return TS_OK;
    job.place = (int64_t *)(void *)ts_tensor_bytes(call->out[1]);
    return run_pool(&job, call, call->in[0]->shape, largest_planes);
}

static ts_status average_kernel(ts_op_call *call)
{
    pool_job job = {.place = NULL};
    if (call->out[0]->numel == 0) return TS_OK;
    return run_pool(&job, call, call->in[0]->shape, average_planes);
}

static ts_status spread_infer(const ts_op_call *call, ts_spec *out)
{
    *out = ts_tensor_spec(call->in[0]);
    for (int d = 0; d < 2; d++) out->shape.dim[2 + d] = call->attr[AT_SIZE + d].i;
    return TS_OK;
}

static ts_status spread_kernel(ts_op_call *call)
{
    pool_job job = {.place = NULL};
    TS_TRY(ts_tensor_fill_data(call->out[0], 0));
    if (call->out[0]->numel == 0) return TS_OK;
    return run_pool(&job, call, call->out[0]->shape, spread_planes);
}

/* ---- gradients ------------------------------------------------------------------------------- */

static ts_tensor *average(ts_tensor *x, const ts_attr *attr);
static ts_tensor *spread(ts_tensor *g, const ts_attr *attr, const int64_t *size);

static ts_status average_backward(const ts_backward_call *call)
{
    call->grad_in[0] = spread(call->grad_out[0], call->attr, call->in_spec[0].shape.dim + 2);
    return TS_OK;
}

static ts_status spread_backward(const ts_backward_call *call)
{
    call->grad_in[0] = average(call->grad_out[0], call->attr);
    return TS_OK;
}

static ts_tensor *as_planes(ts_tensor *t) { return ts_flatten(t, 2, 3); }

static ts_status max_backward(const ts_backward_call *call)
{
    ts_shape shape = call->in_spec[0].shape, planes = shape;
    ts_tensor *g = call->grad_out[0];
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    if (!g) return TS_OK;
    opt.dtype = call->in_spec[0].dtype;
    opt.device = call->in_spec[0].device;
    planes.ndim = 3;
    planes.dim[2] = shape.dim[2] * shape.dim[3];
    ts_tensor *zeros = ts_zeros(planes, &opt);
    ts_tensor *dx = ts_scatter_add(zeros, 2, as_planes(call->out[1]), as_planes(g));
    call->grad_in[0] = ts_reshape(dx, shape);
    return TS_OK;
}

static const ts_op_def max_row = {.name = "max_pool",
                                  .num_out = 2,
                                  .save_out = 2,
                                  .infer = pool_infer,
                                  .kernel = {[TS_CPU] = max_kernel},
                                  .backward = max_backward};
static const ts_op_def average_row = {.name = "avg_pool",
                                      .num_out = 1,
                                      .infer = pool_infer,
                                      .kernel = {[TS_CPU] = average_kernel},
                                      .backward = average_backward};
static const ts_op_def spread_row = {.name = "avg_pool_grad",
                                     .num_out = 1,
                                     .infer = spread_infer,
                                     .kernel = {[TS_CPU] = spread_kernel},
                                     .backward = spread_backward};

static ts_tensor *apply(const ts_op_def *def, ts_tensor *x, const ts_attr *attr)
{
    ts_tensor *const in[] = {ts_half_up(x)};
    ts_op_call call = {.def = def, .in = in, .num_in = 1, .num_attrs = NUM_ATTRS};
    memcpy(call.attr, attr, NUM_ATTRS * sizeof *attr);
    ts_tensor *y = ts_dispatch(&call);
    return ts_is_half(x) ? ts_to_dtype(y, (ts_dtype)x->dtype) : y;
}

static ts_tensor *average(ts_tensor *x, const ts_attr *attr)
{
    return apply(&average_row, x, attr);
}

static ts_tensor *spread(ts_tensor *g, const ts_attr *attr, const int64_t *size)
{
    ts_attr with_size[NUM_ATTRS];
    memcpy(with_size, attr, sizeof with_size);
    for (int d = 0; d < 2; d++) with_size[AT_SIZE + d].i = size[d];
    return apply(&spread_row, g, with_size);
}

static ts_tensor *pool(const ts_op_def *def, ts_tensor *x, ts_pool_window p)
{
    ts_attr attr[NUM_ATTRS] = {{.i = 0}};
    for (int d = 0; d < 2; d++) {
        attr[AT_KERNEL + d].i = p.kernel[d];
        attr[AT_STRIDE + d].i = p.stride[d] ? p.stride[d] : p.kernel[d];
        attr[AT_PADDING + d].i = p.padding[d];
    }
    attr[AT_INSIDE].i = p.count_inside_only;
    return apply(def, x, attr);
}

ts_tensor *ts_max_pool2d(ts_tensor *x, ts_pool_window window) { return pool(&max_row, x, window); }
ts_tensor *ts_avg_pool2d(ts_tensor *x, ts_pool_window window)
{
    return pool(&average_row, x, window);
}

ts_tensor *ts_adaptive_avg_pool2d(ts_tensor *x, int64_t height, int64_t width)
{
    ts_attr attr[NUM_ATTRS] = {{.i = 0}};
    attr[AT_KERNEL].i = height;
    attr[AT_KERNEL + 1].i = width;
    attr[AT_STRIDE].i = attr[AT_STRIDE + 1].i = 1;
    attr[AT_ADAPTIVE].i = 1;
    return apply(&average_row, x, attr);
}

/* One dimension is a plane of height 1. */
static ts_pool_window flat(ts_pool_window p)
{
    p.kernel[1] = p.kernel[0];
    p.stride[1] = p.stride[0];
    p.padding[1] = p.padding[0];
    p.kernel[0] = p.stride[0] = 1;
    p.padding[0] = 0;
    return p;
}

ts_tensor *ts_max_pool1d(ts_tensor *x, ts_pool_window window)
{
    return ts_squeeze(ts_max_pool2d(ts_unsqueeze(x, -2), flat(window)), -2);
}
ts_tensor *ts_avg_pool1d(ts_tensor *x, ts_pool_window window)
{
    return ts_squeeze(ts_avg_pool2d(ts_unsqueeze(x, -2), flat(window)), -2);
}
ts_tensor *ts_adaptive_avg_pool1d(ts_tensor *x, int64_t length)
{
    return ts_squeeze(ts_adaptive_avg_pool2d(ts_unsqueeze(x, -2), 1, length), -2);
}

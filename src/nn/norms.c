/* SPDX-License-Identifier: Apache-2.0 */
/* RMSNorm, GroupNorm and BatchNorm. */
#include <float.h>
#include <tessera/autograd.h>
#include <tessera/nn.h>

#include "nn/layer.h"
#include "tensor/tensor.h"

/* A parameter that starts with one value; none unless `has`. */
static ts_tensor *constant(ts_module *m, const char *name, bool has, ts_shape shape, ts_dtype dtype,
                           double value)
{
    if (!has) return ts_module_add_parameter(m, name, NULL);
    return ts_init_constant_(ts_layer_parameter(m, name, shape, dtype), value);
}

/* ---- RMSNorm --------------------------------------------------------------------------------- */

typedef struct rms_norm {
    ts_shape shape;
    double eps;
    ts_tensor *weight;
} rms_norm;

/* The distance from 1 to the next number. */
static double epsilon_of(ts_dtype dtype)
{
    switch (dtype) {
    case TS_FLOAT64: return DBL_EPSILON;
    case TS_FLOAT16: return 0x1p-10;
    case TS_BFLOAT16: return 0x1p-7;
    default: return FLT_EPSILON;
    }
}

static ts_tensor *rms_norm_forward(ts_module *self, ts_tensor *x)
{
    rms_norm *s = ts_module_state(self);
    double eps = s->eps > 0 ? s->eps : epsilon_of(ts_tensor_dtype(x));
    return ts_rms_norm(x, s->shape, s->weight, eps);
}

static const ts_module_class rms_norm_class = {
    .name = "RMSNorm", .state_size = sizeof(rms_norm), .forward = rms_norm_forward};

ts_module *ts_rms_norm_new(ts_shape normalized_shape, const ts_rms_norm_options *opt)
{
    ts_rms_norm_options o = TS_RMS_NORM_OPTIONS_INIT;
    ts_status status = ts_options_read(&o, sizeof o, opt, "rms_norm_new");
    if (status != TS_OK) return ts_module_fail_last(status);
    if (normalized_shape.ndim < 1 || ts_shape_numel(normalized_shape) < 0)
        return ts_module_fail("rms_norm_new: normalized_shape needs 1 to %d sizes, none negative",
                              TS_MAX_DIMS);
    ts_module *self = ts_module_new(&rms_norm_class);
    rms_norm *s = ts_module_state(self);
    ts_scope scope = ts_scope_begin();
    s->shape = normalized_shape;
    s->eps = o.eps;
    s->weight = constant(self, "weight", o.elementwise_affine, normalized_shape, o.dtype, 1.0);
    ts_scope_end(scope);
    return self;
}

/* ---- GroupNorm ------------------------------------------------------------------------------- */

typedef struct group_norm {
    int64_t groups;
    double eps;
    ts_tensor *weight, *bias;
} group_norm;

static ts_tensor *group_norm_forward(ts_module *self, ts_tensor *x)
{
    group_norm *s = ts_module_state(self);
    return ts_group_norm(x, s->groups, s->weight, s->bias, s->eps);
}

static const ts_module_class group_norm_class = {
    .name = "GroupNorm", .state_size = sizeof(group_norm), .forward = group_norm_forward};

ts_module *ts_group_norm_new(int64_t num_groups, int64_t num_channels,
                             const ts_group_norm_options *opt)
{
    ts_group_norm_options o = TS_GROUP_NORM_OPTIONS_INIT;
    ts_status status = ts_options_read(&o, sizeof o, opt, "group_norm_new");
    if (status != TS_OK) return ts_module_fail_last(status);
    if (num_groups < 1 || num_channels < 0 || num_channels % num_groups != 0)
        return ts_module_fail("group_norm_new: %lld channels are not a multiple of %lld groups",
                              (long long)num_channels, (long long)num_groups);
    ts_module *self = ts_module_new(&group_norm_class);
    group_norm *s = ts_module_state(self);
    ts_scope scope = ts_scope_begin();
    s->groups = num_groups;
    s->eps = o.eps;
    s->weight = constant(self, "weight", o.affine, TS_SHAPE(num_channels), o.dtype, 1.0);
    s->bias = constant(self, "bias", o.affine, TS_SHAPE(num_channels), o.dtype, 0.0);
    ts_scope_end(scope);
    return self;
}

/* ---- BatchNorm ------------------------------------------------------------------------------- */

typedef struct batch_norm {
    ts_tensor *weight, *bias;
    ts_tensor *running_mean, *running_var, *num_batches_tracked; /* NULL: not tracked */
    double eps, momentum;
    int least_dims, most_dims;
} batch_norm;

/* Counts the batch; the share that it has in the running statistics. */
static ts_status count_batch(double *share, const batch_norm *s)
{
    double batches = 1;
    *share = s->momentum;
    if (!s->num_batches_tracked) return TS_OK;
    ts_add_scalar_(s->num_batches_tracked, 1.0);
    TS_TRY(ts_item(s->num_batches_tracked, &batches));
    if (s->momentum < 0) *share = 1.0 / batches;
    return TS_OK;
}

static ts_tensor *batch_norm_forward(ts_module *self, ts_tensor *x)
{
    batch_norm *s = ts_module_state(self);
    bool training = ts_module_is_training(self), by_batch = training || !s->running_mean;
    double share = 0;
    if (x && !ts_failed(x) && (ts_ndim(x) < s->least_dims || ts_ndim(x) > s->most_dims))
        return ts_fail_tensor(TS_ESHAPE, "%s: input has %d dimensions; %d to %d are possible",
                              ts_module_class_of(self)->name, ts_ndim(x), s->least_dims,
                              s->most_dims);
    if (training && x && !ts_failed(x) && ts_tensor_device(x) == TS_CPU) {
        ts_status status = count_batch(&share, s);
        if (status != TS_OK) return ts_fail_tensor_last(status);
    }
    return ts_batch_norm(x, s->running_mean, s->running_var, s->weight, s->bias, by_batch, share,
                         s->eps);
}

static const ts_module_class batch_norm1d_class = {
    .name = "BatchNorm1d", .state_size = sizeof(batch_norm), .forward = batch_norm_forward};
static const ts_module_class batch_norm2d_class = {
    .name = "BatchNorm2d", .state_size = sizeof(batch_norm), .forward = batch_norm_forward};

static void add_statistics(ts_module *self, batch_norm *s, int64_t channels, bool track,
                           ts_dtype dtype)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT, count = TS_TENSOR_OPTIONS_INIT;
    ts_shape shape = TS_SHAPE(channels);
    opt.dtype = dtype;
    count.dtype = TS_INT64;
    s->running_mean =
        ts_module_add_buffer(self, "running_mean", track ? ts_zeros(shape, &opt) : NULL, true);
    s->running_var =
        ts_module_add_buffer(self, "running_var", track ? ts_ones(shape, &opt) : NULL, true);
    s->num_batches_tracked = ts_module_add_buffer(
        self, "num_batches_tracked", track ? ts_zeros((ts_shape){0}, &count) : NULL, true);
}

static ts_module *batch_norm_new(const ts_module_class *klass, int64_t channels,
                                 const ts_batch_norm_options *opt, int least_dims, int most_dims)
{
    ts_batch_norm_options o = TS_BATCH_NORM_OPTIONS_INIT;
    ts_status status = ts_options_read(&o, sizeof o, opt, klass->name);
    if (status != TS_OK) return ts_module_fail_last(status);
    if (channels < 0)
        return ts_module_fail("%s: %lld channels; the number must not be negative", klass->name,
                              (long long)channels);
    ts_module *self = ts_module_new(klass);
    batch_norm *s = ts_module_state(self);
    ts_scope scope = ts_scope_begin();
    s->eps = o.eps;
    s->momentum = o.momentum;
    s->least_dims = least_dims;
    s->most_dims = most_dims;
    s->weight = constant(self, "weight", o.affine, TS_SHAPE(channels), o.dtype, 1.0);
    s->bias = constant(self, "bias", o.affine, TS_SHAPE(channels), o.dtype, 0.0);
    add_statistics(self, s, channels, o.track_running_stats, o.dtype);
    ts_scope_end(scope);
    return self;
}

ts_module *ts_batch_norm1d_new(int64_t num_features, const ts_batch_norm_options *opt)
{
    return batch_norm_new(&batch_norm1d_class, num_features, opt, 2, 3);
}

ts_module *ts_batch_norm2d_new(int64_t num_features, const ts_batch_norm_options *opt)
{
    return batch_norm_new(&batch_norm2d_class, num_features, opt, 4, 4);
}

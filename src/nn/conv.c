/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution layers. */
#include <math.h>
#include <tessera/nn.h>

#include "nn/layer.h"

typedef struct conv {
    ts_tensor *weight, *bias;
    ts_conv_options opt;
} conv;

static ts_tensor *conv1d_forward(ts_module *self, ts_tensor *x)
{
    conv *s = ts_module_state(self);
    return ts_conv1d(x, s->weight, s->bias, &s->opt);
}

static ts_tensor *conv2d_forward(ts_module *self, ts_tensor *x)
{
    conv *s = ts_module_state(self);
    return ts_conv2d(x, s->weight, s->bias, &s->opt);
}

static const ts_module_class conv1d_class = {
    .name = "Conv1d", .state_size = sizeof(conv), .forward = conv1d_forward};
static const ts_module_class conv2d_class = {
    .name = "Conv2d", .state_size = sizeof(conv), .forward = conv2d_forward};

static ts_conv_options operation_options(const ts_conv_layer_options *o)
{
    ts_conv_options opt = TS_CONV_OPTIONS_INIT;
    for (int i = 0; i < 2; i++) {
        opt.stride[i] = o->stride[i];
        opt.padding[i] = o->padding[i];
        opt.dilation[i] = o->dilation[i];
    }
    opt.groups = o->groups;
    return opt;
}

static ts_status check(const char *name, int64_t in, int64_t out, const ts_conv_layer_options *o)
{
    if (in < 0 || out < 0)
        return ts_fail(TS_EINVAL, "%s: %lld in and %lld out channels; neither may be negative",
                       name, (long long)in, (long long)out);
    if (o->groups < 1 || in % o->groups != 0 || out % o->groups != 0)
        return ts_fail(TS_EINVAL,
                       "%s: %lld in and %lld out channels; both must be multiples of %lld groups",
                       name, (long long)in, (long long)out, (long long)o->groups);
    return TS_OK;
}

/* weight_shape: (out, in, kernel...); in becomes in / groups. */
static ts_module *conv_new(const ts_module_class *klass, ts_shape shape,
                           const ts_conv_layer_options *opt)
{
    ts_conv_layer_options o = TS_CONV_LAYER_OPTIONS_INIT;
    ts_status status = ts_options_read(&o, sizeof o, opt, klass->name);
    if (status == TS_OK) status = check(klass->name, shape.dim[1], shape.dim[0], &o);
    if (status != TS_OK) return ts_module_fail_last(status);
    ts_module *self = ts_module_new(klass);
    conv *s = ts_module_state(self);
    ts_scope scope = ts_scope_begin();
    int64_t fan = shape.dim[1] /= o.groups;
    for (int i = 2; i < shape.ndim; i++) fan *= shape.dim[i];
    double bound = fan > 0 ? 1.0 / sqrt((double)fan) : 0.0;
    s->opt = operation_options(&o);
    s->weight = ts_init_uniform_(ts_layer_parameter(self, "weight", shape, o.dtype), -bound, bound);
    s->bias = o.bias ? ts_layer_parameter(self, "bias", TS_SHAPE(shape.dim[0]), o.dtype)
                     : ts_module_add_parameter(self, "bias", NULL);
    if (s->bias) ts_init_uniform_(s->bias, -bound, bound);
    ts_scope_end(scope);
    return self;
}

ts_module *ts_conv1d_new(int64_t in_channels, int64_t out_channels, int64_t kernel,
                         const ts_conv_layer_options *opt)
{
    return conv_new(&conv1d_class, TS_SHAPE(out_channels, in_channels, kernel), opt);
}

ts_module *ts_conv2d_new(int64_t in_channels, int64_t out_channels, int64_t kernel_height,
                         int64_t kernel_width, const ts_conv_layer_options *opt)
{
    return conv_new(&conv2d_class, TS_SHAPE(out_channels, in_channels, kernel_height, kernel_width),
                    opt);
}

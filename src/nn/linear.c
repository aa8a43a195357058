/* SPDX-License-Identifier: Apache-2.0 */
/* The fully connected layer. */
#include <math.h>
#include <tessera/nn.h>

#include "nn/layer.h"

typedef struct linear {
    ts_tensor *weight, *bias;
} linear;

static ts_tensor *linear_forward(ts_module *self, ts_tensor *x)
{
    linear *s = ts_module_state(self);
    return ts_linear(x, s->weight, s->bias);
}

static const ts_module_class linear_class = {
    .name = "Linear", .state_size = sizeof(linear), .forward = linear_forward};

ts_module *ts_linear_new(int64_t in_features, int64_t out_features, const ts_linear_options *opt)
{
    ts_linear_options o = TS_LINEAR_OPTIONS_INIT;
    ts_status status = ts_options_read(&o, sizeof o, opt, "linear_new");
    if (status != TS_OK) return ts_module_fail_last(status);
    if (in_features < 0 || out_features < 0)
        return ts_module_fail("linear_new: %lld in and %lld out features; neither may be negative",
                              (long long)in_features, (long long)out_features);
    ts_module *self = ts_module_new(&linear_class);
    linear *s = ts_module_state(self);
    ts_scope scope = ts_scope_begin();
    double bound = in_features > 0 ? 1.0 / sqrt((double)in_features) : 0.0;
    s->weight = ts_layer_parameter(self, "weight", TS_SHAPE(out_features, in_features), o.dtype);
    s->bias = o.bias ? ts_layer_parameter(self, "bias", TS_SHAPE(out_features), o.dtype)
                     : ts_module_add_parameter(self, "bias", NULL);
    ts_init_uniform_(s->weight, -bound, bound);
    if (s->bias) ts_init_uniform_(s->bias, -bound, bound);
    ts_scope_end(scope);
    return self;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Modules that are one operation with at most a few numbers: activations, pooling, losses. */
#include <tessera/autograd.h>
#include <tessera/nn.h>

#include "nn/layer.h"
#include "tensor/tensor.h"

/* ---- without options ------------------------------------------------------------------------- */

#define PLAIN(lower, text, expression)                                                             \
    static ts_tensor *lower##_forward(ts_module *self, ts_tensor *x)                               \
    {                                                                                              \
        (void)self;                                                                                \
        return expression;                                                                         \
    }                                                                                              \
    static const ts_module_class lower##_class = {.name = text, .forward = lower##_forward};       \
    ts_module *ts_##lower##_new(void) { return ts_module_new(&lower##_class); }

PLAIN(relu, "ReLU", ts_relu(x))
PLAIN(silu, "SiLU", ts_silu(x))
PLAIN(tanh, "Tanh", ts_tanh(x))
PLAIN(sigmoid, "Sigmoid", ts_sigmoid(x))
PLAIN(identity, "Identity", x)

/* ---- with two numbers ------------------------------------------------------------------------ */

typedef struct numbers {
    int64_t first, second;
} numbers;

static ts_module *numbered(const ts_module_class *klass, int64_t first, int64_t second)
{
    ts_module *self = ts_module_new(klass);
    numbers *s = ts_module_state(self);
    *s = (numbers){first, second};
    return self;
}

#define NUMBERED(lower, text, expression)                                                          \
    static ts_tensor *lower##_forward(ts_module *self, ts_tensor *x)                               \
    {                                                                                              \
        const numbers *s = ts_module_state(self);                                                  \
        return expression;                                                                         \
    }                                                                                              \
    static const ts_module_class lower##_class = {                                                 \
        .name = text, .state_size = sizeof(numbers), .forward = lower##_forward};

NUMBERED(gelu, "GELU", ts_gelu(x, (ts_gelu_form)s->first))
NUMBERED(softmax, "Softmax", ts_softmax(x, (int)s->first))
NUMBERED(log_softmax, "LogSoftmax", ts_log_softmax(x, (int)s->first))
NUMBERED(flatten, "Flatten", ts_flatten(x, (int)s->first, (int)s->second))
NUMBERED(adaptive1d, "AdaptiveAvgPool1d", ts_adaptive_avg_pool1d(x, s->first))
NUMBERED(adaptive2d, "AdaptiveAvgPool2d", ts_adaptive_avg_pool2d(x, s->first, s->second))

ts_module *ts_gelu_new(ts_gelu_form form)
{
    if (form != TS_GELU_ERF && form != TS_GELU_TANH)
        return ts_module_fail("gelu_new: form %d is neither TS_GELU_ERF nor TS_GELU_TANH",
                              (int)form);
    return numbered(&gelu_class, form, 0);
}

ts_module *ts_softmax_new(int dim) { return numbered(&softmax_class, dim, 0); }
ts_module *ts_log_softmax_new(int dim) { return numbered(&log_softmax_class, dim, 0); }
ts_module *ts_flatten_new(int start_dim, int end_dim)
{
    return numbered(&flatten_class, start_dim, end_dim);
}
ts_module *ts_adaptive_avg_pool1d_new(int64_t length)
{
    return numbered(&adaptive1d_class, length, 0);
}
ts_module *ts_adaptive_avg_pool2d_new(int64_t height, int64_t width)
{
    return numbered(&adaptive2d_class, height, width);
}

/* ---- windows --------------------------------------------------------------------------------- */

#define POOL(lower, text)                                                                          \
    static ts_tensor *lower##_forward(ts_module *self, ts_tensor *x)                               \
    {                                                                                              \
        const ts_pool_window *window = ts_module_state(self);                                      \
        return ts_##lower(x, *window);                                                             \
    }                                                                                              \
    static const ts_module_class lower##_class = {                                                 \
        .name = text, .state_size = sizeof(ts_pool_window), .forward = lower##_forward};           \
    ts_module *ts_##lower##_new(ts_pool_window window)                                             \
    {                                                                                              \
        ts_module *self = ts_module_new(&lower##_class);                                           \
        ts_pool_window *s = ts_module_state(self);                                                 \
        *s = window;                                                                               \
        return self;                                                                               \
    }

POOL(max_pool1d, "MaxPool1d")
POOL(max_pool2d, "MaxPool2d")
POOL(avg_pool1d, "AvgPool1d")
POOL(avg_pool2d, "AvgPool2d")

/* ---- losses ---------------------------------------------------------------------------------- */

static ts_tensor *need_two(const char *name, int n)
{
    return ts_fail_tensor(TS_EINVAL, "%s: takes input and target, not %d tensors", name, n);
}

static ts_tensor *mse_forward(ts_module *self, ts_tensor *const *args, int n)
{
    (void)self;
    return n == 2 ? ts_mse_loss(args[0], args[1]) : need_two("MSELoss", n);
}
static const ts_module_class mse_class = {.name = "MSELoss", .forward_args = mse_forward};

ts_module *ts_mse_loss_new(void) { return ts_module_new(&mse_class); }

static ts_tensor *cross_entropy_forward(ts_module *self, ts_tensor *const *args, int n)
{
    if (n != 2) return need_two("CrossEntropyLoss", n);
    return ts_cross_entropy(args[0], args[1], ts_module_state(self));
}
static const ts_module_class cross_entropy_class = {.name = "CrossEntropyLoss",
                                                    .state_size = sizeof(ts_cross_entropy_options),
                                                    .forward_args = cross_entropy_forward};

ts_module *ts_cross_entropy_loss_new(const ts_cross_entropy_options *opt)
{
    ts_cross_entropy_options o = TS_CROSS_ENTROPY_OPTIONS_INIT;
    ts_status status = ts_options_read(&o, sizeof o, opt, "cross_entropy_loss_new");
    if (status != TS_OK) return ts_module_fail_last(status);
    ts_module *self = ts_module_new(&cross_entropy_class);
    ts_cross_entropy_options *s = ts_module_state(self);
    *s = o;
    s->struct_size = sizeof o;
    if (o.weight) s->weight = ts_module_add_buffer(self, "weight", ts_detach(o.weight), true);
    return self;
}

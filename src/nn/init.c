/* SPDX-License-Identifier: Apache-2.0 */
/* Initialisers: in place and never recorded. */
#include <math.h>
#include <tessera/autograd.h>
#include <tessera/nn.h>
#include <tessera/random.h>

#include "tensor/tensor.h"

ts_tensor *ts_init_uniform_(ts_tensor *t, double low, double high)
{
    bool former = ts_no_grad_begin();
    ts_tensor *out = ts_uniform_(t, low, high);
    ts_no_grad_end(former);
    return out;
}

ts_tensor *ts_init_normal_(ts_tensor *t, double mean, double std)
{
    bool former = ts_no_grad_begin();
    ts_tensor *out = ts_normal_(t, mean, std);
    ts_no_grad_end(former);
    return out;
}

ts_tensor *ts_init_constant_(ts_tensor *t, double value)
{
    bool former = ts_no_grad_begin();
    ts_tensor *out = ts_fill_(t, value);
    ts_no_grad_end(former);
    return out;
}

/* A weight (out, in, ...) has in and out times the receptive field as fans. */
static ts_status fans(double *in, double *out, const char *op, const ts_tensor *t)
{
    TS_TRY(ts_tensor_check(t, op));
    if (ts_ndim(t) < 2)
        return ts_fail(TS_ESHAPE, "%s: a tensor of %d dimensions has no fan; at least 2 are needed",
                       op, ts_ndim(t));
    double field = 1;
    for (int i = 2; i < ts_ndim(t); i++) field *= (double)ts_size(t, i);
    *in = (double)ts_size(t, 1) * field;
    *out = (double)ts_size(t, 0) * field;
    return TS_OK;
}

/* std = sqrt(2 / ((1 + a^2) fan_in)); uniform numbers have it within sqrt(3) std. */
static ts_tensor *kaiming(const char *op, ts_tensor *t, double a, bool uniform)
{
    double in, out;
    ts_status status = fans(&in, &out, op, t);
    if (status != TS_OK) return ts_fail_tensor_last(status);
    double std = in > 0 ? sqrt(2.0 / ((1.0 + a * a) * in)) : 0.0, bound = sqrt(3.0) * std;
    return uniform ? ts_init_uniform_(t, -bound, bound) : ts_init_normal_(t, 0, std);
}

ts_tensor *ts_init_kaiming_uniform_(ts_tensor *t, double a)
{
    return kaiming("kaiming_uniform_", t, a, true);
}
ts_tensor *ts_init_kaiming_normal_(ts_tensor *t, double a)
{
    return kaiming("kaiming_normal_", t, a, false);
}

/* std = gain sqrt(2 / (fan_in + fan_out)) */
static ts_tensor *xavier(const char *op, ts_tensor *t, double gain, bool uniform)
{
    double in, out;
    ts_status status = fans(&in, &out, op, t);
    if (status != TS_OK) return ts_fail_tensor_last(status);
    double std = in + out > 0 ? gain * sqrt(2.0 / (in + out)) : 0.0, bound = sqrt(3.0) * std;
    return uniform ? ts_init_uniform_(t, -bound, bound) : ts_init_normal_(t, 0, std);
}

ts_tensor *ts_init_xavier_uniform_(ts_tensor *t, double gain)
{
    return xavier("xavier_uniform_", t, gain, true);
}
ts_tensor *ts_init_xavier_normal_(ts_tensor *t, double gain)
{
    return xavier("xavier_normal_", t, gain, false);
}

/* ---- truncated normal ------------------------------------------------------------------------ */

static double below(double x) { return 0.5 * erfc(-x * 0.70710678118654752); }

/* x with below(x) = p <= 1/2: from x^2 ~ -2 log p, by Newton's method on log below(x), which is
 * concave, so that the steps approach from one side. */
static double quantile_of_half(double p)
{
    double x = -sqrt(-2 * log(2 * p));
    for (int i = 0; i < 60; i++) {
        double q = below(x), slope = exp(-0.5 * x * x) * 0.39894228040143268 / q;
        double step = (log(q) - log(p)) / slope;
        x -= step;
        if (fabs(step) <= 1e-15 * (1 + fabs(x))) break;
    }
    return x;
}

static double quantile(double p)
{
    return p <= 0.5 ? quantile_of_half(p > 1e-300 ? p : 1e-300)
                    : -quantile_of_half(1 - p > 1e-300 ? 1 - p : 1e-300);
}

static void truncate(double *x, int64_t n, double mean, double std, double low, double high)
{
    double from = below((low - mean) / std), to = below((high - mean) / std);
    for (int64_t i = 0; i < n; i++) {
        double v = mean + std * quantile(from + x[i] * (to - from));
        x[i] = v < low ? low : v > high ? high : v;
    }
}

ts_tensor *ts_init_trunc_normal_(ts_tensor *t, double mean, double std, double low, double high)
{
    if (ts_failed(t)) return t;
    if (!t) return ts_fail_tensor(TS_EINVAL, "trunc_normal_: the tensor is missing (NULL)");
    if (!(std > 0) || !(low < high))
        return ts_fail_tensor(TS_EINVAL,
                              "trunc_normal_: std %g must be positive and %g less than %g", std,
                              low, high);
    bool former = ts_no_grad_begin();
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_FLOAT64;
    opt.device = ts_tensor_device(t);
    ts_tensor *u = ts_uniform_(ts_empty(ts_tensor_shape(t), &opt), 0, 1);
    if (!ts_failed(u) && opt.device == TS_CPU)
        truncate(ts_data_mut(u), ts_numel(u), mean, std, low, high);
    ts_tensor *out = ts_copy_(t, u);
    ts_no_grad_end(former);
    return out;
}

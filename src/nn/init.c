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

/* bound = sqrt(6 / ((1 + a^2) fan_in)) */
ts_tensor *ts_init_kaiming_uniform_(ts_tensor *t, double a)
{
    double in, out;
    ts_status status = fans(&in, &out, "kaiming_uniform_", t);
    if (status != TS_OK) return ts_fail_tensor_last(status);
    double bound = in > 0 ? sqrt(6.0 / ((1.0 + a * a) * in)) : 0.0;
    return ts_init_uniform_(t, -bound, bound);
}

/* bound = gain sqrt(6 / (fan_in + fan_out)) */
ts_tensor *ts_init_xavier_uniform_(ts_tensor *t, double gain)
{
    double in, out;
    ts_status status = fans(&in, &out, "xavier_uniform_", t);
    if (status != TS_OK) return ts_fail_tensor_last(status);
    double bound = in + out > 0 ? gain * sqrt(6.0 / (in + out)) : 0.0;
    return ts_init_uniform_(t, -bound, bound);
}

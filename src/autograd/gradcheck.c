/* SPDX-License-Identifier: Apache-2.0 */
/* Compares gradients with central differences.  The output is weighted by fixed uneven numbers, so
 * one backward pass checks every element of every input. */
#include <math.h>
#include <stdlib.h>

#include "autograd/autograd.h"
#include "base/memory.h"

typedef struct check {
    ts_gradcheck_fn fn;
    ts_tensor *const *inputs;
    int n;
    void *user;
    double eps, atol, rtol;
} check;

static double weight(int64_t i) { return 0.5 + fmod((double)i * 0.6180339887498949, 1.0); }

/* Row-major copy of the elements as doubles, to be freed.  NULL after ts_fail. */
static double *read_all(ts_tensor *t)
{
    double *values = ts_calloc((size_t)ts_numel(t), sizeof *values);
    if (!values) {
        ts_fail_memory((size_t)ts_numel(t) * sizeof *values, "gradcheck");
        return NULL;
    }
    if (ts_copy_out(t, values, (size_t)ts_numel(t) * sizeof *values) == TS_OK) return values;
    free(values);
    return NULL;
}

static ts_status output_of(ts_tensor **out, const check *c)
{
    *out = c->fn(c->inputs, c->n, c->user);
    TS_TRY(ts_tensor_check(*out, "gradcheck: fn's result"));
    if (ts_tensor_dtype(*out) == TS_FLOAT64) return TS_OK;
    return ts_fail(TS_EDTYPE, "gradcheck: fn gave %s; needs float64",
                   ts_dtype_name(ts_tensor_dtype(*out)));
}

static ts_status weighted_output(double *sum, const check *c)
{
    ts_scope scope = ts_scope_begin();
    bool former = ts_enable_grad_begin(); /* fn may differentiate */
    ts_tensor *out;
    ts_status status = output_of(&out, c);
    double *values = status == TS_OK ? read_all(out) : NULL;
    if (status == TS_OK && !values) status = ts_thread()->error_status;
    *sum = 0;
    for (int64_t i = 0; values && i < ts_numel(out); i++) *sum += weight(i) * values[i];
    free(values);
    ts_enable_grad_end(former);
    ts_scope_end_keep(scope, NULL);
    return status;
}

/* Address of element index, counted in row-major order. */
static double *element(const ts_tensor *t, int64_t index)
{
    int64_t offset = 0;
    for (int i = t->shape.ndim - 1; i >= 0; i--) {
        offset += index % t->shape.dim[i] * t->stride[i];
        index /= t->shape.dim[i];
    }
    return (double *)(void *)ts_tensor_bytes(t) + offset;
}

static ts_status difference(double *slope, const check *c, double *x)
{
    double former = *x, up, down;
    *x = former + c->eps;
    ts_status status = weighted_output(&up, c);
    *x = former - c->eps;
    if (status == TS_OK) status = weighted_output(&down, c);
    *x = former;
    if (status == TS_OK) *slope = (up - down) / (2 * c->eps);
    return status;
}

static ts_status compare_input(const check *c, int input, const double *grad)
{
    const ts_tensor *t = c->inputs[input];
    for (int64_t i = 0; i < t->numel; i++) {
        double slope = 0, got = grad ? grad[i] : 0;
        TS_TRY(difference(&slope, c, element(t, i)));
        if (fabs(got - slope) <= c->atol + c->rtol * fabs(slope)) continue;
        return ts_fail(TS_EUSER, "gradcheck: input %d element %lld: gradient %.10g, numeric %.10g",
                       input, (long long)i, got, slope);
    }
    return TS_OK;
}

static ts_tensor *weights_like(const ts_tensor *out)
{
    ts_spec spec = ts_tensor_spec(out);
    ts_tensor *t = ts_tensor_new(&spec, TS_MEMORY_HEAP, TS_CATEGORY_OTHER);
    double *values = ts_failed(t) ? NULL : ts_data_mut(t);
    for (int64_t i = 0; values && i < t->numel; i++) values[i] = weight(i);
    return t;
}

static ts_status analytic(ts_tensor **grad, const check *c, ts_tensor **leaves, int num_leaves)
{
    ts_tensor *out;
    TS_TRY(output_of(&out, c));
    if (!ts_requires_grad(out))
        return ts_fail(TS_ESTATE, "gradcheck: fn's result does not depend on the inputs");
    ts_tensor *weights = weights_like(out);
    TS_TRY(ts_tensor_check(weights, "gradcheck"));
    return ts_grad_of(grad, &out, &weights, 1, leaves, num_leaves, NULL);
}

static ts_status compare_all(const check *c, ts_tensor **leaves, ts_tensor **grad, int num_leaves)
{
    TS_TRY(analytic(grad, c, leaves, num_leaves));
    for (int k = 0; k < num_leaves; k++) {
        int input = 0;
        while (c->inputs[input] != leaves[k]) input++;
        double *values = grad[k] ? read_all(grad[k]) : NULL;
        if (grad[k] && !values) return ts_thread()->error_status;
        ts_status status = compare_input(c, input, values);
        free(values);
        TS_TRY(status);
    }
    return TS_OK;
}

static ts_status find_leaves(ts_tensor **leaves, int *count, const check *c)
{
    *count = 0;
    for (int i = 0; i < c->n; i++) {
        if (c->inputs[i]) TS_TRY(ts_tensor_check(c->inputs[i], "gradcheck: input"));
        if (!ts_requires_grad(c->inputs[i])) continue;
        if (c->inputs[i]->dtype != TS_FLOAT64)
            return ts_fail(TS_EDTYPE, "gradcheck: input %d is %s; needs float64", i,
                           ts_dtype_name((ts_dtype)c->inputs[i]->dtype));
        leaves[(*count)++] = c->inputs[i];
    }
    return *count ? TS_OK : ts_fail(TS_ESTATE, "gradcheck: no input requires grad");
}

ts_status ts_gradcheck(ts_gradcheck_fn fn, ts_tensor *const *inputs, int n, void *user, double eps,
                       double atol, double rtol)
{
    check c = {fn, inputs, n, user, eps, atol, rtol};
    if (!fn || !inputs || n <= 0 || !(eps > 0))
        return ts_fail(TS_EINVAL, "gradcheck: needs a function, inputs and eps > 0");
    ts_tensor **leaves = ts_calloc((size_t)n, sizeof(ts_tensor *));
    ts_tensor **grad = ts_calloc((size_t)n, sizeof(ts_tensor *));
    int count;
    ts_scope scope = ts_scope_begin();
    ts_status status = leaves && grad ? find_leaves(leaves, &count, &c)
                                      : ts_fail_memory((size_t)n * sizeof *leaves, "gradcheck");
    if (status == TS_OK) status = compare_all(&c, leaves, grad, count);
    ts_scope_end_keep(scope, NULL);
    free(leaves);
    free(grad);
    return status;
}

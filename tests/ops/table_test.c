/* SPDX-License-Identifier: Apache-2.0 */
/* Every row of the table of operations through every check. */
#include "table.h"

#include <string.h>

#include "golden.h"
#include "tensor/tensor.h"
#include "test.h"

static const ts_case *const tables[] = {ts_cases_elementwise, ts_cases_reduce, ts_cases_shape,
                                        ts_cases_nn};
enum { NUM_TABLES = sizeof tables / sizeof *tables };

static int num_inputs(const ts_case *c)
{
    int n = 0;
    while (n < TS_CASE_INPUTS && c->in[n].low < c->in[n].high) n++;
    return n;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static ts_tensor *values(const ts_case_input *in, int k, ts_shape shape, ts_dtype dtype)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_FLOAT64;
    if (in->role == TS_ROLE_MASK) dtype = TS_BOOL;
    if (in->role == TS_ROLE_INDEX) dtype = TS_INT64;
    ts_tensor *t = ts_empty(shape, &opt);
    double *x = ts_data_mut(t);
    for (int64_t i = 0; i < ts_numel(t); i++) {
        double part = fmod((double)(i + 1 + 17 * k) * 0.6180339887498949, 1.0);
        x[i] = in->low + (in->high - in->low) * part;
        if (dtype == TS_BOOL) x[i] = part > 0.5;
        if (!ts_dtype_is_floating(dtype)) x[i] = floor(x[i]);
    }
    return ts_to_dtype(t, dtype);
}

static ts_tensor *input(const ts_case *c, int k, ts_dtype dtype)
{
    return values(&c->in[k], k, c->in[k].shape, dtype);
}

enum { CONTIGUOUS, TRANSPOSED, SLICED, REVERSED_DIMS, SHIFTED, NUM_LAYOUTS };

/* The same elements in another place. */
static ts_tensor *laid_out(ts_tensor *t, int layout)
{
    ts_shape shape = ts_tensor_shape(t), wide = shape;
    int n = shape.ndim, order[TS_MAX_DIMS];
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = ts_tensor_dtype(t);
    ts_tensor *to;
    if (n == 0 || layout == CONTIGUOUS) return ts_clone(t);
    switch (layout) {
    case TRANSPOSED:
        wide.dim[0] = shape.dim[n - 1];
        wide.dim[n - 1] = shape.dim[0];
        to = ts_transpose(ts_zeros(wide, &opt), 0, n - 1);
        break;
    case SLICED:
        wide.dim[n - 1] = 3 * shape.dim[n - 1] + 2;
        to = ts_slice(ts_zeros(wide, &opt), n - 1, 1, 1 + 3 * shape.dim[n - 1], 3);
        break;
    case REVERSED_DIMS:
        for (int i = 0; i < n; i++) {
            order[i] = n - 1 - i;
            wide.dim[i] = shape.dim[n - 1 - i];
        }
        to = ts_permute(ts_zeros(wide, &opt), order, n);
        break;
    default: wide.dim[0] += 2; to = ts_narrow(ts_zeros(wide, &opt), 0, 1, shape.dim[0]);
    }
    return ts_copy_(to, t);
}

static void all_inputs(ts_tensor **in, const ts_case *c, ts_dtype dtype, int layout)
{
    for (int k = 0; k < TS_CASE_INPUTS; k++)
        in[k] = k < num_inputs(c) ? laid_out(input(c, k, dtype), layout) : NULL;
}

/* ---- values ---------------------------------------------------------------------------------- */

static double tolerance(ts_dtype dtype)
{
    switch (dtype) {
    case TS_FLOAT64: return 1e-12;
    case TS_FLOAT32: return 1e-5;
    case TS_FLOAT16: return 1.0 / 512;
    case TS_BFLOAT16: return 1.0 / 64;
    default: return 0;
    }
}

static void compare(ts_test *test, const ts_case *c, ts_dtype dtype, const char *what,
                    ts_tensor *got, ts_tensor *want, double rtol)
{
    char label[120];
    snprintf(label, sizeof label, "%s of %s, %s", c->name, ts_dtype_name(dtype), what);
    if (ts_failed(got))
        TS_FAIL_TEST("%s: %s", label, ts_tensor_error(got));
    else if (ts_tensor_dtype(got) != ts_tensor_dtype(want))
        TS_FAIL_TEST("%s: is %s, PyTorch's is %s", label, ts_dtype_name(ts_tensor_dtype(got)),
                     ts_dtype_name(ts_tensor_dtype(want)));
    else
        ts_test_close(test, __FILE__, __LINE__, label, got, "PyTorch's", want, rtol, rtol);
}

static void check_values(ts_test *test, const ts_case *c, ts_dtype dtype,
                         const ts_tensor_list *golden)
{
    ts_tensor *in[TS_CASE_INPUTS];
    ts_tensor *want = ts_golden_get(golden, "%s.%s.y", c->name, ts_dtype_name(dtype));
    if (!want) TS_FAIL_TEST("%s of %s is not in the golden file", c->name, ts_dtype_name(dtype));
    for (int layout = 0; want && layout < NUM_LAYOUTS; layout++) {
        char what[40];
        snprintf(what, sizeof what, "layout %d", layout);
        all_inputs(in, c, dtype, layout);
        compare(test, c, dtype, what, c->call(in), want, tolerance(dtype));
        if (!c->in_place || ts_tensor_dtype(want) != dtype) continue;
        snprintf(what, sizeof what, "layout %d in place", layout);
        ts_tensor *changed = c->in_place(in);
        compare(test, c, dtype, what, changed, want, tolerance(dtype));
        if (changed != in[0]) TS_FAIL_TEST("%s in place returns another tensor", c->name);
    }
}

/* ---- shapes: meta tensors, nothing ----------------------------------------------------------- */

static void check_meta(ts_test *test, const ts_case *c, ts_dtype dtype)
{
    ts_tensor *in[TS_CASE_INPUTS], *meta[TS_CASE_INPUTS] = {NULL};
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.device = TS_META;
    all_inputs(in, c, dtype, CONTIGUOUS);
    for (int k = 0; k < num_inputs(c); k++) {
        opt.dtype = ts_tensor_dtype(in[k]);
        meta[k] = ts_empty(ts_tensor_shape(in[k]), &opt);
    }
    ts_tensor *y = c->call(in), *m = c->call(meta);
    if (ts_failed(m) || !ts_shape_equal(ts_tensor_shape(y), ts_tensor_shape(m)) ||
        ts_tensor_dtype(y) != ts_tensor_dtype(m) || ts_tensor_device(m) != TS_META)
        TS_FAIL_TEST("%s of %s on meta tensors: %s", c->name, ts_dtype_name(dtype),
                     ts_tensor_error(m));
}

static void check_empty(ts_test *test, const ts_case *c, ts_dtype dtype)
{
    ts_tensor *in[TS_CASE_INPUTS] = {NULL};
    if (!(c->flags & TS_EMPTY)) return;
    for (int k = 0; k < num_inputs(c); k++) {
        ts_shape shape = c->in[k].shape;
        if (shape.ndim == c->in[0].shape.ndim && shape.ndim > 0) shape.dim[0] = 0;
        in[k] = values(&c->in[k], k, shape, dtype);
        if ((c->flags & TS_ON_FLOATS) && c->in[k].role == TS_ROLE_VALUE && dtype == TS_FLOAT32)
            ts_set_requires_grad(in[k], true);
    }
    ts_tensor *y = c->call(in);
    if (ts_failed(y) || ts_numel(y) != 0)
        TS_FAIL_TEST("%s of %s without elements: %s", c->name, ts_dtype_name(dtype),
                     ts_tensor_error(y));
    if (ts_requires_grad(y) && ts_backward(ts_sum(y)) != TS_OK)
        TS_FAIL_TEST("gradient of %s without elements: %s", c->name, ts_error_last());
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* The number whose gradient is taken: sum y w, with w as an input 7 in 0.5 .. 1.5. */
static ts_tensor *loss_of(ts_tensor *y)
{
    static const ts_case_input weights = {.low = 0.5, .high = 1.5};
    if (ts_failed(y)) return y;
    return ts_sum(ts_mul(y, values(&weights, 7, ts_tensor_shape(y), ts_tensor_dtype(y))));
}

static void require_gradients(const ts_case *c, ts_tensor **in)
{
    for (int k = 0; k < num_inputs(c); k++)
        if (c->in[k].role == TS_ROLE_VALUE) {
            in[k] = ts_detach(in[k]);
            ts_set_requires_grad(in[k], true);
        }
}

static void check_golden_gradients(ts_test *test, const ts_case *c, ts_dtype dtype,
                                   const ts_tensor_list *golden)
{
    double rtol = dtype == TS_FLOAT64 ? 1e-10 : dtype == TS_FLOAT32 ? 1e-4 : 4 * tolerance(dtype);
    for (int layout = 0; layout < NUM_LAYOUTS; layout++) {
        ts_tensor *in[TS_CASE_INPUTS];
        all_inputs(in, c, dtype, layout);
        require_gradients(c, in);
        if (ts_backward(loss_of(c->call(in))) != TS_OK)
            TS_FAIL_TEST("gradient of %s: %s", c->name, ts_error_last());
        for (int k = 0; k < num_inputs(c); k++) {
            if (c->in[k].role != TS_ROLE_VALUE) continue;
            ts_tensor *want = ts_golden_get(golden, "%s.%s.g%d", c->name, ts_dtype_name(dtype), k);
            ts_tensor *grad = ts_grad(in[k]);
            char what[60];
            snprintf(what, sizeof what, "gradient %d, layout %d", k, layout);
            if (!grad) grad = ts_zeros_like(in[k]);
            if (!want) TS_FAIL_TEST("%s: %s is not in the golden file", c->name, what);
            if (want) compare(test, c, dtype, what, grad, want, rtol);
        }
    }
}

static ts_tensor *call_case(ts_tensor *const *in, int n, void *user)
{
    (void)n;
    return ((const ts_case *)user)->call(in);
}

/* The squared length of the gradients, for the second derivative. */
static ts_tensor *call_gradient(ts_tensor *const *in, int n, void *user)
{
    const ts_case *c = user;
    ts_backward_options opt = TS_BACKWARD_OPTIONS_INIT;
    ts_tensor *grad[TS_CASE_INPUTS], *wanted[TS_CASE_INPUTS], *y = call_case(in, n, user);
    int count = 0;
    opt.create_graph = true;
    for (int k = 0; k < n; k++)
        if (c->in[k].role == TS_ROLE_VALUE) wanted[count++] = in[k];
    ts_tensor *loss = ts_sum(ts_mul(y, y)), *sum = ts_mul_scalar(loss, 0);
    if (ts_failed(loss)) return loss;
    ts_status status = ts_grad_of(grad, &loss, NULL, 1, wanted, count, &opt);
    if (status != TS_OK) return ts_fail_tensor_last(status);
    for (int k = 0; k < count; k++)
        if (grad[k]) sum = ts_add(sum, ts_sum(ts_mul(grad[k], grad[k])));
    return sum;
}

static void check_differences(ts_test *test, const ts_case *c)
{
    static const int layouts[] = {CONTIGUOUS, TRANSPOSED, SLICED};
    void *user = (void *)(uintptr_t)c;
    for (int i = 0; i < 3; i++) {
        ts_tensor *in[TS_CASE_INPUTS];
        all_inputs(in, c, TS_FLOAT64, layouts[i]);
        require_gradients(c, in);
        if (ts_gradcheck(call_case, in, num_inputs(c), user, 1e-5, 1e-6, 1e-5) != TS_OK)
            TS_FAIL_TEST("%s, layout %d: %s", c->name, layouts[i], ts_error_last());
        if (c->flags & TS_FIRST_ONLY) continue;
        if (ts_gradcheck(call_gradient, in, num_inputs(c), user, 1e-5, 1e-3, 1e-3) != TS_OK)
            TS_FAIL_TEST("%s twice, layout %d: %s", c->name, layouts[i], ts_error_last());
    }
}

/* ---- all of it ------------------------------------------------------------------------------- */

static const struct {
    ts_dtype dtype;
    int flag;
} dtypes[] = {{TS_FLOAT32, TS_ON_FLOATS},  {TS_FLOAT64, TS_ON_FLOATS}, {TS_FLOAT16, TS_ON_HALVES},
              {TS_BFLOAT16, TS_ON_HALVES}, {TS_INT64, TS_ON_INTS},     {TS_INT32, TS_ON_INTS},
              {TS_UINT8, TS_ON_INTS},      {TS_BOOL, TS_ON_BOOL}};
enum { NUM_CASE_DTYPES = sizeof dtypes / sizeof *dtypes };

static void check_case(ts_test *test, const ts_case *c, const ts_tensor_list *golden)
{
    for (int d = 0; d < NUM_CASE_DTYPES; d++) {
        if (!(c->flags & dtypes[d].flag)) continue;
        check_values(test, c, dtypes[d].dtype, golden);
        check_meta(test, c, dtypes[d].dtype);
        check_empty(test, c, dtypes[d].dtype);
        if (ts_dtype_is_floating(dtypes[d].dtype) && !(c->flags & TS_NO_GRADIENT))
            check_golden_gradients(test, c, dtypes[d].dtype, golden);
    }
    if (!(c->flags & TS_NO_GRADIENT)) check_differences(test, c);
}

TS_TEST(operations_of_the_table)
{
    ts_tensor_list *golden = NULL;
    TS_PASS(ts_golden_read(&golden, "tests/golden/ops.bin"));
    for (int t = 0; golden && t < NUM_TABLES; t++)
        for (const ts_case *c = tables[t]; c->name; c++) {
            ts_scope scope = ts_scope_begin();
            check_case(test, c, golden);
            ts_scope_end(scope);
        }
    ts_tensor_list_free(golden);
}

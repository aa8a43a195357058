/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of neural networks against central differences, on inputs of several layouts; those
 * whose gradient has a gradient, twice differentiated too. */
#include <tessera/tessera.h>

#include "ops/op.h"
#include "test.h"

enum { MOST_INPUTS = 3 };

typedef ts_tensor *(*op_fn)(ts_tensor *const *in);

static ts_tensor *integers(ts_shape shape, const int64_t *values)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_INT64;
    return ts_from_data(values, shape, &opt);
}

static ts_tensor *f_matmul(ts_tensor *const *in) { return ts_matmul(in[0], in[1]); }
static ts_tensor *f_linear(ts_tensor *const *in) { return ts_linear(in[0], in[1], in[2]); }
static ts_tensor *f_linear_plain(ts_tensor *const *in) { return ts_linear(in[0], in[1], NULL); }
static ts_tensor *f_softmax(ts_tensor *const *in) { return ts_softmax(in[0], -1); }
static ts_tensor *f_softmax_first(ts_tensor *const *in) { return ts_softmax(in[0], 0); }
static ts_tensor *f_log_softmax(ts_tensor *const *in) { return ts_log_softmax(in[0], -1); }
static ts_tensor *f_mse(ts_tensor *const *in) { return ts_mse_loss(in[0], in[1]); }
static ts_tensor *f_gelu_erf(ts_tensor *const *in) { return ts_gelu(in[0], TS_GELU_ERF); }
static ts_tensor *f_gelu_tanh(ts_tensor *const *in) { return ts_gelu(in[0], TS_GELU_TANH); }

static ts_tensor *cross_entropy(ts_tensor *x, ts_reduction reduction, double smoothing)
{
    ts_cross_entropy_options opt = TS_CROSS_ENTROPY_OPTIONS_INIT;
    int64_t targets[] = {1, 0, -7, 2};
    opt.reduction = reduction;
    opt.ignore_index = -7;
    opt.label_smoothing = smoothing;
    return ts_cross_entropy(x, integers(TS_SHAPE(4), targets), &opt);
}

static ts_tensor *f_ce_mean(ts_tensor *const *in)
{
    return cross_entropy(in[0], TS_REDUCTION_MEAN, 0);
}
static ts_tensor *f_ce_sum(ts_tensor *const *in)
{
    return cross_entropy(in[0], TS_REDUCTION_SUM, 0.3);
}
static ts_tensor *f_ce_none(ts_tensor *const *in)
{
    ts_tensor *loss = cross_entropy(in[0], TS_REDUCTION_NONE, 0.1);
    return ts_mul(loss, loss);
}

static ts_tensor *f_layer_norm(ts_tensor *const *in)
{
    return ts_layer_norm(in[0], ts_tensor_shape(in[1]), in[1], in[2], 0.1);
}
static ts_tensor *f_layer_norm_plain(ts_tensor *const *in)
{
    return ts_layer_norm(in[0], TS_SHAPE(ts_size(in[0], -1)), NULL, NULL, 0.1);
}

static ts_tensor *f_embedding(ts_tensor *const *in)
{
    return ts_embedding(in[0], integers(TS_SHAPE(2, 2), (const int64_t[]){2, 0, 2, 1}));
}

static ts_tensor *f_dropout(ts_tensor *const *in)
{
    ts_manual_seed(11);
    return ts_dropout(in[0], 0.4, true);
}

static ts_tensor *f_attention(ts_tensor *const *in)
{
    return ts_attention(in[0], in[1], in[2], false, 0);
}
static ts_tensor *f_attention_causal(ts_tensor *const *in)
{
    return ts_attention(in[0], in[1], in[2], true, 0.7);
}

typedef struct nn_case {
    const char *name;
    op_fn fn;
    bool twice; /* the gradient has a gradient */
    int num_in;
    ts_shape shape[MOST_INPUTS];
} nn_case;

#define S1(a)                                                                                      \
    {                                                                                              \
        1, { a }                                                                                   \
    }
#define S2(a, b)                                                                                   \
    {                                                                                              \
        2, { a, b }                                                                                \
    }
#define S3(a, b, c)                                                                                \
    {                                                                                              \
        3, { a, b, c }                                                                             \
    }
#define S4(a, b, c, d)                                                                             \
    {                                                                                              \
        4, { a, b, c, d }                                                                          \
    }

static const nn_case cases[] = {
    {"matmul", f_matmul, true, 2, {S2(3, 4), S2(4, 2)}},
    {"matmul 1-size", f_matmul, true, 2, {S2(1, 1), S2(1, 1)}},
    {"matmul vector", f_matmul, true, 2, {S2(3, 4), S1(4)}},
    {"matmul dot", f_matmul, true, 2, {S1(4), S1(4)}},
    {"matmul rows", f_matmul, true, 2, {S3(2, 3, 4), S2(4, 2)}},
    {"matmul batch", f_matmul, true, 2, {S4(2, 1, 2, 3), S3(3, 3, 2)}},
    {"matmul empty", f_matmul, true, 2, {S2(2, 0), S2(0, 3)}},
    {"linear", f_linear, true, 3, {S3(2, 2, 3), S2(4, 3), S1(4)}},
    {"linear vector", f_linear, true, 3, {S1(3), S2(4, 3), S1(4)}},
    {"linear no rows", f_linear, true, 3, {S2(0, 3), S2(4, 3), S1(4)}},
    {"linear no features", f_linear, true, 3, {S2(2, 0), S2(4, 0), S1(4)}},
    {"linear without bias", f_linear_plain, true, 2, {S2(2, 3), S2(4, 3)}},
    {"softmax", f_softmax, true, 1, {S3(2, 2, 3)}},
    {"softmax of a column", f_softmax, true, 1, {S2(3, 1)}},
    {"softmax over the first", f_softmax_first, true, 1, {S3(3, 2, 2)}},
    {"log_softmax", f_log_softmax, true, 1, {S2(3, 4)}},
    {"mse_loss", f_mse, true, 2, {S2(2, 3), S2(2, 3)}},
    {"gelu erf", f_gelu_erf, true, 1, {S2(2, 5)}},
    {"gelu tanh", f_gelu_tanh, true, 1, {S2(2, 5)}},
    {"gelu empty", f_gelu_tanh, true, 1, {S2(2, 0)}},
    {"cross_entropy mean", f_ce_mean, false, 1, {S2(4, 3)}},
    {"cross_entropy sum", f_ce_sum, false, 1, {S2(4, 3)}},
    {"cross_entropy none", f_ce_none, false, 1, {S2(4, 3)}},
    {"layer_norm", f_layer_norm, false, 3, {S3(2, 2, 5), S1(5), S1(5)}},
    {"layer_norm of two", f_layer_norm, false, 3, {S3(3, 2, 3), S2(2, 3), S2(2, 3)}},
    {"layer_norm 1-size", f_layer_norm, false, 3, {S2(3, 1), S1(1), S1(1)}},
    {"layer_norm no rows", f_layer_norm, false, 3, {S2(0, 3), S1(3), S1(3)}},
    {"layer_norm plain", f_layer_norm_plain, false, 1, {S2(3, 5)}},
    {"embedding", f_embedding, true, 1, {S2(4, 3)}},
    {"dropout", f_dropout, true, 1, {S2(5, 3)}},
    {"attention", f_attention, false, 3, {S4(1, 2, 3, 2), S4(1, 2, 4, 2), S4(1, 2, 4, 3)}},
    {"attention causal",
     f_attention_causal,
     false,
     3,
     {S4(2, 1, 4, 3), S4(2, 1, 4, 3), S4(2, 1, 4, 1)}},
    {"attention no keys", f_attention, false, 3, {S4(1, 1, 2, 2), S4(1, 1, 0, 2), S4(1, 1, 0, 2)}},
};
enum { NUM_CASES = sizeof cases / sizeof *cases };

/* Row-major; every second element of a larger one; transposed.  An expanded one is made inside the
 * function, from its first row. */
enum { PLAIN, SLICED, TRANSPOSED, EXPANDED, NUM_LAYOUTS };

static ts_tensor *numbers(ts_shape shape, double start)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_FLOAT64;
    ts_tensor *t = ts_empty(shape, &opt);
    double *data = ts_data_mut(t);
    for (int64_t i = 0; data && i < ts_numel(t); i++) data[i] = sin(start + 1.7 * (double)i);
    return t;
}

static ts_tensor *with_layout(ts_shape shape, int layout, double start)
{
    ts_shape other = shape;
    int last = shape.ndim - 1;
    if (layout == SLICED) {
        other.dim[last] *= 2;
        return ts_slice(numbers(other, start), last, 0, other.dim[last], 2);
    }
    if (layout == TRANSPOSED && shape.ndim > 1) {
        other.dim[last] = shape.dim[last - 1];
        other.dim[last - 1] = shape.dim[last];
        return ts_transpose(numbers(other, start), -1, -2);
    }
    return numbers(shape, start);
}

typedef struct run {
    const nn_case *c;
    int layout;
} run;

static ts_tensor *call_case(ts_tensor *const *in, int n, void *user)
{
    const run *r = user;
    ts_tensor *use[MOST_INPUTS] = {NULL};
    for (int i = 0; i < n; i++) {
        use[i] = in[i];
        if (r->layout == EXPANDED && ts_size(in[i], 0) > 1)
            use[i] = ts_expand(ts_narrow(in[i], 0, 0, 1), ts_tensor_shape(in[i]));
    }
    return r->c->fn(use);
}

static ts_tensor *call_gradient(ts_tensor *const *in, int n, void *user)
{
    ts_backward_options opt = TS_BACKWARD_OPTIONS_INIT;
    ts_tensor *grad[MOST_INPUTS], *y = call_case(in, n, user), *total = NULL;
    opt.create_graph = true;
    ts_tensor *loss = ts_sum(ts_mul(y, y));
    ts_status status = ts_grad_of(grad, &loss, NULL, 1, in, n, &opt);
    if (status != TS_OK) return ts_full(TS_SHAPE(2, 2), NAN, NULL);
    for (int i = 0; i < n; i++) {
        if (!grad[i]) continue;
        ts_tensor *square = ts_sum(ts_mul(grad[i], grad[i]));
        total = total ? ts_add(total, square) : square;
    }
    return total;
}

TS_TEST(nn_gradients_on_every_layout)
{
    for (int i = 0; i < NUM_CASES * NUM_LAYOUTS; i++) {
        run r = {&cases[i / NUM_LAYOUTS], i % NUM_LAYOUTS};
        ts_scope scope = ts_scope_begin();
        ts_tensor *in[MOST_INPUTS];
        for (int j = 0; j < r.c->num_in; j++) {
            in[j] = ts_detach(with_layout(r.c->shape[j], r.layout, 0.3 + j));
            TS_PASS(ts_set_requires_grad(in[j], true));
        }
        ts_status status = ts_gradcheck(call_case, in, r.c->num_in, &r, 1e-5, 1e-7, 1e-6);
        if (status != TS_OK)
            TS_FAIL_TEST("%s, layout %d: %s", r.c->name, r.layout, ts_error_last());
        if (r.c->twice) status = ts_gradcheck(call_gradient, in, r.c->num_in, &r, 1e-5, 1e-5, 1e-5);
        if (status != TS_OK)
            TS_FAIL_TEST("gradient of %s, layout %d: %s", r.c->name, r.layout, ts_error_last());
        TS_PASS(ts_scope_end(scope));
    }
}

/* A fused gradient that has no gradient of its own says so. */
TS_TEST(nn_gradients_without_second_derivative_say_so)
{
    ts_backward_options opt = TS_BACKWARD_OPTIONS_INIT;
    opt.create_graph = true;
    ts_tensor *x = numbers(TS_SHAPE(2, 3), 0), *grad;
    TS_PASS(ts_set_requires_grad(x, true));
    ts_tensor *loss = ts_sum(ts_layer_norm(x, TS_SHAPE(3), NULL, NULL, 1e-5));
    TS_PASS(ts_grad_of(&grad, &loss, NULL, 1, &x, 1, &opt));
    TS_FAIL(ts_backward(ts_sum(grad)), TS_EUNSUPPORTED, "layer_norm_grad");
}

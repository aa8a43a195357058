/* SPDX-License-Identifier: Apache-2.0 */
/* Every element-wise operation, view, join and reduction against central differences, on inputs of
 * several layouts, once and twice differentiated. */
#include <tessera/tessera.h>

#include "ops/elementwise_impl.h"
#include "test.h"

typedef ts_tensor *(*op_fn)(ts_tensor *a, ts_tensor *b);

static ts_tensor *f_add(ts_tensor *a, ts_tensor *b) { return ts_add(a, b); }
static ts_tensor *f_sub(ts_tensor *a, ts_tensor *b) { return ts_sub(a, b); }
static ts_tensor *f_mul(ts_tensor *a, ts_tensor *b) { return ts_mul(a, b); }
static ts_tensor *f_div(ts_tensor *a, ts_tensor *b) { return ts_div(a, b); }
static ts_tensor *f_add_scalar(ts_tensor *a, ts_tensor *b)
{
    return ts_add_scalar(ts_mul(a, b), 2.5);
}
static ts_tensor *f_mul_scalar(ts_tensor *a, ts_tensor *b)
{
    return ts_mul_scalar(ts_mul(a, b), -3);
}
static ts_tensor *f_pow(ts_tensor *a, ts_tensor *b) { return ts_pow_scalar(ts_mul(a, b), 2.5); }
static ts_tensor *f_square(ts_tensor *a, ts_tensor *b) { return ts_pow_scalar(ts_sub(a, b), 2); }
static ts_tensor *f_power_0(ts_tensor *a, ts_tensor *b) { return ts_mul(ts_pow_scalar(a, 0), b); }
static ts_tensor *f_neg(ts_tensor *a, ts_tensor *b) { return ts_mul(ts_neg(a), b); }
static ts_tensor *f_abs(ts_tensor *a, ts_tensor *b) { return ts_mul(ts_abs(ts_neg(a)), b); }
static ts_tensor *f_exp(ts_tensor *a, ts_tensor *b) { return ts_exp(ts_mul(a, b)); }
static ts_tensor *f_log(ts_tensor *a, ts_tensor *b) { return ts_log(ts_mul(a, b)); }
static ts_tensor *f_sqrt(ts_tensor *a, ts_tensor *b) { return ts_sqrt(ts_mul(a, b)); }
static ts_tensor *f_tanh(ts_tensor *a, ts_tensor *b) { return ts_tanh(ts_sub(a, b)); }
static ts_tensor *f_sigmoid(ts_tensor *a, ts_tensor *b) { return ts_sigmoid(ts_sub(a, b)); }
static ts_tensor *f_relu(ts_tensor *a, ts_tensor *b) { return ts_mul(ts_relu(ts_sub(a, b)), a); }
static ts_tensor *f_clone(ts_tensor *a, ts_tensor *b)
{
    return ts_mul(ts_clone(a), ts_contiguous(b));
}
static ts_tensor *f_same(ts_tensor *a, ts_tensor *b) { return ts_mul(ts_mul(a, a), b); }
static ts_tensor *f_sum(ts_tensor *a, ts_tensor *b) { return ts_sum(ts_mul(ts_mul(a, a), b)); }
static ts_tensor *f_mean(ts_tensor *a, ts_tensor *b)
{
    ts_tensor *y = ts_mul(ts_mul(a, a), b);
    return ts_numel(y) ? ts_mean(y) : y; /* of nothing: NaN */
}
static ts_tensor *f_norm_2(ts_tensor *a, ts_tensor *b) { return ts_norm(ts_mul(a, b), 2); }
static ts_tensor *f_norm_1(ts_tensor *a, ts_tensor *b) { return ts_norm(ts_mul(a, b), 1); }
static ts_tensor *f_norm_3(ts_tensor *a, ts_tensor *b) { return ts_norm(ts_mul(a, b), 3); }
static ts_tensor *f_norm_inf(ts_tensor *a, ts_tensor *b)
{
    return ts_numel(a) && ts_numel(b) ? ts_norm(ts_mul(a, b), INFINITY) : ts_mul(a, b);
}
static ts_tensor *f_flatten(ts_tensor *a, ts_tensor *b)
{
    ts_tensor *y = ts_mul(a, b);
    return ts_mul(ts_flatten(ts_mul(y, y), 0, -1), ts_reshape(y, TS_SHAPE(-1)));
}
static ts_tensor *f_inplace(ts_tensor *a, ts_tensor *b)
{
    ts_tensor *y = ts_mul(a, b);
    ts_add_(y, a);
    ts_mul_scalar_(y, 3);
    ts_add_scalar_(y, 1);
    return ts_sub_(y, b);
}

static const struct {
    const char *name;
    op_fn fn;
    bool once; /* second derivatives do not exist everywhere or vanish */
} cases[] = {
    {"add", f_add, false},
    {"sub", f_sub, false},
    {"mul", f_mul, false},
    {"div", f_div, false},
    {"add_scalar", f_add_scalar, false},
    {"mul_scalar", f_mul_scalar, false},
    {"pow", f_pow, false},
    {"square", f_square, false},
    {"power_0", f_power_0, false},
    {"neg", f_neg, false},
    {"abs", f_abs, false},
    {"exp", f_exp, false},
    {"log", f_log, false},
    {"sqrt", f_sqrt, false},
    {"tanh", f_tanh, false},
    {"sigmoid", f_sigmoid, false},
    {"relu", f_relu, false},
    {"clone", f_clone, false},
    {"same", f_same, false},
    {"sum", f_sum, false},
    {"mean", f_mean, false},
    {"norm_2", f_norm_2, false},
    {"norm_1", f_norm_1, false},
    {"norm_3", f_norm_3, false},
    {"norm_inf", f_norm_inf, true},
    {"flatten", f_flatten, false},
    {"inplace", f_inplace, false},
};
enum { NUM_CASES = sizeof cases / sizeof *cases };

/* ---- layouts --------------------------------------------------------------------------------- */

/* Positive numbers away from 0 and from each other. */
static ts_tensor *numbers(ts_shape shape, double from)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_FLOAT64;
    ts_tensor *t = ts_empty(shape, &opt);
    double *x = ts_data_mut(t);
    for (int64_t i = 0; i < ts_numel(t); i++) x[i] = from + 1.3 * fmod((double)i * 0.381966, 1.0);
    return t;
}

static ts_tensor *layout(int kind, double from)
{
    switch (kind) {
    case 0: return numbers(TS_SHAPE(2, 3), from);
    case 1: return ts_transpose(numbers(TS_SHAPE(3, 2), from), 0, 1);
    case 2: return ts_slice(numbers(TS_SHAPE(2, 7), from), 1, 1, 7, 2);
    case 3: return numbers(TS_SHAPE(3), from); /* broadcasts */
    case 4: return numbers(TS_SHAPE(2, 1), from);
    case 5: return numbers(ts_shape_scalar(), from);
    case 6: return numbers(TS_SHAPE(0, 3), from);
    default: return ts_narrow(numbers(TS_SHAPE(4, 3), from), 0, 1, 2);
    }
}
enum { NUM_LAYOUTS = 8 };

/* Leaves over the same memory, so that gradcheck can move the elements. */
static ts_tensor *as_leaf(ts_tensor *t)
{
    t = ts_detach(t);
    ts_set_requires_grad(t, true);
    return t;
}

static ts_tensor *call_case(ts_tensor *const *in, int n, void *user)
{
    (void)n;
    return cases[*(int *)user].fn(in[0], in[1]);
}

static ts_tensor *call_gradient(ts_tensor *const *in, int n, void *user)
{
    ts_backward_options opt = TS_BACKWARD_OPTIONS_INIT;
    ts_tensor *grad[2], *y = call_case(in, n, user);
    opt.create_graph = true;
    ts_tensor *loss = ts_sum(ts_mul(y, y));
    if (ts_failed(loss)) return loss;
    ts_status status = ts_grad_of(grad, &loss, NULL, 1, in, 2, &opt);
    if (status != TS_OK) return ts_fail_tensor_last(status);
    for (int i = 0; i < 2; i++)
        if (!grad[i]) grad[i] = ts_mul_scalar(in[i], 0);
    return ts_add(ts_sum(ts_mul(grad[0], grad[0])), ts_sum(ts_mul(grad[1], grad[1])));
}

static void check_layouts(ts_test *test, int x, int y)
{
    for (int i = 0; i < NUM_CASES; i++) {
        ts_scope scope = ts_scope_begin();
        ts_tensor *in[] = {as_leaf(layout(x, 0.7)), as_leaf(layout(y, 0.4))};
        bool broadcasts_later = x >= 3 && x <= 5 && strncmp(cases[i].name, "inplace", 7) == 0;
        ts_status status = ts_gradcheck(call_case, in, 2, &i, 1e-5, 1e-6, 1e-5);
        if (status != TS_OK && !broadcasts_later)
            TS_FAIL_TEST("%s on layouts %d, %d: %s", cases[i].name, x, y, ts_error_last());
        if (!cases[i].once) status = ts_gradcheck(call_gradient, in, 2, &i, 1e-5, 1e-4, 1e-4);
        if (status != TS_OK && !broadcasts_later)
            TS_FAIL_TEST("gradient of %s on layouts %d, %d: %s", cases[i].name, x, y,
                         ts_error_last());
        ts_scope_end(scope);
    }
}

TS_TEST(gradients_on_every_layout)
{
    for (int x = 0; x < NUM_LAYOUTS; x++) {
        check_layouts(test, x, 0 == x || x == 6 ? x : 0);
        if (test->failures) return;
    }
}

TS_TEST(gradients_with_broadcasting)
{
    static const int pair[][2] = {{0, 3}, {3, 0}, {1, 4}, {4, 2}, {5, 0}, {7, 5}, {4, 3}, {6, 3}};
    for (size_t i = 0; i < sizeof pair / sizeof *pair; i++) {
        check_layouts(test, pair[i][0], pair[i][1]);
        if (test->failures) return;
    }
}

/* ---- views and joins ------------------------------------------------------------------------- */

static ts_tensor *f_views(ts_tensor *const *in, int n, void *user)
{
    (void)n;
    ts_tensor *a = in[0], *piece[4];
    switch (*(int *)user) {
    case 0: return ts_view(a, TS_SHAPE(6, -1));
    case 1: return ts_permute(a, (const int[]){2, 0, 1}, 3);
    case 2: return ts_expand(ts_unsqueeze(a, 1), TS_SHAPE(2, 5, -1, -1));
    case 3: return ts_narrow(a, 1, 1, 2);
    case 4: return ts_slice(a, -1, 1, 4, 2);
    case 5: return ts_select(a, 1, -1);
    case 6: return ts_squeeze(ts_slice(a, 0, 1, 2, 1), 0);
    case 7: return ts_reshape(ts_transpose(a, 0, 2), TS_SHAPE(12, 2));
    case 8: ts_chunk(piece, a, 3, 1); return ts_mul(piece[0], piece[2]);
    case 9:
        ts_split(piece, a, (const int64_t[]){1, 0, 2, 1}, 4, 2);
        return ts_mul(piece[2], piece[0]);
    case 10: return ts_cat((ts_tensor *const[]){a, a, ts_narrow(a, 1, 0, 1)}, 3, 1);
    case 11:
        return ts_cat((ts_tensor *const[]){ts_transpose(a, 0, 1), ts_transpose(a, 0, 1)}, 2, -1);
    case 12: return ts_sum_dim(a, 1, false);
    case 13: return ts_sum_dims(a, (const int[]){0, -1}, 2, true);
    case 14: return ts_mean_dim(ts_transpose(a, 0, 2), 0, true);
    case 15: return ts_sum_dim(ts_expand(ts_slice(a, 0, 0, 1, 1), TS_SHAPE(4, 3, 4)), 0, false);
    case 16: return ts_select(ts_select(a, 0, 1), 0, 2);
    default: return NULL;
    }
}

static ts_tensor *f_views_squared(ts_tensor *const *in, int n, void *user)
{
    ts_tensor *y = f_views(in, n, user);
    return ts_mul(y, y);
}

TS_TEST(gradients_of_views_and_reductions)
{
    for (int i = 0; i <= 16; i++) {
        ts_scope scope = ts_scope_begin();
        ts_tensor *in[] = {as_leaf(numbers(TS_SHAPE(2, 3, 4), 0.5))};
        TS_GOOD(f_views(in, 1, &i));
        ts_status status = ts_gradcheck(f_views_squared, in, 1, &i, 1e-5, 1e-6, 1e-5);
        if (status != TS_OK) TS_FAIL_TEST("case %d: %s", i, ts_error_last());
        TS_PASS(ts_scope_end(scope));
    }
}

/* ---- changes in place ------------------------------------------------------------------------ */

static ts_tensor *f_inplace_views(ts_tensor *const *in, int n, void *user)
{
    (void)n;
    ts_tensor *a = in[0], *y = ts_mul(a, a), *z, *piece[3];
    switch (*(int *)user) {
    case 0: ts_add_(ts_narrow(y, 0, 0, 1), ts_narrow(a, 0, 1, 1)); return y;
    case 1: /* an older view sees the change */
        z = ts_transpose(y, 0, 1);
        ts_mul_scalar_(ts_select(y, 0, 1), 3);
        return ts_mul(z, z);
    case 2: /* a change of the base reaches its views */
        z = ts_view(y, TS_SHAPE(-1));
        ts_mul_scalar_(y, 2);
        return ts_mul(z, z);
    case 3: /* into a tensor without history, through one of two views */
        z = ts_zeros_like(y);
        piece[0] = ts_select(z, 0, 0);
        piece[1] = ts_narrow(z, 1, 0, 2);
        ts_copy_(piece[0], ts_select(y, 0, 1));
        return ts_mul(piece[1], ts_narrow(z, 1, 1, 2));
    case 4: /* a view of a view, twice */
        z = ts_select(ts_transpose(y, 0, 1), 0, 1);
        ts_mul_scalar_(z, 2);
        ts_add_(z, ts_select(a, 1, 0));
        return ts_mul(y, ts_exp(y));
    case 5: ts_zero_(ts_select(y, 0, 0)); return ts_mul(y, y);
    case 6: /* pieces of a split */
        ts_chunk(piece, y, 3, 1);
        ts_add_(piece[1], piece[0]);
        return ts_mul(y, piece[1]);
    case 7: /* an expanded view of a changed base */
        z = ts_expand(ts_unsqueeze(y, 0), TS_SHAPE(2, 2, 3));
        ts_mul_scalar_(y, 2);
        return ts_mul(z, z);
    case 8: /* with the value computed from the base itself */
        z = ts_exp(y);
        ts_copy_(ts_select(y, 1, 2), ts_select(z, 1, 0));
        return ts_mul(y, a);
    default: return NULL;
    }
}

TS_TEST(gradients_of_changes_in_place)
{
    for (int i = 0; i <= 8; i++) {
        ts_scope scope = ts_scope_begin();
        ts_tensor *in[] = {as_leaf(numbers(TS_SHAPE(2, 3), 0.5))};
        TS_GOOD(f_inplace_views(in, 1, &i));
        ts_status status = ts_gradcheck(f_inplace_views, in, 1, &i, 1e-5, 1e-6, 1e-5);
        if (status != TS_OK) TS_FAIL_TEST("case %d: %s", i, ts_error_last());
        TS_PASS(ts_scope_end(scope));
    }
}

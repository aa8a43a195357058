/* SPDX-License-Identifier: Apache-2.0 */
#include <tessera/tessera.h>

#include "autograd/autograd.h"
#include "test.h"

static ts_tensor *leaf(ts_tensor *t)
{
    ts_set_requires_grad(t, true);
    return t;
}

static ts_tensor *values(ts_shape shape, const float *x) { return ts_from_data(x, shape, NULL); }
#define VALUES(shape, ...) values(shape, (const float[]){__VA_ARGS__})

TS_TEST(backward_of_a_product_sum)
{
    ts_tensor *a = leaf(VALUES(TS_SHAPE(3), 1, 2, 3)), *b = leaf(VALUES(TS_SHAPE(3), 4, 5, 6));
    ts_tensor *loss = ts_sum(ts_mul(ts_add(a, b), a));
    TS_PASS(ts_backward(loss));
    TS_EXPECT_VALUES(ts_grad(a), 0, 6, 9, 12);
    TS_EXPECT_VALUES(ts_grad(b), 0, 1, 2, 3);
    loss = ts_sum(ts_mul(a, b));
    TS_PASS(ts_backward(loss)); /* adds to what is there */
    TS_EXPECT_VALUES(ts_grad(a), 0, 10, 14, 18);
    TS_FAIL(ts_backward(loss), TS_ESTATE, "retain_graph");
}

TS_TEST(backward_through_views_and_broadcasting)
{
    ts_tensor *w = leaf(VALUES(TS_SHAPE(2, 3), 1, 2, 3, 4, 5, 6)),
              *b = leaf(ts_zeros(TS_SHAPE(2), NULL));
    ts_tensor *y = ts_add(ts_transpose(w, 0, 1), b);
    ts_tensor *part = ts_slice(y, 0, 0, 3, 2);
    TS_PASS(ts_backward(ts_sum(ts_mul(part, part))));
    TS_EXPECT_VALUES(ts_grad(w), 0, 2, 0, 6, 8, 0, 12);
    TS_EXPECT_VALUES(ts_grad(b), 0, 8, 20);
}

TS_TEST(chain_of_a_million_nodes)
{
    ts_tensor *x = leaf(ts_ones(TS_SHAPE(1), NULL)), *y = x;
    for (int i = 0; i < 1000000; i++) {
        ts_scope scope = ts_scope_begin();
        ts_tensor *next = ts_retain(ts_add_scalar(y, 1));
        if (y != x) ts_release(y);
        y = next;
        TS_PASS(ts_scope_end(scope));
    }
    TS_PASS(ts_backward(y));
    TS_EXPECT_ALL(ts_grad(x), 1.0);
    ts_release(y);
}

TS_TEST(leaves_made_by_options_collect_gradients)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.requires_grad = true;
    ts_tensor *a = ts_full(TS_SHAPE(2), 3, &opt), *b = ts_randn(TS_SHAPE(2), &opt);
    ts_tensor *c = ts_from_data((const float[]){1, 2}, TS_SHAPE(2), &opt);
    TS_EXPECT(ts_requires_grad(a) && ts_is_leaf(a) && ts_is_leaf(b));
    TS_PASS(ts_backward(ts_sum(ts_add(ts_mul(a, c), b))));
    TS_EXPECT_VALUES(ts_grad(a), 0, 1, 2);
    TS_EXPECT_ALL(ts_grad(b), 1.0);
    TS_EXPECT_ALL(ts_grad(c), 3.0);
    TS_PASS(ts_set_requires_grad(a, false));
    TS_EXPECT(!ts_requires_grad(a));
}

typedef struct note {
    char *seen;
    const char *name;
} note;

static ts_tensor *note_name(ts_tensor *grad, void *user)
{
    const note *n = user;
    (void)grad;
    strcat(n->seen, n->name);
    return NULL;
}

/* Of branches that are ready together the one made last runs first, wherever it stands in the sum. */
TS_TEST(later_made_branches_run_first)
{
    for (int turned = 0; turned < 2; turned++) {
        char seen[8] = "";
        note first = {seen, "1"}, second = {seen, "2"}, third = {seen, "3"};
        ts_tensor *x = leaf(ts_ones(TS_SHAPE(2), NULL));
        ts_tensor *a = ts_mul_scalar(x, 2), *b = ts_mul_scalar(x, 3), *c = ts_mul_scalar(a, 4);
        TS_EXPECT(ts_tensor_register_hook(a, note_name, &first) > 0);
        TS_EXPECT(ts_tensor_register_hook(b, note_name, &second) > 0);
        TS_EXPECT(ts_tensor_register_hook(c, note_name, &third) > 0);
        TS_PASS(ts_backward(ts_sum(turned ? ts_add(b, c) : ts_add(c, b))));
        TS_EXPECT_STR(seen, "321");
        TS_EXPECT_ALL(ts_grad(x), 11.0);
    }
}

/* x x, of which the gradient knows only one factor. */
static ts_tensor *half_known(ts_tensor *const *in, int n, void *user)
{
    (void)n, (void)user;
    return ts_mul(in[0], ts_mul(in[1], ts_detach(in[1])));
}

TS_TEST(gradcheck_names_a_wrong_gradient)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_FLOAT64;
    opt.requires_grad = true;
    ts_tensor *in[] = {ts_full(TS_SHAPE(2), 3, &opt), ts_full(TS_SHAPE(2), 5, &opt)};
    TS_FAIL(ts_gradcheck(half_known, in, 2, NULL, 1e-5, 1e-6, 1e-5), TS_EUSER,
            "input 1 element 0: gradient 7.5, numeric 15");
    TS_EXPECT_ALL(in[1], 5.0);
}

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

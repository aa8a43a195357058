/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong use of the graph, grad modes, several roots, gradients on request. */
#include <tessera/tessera.h>

#include "autograd/autograd.h"
#include "test.h"

static ts_tensor *leaf(ts_shape shape, double value)
{
    ts_tensor *t = ts_full(shape, value, NULL);
    ts_set_requires_grad(t, true);
    return t;
}

TS_TEST(saved_tensors_are_guarded)
{
    ts_tensor *x = leaf(TS_SHAPE(2), 3), *y = ts_mul_scalar(x, 1), *z = ts_exp(y);
    ts_tensor_set_name(y, "hidden");
    ts_tensor *w = ts_mul(y, y);
    ts_add_scalar_(y, 1);
    TS_FAIL(ts_backward(ts_sum(w)), TS_ESTATE, "mul: the tensor hidden of shape (2,)");
    ts_mul_scalar_(z, 2); /* exp needs its own result */
    TS_FAIL(ts_backward(ts_sum(z)), TS_ESTATE, "backward of exp");

    ts_tensor *a = leaf(TS_SHAPE(2), 1), *b = ts_mul_scalar(a, 2), *c = leaf(TS_SHAPE(2), 5);
    ts_mul_(b, c); /* the gradient of c needs the former b, which has been kept */
    TS_PASS(ts_backward(ts_sum(b)));
    TS_EXPECT_ALL(ts_grad(c), 2.0);
    TS_EXPECT_ALL(ts_grad(a), 10.0);

    bool former = ts_no_grad_begin();
    ts_tensor *d = ts_mul(a, a);
    ts_no_grad_end(former);
    TS_EXPECT(!ts_requires_grad(d));
    ts_tensor *e = ts_mul(a, a);
    ((float *)ts_data_mut(a))[0] = 2; /* an optimizer step */
    TS_FAIL(ts_backward(ts_sum(e)), TS_ESTATE, "changed in place");
}

TS_TEST(what_is_not_needed_is_not_guarded)
{
    ts_tensor *x = leaf(TS_SHAPE(2), 3), *mask = ts_ones(TS_SHAPE(2), NULL);
    ts_tensor *y = ts_mul_scalar(x, 2), *z = ts_mul(y, mask);
    ts_mul_(y, mask); /* mul saved mask only */
    TS_PASS(ts_backward(ts_sum(ts_add(y, z))));
    TS_EXPECT_ALL(ts_grad(x), 4.0);
}

TS_TEST(leaves_are_not_changed_in_place)
{
    ts_tensor *x = leaf(TS_SHAPE(4), 3);
    ts_tensor_set_name(x, "fc1.weight");
    TS_BAD(ts_add_scalar_(x, 1), TS_ESTATE, "fc1.weight is a leaf");
    TS_BAD(ts_zero_(ts_narrow(x, 0, 0, 2)), TS_ESTATE, "view of a leaf");
    bool former = ts_no_grad_begin();
    uint64_t before = ts_tensor_version(x);
    TS_GOOD(ts_add_scalar_(x, 1));
    TS_GOOD(ts_zero_(ts_narrow(x, 0, 0, 2)));
    TS_EXPECT_INT(ts_tensor_version(x), before + 2);
    ts_no_grad_end(former);
    TS_EXPECT_VALUES(x, 0, 0, 0, 4, 4);
    TS_EXPECT(ts_is_leaf(x) && ts_requires_grad(x));
}

TS_TEST(views_made_without_recording_are_not_changed_by_recorded_operations)
{
    ts_tensor *x = leaf(TS_SHAPE(4), 3), *y = ts_mul_scalar(x, 2);
    bool former = ts_no_grad_begin();
    ts_tensor *view = ts_narrow(y, 0, 0, 2);
    ts_no_grad_end(former);
    TS_EXPECT(!ts_requires_grad(view));
    TS_BAD(ts_mul_(view, ts_narrow(x, 0, 0, 2)), TS_ESTATE, "without recording");
    ts_tensor *inner = ts_narrow(view, 0, 0, 1);
    TS_EXPECT(!ts_requires_grad(inner));
    TS_BAD(ts_mul_(inner, ts_narrow(x, 0, 0, 1)), TS_ESTATE, "without recording");
    TS_EXPECT(!ts_requires_grad(ts_mul_scalar(view, 2)));
}

TS_TEST(a_view_that_was_made_a_leaf_stays_one)
{
    ts_tensor *x = leaf(TS_SHAPE(2), 3), *flat = ts_zeros(TS_SHAPE(4), NULL);
    ts_tensor *own = ts_narrow(flat, 0, 0, 2), *other = ts_narrow(flat, 0, 2, 2);
    TS_PASS(ts_set_requires_grad(own, true));
    TS_GOOD(ts_add_(other, x));
    TS_EXPECT(ts_is_leaf(own) && ts_requires_grad(own));
    TS_PASS(ts_backward(ts_sum(ts_mul_scalar(own, 2))));
    TS_EXPECT_ALL(ts_grad(own), 2.0);
    TS_PASS(ts_backward(ts_sum(flat)));
    TS_EXPECT_ALL(ts_grad(x), 1.0);
}

TS_TEST(bases_that_are_not_row_major_are_refused)
{
    ts_tensor *x = leaf(TS_SHAPE(2, 3), 1);
    ts_tensor *base = ts_detach(ts_transpose(ts_zeros(TS_SHAPE(3, 2), NULL), 0, 1));
    ts_tensor *view = ts_select(base, 0, 0);
    ts_tensor *changed = ts_add_(view, ts_select(x, 0, 0));
    TS_EXPECT_INT(ts_tensor_status(changed), TS_ESTATE);
    TS_EXPECT_TEXT(ts_tensor_error(changed), "row-major");
    TS_EXPECT_ALL(base, 0.0); /* refused before anything was written */
}

TS_TEST(roots_must_fit)
{
    ts_tensor *x = leaf(TS_SHAPE(2), 3), *y = ts_mul(x, x), *none = ts_ones(TS_SHAPE(1), NULL);
    TS_FAIL(ts_backward(y), TS_ESHAPE, "(2,)");
    TS_FAIL(ts_backward(none), TS_ESTATE, "does not require grad");
    TS_FAIL(ts_backward(NULL), TS_EINVAL, "missing");
    TS_FAIL(ts_backward(ts_add(x, ts_ones(TS_SHAPE(3), NULL))), TS_ESHAPE, "(3,)");
    ts_tensor *wrong = ts_ones(TS_SHAPE(3), NULL);
    TS_FAIL(ts_backward_ex(&y, &wrong, 1, NULL), TS_ESHAPE, "(3,)");
    ts_backward_options opt = {0};
    TS_FAIL(ts_backward_ex(&y, NULL, 1, &opt), TS_EINVAL, "_INIT");
    TS_FAIL(ts_set_requires_grad(y, false), TS_ESTATE, "ts_detach");
    ts_tensor_options whole = TS_TENSOR_OPTIONS_INIT;
    whole.dtype = TS_INT64;
    TS_FAIL(ts_set_requires_grad(ts_ones(TS_SHAPE(1), &whole), true), TS_EDTYPE, "int64");
}

TS_TEST(several_roots_and_retained_graphs)
{
    ts_tensor *x = leaf(TS_SHAPE(2), 3), *y = ts_mul(x, x);
    ts_tensor *roots[] = {y, ts_sum(y), y},
              *grads[] = {ts_ones(TS_SHAPE(2), NULL), NULL, ts_full(TS_SHAPE(2), 2, NULL)};
    ts_backward_options keep = TS_BACKWARD_OPTIONS_INIT;
    keep.retain_graph = true;
    TS_PASS(ts_backward_ex(roots, grads, 3, &keep));
    TS_EXPECT_ALL(ts_grad(x), 24.0);
    TS_PASS(ts_backward_ex(roots, grads, 3, NULL));
    TS_EXPECT_ALL(ts_grad(x), 48.0);
    TS_FAIL(ts_backward_ex(roots, grads, 3, NULL), TS_ESTATE, "mul");
    TS_PASS(ts_backward_ex(NULL, NULL, 0, NULL));
    TS_PASS(ts_backward(ts_sum(x))); /* a root that is almost a leaf */
    ts_tensor *one = leaf(TS_SHAPE(1), 1);
    TS_PASS(ts_backward(one));
    TS_EXPECT_ALL(ts_grad(one), 1.0);
}

TS_TEST(grad_of_touches_nothing_else)
{
    ts_tensor *x = leaf(TS_SHAPE(2), 3), *w = leaf(TS_SHAPE(2), 5), *apart = leaf(TS_SHAPE(1), 1);
    ts_tensor *y = ts_mul(x, w), *loss = ts_sum(ts_mul(y, y)), *out[3];
    ts_tensor *in[] = {x, y, apart};
    TS_PASS(ts_grad_of(out, &loss, NULL, 1, in, 3, NULL));
    TS_EXPECT_ALL(out[0], 150.0);
    TS_EXPECT_ALL(out[1], 30.0);
    TS_EXPECT(!out[2] && !ts_grad(x) && !ts_grad(w));
    ts_tensor *plain = ts_ones(TS_SHAPE(1), NULL);
    TS_FAIL(ts_grad_of(out, &loss, NULL, 1, &plain, 1, NULL), TS_ESTATE, "input 0");
}

TS_TEST(create_graph_accumulates_gradients_with_history)
{
    ts_backward_options opt = TS_BACKWARD_OPTIONS_INIT;
    opt.create_graph = true;
    ts_tensor *x = leaf(TS_SHAPE(2), 3), *loss = ts_sum(ts_mul(ts_mul(x, x), x)), *second;
    TS_PASS(ts_backward_ex(&loss, NULL, 1, &opt));
    TS_EXPECT_ALL(ts_grad(x), 27.0);
    TS_EXPECT(ts_requires_grad(ts_grad(x)));
    ts_tensor *sum = ts_sum(ts_grad(x));
    TS_PASS(ts_grad_of(&second, &sum, NULL, 1, &x, 1, NULL));
    TS_EXPECT_ALL(second, 18.0);
    TS_PASS(ts_set_grad(x, NULL)); /* the gradient's history leads to x: a cycle until now */
}

TS_TEST(grad_modes_nest)
{
    bool outer = ts_no_grad_begin(), inner = ts_enable_grad_begin();
    TS_EXPECT(outer && !inner && ts_grad_enabled());
    ts_enable_grad_end(inner);
    TS_EXPECT(!ts_grad_enabled());
    ts_no_grad_end(outer);
    TS_EXPECT(ts_grad_enabled());
}

TS_TEST(detached_tensors_share_memory_without_history)
{
    ts_tensor *x = leaf(TS_SHAPE(2), 3), *y = ts_mul(x, x), *d = ts_detach(y);
    TS_EXPECT(ts_same_storage(y, d) && !ts_requires_grad(d) && ts_is_leaf(d) && !ts_is_leaf(y));
    TS_BAD(ts_detach(NULL), TS_EINVAL, "missing");
}

TS_TEST(graphs_let_go_of_what_they_saved)
{
    ts_memory_stats before, after;
    ts_memory_read(&before);
    ts_scope scope = ts_scope_begin();
    ts_tensor *x = leaf(TS_SHAPE(1000), 3), *y = ts_mul_scalar(x, 1);
    ts_tensor *z = ts_mul(y, y);
    ts_add_(y, z); /* y's new history reaches z, which has saved the former y */
    ts_mul_(ts_narrow(z, 0, 0, 10), ts_narrow(y, 0, 0, 10));
    TS_PASS(ts_scope_end(scope));
    ts_memory_read(&after);
    TS_EXPECT_INT(after.current_total, before.current_total);
}

TS_TEST(failed_inputs_are_the_result)
{
    ts_tensor *x = leaf(TS_SHAPE(2), 3), *bad = ts_add(x, ts_ones(TS_SHAPE(3), NULL));
    TS_EXPECT(ts_mul(x, bad) == bad && ts_add_(bad, x) == bad && ts_sum(bad) == bad);
    TS_EXPECT(ts_view(bad, TS_SHAPE(2)) == bad && ts_cat(&bad, 1, 0) == bad);
    TS_EXPECT(ts_detach(bad) == bad && ts_narrow(bad, 9, 9, 9) == bad &&
              ts_reshape(bad, TS_SHAPE(9)) == bad);
    TS_FAIL(ts_backward(ts_sum(ts_mul(x, bad))), TS_ESHAPE, "shapes (2,) and (3,)");
    TS_BAD(ts_mul(x, NULL), TS_EINVAL, "mul: input 1 is missing");
    TS_BAD(ts_sum(NULL), TS_EINVAL, "sum: input 0 is missing");
}

TS_TEST(every_rank_differentiates_its_own_graph, .ranks = 3, .no_group = true)
{
    for (int round = 0; round < 50; round++) {
        ts_scope scope = ts_scope_begin();
        ts_tensor *x = leaf(TS_SHAPE(2), test->rank + 1), *y = x;
        for (int i = 0; i < 20; i++) y = ts_add(ts_mul(y, ts_detach(x)), x);
        ts_tensor *loss = ts_sum(ts_mul_scalar(x, 3));
        TS_PASS(ts_backward(loss));
        TS_EXPECT_ALL(ts_grad(x), 3.0);
        TS_PASS(ts_backward(ts_sum(y)));
        TS_PASS(ts_scope_end(scope));
    }
}

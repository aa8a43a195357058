/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks, callbacks, accumulation into homes, unused leaves. */
#include <tessera/tessera.h>

#include "autograd/autograd.h"
#include "test.h"

static ts_tensor *leaf(ts_shape shape, double value)
{
    ts_tensor *t = ts_full(shape, value, NULL);
    ts_set_requires_grad(t, true);
    return t;
}

/* ---- tensor hooks ---------------------------------------------------------------------------- */

static ts_tensor *count_hook(ts_tensor *grad, void *user)
{
    (void)grad;
    ++*(int *)user;
    return NULL;
}

static ts_tensor *double_hook(ts_tensor *grad, void *user)
{
    (void)user;
    return ts_mul_scalar(grad, 2);
}

static ts_tensor *fail_hook(ts_tensor *grad, void *user)
{
    (void)grad, (void)user;
    return ts_fail_tensor(TS_EUSER, "hook does not like this gradient");
}

static ts_tensor *wrong_shape_hook(ts_tensor *grad, void *user)
{
    (void)user;
    return ts_sum(grad);
}

TS_TEST(tensor_hooks_see_complete_gradients)
{
    int inner = 0, on_leaf = 0;
    ts_tensor *x = leaf(TS_SHAPE(2), 3), *y = ts_mul_scalar(x, 1);
    TS_EXPECT(ts_tensor_register_hook(y, count_hook, &inner) > 0);
    TS_EXPECT(ts_tensor_register_hook(y, double_hook, NULL) > 0);
    TS_EXPECT(ts_tensor_register_hook(x, count_hook, &on_leaf) > 0);
    ts_tensor *loss = ts_sum(ts_add(ts_mul(y, y), y)); /* two paths through y */
    TS_PASS(ts_backward(loss));
    TS_EXPECT_INT(inner, 1);
    TS_EXPECT_INT(on_leaf, 1);
    TS_EXPECT_ALL(ts_grad(x), 14.0);
}

TS_TEST(hooks_can_be_removed)
{
    int count = 0;
    ts_tensor *x = leaf(TS_SHAPE(2), 1), *y = ts_mul_scalar(x, 1);
    int64_t first = ts_tensor_register_hook(y, double_hook, NULL);
    int64_t second = ts_tensor_register_hook(y, count_hook, &count);
    TS_EXPECT(first > 0 && second > 0 && first != second);
    ts_hook_remove(y, first);
    TS_PASS(ts_backward(ts_sum(y)));
    TS_EXPECT_INT(count, 1);
    TS_EXPECT_ALL(ts_grad(x), 1.0);
}

TS_TEST(a_failing_hook_stops_backward)
{
    ts_tensor *x = leaf(TS_SHAPE(2), 1), *y = ts_mul_scalar(x, 1);
    ts_tensor_register_hook(y, fail_hook, NULL);
    TS_FAIL(ts_backward(ts_sum(y)), TS_EUSER, "does not like");
    TS_EXPECT(!ts_grad(x));
    y = ts_mul_scalar(x, 1);
    ts_tensor_register_hook(y, wrong_shape_hook, NULL);
    TS_FAIL(ts_backward(ts_sum(y)), TS_ESHAPE, "(2,)");
}

TS_TEST(hooks_need_a_gradient)
{
    ts_tensor *x = ts_ones(TS_SHAPE(2), NULL);
    TS_EXPECT_INT(ts_tensor_register_hook(x, count_hook, NULL), 0);
    TS_EXPECT_INT(ts_register_post_accumulate_hook(x, NULL, NULL), 0);
    TS_FAIL(ts_retain_grad(x), TS_ESTATE, "require");
}

TS_TEST(retain_grad_keeps_what_flows_on)
{
    ts_tensor *x = leaf(TS_SHAPE(2), 3), *y = ts_mul(x, x);
    TS_PASS(ts_retain_grad(y));
    ts_mul_scalar_(y, 2); /* y is now the result of the change */
    TS_PASS(ts_backward(ts_sum(ts_mul(y, y))));
    TS_EXPECT_ALL(ts_grad(y), 36.0);
    TS_EXPECT_ALL(ts_grad(x), 432.0);
    ts_tensor *once_more = ts_sum(y);
    TS_FAIL(ts_backward(once_more), TS_ESTATE, "mul");
    x = leaf(TS_SHAPE(2), 3);
    y = ts_mul_scalar(x, 1);
    TS_PASS(ts_retain_grad(y));
    TS_PASS(ts_backward(ts_sum(y)));
    TS_PASS(ts_backward(ts_sum(y))); /* nothing was saved, so it can run again; gradients add up */
    TS_EXPECT_ALL(ts_grad(y), 2.0);
}

TS_TEST(retain_grad_of_a_tensor_that_is_gone)
{
    ts_tensor *x = leaf(TS_SHAPE(2), 3);
    ts_scope scope = ts_scope_begin();
    ts_tensor *y = ts_mul(x, x);
    TS_PASS(ts_retain_grad(y));
    ts_tensor *loss = ts_scope_end_keep(scope, ts_sum(y));
    TS_PASS(ts_backward(loss));
    TS_EXPECT_ALL(ts_grad(x), 6.0);
}

/* ---- leaves ---------------------------------------------------------------------------------- */

typedef struct order {
    int next;
    ts_tensor *seen[8];
    ts_tensor *other;
} order;

static ts_status note_leaf(ts_tensor *t, void *user)
{
    order *o = user;
    if (!ts_grad(t)) return TS_ESTATE;
    o->seen[o->next++] = t;
    return TS_OK;
}

static ts_status refuse_leaf(ts_tensor *t, void *user)
{
    (void)t, (void)user;
    return TS_EUSER;
}

TS_TEST(post_accumulate_hooks_run_as_gradients_become_ready)
{
    order o = {0};
    ts_tensor *a = leaf(TS_SHAPE(2), 1), *b = leaf(TS_SHAPE(2), 2), *c = leaf(TS_SHAPE(2), 3);
    ts_tensor *all[] = {a, b, c};
    for (int i = 0; i < 3; i++)
        TS_EXPECT(ts_register_post_accumulate_hook(all[i], note_leaf, &o) > 0);
    ts_tensor *y = ts_mul(ts_mul(ts_mul_scalar(a, 2), b), c);
    TS_PASS(ts_backward(ts_sum(y)));
    TS_EXPECT_INT(o.next, 3);
    TS_EXPECT(o.seen[0] == c && o.seen[1] == b && o.seen[2] == a);
    ts_register_post_accumulate_hook(b, refuse_leaf, NULL);
    TS_FAIL(ts_backward(ts_sum(ts_mul(a, b))), TS_EUSER, "post-accumulate hook returned TS_EUSER");
}

TS_TEST(a_leaf_that_is_gone_gets_no_gradient)
{
    ts_tensor *x = ts_retain(leaf(TS_SHAPE(2), 3));
    ts_scope scope = ts_scope_begin();
    ts_tensor *y = leaf(TS_SHAPE(2), 1);
    ts_tensor *loss = ts_scope_end_keep(scope, ts_sum(ts_add(x, y)));
    TS_PASS(ts_backward(loss));
    TS_EXPECT_ALL(ts_grad(x), 1.0);
    ts_release(x);
}

TS_TEST(gradients_go_home)
{
    ts_tensor *bucket = ts_full(TS_SHAPE(6), 7, NULL), *home = ts_narrow(bucket, 0, 2, 3);
    ts_tensor *x = leaf(TS_SHAPE(3), 2);
    TS_PASS(ts_autograd_set_grad_home(x, home));
    TS_PASS(ts_backward(ts_sum(ts_mul(x, x))));
    TS_EXPECT(ts_grad(x) == home);
    TS_PASS(ts_backward(ts_sum(x)));
    TS_EXPECT(ts_grad(x) == home);
    TS_EXPECT_VALUES(bucket, 0, 7, 7, 5, 5, 5, 7);
    TS_PASS(ts_set_grad(x, NULL));
    TS_PASS(ts_backward(ts_sum(x))); /* the first one of an iteration is not added */
    TS_EXPECT_VALUES(bucket, 0, 7, 7, 1, 1, 1, 7);
    TS_PASS(ts_set_grad(x, NULL));
    TS_PASS(ts_autograd_set_grad_home(x, NULL));
    TS_PASS(ts_backward(ts_sum(x)));
    TS_EXPECT(ts_grad(x) != home);
    TS_FAIL(ts_autograd_set_grad_home(x, bucket), TS_ESHAPE, "(6,)");
}

TS_TEST(gradients_keep_their_memory)
{
    ts_tensor *x = leaf(TS_SHAPE(3), 2);
    TS_PASS(ts_backward(ts_sum(ts_mul(x, x))));
    const void *where = ts_data(ts_grad(x));
    ts_memory_stats stats;
    ts_memory_read(&stats);
    TS_EXPECT_INT(stats.current[TS_CATEGORY_GRADIENT], 12);
    TS_PASS(ts_backward(ts_sum(ts_mul(x, x))));
    TS_EXPECT(ts_data(ts_grad(x)) == where);
    TS_EXPECT_ALL(ts_grad(x), 8.0);
    ts_tensor *y = leaf(TS_SHAPE(3), 2), *seed = ts_ones(TS_SHAPE(3), NULL);
    ts_tensor *same = ts_add_scalar(y, 0);
    TS_PASS(ts_backward_ex(&same, &seed, 1, NULL)); /* the caller's tensor is copied, not taken */
    TS_EXPECT(ts_data(ts_grad(y)) != ts_data(seed));
    TS_PASS(ts_set_grad(y, NULL));
    TS_FAIL(ts_set_grad(y, ts_ones(TS_SHAPE(2), NULL)), TS_ESHAPE, "(2,)");
    TS_FAIL(ts_set_grad(y, ts_ones(TS_SHAPE(3), &(ts_tensor_options){sizeof(ts_tensor_options),
                                                                     .dtype = TS_FLOAT64})),
            TS_EDTYPE, "float64");
}

static bool note_reached(ts_tensor *t, void *user)
{
    order *o = user;
    o->seen[o->next++] = t;
    return t != o->other;
}

TS_TEST(reachable_leaves_are_found_once)
{
    order o = {0};
    ts_tensor *a = leaf(TS_SHAPE(2), 1), *b = leaf(TS_SHAPE(2), 2), *unused = leaf(TS_SHAPE(2), 3);
    ts_tensor *roots[] = {ts_mul(a, b), ts_add(a, a), ts_ones(TS_SHAPE(1), NULL)};
    TS_PASS(ts_autograd_reachable(roots, 3, note_reached, &o));
    TS_EXPECT_INT(o.next, 2);
    TS_EXPECT(o.seen[0] != o.seen[1] && o.seen[0] != unused && o.seen[1] != unused);
    o = (order){.other = o.seen[0]};
    TS_PASS(ts_autograd_reachable(roots, 3, note_reached, &o));
    TS_EXPECT_INT(o.next, 1);
}

/* ---- callbacks ------------------------------------------------------------------------------- */

typedef struct pass_log {
    int queued, ran;
    ts_status told;
    ts_status result;
} pass_log;

static ts_status at_end(ts_status backward, void *user)
{
    pass_log *log = user;
    log->ran++;
    log->told = backward;
    return log->result;
}

static ts_tensor *queue_hook(ts_tensor *grad, void *user)
{
    pass_log *log = user;
    log->queued++;
    return ts_queue_backward_callback(at_end, log) == TS_OK && !log->ran
               ? NULL
               : ts_fail_tensor(TS_EUSER, "callback ran too early %d", (int)ts_numel(grad));
}

TS_TEST(callbacks_run_at_the_end_of_backward)
{
    pass_log log = {0};
    ts_tensor *x = leaf(TS_SHAPE(2), 1), *y = ts_mul_scalar(x, 2);
    ts_tensor_register_hook(y, queue_hook, &log);
    TS_PASS(ts_backward(ts_sum(y)));
    TS_EXPECT(log.queued == 1 && log.ran == 1 && log.told == TS_OK);
    TS_FAIL(ts_queue_backward_callback(at_end, &log), TS_ESTATE, "no backward");

    log = (pass_log){.result = TS_EUSER};
    y = ts_mul_scalar(x, 2);
    ts_tensor_register_hook(y, queue_hook, &log);
    TS_FAIL(ts_backward(ts_sum(y)), TS_EUSER, "callback returned TS_EUSER");
    TS_EXPECT(log.ran == 1 && log.told == TS_OK);

    log = (pass_log){0};
    ts_tensor *z = ts_mul_scalar(x, 2);
    y = ts_mul_scalar(z, 2);
    ts_tensor_register_hook(y, queue_hook, &log);
    ts_tensor_register_hook(z, fail_hook, NULL);
    TS_FAIL(ts_backward(ts_sum(y)), TS_EUSER, "does not like");
    TS_EXPECT(log.ran == 1 && log.told == TS_EUSER);
}

static ts_tensor *nested_hook(ts_tensor *grad, void *user)
{
    ts_tensor *x = user;
    bool former = ts_enable_grad_begin();
    ts_status status = ts_backward(ts_sum(ts_mul(x, x)));
    ts_enable_grad_end(former);
    return status == TS_OK ? NULL : ts_fail_tensor(status, "nested, %d", (int)ts_numel(grad));
}

TS_TEST(backward_inside_backward)
{
    ts_tensor *x = leaf(TS_SHAPE(2), 3), *y = ts_mul_scalar(x, 2);
    ts_tensor_register_hook(y, nested_hook, x);
    TS_PASS(ts_backward(ts_sum(y)));
    TS_EXPECT_ALL(ts_grad(x), 8.0);
}

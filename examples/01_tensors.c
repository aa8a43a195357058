/* SPDX-License-Identifier: Apache-2.0 */
/* Lesson 1: tensors, scopes, gradients, and how failure travels.  Run it: build/bin/01_tensors */
#include <stdio.h>
#include <tessera/tessera.h>

/* Fits y = 3x - 1 by gradient descent on two numbers. */
static void fit_a_line(void)
{
    ts_tensor *w = ts_scalar(0.0, NULL), *b = ts_scalar(0.0, NULL);
    ts_must(ts_set_requires_grad(w, true));
    ts_must(ts_set_requires_grad(b, true));

    for (int step = 0; step < 200; step++) {
        ts_scope scope = ts_scope_begin(); /* what this step makes, it lets go */
        ts_tensor *x = ts_rand(TS_SHAPE(64), NULL);
        ts_tensor *y = ts_add_scalar(ts_mul_scalar(x, 3.0), -1.0);
        ts_tensor *loss = ts_mse_loss(ts_add(ts_mul(x, w), b), y);

        ts_must(ts_set_grad(w, NULL));
        ts_must(ts_set_grad(b, NULL));
        ts_must(ts_backward(loss));

        bool former = ts_no_grad_begin(); /* the update itself is not recorded */
        ts_sub_(w, ts_mul_scalar(ts_grad(w), 0.5));
        ts_sub_(b, ts_mul_scalar(ts_grad(b), 0.5));
        ts_no_grad_end(former);
        ts_must(ts_scope_end(scope));
    }

    double slope, intercept;
    ts_must(ts_item(w, &slope));
    ts_must(ts_item(b, &intercept));
    printf("y = %.2f x %+.2f\n", slope, intercept);
}

/* A wrong shape does not stop the program: the value fails, keeps the first cause, and passes it
 * through whatever is computed from it, until an action asks. */
static void fail_in_the_value(void)
{
    ts_scope scope = ts_scope_begin();
    ts_tensor *a = ts_ones(TS_SHAPE(2, 3), NULL), *b = ts_ones(TS_SHAPE(4), NULL);
    ts_tensor *sum = ts_sum(ts_exp(ts_add(a, b)));
    double value;
    ts_status status = ts_item(sum, &value);
    printf("%s: %s\n", ts_status_name(status), ts_error_last());
    ts_must(ts_scope_end(scope)); /* reported already, so this is TS_OK */
}

int main(void)
{
    ts_manual_seed(1);
    ts_scope scope = ts_scope_begin();
    ts_tensor *t = ts_view(ts_arange(0, 6, 1, NULL), TS_SHAPE(2, 3));
    ts_tensor_print(ts_transpose(t, 0, 1), stdout); /* a view: shares the numbers */
    fit_a_line();
    fail_in_the_value();
    ts_must(ts_scope_end(scope));
    return 0;
}

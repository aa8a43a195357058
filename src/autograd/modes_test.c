/* SPDX-License-Identifier: Apache-2.0 */
/* Grad mode, inference mode, exchanged data, anomaly mode. */
#include <pthread.h>
#include <stdlib.h>
#include <tessera/tessera.h>

#include "test.h"

static ts_tensor *leaf(ts_shape shape, double value)
{
    ts_tensor *t = ts_full(shape, value, NULL);
    ts_set_requires_grad(t, true);
    return t;
}

static void *other_thread(void *user)
{
    bool *seen = user;
    seen[0] = ts_grad_enabled();
    seen[1] = ts_inference_mode_enabled();
    return NULL;
}

TS_TEST(grad_modes_nest_and_belong_to_a_thread)
{
    ts_tensor *x = leaf(TS_SHAPE(2), 3);
    bool outer = ts_no_grad_begin();
    bool inner = ts_enable_grad_begin();
    TS_EXPECT(ts_requires_grad(ts_mul(x, x)));
    uint32_t inference = ts_inference_mode_begin(true);
    bool inside = ts_enable_grad_begin();
    TS_EXPECT(!ts_grad_enabled() && !ts_requires_grad(ts_mul(x, x)));
    uint32_t off = ts_inference_mode_begin(false);
    TS_EXPECT(ts_grad_enabled() && !ts_is_inference(ts_mul(x, x)));
    ts_inference_mode_end(off);
    TS_EXPECT(ts_inference_mode_enabled());
    bool seen[2] = {false, true};
    pthread_t thread;
    TS_EXPECT_INT(pthread_create(&thread, NULL, other_thread, seen), 0);
    pthread_join(thread, NULL);
    TS_EXPECT(seen[0] && !seen[1]);
    ts_enable_grad_end(inside);
    ts_inference_mode_end(inference);
    TS_EXPECT(ts_grad_enabled() && !ts_inference_mode_enabled());
    ts_enable_grad_end(inner);
    TS_EXPECT(!ts_grad_enabled());
    ts_no_grad_end(outer);
    TS_EXPECT(ts_grad_enabled());
}

TS_TEST(inference_tensors_stay_out_of_backward)
{
    ts_tensor *w = leaf(TS_SHAPE(2), 3), *normal = ts_ones(TS_SHAPE(2), NULL);
    uint32_t former = ts_inference_mode_begin(true);
    ts_tensor *x = ts_mul(w, w), *view = ts_narrow(normal, 0, 0, 1);
    TS_EXPECT(ts_is_inference(x) && !ts_is_inference(view) && !ts_is_inference(NULL));
    TS_GOOD(ts_add_scalar_(x, 1));
    TS_EXPECT_INT(ts_tensor_version(x), 0);
    TS_GOOD(ts_add_scalar_(normal, 1));
    TS_EXPECT_INT(ts_tensor_version(normal), 1);
    ts_tensor *scalar = ts_sum(w);
    TS_FAIL(ts_backward(scalar), TS_ESTATE, "inference mode");
    ts_inference_mode_end(former);

    ts_tensor_set_name(x, "features");
    ts_tensor *part = ts_narrow(x, 0, 0, 1);
    TS_EXPECT(ts_is_inference(part));
    TS_BAD(ts_mul(w, x), TS_ESTATE, "the tensor features of shape (2,) was made in inference mode");
    TS_BAD(ts_add_scalar_(part, 1), TS_ESTATE, "inference mode");
    float number[2] = {1, 2};
    TS_FAIL(ts_copy_in(x, number, sizeof number), TS_ESTATE, "inference mode");
    TS_BAD(ts_uniform_(x, 0, 1), TS_ESTATE, "inference mode");
    TS_FAIL(ts_set_requires_grad(x, true), TS_ESTATE, "clone");
    TS_PASS(ts_backward(ts_sum(ts_add(w, x)))); /* add saves nothing */
    TS_PASS(ts_backward(ts_sum(ts_mul(w, ts_clone(x)))));
    TS_EXPECT_ALL(ts_grad(w), 11.0);
}

TS_TEST(changes_through_the_base_and_of_expanded_views)
{
    ts_tensor *x = leaf(TS_SHAPE(4), 3), *base = ts_mul_scalar(x, 1);
    ts_tensor *view = ts_narrow(base, 0, 0, 2), *w = ts_mul(view, view);
    ts_add_scalar_(base, 1);
    TS_FAIL(ts_backward(ts_sum(w)), TS_ESTATE, "backward of mul");
    ts_tensor *wide = ts_expand(ts_ones(TS_SHAPE(1, 2), NULL), TS_SHAPE(3, 2));
    TS_BAD(ts_add_scalar_(wide, 1), TS_ESTATE, "add_scalar_: elements of the tensor share memory");
    ts_tensor *weight = leaf(TS_SHAPE(2), 3), *y = ts_mul(weight, weight);
    ts_tensor_set_name(weight, "fc.weight");
    bool former = ts_no_grad_begin();
    ts_add_scalar_(weight, 1);
    ts_no_grad_end(former);
    TS_FAIL(ts_backward(ts_sum(y)), TS_ESTATE, "mul: the tensor fc.weight of shape (2,)");
}

/* A parameter that is gathered for its use, as sharded data parallelism does. */
TS_TEST(exchanged_data_is_no_change)
{
    ts_tensor *shard = leaf(TS_SHAPE(2), 1), *full = ts_full(TS_SHAPE(4), 5, NULL);
    ts_tensor *empty = ts_zeros(TS_SHAPE(0), NULL), *x = leaf(TS_SHAPE(4), 2);
    uint64_t version = ts_tensor_version(shard);
    TS_PASS(ts_set_data(shard, full));
    TS_EXPECT(ts_numel(shard) == 4 && ts_same_storage(shard, full));
    ts_tensor *y = ts_mul(shard, x), *view = ts_narrow(shard, 0, 1, 2);
    TS_PASS(ts_set_data(shard, empty));
    TS_EXPECT_INT(ts_tensor_version(shard), version);
    TS_EXPECT_ALL(view, 5.0);
    ts_add_scalar_(full, 1); /* what is gathered lands in a buffer that has changed meanwhile */
    TS_PASS(ts_set_data(shard, full));
    TS_PASS(ts_backward(ts_sum(y)));
    TS_EXPECT_ALL(ts_grad(x), 6.0);
    TS_EXPECT_ALL(ts_grad(shard), 2.0);

    y = ts_mul(shard, x);
    bool former = ts_no_grad_begin();
    ts_add_scalar_(shard, 1);
    ts_no_grad_end(former);
    TS_FAIL(ts_backward(ts_sum(y)), TS_ESTATE, "changed in place");
    TS_FAIL(ts_set_data(ts_mul(x, x), full), TS_ESTATE, "leaves");
    TS_FAIL(ts_set_data(ts_narrow(full, 0, 0, 1), full), TS_ESTATE, "views");
    TS_FAIL(ts_set_data(shard, ts_to_dtype(full, TS_FLOAT64)), TS_EDTYPE, "float64");
    TS_FAIL(ts_set_data(shard, NULL), TS_EINVAL, "data is missing");
}

/* ---- anomaly mode ---------------------------------------------------------------------------- */

static ts_tensor *square_root_of_zero(ts_tensor *x) { return ts_sqrt(ts_mul_scalar(x, 0)); }

TS_TEST(anomaly_mode_names_the_operation_and_its_line)
{
    ts_tensor *x = leaf(TS_SHAPE(2), 3);
    ts_set_detect_anomaly(false, false);                  /* the environment may have it on */
    TS_PASS(ts_backward(ts_sum(square_root_of_zero(x)))); /* unseen */
    uint32_t former = ts_detect_anomaly_begin(true);
    TS_EXPECT(ts_is_anomaly_enabled());
    ts_tensor *loss = ts_sum(square_root_of_zero(x));
    TS_FAIL(ts_backward(loss), TS_ESTATE,
            "backward of sqrt: the gradient of input 0, of shape (2,), is not finite");
    TS_EXPECT_TEXT(ts_error_last(), "that sqrt ran at");
    TS_EXPECT_TEXT(ts_error_last(), "modes_test.c:");
    ts_tensor *y = ts_mul_scalar(x, 1), *z = ts_mul(y, y);
    ts_add_scalar_(y, 1);
    TS_FAIL(ts_backward(ts_sum(z)), TS_ESTATE, "changed in place");
    TS_EXPECT_TEXT(ts_error_last(), "that mul ran at");
    TS_PASS(ts_backward(ts_sum(ts_mul(x, x))));
    uint32_t inner = ts_detect_anomaly_begin(false);
    TS_PASS(ts_backward(ts_sum(square_root_of_zero(x)))); /* sites only */
    ts_detect_anomaly_end(inner);
    ts_detect_anomaly_end(former);
    TS_EXPECT(!ts_is_anomaly_enabled());
    ts_set_detect_anomaly(true, true);
    TS_FAIL(ts_backward(ts_sum(square_root_of_zero(x))), TS_ESTATE, "not finite");
    ts_set_detect_anomaly(false, false);
    TS_PASS(ts_backward(ts_sum(square_root_of_zero(x))));
}

static void *setting_of_a_thread(void *user)
{
    ts_scope scope = ts_scope_begin();
    *(bool *)user = ts_is_anomaly_enabled() &&
                    ts_backward(ts_sum(square_root_of_zero(leaf(TS_SHAPE(2), 3)))) == TS_ESTATE;
    ts_scope_end(scope);
    return NULL;
}

TS_TEST(anomaly_mode_of_the_environment_is_for_every_thread)
{
    bool on = false;
    pthread_t thread;
    setenv("TESSERA_DETECT_ANOMALY", "1", 1);
    TS_EXPECT_INT(pthread_create(&thread, NULL, setting_of_a_thread, &on), 0);
    pthread_join(thread, NULL);
    unsetenv("TESSERA_DETECT_ANOMALY");
    TS_EXPECT(on);
    TS_EXPECT_INT(pthread_create(&thread, NULL, setting_of_a_thread, &on), 0);
    pthread_join(thread, NULL);
    TS_EXPECT(!on);
}

static ts_tensor *broken_forward(ts_module *self, ts_tensor *x)
{
    (void)self;
    return square_root_of_zero(x);
}
static const ts_module_class broken_class = {.name = "Broken", .forward = broken_forward};

TS_TEST(anomaly_mode_names_the_module)
{
    ts_module *parts[] = {ts_relu_new(), ts_module_new(&broken_class)};
    ts_module *m = ts_sequential_new(parts, 2);
    uint32_t former = ts_detect_anomaly_begin(true);
    ts_tensor *y = ts_forward(m, leaf(TS_SHAPE(2), 3));
    TS_FAIL(ts_backward(ts_sum(y)), TS_ESTATE, "that sqrt ran in 1 at ");
    ts_detect_anomaly_end(former);
    ts_module_free(m);
}

TS_TEST(anomaly_mode_looks_at_any_layout_and_dtype)
{
    ts_tensor *x = leaf(TS_SHAPE(2, 3), 0);
    uint32_t former = ts_detect_anomaly_begin(true);
    ts_tensor *half = ts_to_dtype(x, TS_BFLOAT16);
    TS_FAIL(ts_backward(ts_sum(ts_sqrt(ts_transpose(half, 0, 1)))), TS_ESTATE, "(3, 2)");
    TS_PASS(ts_backward(ts_sum(ts_sqrt(leaf(TS_SHAPE(0), 0)))));
    ts_module *m = ts_linear_new(2, 2, NULL);
    ts_tensor *big = ts_mul_scalar(ts_forward(m, ts_ones(TS_SHAPE(1, 2), NULL)), 1e30);
    TS_FAIL(ts_backward(ts_sum(ts_mul(big, big))), TS_ESTATE, "backward of ");
    ts_detect_anomaly_end(former);
    ts_module_free(m);
}

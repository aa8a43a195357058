/* SPDX-License-Identifier: Apache-2.0 */
/* Layers against PyTorch's: names in the state dict, output, gradients, running statistics
 * (tests/golden/layers.py). */
#include <string.h>

#include "golden.h"
#include "test.h"

static ts_module *conv(int dims, bool bias)
{
    ts_conv_layer_options o = TS_CONV_LAYER_OPTIONS_INIT;
    o.dtype = TS_FLOAT64;
    o.bias = bias;
    if (!bias) return ts_conv2d_new(3, 2, 1, 1, &o);
    o.groups = 2;
    o.stride[0] = 2;
    o.padding[0] = 1;
    if (dims == 2) o.dilation[1] = 2;
    return dims == 1 ? ts_conv1d_new(4, 6, 3, &o) : ts_conv2d_new(4, 6, 3, 2, &o);
}

static ts_module *batch_norm(int dims, double eps, double momentum, bool plain)
{
    ts_batch_norm_options o = TS_BATCH_NORM_OPTIONS_INIT;
    o.dtype = TS_FLOAT64;
    o.eps = eps;
    o.momentum = momentum;
    o.affine = o.track_running_stats = !plain;
    return dims == 1 ? ts_batch_norm1d_new(4, &o) : ts_batch_norm2d_new(3, &o);
}

static ts_module *rms_norm(void)
{
    ts_rms_norm_options o = TS_RMS_NORM_OPTIONS_INIT;
    o.dtype = TS_FLOAT64;
    return ts_rms_norm_new(TS_SHAPE(4, 5), &o);
}

static ts_module *group_norm(void)
{
    ts_group_norm_options o = TS_GROUP_NORM_OPTIONS_INIT;
    o.dtype = TS_FLOAT64;
    return ts_group_norm_new(2, 6, &o);
}

static void expect_equal(ts_test *test, const ts_tensor_list *golden, const char *layer,
                         const char *key, ts_tensor *t)
{
    ts_tensor *expected = ts_golden_get(golden, "%s.%s", layer, key);
    TS_EXPECT(expected);
    TS_PASS(ts_tensor_status(t));
    TS_EXPECT(ts_shape_equal(ts_tensor_shape(t), ts_tensor_shape(expected)));
    TS_EXPECT_INT(ts_tensor_dtype(t), ts_tensor_dtype(expected));
    ts_tensor *off = ts_abs(ts_sub(ts_to_dtype(t, TS_FLOAT64), ts_to_dtype(expected, TS_FLOAT64)));
    double worst;
    TS_PASS(ts_item(ts_max(off), &worst));
    if (!(worst <= 1e-12)) fprintf(stderr, "%s.%s differs by %g\n", layer, key, worst);
    TS_EXPECT(worst <= 1e-12);
}

/* The entries "<layer>.state.*" */
static ts_tensor_list *state_of(const ts_tensor_list *golden, const char *layer)
{
    char prefix[64];
    ts_tensor_list *state = ts_tensor_list_new();
    size_t length = (size_t)snprintf(prefix, sizeof prefix, "%s.state.", layer);
    for (int64_t i = 0; i < ts_tensor_list_count(golden); i++) {
        const char *name = ts_tensor_list_name(golden, i);
        if (strncmp(name, prefix, length) == 0)
            ts_must(ts_tensor_list_add(state, name + length, ts_tensor_list_get(golden, i)));
    }
    return state;
}

static void compare_lists(ts_test *test, const ts_tensor_list *golden, const char *layer,
                          const char *part, const ts_tensor_list *list, bool grads)
{
    for (int64_t i = 0; i < ts_tensor_list_count(list); i++) {
        char key[64];
        ts_tensor *t = ts_tensor_list_get(list, i);
        snprintf(key, sizeof key, "%s.%s", part, ts_tensor_list_name(list, i));
        expect_equal(test, golden, layer, key, grads ? ts_grad(t) : t);
    }
}

static void compare(ts_test *test, const ts_tensor_list *golden, const char *layer, ts_module *m)
{
    ts_tensor_list *state = state_of(golden, layer);
    TS_PASS(ts_module_load_state_dict(m, state, true)); /* strict: the names are PyTorch's */
    ts_tensor *x = ts_clone(ts_golden_get(golden, "%s.x", layer));
    TS_PASS(ts_set_requires_grad(x, true));
    ts_tensor *y = ts_forward(m, x), *dy = ts_golden_get(golden, "%s.dy", layer);
    expect_equal(test, golden, layer, "y", y);
    TS_PASS(ts_backward_ex(&y, &dy, 1, NULL));
    expect_equal(test, golden, layer, "dx", ts_grad(x));
    ts_tensor_list *parameters = ts_module_parameters(m), *buffers = ts_module_buffers(m);
    compare_lists(test, golden, layer, "grad", parameters, true);
    compare_lists(test, golden, layer, "after", buffers, false);
    ts_module_train(m, false);
    expect_equal(test, golden, layer, "eval", ts_forward(m, x));
    ts_tensor_list_free(parameters);
    ts_tensor_list_free(buffers);
    ts_tensor_list_free(state);
    ts_module_free(m);
}

TS_TEST(layers_equal_pytorch)
{
    ts_tensor_list *golden = NULL;
    TS_PASS(ts_golden_read(&golden, "tests/golden/layers.bin"));
    const struct {
        const char *name;
        ts_module *module;
    } layers[] = {
        {"rms_norm", rms_norm()},
        {"group_norm", group_norm()},
        {"batch_norm1d", batch_norm(1, 1e-5, 0.1, false)},
        {"batch_norm1d_mean", batch_norm(1, 1e-5, -1, false)},
        {"batch_norm2d", batch_norm(2, 1e-3, 0.3, false)},
        {"batch_norm2d_plain", batch_norm(2, 1e-5, 0.1, true)},
        {"conv1d", conv(1, true)},
        {"conv2d", conv(2, true)},
        {"conv2d_bare", conv(2, false)},
        {"max_pool1d", ts_max_pool1d_new((ts_pool_window){{3}, {2}, {1}, false})},
        {"max_pool2d", ts_max_pool2d_new((ts_pool_window){.kernel = {3, 2}})},
        {"avg_pool1d", ts_avg_pool1d_new((ts_pool_window){.kernel = {2}})},
        {"avg_pool2d", ts_avg_pool2d_new((ts_pool_window){{3, 3}, {2, 2}, {1, 1}, true})},
        {"adaptive_avg_pool1d", ts_adaptive_avg_pool1d_new(3)},
        {"adaptive_avg_pool2d", ts_adaptive_avg_pool2d_new(2, 3)},
        {"silu", ts_silu_new()},
        {"tanh", ts_tanh_new()},
        {"sigmoid", ts_sigmoid_new()},
        {"softmax", ts_softmax_new(1)},
        {"log_softmax", ts_log_softmax_new(-1)},
        {"identity", ts_identity_new()},
        {"flatten", ts_flatten_new(1, -1)},
    };
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++)
        compare(test, golden, layers[i].name, layers[i].module);
    ts_tensor_list_free(golden);
}

TS_TEST(layers_start_as_pytorch_and_name_wrong_input)
{
    ts_manual_seed(1);
    ts_module *m = ts_conv2d_new(4, 50, 5, 5, NULL); /* 100 values: bound 0.1 */
    double most, least;
    TS_PASS(ts_item(ts_max(ts_module_parameter(m, "weight")), &most));
    TS_PASS(ts_item(ts_min(ts_module_parameter(m, "weight")), &least));
    TS_EXPECT(most <= 0.1 && most > 0.099 && least >= -0.1 && least < -0.099);
    TS_PASS(ts_item(ts_amax(ts_abs(ts_module_parameter(m, "bias")), NULL, 0, false), &most));
    TS_EXPECT(most <= 0.1 && most > 0.08);
    TS_BAD(ts_forward(m, ts_ones(TS_SHAPE(1, 3, 8, 8), NULL)), TS_ESHAPE,
           "conv: input (1, 3, 8, 8)");
    ts_module_free(m);

    m = ts_batch_norm2d_new(3, NULL);
    TS_BAD(ts_forward(m, ts_ones(TS_SHAPE(4, 3), NULL)), TS_ESHAPE, "BatchNorm2d: input has 2");
    TS_EXPECT_ALL(ts_module_parameter(m, "weight"), 1.0);
    TS_EXPECT_ALL(ts_module_parameter(m, "bias"), 0.0);
    ts_module_free(m);

    ts_conv_layer_options grouped = TS_CONV_LAYER_OPTIONS_INIT;
    grouped.groups = 3;
    m = ts_conv1d_new(4, 6, 3, &grouped);
    TS_FAIL(ts_module_status(m), TS_EINVAL, "multiples of 3 groups");
    ts_module_free(m);
    m = ts_group_norm_new(4, 6, NULL);
    TS_FAIL(ts_module_status(m), TS_EINVAL, "6 channels are not a multiple of 4 groups");
    ts_module_free(m);
}

TS_TEST(losses_as_modules_and_modules_by_name)
{
    ts_module *parts[] = {ts_mse_loss_new(), ts_cross_entropy_loss_new(NULL)};
    ts_module *dict = ts_module_dict_new((const char *const[]){"mse", "ce"}, parts, 2);
    TS_PASS(ts_module_status(dict));
    ts_tensor *two[] = {ts_full(TS_SHAPE(2, 3), 3.0, NULL), ts_ones(TS_SHAPE(2, 3), NULL)};
    TS_EXPECT_ALL(ts_module_call(ts_module_child(dict, "mse"), two, 2), 4.0);
    ts_tensor_options index = TS_TENSOR_OPTIONS_INIT;
    index.dtype = TS_INT64;
    two[1] = ts_zeros(TS_SHAPE(2), &index);
    double loss;
    TS_PASS(ts_item(ts_module_call(parts[1], two, 2), &loss));
    TS_EXPECT_NEAR(loss, log(3.0), 1e-6);
    TS_BAD(ts_forward(parts[0], two[0]), TS_EINVAL, "mse: MSELoss: takes input and target, not 1");
    ts_module_free(dict);
}

TS_TEST(class_weights_belong_to_the_loss)
{
    ts_cross_entropy_options o = TS_CROSS_ENTROPY_OPTIONS_INIT;
    o.reduction = TS_REDUCTION_SUM;
    ts_scope scope = ts_scope_begin();
    o.weight = ts_full(TS_SHAPE(3), 2.0, NULL);
    ts_module *m = ts_cross_entropy_loss_new(&o);
    TS_PASS(ts_scope_end(scope)); /* the caller's reference */
    ts_tensor_list *state = ts_module_state_dict(m);
    TS_EXPECT_INT(ts_tensor_list_count(state), 1);
    TS_EXPECT_ALL(ts_tensor_list_find(state, "weight"), 2.0);
    ts_tensor_list_free(state);
    ts_tensor_options index = TS_TENSOR_OPTIONS_INIT;
    index.dtype = TS_INT64;
    ts_tensor *two[] = {ts_ones(TS_SHAPE(2, 3), NULL), ts_zeros(TS_SHAPE(2), &index)};
    double loss;
    TS_PASS(ts_item(ts_module_call(m, two, 2), &loss));
    TS_EXPECT_NEAR(loss, 4 * log(3.0), 1e-5);
    ts_module_free(m);
}

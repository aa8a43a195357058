/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

static const ts_module_class box_class = {.name = "Box"};

/* fc (2 -> 3), a tied copy of its weight, a persistent and another buffer. */
static ts_module *box_new(double value)
{
    ts_module *m = ts_module_new(&box_class);
    ts_module *fc = ts_module_add(m, "fc", ts_linear_new(2, 3, NULL));
    ts_module *tied = ts_module_add(m, "tied", ts_module_new(&box_class));
    ts_module_add_parameter(tied, "weight", ts_module_parameter(fc, "weight"));
    ts_module_add_buffer(m, "kept", ts_full(TS_SHAPE(2), value, NULL), true);
    ts_module_add_buffer(m, "lost", ts_full(TS_SHAPE(2), value, NULL), false);
    ts_init_constant_(ts_module_parameter(m, "fc.weight"), value);
    ts_init_constant_(ts_module_parameter(m, "fc.bias"), value);
    return m;
}

TS_TEST(state_dict_names_and_shares_what_is_kept)
{
    static const char *const names[] = {"kept", "fc.weight", "fc.bias", "tied.weight"};
    ts_module *m = box_new(1.0);
    ts_tensor_list *state = ts_module_state_dict(m);
    TS_EXPECT_INT(ts_tensor_list_count(state), 4);
    for (int i = 0; i < 4; i++) {
        TS_EXPECT_STR(ts_tensor_list_name(state, i), names[i]);
        TS_EXPECT(!ts_requires_grad(ts_tensor_list_get(state, i)));
    }
    TS_EXPECT(ts_same_storage(ts_tensor_list_get(state, 1), ts_module_parameter(m, "fc.weight")));
    TS_EXPECT(ts_same_storage(ts_tensor_list_get(state, 3), ts_module_parameter(m, "fc.weight")));
    ts_tensor_list_free(state);
    ts_module_free(m);
}

TS_TEST(state_dict_round_trip)
{
    ts_module *a = box_new(1.0), *b = box_new(2.0);
    ts_tensor *weight = ts_module_parameter(b, "fc.weight");
    uint64_t version = ts_tensor_version(weight);
    ts_tensor_list *state = ts_module_state_dict(a);
    TS_PASS(ts_module_load_state_dict(b, state, true));
    TS_EXPECT_ALL(weight, 1.0);
    TS_EXPECT(ts_module_parameter(b, "fc.weight") == weight && ts_requires_grad(weight));
    TS_EXPECT(ts_tensor_version(weight) > version);
    ts_tensor_list *buffers = ts_module_buffers(b);
    TS_EXPECT_ALL(ts_tensor_list_find(buffers, "kept"), 1.0);
    TS_EXPECT_ALL(ts_tensor_list_find(buffers, "lost"), 2.0);
    TS_PASS(ts_module_load_state_dict(a, state, true)); /* onto itself */
    TS_EXPECT_ALL(ts_module_parameter(a, "fc.bias"), 1.0);
    ts_tensor_list_free(buffers);
    ts_tensor_list_free(state);
    ts_module_free(a);
    ts_module_free(b);
}

TS_TEST(state_dict_loads_from_strided_tensors)
{
    ts_module *m = ts_linear_new(2, 3, NULL);
    const float values[] = {1, 2, 3, 4, 5, 6};
    ts_tensor_list *state = ts_tensor_list_new();
    TS_PASS(ts_tensor_list_add(state, "weight",
                               ts_transpose(ts_from_data(values, TS_SHAPE(2, 3), NULL), 0, 1)));
    TS_PASS(ts_module_load_state_dict(m, state, false));
    TS_EXPECT_VALUES(ts_module_parameter(m, "weight"), 0, 1, 4, 2, 5, 3, 6);
    ts_tensor_list_free(state);
    ts_module_free(m);
}

TS_TEST(state_dict_errors_name_what_differs_and_change_nothing)
{
    ts_module *m = box_new(1.0);
    ts_tensor_list *state = ts_tensor_list_new();
    TS_PASS(ts_tensor_list_add(state, "fc.weight", ts_zeros(TS_SHAPE(3, 2), NULL)));
    TS_PASS(ts_tensor_list_add(state, "tied.weight", ts_zeros(TS_SHAPE(3, 2), NULL)));
    TS_PASS(ts_tensor_list_add(state, "extra", ts_zeros(TS_SHAPE(1), NULL)));
    TS_FAIL(ts_module_load_state_dict(m, state, true), TS_EINVAL,
            "missing: kept, fc.bias; unexpected: extra");
    TS_EXPECT_ALL(ts_module_parameter(m, "fc.weight"), 1.0);
    TS_PASS(ts_tensor_list_add(state, "fc.bias", ts_zeros(TS_SHAPE(4), NULL)));
    TS_FAIL(ts_module_load_state_dict(m, state, false), TS_ESHAPE,
            "'fc.bias' has shape (3,) in the module, (4,) in the state");
    TS_EXPECT_ALL(ts_module_parameter(m, "fc.weight"), 1.0);
    ts_tensor_list_free(state);

    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_FLOAT64;
    state = ts_tensor_list_new();
    TS_PASS(ts_tensor_list_add(state, "fc.bias", ts_zeros(TS_SHAPE(3), &opt)));
    TS_FAIL(ts_module_load_state_dict(m, state, false), TS_EDTYPE,
            "'fc.bias' is float32 in the module, float64 in the state");
    TS_FAIL(ts_module_load_state_dict(m, NULL, false), TS_EINVAL, "missing");
    ts_tensor_list_free(state);
    ts_module_free(m);
}

TS_TEST(state_dict_error_lists_at_most_twenty_names)
{
    ts_module *m = ts_module_new(&box_class);
    ts_tensor_list *state = ts_tensor_list_new();
    for (int i = 0; i < 100; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        TS_PASS(ts_tensor_list_add(state, name, ts_zeros(TS_SHAPE(1), NULL)));
    }
    TS_FAIL(ts_module_load_state_dict(m, state, true), TS_EINVAL, "t18, ...");
    TS_EXPECT(strstr(ts_error_last(), "t19") == NULL);
    ts_tensor_list_free(state);
    ts_module_free(m);
}

TS_TEST(tensor_list_keeps_names_unique_and_tensors_alive)
{
    ts_tensor_list *list = ts_tensor_list_new();
    ts_scope scope = ts_scope_begin();
    TS_PASS(ts_tensor_list_add(list, "a", ts_full(TS_SHAPE(2), 7.0, NULL)));
    TS_FAIL(ts_tensor_list_add(list, "a", ts_ones(TS_SHAPE(2), NULL)), TS_EINVAL, "called 'a'");
    TS_FAIL(ts_tensor_list_add(list, "b", NULL), TS_EINVAL, "b is missing");
    TS_FAIL(ts_tensor_list_add(list, "b", ts_zeros(TS_SHAPE(-1), NULL)), TS_ESHAPE, "-1");
    TS_FAIL(ts_tensor_list_add(NULL, "b", NULL), TS_EINVAL, "list");
    TS_PASS(ts_scope_end(scope));
    TS_EXPECT_INT(ts_tensor_list_count(list), 1);
    TS_EXPECT_ALL(ts_tensor_list_find(list, "a"), 7.0);
    TS_EXPECT(!ts_tensor_list_find(list, "b") && !ts_tensor_list_find(NULL, "a"));
    ts_tensor_list_free(list);
    ts_tensor_list_free(NULL);
}

TS_TEST(module_zero_grad_clears_gradients)
{
    ts_module *m = ts_linear_new(2, 3, NULL);
    TS_PASS(ts_backward(ts_sum(ts_forward(m, ts_ones(TS_SHAPE(4, 2), NULL)))));
    TS_EXPECT_ALL(ts_grad(ts_module_parameter(m, "bias")), 4.0);
    ts_module_zero_grad(m);
    TS_EXPECT(!ts_grad(ts_module_parameter(m, "bias")) &&
              !ts_grad(ts_module_parameter(m, "weight")));
    ts_module_free(m);
}

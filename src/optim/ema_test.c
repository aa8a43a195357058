/* SPDX-License-Identifier: Apache-2.0 */
/* The moving average of weights against PyTorch (tests/golden/ema.py), and its states. */
#include "golden.h"
#include "test.h"

enum { UPDATES = 6, TENSORS = 7, PARAMS = 5 };
static const char *const names[] = {"a", "b", "c", "d", "e", "mean", "count"};

static const ts_module_class plain = {.name = "plain"};

static ts_module *make_module(const ts_tensor_list *golden)
{
    ts_module *m = ts_module_new(&plain);
    for (int i = 0; i < TENSORS; i++) {
        ts_tensor *t = ts_zeros_like(ts_golden_get(golden, "weights.0.%s", names[i]));
        if (i < PARAMS)
            ts_module_add_parameter(m, names[i], t);
        else
            ts_module_add_buffer(m, names[i], t, true);
    }
    return m;
}

static ts_status set_weights(ts_module *m, const ts_tensor_list *golden, int update)
{
    ts_tensor_list *state = ts_tensor_list_new();
    ts_status status = TS_OK;
    for (int i = 0; i < TENSORS && status == TS_OK; i++)
        status = ts_tensor_list_add(state, names[i],
                                    ts_golden_get(golden, "weights.%d.%s", update, names[i]));
    if (status == TS_OK) status = ts_module_load_state_dict(m, state, true);
    ts_tensor_list_free(state);
    return status;
}

static void compare(ts_test *test, const ts_tensor_list *golden, int number, const ts_ema *ema)
{
    ts_tensor_list *state = ts_ema_state_dict(ema);
    TS_EXPECT_INT(ts_tensor_list_count(state), TENSORS + 1);
    for (int64_t k = 0; k < ts_tensor_list_count(state); k++) {
        const char *name = ts_tensor_list_name(state, k);
        ts_tensor *mine = ts_tensor_list_get(state, k);
        bool wide = ts_tensor_dtype(mine) == TS_FLOAT32 || ts_tensor_dtype(mine) == TS_FLOAT64;
        TS_EXPECT_CLOSE(mine, ts_golden_get(golden, "average.%d.%s", number, name),
                        wide ? 1e-6 : 0.0, 0.0);
    }
    ts_tensor_list_free(state);
}

TS_TEST(ema_equals_pytorch)
{
    static const ts_ema_options cases[] = {{sizeof *cases, 0.9, false, false},
                                           {sizeof *cases, 0.3, false, false},
                                           {sizeof *cases, 0.75, true, false},
                                           {sizeof *cases, 1.0, true, false}};
    ts_tensor_list *golden;
    TS_PASS(ts_golden_read(&golden, "tests/golden/ema.bin"));
    for (int number = 0; number < 4; number++) {
        ts_module *m = make_module(golden);
        ts_ema *ema = NULL;
        TS_PASS(ts_ema_new(&ema, m, &cases[number]));
        for (int update = 0; update < UPDATES; update++) {
            TS_PASS(set_weights(m, golden, update));
            TS_PASS(ts_ema_update(ema));
        }
        TS_EXPECT_INT(ts_ema_num_averaged(ema), UPDATES);
        compare(test, golden, number, ema);
        ts_ema_free(ema);
        ts_module_free(m);
    }
    ts_tensor_list_free(golden);
}

TS_TEST(ema_goes_on_from_its_state)
{
    ts_tensor_list *golden;
    ts_ema_options opt = TS_EMA_OPTIONS_INIT;
    ts_ema *first = NULL, *second = NULL;
    TS_PASS(ts_golden_read(&golden, "tests/golden/ema.bin"));
    ts_module *m = make_module(golden);
    opt.decay = 0.9;
    TS_PASS(ts_ema_new(&first, m, &opt));
    for (int update = 0; update < 3; update++) {
        TS_PASS(set_weights(m, golden, update));
        TS_PASS(ts_ema_update(first));
    }
    TS_PASS(ts_ema_new(&second, m, &opt));
    ts_tensor_list *state = ts_ema_state_dict(first), *part = ts_tensor_list_new();
    TS_PASS(ts_tensor_list_add(part, "n_averaged", ts_tensor_list_get(state, 0)));
    TS_FAIL(ts_ema_load_state_dict(second, part), TS_EINVAL, "'module.a' is missing");
    TS_EXPECT_INT(ts_ema_num_averaged(second), 0);
    TS_PASS(ts_ema_load_state_dict(second, state));
    TS_PASS(ts_tensor_list_add(state, "more", ts_zeros(TS_SHAPE(1), NULL)));
    TS_FAIL(ts_ema_load_state_dict(second, state), TS_EINVAL, "'more' is unexpected");
    for (int update = 3; update < UPDATES; update++) {
        TS_PASS(set_weights(m, golden, update));
        TS_PASS(ts_ema_update(second));
    }
    compare(test, golden, 0, second);
    ts_tensor_list_free(part);
    ts_tensor_list_free(state);
    ts_ema_free(first);
    ts_ema_free(second);
    ts_module_free(m);
    ts_tensor_list_free(golden);
}

TS_TEST(ema_swaps_in_and_out_and_warms_up)
{
    ts_module *m = ts_module_new(&plain);
    ts_ema_options opt = TS_EMA_OPTIONS_INIT;
    ts_ema *ema = NULL;
    ts_tensor *w = ts_module_add_parameter(m, "w", ts_full(TS_SHAPE(3), 1.0, NULL));
    opt.warmup = true;
    TS_PASS(ts_ema_new(&ema, m, &opt));
    TS_PASS(ts_ema_update(ema));
    bool former = ts_no_grad_begin();
    TS_EXPECT(!ts_failed(ts_fill_(w, 12.0)));
    ts_no_grad_end(former);
    TS_PASS(ts_ema_update(ema)); /* decay (1 + 1) / (10 + 1) */
    TS_PASS(ts_ema_swap(ema));
    TS_EXPECT_VALUES(ts_detach(w), 1e-5, 10, 10, 10);
    TS_EXPECT(ts_is_leaf(w) && ts_requires_grad(w));
    TS_FAIL(ts_ema_update(ema), TS_ESTATE, "swap it back first");
    TS_EXPECT(!ts_ema_state_dict(ema));
    TS_PASS(ts_ema_swap(ema));
    TS_EXPECT_ALL(ts_detach(w), 12.0);
    TS_PASS(ts_ema_update(ema));
    TS_EXPECT_INT(ts_ema_num_averaged(ema), 3);
    ts_ema_free(ema);
    ts_module_free(m);
}

TS_TEST(ema_refuses_what_is_wrong)
{
    ts_ema *ema = NULL;
    ts_ema_options opt = TS_EMA_OPTIONS_INIT;
    ts_tensor_options meta = TS_TENSOR_OPTIONS_INIT;
    meta.device = TS_META;
    ts_module *m = ts_module_new(&plain);
    ts_module_add_parameter(m, "w", ts_zeros(TS_SHAPE(3), &meta));
    TS_FAIL(ts_ema_new(&ema, NULL, NULL), TS_EINVAL, "the module is missing");
    TS_FAIL(ts_ema_new(&ema, m, NULL), TS_EUNSUPPORTED, "'w' is on device meta");
    opt.decay = 1.5;
    TS_FAIL(ts_ema_new(&ema, m, &opt), TS_EINVAL, "decay is 1.5");
    TS_EXPECT(!ema);
    TS_FAIL(ts_ema_update(NULL), TS_EINVAL, "missing");
    TS_FAIL(ts_ema_swap(NULL), TS_EINVAL, "missing");
    ts_ema_free(NULL);
    ts_module_free(m);
}

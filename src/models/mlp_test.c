/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

TS_TEST(mlp_learns_exclusive_or)
{
    const float inputs[] = {0, 0, 0, 1, 1, 0, 1, 1}, outputs[] = {0, 1, 1, 0};
    ts_manual_seed(3);
    ts_module *m = ts_mlp_new((const int64_t[]){2, 16, 1}, 3);
    ts_optim *optim;
    ts_adamw_options opt = TS_ADAMW_OPTIONS_INIT;
    opt.lr = 0.02;
    double loss_value = 1;
    TS_PASS(ts_adamw_new(&optim, ts_module_parameters(m), &opt));
    for (int step = 0; step < 400; step++) {
        ts_scope scope = ts_scope_begin();
        ts_tensor *x = ts_from_data(inputs, TS_SHAPE(4, 2), NULL);
        ts_tensor *y = ts_from_data(outputs, TS_SHAPE(4, 1), NULL);
        ts_tensor *loss = ts_mse_loss(ts_forward(m, x), y);
        TS_PASS(ts_item(loss, &loss_value));
        TS_PASS(ts_backward(loss));
        TS_PASS(ts_optim_step(optim));
        ts_optim_zero_grad(optim);
        TS_PASS(ts_scope_end(scope));
    }
    TS_EXPECT(loss_value < 1e-3);
    ts_optim_free(optim);
    ts_module_free(m);
}

TS_TEST(mlp_names_and_errors)
{
    ts_module *m = ts_mlp_new((const int64_t[]){16, 8, 8, 2}, 4);
    TS_EXPECT_INT(ts_module_num_parameters(m), 16 * 8 + 8 + 8 * 8 + 8 + 8 * 2 + 2);
    TS_EXPECT(ts_module_parameter(m, "fc3.bias") != NULL);
    TS_BAD(ts_forward(m, ts_ones(TS_SHAPE(4, 15), NULL)), TS_ESHAPE, "fc1: linear: ");
    ts_module_free(m);
    m = ts_mlp_new((const int64_t[]){16}, 1);
    TS_FAIL(ts_module_status(m), TS_EINVAL, "inputs and outputs");
    ts_module_free(m);
}

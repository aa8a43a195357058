/* SPDX-License-Identifier: Apache-2.0 */
/* Operations made with the public headers alone. */
#include <math.h>
#include <tessera/ext/op.h>
#include <tessera/tessera.h>

#include "test.h"

/* y = x^n, and as second output its sign    dx = n x^(n - 1) dy */
static ts_status power_infer(const ts_op_call *call, ts_spec *out)
{
    out[0] = out[1] = ts_spec_of(call->in[0]);
    if (call->attr[0].i < 0)
        return ts_op_fail(TS_EINVAL, "power: the exponent is %d", (int)call->attr[0].i);
    if (out[0].dtype == TS_FLOAT32 || out[0].dtype == TS_FLOAT64) return TS_OK;
    return ts_op_fail(TS_EDTYPE, "power: input is %s", ts_dtype_name(out[0].dtype));
}

static ts_status power_kernel(ts_op_call *call)
{
    ts_tensor *x = ts_row_major(call->in[0]);
    bool single = ts_tensor_dtype(x) == TS_FLOAT32;
    const void *from = ts_data(x);
    void *y = ts_data_mut(call->out[0]), *sign = ts_data_mut(call->out[1]);
    for (int64_t i = 0; i < ts_numel(x); i++) {
        double value = single ? (double)((const float *)from)[i] : ((const double *)from)[i];
        double power = pow(value, (double)call->attr[0].i), s = power > 0 ? 1 : -1;
        if (single)
            ((float *)y)[i] = (float)power, ((float *)sign)[i] = (float)s;
        else
            ((double *)y)[i] = power, ((double *)sign)[i] = s;
    }
    return call->attr[0].i == 99 ? TS_EUSER : TS_OK;
}

static ts_tensor *power(ts_tensor *x, int n, ts_tensor **sign);

static ts_status power_backward(const ts_backward_call *call)
{
    int n = (int)call->attr[0].i;
    if (n == 98) return TS_EUSER;
    if (!call->grad_out[0]) return TS_OK;
    if (call->needs[0])
        call->grad_in[0] =
            ts_mul_scalar(ts_mul(call->grad_out[0], power(call->in[0], n - 1, NULL)), n);
    return TS_OK;
}

static const ts_op_def power_row = {.name = "power",
                                    .num_out = 2,
                                    .save_in = 1,
                                    .infer = power_infer,
                                    .kernel = {[TS_CPU] = power_kernel},
                                    .backward = power_backward};

static ts_tensor *power(ts_tensor *x, int n, ts_tensor **sign)
{
    ts_op_call call = {.def = &power_row, .in = &x, .num_in = 1, .num_attrs = 1};
    call.attr[0].i = n;
    ts_tensor *y = ts_op_run(&call);
    if (sign) *sign = call.out[1];
    return y;
}

static ts_tensor *cubes(ts_tensor *const *in, int n, void *user)
{
    (void)n, (void)user;
    return power(in[0], 3, NULL);
}

static ts_tensor *slopes(ts_tensor *const *in, int n, void *user)
{
    (void)n, (void)user;
    ts_backward_options opt = TS_BACKWARD_OPTIONS_INIT;
    opt.create_graph = true;
    ts_tensor *grad, *loss = ts_sum(power(in[0], 4, NULL));
    if (ts_grad_of(&grad, &loss, NULL, 1, (ts_tensor **)(uintptr_t)in, 1, &opt) != TS_OK)
        return NULL;
    return grad;
}

TS_TEST(operations_of_a_program_are_full_citizens)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_FLOAT64;
    opt.requires_grad = true;
    ts_tensor *x = ts_full(TS_SHAPE(2, 3), 1.25, &opt), *sign;
    TS_PASS(ts_gradcheck(cubes, &x, 1, NULL, 1e-6, 1e-6, 1e-6));
    TS_PASS(ts_gradcheck(slopes, &x, 1, NULL, 1e-6, 1e-6, 1e-6));
    ts_tensor *turned = ts_transpose(ts_detach(x), 0, 1), *empty = ts_zeros(TS_SHAPE(0, 3), NULL);
    TS_EXPECT_ALL(power(turned, 2, &sign), 1.5625);
    TS_EXPECT_ALL(sign, 1.0);
    TS_EXPECT_INT(ts_numel(power(empty, 2, NULL)), 0);
    TS_EXPECT_NEAR(*(const float *)ts_data(power(ts_scalar(3, NULL), 2, NULL)), 9, 0);
    opt.device = TS_META;
    opt.requires_grad = false;
    ts_tensor *meta = power(ts_empty(TS_SHAPE(5), &opt), 2, NULL);
    TS_EXPECT(ts_tensor_device(meta) == TS_META && ts_size(meta, 0) == 5);
    bool former = ts_no_grad_begin();
    TS_EXPECT(!ts_requires_grad(power(x, 2, NULL)));
    ts_no_grad_end(former);
    ts_tensor *h = ts_mul_scalar(x, 2), *y = ts_sum(power(h, 2, NULL));
    ts_zero_(h);
    TS_FAIL(ts_backward(y), TS_ESTATE, "backward of power: the tensor of shape (2, 3)");
}

TS_TEST(operations_of_a_program_that_fail)
{
    ts_tensor *x = ts_ones(TS_SHAPE(2), NULL), *sign, *bad = ts_add(x, ts_ones(TS_SHAPE(3), NULL));
    TS_BAD(power(x, -1, &sign), TS_EINVAL, "power: the exponent is -1");
    TS_EXPECT(ts_failed(sign));
    TS_BAD(power(NULL, 1, NULL), TS_EINVAL, "power: input 0 is missing");
    TS_BAD(power(ts_randint(0, 9, TS_SHAPE(2), NULL), 1, NULL), TS_EDTYPE, "power: input is int64");
    TS_EXPECT(power(bad, 1, NULL) == bad);
    TS_BAD(power(x, 99, NULL), TS_EUSER, "power: it returned TS_EUSER");
    ts_set_requires_grad(x, true);
    TS_FAIL(ts_backward(ts_sum(power(x, 98, NULL))), TS_EUSER, "backward of power");
}

TS_TEST(operations_register_by_name)
{
    static const ts_op_def twin = {.name = "power", .num_out = 1, .infer = power_infer};
    static const ts_op_def view = {.name = "v", .flags = TS_OP_VIEW, 1, .infer = power_infer};
    static const ts_op_def blind = {.name = "blind", .num_out = 1};
    static const ts_op_def none = {.name = "none", .infer = power_infer};
    TS_EXPECT(!ts_op_find("power") && !ts_op_find(NULL));
    TS_PASS(ts_op_register(&power_row));
    TS_PASS(ts_op_register(&power_row));
    TS_EXPECT(ts_op_find("power") == &power_row);
    TS_FAIL(ts_op_register(&twin), TS_EINVAL, "another operation");
    TS_FAIL(ts_op_register(&view), TS_EUNSUPPORTED, "views");
    TS_FAIL(ts_op_register(&blind), TS_EINVAL, "no infer");
    TS_FAIL(ts_op_register(&none), TS_EINVAL, "0 outputs");
    TS_FAIL(ts_op_register(NULL), TS_EINVAL, "no name");
}

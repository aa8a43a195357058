/* SPDX-License-Identifier: Apache-2.0 */
/* Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019. */
#include <math.h>

#include "base/options.h"
#include "optim/optim_impl.h"

static bool needs_state(const ts_optim *o)
{
    (void)o;
    return true;
}

static void prepare(const ts_optim *o, ts_optim_param *p, int64_t step)
{
    const ts_adamw_options *opt = &o->opt.adamw;
    double bias1 = 1.0 - pow(opt->beta1, (double)step);
    double bias2 = 1.0 - pow(opt->beta2, (double)step);
    p->now.adamw = (ts_adamw_step){.decay = 1.0 - o->lr * opt->weight_decay,
                                   .beta1 = opt->beta1,
                                   .beta2 = opt->beta2,
                                   .eps = opt->eps,
                                   .step_size = o->lr / bias1,
                                   .bias2_sqrt = sqrt(bias2),
                                   .grad_scale = 1.0};
}

static void update(const ts_optim_param *p, const ts_optim_kernels *kernels, void *param,
                   const void *grad, void *const *state, int64_t n)
{
    kernels->adamw(param, grad, state[0], state[1], n, &p->now.adamw);
}

static const ts_optim_rule adamw_rule = {
    .name = "adamw",
    .state_name = {"exp_avg", "exp_avg_sq"},
    .counts_steps = true,
    .needs_state = needs_state,
    .prepare = prepare,
    .update = update,
};

static ts_status check(const ts_adamw_options *o)
{
    TS_TRY(ts_optim_range("adamw", "lr", o->lr, 0.0, INFINITY));
    TS_TRY(ts_optim_range("adamw", "beta1", o->beta1, 0.0, 1.0));
    TS_TRY(ts_optim_range("adamw", "beta2", o->beta2, 0.0, 1.0));
    TS_TRY(ts_optim_range("adamw", "eps", o->eps, 0.0, INFINITY));
    return ts_optim_range("adamw", "weight_decay", o->weight_decay, 0.0, INFINITY);
}

ts_status ts_adamw_new(ts_optim **out, ts_tensor_list *parameters, const ts_adamw_options *opt)
{
    ts_adamw_options o = TS_ADAMW_OPTIONS_INIT;
    ts_status status = ts_options_read(&o, sizeof o, opt, "adamw");
    if (status == TS_OK) status = check(&o);
    if (status != TS_OK) {
        ts_tensor_list_free(parameters);
        return status;
    }
    TS_TRY(ts_optim_new(out, &adamw_rule, parameters, o.lr));
    (*out)->opt.adamw = o;
    return TS_OK;
}

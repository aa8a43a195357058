/* SPDX-License-Identifier: Apache-2.0 */
/* Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015. */
#include <math.h>
#include <stddef.h>

#include "optim/optim_impl.h"

static const ts_adam_options defaults = TS_ADAM_OPTIONS_INIT;

static const ts_option_row options[] = {
    TS_REAL(ts_adam_options, lr, 0, INFINITY),
    TS_REAL(ts_adam_options, beta1, 0, 1),
    TS_REAL(ts_adam_options, beta2, 0, 1),
    TS_REAL(ts_adam_options, eps, 0, INFINITY),
    TS_REAL(ts_adam_options, weight_decay, 0, INFINITY),
    TS_FLAG(ts_adam_options, amsgrad),
    TS_FLAG(ts_adam_options, maximize),
    {0},
};

static unsigned states(const void *opt)
{
    const ts_adam_options *o = opt;
    return o->amsgrad ? 7 : 3;
}

static void prepare(const void *opt, ts_optim_param *p, int64_t step)
{
    const ts_adam_options *o = opt;
    p->now.adam = (ts_adam_step){.decay = 1.0,
                                 .weight_decay = o->weight_decay,
                                 .beta1 = o->beta1,
                                 .beta2 = o->beta2,
                                 .eps = o->eps,
                                 .step_size = o->lr / (1.0 - pow(o->beta1, (double)step)),
                                 .bias2_sqrt = sqrt(1.0 - pow(o->beta2, (double)step)),
                                 .grad_scale = o->maximize ? -1.0 : 1.0};
}

static const ts_optim_rule rule = {
    .name = "adam",
    .state_name = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
    .scalar_name = {"step"},
    .option = options,
    .defaults = &defaults,
    .options_size = sizeof defaults,
    .kernel = TS_OPTIM_KERNEL_adam,
    .states = states,
    .prepare = prepare,
};

ts_status ts_adam_new(ts_optim **out, ts_tensor_list *parameters, const ts_adam_options *opt)
{
    return ts_optim_new(out, &rule, parameters, opt);
}

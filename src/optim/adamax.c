/* SPDX-License-Identifier: Apache-2.0 */
/* The form of Adam with the infinity norm (Kingma and Ba, 2015). */
#include <math.h>
#include <stddef.h>

#include "optim/optim_impl.h"

static const ts_adamax_options defaults = TS_ADAMAX_OPTIONS_INIT;

static const ts_option_row options[] = {
    TS_REAL(ts_adamax_options, lr, 0, INFINITY),
    TS_REAL(ts_adamax_options, beta1, 0, 1),
    TS_REAL(ts_adamax_options, beta2, 0, 1),
    TS_REAL(ts_adamax_options, eps, 0, INFINITY),
    TS_REAL(ts_adamax_options, weight_decay, 0, INFINITY),
    TS_FLAG(ts_adamax_options, maximize),
    {0},
};

static void prepare(const void *opt, ts_optim_param *p, int64_t step)
{
    const ts_adamax_options *o = opt;
    p->now.adamax = (ts_adamax_step){.step_size = o->lr / (1.0 - pow(o->beta1, (double)step)),
                                     .weight_decay = o->weight_decay,
                                     .beta1 = o->beta1,
                                     .beta2 = o->beta2,
                                     .eps = o->eps,
                                     .grad_scale = o->maximize ? -1.0 : 1.0};
}

static const ts_optim_rule rule = {
    .name = "adamax",
    .state_name = {"exp_avg", "exp_inf"},
    .scalar_name = {"step"},
    .option = options,
    .defaults = &defaults,
    .options_size = sizeof defaults,
    .kernel = TS_OPTIM_KERNEL_adamax,
    .prepare = prepare,
};

ts_status ts_adamax_new(ts_optim **out, ts_tensor_list *parameters, const ts_adamax_options *opt)
{
    return ts_optim_new(out, &rule, parameters, opt);
}

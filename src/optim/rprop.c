/* SPDX-License-Identifier: Apache-2.0 */
/* Riedmiller and Braun, "A Direct Adaptive Method for Faster Backpropagation Learning", 1993. */
#include <math.h>
#include <stddef.h>

#include "optim/optim_impl.h"

static const ts_rprop_options defaults = TS_RPROP_OPTIONS_INIT;

static const ts_option_row options[] = {
    TS_REAL(ts_rprop_options, lr, 0, INFINITY),
    TS_REAL(ts_rprop_options, etaminus, 0, 1),
    TS_REAL(ts_rprop_options, etaplus, 1, INFINITY),
    TS_REAL(ts_rprop_options, step_min, 0, INFINITY),
    TS_REAL(ts_rprop_options, step_max, 0, INFINITY),
    TS_FLAG(ts_rprop_options, maximize),
    {0},
};

static double initial(const void *opt, int k)
{
    const ts_rprop_options *o = opt;
    return k == 1 ? o->lr : 0.0;
}

static void prepare(const void *opt, ts_optim_param *p, int64_t step)
{
    const ts_rprop_options *o = opt;
    (void)step;
    p->now.rprop = (ts_rprop_step){.etaminus = o->etaminus,
                                   .etaplus = o->etaplus,
                                   .step_min = o->step_min,
                                   .step_max = o->step_max,
                                   .grad_scale = o->maximize ? -1.0 : 1.0};
}

static const ts_optim_rule rule = {
    .name = "rprop",
    .state_name = {"prev", "step_size"},
    .scalar_name = {"step"},
    .option = options,
    .defaults = &defaults,
    .options_size = sizeof defaults,
    .kernel = TS_OPTIM_KERNEL_rprop,
    .initial = initial,
    .prepare = prepare,
};

ts_status ts_rprop_new(ts_optim **out, ts_tensor_list *parameters, const ts_rprop_options *opt)
{
    return ts_optim_new(out, &rule, parameters, opt);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Duchi et al., "Adaptive Subgradient Methods", 2011. */
#include <math.h>
#include <stddef.h>

#include "optim/optim_impl.h"

static const ts_adagrad_options defaults = TS_ADAGRAD_OPTIONS_INIT;

static const ts_option_row options[] = {
    TS_REAL(ts_adagrad_options, lr, 0, INFINITY),
    TS_REAL(ts_adagrad_options, lr_decay, 0, INFINITY),
    TS_REAL(ts_adagrad_options, weight_decay, 0, INFINITY),
    TS_REAL(ts_adagrad_options, initial_accumulator_value, 0, INFINITY),
    TS_REAL(ts_adagrad_options, eps, 0, INFINITY),
    TS_FLAG(ts_adagrad_options, maximize),
    {0},
};

static double initial(const void *opt, int k)
{
    const ts_adagrad_options *o = opt;
    (void)k;
    return o->initial_accumulator_value;
}

static void prepare(const void *opt, ts_optim_param *p, int64_t step)
{
    const ts_adagrad_options *o = opt;
    p->now.adagrad = (ts_adagrad_step){.lr = o->lr / (1.0 + (double)(step - 1) * o->lr_decay),
                                       .weight_decay = o->weight_decay,
                                       .eps = o->eps,
                                       .grad_scale = o->maximize ? -1.0 : 1.0};
}

static const ts_optim_rule rule = {
    .name = "adagrad",
    .state_name = {"sum"},
    .scalar_name = {"step"},
    .option = options,
    .defaults = &defaults,
    .options_size = sizeof defaults,
    .kernel = TS_OPTIM_KERNEL_adagrad,
    .initial = initial,
    .prepare = prepare,
};

ts_status ts_adagrad_new(ts_optim **out, ts_tensor_list *parameters, const ts_adagrad_options *opt)
{
    return ts_optim_new(out, &rule, parameters, opt);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Stochastic gradient descent, with momentum, weight decay and Nesterov's form. */
#include <math.h>
#include <stddef.h>

#include "base/error.h"
#include "optim/optim_impl.h"

static const ts_sgd_options defaults = TS_SGD_OPTIONS_INIT;

static const ts_option_row options[] = {
    TS_REAL(ts_sgd_options, lr, 0, INFINITY),
    TS_REAL(ts_sgd_options, momentum, 0, INFINITY),
    TS_REAL(ts_sgd_options, dampening, -INFINITY, INFINITY),
    TS_REAL(ts_sgd_options, weight_decay, 0, INFINITY),
    TS_FLAG(ts_sgd_options, nesterov),
    TS_FLAG(ts_sgd_options, maximize),
    {0},
};

static ts_status check(const void *opt)
{
    const ts_sgd_options *o = opt;
    if (o->nesterov && (o->momentum <= 0.0 || o->dampening != 0.0))
        return ts_fail(TS_EINVAL,
                       "sgd: nesterov needs momentum above 0 and dampening 0, not %g and %g",
                       o->momentum, o->dampening);
    return TS_OK;
}

static unsigned states(const void *opt)
{
    const ts_sgd_options *o = opt;
    return o->momentum != 0.0;
}

static void prepare(const void *opt, ts_optim_param *p, int64_t step)
{
    const ts_sgd_options *o = opt;
    (void)step;
    p->now.sgd = (ts_sgd_step){.lr = o->lr,
                               .momentum = o->momentum,
                               .dampening = o->dampening,
                               .weight_decay = o->weight_decay,
                               .grad_scale = o->maximize ? -1.0 : 1.0,
                               .nesterov = o->nesterov,
                               .first = p->fresh};
}

static const ts_optim_rule rule = {
    .name = "sgd",
    .state_name = {"momentum_buffer"},
    .option = options,
    .defaults = &defaults,
    .options_size = sizeof defaults,
    .kernel = TS_OPTIM_KERNEL_sgd,
    .check = check,
    .states = states,
    .prepare = prepare,
};

ts_status ts_sgd_new(ts_optim **out, ts_tensor_list *parameters, const ts_sgd_options *opt)
{
    return ts_optim_new(out, &rule, parameters, opt);
}

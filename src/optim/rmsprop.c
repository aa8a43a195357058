/* SPDX-License-Identifier: Apache-2.0 */
/* Tieleman and Hinton, lecture 6.5 of Neural Networks for Machine Learning, 2012; centered: Graves, 2013. */
#include <math.h>
#include <stddef.h>

#include "optim/optim_impl.h"

static const ts_rmsprop_options defaults = TS_RMSPROP_OPTIONS_INIT;

static const ts_option_row options[] = {
    TS_REAL(ts_rmsprop_options, lr, 0, INFINITY),
    TS_REAL(ts_rmsprop_options, alpha, 0, INFINITY),
    TS_REAL(ts_rmsprop_options, eps, 0, INFINITY),
    TS_REAL(ts_rmsprop_options, weight_decay, 0, INFINITY),
    TS_REAL(ts_rmsprop_options, momentum, 0, INFINITY),
    TS_FLAG(ts_rmsprop_options, centered),
    TS_FLAG(ts_rmsprop_options, maximize),
    {0},
};

static unsigned states(const void *opt)
{
    const ts_rmsprop_options *o = opt;
    return 1u | (o->momentum > 0.0 ? 2u : 0u) | (o->centered ? 4u : 0u);
}

static void prepare(const void *opt, ts_optim_param *p, int64_t step)
{
    const ts_rmsprop_options *o = opt;
    (void)step;
    p->now.rmsprop = (ts_rmsprop_step){.lr = o->lr,
                                       .weight_decay = o->weight_decay,
                                       .alpha = o->alpha,
                                       .momentum = o->momentum,
                                       .eps = o->eps,
                                       .grad_scale = o->maximize ? -1.0 : 1.0};
}

static const ts_optim_rule rule = {
    .name = "rmsprop",
    .state_name = {"square_avg", "momentum_buffer", "grad_avg"},
    .scalar_name = {"step"},
    .option = options,
    .defaults = &defaults,
    .options_size = sizeof defaults,
    .kernel = TS_OPTIM_KERNEL_rmsprop,
    .states = states,
    .prepare = prepare,
};

ts_status ts_rmsprop_new(ts_optim **out, ts_tensor_list *parameters, const ts_rmsprop_options *opt)
{
    return ts_optim_new(out, &rule, parameters, opt);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Dozat, "Incorporating Nesterov Momentum into Adam", 2016. */
#include <math.h>
#include <stddef.h>

#include "optim/optim_impl.h"
#include "tensor/tensor.h"

static const ts_nadam_options defaults = TS_NADAM_OPTIONS_INIT;

static const ts_option_row options[] = {
    TS_REAL(ts_nadam_options, lr, 0, INFINITY),
    TS_REAL(ts_nadam_options, beta1, 0, 1),
    TS_REAL(ts_nadam_options, beta2, 0, 1),
    TS_REAL(ts_nadam_options, eps, 0, INFINITY),
    TS_REAL(ts_nadam_options, weight_decay, 0, INFINITY),
    TS_REAL(ts_nadam_options, momentum_decay, 0, INFINITY),
    TS_FLAG(ts_nadam_options, decoupled_weight_decay),
    TS_FLAG(ts_nadam_options, maximize),
    {0},
};

static double momentum_at(const ts_nadam_options *o, int64_t step)
{
    return o->beta1 * (1.0 - 0.5 * pow(0.96, (double)step * o->momentum_decay));
}

static void prepare(const void *opt, ts_optim_param *p, int64_t step)
{
    const ts_nadam_options *o = opt;
    bool apart = o->decoupled_weight_decay;
    double now = momentum_at(o, step), next = momentum_at(o, step + 1);
    float *product = (float *)(void *)ts_tensor_bytes(p->state[TS_OPTIM_MAX_STATES + 1]);
    *product *= (float)now;
    p->now.nadam = (ts_nadam_step){.decay = apart ? 1.0 - o->lr * o->weight_decay : 1.0,
                                   .weight_decay = apart ? 0.0 : o->weight_decay,
                                   .beta1 = o->beta1,
                                   .beta2 = o->beta2,
                                   .eps = o->eps,
                                   .bias2 = 1.0 - pow(o->beta2, (double)step),
                                   .grad_lr = o->lr * (1.0 - now) / (1.0 - (double)*product),
                                   .avg_lr = o->lr * next / (1.0 - (double)*product * next),
                                   .grad_scale = o->maximize ? -1.0 : 1.0};
}

static const ts_optim_rule rule = {
    .name = "nadam",
    .state_name = {"exp_avg", "exp_avg_sq"},
    .scalar_name = {"step", "mu_product"},
    .option = options,
    .defaults = &defaults,
    .options_size = sizeof defaults,
    .kernel = TS_OPTIM_KERNEL_nadam,
    .prepare = prepare,
};

ts_status ts_nadam_new(ts_optim **out, ts_tensor_list *parameters, const ts_nadam_options *opt)
{
    return ts_optim_new(out, &rule, parameters, opt);
}

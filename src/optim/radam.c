/* SPDX-License-Identifier: Apache-2.0 */
/* Liu et al., "On the Variance of the Adaptive Learning Rate and Beyond", 2020. */
#include <math.h>
#include <stddef.h>

#include "optim/optim_impl.h"

static const ts_radam_options defaults = TS_RADAM_OPTIONS_INIT;

static const ts_option_row options[] = {
    TS_REAL(ts_radam_options, lr, 0, INFINITY),
    TS_REAL(ts_radam_options, beta1, 0, 1),
    TS_REAL(ts_radam_options, beta2, 0, 1),
    TS_REAL(ts_radam_options, eps, 0, INFINITY),
    TS_REAL(ts_radam_options, weight_decay, 0, INFINITY),
    TS_FLAG(ts_radam_options, decoupled_weight_decay),
    TS_FLAG(ts_radam_options, maximize),
    {0},
};

static void prepare(const void *opt, ts_optim_param *p, int64_t step)
{
    const ts_radam_options *o = opt;
    bool apart = o->decoupled_weight_decay;
    double t = (double)step, bias2 = 1.0 - pow(o->beta2, t);
    double most = 2.0 / (1.0 - o->beta2) - 1.0;
    double length = most - 2.0 * t * pow(o->beta2, t) / bias2; /* of the average, in effect */
    double rectify =
        sqrt((length - 4.0) * (length - 2.0) * most / ((most - 4.0) * (most - 2.0) * length));
    double size = o->lr / (1.0 - pow(o->beta1, t));
    p->now.radam = (ts_radam_step){.decay = apart ? 1.0 - o->lr * o->weight_decay : 1.0,
                                   .weight_decay = apart ? 0.0 : o->weight_decay,
                                   .beta1 = o->beta1,
                                   .beta2 = o->beta2,
                                   .eps = o->eps,
                                   .step_size = length > 5.0 ? size * sqrt(bias2) * rectify : size,
                                   .grad_scale = o->maximize ? -1.0 : 1.0,
                                   .rectified = length > 5.0};
}

static const ts_optim_rule rule = {
    .name = "radam",
    .state_name = {"exp_avg", "exp_avg_sq"},
    .scalar_name = {"step"},
    .option = options,
    .defaults = &defaults,
    .options_size = sizeof defaults,
    .kernel = TS_OPTIM_KERNEL_radam,
    .prepare = prepare,
};

ts_status ts_radam_new(ts_optim **out, ts_tensor_list *parameters, const ts_radam_options *opt)
{
    return ts_optim_new(out, &rule, parameters, opt);
}

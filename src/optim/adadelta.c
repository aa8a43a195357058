/* SPDX-License-Identifier: Apache-2.0 */
/* Zeiler, "ADADELTA: An Adaptive Learning Rate Method", 2012. */
#include <math.h>
#include <stddef.h>

#include "optim/optim_impl.h"

static const ts_adadelta_options defaults = TS_ADADELTA_OPTIONS_INIT;

static const ts_option_row options[] = {
    TS_REAL(ts_adadelta_options, lr, 0, INFINITY),
    TS_REAL(ts_adadelta_options, rho, 0, 1.0 + 1e-15),
    TS_REAL(ts_adadelta_options, eps, 0, INFINITY),
    TS_REAL(ts_adadelta_options, weight_decay, 0, INFINITY),
    TS_FLAG(ts_adadelta_options, maximize),
    {0},
};

static void prepare(const void *opt, ts_optim_param *p, int64_t step)
{
    const ts_adadelta_options *o = opt;
    (void)step;
    p->now.adadelta = (ts_adadelta_step){.lr = o->lr,
                                         .weight_decay = o->weight_decay,
                                         .rho = o->rho,
                                         .eps = o->eps,
                                         .grad_scale = o->maximize ? -1.0 : 1.0};
}

static const ts_optim_rule rule = {
    .name = "adadelta",
    .state_name = {"square_avg", "acc_delta"},
    .scalar_name = {"step"},
    .option = options,
    .defaults = &defaults,
    .options_size = sizeof defaults,
    .kernel = TS_OPTIM_KERNEL_adadelta,
    .prepare = prepare,
};

ts_status ts_adadelta_new(ts_optim **out, ts_tensor_list *parameters,
                          const ts_adadelta_options *opt)
{
    return ts_optim_new(out, &rule, parameters, opt);
}

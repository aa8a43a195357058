/* SPDX-License-Identifier: Apache-2.0 */
/* Signs of a mix of momentum and gradient; weights decay apart from the gradient. */
#include <math.h>
#include <stddef.h>

#include "optim/optim_impl.h"

static const ts_lion_options defaults = TS_LION_OPTIONS_INIT;

static const ts_option_row options[] = {
    TS_REAL(ts_lion_options, lr, 0, INFINITY), TS_REAL(ts_lion_options, beta1, 0, 1),
    TS_REAL(ts_lion_options, beta2, 0, 1),     TS_REAL(ts_lion_options, weight_decay, 0, INFINITY),
    TS_FLAG(ts_lion_options, maximize),        {0},
};

static void prepare(const void *opt, ts_optim_param *p, int64_t step)
{
    const ts_lion_options *o = opt;
    (void)step;
    p->now.lion = (ts_lion_step){.decay = 1.0 - o->lr * o->weight_decay,
                                 .lr = o->lr,
                                 .beta1 = o->beta1,
                                 .beta2 = o->beta2,
                                 .grad_scale = o->maximize ? -1.0 : 1.0};
}

static const ts_optim_rule rule = {
    .name = "lion",
    .state_name = {"exp_avg"},
    .option = options,
    .defaults = &defaults,
    .options_size = sizeof defaults,
    .kernel = TS_OPTIM_KERNEL_lion,
    .prepare = prepare,
};

ts_status ts_lion_new(ts_optim **out, ts_tensor_list *parameters, const ts_lion_options *opt)
{
    return ts_optim_new(out, &rule, parameters, opt);
}

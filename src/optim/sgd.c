/* SPDX-License-Identifier: Apache-2.0 */
/* Stochastic gradient descent, with momentum, weight decay and Nesterov's form. */
#include <math.h>

#include "base/options.h"
#include "optim/optim_impl.h"

static bool needs_state(const ts_optim *o) { return o->opt.sgd.momentum != 0.0; }

static void prepare(const ts_optim *o, ts_optim_param *p, int64_t step)
{
    const ts_sgd_options *opt = &o->opt.sgd;
    (void)step;
    p->now.sgd = (ts_sgd_step){.lr = o->lr,
                               .momentum = opt->momentum,
                               .dampening = opt->dampening,
                               .weight_decay = opt->weight_decay,
                               .grad_scale = 1.0,
                               .nesterov = opt->nesterov,
                               .first = p->fresh};
}

static void update(const ts_optim_param *p, const ts_optim_kernels *kernels, void *param,
                   const void *grad, void *const *state, int64_t n)
{
    kernels->sgd(param, grad, state[0], n, &p->now.sgd);
}

static const ts_optim_rule sgd_rule = {
    .name = "sgd",
    .state_name = {"momentum_buffer"},
    .needs_state = needs_state,
    .prepare = prepare,
    .update = update,
};

static ts_status check(const ts_sgd_options *o)
{
    TS_TRY(ts_optim_range("sgd", "lr", o->lr, 0.0, INFINITY));
    TS_TRY(ts_optim_range("sgd", "momentum", o->momentum, 0.0, INFINITY));
    TS_TRY(ts_optim_range("sgd", "weight_decay", o->weight_decay, 0.0, INFINITY));
    if (!isfinite(o->dampening)) return ts_fail(TS_EINVAL, "sgd: dampening is %g", o->dampening);
    if (o->nesterov && (o->momentum <= 0.0 || o->dampening != 0.0))
        return ts_fail(TS_EINVAL,
                       "sgd: nesterov needs momentum above 0 and dampening 0, not %g and %g",
                       o->momentum, o->dampening);
    return TS_OK;
}

ts_status ts_sgd_new(ts_optim **out, ts_tensor_list *parameters, const ts_sgd_options *opt)
{
    ts_sgd_options o = TS_SGD_OPTIONS_INIT;
    ts_status status = ts_options_read(&o, sizeof o, opt, "sgd");
    if (status == TS_OK) status = check(&o);
    if (status != TS_OK) {
        ts_tensor_list_free(parameters);
        return status;
    }
    TS_TRY(ts_optim_new(out, &sgd_rule, parameters, o.lr));
    (*out)->opt.sgd = o;
    return TS_OK;
}

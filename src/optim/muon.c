/* SPDX-License-Identifier: Apache-2.0 */
/* Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024. */
#include <math.h>
#include <stddef.h>
#include <tessera/ops.h>

#include "optim/optim_impl.h"
#include "tensor/tensor.h"

static const ts_muon_options defaults = TS_MUON_OPTIONS_INIT;

static const ts_option_row options[] = {
    TS_REAL(ts_muon_options, lr, 0, INFINITY),
    TS_REAL(ts_muon_options, weight_decay, 0, INFINITY),
    TS_REAL(ts_muon_options, momentum, 0, INFINITY),
    TS_REAL(ts_muon_options, a, -INFINITY, INFINITY),
    TS_REAL(ts_muon_options, b, -INFINITY, INFINITY),
    TS_REAL(ts_muon_options, c, -INFINITY, INFINITY),
    TS_REAL(ts_muon_options, eps, 0, INFINITY),
    {"ns_steps", offsetof(ts_muon_options, ns_steps), TS_OPTION_INT, 0, 100},
    {"adjust_lr", offsetof(ts_muon_options, adjust_lr), TS_OPTION_INT, 0, 2},
    TS_FLAG(ts_muon_options, nesterov),
    {0},
};

/* The matrix with the same singular vectors whose singular values are near 1.  Works on the wide
 * side up, where the product X X' is smaller. */
static ts_tensor *orthogonalize(const ts_muon_options *o, ts_tensor *x)
{
    double norm;
    bool tall = ts_size(x, 0) > ts_size(x, 1);
    if (tall) x = ts_transpose(x, 0, 1);
    if (ts_item(ts_norm(x, 2.0), &norm) != TS_OK) return ts_norm(x, 2.0);
    x = ts_mul_scalar(x, 1.0 / fmax(norm, o->eps));
    for (int64_t i = 0; i < o->ns_steps; i++) {
        ts_tensor *gram = ts_matmul(x, ts_transpose(x, 0, 1));
        ts_tensor *square = ts_mul_scalar_(ts_matmul(gram, gram), o->c);
        ts_tensor *change = ts_add_(square, ts_mul_scalar_(gram, o->b));
        x = ts_add_(ts_matmul(change, x), ts_mul_scalar(x, o->a));
    }
    return tall ? ts_transpose(x, 0, 1) : x;
}

static double adjusted_lr(const ts_muon_options *o, const ts_tensor *param)
{
    double rows = (double)ts_size(param, 0), columns = (double)ts_size(param, 1);
    if (o->adjust_lr == TS_MUON_LR_MATCH_ADAMW) return o->lr * 0.2 * sqrt(fmax(rows, columns));
    return o->lr * sqrt(fmax(1.0, rows / columns));
}

static ts_status update(const void *opt, ts_optim_param *p, ts_tensor *param, ts_tensor *grad)
{
    const ts_muon_options *o = opt;
    ts_tensor *buffer = p->state[0];
    ts_lerp_scalar_(buffer, grad, 1.0 - o->momentum);
    ts_tensor *change = o->nesterov ? ts_lerp_scalar(grad, buffer, o->momentum) : buffer;
    change = orthogonalize(o, change);
    ts_mul_scalar_(param, 1.0 - o->lr * o->weight_decay);
    ts_tensor *moved = ts_add_(param, ts_mul_scalar(change, -adjusted_lr(o, param)));
    return ts_tensor_check(moved, "the update of a matrix");
}

static const ts_optim_rule rule = {
    .name = "muon",
    .state_name = {"momentum_buffer"},
    .option = options,
    .defaults = &defaults,
    .options_size = sizeof defaults,
    .whole = update,
};

ts_status ts_muon_new(ts_optim **out, ts_tensor_list *parameters, const ts_muon_options *opt)
{
    return ts_optim_new(out, &rule, parameters, opt);
}

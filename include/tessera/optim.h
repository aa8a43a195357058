/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers, learning-rate schedules, gradient clipping.  Formulas and defaults are PyTorch's. */
#ifndef TESSERA_OPTIM_H
#define TESSERA_OPTIM_H

#include <tessera/module.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ts_optim ts_optim;

typedef struct ts_sgd_options {
    size_t struct_size;
    double lr;           /* 1e-3 */
    double momentum;     /* 0 */
    double dampening;    /* 0 */
    double weight_decay; /* 0 */
    bool nesterov;       /* false */
} ts_sgd_options;
#define TS_SGD_OPTIONS_INIT                                                                        \
    {                                                                                              \
        sizeof(ts_sgd_options), 1e-3, 0.0, 0.0, 0.0, false                                         \
    }

typedef struct ts_adamw_options {
    size_t struct_size;
    double lr;           /* 1e-3 */
    double beta1, beta2; /* 0.9, 0.999 */
    double eps;          /* 1e-8 */
    double weight_decay; /* 1e-2 */
} ts_adamw_options;
#define TS_ADAMW_OPTIONS_INIT                                                                      \
    {                                                                                              \
        sizeof(ts_adamw_options), 1e-3, 0.9, 0.999, 1e-8, 1e-2                                     \
    }

/* parameters is taken over (freed by the optimizer, also on error); float32 or float64, CPU.
 * TS_EINVAL for an empty list or options out of range, naming them. */
TS_API ts_status ts_sgd_new(ts_optim **out, ts_tensor_list *parameters, const ts_sgd_options *opt);
TS_API ts_status ts_adamw_new(ts_optim **out, ts_tensor_list *parameters,
                              const ts_adamw_options *opt);
TS_API void ts_optim_free(ts_optim *optim);

/* Parameters whose gradient is none are skipped.  One fused pass over all parameters. */
TS_API ts_status ts_optim_step(ts_optim *optim);
TS_API void ts_optim_zero_grad(ts_optim *optim); /* gradients become none */
TS_API double ts_optim_lr(const ts_optim *optim);
TS_API void ts_optim_set_lr(ts_optim *optim, double lr);
/* State tensors by name ("exp_avg.<parameter>", "step.<parameter>"), sharing storage. */
TS_API ts_tensor_list *ts_optim_state_dict(const ts_optim *optim);
TS_API ts_status ts_optim_load_state_dict(ts_optim *optim, const ts_tensor_list *state);

/* Linear warm-up from 0 to peak over warmup steps, then half a cosine to floor at step total.
 * step counts from 0. */
TS_API double ts_lr_warmup_cosine(int64_t step, int64_t warmup, int64_t total, double peak,
                                  double floor);

/* Scales the gradients so that their joint p-norm is at most max_norm; *norm (may be NULL) gets the
 * norm before.  p may be INFINITY. */
TS_API ts_status ts_clip_grad_norm(double *norm, const ts_tensor_list *parameters, double max_norm,
                                   double p);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Fused optimizer steps: one pass over parameter, gradient and state.
 *
 * In the formulas p is the parameter, g the gradient times grad_scale (-1 to maximize), to which
 * weight_decay p is added first; decay is 1, or 1 - lr weight_decay where weights decay apart from
 * the gradient (p *= decay, after g has been made). */
#ifndef TS_KERNELS_OPTIM_H
#define TS_KERNELS_OPTIM_H

#include <stdbool.h>
#include <stdint.h>
#include <tessera/dtype.h>

#include "kernels/isa.h"

/* b = first ? g : momentum b + (1 - dampening) g;  p -= lr (nesterov ? g + momentum b : b).
 * Without momentum b is not touched.  States: b. */
typedef struct ts_sgd_step {
    double lr, momentum, dampening, weight_decay;
    double grad_scale;
    bool nesterov;
    bool first; /* b is not yet filled */
} ts_sgd_step;

/* m += (1 - beta1)(g - m);  v = beta2 v + (1 - beta2) g g;  x = max(x, v), if there is x, else v;
 * p -= step_size m / (sqrt(x) / bias2_sqrt + eps).  States: m, v, x or NULL. */
typedef struct ts_adam_step {
    double decay, weight_decay;
    double beta1, beta2, eps;
    double step_size;  /* lr / (1 - beta1^t) */
    double bias2_sqrt; /* sqrt(1 - beta2^t) */
    double grad_scale;
} ts_adam_step;

/* s += g g;  p -= lr g / (sqrt(s) + eps).  States: s. */
typedef struct ts_adagrad_step {
    double lr, weight_decay, eps, grad_scale;
} ts_adagrad_step;

/* v = alpha v + (1 - alpha) g g;  a += (1 - alpha)(g - a);  d = g / (sqrt(v - a a) + eps);
 * b = momentum b + d;  p -= lr b.  States: v, b or NULL (d for b), a or NULL (0 for a). */
typedef struct ts_rmsprop_step {
    double lr, weight_decay, alpha, momentum, eps, grad_scale;
} ts_rmsprop_step;

/* v = rho v + (1 - rho) g g;  d = sqrt(u + eps) / sqrt(v + eps) g;  u = rho u + (1 - rho) d d;
 * p -= lr d.  States: v, u. */
typedef struct ts_adadelta_step {
    double lr, weight_decay, rho, eps, grad_scale;
} ts_adadelta_step;

/* m += (1 - beta1)(g - m);  u = max(beta2 u, |g| + eps);  p -= step_size m / u.  States: m, u. */
typedef struct ts_adamax_step {
    double step_size, weight_decay, beta1, beta2, eps, grad_scale;
} ts_adamax_step;

/* m, v as Adam;  d = sqrt(v / bias2) + eps;  p -= grad_lr g / d + avg_lr m / d.  States: m, v. */
typedef struct ts_nadam_step {
    double decay, weight_decay, beta1, beta2, eps, bias2, grad_lr, avg_lr, grad_scale;
} ts_nadam_step;

/* m, v as Adam;  p -= step_size (rectified ? m / (sqrt(v) + eps) : m).  States: m, v. */
typedef struct ts_radam_step {
    double decay, weight_decay, beta1, beta2, eps, step_size, grad_scale;
    bool rectified;
} ts_radam_step;

/* s grows by etaplus where g and the last gradient l agree in sign, shrinks by etaminus where they
 * differ (and g counts as 0 there), within [step_min, step_max];  p -= sign(g) s;  l = g.
 * States: l, s. */
typedef struct ts_rprop_step {
    double etaminus, etaplus, step_min, step_max, grad_scale;
} ts_rprop_step;

/* p -= lr sign(beta1 m + (1 - beta1) g);  m = beta2 m + (1 - beta2) g.  States: m. */
typedef struct ts_lion_step {
    double decay, lr, beta1, beta2, grad_scale;
} ts_lion_step;

#define TS_OPTIM_KERNELS(X)                                                                        \
    X(sgd)                                                                                         \
    X(adam)                                                                                        \
    X(adagrad) X(rmsprop) X(adadelta) X(adamax) X(nadam) X(radam) X(rprop) X(lion)

typedef enum ts_optim_kernel_id {
#define X(name) TS_OPTIM_KERNEL_##name,
    TS_OPTIM_KERNELS(X)
#undef X
        TS_NUM_OPTIM_KERNELS
} ts_optim_kernel_id;

/* step is the kernel's struct above. */
typedef void (*ts_optim_kernel)(void *param, const void *grad, void *const *state, int64_t n,
                                const void *step);

/* One table per dtype and instruction set.  Arrays hold n elements of the table's dtype. */
typedef struct ts_optim_kernels {
    ts_optim_kernel update[TS_NUM_OPTIM_KERNELS];
    double (*sum_squares)(const void *x, int64_t n); /* accumulated in double */
    double (*sum_abs)(const void *x, int64_t n);
    double (*max_abs)(const void *x, int64_t n); /* NaN if any is; 0 for n = 0 */
    void (*scale)(void *x, double factor, int64_t n);
    void (*clamp)(void *x, double bound, int64_t n); /* to [-bound, bound]; NaN stays */
    void (*lerp)(void *x, const void *to, double weight, int64_t n); /* x += weight (to - x) */
} ts_optim_kernels;

/* The table in use for float32 or float64; NULL for other dtypes. */
const ts_optim_kernels *ts_optim_kernels_for(ts_dtype dtype);
/* Of one instruction set, NULL if this build or processor lacks it. */
const ts_optim_kernels *ts_optim_kernels_of(ts_dtype dtype, ts_isa isa);

#endif

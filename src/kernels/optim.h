/* SPDX-License-Identifier: Apache-2.0 */
/* Fused optimizer steps: one pass over parameter, gradient and state. */
#ifndef TS_KERNELS_OPTIM_H
#define TS_KERNELS_OPTIM_H

#include <stdbool.h>
#include <stdint.h>
#include <tessera/dtype.h>

#include "kernels/isa.h"

/* param *= 1 - lr wd;  m += (1 - beta1)(g - m);  v = beta2 v + (1 - beta2) g g;
 * param -= step_size m / (sqrt(v) / bias2_sqrt + eps) */
typedef struct ts_adamw_step {
    double decay; /* 1 - lr wd */
    double beta1, beta2, eps;
    double step_size;  /* lr / (1 - beta1^t) */
    double bias2_sqrt; /* sqrt(1 - beta2^t) */
    double grad_scale; /* multiplies g first; 1: as it is */
} ts_adamw_step;

/* g += wd param;  buf = first ? g : momentum buf + (1 - dampening) g;
 * param -= lr (nesterov ? g + momentum buf : buf).  Without momentum buf is not touched. */
typedef struct ts_sgd_step {
    double lr, momentum, dampening, weight_decay;
    double grad_scale; /* multiplies g first; 1: as it is */
    bool nesterov;
    bool first; /* buf is not yet filled */
} ts_sgd_step;

/* One table per dtype and instruction set.  Arrays hold n elements of the table's dtype. */
typedef struct ts_optim_kernels {
    void (*adamw)(void *param, const void *grad, void *m, void *v, int64_t n,
                  const ts_adamw_step *step);
    void (*sgd)(void *param, const void *grad, void *buf, int64_t n, const ts_sgd_step *step);
    double (*sum_squares)(const void *x, int64_t n); /* accumulated in double */
    double (*sum_abs)(const void *x, int64_t n);
    double (*max_abs)(const void *x, int64_t n); /* NaN if any is; 0 for n = 0 */
    void (*scale)(void *x, double factor, int64_t n);
} ts_optim_kernels;

/* The table in use for float32 or float64; NULL for other dtypes. */
const ts_optim_kernels *ts_optim_kernels_for(ts_dtype dtype);
/* Of one instruction set, NULL if this build or processor lacks it. */
const ts_optim_kernels *ts_optim_kernels_of(ts_dtype dtype, ts_isa isa);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of neural-network operations.  Arrays are row-major and of the table's dtype; rows x n
 * means n values side by side per row. */
#ifndef TS_KERNELS_NN_H
#define TS_KERNELS_NN_H

#include <stdint.h>
#include <tessera/dtype.h>

#include "kernels/isa.h"

typedef struct ts_nn_kernels {
    /* y = exp(x - max) / sum exp(x - max), and its logarithm; from their results, the gradients
     * y (dy - sum dy y) and dy - exp(y) sum dy. */
    void (*softmax)(void *y, const void *x, int64_t rows, int64_t n);
    void (*log_softmax)(void *y, const void *x, int64_t rows, int64_t n);
    void (*softmax_grad)(void *dx, const void *y, const void *dy, int64_t rows, int64_t n);
    void (*log_softmax_grad)(void *dx, const void *y, const void *dy, int64_t rows, int64_t n);

    /* log sum exp(x) of one row, and sum x.  n > 0. */
    void (*log_sum_exp)(double *lse, double *sum, const void *x, int64_t n);
    /* dx = scale (exp(x - lse) - shift) */
    void (*softmax_minus)(void *dx, const void *x, int64_t n, double lse, double scale,
                          double shift);

    /* y = (x - mean) rstd w + b with rstd = 1 / sqrt(variance + eps), in two passes; w and b may be
     * NULL.  One mean and rstd per row.  mean NULL, here and in the gradient: of the values as they
     * are, mean 0 (root mean square). */
    void (*layer_norm)(void *y, void *mean, void *rstd, const void *x, const void *w, const void *b,
                       int64_t rows, int64_t n, double eps);
    /* dx = rstd (g - avg g - h avg(g h)), g = dy w, h = (x - mean) rstd;  dw += sum dy h,
     * db += sum dy over the rows.  dx, dw, db and w may be NULL. */
    void (*layer_norm_grad)(void *dx, void *dw, void *db, const void *dy, const void *x,
                            const void *w, const void *mean, const void *rstd, int64_t rows,
                            int64_t n);

    /* Lines of a channel, for statistics over several lines: sums of x - mean and its square, in
     * double; y = (x - mean) scale + shift; sums of dy and dy (x - mean); and
     * dx = by_dy dy + by_x (x - mean) + constant. */
    void (*moments)(double *sum, double *squares, const void *x, int64_t n, double mean);
    void (*normalize)(void *y, const void *x, int64_t n, double mean, double scale, double shift);
    void (*moments_grad)(double *sum, double *products, const void *dy, const void *x, int64_t n,
                         double mean);
    void (*normalize_grad)(void *dx, const void *dy, const void *x, int64_t n, double mean,
                           double by_dy, double by_x, double constant);

    /* to[j] = sum over rows of x[row][j], rows ld apart, in blocks so that errors stay small */
    void (*column_sum)(void *to, const void *x, int64_t rows, int64_t n, int64_t ld);
    /* to += x */
    void (*add_to)(void *to, const void *x, int64_t n);
    /* to += factor x */
    void (*add_scaled)(void *to, const void *x, int64_t n, double factor);
    /* sum a b in double */
    double (*dot)(const void *a, const void *b, int64_t n);
    /* sum (a - b)^2 in double */
    double (*squared_distance)(const void *a, const void *b, int64_t n);
    /* dx = scale (a - b) */
    void (*scaled_difference)(void *dx, const void *a, const void *b, double scale, int64_t n);

    /* One step of softmax over a row that arrives in blocks: max and sum are updated for the n
     * scores scale s, which become exp(scale s - max).  Returns exp(former max - max), by which
     * earlier results must be multiplied. */
    double (*softmax_step)(void *s, int64_t n, double scale, double *max, double *sum);
    /* x *= factor */
    void (*scale_row)(void *x, int64_t n, double factor);
    /* s becomes p = exp(scale s - lse), dp becomes scale p (dp - delta). */
    void (*softmax_step_grad)(void *s, void *dp, int64_t n, double scale, double lse, double delta);
} ts_nn_kernels;

/* The table in use for float32 or float64; NULL for other dtypes. */
const ts_nn_kernels *ts_nn_kernels_for(ts_dtype dtype);
/* Of one instruction set, NULL if this build or processor lacks it. */
const ts_nn_kernels *ts_nn_kernels_of(ts_dtype dtype, ts_isa isa);

#endif

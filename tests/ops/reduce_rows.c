/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"

#define FIRST (const int[]){0}, 1
#define LAST (const int[]){-1}, 1
#define OUTER (const int[]){0, 2}, 2
#define NONE NULL, 0
#define ROW(name, expression)                                                                      \
    static ts_tensor *f_##name(ts_tensor *const *in)                                               \
    {                                                                                              \
        ts_tensor *a = in[0];                                                                      \
        return expression;                                                                         \
    }
#define ROWS(X)                                                                                    \
    X(sum, ts_sum(a))                                                                              \
    X(sum_first, ts_sum_dims(a, FIRST, false))                                                     \
    X(sum_outer, ts_sum_dims(a, OUTER, true))                                                      \
    X(mean, ts_mean(a))                                                                            \
    X(mean_last, ts_mean_dim(a, -1, true))                                                         \
    X(prod, ts_prod(a))                                                                            \
    X(prod_last, ts_prod_dims(a, LAST, false))                                                     \
    X(prod_outer, ts_prod_dims(a, OUTER, true))                                                    \
    X(max, ts_max(a))                                                                              \
    X(min, ts_min(a))                                                                              \
    X(amax_outer, ts_amax(a, OUTER, false))                                                        \
    X(amin_last, ts_amin(a, LAST, true))                                                           \
    X(max_dim, ts_max_dim(a, 1, false, NULL))                                                      \
    X(min_dim, ts_min_dim(a, 0, true, NULL))                                                       \
    X(argmax, ts_argmax(a, 1, true))                                                               \
    X(argmin, ts_argmin(a, -1, false))                                                             \
    X(norm_1, ts_norm(a, 1))                                                                       \
    X(norm_2, ts_norm(a, 2))                                                                       \
    X(norm_2_last, ts_norm_dims(a, 2, LAST, true))                                                 \
    X(norm_3_outer, ts_norm_dims(a, 3, OUTER, false))                                              \
    X(norm_inf_last, ts_norm_dims(a, INFINITY, LAST, false))                                       \
    X(norm_0_first, ts_norm_dims(a, 0, FIRST, false))                                              \
    X(var, ts_var(a, NONE, 1, false))                                                              \
    X(var_outer, ts_var(a, OUTER, 0, true))                                                        \
    X(std_last, ts_std(a, LAST, 1, false))                                                         \
    X(logsumexp, ts_logsumexp(a, NONE, false))                                                     \
    X(logsumexp_first, ts_logsumexp(a, FIRST, true))                                               \
    X(any_last, ts_any(a, LAST, false))                                                            \
    X(all_outer, ts_all(a, OUTER, true))                                                           \
    X(cumsum_first, ts_cumsum(a, 0))                                                               \
    X(cumsum_last, ts_cumsum(a, -1))
ROWS(ROW)

#define BLOCK                                                                                      \
    {                                                                                              \
        {                                                                                          \
            {3, {2, 3, 4}}, -2, 2, TS_ROLE_VALUE                                                   \
        }                                                                                          \
    }
enum {
    REAL = TS_ON_REAL,
    NUMBERS = TS_ON_REAL | TS_ON_INTS,
    ALL = TS_ON_REAL | TS_ON_INTS | TS_ON_BOOL,
    ONCE = TS_FIRST_ONLY
};
#define R(name, flags)                                                                             \
    {                                                                                              \
#name, f_##name, NULL, flags, BLOCK                                                        \
    }

const ts_case ts_cases_reduce[] = {
    R(sum, ALL | ONCE),
    R(sum_first, ALL | ONCE),
    R(sum_outer, ALL | ONCE),
    R(mean, REAL | ONCE),
    R(mean_last, REAL | ONCE),
    R(prod, TS_ON_FLOATS | TS_ON_INTS | TS_ON_BOOL),
    R(prod_last, ALL),
    R(prod_outer, ALL),
    R(max, NUMBERS | ONCE),
    R(min, NUMBERS | ONCE),
    R(amax_outer, NUMBERS | ONCE),
    R(amin_last, NUMBERS | ONCE),
    R(max_dim, NUMBERS | ONCE),
    R(min_dim, NUMBERS | ONCE),
    R(argmax, NUMBERS | TS_NO_GRADIENT),
    R(argmin, NUMBERS | TS_NO_GRADIENT),
    R(norm_1, REAL | ONCE),
    R(norm_2, REAL),
    R(norm_2_last, REAL),
    R(norm_3_outer, REAL),
    R(norm_inf_last, REAL | ONCE),
    R(norm_0_first, REAL | ONCE),
    R(var, REAL),
    R(var_outer, REAL),
    R(std_last, REAL),
    R(logsumexp, REAL),
    R(logsumexp_first, REAL),
    R(any_last, ALL | TS_NO_GRADIENT),
    R(all_outer, ALL | TS_NO_GRADIENT),
    R(cumsum_first, ALL | ONCE),
    R(cumsum_last, ALL | ONCE),
    {.name = NULL},
};

/* SPDX-License-Identifier: Apache-2.0 */
/* The table of operations: one row is one call, and every row passes the same checks (table_test.c).
 *
 * Values and gradients are compared with PyTorch's (tests/golden/ops.py has a line of the same name
 * for every row); gradients also with finite differences, once and twice differentiated; inputs of
 * other layouts, meta tensors, inputs without elements and the form in place must agree with that.
 *
 * Input k, element i of a row is low + (high - low) frac((i + 1 + 17 k) 0.6180339887498949),
 * rounded to the dtype; whole dtypes round towards minus infinity first. */
#ifndef TS_OPS_TABLE_H
#define TS_OPS_TABLE_H

#include <math.h>
#include <tessera/tessera.h>

enum { TS_CASE_INPUTS = 4 };

typedef enum ts_case_role {
    TS_ROLE_VALUE = 0, /* of the dtype of the row, differentiated */
    TS_ROLE_FIXED,     /* of that dtype, not differentiated */
    TS_ROLE_INDEX,     /* int64 */
    TS_ROLE_MASK       /* bool: above the middle */
} ts_case_role;

typedef struct ts_case_input {
    ts_shape shape;
    double low, high;
    ts_case_role role;
} ts_case_input;

enum {
    TS_ON_FLOATS = 1 << 0,   /* float32, float64 */
    TS_ON_HALVES = 1 << 1,   /* float16, bfloat16 */
    TS_ON_INTS = 1 << 2,     /* int64, int32, uint8 */
    TS_ON_BOOL = 1 << 3,     /* the values are masks */
    TS_NO_GRADIENT = 1 << 4, /* what it gives has no gradient */
    TS_FIRST_ONLY = 1 << 5,  /* no second derivative: it vanishes or is not offered */
    TS_EMPTY = 1 << 6,       /* the first dimension of all inputs may be 0 */
    TS_ON_REAL = TS_ON_FLOATS | TS_ON_HALVES
};

typedef struct ts_case {
    const char *name; /* as in the golden file */
    ts_tensor *(*call)(ts_tensor *const *in);
    ts_tensor *(*in_place)(ts_tensor *const *in); /* changes in[0]; NULL: there is none */
    int flags;
    ts_case_input in[TS_CASE_INPUTS]; /* as many as have a range */
} ts_case;

/* Each ends with a row without a name. */
extern const ts_case ts_cases_elementwise[], ts_cases_reduce[], ts_cases_shape[], ts_cases_nn[];

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Which dtypes each family of operations takes, and what it gives: docs/dtypes.md, row by row. */
#include <tessera/tessera.h>

#include "test.h"

typedef enum family {
    REAL,    /* every real dtype, which is kept */
    FLOATED, /* every real dtype; whole numbers give float32 */
    SUMMED,  /* every real dtype; whole numbers give int64 */
    INDEX,   /* every real dtype; gives int64 */
    FLOAT,   /* floating dtypes only */
    ANY      /* complex numbers too */
} family;

static ts_tensor *typed(ts_shape shape, ts_dtype dtype)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = dtype;
    return ts_ones(shape, &opt);
}

static ts_tensor *ones_at(void) { return typed(TS_SHAPE(2), TS_INT64); }
static ts_tensor *box(ts_tensor *a) { return ts_view(a, TS_SHAPE(1, 1, 2, 2)); }

static ts_tensor *f_add(ts_tensor *a) { return ts_add(a, a); }
static ts_tensor *f_sub(ts_tensor *a) { return ts_sub(a, a); }
static ts_tensor *f_mul(ts_tensor *a) { return ts_mul(a, a); }
static ts_tensor *f_add_(ts_tensor *a) { return ts_add_(a, a); }
static ts_tensor *f_div(ts_tensor *a) { return ts_div(a, a); }
static ts_tensor *f_div_(ts_tensor *a) { return ts_div_(a, a); }
static ts_tensor *f_pow(ts_tensor *a) { return ts_pow_scalar(a, 2.5); }
static ts_tensor *f_scaled(ts_tensor *a) { return ts_mul_scalar(a, 0.5); }
static ts_tensor *f_argmax(ts_tensor *a) { return ts_argmax(a, 0, false); }
static ts_tensor *f_gelu(ts_tensor *a) { return ts_gelu(a, TS_GELU_ERF); }
static ts_tensor *f_norm(ts_tensor *a) { return ts_norm(a, 2); }
static ts_tensor *f_matmul(ts_tensor *a) { return ts_matmul(a, a); }
static ts_tensor *f_linear(ts_tensor *a) { return ts_linear(a, a, NULL); }
static ts_tensor *f_softmax(ts_tensor *a) { return ts_softmax(a, 0); }
static ts_tensor *f_log_softmax(ts_tensor *a) { return ts_log_softmax(a, 0); }
static ts_tensor *f_loss(ts_tensor *a) { return ts_cross_entropy(a, ones_at(), NULL); }
static ts_tensor *f_mse(ts_tensor *a) { return ts_mse_loss(a, a); }
static ts_tensor *f_layer_norm(ts_tensor *a)
{
    return ts_layer_norm(a, TS_SHAPE(2), NULL, NULL, 1e-5);
}
static ts_tensor *f_dropout(ts_tensor *a) { return ts_dropout(a, 0.5, true); }
static ts_tensor *f_attention(ts_tensor *a)
{
    return ts_attention(box(a), box(a), box(a), false, 0);
}
static ts_tensor *f_uniform(ts_tensor *a) { return ts_uniform_(a, 0, 1); }
static ts_tensor *f_fill(ts_tensor *a) { return ts_fill_(a, 3); }
static ts_tensor *f_copy(ts_tensor *a) { return ts_copy_(a, ts_clone(a)); }
static ts_tensor *f_turn(ts_tensor *a) { return ts_contiguous(ts_transpose(a, 0, 1)); }
static ts_tensor *f_cat(ts_tensor *a) { return ts_cat((ts_tensor *const[]){a, a}, 2, 0); }
static ts_tensor *f_embedding(ts_tensor *a) { return ts_embedding(a, ones_at()); }

static const struct {
    const char *name; /* as in the message */
    family family;
    ts_tensor *(*fn)(ts_tensor *a);
} rows[] = {
    {"add", REAL, f_add},
    {"sub", REAL, f_sub},
    {"mul", REAL, f_mul},
    {"add_", REAL, f_add_},
    {"neg", REAL, ts_neg},
    {"abs", REAL, ts_abs},
    {"max", REAL, ts_max},
    {"min", REAL, ts_min},
    {"div", FLOATED, f_div},
    {"pow_scalar", FLOATED, f_pow},
    {"mul_scalar", FLOATED, f_scaled},
    {"exp", FLOATED, ts_exp},
    {"log", FLOATED, ts_log},
    {"sqrt", FLOATED, ts_sqrt},
    {"tanh", FLOATED, ts_tanh},
    {"sigmoid", FLOATED, ts_sigmoid},
    {"relu", REAL, ts_relu},
    {"sum", SUMMED, ts_sum},
    {"argmax", INDEX, f_argmax},
    {"div_", FLOAT, f_div_},
    {"gelu", FLOAT, f_gelu},
    {"mean", FLOAT, ts_mean},
    {"norm", FLOAT, f_norm},
    {"matmul", FLOAT, f_matmul},
    {"linear", FLOAT, f_linear},
    {"softmax", FLOAT, f_softmax},
    {"log_softmax", FLOAT, f_log_softmax},
    {"cross_entropy", FLOAT, f_loss},
    {"mse_loss", FLOAT, f_mse},
    {"layer_norm", FLOAT, f_layer_norm},
    {"dropout", FLOAT, f_dropout},
    {"attention", FLOAT, f_attention},
    {"uniform_", FLOAT, f_uniform},
    {"fill_", ANY, f_fill},
    {"copy_", ANY, f_copy},
    {"clone", ANY, ts_clone},
    {"transpose", ANY, f_turn},
    {"cat", ANY, f_cat},
    {"embedding", ANY, f_embedding},
};

/* TS_NUM_DTYPES: refused. */
static ts_dtype expected(family kind, ts_dtype dtype)
{
    bool floating = ts_dtype_is_floating(dtype), complex = dtype >= TS_COMPLEX64;
    if (kind != ANY && complex) return TS_NUM_DTYPES;
    if (kind == INDEX) return TS_INT64;
    if (floating || kind == REAL || kind == ANY) return dtype;
    return kind == FLOATED ? TS_FLOAT32 : kind == SUMMED ? TS_INT64 : TS_NUM_DTYPES;
}

TS_TEST(operations_take_the_dtypes_of_the_manual)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int d = 0; d < TS_NUM_DTYPES; d++) {
            ts_tensor *y = rows[i].fn(typed(TS_SHAPE(2, 2), (ts_dtype)d));
            ts_dtype want = expected(rows[i].family, (ts_dtype)d);
            if (want == TS_NUM_DTYPES) {
                TS_BAD(y, TS_EDTYPE, rows[i].name);
                TS_BAD(y, TS_EDTYPE, ts_dtype_name((ts_dtype)d));
            } else if (ts_failed(y) || ts_tensor_dtype(y) != want) {
                TS_FAIL_TEST("%s of %s: %s %s", rows[i].name, ts_dtype_name((ts_dtype)d),
                             ts_tensor_error(y), ts_dtype_name(ts_tensor_dtype(y)));
            }
        }
}

/* What has no elements gives none, or the value of an empty sum; 0-dim tensors are ordinary. */
TS_TEST(operations_take_nothing_and_scalars)
{
    ts_tensor_options one = TS_TENSOR_OPTIONS_INIT;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *name = rows[i].name;
        bool matrix = strstr("matmul linear cross_entropy layer_norm attention embedding", name);
        bool extreme = strstr("max min argmax", name), joins = strstr("transpose cat", name);
        ts_tensor *y;
        if (!matrix && !joins) {
            y = rows[i].fn(ts_ones(ts_shape_scalar(), &one));
            if (ts_failed(y) || ts_ndim(y) != 0) TS_FAIL_TEST("%s: %s", name, ts_tensor_error(y));
        }
        if (extreme) {
            TS_BAD(rows[i].fn(ts_ones(TS_SHAPE(0, 2), &one)), TS_ESHAPE, name);
        } else if (!matrix) {
            y = rows[i].fn(ts_ones(TS_SHAPE(0, 2), &one));
            if (ts_failed(y)) TS_FAIL_TEST("%s: %s", name, ts_tensor_error(y));
            bool reduced = strstr("sum mean norm mse_loss", name);
            TS_EXPECT_INT(ts_numel(y), reduced ? 1 : 0);
        }
    }
}

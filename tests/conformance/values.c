/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "conformance.h"

enum { BLANK = 9, AROUND = 5, PAD = 3 };

/* ---- numbers --------------------------------------------------------------------------------- */

conf_want conf_blank(void) { return (conf_want){.kind = CONF_BLANK}; }

conf_want conf_value(int rank, int slot, ts_reduce_op op)
{
    return (conf_want){.kind = CONF_VALUE, .rank = rank, .slot = slot, .op = op};
}

conf_want conf_reduced(int size, int slot, ts_reduce_op op)
{
    return (conf_want){.kind = CONF_REDUCED, .slot = slot, .op = op, .size = size};
}

double conf_factor(int rank) { return 1 + rank % 2; }

static double value_of(int rank, int slot, ts_reduce_op op, ts_dtype dtype, int64_t i)
{
    if (dtype == TS_BOOL) return (double)((i + rank + slot) % 2);
    if (op == TS_PRODUCT) return (double)(1 + (i + rank + slot) % 2);
    if (op >= TS_BAND && op <= TS_BXOR) return (double)((i * 5 + rank * 3 + slot) % 16);
    return (double)((i * 7 + rank * 3 + slot * 5) % 4 + 1);
}

static double combine(double a, double b, ts_reduce_op op)
{
    switch (op) {
    case TS_PRODUCT: return a * b;
    case TS_MIN: return a < b ? a : b;
    case TS_MAX: return a > b ? a : b;
    case TS_BAND: return (double)((int64_t)a & (int64_t)b);
    case TS_BOR: return (double)((int64_t)a | (int64_t)b);
    case TS_BXOR: return (double)((int64_t)a ^ (int64_t)b);
    default: return a + b;
    }
}

/* As the dtype holds it. */
static double fit(double x, ts_dtype dtype, ts_reduce_op op)
{
    switch (dtype) {
    case TS_BOOL: return op == TS_BXOR ? fmod(x, 2) : x != 0;
    case TS_UINT8: return (double)(uint8_t)(int64_t)x;
    case TS_INT8: return (double)(int8_t)(int64_t)x;
    case TS_INT16: return (double)(int16_t)(int64_t)x;
    case TS_INT32:
    case TS_INT64: return trunc(x);
    default: return x;
    }
}

double conf_number(const conf_want *want, ts_dtype dtype, int64_t i)
{
    if (want->kind == CONF_BLANK) return dtype == TS_BOOL ? 1 : BLANK;
    if (want->kind == CONF_VALUE) return value_of(want->rank, want->slot, want->op, dtype, i);
    double sum = 0;
    for (int r = 0; r < want->size; r++) {
        double x = value_of(r, want->slot, want->op, dtype, i);
        if (want->op == TS_PREMUL_SUM) x *= conf_factor(r);
        sum = r == 0 ? x : combine(sum, x, want->op);
    }
    if (want->op == TS_AVG) sum /= want->size;
    return fit(sum, dtype, want->op);
}

static bool is_complex(ts_dtype dtype) { return dtype == TS_COMPLEX64 || dtype == TS_COMPLEX128; }

bool conf_allows(ts_dtype dtype, ts_reduce_op op)
{
    if (is_complex(dtype)) return ts_reduce_op_supports_complex(op);
    if (op == TS_PREMUL_SUM) return ts_dtype_is_floating(dtype);
    if (op >= TS_BAND) return !ts_dtype_is_floating(dtype);
    return dtype != TS_BOOL || op != TS_AVG;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static int64_t length_of(const conf_tensor *t)
{
    return t->layout == CONF_COLUMN ? 2 * t->n : t->layout == CONF_MIDDLE ? t->n + 2 * PAD : t->n;
}

/* Index in the view of element i of the base; -1: around it. */
static int64_t index_of(const conf_tensor *t, int64_t i)
{
    if (t->layout == CONF_COLUMN) return i % 2 ? -1 : i / 2;
    if (t->layout == CONF_MIDDLE) return i < PAD || i >= t->n + PAD ? -1 : i - PAD;
    return i;
}

/* Numbers repeat after a few, which saves time with long tensors. */
enum { PERIOD = 16 };

typedef struct numbers {
    double inside[PERIOD], around;
    int parts; /* numbers per element */
} numbers;

static numbers numbers_of(const conf_want *want, ts_dtype dtype)
{
    numbers n = {.around = dtype == TS_BOOL ? 0 : AROUND, .parts = is_complex(dtype) ? 2 : 1};
    for (int i = 0; i < PERIOD; i++) n.inside[i] = conf_number(want, dtype, i);
    return n;
}

/* Number i of the base. */
static double number_at(const conf_tensor *t, const numbers *n, int64_t i)
{
    int64_t at = index_of(t, i / n->parts);
    return at < 0 ? n->around : n->inside[(at * n->parts + i % n->parts) % PERIOD];
}

static ts_tensor *convert(const double *number, ts_shape shape, int64_t count,
                          const ts_tensor_options *opt)
{
    if (opt->dtype == TS_COMPLEX128) return ts_from_data(number, shape, opt);
    if (opt->dtype == TS_COMPLEX64) {
        float *single = malloc((size_t)(count + 1) * sizeof *single);
        for (int64_t i = 0; single && i < count; i++) single[i] = (float)number[i];
        ts_tensor *t = ts_from_data(single, shape, opt);
        free(single);
        return t;
    }
    ts_tensor_options wide = TS_TENSOR_OPTIONS_INIT;
    wide.dtype = TS_FLOAT64;
    return ts_copy_(ts_empty(shape, opt), ts_from_data(number, shape, &wide));
}

conf_tensor conf_make(const conf_variant *v, int64_t n, conf_want want)
{
    conf_tensor t = {.layout = v->layout, .n = n};
    numbers fill = numbers_of(&want, v->dtype);
    int64_t length = length_of(&t), count = length * fill.parts;
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = v->dtype;
    opt.memory = v->memory;
    double *number = malloc((size_t)(count + 1) * sizeof *number);
    if (!number) abort();
    for (int64_t i = 0; i < count; i++) number[i] = number_at(&t, &fill, i);
    ts_shape shape = t.layout == CONF_COLUMN ? TS_SHAPE(n, 2) : TS_SHAPE(length);
    t.base = t.view = convert(number, shape, count, &opt);
    if (t.layout == CONF_COLUMN) t.view = ts_select(t.base, 1, 0);
    if (t.layout == CONF_MIDDLE) t.view = ts_narrow(t.base, 0, PAD, n);
    free(number);
    return t;
}

/* The base as doubles; NULL if it cannot be read. */
static double *read_out(ts_tensor *base, int64_t count)
{
    ts_dtype dtype = ts_tensor_dtype(base);
    size_t room = (size_t)(count + 1) * sizeof(double);
    double *number = malloc(room);
    if (!number) abort();
    ts_tensor *source = is_complex(dtype) ? base : ts_to_dtype(base, TS_FLOAT64);
    float *single = dtype == TS_COMPLEX64 ? malloc(room) : NULL;
    ts_status status = ts_copy_out(source, single ? (void *)single : number, ts_nbytes(source));
    for (int64_t i = 0; single && i < count; i++) number[i] = (double)single[i];
    free(single);
    if (status == TS_OK) return number;
    free(number);
    return NULL;
}

static double tolerance(ts_dtype dtype, const conf_want *want)
{
    if (want->kind != CONF_REDUCED || want->op != TS_AVG) return 0;
    switch (dtype) {
    case TS_BFLOAT16: return 0.004;
    case TS_FLOAT16: return 0.0005;
    case TS_FLOAT32:
    case TS_COMPLEX64: return 1e-6;
    default: return 1e-14;
    }
}

void conf_check(conf *c, int line, const conf_tensor *t, conf_want want)
{
    ts_dtype dtype = ts_tensor_dtype(t->base);
    numbers right = numbers_of(&want, dtype);
    int64_t count = length_of(t) * right.parts;
    if (c->flags & CONF_FAKE) return;
    double *number = read_out(t->base, count), slack = tolerance(dtype, &want);
    if (!number) {
        conf_fail(c, line, "cannot read the result: %s", ts_error_last());
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        double wanted = number_at(t, &right, i);
        if (fabs(number[i] - wanted) <= slack * fabs(wanted)) continue;
        conf_fail(c, line, "%s, %lld elements, layout %d: number %lld is %g, not %g",
                  ts_dtype_name(dtype), (long long)t->n, (int)t->layout, (long long)i, number[i],
                  wanted);
        break;
    }
    free(number);
}

/* ---- variants -------------------------------------------------------------------------------- */

enum { COMBINATIONS = CONF_NUM_LAYOUTS * 4 };

static void one(conf *c, conf_body body, ts_dtype dtype, int64_t n, int combination)
{
    ts_scope scope = ts_scope_begin();
    conf_variant v = {.dtype = dtype,
                      .n = n,
                      .layout = (conf_layout)(combination % CONF_NUM_LAYOUTS),
                      .memory =
                          combination / CONF_NUM_LAYOUTS % 2 ? TS_MEMORY_SHARED : TS_MEMORY_HEAP,
                      .async = combination / CONF_NUM_LAYOUTS / 2,
                      .op = TS_SUM,
                      .uneven = c->turn / 5 % 2,
                      .root = (int)(c->turn % (unsigned)c->size)};
    body(c, &v);
    c->turn++;
    ts_scope_end(scope);
}

void conf_each(conf *c, conf_body body)
{
    static const int64_t sizes[] = {0, 1, 7, 1000};
    static const ts_dtype long_ones[] = {TS_FLOAT32, TS_INT64, TS_BFLOAT16};
    for (int dtype = 0; dtype < TS_NUM_DTYPES; dtype++)
        for (int s = 0; s < 4; s++)
            for (int k = 0; k < COMBINATIONS; k++) {
                bool due = !(c->flags & CONF_QUICK) || (int)(c->turn % COMBINATIONS) == k;
                if (due) one(c, body, (ts_dtype)dtype, sizes[s], k);
                if (due && c->flags & CONF_QUICK) break;
            }
    for (int i = 0; i < 3 && c->flags & CONF_LONG; i++)
        one(c, body, long_ones[i], 1000003, (int)(c->turn % COMBINATIONS));
}

void conf_finish(conf *c, int line, const char *what, ts_status status, ts_work **work)
{
    if (status == TS_OK && work) status = ts_work_wait(*work, 0);
    if (status != TS_OK) conf_fail(c, line, "%s: %s", what, ts_error_last());
    if (work) ts_work_free(*work);
}

ts_tensor *conf_full(int64_t n, double value) { return ts_full(TS_SHAPE(n), value, NULL); }

void conf_all_are(conf *c, int line, ts_tensor *t, double value)
{
    double least = value, most = value;
    if (ts_numel(t) == 0 || c->flags & CONF_FAKE) return;
    ts_item(ts_min(t), &least);
    ts_item(ts_max(t), &most);
    if (least != value || most != value)
        conf_fail(c, line, "elements from %g to %g, not %g", least, most, value);
}

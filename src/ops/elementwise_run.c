/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes, dtypes and loops of element-wise operations. */
#include <math.h>

#include "ops/elementwise_impl.h"
#include "ops/walk.h"

/* ---- infer ----------------------------------------------------------------------------------- */

static ts_status not_complex(const char *op, const ts_tensor *t)
{
    if (t->dtype < TS_COMPLEX64) return TS_OK;
    return ts_fail(TS_EDTYPE, "%s: %s; complex numbers are stored and communicated only", op,
                   ts_dtype_name((ts_dtype)t->dtype));
}

/* The result of an in-place operation must fit the tensor that is written. */
static ts_status fit_in_place(const ts_op_call *call, ts_spec *out)
{
    if (!(call->def->flags & TS_OP_INPLACE)) return TS_OK;
    const ts_tensor *t = call->in[0];
    char own[TS_SHAPE_TEXT], result[TS_SHAPE_TEXT];
    if (!ts_shape_equal(out->shape, t->shape))
        return ts_fail(TS_ESHAPE, "%s: the result has shape %s, which does not fit %s in place",
                       call->def->name, ts_shape_format(result, sizeof result, out->shape),
                       ts_shape_format(own, sizeof own, t->shape));
    bool loses = ts_dtype_is_floating(out->dtype) && !ts_dtype_is_floating((ts_dtype)t->dtype);
    if (loses || (t->dtype == TS_BOOL && out->dtype != TS_BOOL))
        return ts_fail(TS_EDTYPE, "%s: the result is %s, which does not fit %s in place",
                       call->def->name, ts_dtype_name(out->dtype),
                       ts_dtype_name((ts_dtype)t->dtype));
    out->dtype = (ts_dtype)t->dtype;
    return TS_OK;
}

static ts_dtype floating(ts_dtype dtype)
{
    return ts_dtype_is_floating(dtype) ? dtype : TS_FLOAT32;
}

static bool alike(const ts_tensor *a, const ts_tensor *b)
{
    if (a->dtype != b->dtype || a->shape.ndim != b->shape.ndim) return false;
    for (int i = 0; i < a->shape.ndim; i++)
        if (a->shape.dim[i] != b->shape.dim[i]) return false;
    return true;
}

static ts_status infer_binary(const ts_op_call *call, ts_spec *out, bool to_float)
{
    const ts_tensor *a = call->in[0], *b = call->in[1];
    if (a->dtype <= TS_BFLOAT16 && alike(a, b)) {
        *out = ts_tensor_spec(a);
        return TS_OK;
    }
    out->device = (ts_device)a->device;
    TS_TRY(ts_broadcast_shape(&out->shape, call->def->name, a->shape, b->shape));
    TS_TRY(ts_promote(&out->dtype, call->def->name, a, b));
    if (to_float) out->dtype = floating(out->dtype);
    return fit_in_place(call, out);
}

ts_status ts_binary_infer(const ts_op_call *call, ts_spec *out)
{
    return infer_binary(call, out, false);
}

ts_status ts_binary_float_infer(const ts_op_call *call, ts_spec *out)
{
    return infer_binary(call, out, true);
}

ts_status ts_unary_infer(const ts_op_call *call, ts_spec *out)
{
    *out = ts_tensor_spec(call->in[0]);
    return not_complex(call->def->name, call->in[0]);
}

ts_status ts_unary_float_infer(const ts_op_call *call, ts_spec *out)
{
    TS_TRY(ts_unary_infer(call, out));
    out->dtype = floating(out->dtype);
    return fit_in_place(call, out);
}

/* A whole number keeps integers what they are; bool becomes int64. */
ts_status ts_unary_scalar_infer(const ts_op_call *call, ts_spec *out)
{
    double p = call->attr[0].f;
    TS_TRY(ts_unary_infer(call, out));
    bool whole = p == floor(p) && fabs(p) < 0x1p62;
    if (!whole) out->dtype = floating(out->dtype);
    if (whole && out->dtype == TS_BOOL) out->dtype = TS_INT64;
    return fit_in_place(call, out);
}

/* ---- computing ------------------------------------------------------------------------------- */

static ts_dtype compute_dtype(ts_dtype dtype)
{
    switch (dtype) {
    case TS_FLOAT16:
    case TS_BFLOAT16: return TS_FLOAT32;
    case TS_INT8:
    case TS_UINT8:
    case TS_INT16:
    case TS_BOOL: return TS_INT32;
    default: return dtype;
    }
}

/* Row-major copy of t in dtype, to be released.  NULL after ts_fail. */
static ts_tensor *converted(const ts_tensor *t, ts_dtype dtype)
{
    ts_spec spec = {t->shape, dtype, (ts_device)t->device};
    ts_tensor *copy = ts_tensor_new_owned(&spec, TS_MEMORY_HEAP, TS_CATEGORY_ACTIVATION);
    ts_status status = ts_tensor_check(copy, "conversion");
    if (status == TS_OK) status = ts_tensor_copy_data(copy, t);
    if (status == TS_OK) return copy;
    ts_release(copy);
    return NULL;
}

static bool same_elements(const ts_tensor *a, const ts_tensor *b)
{
    if (a->offset != b->offset || a->shape.ndim != b->shape.ndim) return false;
    for (int i = 0; i < a->shape.ndim; i++)
        if (a->shape.dim[i] != b->shape.dim[i] || a->stride[i] != b->stride[i]) return false;
    return true;
}

/* Operands of the loop: t[0] is written.  own[k]: a temporary to be released. */
typedef struct operands {
    ts_tensor *t[TS_WALK_MAX];
    bool own[TS_WALK_MAX];
    int count;
} operands;

static ts_status prepare(operands *o, ts_tensor *out, ts_tensor *const *in, int n, ts_dtype dtype)
{
    *o = (operands){.count = n + 1};
    o->t[0] = out;
    if (out->dtype != (uint8_t)dtype) {
        ts_spec spec = {out->shape, dtype, (ts_device)out->device};
        o->t[0] = ts_tensor_new_owned(&spec, TS_MEMORY_HEAP, TS_CATEGORY_ACTIVATION);
        o->own[0] = true;
        TS_TRY(ts_tensor_check(o->t[0], "conversion"));
    }
    for (int k = 1; k <= n; k++) {
        ts_tensor *t = in[k - 1];
        bool clash = t->storage == o->t[0]->storage && !same_elements(t, o->t[0]);
        o->own[k] = clash || t->dtype != (uint8_t)dtype;
        o->t[k] = o->own[k] ? converted(t, dtype) : t;
        if (!o->t[k]) return ts_thread()->error_status;
    }
    return TS_OK;
}

static void let_go(operands *o)
{
    for (int k = 0; k < o->count; k++)
        if (o->own[k]) ts_release(o->t[k]);
}

static ts_status finish(operands *o, ts_tensor *out, ts_status status)
{
    if (status == TS_OK && o->own[0]) status = ts_tensor_copy_data(out, o->t[0]);
    let_go(o);
    return status;
}

static ts_status no_loop(const ts_op_call *call, ts_dtype dtype)
{
    return ts_fail(TS_EDTYPE, "%s: not offered for %s", call->def->name, ts_dtype_name(dtype));
}

static void binary_line(char *const *at, const int64_t *step, int64_t n, void *user)
{
    const ts_binary_loop loop = *(const ts_binary_loop *)user;
    loop(at[0], step[0], at[1], step[1], at[2], step[2], n);
}

ts_status ts_binary_run(ts_op_call *call, ts_binary_loop_id id)
{
    ts_tensor *out = call->out[0], *const *in = call->in;
    ts_dtype dtype = (ts_dtype)out->dtype;
    if (in[0]->dtype != in[1]->dtype) TS_TRY(ts_promote(&dtype, call->def->name, in[0], in[1]));
    if (ts_dtype_is_floating((ts_dtype)out->dtype)) dtype = floating(dtype);
    dtype = compute_dtype(dtype);
    const ts_elementwise_kernels *kernels = ts_elementwise_kernels_for(dtype);
    if (!kernels || !kernels->binary[id]) return no_loop(call, dtype);
    operands o;
    ts_status status = prepare(&o, out, in, 2, dtype);
    ts_binary_loop loop = kernels->binary[id];
    if (status == TS_OK) ts_walk(o.t, 3, binary_line, &loop);
    return finish(&o, out, status);
}

typedef struct unary_job {
    ts_unary_loop loop;
    double p;
} unary_job;

static void unary_line(char *const *at, const int64_t *step, int64_t n, void *user)
{
    const unary_job *job = user;
    job->loop(at[0], step[0], at[1], step[1], n, job->p);
}

ts_status ts_unary_run(ts_op_call *call, ts_unary_loop_id id, double p)
{
    ts_tensor *out = call->out[0];
    ts_dtype dtype = compute_dtype((ts_dtype)out->dtype);
    const ts_elementwise_kernels *kernels = ts_elementwise_kernels_for(dtype);
    if (!kernels || !kernels->unary[id]) return no_loop(call, dtype);
    operands o;
    ts_status status = prepare(&o, out, call->in, 1, dtype);
    unary_job job = {kernels->unary[id], p};
    if (status == TS_OK) ts_walk(o.t, 2, unary_line, &job);
    return finish(&o, out, status);
}

/* ---- overlapping sums ------------------------------------------------------------------------ */

/* Adds the elements of `from` at one position of all dimensions but the last. */
static void add_line(char *const *at, const int64_t *step, int64_t n, ts_binary_loop add,
                     int64_t size)
{
    for (int64_t i = 0; i < n; i++) {
        char *to = at[0] + i * step[0] * size;
        add(to, 1, to, 1, at[1] + i * step[1] * size, 1, 1);
    }
}

ts_status ts_add_overlapping(ts_tensor *to, const ts_tensor *from)
{
    const ts_elementwise_kernels *kernels = ts_elementwise_kernels_for((ts_dtype)to->dtype);
    if (!kernels)
        return ts_fail(TS_EDTYPE, "view_embed: not offered for %s",
                       ts_dtype_name((ts_dtype)to->dtype));
    int last = to->shape.ndim - 1;
    int64_t size = (int64_t)ts_dtype_size((ts_dtype)to->dtype), lines = 1, index[TS_MAX_DIMS] = {0};
    for (int i = 0; i < last; i++) lines *= to->shape.dim[i];
    for (int64_t line = 0; line < lines && to->numel > 0; line++) {
        int64_t a = 0, b = 0;
        for (int i = 0; i < last; i++) {
            a += index[i] * to->stride[i];
            b += index[i] * from->stride[i];
        }
        char *at[] = {ts_tensor_bytes(to) + a * size, ts_tensor_bytes(from) + b * size};
        add_line(at, (const int64_t[]){to->stride[last], from->stride[last]}, to->shape.dim[last],
                 kernels->binary[TS_BINARY_ADD], size);
        for (int i = last - 1; i >= 0 && ++index[i] == to->shape.dim[i]; i--) index[i] = 0;
    }
    return TS_OK;
}

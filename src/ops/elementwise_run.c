/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes, dtypes and loops of element-wise operations. */
#include <math.h>
#include <tessera/ops.h>

#include "kernels/convert.h"
#include "ops/elementwise_impl.h"
#include "ops/walk.h"

/* ---- infer ----------------------------------------------------------------------------------- */

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

ts_status ts_infer_promoted(const ts_op_call *call, ts_spec *out)
{
    const ts_tensor *a = call->in[0];
    *out = ts_tensor_spec(a);
    bool same = call->num_in == 1 || (call->num_in == 2 && alike(a, call->in[1]));
    if (same && a->dtype < TS_COMPLEX64) return TS_OK;
    for (int i = 1; i < call->num_in; i++)
        TS_TRY(ts_broadcast_shape(&out->shape, call->def->name, out->shape, call->in[i]->shape));
    TS_TRY(ts_promote(&out->dtype, call->def->name, call->in, call->num_in));
    return fit_in_place(call, out);
}

ts_status ts_infer_floating(const ts_op_call *call, ts_spec *out)
{
    TS_TRY(ts_infer_promoted(call, out));
    out->dtype = floating(out->dtype);
    return fit_in_place(call, out);
}

ts_status ts_infer_only_floating(const ts_op_call *call, ts_spec *out)
{
    TS_TRY(ts_infer_promoted(call, out));
    for (int i = 0; i < call->num_in; i++) {
        ts_dtype dtype = (ts_dtype)call->in[i]->dtype;
        if (!ts_dtype_is_floating(dtype))
            return ts_fail(TS_EDTYPE, "%s: input %d is %s; needs a floating dtype", call->def->name,
                           i, ts_dtype_name(dtype));
    }
    return TS_OK;
}

/* Whole numbers keep integers what they are; bool becomes int64. */
ts_status ts_infer_scalar(const ts_op_call *call, ts_spec *out)
{
    TS_TRY(ts_infer_promoted(call, out));
    bool whole = true;
    for (int i = 0; i < call->num_attrs; i++) {
        double p = call->attr[i].f;
        whole = whole && (isinf(p) || p == floor(p));
    }
    if (!whole) out->dtype = floating(out->dtype);
    if (whole && out->dtype == TS_BOOL) out->dtype = TS_INT64;
    return fit_in_place(call, out);
}

ts_status ts_infer_bool(const ts_op_call *call, ts_spec *out)
{
    TS_TRY(ts_infer_promoted(call, out));
    out->dtype = TS_BOOL;
    return TS_OK;
}

ts_status ts_infer_where(const ts_op_call *call, ts_spec *out)
{
    TS_TRY(ts_need_dtype(call->def->name, "the condition", call->in[0], TS_BOOL));
    TS_TRY(ts_infer_promoted(call, out));
    return ts_promote(&out->dtype, call->def->name, call->in + 1, 2);
}

ts_tensor *ts_scalar_like(ts_tensor *a, double value)
{
    if (!a || ts_failed(a)) return a;
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = (ts_dtype)a->dtype;
    opt.device = (ts_device)a->device;
    if (!ts_dtype_is_floating(opt.dtype))
        opt.dtype = value == floor(value) && fabs(value) < 0x1p63 ? TS_INT64 : TS_FLOAT32;
    return ts_scalar(value, &opt);
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

static bool same_elements(const ts_tensor *a, const ts_tensor *b)
{
    if (a->offset != b->offset || a->shape.ndim != b->shape.ndim) return false;
    for (int i = 0; i < a->shape.ndim; i++)
        if (a->shape.dim[i] != b->shape.dim[i] || a->stride[i] != b->stride[i]) return false;
    return true;
}

/* The dtype of the loop: what the inputs promote to, and the output if it takes part. */
static ts_status loop_dtype(const ts_op_call *call, ts_dtype *dtype)
{
    int first = call->def->loop == TS_LOOP_WHERE; /* the condition does not count */
    *dtype = (ts_dtype)call->out[0]->dtype;
    bool same = true;
    for (int i = first; i < call->num_in; i++) same = same && call->in[i]->dtype == *dtype;
    if (!same) {
        ts_dtype out = *dtype;
        TS_TRY(ts_promote(dtype, call->def->name, call->in + first, call->num_in - first));
        if (out != TS_BOOL) *dtype = ts_promote_dtypes(*dtype, out);
    }
    *dtype = compute_dtype(*dtype);
    return TS_OK;
}

typedef struct direct {
    ts_loop loop;
    double p[2];
} direct;

static void direct_line(char *const *at, const int64_t *step, int64_t n, const void *user)
{
    const direct *d = user;
    d->loop(at, step, n, d->p);
}

/* Where an operand has another dtype than the loop. */
typedef struct job {
    direct direct;
    int count;
    int64_t own[TS_WALK_MAX]; /* bytes of an element of each operand */
    ts_convert_fn
        convert[TS_WALK_MAX]; /* to the dtype of the loop (the output: from it), or NULL */
} job;

enum { PIECE = 256, WIDEST = 8 };
typedef struct buffer {
    _Alignas(64) char bytes[PIECE * WIDEST];
} buffer;

/* n elements of operand k in the dtype of the loop, in to; a repeated one is converted once. */
static void load_piece(const job *j, int k, void *to, const char *from, int64_t step, int64_t n)
{
    buffer raw;
    if (step == 0) n = 1;
    if (step != 1 && step != 0) {
        ts_kernel_copy_line(raw.bytes, 1, from, step, n, (size_t)j->own[k]);
        from = raw.bytes;
    }
    j->convert[k](to, from, n);
}

static void store_piece(const job *j, char *to, int64_t step, const void *from, int64_t n)
{
    buffer raw;
    if (step == 1) {
        j->convert[0](to, from, n);
        return;
    }
    j->convert[0](raw.bytes, from, n);
    ts_kernel_copy_line(to, step, raw.bytes, 1, n, (size_t)j->own[0]);
}

static void converting_line(char *const *at, const int64_t *step, int64_t n, const void *user)
{
    const job *j = user;
    buffer piece[TS_WALK_MAX];
    for (int64_t done = 0; done < n; done += PIECE) {
        int64_t count = n - done < PIECE ? n - done : PIECE, steps[TS_WALK_MAX];
        char *part[TS_WALK_MAX], *to[TS_WALK_MAX];
        for (int k = 0; k < j->count; k++) {
            part[k] = to[k] = at[k] + done * step[k] * j->own[k];
            steps[k] = step[k];
            if (!j->convert[k]) continue;
            to[k] = piece[k].bytes; /* cppcheck-suppress [uninitvar, legacyUninitvar] */
            steps[k] = k > 0 && step[k] == 0 ? 0 : 1;
            if (k > 0) load_piece(j, k, to[k], part[k], step[k], count);
        }
        j->direct.loop(to, steps, count, j->direct.p);
        if (j->convert[0]) store_piece(j, part[0], step[0], to[0], count);
    }
}

static void plan_conversions(job *j, ts_tensor *const *t, int count, ts_dtype dtype)
{
    j->count = count;
    for (int k = 0; k < count; k++) {
        ts_dtype own = (ts_dtype)t[k]->dtype;
        j->own[k] = (int64_t)ts_dtype_size(own);
        j->convert[k] = NULL;
        if (own == dtype) continue;
        j->convert[k] = k == 0 ? ts_kernel_convert(own, dtype) : ts_kernel_convert(dtype, own);
    }
}

/* Where an input shares memory with the output element by element otherwise than one to one, a copy
 * takes its place. */
static ts_status part_from_output(ts_tensor **t, bool *copied, const ts_tensor *out)
{
    *copied = (*t)->storage == out->storage && !same_elements(*t, out);
    if (!*copied) return TS_OK;
    ts_spec spec = ts_tensor_spec(*t);
    ts_tensor *copy = ts_tensor_new_owned(&spec, TS_MEMORY_HEAP, TS_CATEGORY_ACTIVATION);
    ts_status status = ts_tensor_check(copy, "copy");
    if (status == TS_OK) status = ts_tensor_copy_data(copy, *t);
    *t = copy;
    return status;
}

/* Operands of another dtype, or that share memory with the output. */
static ts_status run_apart(const ts_op_call *call, ts_tensor **t, ts_dtype dtype,
                           const direct *loop)
{
    bool copied[TS_WALK_MAX] = {false};
    ts_status status = TS_OK;
    for (int k = 1; k <= call->num_in && status == TS_OK; k++)
        status = part_from_output(&t[k], &copied[k], t[0]);
    if (status == TS_OK) {
        job j = {.direct = *loop};
        plan_conversions(&j, t, call->num_in + 1, dtype);
        ts_walk(t, call->num_in + 1, converting_line, &j);
    }
    for (int k = 1; k <= call->num_in; k++)
        if (copied[k]) ts_release(t[k]);
    return status;
}

ts_status ts_elementwise_kernel(ts_op_call *call)
{
    ts_dtype dtype;
    TS_TRY(loop_dtype(call, &dtype));
    const ts_elementwise_kernels *kernels = ts_elementwise_kernels_for(dtype);
    direct loop = {kernels ? kernels->loop[call->def->loop] : NULL, {0, 0}};
    if (!loop.loop)
        return ts_fail(TS_EDTYPE, "%s: not offered for %s", call->def->name, ts_dtype_name(dtype));
    for (int i = 0; i < call->num_attrs && i < 2; i++) loop.p[i] = call->attr[i].f;
    ts_tensor *t[TS_WALK_MAX] = {call->out[0]};
    bool apart = t[0]->dtype != (uint8_t)dtype;
    for (int k = 1; k <= call->num_in; k++) {
        t[k] = call->in[k - 1];
        apart = apart || t[k]->dtype != (uint8_t)dtype || t[k]->storage == t[0]->storage;
    }
    if (apart) return run_apart(call, t, dtype, &loop);
    ts_walk(t, call->num_in + 1, direct_line, &loop);
    return TS_OK;
}

/* ---- overlapping sums ------------------------------------------------------------------------ */

static const int64_t ones[] = {1, 1, 1};
static const double none[] = {0, 0};

/* Adds the elements of `from` at one position of all dimensions but the last. */
static void add_line(char *const *at, const int64_t *step, int64_t n, ts_loop add, int64_t size)
{
    for (int64_t i = 0; i < n; i++) {
        char *to = at[0] + i * step[0] * size;
        add((char *[]){to, to, at[1] + i * step[1] * size}, ones, 1, none);
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
                 kernels->loop[TS_LOOP_ADD], size);
        for (int i = last - 1; i >= 0 && ++index[i] == to->shape.dim[i]; i--) index[i] = 0;
    }
    return TS_OK;
}

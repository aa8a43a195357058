/* SPDX-License-Identifier: Apache-2.0 */
/* Makes tensors: checks the options, allocates, fills. */
#include <math.h>
#include <string.h>

#include "kernels/convert.h"
#include "tensor/factory_impl.h"

ts_tensor_options ts_tensor_options_default(void)
{
    return (ts_tensor_options)TS_TENSOR_OPTIONS_INIT;
}

static ts_status check_options(const char *op, const ts_tensor_options *opt)
{
    if (opt->struct_size == 0)
        return ts_fail(TS_EINVAL,
                       "%s: the options were not set up; start from "
                       "TS_TENSOR_OPTIONS_INIT",
                       op);
    if ((unsigned)opt->category >= TS_NUM_CATEGORIES)
        return ts_fail(TS_EINVAL, "%s: %d is not a memory category", op, (int)opt->category);
    if (opt->memory != TS_MEMORY_HEAP && opt->memory != TS_MEMORY_SHARED)
        return ts_fail(TS_EINVAL, "%s: %d is not a kind of memory", op, (int)opt->memory);
    if (opt->requires_grad && !ts_dtype_is_floating(opt->dtype))
        return ts_fail(TS_EDTYPE, "%s: only floating tensors can require grad, not %s", op,
                       ts_dtype_name(opt->dtype));
    return TS_OK;
}

ts_status ts_tensor_options_read(const char *op, const ts_tensor_options *opt, ts_dtype dtype,
                                 ts_tensor_options *out)
{
    ts_tensor_options full = TS_TENSOR_OPTIONS_INIT;
    full.dtype = dtype;
    if (opt) {
        TS_TRY(check_options(op, opt));
        size_t known = opt->struct_size < sizeof full ? opt->struct_size : sizeof full;
        memcpy(&full, opt, known);
    }
    *out = full;
    return TS_OK;
}

static ts_tensor *mark_grad(ts_tensor *t, const ts_tensor_options *opt)
{
    if (!opt->requires_grad || ts_failed(t) || !ts_autograd_leaf_hook) return t;
    ts_status status = ts_autograd_leaf_hook(t, true);
    return status == TS_OK ? t : ts_fail_tensor_last(status);
}

ts_tensor *ts_make(const char *op, ts_shape shape, const ts_tensor_options *opt, ts_dtype dtype)
{
    ts_tensor_options full;
    ts_status status = ts_tensor_options_read(op, opt, dtype, &full);
    if (status != TS_OK) return ts_fail_tensor_last(status);
    ts_spec spec = {shape, full.dtype, full.device};
    return mark_grad(ts_tensor_new(&spec, full.memory, full.category), &full);
}

static ts_tensor *filled(ts_tensor *t, double value)
{
    if (!ts_failed(t)) ts_tensor_fill_data(t, value);
    return t;
}

ts_tensor *ts_empty(ts_shape shape, const ts_tensor_options *opt)
{
    return ts_make("empty", shape, opt, TS_FLOAT32);
}

ts_tensor *ts_zeros(ts_shape shape, const ts_tensor_options *opt)
{
    return filled(ts_make("zeros", shape, opt, TS_FLOAT32), 0);
}

ts_tensor *ts_ones(ts_shape shape, const ts_tensor_options *opt)
{
    return filled(ts_make("ones", shape, opt, TS_FLOAT32), 1);
}

ts_tensor *ts_full(ts_shape shape, double value, const ts_tensor_options *opt)
{
    return filled(ts_make("full", shape, opt, TS_FLOAT32), value);
}

ts_tensor *ts_scalar(double value, const ts_tensor_options *opt)
{
    return filled(ts_make("scalar", ts_shape_scalar(), opt, TS_FLOAT32), value);
}

static ts_tensor *make_like(const char *op, ts_tensor *t)
{
    if (!t) return ts_fail_tensor(TS_EINVAL, "%s: the tensor is missing (NULL)", op);
    if (ts_failed(t)) return t;
    ts_spec spec = ts_tensor_spec(t);
    return ts_tensor_new(&spec, TS_MEMORY_HEAP, TS_CATEGORY_ACTIVATION);
}

ts_tensor *ts_empty_like(ts_tensor *t) { return make_like("empty_like", t); }

/* A failed t comes back as it is. */
static ts_tensor *filled_like(const char *op, ts_tensor *t, double value)
{
    return filled(make_like(op, t), value);
}

ts_tensor *ts_zeros_like(ts_tensor *t) { return filled_like("zeros_like", t, 0); }

ts_tensor *ts_ones_like(ts_tensor *t) { return filled_like("ones_like", t, 1); }

/* Value i is start + i step, each rounded once. */
static void fill_sequence(ts_tensor *t, double start, double step)
{
    enum { PIECE = 128 };
    double values[PIECE];
    ts_convert_fn convert = ts_kernel_convert((ts_dtype)t->dtype, TS_FLOAT64);
    size_t size = ts_element_size(t->dtype);
    for (int64_t at = 0; at < t->numel; at += PIECE) {
        int64_t n = t->numel - at < PIECE ? t->numel - at : PIECE;
        for (int64_t i = 0; i < n; i++) values[i] = start + (double)(at + i) * step;
        convert(ts_tensor_bytes(t) + at * (int64_t)size, values, n);
    }
}

static bool is_complex(ts_dtype dtype) { return dtype == TS_COMPLEX64 || dtype == TS_COMPLEX128; }

ts_tensor *ts_arange(double start, double end, double step, const ts_tensor_options *opt)
{
    double count = ceil((end - start) / step);
    if (!(step != 0) || !isfinite(count))
        return ts_fail_tensor(TS_EINVAL, "arange: from %g to %g by %g has no end", start, end,
                              step);
    if (count < 0) count = 0;
    if (count > 0x1p62) return ts_fail_tensor(TS_ESHAPE, "arange: %g elements are too many", count);
    if (opt && is_complex(opt->dtype))
        return ts_fail_tensor(TS_EDTYPE, "arange: complex numbers have no order");
    ts_tensor *t = ts_make("arange", TS_SHAPE((int64_t)count), opt, TS_FLOAT32);
    if (!ts_failed(t) && t->device == TS_CPU) fill_sequence(t, start, step);
    return t;
}

ts_tensor *ts_eye(int64_t n, const ts_tensor_options *opt)
{
    ts_tensor *t = filled(ts_make("eye", TS_SHAPE(n, n), opt, TS_FLOAT32), 0);
    if (ts_failed(t) || n == 0) return t;
    ts_tensor diagonal = *t;
    diagonal.shape = TS_SHAPE(n);
    diagonal.stride[0] = n + 1;
    diagonal.numel = n;
    diagonal.contiguous = n == 1;
    ts_tensor_fill_data(&diagonal, 1);
    return t;
}

ts_tensor *ts_from_data(const void *data, ts_shape shape, const ts_tensor_options *opt)
{
    ts_tensor *t = ts_make("from_data", shape, opt, TS_FLOAT32);
    if (ts_failed(t) || t->numel == 0 || t->device == TS_META) return t;
    if (!data) return ts_fail_tensor(TS_EINVAL, "from_data: data is missing (NULL)");
    memcpy(ts_tensor_bytes(t), data, ts_nbytes(t));
    return t;
}

/* The storage is made last, so that a failed wrap never runs release. */
static ts_tensor *wrap(void *data, ts_shape shape, const ts_tensor_options *opt,
                       void (*release)(void *data, void *user), void *user)
{
    ts_spec spec = {shape, opt->dtype, TS_CPU};
    int64_t numel = ts_shape_numel(shape), bytes;
    if (numel < 0 || __builtin_mul_overflow(numel, (int64_t)ts_dtype_size(spec.dtype), &bytes)) {
        char text[TS_SHAPE_TEXT];
        return ts_fail_tensor(TS_ESHAPE, "wrap: shape %s is negative or too large",
                              ts_shape_format(text, sizeof text, shape));
    }
    if (numel > 0 && !data) return ts_fail_tensor(TS_EINVAL, "wrap: data is missing (NULL)");
    ts_storage *storage = ts_storage_wrap(data, (size_t)bytes, opt->category, NULL, NULL);
    if (!storage) return ts_fail_tensor_last(TS_ENOMEM);
    ts_tensor *t = ts_scope_give(ts_tensor_over(storage, &spec, 0));
    if (!ts_failed(t)) {
        storage->release = release;
        storage->user = user;
    }
    ts_storage_release(storage);
    return mark_grad(t, opt);
}

ts_tensor *ts_wrap(void *data, ts_shape shape, const ts_tensor_options *opt,
                   void (*release)(void *data, void *user), void *user)
{
    ts_tensor_options full;
    ts_status status = ts_tensor_options_read("wrap", opt, TS_FLOAT32, &full);
    if (status != TS_OK) return ts_fail_tensor_last(status);
    return wrap(data, shape, &full, release, user);
}

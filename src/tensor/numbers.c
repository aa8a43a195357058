/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers out of and into tensors. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "kernels/convert.h"
#include "tensor/tensor.h"

static ts_status check_data(const char *op, const ts_tensor *t)
{
    TS_TRY(ts_tensor_check(t, op));
    if (t->device != TS_META) return TS_OK;
    return ts_fail(TS_EINVAL, "%s: a meta tensor has no data", op);
}

static ts_status read_element(const char *op, ts_tensor *t, ts_dtype dtype, void *out)
{
    TS_TRY(check_data(op, t));
    if (!out) return ts_fail(TS_EINVAL, "%s: the place for the number is missing (NULL)", op);
    if (t->numel != 1) {
        char text[TS_SHAPE_TEXT];
        return ts_fail(TS_ESHAPE, "%s: shape %s has %lld elements, not one", op,
                       ts_shape_format(text, sizeof text, t->shape), (long long)t->numel);
    }
    ts_convert_fn convert = ts_kernel_convert(dtype, (ts_dtype)t->dtype);
    if (!convert)
        return ts_fail(TS_EDTYPE, "%s: %s is not a real number", op,
                       ts_dtype_name((ts_dtype)t->dtype));
    convert(out, ts_tensor_bytes(t), 1);
    return TS_OK;
}

ts_status ts_item(ts_tensor *t, double *out) { return read_element("item", t, TS_FLOAT64, out); }

ts_status ts_item_int(ts_tensor *t, int64_t *out)
{
    return read_element("item_int", t, TS_INT64, out);
}

static ts_status check_bytes(const char *op, const ts_tensor *t, const void *data, size_t bytes)
{
    if (bytes != ts_nbytes(t)) {
        char text[TS_SHAPE_TEXT];
        return ts_fail(TS_ESHAPE, "%s: %zu bytes were given; shape %s of %s has %zu", op, bytes,
                       ts_shape_format(text, sizeof text, t->shape),
                       ts_dtype_name((ts_dtype)t->dtype), ts_nbytes(t));
    }
    if (bytes > 0 && !data) return ts_fail(TS_EINVAL, "%s: the buffer is missing (NULL)", op);
    return TS_OK;
}

/* Copies between t and a row-major buffer that is aligned. */
static ts_status exchange_aligned(ts_tensor *t, void *buffer, bool out)
{
    ts_storage storage = {.data = buffer, .nbytes = ts_nbytes(t)};
    ts_tensor flat = {.dtype = t->dtype,
                      .shape = t->shape,
                      .numel = t->numel,
                      .contiguous = true,
                      .storage = &storage};
    ts_row_major_strides(flat.stride, flat.shape);
    return out ? ts_tensor_copy_data(&flat, t) : ts_tensor_copy_data(t, &flat);
}

static bool is_aligned(const ts_tensor *t, const void *buffer)
{
    size_t size = ts_element_size(t->dtype);
    return (uintptr_t)buffer % (size < sizeof(double) ? size : sizeof(double)) == 0;
}

/* Users' buffers may lie anywhere, such as in the middle of a file. */
static ts_status exchange(ts_tensor *t, void *buffer, bool out)
{
    size_t bytes = ts_nbytes(t);
    if (is_aligned(t, buffer)) return exchange_aligned(t, buffer, out);
    void *between = ts_calloc(bytes, 1);
    if (!between)
        return ts_fail(TS_ENOMEM, "%s: no memory for %zu bytes", out ? "copy_out" : "copy_in",
                       bytes);
    if (!out) memcpy(between, buffer, bytes);
    ts_status status = exchange_aligned(t, between, out);
    if (out && status == TS_OK) memcpy(buffer, between, bytes);
    free(between);
    return status;
}

ts_status ts_copy_out(ts_tensor *t, void *out, size_t bytes)
{
    TS_TRY(check_data("copy_out", t));
    TS_TRY(check_bytes("copy_out", t, out, bytes));
    return exchange(t, out, true);
}

ts_status ts_copy_in(ts_tensor *t, const void *data, size_t bytes)
{
    TS_TRY(check_data("copy_in", t));
    TS_TRY(check_bytes("copy_in", t, data, bytes));
    TS_TRY(ts_tensor_check_writable("copy_in", t));
    ts_tensor_bump(t);
    return exchange(t, (void *)data, false);
}

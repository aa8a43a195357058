/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic and text of shapes. */
#include <stdio.h>
#include <tessera/shape.h>

#include "tensor/tensor.h"

ts_shape ts_shape_make(int ndim, const int64_t *dims)
{
    ts_shape shape = {.ndim = ndim < 0 || ndim > TS_MAX_DIMS ? -1 : ndim};
    for (int i = 0; i < shape.ndim; i++) shape.dim[i] = dims[i];
    return shape;
}

ts_shape ts_shape_scalar(void) { return (ts_shape){.ndim = 0}; }

bool ts_shape_equal(ts_shape a, ts_shape b)
{
    if (a.ndim != b.ndim) return false;
    for (int i = 0; i < a.ndim; i++)
        if (a.dim[i] != b.dim[i]) return false;
    return true;
}

/* A zero size does not hide an overflow: strides must be representable too. */
int64_t ts_shape_numel(ts_shape shape)
{
    if (shape.ndim < 0 || shape.ndim > TS_MAX_DIMS) return -1;
    int64_t product = 1;
    bool empty = false;
    for (int i = 0; i < shape.ndim; i++) {
        if (shape.dim[i] < 0) return -1;
        if (shape.dim[i] == 0)
            empty = true;
        else if (__builtin_mul_overflow(product, shape.dim[i], &product))
            return -1;
    }
    return empty ? 0 : product;
}

char *ts_shape_format(char *buf, size_t size, ts_shape shape)
{
    if (shape.ndim < 0) {
        snprintf(buf, size, "(more than %d dimensions)", TS_MAX_DIMS);
        return buf;
    }
    size_t used = 0;
    for (int i = 0; i < shape.ndim && used < size; i++)
        used += (size_t)snprintf(buf + used, size - used, "%s%lld", i ? ", " : "(",
                                 (long long)shape.dim[i]);
    if (used < size)
        snprintf(buf + used, size - used, "%s",
                 shape.ndim == 0   ? "()"
                 : shape.ndim == 1 ? ",)"
                                   : ")");
    return buf;
}

void ts_row_major_strides(int64_t *stride, ts_shape shape)
{
    int64_t step = 1;
    for (int i = shape.ndim - 1; i >= 0; i--) {
        stride[i] = step;
        if (shape.dim[i] > 1) step *= shape.dim[i];
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors: strided views of reference-counted storage.
 *
 * Tensors are values: functions return them, calls nest like mathematics, and failure travels in
 * the value.  A failed tensor keeps its first cause; every function passes it on; accessors give 0,
 * NULL or NaN.  A returned tensor belongs to the calling thread's innermost scope (scope.h): never
 * free it; ts_retain keeps it longer.
 *
 * Unless said otherwise: local (no communication), any thread, a tensor must not be changed by one
 * thread while another one uses it. */
#ifndef TESSERA_TENSOR_H
#define TESSERA_TENSOR_H

#include <stdio.h>
#include <tessera/dtype.h>
#include <tessera/memory.h>
#include <tessera/shape.h>
#include <tessera/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ts_tensor ts_tensor;

/* What a tensor looks like. */
typedef struct ts_spec {
    ts_shape shape;
    ts_dtype dtype;
    ts_device device;
} ts_spec;

/* ---- making tensors -------------------------------------------------------------------------- */

typedef struct ts_tensor_options {
    size_t struct_size; /* set by _INIT; 0 is refused */
    ts_dtype dtype;     /* float32 */
    ts_device device;   /* TS_CPU */
    ts_memory memory;   /* TS_MEMORY_HEAP; TS_MEMORY_SHARED: the rank's heap that peers can read */
    ts_category category; /* ledger entry: TS_CATEGORY_ACTIVATION */
    bool requires_grad;   /* false */
} ts_tensor_options;
#define TS_TENSOR_OPTIONS_INIT                                                                     \
    {                                                                                              \
        sizeof(ts_tensor_options), TS_FLOAT32, TS_CPU, TS_MEMORY_HEAP, TS_CATEGORY_ACTIVATION,     \
            false                                                                                  \
    }
TS_API ts_tensor_options ts_tensor_options_default(void);

/* opt NULL: float32 on the CPU.  Sizes may be 0; negative or overflowing sizes: TS_ESHAPE. */
TS_API ts_tensor *ts_empty(ts_shape shape, const ts_tensor_options *opt); /* contents undefined */
TS_API ts_tensor *ts_zeros(ts_shape shape, const ts_tensor_options *opt);
TS_API ts_tensor *ts_ones(ts_shape shape, const ts_tensor_options *opt);
TS_API ts_tensor *ts_full(ts_shape shape, double value, const ts_tensor_options *opt);
TS_API ts_tensor *ts_scalar(double value, const ts_tensor_options *opt); /* 0-dim */
/* start, start + step, ... below end (above, if step < 0). */
TS_API ts_tensor *ts_arange(double start, double end, double step, const ts_tensor_options *opt);
TS_API ts_tensor *ts_eye(int64_t n, const ts_tensor_options *opt);
TS_API ts_tensor *ts_empty_like(ts_tensor *t); /* shape, dtype and device of t; row-major */
TS_API ts_tensor *ts_zeros_like(ts_tensor *t);
TS_API ts_tensor *ts_ones_like(ts_tensor *t);

/* A row-major copy of numel elements of opt's dtype at data. */
TS_API ts_tensor *ts_from_data(const void *data, ts_shape shape, const ts_tensor_options *opt);
/* A tensor over the caller's row-major memory, without copy.  release(data, user), if not NULL,
 * runs when the last view has gone, on the thread that drops it. */
TS_API ts_tensor *ts_wrap(void *data, ts_shape shape, const ts_tensor_options *opt,
                          void (*release)(void *data, void *user), void *user);
/* A read-only 1-D uint8 tensor over the whole of a file, mapped.  TS_EIO names the file. */
TS_API ts_tensor *ts_map_file(const char *path);

/* Random fills: value i depends only on (seed, offset, i), see random.h. */
TS_API ts_tensor *ts_rand(ts_shape shape, const ts_tensor_options *opt);  /* uniform [0, 1) */
TS_API ts_tensor *ts_randn(ts_shape shape, const ts_tensor_options *opt); /* normal (0, 1) */
TS_API ts_tensor *
ts_randint(int64_t low, int64_t high, ts_shape shape,
           const ts_tensor_options *opt); /* [low, high); dtype int64 if opt NULL */

TS_API ts_tensor *ts_randperm(int64_t n, const ts_tensor_options *opt); /* of 0 .. n-1; int64 */

/* ---- what a tensor is ------------------------------------------------------------------------ */

TS_API bool ts_failed(const ts_tensor *t);              /* false for NULL */
TS_API ts_status ts_tensor_status(const ts_tensor *t);  /* TS_OK unless failed */
TS_API const char *ts_tensor_error(const ts_tensor *t); /* first cause; "" unless failed */
TS_API int ts_ndim(const ts_tensor *t);
TS_API ts_shape ts_tensor_shape(const ts_tensor *t);
TS_API int64_t ts_size(const ts_tensor *t, int dim);   /* dim may be negative; 0 if out of range */
TS_API int64_t ts_stride(const ts_tensor *t, int dim); /* in elements */
TS_API int64_t ts_numel(const ts_tensor *t);
TS_API size_t ts_nbytes(const ts_tensor *t); /* numel times element size */
TS_API ts_dtype ts_tensor_dtype(const ts_tensor *t);
TS_API ts_device ts_tensor_device(const ts_tensor *t);
TS_API int64_t ts_storage_offset(const ts_tensor *t); /* in elements */
TS_API bool ts_is_contiguous(const ts_tensor *t);     /* row-major, no gaps */
TS_API bool ts_is_shared(const ts_tensor *t);         /* lies in the shared rank heap */
TS_API bool ts_same_storage(const ts_tensor *a, const ts_tensor *b);
/* Address of the first element; NULL when failed, empty or meta.  ts_data_mut also tells autograd
 * that the contents change (version counter). */
TS_API const void *ts_data(const ts_tensor *t);
TS_API void *ts_data_mut(ts_tensor *t);

/* Name used in messages; copied.  Modules name their parameters. */
TS_API void ts_tensor_set_name(ts_tensor *t, const char *name);
TS_API const char *ts_tensor_name(const ts_tensor *t); /* "" if none */

/* ---- reading and writing numbers (actions) --------------------------------------------------- */

/* The only element, converted.  TS_ESHAPE unless numel is 1; a failed value's own status. */
TS_API ts_status ts_item(ts_tensor *t, double *out);
TS_API ts_status ts_item_int(ts_tensor *t, int64_t *out);
/* All elements in row-major order, in the tensor's dtype; bytes must equal ts_nbytes. */
TS_API ts_status ts_copy_out(ts_tensor *t, void *out, size_t bytes);
TS_API ts_status ts_copy_in(ts_tensor *t, const void *data, size_t bytes);

/* Readable text (shape, dtype, values with truncation); malloc'd, yours to free; NULL: out of
 * memory.  A failed tensor gives its cause. */
TS_API char *ts_tensor_to_string(const ts_tensor *t);
TS_API void ts_tensor_print(const ts_tensor *t, FILE *to);

#ifdef __cplusplus
}
#endif
#endif

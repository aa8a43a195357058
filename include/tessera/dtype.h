/* SPDX-License-Identifier: Apache-2.0 */
/* Dtypes and the rules of conversion.
 *
 * To floating types: rounded to nearest even, once; what is too large becomes infinity; NaN stays
 * NaN.  Floating to integer: towards zero; beyond the range the nearest limit; NaN gives 0.
 * Integer to narrower integer: the low bits.  To bool: true unless zero (NaN is true).  Complex numbers are
 * copied, never converted. */
#ifndef TESSERA_DTYPE_H
#define TESSERA_DTYPE_H

#include <tessera/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, number, bytes, text).  complex64 and complex128 are stored and communicated only. */
#define TS_DTYPES(X)                                                                               \
    X(FLOAT32, 0, 4, "float32")                                                                    \
    X(FLOAT64, 1, 8, "float64")                                                                    \
    X(FLOAT16, 2, 2, "float16")                                                                    \
    X(BFLOAT16, 3, 2, "bfloat16")                                                                  \
    X(INT8, 4, 1, "int8")                                                                          \
    X(UINT8, 5, 1, "uint8")                                                                        \
    X(INT16, 6, 2, "int16")                                                                        \
    X(INT32, 7, 4, "int32")                                                                        \
    X(INT64, 8, 8, "int64")                                                                        \
    X(BOOL, 9, 1, "bool")                                                                          \
    X(COMPLEX64, 10, 8, "complex64")                                                               \
    X(COMPLEX128, 11, 16, "complex128")

typedef enum ts_dtype {
#define X(name, number, bytes, text) TS_##name = number,
    TS_DTYPES(X)
#undef X
        TS_NUM_DTYPES = 12
} ts_dtype;

TS_API const char *ts_dtype_name(ts_dtype dtype); /* "float32"; "unknown" */
TS_API size_t ts_dtype_size(ts_dtype dtype);      /* bytes of one element; 0 if unknown */
TS_API bool ts_dtype_is_floating(ts_dtype dtype); /* float32, float64, float16, bfloat16 */

typedef enum ts_device {
    TS_CPU = 0,
    TS_META = 1, /* shapes only, no bytes */
    TS_CUDA = 2  /* reserved for the plug-in */
} ts_device;
#define TS_NUM_DEVICES 3

TS_API const char *ts_device_name(ts_device device);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The end of an average whose sum was made in several steps. */
#include "kernels/combine.h"
#include "kernels/half.h"

#define DIVIDE(TYPE)                                                                               \
    do {                                                                                           \
        TYPE *x = data;                                                                            \
        for (int64_t i = 0; i < count; i++) x[i] = (TYPE)(x[i] / (TYPE)n);                         \
    } while (0)

/* n may not fit into the small integer types. */
#define DIVIDE_WIDE(TYPE)                                                                          \
    do {                                                                                           \
        TYPE *x = data;                                                                            \
        for (int64_t i = 0; i < count; i++) x[i] = (TYPE)(x[i] / n);                               \
    } while (0)

static void divide_half(uint16_t *x, int64_t count, float n)
{
    for (int64_t i = 0; i < count; i++) x[i] = ts_f16_from_f32(ts_f16_to_f32(x[i]) / n);
}

static void divide_bfloat(uint16_t *x, int64_t count, float n)
{
    for (int64_t i = 0; i < count; i++) x[i] = ts_bf16_from_f32(ts_bf16_to_f32(x[i]) / n);
}

void ts_combine_divide(void *data, int64_t count, ts_dtype dtype, int64_t n)
{
    switch (dtype) {
    case TS_COMPLEX64: ts_combine_divide(data, 2 * count, TS_FLOAT32, n); break;
    case TS_COMPLEX128: ts_combine_divide(data, 2 * count, TS_FLOAT64, n); break;
    case TS_FLOAT32: DIVIDE(float); break;
    case TS_FLOAT64: DIVIDE(double); break;
    case TS_FLOAT16: divide_half(data, count, (float)n); break;
    case TS_BFLOAT16: divide_bfloat(data, count, (float)n); break;
    case TS_INT8: DIVIDE_WIDE(int8_t); break;
    case TS_UINT8: DIVIDE_WIDE(uint8_t); break;
    case TS_INT16: DIVIDE_WIDE(int16_t); break;
    case TS_INT32: DIVIDE_WIDE(int32_t); break;
    case TS_INT64: DIVIDE_WIDE(int64_t); break;
    default: break;
    }
}

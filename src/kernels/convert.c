/* SPDX-License-Identifier: Apache-2.0 */
/* Choice of conversion kernels; lines of copied or repeated elements. */
#include "kernels/convert.h"

#include <string.h>

#include "kernels/convert_impl.h"
#include "kernels/isa.h"

ts_convert_fn ts_kernel_convert(ts_dtype to, ts_dtype from)
{
    ts_convert_fn fast = NULL;
#if defined(__x86_64__)
    if (ts_isa_in_use() >= TS_ISA_AVX2) fast = ts_convert_avx2(to, from);
#endif
    return fast ? fast : ts_convert_ref(to, from);
}

typedef struct pair {
    uint64_t low, high;
} pair;

#define LINES(type)                                                                                \
    static void copy_##type(type *to, int64_t to_step, const type *from, int64_t from_step,        \
                            int64_t n)                                                             \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++) to[i * to_step] = from[i * from_step];                     \
    }                                                                                              \
    static void fill_##type(type *to, int64_t step, type value, int64_t n)                         \
    {                                                                                              \
        if (step == 1)                                                                             \
            for (int64_t i = 0; i < n; i++) to[i] = value;                                         \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++) to[i * step] = value;                                  \
    }
LINES(uint8_t)
LINES(uint16_t)
LINES(uint32_t)
LINES(uint64_t)
LINES(pair)
#undef LINES

void ts_kernel_copy_line(void *to, int64_t to_step, const void *from, int64_t from_step, int64_t n,
                         size_t size)
{
    if (to_step == 1 && from_step == 1) {
        memcpy(to, from, (size_t)n * size);
        return;
    }
    switch (size) {
    case 1: copy_uint8_t(to, to_step, from, from_step, n); break;
    case 2: copy_uint16_t(to, to_step, from, from_step, n); break;
    case 4: copy_uint32_t(to, to_step, from, from_step, n); break;
    case 8: copy_uint64_t(to, to_step, from, from_step, n); break;
    default: copy_pair(to, to_step, from, from_step, n);
    }
}

void ts_kernel_fill_line(void *to, int64_t step, const void *value, int64_t n, size_t size)
{
    switch (size) {
    case 1: fill_uint8_t(to, step, *(const uint8_t *)value, n); break;
    case 2: fill_uint16_t(to, step, *(const uint16_t *)value, n); break;
    case 4: fill_uint32_t(to, step, *(const uint32_t *)value, n); break;
    case 8: fill_uint64_t(to, step, *(const uint64_t *)value, n); break;
    default: fill_pair(to, step, *(const pair *)value, n);
    }
}

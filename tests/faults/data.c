/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of bytes that say who made them. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "faults.h"

void complain(seat *s, const char *format, ...)
{
    va_list args;
    if (s->complaint[0]) return;
    va_start(args, format);
    vsnprintf(s->complaint, sizeof s->complaint, format, args);
    va_end(args);
}

int64_t some_count(member *m)
{
    static const int64_t most[] = {1, 2, 2, 50, 300, 300, 5000, 20000, 100000, 400000};
    return dice_below(&m->dice, most[dice_below(&m->dice, 10)]);
}

ts_dtype some_dtype(member *m) { return (ts_dtype)dice_below(&m->dice, TS_NUM_DTYPES); }

ts_tensor *blank(int64_t count, ts_dtype dtype)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = dtype;
    if (count % 3 == 0) opt.memory = TS_MEMORY_SHARED;
    ts_tensor *t = ts_empty(TS_SHAPE(count), &opt);
    if (count) memset(ts_data_mut(t), 0xee, ts_nbytes(t));
    return t;
}

static unsigned char byte_of(const member *m, int rank, int64_t i)
{
    uint64_t at = (uint64_t)i;
    return (unsigned char)(m->salt + (uint64_t)rank * 41 + at * 7 + (at >> 8) * 13);
}

/* Bytes of bool are 0 and 1. */
static unsigned char mask_of(ts_dtype dtype) { return dtype == TS_BOOL ? 1 : 0xff; }

ts_tensor *bytes_of(member *m, int rank, int64_t count, ts_dtype dtype)
{
    ts_tensor *t = blank(count, dtype);
    unsigned char *byte = count ? ts_data_mut(t) : NULL, mask = mask_of(dtype);
    for (int64_t i = 0; i < (int64_t)ts_nbytes(t); i++) byte[i] = byte_of(m, rank, i) & mask;
    return t;
}

void expect_bytes(member *m, const char *what, ts_tensor *t, int64_t first, int rank, int64_t count)
{
    int64_t size = (int64_t)ts_dtype_size(ts_tensor_dtype(t));
    const unsigned char *byte = (const unsigned char *)ts_data(t) + first * size;
    unsigned char mask = mask_of(ts_tensor_dtype(t));
    for (int64_t i = 0; i < count * size; i++)
        if (byte[i] != (byte_of(m, rank, i) & mask)) {
            complain(m->seat,
                     "wrong data: %s of %d x %s: byte %d of what rank %d sent is %d, not %d", what,
                     (int)count, ts_dtype_name(ts_tensor_dtype(t)), (int)i, rank, byte[i],
                     byte_of(m, rank, i) & mask);
            return;
        }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The default generator, for operations that draw random numbers. */
#ifndef TS_TENSOR_RANDOM_H
#define TS_TENSOR_RANDOM_H

#include <tessera/random.h>

#include "kernels/philox.h"

/* Takes n values from the default generator of the calling thread's rank: returns its state before,
 * and moves its offset by n rounded up to a multiple of 4.  Value i of what was taken is element
 * offset + i of the sequence of seed. */
ts_generator_state ts_generator_reserve(int64_t n);

/* Uniform [0, 1) value i of a reserved state; operations and their backward make the same ones.
 * Many at a time: ts_kernel_uniform_f32(out, n, state.seed, state.offset + i). */
static inline float ts_random_uniform(ts_generator_state state, int64_t i)
{
    float value;
    ts_kernel_uniform_f32(&value, 1, state.seed, state.offset + (uint64_t)i);
    return value;
}

#endif

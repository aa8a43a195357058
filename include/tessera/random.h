/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers by element: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
 * 1, 2, 3", SC 2011).  Value i of a fill is a function of (seed, offset, i) alone - not of threads,
 * strides or device.  A fill of n values moves the generator's offset by n rounded up to a multiple
 * of 4.  The default generator belongs to the rank and starts with seed 0 and offset 0, so ranks
 * draw the same numbers until each sets a seed of its own. */
#ifndef TESSERA_RANDOM_H
#define TESSERA_RANDOM_H

#include <tessera/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ts_generator_state {
    uint64_t seed, offset;
} ts_generator_state;

TS_API void ts_manual_seed(uint64_t seed); /* sets the seed, offset 0 */
TS_API ts_generator_state ts_generator_get_state(void);
TS_API void ts_generator_set_state(ts_generator_state state);

/* In-place fills of floating tensors; return t.  Not recorded by autograd; a leaf that requires
 * grad may be filled inside ts_no_grad only. */
TS_API ts_tensor *ts_uniform_(ts_tensor *t, double low, double high);
TS_API ts_tensor *ts_normal_(ts_tensor *t, double mean, double std);

/* A permutation of 0 .. n-1 (int64), Fisher-Yates driven by Philox(seed, 0). */
TS_API ts_status ts_permutation(int64_t *out, int64_t n, uint64_t seed);

#ifdef __cplusplus
}
#endif
#endif

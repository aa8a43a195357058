/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TS_KERNELS_PHILOX_IMPL_H
#define TS_KERNELS_PHILOX_IMPL_H

#include <stdint.h>

enum { TS_PHILOX_BATCH = 32 }; /* blocks made at once */

/* The words of TS_PHILOX_BATCH blocks from block first on, in element order. */
typedef void (*ts_philox_batch_fn)(uint32_t *out, uint64_t seed, uint64_t first, uint32_t stream);
void ts_philox_batch_ref(uint32_t *out, uint64_t seed, uint64_t first, uint32_t stream);
void ts_philox_batch_avx2(uint32_t *out, uint64_t seed, uint64_t first, uint32_t stream);

#endif

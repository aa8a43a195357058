/* SPDX-License-Identifier: Apache-2.0 */
#define BATCH ts_philox_batch_ref
#include "kernels/ref/philox.inc"

/* SPDX-License-Identifier: Apache-2.0 */
#define T int64_t
#define U uint64_t
#define LEAST INT64_MIN
#define MOST INT64_MAX
#define TABLE ts_elementwise_i64_ref
#include "kernels/ref/elementwise_int.inc"

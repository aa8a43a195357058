/* SPDX-License-Identifier: Apache-2.0 */
/* TS_INDEPENDENT before a loop: its rounds do not depend on each other (an output may be an input
 * at the same index), so it may be vectorised without a check for overlap. */
#ifndef TS_KERNELS_INDEPENDENT_H
#define TS_KERNELS_INDEPENDENT_H

#if defined(__clang__)
/* Loops that call the C library stay scalar, which is no reason to complain. */
#pragma clang diagnostic ignored "-Wpass-failed"
#define TS_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define TS_INDEPENDENT _Pragma("GCC ivdep")
#else
#define TS_INDEPENDENT
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TS_KERNELS_CONVERT_IMPL_H
#define TS_KERNELS_CONVERT_IMPL_H

#include "kernels/convert.h"

ts_convert_fn ts_convert_ref(ts_dtype to, ts_dtype from);
/* NULL where the plain loop is as good. */
ts_convert_fn ts_convert_avx2(ts_dtype to, ts_dtype from);

#endif

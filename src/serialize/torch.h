/* SPDX-License-Identifier: Apache-2.0 */
/* Names in torch.save's pickles. */
#ifndef TS_SERIALIZE_TORCH_H
#define TS_SERIALIZE_TORCH_H

#include <tessera/dtype.h>

/* torch.FloatStorage, ... and torch.float32, ... */
const char *ts_torch_storage_name(ts_dtype dtype);
const char *ts_torch_dtype_name(ts_dtype dtype);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TS_TENSOR_FACTORY_IMPL_H
#define TS_TENSOR_FACTORY_IMPL_H

#include "tensor/tensor.h"

/* Checks the options of op (NULL: defaults with that dtype) and completes those of an older
 * version of the struct. */
ts_status ts_tensor_options_read(const char *op, const ts_tensor_options *opt, ts_dtype dtype,
                                 ts_tensor_options *out);

/* A tensor by the options, in the scope, contents undefined.  dtype counts if opt is NULL. */
ts_tensor *ts_make(const char *op, ts_shape shape, const ts_tensor_options *opt, ts_dtype dtype);

#endif

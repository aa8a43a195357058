/* SPDX-License-Identifier: Apache-2.0 */
/* What layers share, for this folder. */
#ifndef TS_NN_LAYER_H
#define TS_NN_LAYER_H

#include <tessera/module.h>
#include <tessera/scope.h>

#include "base/options.h"
#include "nn/module.h"

/* An uninitialised parameter, added to m.  If it fails, so does m. */
ts_tensor *ts_layer_parameter(ts_module *m, const char *name, ts_shape shape, ts_dtype dtype);

#endif

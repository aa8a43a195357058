/* SPDX-License-Identifier: Apache-2.0 */
/* What the dispatcher asks of a checkpoint that keeps outputs of named operations.  Both are called
 * only while TS_MODE_KEEP is set. */
#ifndef TS_AUTOGRAD_CHECKPOINT_H
#define TS_AUTOGRAD_CHECKPOINT_H

#include "tensor/tensor.h"

/* When the function runs again: sets *there and gives the n outputs that op had the first time, in
 * the current scope. */
ts_status ts_checkpoint_take(bool *there, ts_tensor **out, int n, const char *op);
/* The first time: keeps them, if op is named. */
ts_status ts_checkpoint_keep(ts_tensor *const *out, int n, const char *op);

#endif

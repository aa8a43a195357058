/* SPDX-License-Identifier: Apache-2.0 */
/* The root reads the tensors of all ranks and reduces them in their order; the same bits as
 * all_reduce.  Only the root's tensor changes. */
#ifndef TS_COMM_REDUCE_H
#define TS_COMM_REDUCE_H

#include "comm/backend/native/native.h"

ts_status ts_reduce_shm(ts_shm *s, const ts_coll *coll);
ts_status ts_reduce_socket(ts_native *n, const ts_coll *coll);

#endif

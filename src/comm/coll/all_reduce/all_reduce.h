/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TS_COMM_ALL_REDUCE_H
#define TS_COMM_ALL_REDUCE_H

#include "comm/backend/native/native.h"

/* Small: everybody reads everybody's copy; one meeting. */
ts_status ts_all_reduce_flat(ts_shm *s, const ts_coll *coll);
/* Each rank reduces its share, then all copy the shares of the others. */
ts_status ts_all_reduce_shm(ts_shm *s, const ts_coll *coll);
ts_status ts_all_reduce_socket(ts_native *n, const ts_coll *coll);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TS_COMM_BROADCAST_H
#define TS_COMM_BROADCAST_H

#include "comm/backend/native/native.h"

/* In shared memory: picks one of the following two. */
ts_status ts_broadcast_local(ts_shm *s, const ts_coll *coll);
/* Small: the data rides with the root's header or in its slot. */
ts_status ts_broadcast_flat(ts_shm *s, const ts_coll *coll);
/* All copy from the root. */
ts_status ts_broadcast_shm(ts_shm *s, const ts_coll *coll);
ts_status ts_broadcast_socket(ts_native *n, const ts_coll *coll);

static inline size_t ts_tensor_bytes_of(const ts_coll *coll)
{
    return (size_t)coll->tensor.count * ts_dtype_size(coll->dtype);
}

#endif

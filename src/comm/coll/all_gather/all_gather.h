/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TS_COMM_ALL_GATHER_H
#define TS_COMM_ALL_GATHER_H

#include <string.h>

#include "comm/backend/native/team.h"

/* In shared memory: picks one of the following two. */
ts_status ts_all_gather_local(ts_shm *s, const ts_coll *coll);
/* Small: the inputs lie in the slots.  most: bytes of the longest part. */
ts_status ts_all_gather_flat(ts_shm *s, const ts_coll *coll, size_t most);
/* Every rank copies the others' inputs. */
ts_status ts_all_gather_shm(ts_shm *s, const ts_coll *coll, size_t most);

/* Ranks on several hosts: a ring (team.h) or the following between hosts. */
ts_status ts_all_gather_hosts(ts_native *n, const ts_coll *coll);
/* a + (p - 1) / p n b, with p - 1 messages at a time; a: latency, b: time per byte, n: all bytes. */
ts_status ts_all_gather_direct(ts_team *t, char *const *chunk, const size_t *bytes);

static inline size_t ts_gathered_bytes(const ts_coll *coll, int q)
{
    return (size_t)coll->parts[q].count * ts_dtype_size(coll->dtype);
}

/* The own input goes to its part; it may be there already. */
static inline void ts_all_gather_keep(const ts_coll *coll, int rank)
{
    size_t bytes = ts_gathered_bytes(coll, rank);
    void *to = coll->parts[rank].data;
    if (bytes > 0 && to != coll->tensor.data) memmove(to, coll->tensor.data, bytes);
}

#endif

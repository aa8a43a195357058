/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between two ranks.
 *
 * Tags are >= 0; messages match per (sender, tag) in the order of sending, receives in the order of
 * posting, those from TS_ANY_SOURCE among them.  Byte lengths of both sides must agree:
 * TS_EMISMATCH on the receiver.  Messages go on beside collectives, never behind them.  Strided
 * tensors are packed and unpacked. */
#ifndef TESSERA_P2P_H
#define TESSERA_P2P_H

#include <tessera/group.h>
#include <tessera/work.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Blocking; ends when the buffer may be reused.  To oneself: TS_EINVAL.  Both ranks sending to each
 * other first is fine for short messages only; use ts_isend for long ones. */
TS_API ts_status ts_send(ts_group *group, ts_tensor *tensor, int dst, int tag);
/* from (may be NULL): the sender's global rank. */
TS_API ts_status ts_recv(ts_group *group, ts_tensor *tensor, int src, int tag, int *from);
/* Return at once; also to and from oneself.  The tensor must not be touched before ts_work_wait. */
TS_API ts_status ts_isend(ts_group *group, ts_tensor *tensor, int dst, int tag, ts_work **work);
TS_API ts_status ts_irecv(ts_group *group, ts_tensor *tensor, int src, int tag, ts_work **work);

typedef struct ts_p2p_op {
    bool sending;
    ts_tensor *tensor;
    int peer; /* a source may be TS_ANY_SOURCE */
    int tag;
    ts_group *group; /* the same for all of a batch */
} ts_p2p_op;

/* Starts all n > 0 of them, in any order; works[i] belongs to ops[i].  If one cannot start, those
 * that have are cancelled and all works are NULL. */
TS_API ts_status ts_batch_isend_irecv(const ts_p2p_op *ops, int n, ts_work **works);
/* Waits for all and frees them; the first failure.  The entries become NULL. */
TS_API ts_status ts_wait_all(ts_work **works, int n);

#ifdef __cplusplus
}
#endif
#endif

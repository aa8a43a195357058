/* SPDX-License-Identifier: Apache-2.0 */
/* Messages and objects. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "faults.h"

/* A receive from any rank takes what was sent for this operation only. */
static int tag_of(const member *m) { return (int)(m->salt >> 40); }

ts_status op_ring(member *m)
{
    int next = (m->rank + 1) % m->size, last = (m->rank + m->size - 1) % m->size;
    int64_t count = some_count(m);
    ts_dtype dtype = some_dtype(m);
    ts_work *work[2] = {0};
    ts_tensor *in = blank(count, dtype), *out = bytes_of(m, m->rank, count, dtype);
    TS_TRY(ts_irecv(m->group, in, TS_GROUP_RANK(last), tag_of(m), &work[0]));
    ts_status status = ts_isend(m->group, out, TS_GROUP_RANK(next), tag_of(m), &work[1]);
    if (status != TS_OK) {
        char text[sizeof m->seat->text];
        snprintf(text, sizeof text, "%s", ts_error_last());
        ts_work_abort(work[0]);
        ts_work_free(work[0]);
        return ts_fail(status, "%s", text);
    }
    TS_TRY(ts_wait_all(work, 2));
    expect_bytes(m, "ring", in, 0, last, count);
    return TS_OK;
}

/* Neighbours; the last of an odd number has none. */
ts_status op_pairs(member *m)
{
    int peer = m->rank ^ 1;
    int64_t count = some_count(m);
    ts_dtype dtype = some_dtype(m);
    ts_tensor *in = blank(count, dtype), *out = bytes_of(m, m->rank, count, dtype);
    if (peer >= m->size) return TS_OK;
    if (m->rank > peer) TS_TRY(ts_recv(m->group, in, TS_GROUP_RANK(peer), tag_of(m), NULL));
    TS_TRY(ts_send(m->group, out, TS_GROUP_RANK(peer), tag_of(m)));
    if (m->rank < peer) TS_TRY(ts_recv(m->group, in, TS_GROUP_RANK(peer), tag_of(m), NULL));
    expect_bytes(m, "pair", in, 0, peer, count);
    return TS_OK;
}

ts_status op_from_any(member *m)
{
    int root = (int)dice_below(&m->dice, m->size), from;
    int64_t count = some_count(m);
    ts_dtype dtype = some_dtype(m);
    if (m->rank != root)
        return ts_send(m->group, bytes_of(m, m->rank, count, dtype), TS_GROUP_RANK(root),
                       tag_of(m));
    for (int i = 1; i < m->size; i++) {
        ts_tensor *in = blank(count, dtype);
        TS_TRY(ts_recv(m->group, in, TS_ANY_SOURCE, tag_of(m), &from));
        expect_bytes(m, "message from any", in, 0, from, count);
    }
    return TS_OK;
}

ts_status op_batch(member *m)
{
    ts_p2p_op ops[2 * MOST_RANKS];
    ts_work *work[2 * MOST_RANKS] = {0};
    int64_t count = some_count(m);
    ts_dtype dtype = some_dtype(m);
    int n = 0;
    if (m->size == 1) return TS_OK;
    for (int i = 0; i < m->size; i++) {
        if (i == m->rank) continue;
        ts_p2p_op op = {true, bytes_of(m, m->rank, count, dtype), TS_GROUP_RANK(i), tag_of(m),
                        m->group};
        ops[n++] = op;
        op.sending = false;
        op.tensor = blank(count, dtype);
        ops[n++] = op;
    }
    TS_TRY(ts_batch_isend_irecv(ops, n, work));
    TS_TRY(ts_wait_all(work, n));
    for (int i = 0, k = 1; i < m->size; i++) {
        if (i == m->rank) continue;
        expect_bytes(m, "batch", ops[k].tensor, 0, i, count);
        k += 2;
    }
    return TS_OK;
}

static ts_object *object_of(member *m, int rank)
{
    ts_object *o = ts_object_map();
    ts_object_set(o, "rank", ts_object_int(rank));
    int64_t count = some_count(m);
    ts_object_set(o, "tensor", ts_object_tensor(bytes_of(m, rank, count, TS_UINT8)));
    return o;
}

static void expect_object(member *m, const ts_object *o, int rank)
{
    int64_t value = -1;
    if (ts_object_as_int(ts_object_get(o, "rank"), &value) != TS_OK || value != rank)
        complain(m->seat, "wrong data: the object of rank %d says %d", rank, (int)value);
    ts_tensor *t = ts_object_as_tensor(ts_object_get(o, "tensor"));
    if (t) expect_bytes(m, "object", t, 0, rank, ts_numel(t));
}

static ts_status gather_objects(member *m, ts_object *mine)
{
    ts_object *all[MOST_RANKS] = {0};
    TS_TRY(ts_all_gather_object(m->group, all, m->size, mine));
    for (int i = 0; i < m->size; i++) {
        expect_object(m, all[i], i);
        ts_object_free(all[i]);
    }
    return TS_OK;
}

static ts_status scatter_objects(member *m, int src)
{
    ts_object *list[MOST_RANKS] = {0}, *got = NULL;
    dice before = m->dice;
    for (int i = 0; i < m->size && m->rank == src; i++) list[i] = object_of(m, i);
    m->dice = before; /* the others have not thrown theirs */
    ts_status status = ts_scatter_object_list(m->group, &got, m->rank == src ? list : NULL, m->size,
                                              TS_GROUP_RANK(src));
    if (status == TS_OK) expect_object(m, got, m->rank);
    for (int i = 0; i < m->size; i++) ts_object_free(list[i]);
    ts_object_free(got);
    return status;
}

static ts_status broadcast_object(member *m, ts_object *mine, int src)
{
    ts_object *list[1] = {m->rank == src ? mine : NULL};
    TS_TRY(ts_broadcast_object_list(m->group, list, 1, TS_GROUP_RANK(src)));
    expect_object(m, list[0], src);
    if (m->rank != src) ts_object_free(list[0]);
    return TS_OK;
}

ts_status op_objects(member *m)
{
    int src = (int)dice_below(&m->dice, m->size);
    bool gather = dice_chance(&m->dice, 50);
    if (dice_chance(&m->dice, 30)) return scatter_objects(m, src);
    ts_object *mine = object_of(m, m->rank);
    ts_status status = gather ? gather_objects(m, mine) : broadcast_object(m, mine, src);
    ts_object_free(mine);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Messages: rings of every dtype and layout, tags out of order, any source, all with all. */
#include "conformance.h"

enum { MOST = 16, MANY = 1000, TAGS = 5 };

/* To the next rank and from the one before; a ring of one goes to oneself. */
static void ring(conf *c, conf_variant *v)
{
    int next = (c->rank + 1) % c->size, before = (c->rank + c->size - 1) % c->size;
    conf_tensor out = conf_make(v, v->n, conf_value(c->rank, 0, TS_SUM));
    conf_tensor in = conf_make(v, v->n, conf_blank());
    ts_work *send, *recv;
    CONF_OK(ts_irecv(c->group, in.view, v->root % 2 ? TS_GROUP_RANK(before) : before, 3, &recv));
    CONF_OK(ts_isend(c->group, out.view, next, 3, &send));
    CONF_OK(ts_work_wait(recv, 0));
    CONF_OK(ts_work_wait(send, 0));
    CONF_EXPECT(ts_work_source_rank(recv) == before);
    ts_work_free(send);
    ts_work_free(recv);
    CONF_CHECK(&in, conf_value(before, 0, TS_SUM));
}

static void rings(conf *c) { conf_each(c, ring); }

/* Blocking: even ranks send first. */
static void blocking(conf *c)
{
    int other = c->rank ^ 1, from = -1;
    static const int64_t sizes[] = {0, 3, 300000};
    for (int i = 0; i < 3 && other < c->size; i++) {
        ts_tensor *out = conf_full(sizes[i], c->rank), *in = conf_full(sizes[i], -1);
        if (c->rank % 2 == 0) CONF_OK(ts_send(c->group, out, other, i));
        CONF_OK(ts_recv(c->group, in, other, i, &from));
        if (c->rank % 2) CONF_OK(ts_send(c->group, out, other, i));
        CONF_EXPECT(from == other);
        CONF_ALL_ARE(in, other);
    }
}

/* Rank 0 sends message i with tag i % 5; rank 1 takes them tag by tag, the last tag first. */
static void tags(conf *c)
{
    int at = 0;
    ts_tensor *t[MANY];
    ts_work *work[MANY];
    if (c->rank > 1) return;
    for (int i = 0; i < MANY; i++) t[i] = conf_full(2, c->rank == 0 ? i : -1);
    for (int i = 0; i < MANY && c->rank == 0; i++)
        CONF_OK(ts_isend(c->group, t[i], 1, i % TAGS, &work[i]));
    for (int tag = TAGS - 1; tag >= 0 && c->rank == 1; tag--)
        for (int i = tag; i < MANY; i += TAGS)
            CONF_OK(ts_irecv(c->group, t[i], 0, tag, &work[at++]));
    CONF_OK(ts_wait_all(work, MANY));
    for (int i = 0; i < MANY; i++) CONF_ALL_ARE(t[i], i);
}

/* Each receive takes one message, and none is taken twice. */
static void any_source(conf *c)
{
    ts_work *work[MOST];
    ts_tensor *in[MOST];
    unsigned seen = 0;
    if (c->rank > 0) {
        CONF_OK(ts_send(c->group, conf_full(3, c->rank), 0, 9));
        return;
    }
    for (int i = 1; i < c->size; i++) {
        in[i] = conf_full(3, -1);
        CONF_OK(ts_irecv(c->group, in[i], TS_ANY_SOURCE, 9, &work[i]));
    }
    for (int i = 1; i < c->size; i++) {
        CONF_OK(ts_work_wait(work[i], 0));
        int from = ts_work_source_rank(work[i]);
        CONF_ALL_ARE(in[i], from);
        if (from >= 0) seen |= 1u << from;
        ts_work_free(work[i]);
    }
    if (!(c->flags & CONF_FAKE)) CONF_EXPECT(seen == (1u << c->size) - 2);
}

/* In both directions and to oneself at once, in one batch. */
static void all_with_all(conf *c)
{
    static const int64_t sizes[] = {1, 5000, 200000};
    ts_p2p_op op[2 * MOST];
    ts_work *work[2 * MOST];
    ts_tensor *in[MOST];
    for (int i = 0; i < 3; i++) {
        ts_tensor *out = conf_full((c->rank + 1) * sizes[i], c->rank);
        for (int q = 0; q < c->size; q++) {
            in[q] = conf_full((q + 1) * sizes[i], -1);
            op[q] = (ts_p2p_op){true, out, q, 0, c->group};
            op[c->size + q] = (ts_p2p_op){false, in[q], TS_GROUP_RANK(q), 0, c->group};
        }
        CONF_OK(ts_batch_isend_irecv(op, 2 * c->size, work));
        CONF_OK(ts_wait_all(work, 2 * c->size));
        for (int q = 0; q < c->size; q++) CONF_ALL_ARE(in[q], q);
    }
}

/* Long ones in both directions: sends before receives, waited for in the other order. */
static void both_directions(conf *c)
{
    enum { MIB = 262144 };
    int64_t n = (c->flags & CONF_LONG ? 16 : 1) * MIB;
    int next = (c->rank + 1) % c->size, before = (c->rank + c->size - 1) % c->size;
    ts_tensor *out[] = {conf_full(n, c->rank), conf_full(n, c->rank + 100)},
              *in[] = {conf_full(n, -1), conf_full(n, -1)};
    ts_work *work[4];
    for (int i = 0; i < 2; i++) CONF_OK(ts_isend(c->group, out[i], next, i, &work[i]));
    for (int i = 0; i < 2; i++) CONF_OK(ts_irecv(c->group, in[i], before, i, &work[2 + i]));
    for (int i = 3; i >= 0; i--) CONF_OK(ts_wait_all(&work[i], 1));
    for (int i = 0; i < 2; i++) CONF_ALL_ARE(in[i], before + 100 * i);
}

static void lengths_that_differ(conf *c)
{
    if (c->flags & CONF_FAKE) return;
    for (int n = 2; n <= 5; n += 3) {
        if (c->rank == 0) CONF_OK(ts_send(c->group, conf_full(3, 1), 1, 0));
        if (c->rank == 1)
            CONF_FAILS(ts_recv(c->group, conf_full(n, 0), 0, 0, NULL), TS_EMISMATCH,
                       "recv at messages.c:");
    }
    CONF_OK(ts_barrier(c->group, NULL));
}

/* Nobody sends: the wait ends in time, and the receive can be given up. */
static void given_up(conf *c)
{
    ts_work *work;
    if (c->flags & CONF_FAKE) return;
    CONF_OK(ts_irecv(c->group, conf_full(4, -1), (c->rank + 1) % c->size, 77, &work));
    CONF_FAILS(ts_work_wait(work, 20), TS_ETIMEOUT, "20 ms");
    CONF_OK(ts_work_abort(work));
    CONF_FAILS(ts_work_wait(work, 0), TS_EABORTED, "");
    ts_work_free(work);
    CONF_OK(ts_barrier(c->group, NULL));
}

const conf_case conf_messages[] = {
    {"message ring", rings, 1, 0},
    {"message blocking", blocking, 2, 0},
    {"message tags", tags, 2, 0},
    {"message from any", any_source, 2, 0},
    {"message batch", all_with_all, 1, 0},
    {"message both directions", both_directions, 1, 0},
    {"message lengths", lengths_that_differ, 2, 0},
    {"message given up", given_up, 2, 0},
    {NULL, NULL, 0, 0},
};

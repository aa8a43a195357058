/* SPDX-License-Identifier: Apache-2.0 */
/* From rank to rank in segments: while one is passed on, the next ones arrive. */
#include "comm/coll/broadcast/broadcast.h"

enum { SEGMENT_BYTES = 256 * 1024, AHEAD = 4 };

typedef struct chain {
    ts_team *t;
    int place; /* counted from the root */
    char *data;
    size_t bytes, segment;
    uint64_t segments;
    ts_message *send[AHEAD], *recv[AHEAD];
} chain;

static size_t length_of(const chain *c, uint64_t i)
{
    size_t left = c->bytes - i * c->segment;
    return left < c->segment ? left : c->segment;
}

static ts_status finish(chain *c, ts_message **message)
{
    ts_message *m = *message;
    *message = NULL;
    if (!m) return TS_OK;
    return ts_message_wait(m, ts_native_deadline(c->t->native, c->t->coll), NULL);
}

static ts_status post_recv(chain *c, uint64_t i)
{
    const ts_team *t = c->t;
    if (c->place == 0 || i >= c->segments) return TS_OK;
    return ts_native_recv(&c->recv[i % AHEAD], t->native, t->coll,
                          t->member[(t->rank + t->size - 1) % t->size], t->step,
                          c->data + i * c->segment, length_of(c, i));
}

static ts_status pass_on(chain *c, uint64_t i)
{
    const ts_team *t = c->t;
    TS_TRY(finish(c, &c->recv[i % AHEAD]));
    TS_TRY(post_recv(c, i + AHEAD));
    if (c->place == t->size - 1) return TS_OK;
    TS_TRY(finish(c, &c->send[i % AHEAD]));
    ts_message **send = &c->send[i % AHEAD];
    int next = t->member[(t->rank + 1) % t->size];
    const char *data = c->data + i * c->segment;
    if (c->segments > AHEAD)
        return ts_native_send_paced(send, t->native, t->coll, next, t->step, data, length_of(c, i));
    return ts_native_send(send, t->native, t->coll, next, t->step, data, length_of(c, i));
}

static ts_status run(chain *c)
{
    for (uint64_t i = 0; i < AHEAD; i++) TS_TRY(post_recv(c, i));
    for (uint64_t i = 0; i < c->segments; i++) TS_TRY(pass_on(c, i));
    for (int i = 0; i < AHEAD; i++) TS_TRY(finish(c, &c->send[i]));
    return TS_OK;
}

ts_status ts_broadcast_chain(ts_team *t, int root, char *data, size_t bytes, size_t segment)
{
    chain c = {.t = t, .place = (t->rank - root + t->size) % t->size, .data = data, .bytes = bytes};
    c.segment = segment ? segment : SEGMENT_BYTES;
    c.segments = (bytes + c.segment - 1) / c.segment;
    ts_status status = run(&c);
    if (status == TS_OK) return TS_OK;
    status = ts_native_message_failed(t->native, t->coll, status);
    for (int i = 0; i < AHEAD; i++) {
        ts_message_free(c.send[i]);
        ts_message_free(c.recv[i]);
    }
    return status;
}

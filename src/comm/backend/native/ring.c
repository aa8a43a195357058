/* SPDX-License-Identifier: Apache-2.0 */
/* Step s of a ring: send chunk rank - s - 1 to the next rank, get chunk rank - s - 2 from the one
 * before.  The steps 0 .. p - 2 sum up, p - 1 .. 2 p - 3 gather.  Chunks travel in segments: what
 * has arrived and is reduced goes on at once, while the next segments are on their way. */
#include <string.h>

#include "comm/backend/native/team.h"

enum {
    SEGMENT_BYTES = 256 * 1024,
    SEGMENTS = 256, /* of a chunk; longer ones have longer segments */
    AHEAD = 4       /* receives that are posted */
};

typedef struct flow {
    ts_team *t;
    const ts_ring *ring;
    size_t segment;
    int segments;   /* of the longest chunk */
    int begin, end; /* moves: step * segments + segment */
    char *scratch;
    ts_message *send[SEGMENTS]; /* of move i at i % segments */
    ts_message *recv[AHEAD];
    ts_status status;
} flow;

typedef struct piece {
    char *data;
    size_t bytes;
} piece;

static int chunk_at(const flow *f, int i, int behind)
{
    int size = f->t->size, step = i / f->segments;
    return ((f->t->rank - step - behind) % size + size) % size;
}

static piece piece_at(const flow *f, int i, int behind)
{
    int chunk = chunk_at(f, i, behind);
    size_t begin = (size_t)(i % f->segments) * f->segment, all = f->ring->bytes[chunk];
    if (begin >= all) return (piece){NULL, 0};
    size_t left = all - begin;
    return (piece){f->ring->chunk[chunk] + begin, left < f->segment ? left : f->segment};
}

static bool reduces(const flow *f, int i) { return i / f->segments < f->t->size - 1; }

static char *scratch_of(const flow *f, int i)
{
    return f->scratch + (size_t)(i % AHEAD) * f->segment;
}

static ts_status finish(flow *f, ts_message **message)
{
    ts_message *m = *message;
    *message = NULL;
    if (!m) return TS_OK;
    return ts_message_wait(m, ts_native_deadline(f->t->native, f->t->coll), NULL);
}

static ts_status post_recv(flow *f, int i)
{
    const ts_team *t = f->t;
    piece p = piece_at(f, i, 2);
    if (i >= f->end || p.bytes == 0 || t->rank == f->ring->full - 1) return TS_OK;
    void *to = reduces(f, i) ? scratch_of(f, i) : p.data;
    return ts_native_recv(&f->recv[i % AHEAD], t->native, t->coll,
                          t->member[(t->rank + t->size - 1) % t->size], t->step, to, p.bytes);
}

static ts_status post_send(flow *f, int i)
{
    const ts_team *t = f->t;
    int next = (t->rank + 1) % t->size;
    piece p = piece_at(f, i, 1);
    if (i >= f->end || p.bytes == 0 || next == f->ring->full - 1) return TS_OK;
    TS_TRY(finish(f, &f->send[i % f->segments]));
    ts_message **send = &f->send[i % f->segments];
    if (f->ring->sum || f->segments > AHEAD)
        return ts_native_send_paced(send, t->native, t->coll, t->member[next], t->step, p.data,
                                    p.bytes);
    return ts_native_send(send, t->native, t->coll, t->member[next], t->step, p.data, p.bytes);
}

/* The segment of move i has come: reduce it, and pass it on. */
static ts_status move(flow *f, int i)
{
    const ts_team *t = f->t;
    piece p = piece_at(f, i, 2);
    TS_TRY(finish(f, &f->recv[i % AHEAD]));
    if (reduces(f, i) && p.bytes > 0) {
        ts_team_combine(t, p.data, scratch_of(f, i), p.data, p.bytes);
        if (i / f->segments == t->size - 2) ts_team_finish(t, p.data, p.bytes);
    }
    TS_TRY(post_recv(f, i + AHEAD));
    return post_send(f, i + f->segments);
}

static ts_status run(flow *f)
{
    for (int i = f->begin; i < f->begin + AHEAD; i++) TS_TRY(post_recv(f, i));
    for (int i = f->begin; i < f->begin + f->segments; i++) TS_TRY(post_send(f, i));
    for (int i = f->begin; i < f->end; i++) TS_TRY(move(f, i));
    for (int i = 0; i < f->segments; i++) TS_TRY(finish(f, &f->send[i]));
    return TS_OK;
}

/* Segments of whole elements and cache lines. */
static void cut(flow *f)
{
    size_t longest = 0;
    for (int q = 0; q < f->t->size; q++)
        if (f->ring->bytes[q] > longest) longest = f->ring->bytes[q];
    f->segment = f->ring->segment ? f->ring->segment : SEGMENT_BYTES;
    if (f->segment * SEGMENTS < longest) f->segment = (longest + SEGMENTS - 1) / SEGMENTS;
    f->segment = (f->segment + 63) / 64 * 64;
    f->segments = (int)((longest + f->segment - 1) / f->segment);
    f->begin = f->ring->sum ? 0 : (f->t->size - 1) * f->segments;
    f->end = (f->ring->gather ? 2 : 1) * (f->t->size - 1) * f->segments;
}

ts_status ts_ring_run(ts_team *t, const ts_ring *ring)
{
    flow f = {.t = t, .ring = ring};
    cut(&f);
    if (f.segments == 0 || t->size == 1) return TS_OK;
    if (ring->sum) {
        f.scratch = ts_native_scratch(t->native, AHEAD * f.segment);
        if (!f.scratch) return ts_native_give_up(t->native, TS_ENOMEM);
    }
    ts_status status = run(&f);
    if (status == TS_OK) return TS_OK;
    status = ts_native_message_failed(t->native, t->coll, status);
    for (int i = 0; i < SEGMENTS; i++) ts_message_free(f.send[i]);
    for (int i = 0; i < AHEAD; i++) ts_message_free(f.recv[i]);
    return status;
}

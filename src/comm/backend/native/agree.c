/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "comm/backend/native/native.h"
#include "comm/names.h"

static ts_slot *own_slot(ts_native *n, const ts_coll *coll)
{
    return &n->control->slot[coll->sequence & 1];
}

const ts_notice *ts_native_notice(const ts_native *n, const ts_coll *coll, int q)
{
    if (!n->shared) return &n->notices[q];
    return &n->peer[q].control->slot[coll->sequence & 1].notice;
}

const ts_header *ts_native_header(const ts_native *n, const ts_coll *coll, int q)
{
    return &ts_native_notice(n, coll, q)->header;
}

const void *ts_native_payload(const ts_native *n, const ts_coll *coll, int q, size_t bytes)
{
    if (bytes <= TS_INLINE_BYTES) return ts_native_header(n, coll, q)->payload.bytes;
    return n->peer[q].control->slot[coll->sequence & 1].flat;
}

/* FNV-1a over the counts. */
static uint64_t hash_parts(const ts_native *n, const ts_coll *coll)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (int i = 0; i < n->size; i++)
        hash = (hash ^ (uint64_t)coll->parts[i].count) * 0x100000001b3u;
    return hash;
}

static int64_t count_all(const ts_native *n, const ts_coll *coll)
{
    if (!coll->parts) return coll->tensor.count;
    int64_t count = 0;
    for (int i = 0; i < n->size; i++) count += coll->parts[i].count;
    return count;
}

/* All but the sequence number and the payload. */
static void fill(ts_native *n, ts_notice *notice, const ts_coll *coll)
{
    ts_header *h = &notice->header;
    int fields = ts_collective_agreement(coll->op);
    h->op = (uint8_t)coll->op;
    h->dtype = fields & TS_AGREE_DTYPE ? (uint8_t)coll->dtype : 0;
    h->reduce = fields & TS_AGREE_REDUCE ? (uint8_t)coll->reduce : 0;
    h->root = fields & TS_AGREE_ROOT ? coll->root : 0;
    h->poisoned = coll->status != TS_OK;
    h->count = fields & TS_AGREE_COUNT ? count_all(n, coll) : 0;
    h->staging = n->ring_bytes;
    h->parts = fields & TS_AGREE_PARTS && coll->parts ? hash_parts(n, coll) : 0;
    notice->detail.ndim = coll->shape.ndim;
    for (int i = 0; i < coll->shape.ndim; i++) notice->detail.dim[i] = coll->shape.dim[i];
    notice->detail.status = coll->status;
    if (coll->status != TS_OK)
        snprintf(notice->detail.cause, TS_CAUSE_BYTES, "%s", coll->cause ? coll->cause : "");
}

static ts_status meet_shared(ts_native *n, const ts_coll *coll)
{
    ts_native_publish(n, &own_slot(n, coll)->notice.header.sequence, coll->sequence);
    for (int q = 0; q < n->size; q++) {
        if (q == n->rank) continue;
        TS_TRY(ts_native_wait(n, coll, q, &ts_native_header(n, coll, q)->sequence, coll->sequence));
    }
    return TS_OK;
}

static ts_status meet_by_message(ts_native *n, const ts_coll *coll)
{
    ts_exchange exchange = ts_exchange_begin(n, coll);
    n->notices[n->rank].header.sequence = coll->sequence;
    for (int q = 0; q < n->size; q++) {
        if (q == n->rank) continue;
        ts_exchange_recv(&exchange, q, 0, &n->notices[q], sizeof(ts_notice));
        ts_exchange_send(&exchange, q, 0, &n->notices[n->rank], sizeof(ts_notice));
    }
    return ts_exchange_wait(&exchange);
}

static bool same_call(const ts_header *a, const ts_header *b)
{
    return a->op == b->op && a->dtype == b->dtype && a->reduce == b->reduce && a->root == b->root &&
           a->count == b->count && a->parts == b->parts;
}

/* All ranks look at the same headers and come to the same verdict. */
static ts_status verdict(ts_native *n, const ts_coll *coll)
{
    bool same = true, poisoned = false;
    const ts_header *own = ts_native_header(n, coll, n->rank);
    for (int q = 0; q < n->size; q++) {
        const ts_header *h = ts_native_header(n, coll, q);
        poisoned |= h->poisoned;
        same &= same_call(own, h);
    }
    if (poisoned) return coll->status != TS_OK ? TS_OK : ts_native_poisoned(n, coll);
    return same ? TS_OK : ts_native_mismatch(n, coll);
}

static ts_notice *own_notice(ts_native *n, const ts_coll *coll)
{
    return n->shared ? &own_slot(n, coll)->notice : &n->notices[n->rank];
}

void *ts_native_room(ts_native *n, const ts_coll *coll, size_t bytes)
{
    if (bytes <= TS_INLINE_BYTES) return own_notice(n, coll)->header.payload.bytes;
    return own_slot(n, coll)->flat;
}

void ts_native_place(ts_native *n, const ts_coll *coll, int64_t offset)
{
    own_notice(n, coll)->header.payload.place = offset;
}

ts_status ts_native_agree(ts_native *n, const ts_coll *coll)
{
    TS_TRY(ts_native_health(n, coll));
    fill(n, own_notice(n, coll), coll);
    TS_TRY(n->shared ? meet_shared(n, coll) : meet_by_message(n, coll));
    return verdict(n, coll);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "comm/backend/native/native.h"

static bool is_staged(const ts_native *n, const ts_coll *coll, bool only_root)
{
    for (int q = 0; q < n->size; q++) {
        if (only_root && q != coll->root) continue;
        if (ts_native_header(n, coll, q)->payload.place < 0) return true;
    }
    return false;
}

/* The ring of this rank is made at the first need, so that those who keep their data in the shared
 * heap never pay for it. */
static ts_status make_ring(ts_native *n)
{
    if (n->ring) return TS_OK;
    n->ring = ts_storage_new((size_t)n->ring_bytes, TS_CPU, TS_MEMORY_SHARED, TS_CATEGORY_STAGING);
    if (!n->ring) return TS_ENOMEM;
    if (n->ring->shared_offset < 0)
        return ts_fail(TS_ENOMEM,
                       "no shared memory left for a staging ring of %lld bytes "
                       "(TESSERA_STAGING sets less)",
                       (long long)n->ring_bytes);
    n->control->ring = n->ring->shared_offset;
    return TS_OK;
}

ts_status ts_pieces_begin(ts_pieces *p, ts_native *n, const ts_coll *coll, bool only_root)
{
    *p = (ts_pieces){.native = n, .coll = coll, .base = n->pieces, .only_root = only_root};
    p->staged = is_staged(n, coll, only_root);
    if (!p->staged) return TS_OK;
    int64_t ring = n->ring_bytes;
    for (int q = 0; q < n->size; q++) {
        int64_t bytes = ts_native_header(n, coll, q)->staging;
        if (bytes < ring) ring = bytes;
    }
    p->slot_bytes = ring / TS_RING_SLOTS / 64 * 64;
    ts_status status = only_root && n->rank != coll->root ? TS_OK : make_ring(n);
    return status == TS_OK ? TS_OK : ts_native_give_up(n, status);
}

ts_status ts_pieces_claim(ts_pieces *p, uint64_t i, char **slot)
{
    ts_native *n = p->native;
    uint64_t piece = p->base + i;
    if (piece >= TS_RING_SLOTS)
        TS_TRY(ts_native_wait_all(n, p->coll, offsetof(ts_control, copied),
                                  piece - TS_RING_SLOTS + 1));
    *slot = (char *)n->ring->data + (int64_t)(piece % TS_RING_SLOTS) * p->slot_bytes;
    return TS_OK;
}

const char *ts_pieces_slot(const ts_pieces *p, uint64_t i, int q)
{
    const ts_peer *peer = &p->native->peer[q];
    int64_t slot = (int64_t)((p->base + i) % TS_RING_SLOTS);
    return peer->heap + peer->control->ring + slot * p->slot_bytes;
}

const char *ts_pieces_direct(const ts_pieces *p, int q)
{
    return p->native->peer[q].heap + ts_native_header(p->native, p->coll, q)->payload.place;
}

void ts_pieces_loaded(ts_pieces *p, uint64_t i)
{
    ts_native_publish(p->native, &p->native->control->loaded, p->base + i + 1);
}

void ts_pieces_reduced(ts_pieces *p, uint64_t i)
{
    ts_native_publish(p->native, &p->native->control->reduced, p->base + i + 1);
}

void ts_pieces_copied(ts_pieces *p, uint64_t i)
{
    ts_native_publish(p->native, &p->native->control->copied, p->base + i + 1);
}

ts_status ts_pieces_wait_loaded(ts_pieces *p, uint64_t i, int q)
{
    if (q == p->native->rank) return TS_OK;
    return ts_native_wait(p->native, p->coll, q, &p->native->peer[q].control->loaded,
                          p->base + i + 1);
}

ts_status ts_pieces_wait_reduced(ts_pieces *p, uint64_t i, int q)
{
    if (q == p->native->rank) return TS_OK;
    return ts_native_wait(p->native, p->coll, q, &p->native->peer[q].control->reduced,
                          p->base + i + 1);
}

ts_status ts_pieces_end(ts_pieces *p, uint64_t count)
{
    ts_native *n = p->native;
    uint64_t end = p->base + count;
    n->pieces = end;
    /* Not every operation uses every counter; all move on together. */
    ts_native_publish(n, &n->control->loaded, end);
    ts_native_publish(n, &n->control->reduced, end);
    ts_native_publish(n, &n->control->copied, end);
    if (p->staged || (p->only_root && n->rank != p->coll->root)) return TS_OK;
    return ts_native_wait_all(n, p->coll, offsetof(ts_control, copied), end);
}

ts_range ts_share_of(int64_t length, int size, int q, size_t element)
{
    int64_t line = element < 64 ? (int64_t)(64 / element) : 1;
    int64_t share = ((length + size - 1) / size + line - 1) / line * line;
    int64_t begin = q * share < length ? q * share : length;
    int64_t end = begin + share < length ? begin + share : length;
    return (ts_range){begin, end};
}

char *ts_native_scratch(ts_native *n, size_t bytes)
{
    if (bytes <= n->scratch_bytes) return n->scratch;
    char *grown = malloc(bytes);
    if (!grown) {
        ts_fail_memory(bytes, "data on its way between ranks");
        return NULL;
    }
    free(n->scratch);
    n->scratch = grown;
    n->scratch_bytes = bytes;
    return grown;
}

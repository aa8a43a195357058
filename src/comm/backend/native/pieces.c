/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "comm/backend/native/native.h"

static bool is_staged(const ts_shm *s, const ts_coll *coll, bool only_root)
{
    bool addresses = false;
    for (int q = 0; q < s->size; q++) {
        s->place[q] = ts_shm_header(s, coll, q)->payload.place;
        if (s->place[q] == TS_PLACE_SLOT) s->place[q] = -1;
        if (only_root && q != coll->root) continue;
        if (s->place[q] == -1) return true;
        addresses |= s->place[q] < 0;
    }
    return addresses && !ts_shm_all_read(s, coll);
}

/* The ring of this rank is made at the first need, so that those who keep their data in the shared
 * heap never pay for it. */
static ts_status make_ring(ts_shm *s)
{
    if (s->ring) return TS_OK;
    s->ring = ts_storage_new((size_t)s->ring_bytes, TS_CPU, TS_MEMORY_SHARED, TS_CATEGORY_STAGING);
    if (!s->ring) return TS_ENOMEM;
    if (s->ring->shared_offset < 0)
        return ts_fail(TS_ENOMEM,
                       "no shared memory left for a staging ring of %lld bytes "
                       "(TESSERA_STAGING sets less)",
                       (long long)s->ring_bytes);
    s->control->ring = s->ring->shared_offset;
    return TS_OK;
}

ts_status ts_pieces_begin(ts_pieces *p, ts_shm *s, const ts_coll *coll, bool only_root)
{
    bool loads = !only_root || s->rank == coll->root;
    TS_TRY(ts_pieces_open(p, s, coll, is_staged(s, coll, only_root), loads));
    p->only_root = only_root;
    return TS_OK;
}

ts_status ts_pieces_open(ts_pieces *p, ts_shm *s, const ts_coll *coll, bool staged, bool loads)
{
    *p = (ts_pieces){.shm = s, .coll = coll, .base = s->pieces, .staged = staged};
    if (!staged) return TS_OK;
    int64_t ring = s->ring_bytes;
    for (int q = 0; q < s->size; q++) {
        int64_t bytes = ts_shm_header(s, coll, q)->staging;
        if (bytes < ring) ring = bytes;
    }
    p->slot_bytes = ring / TS_RING_SLOTS / 64 * 64;
    ts_status status = loads ? make_ring(s) : TS_OK;
    return status == TS_OK ? TS_OK : ts_native_give_up(s->native, status);
}

ts_status ts_pieces_claim(ts_pieces *p, uint64_t i, char **slot)
{
    ts_shm *s = p->shm;
    uint64_t piece = p->base + i;
    if (piece >= TS_RING_SLOTS)
        TS_TRY(
            ts_shm_wait_all(s, p->coll, offsetof(ts_control, copied), piece - TS_RING_SLOTS + 1));
    *slot = (char *)s->ring->data + (int64_t)(piece % TS_RING_SLOTS) * p->slot_bytes;
    return TS_OK;
}

const char *ts_pieces_slot(const ts_pieces *p, uint64_t i, int q)
{
    const ts_peer *peer = &p->shm->peer[q];
    int64_t slot = (int64_t)((p->base + i) % TS_RING_SLOTS);
    return peer->heap + peer->control->ring + slot * p->slot_bytes;
}

ts_status ts_pieces_copy(const ts_pieces *p, int q, size_t at, void *to, size_t bytes)
{
    return ts_shm_copy(p->shm, p->coll, q, p->shm->place[q], at, to, bytes);
}

ts_status ts_pieces_combine(const ts_pieces *p, void *to, const void *own, size_t at, size_t bytes)
{
    return ts_shm_combine(p->shm, p->coll, to, own, at, bytes);
}

void ts_pieces_loaded(ts_pieces *p, uint64_t i)
{
    ts_shm_publish(p->shm, &p->shm->control->loaded, p->base + i + 1);
}

void ts_pieces_reduced(ts_pieces *p, uint64_t i)
{
    ts_shm_publish(p->shm, &p->shm->control->reduced, p->base + i + 1);
}

void ts_pieces_copied(ts_pieces *p, uint64_t i)
{
    ts_shm_publish(p->shm, &p->shm->control->copied, p->base + i + 1);
}

ts_status ts_pieces_wait_loaded(ts_pieces *p, uint64_t i, int q)
{
    if (q == p->shm->rank) return TS_OK;
    return ts_shm_wait(p->shm, p->coll, q, &p->shm->peer[q].control->loaded, p->base + i + 1);
}

ts_status ts_pieces_wait_reduced(ts_pieces *p, uint64_t i, int q)
{
    if (q == p->shm->rank) return TS_OK;
    return ts_shm_wait(p->shm, p->coll, q, &p->shm->peer[q].control->reduced, p->base + i + 1);
}

ts_status ts_pieces_end(ts_pieces *p, uint64_t count)
{
    ts_shm *s = p->shm;
    uint64_t end = p->base + count;
    s->pieces = end;
    /* Not every operation uses every counter; all move on together. */
    ts_shm_publish(s, &s->control->loaded, end);
    ts_shm_publish(s, &s->control->reduced, end);
    ts_shm_publish(s, &s->control->copied, end);
    if (p->staged || (p->only_root && s->rank != p->coll->root)) return TS_OK;
    return ts_shm_wait_all(s, p->coll, offsetof(ts_control, copied), end);
}

ts_range ts_share_of(int64_t length, int size, int q, size_t element)
{
    int64_t line = element < 64 ? (int64_t)(64 / element) : 1;
    int64_t share = ((length + size - 1) / size + line - 1) / line * line;
    int64_t begin = q * share < length ? q * share : length;
    int64_t end = begin + share < length ? begin + share : length;
    return (ts_range){begin, end};
}

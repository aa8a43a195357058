/* SPDX-License-Identifier: Apache-2.0 */
/* Life of a domain: the own control block, and the mappings of the others' heaps. */
#include "comm/backend/native/shm.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/settings.h"
#include "comm/backend/native/native.h"

enum { LEAVE_MS = 2000 };

static size_t control_bytes(int size)
{
    return sizeof(ts_control) + 2 * (size_t)size * sizeof(int64_t);
}

/* Zeroed but for the payloads, of whose pages a group that never uses them needs none. */
static ts_control *new_control(ts_shared_heap *heap, int size)
{
    size_t rest = offsetof(ts_control, told);
    ts_control *control = ts_shared_heap_take(heap, control_bytes(size));
    if (!control) return NULL;
    for (int i = 0; i < 2; i++) memset(&control->slot[i].notice, 0, sizeof(ts_notice));
    memset((char *)control + rest, 0, control_bytes(size) - rest);
    return control;
}

/* Four slots, each with a few cache lines for every rank. */
static int64_t staging_bytes(int size)
{
    int64_t set = ts_setting_int(TS_SETTING_STAGING), least = (int64_t)TS_RING_SLOTS * size * 4096;
    int64_t most = (int64_t)TS_RING_SLOTS * TS_BLOCK_BYTES;
    if (most < least) most = least;
    return set < least ? least : set > most ? most : set;
}

ts_status ts_shm_init(ts_shm *s, ts_native *n)
{
    int size = n->size;
    s->native = n;
    s->peer = ts_calloc((size_t)size, sizeof *s->peer);
    s->sources = ts_calloc((size_t)size, sizeof *s->sources);
    s->place = ts_calloc((size_t)size, sizeof *s->place);
    if (!s->peer || !s->sources || !s->place)
        return ts_fail_memory((size_t)size * sizeof *s->peer, "a group");
    if (!ts_setting_bool(TS_SETTING_SHARED_MEMORY)) return TS_OK;
    s->heap = ts_shared_heap_get();
    if (s->heap) s->control = new_control(s->heap, size);
    if (!s->control)
        TS_LOG(TS_LOG_COMM, TS_LEVEL_WARNING, "group '%s': no shared memory, using sockets: %s",
               n->name, ts_error_last());
    else
        ts_shm_sign(s);
    return TS_OK;
}

static bool map_peer(ts_shm *s, int q)
{
    if (q == s->rank) {
        s->peer[q].heap = s->heap->base;
        return true;
    }
    ts_peer_heap heap = ts_port_peer_heap(s->native->port, s->member[q]);
    if (!heap.reserved) return false;
    if (!heap.data) {
        TS_LOG(TS_LOG_COMM, TS_LEVEL_WARNING,
               "group '%s': cannot map the shared heap of rank %d (%zu bytes of address space; "
               "TESSERA_SHARED_HEAP sets less), using sockets",
               s->native->name, ts_native_global(s->native, s->member[q]), heap.reserved);
        return false;
    }
    s->peer[q].heap = heap.data;
    s->peer[q].store = heap.store;
    s->stores = s->stores && heap.store;
    return true;
}

int64_t ts_shm_map(ts_shm *s, int size, int rank, const int *member)
{
    s->size = size;
    s->rank = rank;
    s->ring_bytes = staging_bytes(size);
    s->member = member;
    if (!s->control) return -1;
    s->stores = true;
    for (int q = 0; q < s->size; q++)
        if (!map_peer(s, q)) return -1;
    return ts_shared_heap_offset(s->heap, s->control);
}

void ts_shm_join(ts_shm *s, const int64_t *place)
{
    for (int q = 0; q < s->size; q++) {
        s->peer[q].control = (const ts_control *)(const void *)(s->peer[q].heap + place[q]);
        s->peer[q].key = s->peer[q].control->key;
    }
    ts_shm_probe(s);
}

/* Its block may hold something else already, if it has left. */
static bool is_behind(const ts_peer *peer, uint64_t last)
{
    return atomic_load(&peer->control->finished) < last && peer->control->key == peer->key;
}

void ts_shm_let_others_finish(ts_shm *s)
{
    ts_deadline deadline = ts_deadline_in(LEAVE_MS);
    uint64_t last = atomic_load(&s->control->finished);
    for (int q = 0; q < s->size; q++)
        while (is_behind(&s->peer[q], last) && !atomic_load(&s->native->broken) &&
               !ts_deadline_passed(deadline))
            sched_yield();
}

void ts_shm_fini(ts_shm *s)
{
    if (s->control) ts_shm_leave(s, 0);
    if (s->ring) ts_storage_release(s->ring);
    if (s->control) ts_shared_heap_free(s->heap, s->control);
    free(s->fetched);
    free(s->place);
    free(s->sources);
    free(s->peer);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The mail: its making and its end. */
#include "comm/mail.h"

#include <poll.h>
#include <stdlib.h>

#include "base/memory.h"
#include "comm/bootstrap.h"
#include "net/socket.h"

enum { LOOK_AROUND_MS = 250 };

static const ts_cell no_cell; /* never ready */

/* ---- the own half ---------------------------------------------------------------------------- */

static ts_mail_office *open_office(const ts_engine *engine, ts_shared_heap *heap)
{
    size_t ranks = (size_t)engine->size;
    ts_mail_office *office = ts_calloc(1, sizeof *office);
    if (!office) return NULL;
    office->heap = heap;
    office->box = ts_shared_heap_alloc(heap, sizeof *office->box + ranks * sizeof(ts_mail_word));
    office->link = ts_calloc(ranks, sizeof(ts_link *));
    if (office->box && office->link) return office;
    ts_shared_heap_free(heap, office->box);
    free(office->link);
    free(office);
    return NULL;
}

/* ---- meeting --------------------------------------------------------------------------------- */

static bool map_heap(ts_link *link)
{
    const char *heap = ts_link_map(link);
    ts_mail *mail = heap ? ts_calloc(1, sizeof *mail) : NULL;
    if (!mail) return false;
    mail->heap = heap;
    mail->reserved = link->heap_reserved;
    mail->self = link->engine->rank;
    mail->free_slots = UINT64_MAX;
    link->mail = mail;
    return true;
}

static bool is_neighbour(const ts_engine *engine, int peer)
{
    return peer != engine->rank && engine->link[peer]->same_host;
}

/* Where the own box is, for who can be read; -1 to the others. */
static ts_status tell_place(ts_engine *engine, ts_shared_heap *heap, int peer, ts_deadline deadline)
{
    ts_link *link = engine->link[peer];
    int64_t place = -1;
    if (engine->office && map_heap(link)) place = ts_shared_heap_offset(heap, engine->office->box);
    return ts_send_all(link->fd, &place, sizeof place, "a peer", deadline);
}

static ts_status gone(const ts_bootstrap *boot, const ts_link *link)
{
    char who[160];
    return ts_fail(TS_ENETWORK, "group '%s': %s is gone: it ended while the group was made",
                   boot->engine->name, ts_link_describe(link, who, sizeof who));
}

static ts_status await(ts_bootstrap *boot, const ts_link *link)
{
    char who[160];
    while (!ts_socket_wait(link->fd, POLLIN, ts_deadline_in(LOOK_AROUND_MS))) {
        TS_TRY(ts_join_check_failure(boot));
        if (ts_deadline_passed(boot->deadline))
            return ts_fail(TS_ETIMEOUT, "group '%s': %s has not got ready within %lld ms",
                           boot->engine->name, ts_link_describe(link, who, sizeof who),
                           (long long)boot->opt->timeout_ms);
    }
    return TS_OK;
}

static ts_status hear_place(ts_bootstrap *boot, int peer)
{
    ts_engine *engine = boot->engine;
    ts_link *link = engine->link[peer];
    int64_t place;
    TS_TRY(await(boot, link));
    if (ts_recv_all(link->fd, &place, sizeof place, "a peer", boot->deadline) != TS_OK) {
        TS_TRY(ts_join_check_failure(boot));
        return gone(boot, link);
    }
    size_t box = sizeof(ts_mailbox) + (size_t)engine->size * sizeof(ts_mail_word);
    if (!link->mail) return TS_OK;
    if (place < 0 || (uint64_t)place + box > link->mail->reserved) {
        ts_mail_free(link);
        return TS_OK;
    }
    link->mail->box = (const ts_mailbox *)(const void *)(link->mail->heap + place);
    engine->office->link[engine->office->count++] = link;
    return TS_OK;
}

ts_status ts_mail_meet(ts_bootstrap *boot)
{
    ts_engine *engine = boot->engine;
    ts_shared_heap *heap = boot->share_heap ? boot->opt->heap : NULL;
    if (heap && engine->size > 1) engine->office = open_office(engine, heap);
    for (int peer = 0; peer < engine->size; peer++)
        if (is_neighbour(engine, peer) && tell_place(engine, heap, peer, boot->deadline) != TS_OK)
            return gone(boot, engine->link[peer]);
    for (int peer = 0; peer < engine->size; peer++)
        if (is_neighbour(engine, peer)) TS_TRY(hear_place(boot, peer));
    return TS_OK;
}

/* ---- the end --------------------------------------------------------------------------------- */

void ts_mail_stop(ts_link *link)
{
    if (!link->mail) return;
    atomic_store_explicit(&link->mail->due_number, 1, memory_order_relaxed);
    atomic_store_explicit(&link->mail->due, &no_cell, memory_order_relaxed);
}

void ts_mail_free(ts_link *link)
{
    free(link->mail);
    link->mail = NULL;
}

static void free_ring(ts_mail_office *office, ts_mail *mail)
{
    if (!mail->ring) return;
    if (mail->bulk != mail->ring->bulk) ts_shared_heap_free(office->heap, mail->bulk);
    ts_shared_heap_free(office->heap, mail->ring);
    mail->ring = NULL;
}

/* What a peer may still read - one that has not taken leave in time - is never used again. */
void ts_mail_close(ts_engine *engine)
{
    ts_mail_office *office = engine->office;
    bool all = true;
    if (!office) return;
    for (int i = 0; i < office->count; i++) {
        bool left = office->link[i]->status != TS_OK;
        if (left) free_ring(office, office->link[i]->mail);
        all = all && left;
    }
    if (all) ts_shared_heap_free(office->heap, office->box);
    free(office->link);
    free(office);
    engine->office = NULL;
}

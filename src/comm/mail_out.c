/* SPDX-License-Identifier: Apache-2.0 */
/* The mail, sending: frames to cells, offers. */
#include <sched.h>
#include <string.h>

#include "base/memory.h"
#include "comm/mail.h"

enum {
    PIECE_LEAST = 16 * 1024, /* pieces of what fills the long bulk area */
    PIECE_MOST = 64 * 1024,
    LONG = 8 * 1024, /* payloads from here on want the long bulk area */
    WITHDRAW_MS = 5  /* how long taking back an offer waits for a peer that copies */
};

/* ---- room ------------------------------------------------------------------------------------ */

static ts_mail_word *own_word(ts_link *link) { return &link->engine->office->box->to[link->peer]; }

static bool open_ring(ts_link *link)
{
    ts_mail *mail = link->mail;
    if (mail->ring) return true;
    ts_shared_heap *heap = link->engine->office->heap;
    mail->ring = ts_shared_heap_alloc(heap, sizeof *mail->ring);
    if (!mail->ring) return false;
    mail->bulk = mail->ring->bulk;
    mail->bulk_bytes = TS_MAIL_BULK;
    atomic_store(&own_word(link)->ring, ts_shared_heap_offset(heap, mail->ring));
    return true;
}

/* Looks how far the peer has read. */
static void refresh(ts_link *link)
{
    ts_mail *mail = link->mail;
    uint64_t taken = atomic_load(&mail->box->to[mail->self].taken);
    if (taken <= mail->taken || taken > mail->written) return;
    mail->taken = taken;
    if (taken > mail->bulk_since) mail->bulk_tail = mail->bulk_end[(taken - 1) % TS_MAIL_CELLS];
    if (!mail->old_bulk || taken < mail->bulk_since) return;
    if (mail->old_bulk != mail->ring->bulk)
        ts_shared_heap_free(link->engine->office->heap, mail->old_bulk);
    mail->old_bulk = NULL;
}

static bool cell_free(ts_link *link)
{
    ts_mail *mail = link->mail;
    if (mail->written - mail->taken < TS_MAIL_CELLS) return true;
    refresh(link);
    return mail->written - mail->taken < TS_MAIL_CELLS;
}

/* Long payloads get a larger bulk area, once. */
static void widen(ts_link *link)
{
    ts_mail *mail = link->mail;
    ts_mail_office *office = link->engine->office;
    if (mail->bulk_bytes != TS_MAIL_BULK || mail->old_bulk) return;
    if (office->long_bulk + TS_MAIL_BULK_LONG > TS_MAIL_LONG_MAX) return;
    uint8_t *bulk = ts_shared_heap_alloc(office->heap, TS_MAIL_BULK_LONG);
    if (!bulk) return;
    office->long_bulk += TS_MAIL_BULK_LONG;
    mail->old_bulk = mail->bulk;
    mail->bulk = bulk;
    mail->bulk_bytes = TS_MAIL_BULK_LONG;
    mail->bulk_head = mail->bulk_tail = 0;
    mail->bulk_since = mail->written;
}

static size_t piece_of(const ts_mail *mail, size_t left)
{
    size_t most = mail->bulk_bytes / 4;
    if (mail->bulk_bytes != TS_MAIL_BULK) {
        size_t part = left / 8;
        most = part < PIECE_LEAST ? PIECE_LEAST : part > PIECE_MOST ? PIECE_MOST : part;
    }
    return left < most ? left : most & ~(size_t)63;
}

/* Room for bytes in one piece, on cache lines of its own; NULL: none now. */
static uint8_t *claim(ts_link *link, size_t bytes)
{
    ts_mail *mail = link->mail;
    size_t need = (bytes + 63) & ~(size_t)63;
    size_t at = mail->bulk_head % mail->bulk_bytes;
    size_t skip = at + need > mail->bulk_bytes ? mail->bulk_bytes - at : 0;
    for (int look = 0; mail->bulk_head + skip + need - mail->bulk_tail > mail->bulk_bytes; look++) {
        if (look > 0) return NULL;
        refresh(link);
    }
    mail->bulk_head += skip + need;
    return mail->bulk + (skip ? 0 : at);
}

/* ---- cells ----------------------------------------------------------------------------------- */

static void copy_inline(uint8_t *to, const uint8_t *from, size_t n)
{
    if (n == 8)
        memcpy(to, from, 8);
    else if (n > 0)
        memcpy(to, from, n);
}

/* One cell with as much of the n bytes of payload as goes; -1: no room.  more: not the first of its
 * frame. */
static int64_t put(ts_link *link, const ts_frame *frame, bool more, const uint8_t *payload,
                   size_t n)
{
    ts_mail *mail = link->mail;
    if (!cell_free(link)) return -1;
    ts_cell *cell = &mail->ring->cell[mail->written % TS_MAIL_CELLS];
    int64_t place = frame->place;
    if (n > TS_MAIL_INLINE) {
        if (n >= LONG) widen(link);
        n = piece_of(mail, n);
        uint8_t *at = claim(link, n);
        if (!at) return -1;
        memcpy(at, payload, n);
        place = ts_shared_heap_offset(link->engine->office->heap, at);
    }
    cell->kind = more ? 0 : frame->kind;
    cell->channel = frame->channel;
    cell->slot = frame->slot;
    cell->piece = (uint32_t)n;
    cell->payload = frame->payload;
    cell->tag = frame->tag;
    cell->bytes = frame->bytes;
    cell->id = frame->id;
    if (n > TS_MAIL_INLINE || n == 0)
        cell->data.place = place;
    else
        copy_inline(cell->data.bytes, payload, n);
    mail->bulk_end[mail->written % TS_MAIL_CELLS] = mail->bulk_head;
    mail->written++;
    atomic_store(&cell->ready, (uint32_t)mail->written);
    return (int64_t)n;
}

bool ts_mail_put(ts_link *link, const ts_frame *frame, const void *payload)
{
    if (link->first || frame->payload >= LONG || !open_ring(link)) return false;
    if (frame->payload > TS_MAIL_INLINE && piece_of(link->mail, frame->payload) < frame->payload)
        return false;
    if (put(link, frame, false, payload, frame->payload) < 0) return false;
    ts_mail_wake_peer(link);
    return true;
}

static bool put_next(ts_link *link)
{
    const ts_outgoing *out = link->first;
    bool more = out->sent > 0;
    size_t from = more ? out->sent - TS_FRAME_BYTES : 0;
    const uint8_t *payload = out->payload_bytes ? out->payload + from : NULL;
    int64_t n = put(link, &out->frame, more, payload, out->payload_bytes - from);
    if (n < 0) return false;
    ts_link_advance(link, (size_t)n + (more ? 0 : TS_FRAME_BYTES));
    return true;
}

bool ts_mail_flush(ts_link *link)
{
    if (!link->first || link->status != TS_OK) return false;
    if (!open_ring(link)) {
        ts_link_lose(link, TS_ENOMEM, false, "cannot be reached: out of shared memory");
        return true;
    }
    bool moved = false;
    ts_mail_word *word = own_word(link);
    while (link->first && put_next(link)) {
        moved = true;
        ts_mail_wake_peer(link);
    }
    if (link->first && !atomic_load_explicit(&word->blocked, memory_order_relaxed)) {
        atomic_store(&word->blocked, 1);
        while (link->first && put_next(link)) moved = true;
        if (moved) ts_mail_wake_peer(link);
    }
    if (link->first)
        ts_mail_remember(link->engine);
    else if (atomic_load_explicit(&word->blocked, memory_order_relaxed))
        atomic_store_explicit(&word->blocked, 0, memory_order_relaxed);
    return moved;
}

/* ---- offers ---------------------------------------------------------------------------------- */

void ts_mail_offer(ts_link *link, ts_message *send, ts_frame *frame)
{
    ts_mail *mail = link->mail;
    int64_t place = ts_shared_heap_place(link->engine->office->heap, send->buf, send->bytes);
    if (place < 0 || !mail->free_slots || !open_ring(link)) return;
    send->slot = __builtin_ctzll(mail->free_slots);
    mail->free_slots &= mail->free_slots - 1;
    atomic_store_explicit(&mail->ring->offer[send->slot], send->id, memory_order_release);
    frame->place = place;
    frame->slot = (uint8_t)send->slot;
}

void ts_mail_withdraw(ts_link *link, ts_message *send)
{
    ts_mail *mail = link->mail;
    if (send->slot < 0) return;
    /* Sequentially consistent, as is the receiver's: either it sees this or we see it copying.  A
     * peer that is stopped in the midst of it notices afterwards. */
    atomic_store(&mail->ring->offer[send->slot], 0);
    ts_deadline deadline = {0};
    while (link->status == TS_OK && atomic_load(&mail->box->to[mail->self].pulling) == send->id) {
        if (!deadline.timeout_ms) deadline = ts_deadline_in(WITHDRAW_MS);
        if (ts_deadline_passed(deadline)) break;
        sched_yield();
    }
    mail->free_slots |= UINT64_C(1) << send->slot;
    send->slot = -1;
}

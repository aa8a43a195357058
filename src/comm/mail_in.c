/* SPDX-License-Identifier: Apache-2.0 */
/* The mail, receiving: cells to frames, copies of what is on offer. */
#include <string.h>

#include "comm/mail.h"

enum {
    CELLS_AT_ONCE = TS_MAIL_CELLS,
    PUBLISH_CELLS = TS_MAIL_CELLS / 4 /* the sender is told after that many short frames */
};

/* What the peer sees of the reading. */
static void publish(ts_link *link)
{
    ts_mail *mail = link->mail;
    mail->published = mail->next;
    mail->bulk_taken = false;
    atomic_store(&link->engine->office->box->to[link->peer].taken, mail->next);
    if (atomic_load(&mail->box->to[mail->self].blocked)) ts_mail_wake_peer(link);
}

static void expect_next(ts_mail *mail)
{
    atomic_store_explicit(&mail->due_number, (uint32_t)(mail->next + 1), memory_order_relaxed);
    atomic_store_explicit(&mail->due, &mail->in->cell[mail->next % TS_MAIL_CELLS],
                          memory_order_relaxed);
}

static bool in_heap(const ts_mail *mail, int64_t place, uint64_t bytes)
{
    return place >= 0 && bytes <= mail->reserved && (uint64_t)place <= mail->reserved - bytes;
}

/* The peer has made its ring? */
static bool find_ring(ts_link *link)
{
    ts_mail *mail = link->mail;
    int64_t place = atomic_load(&mail->box->to[mail->self].ring);
    if (place == 0) return false;
    if (!in_heap(mail, place, sizeof *mail->in)) {
        ts_link_lose(link, TS_ENETWORK, false, "keeps its mail where it cannot be");
        return false;
    }
    mail->in = (const ts_mail_ring *)(const void *)(mail->heap + place);
    expect_next(mail);
    return true;
}

static bool take(ts_link *link, const ts_cell *cell)
{
    ts_mail *mail = link->mail;
    size_t piece = cell->piece;
    ts_frame frame = {.kind = cell->kind,
                      .channel = cell->channel,
                      .payload = cell->payload,
                      .tag = cell->tag,
                      .bytes = cell->bytes,
                      .id = cell->id,
                      .place = cell->kind == TS_FRAME_RTS ? cell->data.place : -1,
                      .slot = cell->slot};
    const uint8_t *bytes = cell->data.bytes;
    bool sound =
        frame.place < 0 || (frame.slot < TS_MAIL_OFFERS && in_heap(mail, frame.place, frame.bytes));
    if (piece > TS_MAIL_INLINE) {
        sound = sound && in_heap(mail, cell->data.place, piece);
        bytes = (const uint8_t *)mail->heap + cell->data.place;
        mail->bulk_taken = true;
    }
    if (sound)
        ts_link_deliver(link, &frame, bytes, piece);
    else
        ts_link_lose(link, TS_ENETWORK, false, "sent mail from where it cannot be");
    return sound;
}

bool ts_mail_read(ts_link *link)
{
    ts_mail *mail = link->mail;
    int cells = 0;
    if (!mail->in && !find_ring(link)) return false;
    while (cells < CELLS_AT_ONCE && link->status == TS_OK) {
        const ts_cell *cell = atomic_load_explicit(&mail->due, memory_order_relaxed);
        if (atomic_load(&cell->ready) != (uint32_t)(mail->next + 1)) break;
        cells++;
        take(link, cell);
        mail->next++;
        if (link->status != TS_OK) return true;
        expect_next(mail);
        if (mail->bulk_taken && cell->piece >= 4096) publish(link);
    }
    if (mail->bulk_taken || mail->next - mail->published >= PUBLISH_CELLS) publish(link);
    return cells > 0;
}

/* ---- offers ---------------------------------------------------------------------------------- */

/* The next bytes of the peer's message; false: it is not on offer any more. */
static bool copy(ts_link *link, ts_message *m, size_t n)
{
    const ts_mail *mail = link->mail;
    const _Atomic uint64_t *offer = &mail->in->offer[m->slot];
    _Atomic uint64_t *pulling = &link->engine->office->box->to[link->peer].pulling;
    atomic_store(pulling, m->id);
    bool valid = atomic_load(offer) == m->id;
    if (valid) memcpy(m->buf + m->moved, mail->heap + m->place + m->moved, n);
    atomic_fetch_add(pulling, 0); /* keeps the copy before the second look */
    valid = valid && atomic_load(offer) == m->id;
    atomic_store_explicit(pulling, 0, memory_order_release);
    return valid;
}

bool ts_mail_pull(ts_link *link)
{
    TS_LIST_EACH(node, &link->receives)
    {
        ts_message *m = TS_LIST_ITEM(node, ts_message, node);
        if (m->place < 0) continue;
        size_t left = m->bytes - m->moved;
        size_t n = left < TS_MAIL_PULL_BYTES ? left : TS_MAIL_PULL_BYTES;
        if (!copy(link, m, n)) {
            m->place = -1; /* its CANCEL, or the end of the link, follows */
            continue;
        }
        m->moved += n;
        if (m->moved < m->bytes) {
            ts_mail_remember(link->engine);
            return true;
        }
        m->place = -1;
        ts_link_answer(link, TS_FRAME_DONE, m->id, m->bytes);
        ts_message_end(m, TS_OK, NULL);
        return true;
    }
    return false;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Sending: short messages at once, long ones when the receiver asks. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/memory.h"
#include "comm/mail.h"

static ts_link *link_of(const ts_message *message) { return message->engine->link[message->peer]; }

/* Several connections carry a long message only if it is announced. */
static size_t longest_eager(const ts_message *send, const ts_link *link)
{
    bool collective = send->channel == TS_CHANNEL_COLLECTIVE && !send->paced;
    return collective && !link->same_host && !link->branch[0] ? TS_EAGER_COLLECTIVE_MAX
                                                              : TS_EAGER_MAX;
}

static bool is_eager(ts_message *send)
{
    ts_link *link = link_of(send);
    int64_t cost = (int64_t)send->bytes + TS_EAGER_COST;
    if (send->bytes > longest_eager(send, link) || link->credit < cost) return false;
    link->credit -= cost;
    return true;
}

static ts_frame frame_of(const ts_message *send, ts_frame_kind kind)
{
    return (ts_frame){.kind = (uint8_t)kind,
                      .channel = send->channel,
                      .tag = send->tag,
                      .bytes = send->bytes,
                      .id = send->id,
                      .place = -1};
}

/* ---- to oneself ------------------------------------------------------------------------------ */

static void copy_to_self(ts_message *send, ts_message *receive)
{
    receive->peer = send->peer;
    receive->length = send->bytes;
    if (!ts_message_takes(receive, send->bytes)) {
        ts_message_mismatch(receive, send->peer, send->bytes);
    } else {
        if (send->bytes) memcpy(receive->buf, send->buf, send->bytes);
        receive->moved = send->bytes;
        ts_message_end(receive, TS_OK, NULL);
    }
    ts_message_end(send, TS_OK, NULL);
}

static void send_to_self(ts_message *send)
{
    ts_engine *engine = send->engine;
    ts_message *receive = ts_match_posted(engine, send->peer, send->channel, send->tag);
    if (receive) {
        copy_to_self(send, receive);
        return;
    }
    bool eager = is_eager(send);
    ts_frame frame = frame_of(send, eager ? TS_FRAME_EAGER : TS_FRAME_RTS);
    ts_early *early = ts_early_new(engine, send->peer, &frame, eager);
    if (!early) {
        ts_message_end(send, TS_ENOMEM, "out of memory for a message to oneself");
        return;
    }
    if (!eager) {
        early->self_send = send;
        ts_list_push(&link_of(send)->sends, &send->node);
        return;
    }
    if (send->bytes) memcpy(early->data, send->buf, send->bytes);
    early->whole = true;
    ts_message_end(send, TS_OK, NULL);
}

/* ---- to others ------------------------------------------------------------------------------- */

static ts_list *sent_with(ts_engine *engine, uint64_t id) { return &engine->sent[id % TS_BUCKETS]; }

ts_message *ts_send_find(ts_link *link, uint64_t id)
{
    TS_LIST_EACH(node, sent_with(link->engine, id))
    {
        ts_message *m = TS_LIST_ITEM(node, ts_message, by_id);
        if (m->id == id && m->peer == link->peer) return m;
    }
    return NULL;
}

enum { ONE_PIECE_MAX = 4096 };

/* A short frame goes in one piece, which costs the system less than two, and needs no place in a
 * queue.  How much of it the socket took. */
static size_t write_now(ts_link *link, const ts_frame *frame, const void *payload)
{
    uint8_t whole[TS_FRAME_BYTES + ONE_PIECE_MAX];
    if (link->mail || link->first || link->fd < 0 || frame->payload > ONE_PIECE_MAX) return 0;
    ts_frame_write(whole, frame);
    if (frame->payload > 0) memcpy(whole + TS_FRAME_BYTES, payload, frame->payload);
    ssize_t n;
    do n = send(link->fd, whole, TS_FRAME_BYTES + frame->payload, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n > 0 ? (size_t)n : 0;
}

void ts_send_start(ts_message *send)
{
    ts_link *link = link_of(send);
    if (send->peer == send->engine->rank) {
        send_to_self(send);
        return;
    }
    bool eager = is_eager(send);
    ts_frame frame = frame_of(send, eager ? TS_FRAME_EAGER : TS_FRAME_RTS);
    frame.payload = eager ? (uint32_t)send->bytes : 0;
    if (link->mail && eager && ts_mail_put(link, &frame, send->buf)) {
        ts_message_end(send, TS_OK, NULL);
        return;
    }
    size_t written = eager && !send->held ? write_now(link, &frame, send->buf) : 0;
    if (written == TS_FRAME_BYTES + frame.payload && written > 0) {
        ts_link_count_sent(link, frame.payload);
        ts_message_end(send, TS_OK, NULL);
        return;
    }
    ts_list_push(&link->sends, &send->node);
    ts_list_push(sent_with(send->engine, send->id), &send->by_id);
    ts_dialer_want(send->engine, send->peer);
    if (link->status != TS_OK) return; /* nobody listens there */
    send->announced = !eager;
    if (link->mail && !eager) ts_mail_offer(link, send, &frame);
    if (ts_link_queue(link, &frame, eager ? send->buf : NULL, false, send) != TS_OK) return;
    ts_link_advance(link, written);
    if (!send->held || link->mail) ts_link_flush(link);
}

static void send_piece(ts_message *send, ts_link *link)
{
    ts_frame frame = frame_of(send, TS_FRAME_DATA);
    size_t left = send->bytes - send->queued;
    frame.tag = send->queued;
    frame.payload = (uint32_t)(left < TS_DATA_MAX ? left : TS_DATA_MAX);
    const uint8_t *from = send->bytes ? send->buf + send->queued : NULL;
    if (ts_link_queue(link, &frame, from, false, send) == TS_OK) send->queued += frame.payload;
}

/* Which piece goes where is not settled beforehand: a connection that is ready takes the next. */
void ts_send_pieces(ts_message *send)
{
    ts_link *trunk = link_of(send), *link = trunk;
    send_piece(send, trunk);
    for (int i = 1; (link = ts_link_socket(trunk, i)) && send->queued < send->bytes; i++)
        if (link->fd >= 0) send_piece(send, link);
    for (int i = 0; (link = ts_link_socket(trunk, i)); i++) ts_link_flush(link);
}

void ts_send_frame_written(ts_message *send, ts_link *link, uint8_t kind, size_t bytes)
{
    if (kind == TS_FRAME_RTS) return;
    send->moved += bytes;
    if (kind == TS_FRAME_EAGER || send->moved == send->bytes)
        ts_message_end(send, TS_OK, NULL);
    else if (send->queued < send->bytes)
        send_piece(send, link);
}

void ts_send_cancel(ts_message *send)
{
    ts_link *link = link_of(send);
    if (send->peer == send->engine->rank) {
        ts_early *early =
            ts_early_find(send->engine, send->peer, send->channel, send->tag, send->id);
        if (early) ts_early_free(early);
        return;
    }
    ts_link_detach(link, send);
    if (link->mail) ts_mail_withdraw(link, send);
    if (!send->announced) return;
    ts_frame frame = frame_of(send, TS_FRAME_CANCEL);
    if (ts_link_queue(link, &frame, NULL, false, NULL) == TS_OK) ts_link_flush(link);
}

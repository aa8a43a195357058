/* SPDX-License-Identifier: Apache-2.0 */
/* The receiving half of a link: bytes to frames, frames to messages. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "comm/mail.h"
#include "net/socket.h"

#define READ_BUDGET (1024 * 1024) /* bytes per turn, so that no link holds up the others */
#define FIRST_BYTES 4096          /* what is longer goes straight to its place from there on */
#define CREDIT_STEP (1024 * 1024)

/* ---- receives -------------------------------------------------------------------------------- */

void ts_link_consumed(ts_link *link, size_t bytes)
{
    if (link->peer == link->engine->rank) {
        link->credit += (int64_t)bytes + TS_EAGER_COST;
        return;
    }
    link->consumed += bytes + TS_EAGER_COST;
    if (link->consumed < CREDIT_STEP || link->status != TS_OK) return;
    ts_frame frame = {.kind = TS_FRAME_CREDIT, .bytes = link->consumed};
    link->consumed = 0;
    if (ts_link_queue(link, &frame, NULL, false, NULL) == TS_OK) ts_link_flush(link);
}

void ts_link_answer(ts_link *link, ts_frame_kind kind, uint64_t id, size_t bytes)
{
    ts_frame frame = {.kind = (uint8_t)kind, .bytes = bytes, .id = id};
    if (ts_link_queue(link, &frame, NULL, false, NULL) == TS_OK) ts_link_flush(link);
}

void ts_link_accept(ts_link *link, ts_message *receive, const ts_frame *rts)
{
    if (receive->any) receive->peer = link->peer;
    receive->length = (size_t)rts->bytes;
    if (!ts_message_takes(receive, (size_t)rts->bytes)) {
        ts_message_mismatch(receive, link->peer, (size_t)rts->bytes);
        ts_link_answer(link, TS_FRAME_REFUSE, rts->id, receive->bytes);
        return;
    }
    receive->id = rts->id;
    ts_list_push(&link->receives, &receive->node);
    if (rts->place < 0) {
        ts_link_answer(link, TS_FRAME_CTS, rts->id, 0);
        return;
    }
    receive->place = rts->place;
    receive->slot = rts->slot;
    ts_mail_remember(link->engine);
}

void ts_link_forget(ts_link *trunk, ts_message *receive)
{
    ts_link *link = trunk;
    for (int i = 0; link; link = ts_link_socket(trunk, ++i)) {
        if (link->in_message != receive) continue;
        link->in_message = NULL;
        link->in_to = NULL;
    }
}

/* Mostly among the first: they come in the order in which they were asked for. */
static ts_message *find_receive(ts_link *trunk, uint64_t id)
{
    TS_LIST_EACH(node, &trunk->receives)
    {
        ts_message *m = TS_LIST_ITEM(node, ts_message, node);
        if (m->id == id) return m;
    }
    return NULL;
}

/* ---- frames begin ---------------------------------------------------------------------------- */

/* One that no receive waits for is kept if it is for a port that lives. */
static bool is_wanted(ts_link *link, const ts_frame *f)
{
    const ts_port *port = ts_port_of(link->engine, f->tag);
    if (port && port->status == TS_OK) return true;
    ts_port_answer(link, (uint32_t)(f->tag >> 32));
    return false;
}

static void begin_eager(ts_link *link, const ts_frame *f)
{
    ts_engine *engine = link->engine;
    ts_message *m = ts_match_posted(engine, link->peer, f->channel, f->tag);
    if (!m && !is_wanted(link, f)) return;
    if (!m) {
        link->in_early = ts_early_new(engine, link->peer, f, true);
        if (link->in_early)
            link->in_to = link->in_early->data;
        else
            ts_link_lose(link, TS_ENOMEM, false, "sent more than there is memory for");
        return;
    }
    if (m->any) m->peer = link->peer;
    m->length = (size_t)f->bytes;
    if (!ts_message_takes(m, (size_t)f->bytes)) {
        ts_message_mismatch(m, link->peer, (size_t)f->bytes);
        return;
    }
    ts_list_push(&link->receives, &m->node);
    link->in_message = m;
    link->in_to = m->buf;
}

static void begin_rts(ts_link *link, const ts_frame *f)
{
    ts_message *m = ts_match_posted(link->engine, link->peer, f->channel, f->tag);
    if (m)
        ts_link_accept(link, m, f);
    else if (is_wanted(link, f) && !ts_early_new(link->engine, link->peer, f, false))
        ts_link_lose(link, TS_ENOMEM, false, "sent more than there is memory for");
}

static void begin_data(ts_link *link, const ts_frame *f)
{
    ts_message *m = find_receive(link->trunk, f->id);
    if (!m) return; /* cancelled here; the bytes are thrown away */
    bool in_order = f->tag == m->moved || link->trunk->branch[0];
    if (f->bytes != m->bytes || !in_order || f->payload > m->bytes - m->moved) {
        ts_link_lose(link, TS_ENETWORK, false, "sent a piece of a message out of order");
        return;
    }
    link->in_message = m;
    link->in_to = m->bytes ? m->buf + f->tag : NULL;
}

static void take_cancel(ts_link *link, const ts_frame *f)
{
    ts_early *early = ts_early_find(link->engine, link->peer, f->channel, f->tag, f->id);
    if (early) ts_early_free(early);
    ts_message *m = find_receive(link, f->id);
    if (!m) return;
    char who[160], text[320];
    snprintf(text, sizeof text, "group '%s': %s gave up sending a message of %llu bytes",
             m->port->name, ts_link_describe(link, who, sizeof who), (unsigned long long)f->bytes);
    ts_message_end(m, TS_EREMOTE, text);
}

static void take_refuse(ts_link *link, const ts_frame *f)
{
    ts_message *m = ts_send_find(link, f->id);
    if (!m) return;
    char who[160], call[320], text[800];
    ts_message_other_end(call, sizeof call, m, link->peer, (size_t)f->bytes);
    snprintf(text, sizeof text,
             "group '%s': %s expects %llu bytes with tag %d, but %zu were sent to it%s; both "
             "tensors must have the same number of bytes",
             m->port->name, ts_link_describe(link, who, sizeof who), (unsigned long long)f->bytes,
             (int)(uint32_t)m->tag, m->bytes, call);
    ts_message_end(m, TS_EMISMATCH, text);
}

static void take_cts(ts_link *link, const ts_frame *f)
{
    ts_message *m = ts_send_find(link, f->id);
    if (!m || !m->announced || m->queued > 0) return; /* cancelled here */
    ts_send_pieces(m);
}

static void take_done(ts_link *link, const ts_frame *f)
{
    ts_message *m = ts_send_find(link, f->id);
    if (!m || m->slot < 0) return; /* taken back, or never offered */
    m->moved = m->bytes;
    ts_message_end(m, TS_OK, NULL);
}

static void take_credit(ts_link *link, const ts_frame *f)
{
    if (f->bytes > (uint64_t)(TS_EAGER_WINDOW - link->credit))
        ts_link_lose(link, TS_ENETWORK, false, "took more messages than were sent to it");
    else
        link->credit += (int64_t)f->bytes;
}

/* Each connection has its goodbye, for they do not arrive in the order of sending. */
static void take_goodbye(ts_link *link)
{
    ts_link *trunk = link->trunk;
    link->parted = true;
    for (int i = 0; (link = ts_link_socket(trunk, i)); i++)
        if (link->fd >= 0 && !link->parted) return;
    const char *cause = trunk->cause;
    ts_link_lose(trunk, TS_ENETWORK, true, "has left the group%s%s", cause ? "; before that, " : "",
                 cause ? cause : "");
}

static bool belongs_on_branch(uint8_t kind)
{
    return kind == TS_FRAME_DATA || kind == TS_FRAME_GOODBYE;
}

static void begin_frame(ts_link *link)
{
    const ts_frame *f = &link->in;
    if (link != link->trunk && !belongs_on_branch(f->kind)) {
        ts_link_lose(link, TS_ENETWORK, false, "sent a frame on the wrong connection");
        return;
    }
    link->in_left = f->payload;
    link->in_to = NULL;
    switch (f->kind) {
    case TS_FRAME_EAGER: begin_eager(link, f); break;
    case TS_FRAME_RTS: begin_rts(link, f); break;
    case TS_FRAME_CTS: take_cts(link, f); break;
    case TS_FRAME_DATA: begin_data(link, f); break;
    case TS_FRAME_REFUSE: take_refuse(link, f); break;
    case TS_FRAME_CANCEL: take_cancel(link, f); break;
    case TS_FRAME_CREDIT: take_credit(link, f); break;
    case TS_FRAME_DONE: take_done(link, f); break;
    case TS_FRAME_GOODBYE: take_goodbye(link); break;
    case TS_FRAME_LEAVE:
    case TS_FRAME_ABORT:
        free(link->in_text);
        link->in_text = ts_calloc(1, (size_t)f->payload + 1);
        link->in_to = (uint8_t *)link->in_text;
        break;
    }
}

/* ---- frames end ------------------------------------------------------------------------------ */

static void end_eager(ts_link *link)
{
    size_t bytes = (size_t)link->in.bytes;
    if (link->in_early) {
        link->in_early->whole = true;
        return;
    }
    if (link->in_message) {
        link->in_message->moved = bytes;
        ts_message_end(link->in_message, TS_OK, NULL);
    }
    ts_link_consumed(link, bytes);
}

static void end_data(ts_link *link)
{
    ts_message *m = link->in_message;
    if (!m) return;
    m->moved += link->in.payload;
    if (m->moved >= m->bytes) ts_message_end(m, TS_OK, NULL);
}

static void end_frame(ts_link *link)
{
    if (!link->trunk->same_host) {
        link->engine->traffic.received_frames++;
        link->engine->traffic.received_bytes += link->in.payload;
    }
    if (link->in.kind == TS_FRAME_EAGER) end_eager(link);
    if (link->in.kind == TS_FRAME_DATA) end_data(link);
    if (link->in.kind == TS_FRAME_LEAVE) ts_port_take_leave(link, &link->in, link->in_text);
    if (link->in.kind == TS_FRAME_ABORT) ts_port_take_abort(link, &link->in, link->in_text);
    link->in_early = NULL;
    link->in_message = NULL;
    link->in_to = NULL;
    link->in.kind = 0;
}

static void took(ts_link *link, size_t n)
{
    if (link->in_to) link->in_to += n;
    link->in_left -= n;
    if (link->in_left == 0 && link->in.kind && link->status == TS_OK) end_frame(link);
}

void ts_link_deliver(ts_link *link, const ts_frame *frame, const uint8_t *piece, size_t bytes)
{
    const char *wrong = frame->kind ? ts_frame_check(frame) : NULL;
    if ((frame->kind != 0) != (link->in_left == 0) || (!frame->kind && !link->in.kind))
        wrong = "pieces of frames out of order";
    if (wrong) {
        ts_link_lose(link, TS_ENETWORK, false, "sent what is not understood: %s", wrong);
        return;
    }
    if (frame->kind) {
        link->in = *frame;
        begin_frame(link);
    }
    if (bytes > link->in_left) bytes = link->in_left;
    if (link->in_to && bytes > 0) memcpy(link->in_to, piece, bytes);
    took(link, bytes);
}

/* ---- bytes of a socket ----------------------------------------------------------------------- */

/* Goes through what lies in the stage. */
static void parse(ts_link *link)
{
    while (link->status == TS_OK) {
        size_t there = link->stage_end - link->stage_begin;
        const uint8_t *at = link->stage + link->stage_begin;
        if (link->in_left > 0) {
            size_t n = there < link->in_left ? there : link->in_left;
            if (n == 0) return;
            if (link->in_to) memcpy(link->in_to, at, n);
            link->stage_begin += n;
            took(link, n);
            continue;
        }
        if (there < TS_FRAME_BYTES) return;
        const char *wrong = ts_frame_read(&link->in, at);
        if (wrong) {
            ts_link_lose(link, TS_ENETWORK, false, "sent what is not understood: %s", wrong);
            return;
        }
        link->stage_begin += TS_FRAME_BYTES;
        begin_frame(link);
        took(link, 0);
    }
}

/* The rest of the payload goes straight to its place, what follows it to the stage. *all: the
 * socket had no more.  most: bytes for the stage. */
static ssize_t read_once(ts_link *link, size_t most, bool *all)
{
    size_t there = link->stage_end - link->stage_begin;
    if (link->stage_begin > 0) {
        memmove(link->stage, link->stage + link->stage_begin, there);
        link->stage_begin = 0;
        link->stage_end = there;
    }
    struct iovec iov[2];
    int n = 0;
    size_t room = sizeof link->stage - there;
    size_t direct = link->in_left;
    if (direct > 0 && !link->in_to && direct > sizeof link->engine->scratch)
        direct = sizeof link->engine->scratch;
    if (direct > 0)
        iov[n++] = (struct iovec){link->in_to ? link->in_to : link->engine->scratch, direct};
    if (direct == link->in_left)
        iov[n++] = (struct iovec){link->stage + there, most < room ? most : room};
    ssize_t got = n == 1 ? ts_recv_piece(link->fd, iov[0].iov_base, iov[0].iov_len)
                         : ts_recv_some(link->fd, iov, n);
    if (got <= 0) return got;
    *all = (size_t)got < direct + (n > (direct > 0) ? iov[n - 1].iov_len : 0);
    size_t placed = (size_t)got < direct ? (size_t)got : direct;
    link->stage_end += (size_t)got - placed;
    if (placed) took(link, placed);
    if (link->status == TS_OK) parse(link);
    return got;
}

/* With mail a socket carries nothing but its end, and bytes that wake. */
static ssize_t read_wakes(ts_link *link)
{
    struct iovec all = {link->engine->scratch, sizeof link->engine->scratch};
    return ts_recv_some(link->fd, &all, 1);
}

/* What the other connections still hold may say why. */
static void connection_ended(ts_link *link, int error)
{
    ts_link *trunk = link->trunk, *other;
    bool had_parted = link->parted;
    link->ending = true;
    while (link->mail && ts_mail_read(link)) {
    }
    for (int i = 0; (other = ts_link_socket(trunk, i)); i++)
        while (!other->ending && ts_link_read(other)) {
        }
    for (int i = 0; (other = ts_link_socket(trunk, i)); i++) had_parted |= other->parted;
    if (trunk->status != TS_OK) return;
    if (had_parted) {
        ts_link_part(link);
        take_goodbye(link);
    } else {
        ts_link_lose(link, TS_ENETWORK, false, "is gone: %s",
                     error == ENODATA ? "connection closed" : strerror(error));
    }
}

static bool read_link(ts_link *link, const ts_message *message)
{
    size_t budget = READ_BUDGET, most = message ? FIRST_BYTES : sizeof link->stage;
    bool all = false;
    while (link->status == TS_OK && link->fd >= 0 && budget > 0 && !all) {
        ssize_t n = link->mail ? read_wakes(link) : read_once(link, most, &all);
        if (n == 0) return false;
        if (n < 0) {
            connection_ended(link, errno);
            return false;
        }
        if (message && !message->in_flight) return true;
        budget -= (size_t)n < budget ? (size_t)n : budget;
    }
    return budget == 0;
}

bool ts_link_read(ts_link *link) { return read_link(link, NULL); }

void ts_link_read_for(ts_link *link, const ts_message *message) { read_link(link, message); }

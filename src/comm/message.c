/* SPDX-License-Identifier: Apache-2.0 */
/* Messages: posting, ending, waiting. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "comm/mail.h"
#include "comm/recorder.h"

static _Thread_local ts_message *finishing; /* whose owner is being told by this thread */

static void destroy(ts_message *message)
{
    ts_port *port = message->port;
    free(message->error);
    ts_small_free(message, sizeof *message);
    ts_port_release(port);
}

static ts_message *new_message(ts_port *port, bool sending, int place, ts_channel channel,
                               uint64_t tag, const void *buf, size_t bytes)
{
    ts_message *m = ts_small_new(sizeof *m);
    if (!m) return NULL;
    ts_list_init(&m->node);
    ts_list_init(&m->by_id);
    ts_port_retain(port);
    m->port = port;
    m->engine = port->engine;
    m->starting = true;
    m->sending = sending;
    m->in_flight = true;
    m->channel = (uint8_t)channel;
    m->peer = ts_port_global(port, place);
    m->any = place == TS_ENGINE_ANY;
    m->tag = ts_port_tag(port, tag, sending ? place : port->rank);
    m->id = ++port->engine->next_id;
    m->buf = (uint8_t *)(uintptr_t)buf;
    m->bytes = bytes;
    m->place = m->slot = -1;
    return m;
}

void ts_message_end(ts_message *message, ts_status status, const char *text)
{
    if (!message->in_flight) return;
    message->in_flight = false;
    message->status = status;
    if (text) message->error = ts_strdup(text);
    ts_link *link = message->peer >= 0 ? message->engine->link[message->peer] : NULL;
    if (link && !message->sending) ts_link_forget(link, message);
    if (link && message->sending && message->slot >= 0) ts_mail_withdraw(link, message);
    ts_list_remove(&message->node);
    ts_list_remove(&message->by_id);
    ts_list_push(&message->engine->completed, &message->node);
}

bool ts_message_takes(ts_message *receive, size_t length)
{
    if (!receive->up_to || length > receive->bytes) return length == receive->bytes;
    receive->bytes = length;
    *receive->up_to = length;
    return true;
}

void ts_message_other_end(char *text, size_t size, const ts_message *message, int peer,
                          size_t bytes)
{
    char call[300];
    const ts_link *link = message->engine->link[peer]->trunk;
    const ts_port *port = message->port;
    ts_message_key key = {.group = port->name,
                          .op = message->sending ? TS_RECORD_RECV : TS_RECORD_SEND,
                          .peer = port->rank,
                          .tag = (int)(uint32_t)message->tag,
                          .bytes = bytes};
    text[0] = '\0';
    if (!link->same_host || message->channel != TS_CHANNEL_USER) return;
    const ts_recorder_memory *m = ts_recorder_map(link->pid, link->pid == getpid() ? peer : -1, 0);
    if (m && ts_recorder_find_message(call, sizeof call, m, &key))
        snprintf(text, size, "; it called %s", call);
    ts_recorder_unmap(m);
}

void ts_message_mismatch(ts_message *receive, int peer, size_t length)
{
    char who[160], call[320], text[800];
    const ts_engine *engine = receive->engine;
    ts_message_other_end(call, sizeof call, receive, peer, length);
    snprintf(text, sizeof text,
             "group '%s': %s sent %zu bytes with tag %d, but the receive expects %zu%s; "
             "both tensors must have the same number of bytes",
             receive->port->name, ts_link_describe(engine->link[peer], who, sizeof who), length,
             (int)(uint32_t)receive->tag, receive->bytes, call);
    ts_message_end(receive, TS_EMISMATCH, text);
}

static const char *error_of(const ts_message *message)
{
    if (message->status == TS_OK) return NULL;
    return message->error ? message->error : ts_status_text(message->status);
}

/* Who sent or gets it, as the port's rank. */
static int place_of(const ts_message *message)
{
    return message->peer < 0 ? message->peer : ts_port_place(message->port, message->peer);
}

void ts_message_finish(ts_message *message)
{
    if (message->done) {
        ts_message *outer = finishing;
        finishing = message;
        message->done(message->user, message->status, error_of(message), place_of(message));
        finishing = outer;
    }
    if (message->unowned)
        destroy(message);
    else if (message->starting) /* nobody waits yet */
        atomic_store_explicit(&message->state, TS_MESSAGE_DONE, memory_order_release);
    else
        ts_message_wake_owner(message);
}

/* ---- posting --------------------------------------------------------------------------------- */

static ts_status check_peer(ts_port *port, int peer, const char *what)
{
    if (peer >= 0 && peer < port->size) return TS_OK;
    return ts_fail(TS_EINVAL, "group '%s': %s rank %d, which is not in 0 .. %d", port->name, what,
                   peer, port->size - 1);
}

typedef enum sending { AT_ONCE, PACED, HELD } sending;

static ts_status send_start(ts_message **out, ts_port *port, int peer, ts_channel channel,
                            uint64_t tag, const void *buf, size_t bytes, sending how,
                            ts_message_done done, void *user)
{
    ts_engine *engine = port->engine;
    TS_TRY(check_peer(port, peer, "send to"));
    ts_engine_lock(engine);
    ts_status status = ts_port_check(port, peer);
    ts_message *m = NULL;
    if (status == TS_OK) {
        m = new_message(port, true, peer, channel, tag, buf, bytes);
        if (!m) status = ts_fail_memory(sizeof *m, "a message");
    }
    if (m) {
        m->paced = how == PACED;
        m->held = how == HELD;
        m->done = done;
        m->user = user;
        *out = m;
        ts_send_start(m);
        if (m->in_flight || ts_engine_defers(engine)) m->starting = false;
    }
    ts_engine_unlock(engine);
    return status;
}

ts_status ts_port_send(ts_message **out, ts_port *port, int peer, ts_channel channel, uint64_t tag,
                       const void *buf, size_t bytes, ts_message_done done, void *user)
{
    return send_start(out, port, peer, channel, tag, buf, bytes, AT_ONCE, done, user);
}

ts_status ts_port_send_paced(ts_message **out, ts_port *port, int peer, ts_channel channel,
                             uint64_t tag, const void *buf, size_t bytes)
{
    return send_start(out, port, peer, channel, tag, buf, bytes, PACED, NULL, NULL);
}

ts_status ts_port_send_held(ts_message **out, ts_port *port, int peer, ts_channel channel,
                            uint64_t tag, const void *buf, size_t bytes)
{
    return send_start(out, port, peer, channel, tag, buf, bytes, HELD, NULL, NULL);
}

static void take_own(ts_message *receive, ts_early *early)
{
    ts_message *send = early->self_send;
    bool fits = ts_message_takes(receive, early->bytes);
    if (fits && early->bytes > 0) memcpy(receive->buf, send->buf, early->bytes);
    ts_message_end(send, TS_OK, NULL);
    if (fits)
        ts_message_end(receive, TS_OK, NULL);
    else
        ts_message_mismatch(receive, early->peer, early->bytes);
}

static void take_whole(ts_message *receive, ts_early *early)
{
    ts_link_consumed(receive->engine->link[early->peer], early->bytes);
    if (!ts_message_takes(receive, early->bytes)) {
        ts_message_mismatch(receive, early->peer, early->bytes);
        return;
    }
    if (early->bytes > 0) memcpy(receive->buf, early->data, early->bytes);
    ts_message_end(receive, TS_OK, NULL);
}

/* What is still to come goes straight into the receive. */
static void take_arriving(ts_message *receive, ts_early *early, ts_link *link)
{
    size_t there = early->bytes - link->in_left;
    link->in_early = NULL;
    link->in_to = NULL;
    if (!ts_message_takes(receive, early->bytes)) {
        ts_message_mismatch(receive, early->peer, early->bytes);
        return;
    }
    if (there > 0) memcpy(receive->buf, early->data, there);
    link->in_to = receive->buf + there;
    link->in_message = receive;
    ts_list_push(&link->receives, &receive->node);
}

static void accept(ts_link *link, ts_message *receive, const ts_early *early)
{
    ts_frame rts = {.kind = TS_FRAME_RTS,
                    .bytes = early->bytes,
                    .id = early->id,
                    .place = early->place,
                    .slot = early->slot};
    ts_link_accept(link, receive, &rts);
}

static void take_early(ts_message *receive, ts_early *early)
{
    ts_link *link = receive->engine->link[early->peer];
    receive->peer = early->peer;
    receive->length = early->bytes;
    if (early->self_send)
        take_own(receive, early);
    else if (early->whole)
        take_whole(receive, early);
    else if (link->in_early == early)
        take_arriving(receive, early, link);
    else
        accept(link, receive, early);
    ts_early_free(early);
}

/* Whom it may come from must be connected. */
static void want(ts_port *port, int peer_or_any)
{
    if (!port->engine->dialer) return;
    for (int i = 0; i < port->size; i++)
        if (peer_or_any == TS_ENGINE_ANY || peer_or_any == i)
            ts_dialer_want(port->engine, ts_port_global(port, i));
}

static ts_status recv_start(ts_message **out, ts_port *port, int peer_or_any, ts_channel channel,
                            uint64_t tag, void *buf, size_t bytes, size_t *up_to,
                            ts_message_done done, void *user)
{
    ts_engine *engine = port->engine;
    if (peer_or_any != TS_ENGINE_ANY) TS_TRY(check_peer(port, peer_or_any, "receive from"));
    ts_engine_lock(engine);
    ts_early *early = ts_match_early(engine, ts_port_global(port, peer_or_any), (uint8_t)channel,
                                     ts_port_tag(port, tag, port->rank));
    ts_status status = early ? TS_OK : ts_port_check(port, peer_or_any);
    ts_message *m = NULL;
    if (status == TS_OK) {
        m = new_message(port, false, peer_or_any, channel, tag, buf, bytes);
        if (!m) status = ts_fail_memory(sizeof *m, "a message");
    }
    if (m) {
        m->done = done;
        m->user = user;
        m->up_to = up_to;
        *out = m;
        if (early) {
            take_early(m, early);
        } else {
            ts_match_post(m);
            want(port, peer_or_any);
        }
        if (m->in_flight || ts_engine_defers(engine)) m->starting = false;
    }
    ts_engine_unlock(engine);
    return status;
}

ts_status ts_port_recv(ts_message **out, ts_port *port, int peer_or_any, ts_channel channel,
                       uint64_t tag, void *buf, size_t bytes, ts_message_done done, void *user)
{
    return recv_start(out, port, peer_or_any, channel, tag, buf, bytes, NULL, done, user);
}

ts_status ts_port_recv_up_to(ts_message **out, ts_port *port, int peer, ts_channel channel,
                             uint64_t tag, void *buf, size_t most, size_t *bytes)
{
    return recv_start(out, port, peer, channel, tag, buf, most, bytes, NULL, NULL);
}

/* ---- waiting --------------------------------------------------------------------------------- */

bool ts_message_is_done(const ts_message *message)
{
    return atomic_load_explicit(&message->state, memory_order_acquire) == TS_MESSAGE_DONE;
}

/* A receive is given up; the sender of what it was copying goes on as if it had arrived. */
void ts_receive_cancel(ts_message *m)
{
    ts_link *link = m->engine->link[m->peer];
    ts_link_forget(link, m);
    if (m->place >= 0) ts_link_answer(link, TS_FRAME_DONE, m->id, m->bytes);
}

/* Takes the message out of flight; false: it has ended by itself. */
static bool cancel(ts_message *m)
{
    ts_engine *engine = m->engine;
    ts_engine_lock(engine);
    bool cancelled = m->in_flight;
    if (cancelled) {
        if (m->sending)
            ts_send_cancel(m);
        else if (m->peer >= 0)
            ts_receive_cancel(m);
    }
    cancelled = cancelled && m->in_flight; /* out of memory ends the link and its messages */
    if (cancelled) {
        m->in_flight = false;
        ts_list_remove(&m->node);
        ts_list_remove(&m->by_id);
    }
    ts_engine_unlock(engine);
    return cancelled;
}

static ts_status timed_out(const ts_message *m, ts_deadline deadline)
{
    char who[256];
    if (m->peer >= 0)
        ts_link_describe(m->engine->link[m->peer], who, sizeof who);
    else
        ts_port_describe_present(m->port, who, sizeof who);
    return ts_fail(TS_ETIMEOUT,
                   "group '%s': %s %s has not ended after %lld ms (%zu bytes, of which %zu went; "
                   "%s channel, tag %d); the other side has not %s",
                   m->port->name, m->sending ? "send to" : "receive from", who,
                   (long long)deadline.timeout_ms, m->bytes, m->moved,
                   m->channel == TS_CHANNEL_USER ? "user" : "collective", (int)(uint32_t)m->tag,
                   m->sending ? "received" : "sent");
}

ts_status ts_message_wait(ts_message *message, ts_deadline deadline, int *peer)
{
    if (!ts_message_await(message, deadline)) {
        if (cancel(message)) {
            ts_status status = timed_out(message, deadline);
            destroy(message);
            return status;
        }
        ts_message_await(message, ts_deadline_in(0));
    }
    ts_status status = message->status;
    if (status != TS_OK) ts_fail_again(status, error_of(message));
    if (peer) *peer = place_of(message);
    destroy(message);
    return status;
}

void ts_message_free(ts_message *message)
{
    if (!message) return;
    if (finishing == message) {
        message->unowned = true;
        return;
    }
    if (!ts_message_is_done(message) && !cancel(message))
        ts_message_await(message, ts_deadline_in(0));
    destroy(message);
}

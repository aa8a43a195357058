/* SPDX-License-Identifier: Apache-2.0 */
/* Ports: the shares that groups have in an engine, and how a port, or a member of it, ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "comm/mail.h"
#include "net/tls.h"

/* ---- life ------------------------------------------------------------------------------------ */

ts_port *ts_port_new(ts_engine *engine, const ts_port_options *opt)
{
    ts_port *port = ts_calloc(1, sizeof *port);
    if (!port) return NULL;
    ts_list_init(&port->node);
    atomic_init(&port->refs_made, 1);
    port->name = ts_strdup(opt->name ? opt->name : "");
    if (!port->name) {
        free(port);
        return NULL;
    }
    atomic_fetch_add(&engine->refs, 1);
    port->engine = engine;
    port->rank = opt->rank;
    port->size = opt->size;
    port->peers_left = opt->size - 1;
    port->ranks = opt->ranks;
    port->on_lost = opt->on_lost;
    port->user = opt->user;
    return port;
}

void ts_port_retain(ts_port *port)
{
    int64_t made = atomic_load_explicit(&port->refs_made, memory_order_relaxed);
    atomic_store_explicit(&port->refs_made, made + 1, memory_order_relaxed);
}

void ts_port_release(ts_port *port)
{
    int64_t freed = atomic_fetch_add(&port->refs_freed, 1) + 1;
    if (freed < atomic_load_explicit(&port->refs_made, memory_order_relaxed)) return;
    ts_engine *engine = port->engine;
    while (port->losses) {
        ts_loss *loss = port->losses;
        port->losses = loss->next;
        free(loss->why);
        free(loss->cause);
        free(loss);
    }
    free(port->why);
    free(port->lost_why);
    free(port->name);
    free(port);
    ts_engine_release(engine);
}

/* ---- who is who ------------------------------------------------------------------------------ */

ts_port *ts_engine_port(const ts_engine *engine) { return engine->first; }

uint32_t ts_port_number(const ts_port *port) { return port->number; }

ts_port *ts_port_find(ts_engine *engine, uint32_t number)
{
    TS_LIST_EACH(node, &engine->port[number % TS_PORT_BUCKETS])
    {
        ts_port *port = TS_LIST_ITEM(node, ts_port, node);
        if (port->number == number) return port;
    }
    return NULL;
}

ts_port *ts_port_of(ts_engine *engine, uint64_t tag)
{
    return ts_port_find(engine, (uint32_t)(tag >> 32));
}

int ts_port_global(const ts_port *port, int peer)
{
    return port->ranks && peer >= 0 ? port->ranks[peer] : peer;
}

int ts_port_place(const ts_port *port, int peer)
{
    if (!port->ranks) return peer;
    for (int i = 0; i < port->size; i++)
        if (port->ranks[i] == peer) return i;
    return -1;
}

ts_message *ts_port_first(const ts_port *port, ts_list *list)
{
    TS_LIST_EACH(node, list)
    {
        ts_message *m = TS_LIST_ITEM(node, ts_message, node);
        if (m->port == port) return m;
    }
    return NULL;
}

uint64_t ts_port_tag(const ts_port *port, uint64_t tag, int place)
{
    uint32_t number = port->number_of ? port->number_of[place] : 0;
    return (uint32_t)tag | (uint64_t)number << 32;
}

/* ---- losses ---------------------------------------------------------------------------------- */

static ts_loss *find_loss(const ts_port *port, int place)
{
    for (ts_loss *loss = port->losses; loss; loss = loss->next)
        if (loss->place == place) return loss;
    return NULL;
}

static void blame(ts_port *port, const ts_loss *loss)
{
    if (loss && !port->blamed) port->blamed = loss;
}

void ts_port_blame(ts_port *port, int peer)
{
    ts_engine_lock(port->engine);
    blame(port, find_loss(port, peer));
    ts_engine_unlock(port->engine);
}

static const char *why_of(ts_status status, const char *why)
{
    return why ? why : ts_status_text(status);
}

ts_status ts_port_check(ts_port *port, int place)
{
    if (port->status != TS_OK) return ts_fail_again(port->status, why_of(port->status, port->why));
    if (place == TS_ENGINE_ANY) {
        if (port->lost_status == TS_OK) return TS_OK;
        blame(port, port->lost);
        return ts_fail_again(port->lost_status, why_of(port->lost_status, port->lost_why));
    }
    const ts_loss *loss = port->losses ? find_loss(port, place) : NULL;
    blame(port, loss);
    return loss ? ts_fail_again(loss->status, why_of(loss->status, loss->why)) : TS_OK;
}

ts_status ts_port_peer_status(ts_port *port, int peer)
{
    ts_engine_lock(port->engine);
    const ts_loss *loss = find_loss(port, peer);
    ts_status status = loss ? loss->status : TS_OK;
    if (loss) ts_fail_again(status, why_of(status, loss->why));
    ts_engine_unlock(port->engine);
    return status;
}

void ts_port_set_calls(ts_port *port, uint64_t calls)
{
    ts_engine_lock(port->engine);
    port->calls = calls + 1;
    ts_engine_unlock(port->engine);
}

uint64_t ts_port_peer_calls(ts_port *port, int peer)
{
    ts_engine_lock(port->engine);
    const ts_loss *loss = find_loss(port, peer);
    uint64_t calls = loss ? loss->calls : UINT64_MAX;
    ts_engine_unlock(port->engine);
    return calls;
}

/* "ranks 1, 2 and 5 more": the others that are lost, or not.  Gives its length; there must be room. */
static size_t list_members(const ts_port *port, bool lost, char *out, size_t size)
{
    enum { NAMED = 8 };
    int count = 0;
    size_t at = 0;
    for (int place = 0; place < port->size; place++) {
        if (place == port->rank || (find_loss(port, place) != NULL) != lost) continue;
        if (count++ < NAMED)
            at += (size_t)snprintf(out + at, size - at, "%s %d", count > 1 ? "," : "", place);
    }
    if (count > NAMED)
        at += (size_t)snprintf(out + at, size - at, " and %d more", count - NAMED);
    else if (count == 0)
        at += (size_t)snprintf(out + at, size - at, " none");
    return at;
}

void ts_port_describe_present(ts_port *port, char *out, size_t size)
{
    ts_engine_lock(port->engine);
    size_t at = (size_t)snprintf(out, size, "any rank (still there:");
    at += list_members(port, false, out + at, size - at);
    if (port->losses) {
        at += (size_t)snprintf(out + at, size - at, "; no longer:");
        at += list_members(port, true, out + at, size - at);
    }
    snprintf(out + at, size - at, ")");
    ts_engine_unlock(port->engine);
}

static void note_first_loss(ts_port *port, const ts_loss *loss, bool passing)
{
    if (port->lost_status != TS_OK) return;
    port->lost_status = loss->status;
    port->lost = passing ? NULL : loss;
    port->lost_why = loss->why ? ts_strdup(loss->why) : NULL;
}

/* Behind the others. */
static ts_loss *note_loss(ts_port *port, const ts_link *link, int place, const char *what)
{
    char who[160];
    ts_loss *loss = ts_calloc(1, sizeof *loss), **end = &port->losses;
    if (!loss) return NULL;
    loss->place = place;
    loss->calls = UINT64_MAX;
    loss->why =
        ts_asprintf("group '%s': %s %s", port->name, ts_link_describe(link, who, sizeof who), what);
    loss->cause = ts_asprintf("%s %s", who, what);
    while (*end) end = &(*end)->next;
    *end = loss;
    return loss;
}

static void end_messages(ts_port *port, ts_list *list, const ts_loss *loss)
{
    ts_message *m;
    while ((m = ts_port_first(port, list))) {
        if (m->sending) ts_link_detach(port->engine->link[m->peer], m);
        ts_message_end(m, loss->status, loss->why);
    }
}

/* disturbs: nothing is received from any rank from now on. */
static void lose(ts_port *port, ts_link *link, ts_status status, bool graceful, bool disturbs,
                 const char *what)
{
    link = link->trunk;
    int place = ts_port_place(port, link->peer);
    if (place < 0 || find_loss(port, place)) return;
    ts_loss *loss = note_loss(port, link, place, what);
    ts_loss plain = {.status = status}; /* out of memory: nobody is told, but nobody waits either */
    if (!loss) loss = &plain;
    loss->status = status;
    loss->graceful = graceful;
    port->peers_left--;
    if (disturbs || port->peers_left == 0) note_first_loss(port, loss, loss == &plain);
    const ts_list *last = port->engine->completed.prev;
    end_messages(port, &link->sends, loss);
    if (!graceful || link->status != TS_OK) end_messages(port, &link->receives, loss);
    ts_match_member_lost(port, link->peer, port->lost_status != TS_OK, status, loss->why);
    if (loss == &plain) return;
    if (port->engine->completed.prev != last) blame(port, loss);
    loss->told = port->closed || port->status != TS_OK;
    if (!loss->told) port->engine->untold++;
    ts_engine_wake(port->engine);
}

void ts_port_lose(ts_port *port, ts_link *link, ts_status status, bool graceful, const char *what)
{
    lose(port, link, status, graceful, !graceful, what);
}

void ts_port_lose_everywhere(ts_link *link, bool graceful, const char *what)
{
    ts_engine *engine = link->engine;
    for (int i = 0; i < TS_PORT_BUCKETS; i++) TS_LIST_EACH(node, &engine->port[i])
    ts_port_lose(TS_LIST_ITEM(node, ts_port, node), link, link->status, graceful, what);
}

/* ---- telling --------------------------------------------------------------------------------- */

/* The next loss to be told; its port holds it. */
static ts_loss *next_untold(ts_engine *engine, ts_port **port)
{
    for (int i = 0; engine->untold > 0 && i < TS_PORT_BUCKETS; i++)
        TS_LIST_EACH(node, &engine->port[i])
        {
            *port = TS_LIST_ITEM(node, ts_port, node);
            for (ts_loss *loss = (*port)->losses; loss; loss = loss->next)
                if (!loss->told) return loss;
        }
    return NULL;
}

void ts_port_tell(ts_engine *engine)
{
    ts_port *port;
    pthread_mutex_lock(&engine->tell);
    for (;;) {
        pthread_mutex_lock(&engine->lock);
        ts_loss *loss = next_untold(engine, &port);
        if (loss) {
            loss->told = true;
            engine->untold--;
        }
        pthread_mutex_unlock(&engine->lock);
        if (!loss) break;
        if (port->on_lost)
            port->on_lost(port->user, loss->place, loss->graceful,
                          loss->why ? loss->why : "a peer is gone");
    }
    pthread_mutex_unlock(&engine->tell);
}

static void forget_untold(ts_port *port)
{
    for (ts_loss *loss = port->losses; loss; loss = loss->next) {
        if (!loss->told) port->engine->untold--;
        loss->told = true;
    }
}

/* ---- frames about ports ---------------------------------------------------------------------- */

static void say(ts_link *link, ts_frame frame, const char *text)
{
    char *copy = text ? ts_strndup(text, frame.payload) : NULL;
    if ((link->fd < 0 && !link->opening) || (text && !copy)) {
        free(copy);
        return;
    }
    if (ts_link_queue(link, &frame, copy, true, NULL) == TS_OK) ts_link_flush(link);
}

static uint32_t length_of(const char *text)
{
    size_t length = text ? strlen(text) : 0;
    return (uint32_t)(length < TS_ABORT_TEXT_MAX ? length : TS_ABORT_TEXT_MAX);
}

static ts_frame abort_frame(ts_status status, const char *text)
{
    return (ts_frame){.kind = TS_FRAME_ABORT, .tag = (uint64_t)status, .payload = length_of(text)};
}

/* To all members that have said their number. */
static void say_all(ts_port *port, ts_frame frame, const char *text)
{
    if (port->number != 0 && !port->number_of) return;
    for (int place = 0; place < port->size; place++) {
        ts_link *link = port->engine->link[ts_port_global(port, place)];
        frame.id = port->number_of ? port->number_of[place] : 0;
        if (place != port->rank && !find_loss(port, place)) say(link, frame, text);
    }
}

void ts_port_answer(ts_link *link, uint32_t number)
{
    const ts_port *port = ts_port_find(link->engine, number);
    if (port && port->status == TS_OK) return;
    const char *text = port ? why_of(port->status, port->why) : NULL;
    ts_frame frame = {.kind = TS_FRAME_LEAVE};
    if (port) frame = abort_frame(port->status, text);
    frame.channel = TS_FRAME_OWN_PORT;
    frame.id = number;
    say(link->trunk, frame, text);
}

/* Whose port the frame means; NULL: none any more. */
static ts_port *meant(ts_link *link, const ts_frame *frame)
{
    ts_engine *engine = link->engine;
    if (frame->channel != TS_FRAME_OWN_PORT || frame->id == 0)
        return ts_port_find(engine, (uint32_t)frame->id);
    for (int i = 0; i < TS_PORT_BUCKETS; i++) TS_LIST_EACH(node, &engine->port[i])
        {
            ts_port *port = TS_LIST_ITEM(node, ts_port, node);
            int place = port->number_of ? ts_port_place(port, link->peer) : -1;
            if (place >= 0 && port->number_of[place] == frame->id) return port;
        }
    return NULL;
}

void ts_port_take_leave(ts_link *link, const ts_frame *frame, const char *text)
{
    char what[TS_ABORT_TEXT_MAX + 64];
    ts_port *port = meant(link, frame);
    if (text && !*text) text = NULL;
    if (text && !link->trunk->cause) link->trunk->cause = ts_strdup(text);
    if (!port) return;
    snprintf(what, sizeof what, "has left the group%s%s", text ? "; before that, " : "",
             text ? text : "");
    lose(port, link, TS_ENETWORK, true, text != NULL, what);
    ts_loss *loss = find_loss(port, ts_port_place(port, link->peer));
    if (loss && loss->graceful && frame->bytes > 0) loss->calls = frame->bytes - 1;
    char *cause = loss && text ? ts_strdup(text) : NULL;
    if (!cause) return;
    free(loss->cause);
    loss->cause = cause;
}

void ts_port_take_abort(ts_link *link, const ts_frame *frame, const char *text)
{
    char what[TS_ABORT_TEXT_MAX + 64];
    ts_port *port = meant(link, frame);
    snprintf(what, sizeof what, "aborted: %s", text ? text : "");
    if (port) ts_port_lose(port, link, TS_EREMOTE, false, what);
}

/* ---- opening and ending ---------------------------------------------------------------------- */

static ts_status check_members(ts_port *of, const ts_port_options *opt)
{
    for (int i = 0; i < opt->size; i++) {
        const ts_link *link = of->engine->link[opt->ranks[i]];
        if (link->status == TS_OK) continue;
        const ts_loss *loss = find_loss(of, ts_port_place(of, opt->ranks[i]));
        blame(of, loss);
        if (loss) return ts_fail_again(loss->status, why_of(loss->status, loss->why));
        return ts_fail_again(link->status, link->why ? link->why : "");
    }
    return TS_OK;
}

ts_status ts_port_open(ts_port **out, ts_port *of, const ts_port_options *opt)
{
    ts_engine *engine = of->engine;
    ts_port *port = ts_port_new(engine, opt);
    if (!port) return ts_fail_memory(sizeof *port, "a group");
    ts_engine_lock(engine);
    ts_status status = check_members(of, opt);
    if (status == TS_OK) {
        port->number = ++engine->last_number;
        ts_list_push(&engine->port[port->number % TS_PORT_BUCKETS], &port->node);
        engine->ports++;
    }
    ts_engine_unlock(engine);
    if (status == TS_OK)
        *out = port;
    else
        ts_port_release(port);
    return status;
}

void ts_port_connect(ts_port *port, const uint32_t *number)
{
    ts_engine_lock(port->engine);
    port->number_of = number;
    ts_engine_unlock(port->engine);
}

/* The first reason stays. */
static bool end(ts_port *port, ts_status status, const char *text, bool one_by_one)
{
    if (port->status != TS_OK) return false;
    port->status = status;
    port->why = ts_strdup(text);
    ts_match_end_all(port, status, text, one_by_one);
    return true;
}

void ts_port_abort(ts_port *port, ts_status status, const char *text)
{
    ts_engine_lock(port->engine);
    if (end(port, status, text, false)) say_all(port, abort_frame(status, text), text);
    ts_engine_unlock(port->engine);
}

static const char *own_cause(const ts_port *port)
{
    if (port->blamed) return port->blamed->cause;
    return port->status != TS_OK ? port->why : NULL;
}

/* Why this rank leaves: what has failed in this group, or in another that it is in; NULL: nothing. */
static const char *find_cause(const ts_port *port)
{
    const char *cause = own_cause(port);
    for (int i = 0; !cause && i < TS_PORT_BUCKETS; i++) TS_LIST_EACH(node, &port->engine->port[i])
    if (!cause) cause = own_cause(TS_LIST_ITEM(node, ts_port, node));
    return cause;
}

void ts_port_close(ts_port *port)
{
    if (!port) return;
    char text[200];
    ts_engine *engine = port->engine;
    snprintf(text, sizeof text, "group '%s' was destroyed while this was in flight", port->name);
    pthread_mutex_lock(&engine->tell);
    ts_engine_lock(engine);
    bool last = --engine->ports == 0;
    port->closed = true;
    forget_untold(port);
    const char *cause = find_cause(port);
    end(port, TS_EABORTED, text, !last);
    ts_frame leave = {.kind = TS_FRAME_LEAVE, .bytes = port->calls, .payload = length_of(cause)};
    if (!last || cause || port->calls > 0) say_all(port, leave, cause);
    ts_list_remove(&port->node);
    port->number_of = NULL;
    ts_engine_unlock(engine);
    pthread_mutex_unlock(&engine->tell);
    if (last) ts_engine_end(engine);
    ts_port_release(port);
    if (last) ts_tls_drain();
}

/* ---- questions ------------------------------------------------------------------------------- */

static ts_link *link_to(const ts_port *port, int peer)
{
    return port->engine->link[ts_port_global(port, peer)];
}

bool ts_port_same_host(const ts_port *port, int peer) { return link_to(port, peer)->same_host; }

int ts_port_ranks_here(const ts_port *port) { return port->engine->ranks_here; }

ts_peer_heap ts_port_peer_heap(ts_port *port, int peer)
{
    ts_link *link = link_to(port, peer);
    if (link->heap_fd < 0) return (ts_peer_heap){0, NULL, NULL};
    ts_engine_lock(port->engine);
    ts_peer_heap heap = {link->heap_reserved, ts_link_map(link), ts_link_map_to_store(link)};
    ts_engine_unlock(port->engine);
    return heap;
}

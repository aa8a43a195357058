/* SPDX-License-Identifier: Apache-2.0 */
/* Which message belongs to which receive: by peer, channel and tag, in order.  Receives lie in
 * buckets in the order of posting, early messages in the order of arrival, so that one that takes
 * any source neither overtakes nor is overtaken. */
#include <stdlib.h>

#include "base/memory.h"
#include "comm/engine_impl.h"

static ts_bucket *bucket_of(ts_engine *engine, uint8_t channel, uint64_t tag)
{
    uint64_t hash = (tag * 2 + channel) * UINT64_C(0x9e3779b97f4a7c15);
    return &engine->bucket[(hash >> 32) % TS_BUCKETS];
}

void ts_match_post(ts_message *receive)
{
    ts_list_push(&bucket_of(receive->engine, receive->channel, receive->tag)->posted,
                 &receive->node);
}

ts_message *ts_match_posted(ts_engine *engine, int peer, uint8_t channel, uint64_t tag)
{
    TS_LIST_EACH(node, &bucket_of(engine, channel, tag)->posted)
    {
        ts_message *m = TS_LIST_ITEM(node, ts_message, node);
        if (m->tag == tag && m->channel == channel && (m->any || m->peer == peer)) {
            ts_list_remove(node);
            return m;
        }
    }
    return NULL;
}

ts_early *ts_match_early(ts_engine *engine, int peer_or_any, uint8_t channel, uint64_t tag)
{
    TS_LIST_EACH(node, &bucket_of(engine, channel, tag)->early)
    {
        ts_early *early = TS_LIST_ITEM(node, ts_early, node);
        if (early->tag == tag && early->channel == channel &&
            (peer_or_any == TS_ENGINE_ANY || early->peer == peer_or_any))
            return early;
    }
    return NULL;
}

ts_early *ts_early_new(ts_engine *engine, int peer, const ts_frame *frame, bool with_data)
{
    ts_early *early = ts_small_new(sizeof *early);
    if (!early) return NULL;
    early->peer = peer;
    early->channel = frame->channel;
    early->tag = frame->tag;
    early->id = frame->id;
    early->bytes = (size_t)frame->bytes;
    early->place = frame->place;
    early->slot = frame->slot;
    if (with_data && early->bytes > 0 && !(early->data = malloc(early->bytes))) {
        ts_small_free(early, sizeof *early);
        return NULL;
    }
    ts_list_push(&bucket_of(engine, early->channel, early->tag)->early, &early->node);
    return early;
}

void ts_early_free(ts_early *early)
{
    ts_list_remove(&early->node);
    free(early->data);
    ts_small_free(early, sizeof *early);
}

ts_early *ts_early_find(ts_engine *engine, int peer, uint8_t channel, uint64_t tag, uint64_t id)
{
    TS_LIST_EACH(node, &bucket_of(engine, channel, tag)->early)
    {
        ts_early *early = TS_LIST_ITEM(node, ts_early, node);
        if (early->peer == peer && early->id == id) return early;
    }
    return NULL;
}

/* What has arrived whole is still delivered. */
static void forget_unfinished(ts_bucket *bucket, int peer)
{
    TS_LIST_EACH(node, &bucket->early)
    {
        ts_early *early = TS_LIST_ITEM(node, ts_early, node);
        if (early->peer == peer && !early->whole) ts_early_free(early);
    }
}

void ts_match_link_lost(ts_link *link)
{
    link->in_early = NULL;
    for (int i = 0; i < TS_BUCKETS; i++) forget_unfinished(&link->engine->bucket[i], link->peer);
}

void ts_match_member_lost(ts_port *port, int peer, bool any, ts_status status, const char *why)
{
    for (int i = 0; i < TS_BUCKETS; i++) TS_LIST_EACH(node, &port->engine->bucket[i].posted)
        {
            ts_message *m = TS_LIST_ITEM(node, ts_message, node);
            if (m->port == port && (m->any ? any : m->peer == peer)) ts_message_end(m, status, why);
        }
}

/* Its sender gets back what it may send early. */
static void forget_early(ts_engine *engine, ts_early *early)
{
    ts_link *link = engine->link[early->peer];
    if (link->in_early == early) {
        link->in_early = NULL;
        link->in_to = NULL;
    } else if (early->whole) {
        ts_link_consumed(link, early->bytes);
    }
    ts_early_free(early);
}

static ts_early *first_early(ts_port *port, ts_bucket *bucket)
{
    TS_LIST_EACH(node, &bucket->early)
    {
        ts_early *early = TS_LIST_ITEM(node, ts_early, node);
        if (ts_port_of(port->engine, early->tag) == port) return early;
    }
    return NULL;
}

/* Each that ends may end others, so the lists are looked at anew. */
static void end_bucket(ts_port *port, ts_bucket *bucket, ts_status status, const char *text)
{
    ts_message *m;
    ts_early *early;
    while ((m = ts_port_first(port, &bucket->posted))) ts_message_end(m, status, text);
    while ((early = first_early(port, bucket))) forget_early(port->engine, early);
}

static void end_link(ts_port *port, ts_link *link, ts_status status, const char *text,
                     bool one_by_one)
{
    ts_message *m;
    while ((m = ts_port_first(port, &link->receives))) {
        if (one_by_one) ts_receive_cancel(m);
        ts_message_end(m, status, text);
    }
    while ((m = ts_port_first(port, &link->sends))) {
        if (one_by_one)
            ts_send_cancel(m);
        else
            ts_link_detach(link, m);
        ts_message_end(m, status, text);
    }
}

void ts_match_end_all(ts_port *port, ts_status status, const char *text, bool one_by_one)
{
    ts_engine *engine = port->engine;
    for (int i = 0; i < TS_BUCKETS; i++) end_bucket(port, &engine->bucket[i], status, text);
    for (int peer = 0; peer < engine->size; peer++)
        if (engine->link[peer]) end_link(port, engine->link[peer], status, text, one_by_one);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of one step of a collective between hosts: started together, awaited together. */
#include <stdlib.h>

#include "base/memory.h"
#include "comm/backend/native/native.h"

enum { STEP_BITS = 16 };

static uint64_t tag_of(const ts_coll *coll, uint32_t step)
{
    return (uint32_t)coll->sequence << STEP_BITS | step;
}

ts_status ts_native_send(ts_message **out, ts_native *n, const ts_coll *coll, int peer,
                         uint32_t step, const void *data, size_t bytes)
{
    return ts_port_send(out, n->port, peer, TS_CHANNEL_COLLECTIVE, tag_of(coll, step), data, bytes,
                        NULL, NULL);
}

ts_status ts_native_send_paced(ts_message **out, ts_native *n, const ts_coll *coll, int peer,
                               uint32_t step, const void *data, size_t bytes)
{
    return ts_port_send_paced(out, n->port, peer, TS_CHANNEL_COLLECTIVE, tag_of(coll, step), data,
                              bytes);
}

ts_status ts_native_recv(ts_message **out, ts_native *n, const ts_coll *coll, int peer,
                         uint32_t step, void *data, size_t bytes)
{
    return ts_port_recv(out, n->port, peer, TS_CHANNEL_COLLECTIVE, tag_of(coll, step), data, bytes,
                        NULL, NULL);
}

ts_status ts_native_message_failed(ts_native *n, const ts_coll *coll, ts_status status)
{
    char *why = ts_strdup(ts_error_last());
    status = ts_native_fail(n, coll, status, "%s", why ? why : "");
    free(why);
    return ts_native_give_up(n, status);
}

ts_exchange ts_exchange_begin(ts_native *n, const ts_coll *coll)
{
    return ts_exchange_begin_beside(n, coll, 0);
}

ts_exchange ts_exchange_begin_beside(ts_native *n, const ts_coll *coll, int place)
{
    return (ts_exchange){
        .native = n, .coll = coll, .messages = n->messages + 2 * (size_t)n->size * (size_t)place};
}

void ts_exchange_drop(ts_exchange *e)
{
    for (int i = 0; i < e->count; i++) ts_message_free(e->messages[i]);
    e->count = 0;
}

static void started(ts_exchange *e, ts_status status)
{
    if (status == TS_OK)
        e->count++;
    else if (e->status == TS_OK)
        e->status = status;
}

void ts_exchange_send(ts_exchange *e, int peer, uint32_t step, const void *data, size_t bytes)
{
    if (e->status != TS_OK) return;
    ts_native *n = e->native;
    started(e, ts_native_send(&e->messages[e->count], n, e->coll, peer, step, data, bytes));
}

void ts_exchange_send_held(ts_exchange *e, int peer, uint32_t step, const void *data, size_t bytes)
{
    if (e->status != TS_OK) return;
    started(e, ts_port_send_held(&e->messages[e->count], e->native->port, peer,
                                 TS_CHANNEL_COLLECTIVE, tag_of(e->coll, step), data, bytes));
}

void ts_exchange_recv(ts_exchange *e, int peer, uint32_t step, void *data, size_t bytes)
{
    if (e->status != TS_OK) return;
    ts_native *n = e->native;
    started(e, ts_native_recv(&e->messages[e->count], n, e->coll, peer, step, data, bytes));
}

void ts_exchange_recv_up_to(ts_exchange *e, int peer, uint32_t step, void *data, size_t most,
                            size_t *bytes)
{
    if (e->status != TS_OK) return;
    started(e, ts_port_recv_up_to(&e->messages[e->count], e->native->port, peer,
                                  TS_CHANNEL_COLLECTIVE, tag_of(e->coll, step), data, most, bytes));
}

static ts_status await(ts_exchange *e, int i)
{
    ts_message *message = e->messages[i];
    e->messages[i] = NULL;
    if (!message) return TS_OK;
    return ts_message_wait(message, ts_native_deadline(e->native, e->coll), NULL);
}

ts_status ts_exchange_end(ts_exchange *e, ts_status status)
{
    status = ts_native_message_failed(e->native, e->coll, status);
    ts_exchange_drop(e);
    e->status = status;
    return status;
}

ts_status ts_exchange_wait(ts_exchange *e)
{
    ts_status status = e->status;
    for (int i = 0; status == TS_OK && i < e->count; i++) status = await(e, i);
    if (status != TS_OK) return ts_exchange_end(e, status);
    e->count = 0;
    return TS_OK;
}

static char *grow(char **room, size_t *room_bytes, size_t bytes)
{
    char *present = *room;
    if (present && bytes <= *room_bytes) return present;
    char *grown = malloc(bytes + 1);
    if (!grown) {
        ts_fail_memory(bytes, "data on its way between ranks");
        return NULL;
    }
    free(*room);
    *room = grown;
    *room_bytes = bytes;
    return grown;
}

char *ts_native_scratch(ts_native *n, size_t bytes)
{
    return grow(&n->scratch, &n->scratch_bytes, bytes);
}

char *ts_native_room(ts_native *n, size_t bytes) { return grow(&n->room, &n->room_bytes, bytes); }

/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of one step of a collective between hosts: started together, awaited together. */
#include <stdlib.h>

#include "base/memory.h"
#include "comm/backend/native/native.h"

enum { STEP_BITS = 24 };

ts_exchange ts_exchange_begin(ts_native *n, const ts_coll *coll)
{
    return (ts_exchange){.native = n, .coll = coll};
}

static uint64_t tag_of(const ts_exchange *e, uint32_t step)
{
    return e->coll->sequence << STEP_BITS | step;
}

/* Cancels and lets go of all from the first on. */
static void drop(ts_exchange *e, int first)
{
    for (int i = first; i < e->count; i++) ts_message_free(e->native->messages[i]);
    e->count = 0;
}

static ts_status give_up(ts_exchange *e, ts_status status)
{
    char *why = ts_strdup(ts_error_last());
    status = ts_native_fail(e->native, e->coll, status, "%s", why ? why : "");
    free(why);
    return ts_native_give_up(e->native, status);
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
    started(e, ts_engine_send(&n->messages[e->count], n->engine, peer, TS_CHANNEL_COLLECTIVE,
                              tag_of(e, step), data, bytes, NULL, NULL));
}

void ts_exchange_recv(ts_exchange *e, int peer, uint32_t step, void *data, size_t bytes)
{
    if (e->status != TS_OK) return;
    ts_native *n = e->native;
    started(e, ts_engine_recv(&n->messages[e->count], n->engine, peer, TS_CHANNEL_COLLECTIVE,
                              tag_of(e, step), data, bytes, NULL, NULL));
}

ts_status ts_exchange_wait(ts_exchange *e)
{
    ts_native *n = e->native;
    ts_deadline deadline = ts_native_deadline(n, e->coll);
    ts_status status = e->status;
    int i = 0;
    while (status == TS_OK && i < e->count)
        status = ts_message_wait(n->messages[i++], deadline, NULL);
    if (status == TS_OK) {
        e->count = 0;
        return TS_OK;
    }
    status = give_up(e, status);
    drop(e, i);
    return status;
}

char *ts_native_scratch(ts_native *n, size_t bytes)
{
    if (bytes <= n->scratch_bytes) return n->scratch;
    char *grown = malloc(bytes);
    if (!grown) {
        ts_fail_memory(bytes, "data on its way between ranks");
        return NULL;
    }
    free(n->scratch);
    n->scratch = grown;
    n->scratch_bytes = bytes;
    return grown;
}

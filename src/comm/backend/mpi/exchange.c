/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of one collective between any ranks, for sizes that MPI's own collectives do not take:
 * uneven ones that only pairs of ranks know, and long ones.  Both sides cut in the same places. */
#include <stdlib.h>
#include <string.h>

#include "engine.h"

enum { EXCHANGE_TAG = 0 };

exchange exchange_begin(group *g, const ts_coll *coll)
{
    return (exchange){.g = g, .coll = coll, .status = TS_OK};
}

static MPI_Request *next_request(exchange *x)
{
    if (x->status != TS_OK) return NULL;
    if (x->count == x->room) {
        int room = x->room ? 2 * x->room : 2 * x->g->size;
        MPI_Request *more = realloc(x->request, (size_t)room * sizeof *more);
        if (!more) {
            x->status = group_fail(x->g, x->coll, TS_ENOMEM, "out of memory for %d requests", room);
            return NULL;
        }
        x->request = more;
        x->room = room;
    }
    return &x->request[x->count];
}

/* One piece. */
static void post(exchange *x, int peer, void *data, size_t bytes, bool sending)
{
    MPI_Request *request = next_request(x);
    if (!request) return;
    if (!process_enter()) {
        x->status = group_health(x->g, x->coll);
        return;
    }
    int code =
        sending
            ? MPI_Isend(data, (int)bytes, MPI_BYTE, peer, EXCHANGE_TAG, x->g->collective, request)
            : MPI_Irecv(data, (int)bytes, MPI_BYTE, peer, EXCHANGE_TAG, x->g->collective, request);
    process_leave();
    if (code == MPI_SUCCESS)
        x->count++;
    else
        x->status = process_error(code, sending ? "MPI_Isend" : "MPI_Irecv");
}

static void cut(exchange *x, int peer, char *data, size_t bytes, bool sending)
{
    size_t limit = (size_t)mpi.limit;
    for (size_t at = 0; at < bytes; at += limit)
        post(x, peer, data + at, bytes - at < limit ? bytes - at : limit, sending);
}

void exchange_send(exchange *x, int peer, const void *data, size_t bytes)
{
    cut(x, peer, (char *)(uintptr_t)data, bytes, true);
}

void exchange_recv(exchange *x, int peer, void *data, size_t bytes)
{
    cut(x, peer, data, bytes, false);
}

ts_status exchange_end(exchange *x)
{
    if (x->status != TS_OK) return group_give_up(x->g, x->status);
    if (x->count > 0) TRY(wait_all(x->g, x->coll, x->request, x->count));
    free(x->request);
    return TS_OK;
}

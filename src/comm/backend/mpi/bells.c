/* SPDX-License-Identifier: Apache-2.0 */
/* Short notices from any rank to any other, beside the operations: I wait here, I give up, I leave.
 * They are read by whoever waits. */
#include <stdlib.h>
#include <string.h>

#include "engine.h"

enum { BELL_TAG = 1 };

/* One notice on its way to all. */
struct sent_bells {
    bell what;
    sent_bells *next;
    int count;
    MPI_Request request[];
};

void bells_listen(group *g)
{
    int code = MPI_Irecv(&g->heard, sizeof g->heard, MPI_BYTE, MPI_ANY_SOURCE, BELL_TAG,
                         g->collective, &g->hearing);
    if (code != MPI_SUCCESS) g->hearing = MPI_REQUEST_NULL;
}

void bells_ring(group *g, const bell *b)
{
    size_t bytes = sizeof(sent_bells) + (size_t)g->size * sizeof(MPI_Request);
    sent_bells *s = malloc(bytes);
    if (!s) return; /* the others learn it from their own time limits */
    s->what = *b;
    s->what.rank = g->rank;
    s->count = 0;
    for (int q = 0; q < g->size; q++)
        if (q != g->rank && MPI_Isend(&s->what, sizeof s->what, MPI_BYTE, q, BELL_TAG,
                                      g->collective, &s->request[s->count]) == MPI_SUCCESS)
            s->count++;
    s->next = g->bells;
    g->bells = s;
}

/* Forgets those that are sent. */
static void reap(group *g)
{
    for (sent_bells **at = &g->bells; *at;) {
        sent_bells *s = *at;
        int done = 0;
        MPI_Testall(s->count, s->request, &done, MPI_STATUSES_IGNORE);
        if (!done) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        free(s);
    }
}

static void tell_arrival(group *g, uint64_t sequence)
{
    bell b = {.kind = RING_ARRIVED, .sequence = sequence};
    if (g->told == sequence) return;
    g->told = sequence;
    bells_ring(g, &b);
}

static void hear(group *g, const bell *b)
{
    int q = b->rank;
    if (q < 0 || q >= g->size) return;
    if (b->kind == RING_ARRIVED) {
        g->arrived[q] = b->sequence;
        if (b->sequence == g->last && !g->has_all) tell_arrival(g, g->last);
    } else if (b->kind == RING_LEFT) {
        g->left_at[q] = b->sequence + 1;
    } else {
        group_break(g, TS_EREMOTE, b->text);
    }
}

void bells_poll(group *g)
{
    while (g->hearing != MPI_REQUEST_NULL) {
        int done = 0;
        if (MPI_Test(&g->hearing, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || !done) break;
        g->heard.text[sizeof g->heard.text - 1] = '\0';
        hear(g, &g->heard);
        bells_listen(g);
    }
    reap(g);
}

void bells_end(group *g)
{
    if (g->hearing == MPI_REQUEST_NULL) return;
    MPI_Cancel(&g->hearing);
    MPI_Wait(&g->hearing, MPI_STATUS_IGNORE); /* a receive that is cancelled ends at once */
}

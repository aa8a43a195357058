/* SPDX-License-Identifier: Apache-2.0 */
/* Waits with a limit, an ear for the others, and manners towards other ranks on the cores. */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine.h"

enum { LOOK_EVERY = 64, PATIENCE_MS = 10, NAP_US = 50, MOST_BEFORE_TELLING_MS = 10000 };

/* Says that this rank waits, once half of the time is over, so that those who have not come can be
 * named. */
static void tell_that_we_wait(group *g, const ts_coll *coll, int64_t waited_ns, int64_t timeout_ms)
{
    int64_t after_ms = timeout_ms / 2;
    if (timeout_ms <= 0 || after_ms > MOST_BEFORE_TELLING_MS) after_ms = MOST_BEFORE_TELLING_MS;
    if (g->has_all || g->told == coll->sequence || waited_ns < after_ms * 1000000) return;
    bell b = {.kind = RING_ARRIVED, .sequence = coll->sequence};
    g->told = coll->sequence;
    bells_ring(g, &b);
}

/* "ranks 1 and 3" of those that have not said they wait in the operation; "" if all have. */
static void name_missing(const group *g, uint64_t sequence, char *out, size_t size)
{
    out[0] = '\0';
    for (int q = 0; q < g->size; q++) {
        size_t used = strlen(out);
        if (q != g->rank && g->arrived[q] != sequence)
            snprintf(out + used, size - used, "%s%d", used ? ", " : "", group_global(g, q));
    }
}

static ts_status timed_out(group *g, const ts_coll *coll, int64_t timeout_ms)
{
    char missing[512];
    name_missing(g, coll->sequence, missing, sizeof missing);
    if (g->has_all || !*missing)
        return group_fail(g, coll, TS_ETIMEOUT,
                          "not done within %lld ms, though all ranks have arrived",
                          (long long)timeout_ms);
    return group_fail(g, coll, TS_ETIMEOUT, "not done within %lld ms; not arrived: rank %s",
                      (long long)timeout_ms, missing);
}

/* A rank that left before the operation will not come any more. */
static ts_status check_left(group *g, const ts_coll *coll)
{
    for (int q = 0; q < g->size; q++)
        if (g->left_at[q] && g->left_at[q] - 1 < coll->sequence)
            return group_fail(g, coll, TS_ENETWORK, "rank %d has left the group",
                              group_global(g, q));
    return TS_OK;
}

static ts_status look(group *g, pause_state *p, const ts_coll *coll, int64_t timeout_ms)
{
    int64_t now = mpi.host->now_ns();
    if (p->started_ns == 0) p->started_ns = now;
    int64_t waited = now - p->started_ns;
    if (process_enter()) {
        bells_poll(g);
        if (coll) tell_that_we_wait(g, coll, waited, timeout_ms);
        process_leave();
    }
    TRY(group_health(g, coll));
    if (coll) TRY(check_left(g, coll));
    if (timeout_ms > 0 && waited > timeout_ms * 1000000)
        return coll ? timed_out(g, coll, timeout_ms) : TS_ETIMEOUT;
    if (waited > (int64_t)PATIENCE_MS * 1000000) {
        struct timespec nap = {0, NAP_US * 1000};
        nanosleep(&nap, NULL);
    }
    return TS_OK;
}

ts_status wait_pause(group *g, pause_state *p, const ts_coll *coll, int64_t timeout_ms)
{
    p->tests++;
    bool patient = p->tests > mpi.spins;
    if (patient) sched_yield();
    return p->tests % LOOK_EVERY == 0 ? look(g, p, coll, timeout_ms) : TS_OK;
}

ts_status wait_all(group *g, const ts_coll *coll, MPI_Request *requests, int n)
{
    pause_state p = {.tests = 0};
    int64_t timeout_ms = coll ? coll->timeout_ms : g->timeout_ms;
    for (;;) {
        int done = 0;
        if (!process_enter()) return group_health(g, coll);
        int code = n == 1 ? MPI_Test(requests, &done, MPI_STATUS_IGNORE)
                          : MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE);
        process_leave();
        if (code != MPI_SUCCESS) return group_give_up(g, process_error(code, "MPI_Test"));
        if (done) return TS_OK;
        ts_status status = wait_pause(g, &p, coll, timeout_ms);
        if (status == TS_OK) continue;
        if (!coll && status == TS_ETIMEOUT)
            group_fail(g, NULL, TS_ETIMEOUT, "not all ranks have joined within %lld ms",
                       (long long)timeout_ms);
        return group_give_up(g, status);
    }
}

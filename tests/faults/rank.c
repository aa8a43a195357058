/* SPDX-License-Identifier: Apache-2.0 */
/* A rank of a run: joins, does the operations until the fault shows, leaves, and looks at what is
 * left. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/context.h"
#include "faults.h"

typedef struct rank_state {
    const plan *plan;
    board *board;
    int rank;
    ts_store *store;
    ts_group *group;
    bool rehearses; /* one long all_reduce only, so that what is made once per process is there */
    pthread_t thread, striker;
} rank_state;

static bool lives(const plan *p, int rank)
{
    return rank != p->victim ||
           !(p->fault == FAULT_KILL || p->fault == FAULT_EXIT || p->fault == FAULT_FREEZE);
}

/* ---- joining and leaving --------------------------------------------------------------------- */

static ts_status join(rank_state *r, int rank, int size)
{
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    if (r->plan->threads) return ts_rank_enter(rank, size, r->store);
    opt.store = r->store;
    opt.rank = rank;
    opt.world_size = size;
    opt.timeout_ms = 20000;
    return ts_init_process_group(&opt);
}

static void leave(rank_state *r)
{
    ts_destroy_process_group(NULL);
    if (r->plan->threads) ts_rank_leave();
}

static bool rehearse(rank_state *r)
{
    seat *s = &r->board->seat[r->rank];
    ts_status status = join(r, r->rank, r->plan->ranks);
    ts_scope scope = ts_scope_begin();
    if (status == TS_OK)
        status = ts_all_reduce(NULL, ts_ones(TS_SHAPE(1 << 20), NULL), TS_SUM, NULL);
    if (status != TS_OK) complain(s, "the first all_reduce: %s", ts_error_last());
    ts_scope_end(scope);
    leave(r);
    return status == TS_OK;
}

/* ---- the operations -------------------------------------------------------------------------- */

static void *striker(void *user)
{
    rank_state *r = user;
    strike(r->plan, r->board, r->group);
    return NULL;
}

/* What strikes between operations does so here; the rest meanwhile.  False: this rank leaves. */
static bool meets_fault(rank_state *r)
{
    switch (r->plan->fault) {
    case FAULT_LEAVE: r->board->fault_ns = ts_now_ns(); return false;
    case FAULT_LATE:
        r->board->fault_ns = ts_now_ns();
        usleep((useconds_t)(r->plan->timeout_ms + MONITORED_GRACE_MS + 700) * 1000);
        r->board->thawed_ns = ts_now_ns();
        return true;
    case FAULT_NONE: return true;
    default: break;
    }
    r->group = ts_default_group();
    if (pthread_create(&r->striker, NULL, striker, r) != 0) abort();
    return true;
}

/* Nobody leaves before all have seen for themselves.  Where one has left the group is not broken: who
 * waits for a message of a rank that has given up on that account only learns of it when that one
 * leaves too. */
static void wait_for_others(rank_state *r)
{
    const char *name = r->board->seat[r->rank].name;
    if (r->plan->fault == FAULT_LEAVE) return;
    if (r->plan->fault == FAULT_ABORT && strstr(name, "group"))
        return; /* others may have made it */
    int64_t until = ts_now_ns() + (r->plan->timeout_ms + 3000) * 1000000;
    for (int i = 0; i < r->plan->ranks; i++)
        while (lives(r->plan, i) && r->board->seat[i].progress < SEAT_FINISHED &&
               ts_now_ns() < until)
            usleep(1000);
}

/* A group whose collective has failed says so at once. */
static void expect_broken(seat *s)
{
    if (strstr(s->name, "message") || strstr(s->name, "monitored") || strstr(s->name, "objects") ||
        strstr(s->name, "group"))
        return;
    int64_t begin = ts_now_ns();
    ts_status status = ts_barrier(NULL, NULL);
    if (status == TS_OK) complain(s, "a barrier after the error succeeds");
    if (ts_now_ns() - begin > 700000000) complain(s, "a barrier after the error waits");
}

static void do_operations(rank_state *r)
{
    const plan *p = r->plan;
    seat *s = &r->board->seat[r->rank];
    bool victim = r->rank == p->victim, endless = fault_flags(p->fault) & FATAL, here = true;
    ts_status status = ts_group_set_timeout(NULL, p->timeout_ms);
    member m = {NULL, r->rank, p->ranks, {0}, 0, s};
    for (int i = 0; status == TS_OK && here && (endless || i < p->operations); i++) {
        if (victim && i == p->at_operation) here = meets_fault(r);
        if (here && !s->complaint[0]) status = operation(&m, p->seed, i);
        if (s->complaint[0]) break;
    }
    if (s->ended_ns == 0) s->ended_ns = ts_now_ns();
    s->progress = SEAT_FINISHED;
    if (status != TS_OK) wait_for_others(r);
    if (r->striker) pthread_join(r->striker, NULL);
    if (status != TS_OK) expect_broken(s);
}

/* ---- afterwards ------------------------------------------------------------------------------ */

/* Those that are left do a few operations more, as a new group. */
static void join_again(rank_state *r)
{
    const plan *p = r->plan;
    seat scratch = {0}, *s = &r->board->seat[r->rank];
    int size = 0, rank = 0;
    for (int i = 0; i < p->ranks; i++) {
        if (i == r->rank) rank = size;
        size += lives(p, i);
    }
    ts_status status = join(r, rank, size);
    if (status != TS_OK) complain(s, "joining again: %s", ts_error_last());
    member m = {NULL, rank, size, {0}, 0, &scratch};
    for (int i = 0; i < 4 && status == TS_OK; i++) {
        status = operation(&m, p->seed ^ 0xa9a1, i);
        if (status != TS_OK) complain(s, "%s after joining again: %s", scratch.name, scratch.text);
        if (scratch.complaint[0]) complain(s, "after joining again: %s", scratch.complaint);
    }
    leave(r);
}

static void live(rank_state *r)
{
    seat *s = &r->board->seat[r->rank];
    if (r->rehearses) {
        rehearse(r);
        return;
    }
    ts_status status = join(r, r->rank, r->plan->ranks);
    s->progress = SEAT_RUNNING;
    if (status == TS_OK)
        do_operations(r);
    else
        complain(s, "joining: %s", ts_error_last());
    s->progress = SEAT_FINISHED;
    leave(r);
}

/* ---- as a process, and as threads ------------------------------------------------------------ */

static void name_host(const plan *p, int rank, char name[32])
{
    snprintf(name, 32, "fault-host-%d", p->host[rank]);
}

static ts_status open_store(rank_state *r, const char *folder)
{
    char path[300];
    if (!r->plan->tcp_store) {
        snprintf(path, sizeof path, "%s/store", folder);
        return ts_file_store_new(&r->store, path, 0);
    }
    ts_tcp_store_options opt = TS_TCP_STORE_OPTIONS_INIT;
    while (!r->board->store_port) usleep(500);
    opt.port = r->board->store_port;
    opt.timeout_ms = 20000;
    return ts_tcp_store_new(&r->store, &opt);
}

static void prepare_process(const plan *p, int rank)
{
    char host[32];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    name_host(p, rank, host);
    setenv("TESSERA_HOST_ID", host, 1);
    if (!(fault_flags(p->fault) & NETWORK)) return;
    setenv("TESSERA_SOCKET_IFNAME", "ts0", 1);
    if (!lab_enter((int)getppid(), p->host[rank])) _exit(2);
}

void run_process(const plan *p, board *b, int rank, const char *folder)
{
    rank_state r = {.plan = p, .board = b, .rank = rank, .rehearses = true};
    seat *s = &b->seat[rank];
    prepare_process(p, rank);
    if (open_store(&r, folder) != TS_OK) {
        complain(s, "the store: %s", ts_error_last());
        exit(1);
    }
    live(&r);
    holdings before = holdings_now();
    r.rehearses = false;
    live(&r);
    holdings_compare(s, before);
    if (p->join_again && !s->complaint[0]) join_again(&r);
    ts_store_free(r.store);
    s->progress = SEAT_DONE;
    exit(0);
}

static void *thread_main(void *user)
{
    rank_state *r = user;
    char host[32];
    name_host(r->plan, r->rank, host);
    ts_thread()->host_id = host;
    live(r);
    if (!r->rehearses && r->plan->join_again && !r->board->seat[r->rank].complaint[0])
        join_again(r);
    if (!r->rehearses) r->board->seat[r->rank].progress = SEAT_DONE;
    return NULL;
}

static void run_threads_once(const plan *p, board *b, ts_store *store, bool rehearses)
{
    rank_state r[MOST_RANKS];
    for (int i = 0; i < p->ranks; i++) {
        r[i] = (rank_state){.plan = p, .board = b, .rank = i, .store = store};
        r[i].rehearses = rehearses;
        if (pthread_create(&r[i].thread, NULL, thread_main, &r[i]) != 0) abort();
    }
    for (int i = 0; i < p->ranks; i++) pthread_join(r[i].thread, NULL);
}

void run_threads(const plan *p, board *b)
{
    ts_store *store;
    if (ts_hash_store_new(&store) != TS_OK) exit(1);
    run_threads_once(p, b, store, true);
    holdings before = holdings_now();
    run_threads_once(p, b, store, false);
    holdings_compare(&b->seat[0], before);
    ts_store_free(store);
    exit(0);
}

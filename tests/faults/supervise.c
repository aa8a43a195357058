/* SPDX-License-Identifier: Apache-2.0 */
/* One run from the outside: starts the ranks, does to them what they cannot do themselves, ends what
 * hangs, and looks at what they leave. */
#include <dirent.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "faults.h"

#define WATCHDOG_NS ((int64_t)40 * 1000000000)

typedef struct run {
    const plan *plan;
    board *board;
    ts_store *store; /* the server of a TCP store */
    char folder[64];
    int running, faults_found;
    int64_t began_ns;
} run;

static void accuse(run *r, const char *format, ...) TS_PRINTF(2, 3);
static void accuse(run *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf("  ");
    vprintf(format, args);
    printf("\n");
    va_end(args);
    r->faults_found++;
}

static bool start(run *r, int rank)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        if (r->plan->threads)
            run_threads(r->plan, r->board);
        else
            run_process(r->plan, r->board, rank, r->folder);
    }
    r->board->seat[rank].pid = pid;
    r->running += pid > 0;
    return pid > 0;
}

static bool serve_store(run *r)
{
    ts_tcp_store_options opt = TS_TCP_STORE_OPTIONS_INIT;
    opt.port = 0;
    opt.is_master = true;
    opt.wait_for_workers = false;
    if (ts_tcp_store_new(&r->store, &opt) != TS_OK) return false;
    r->board->store_port = ts_tcp_store_port(r->store);
    return true;
}

static void collect(run *r)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (int i = 0; i < r->plan->ranks; i++) {
            seat *s = &r->board->seat[i];
            if (s->pid != pid) continue;
            s->pid = 0;
            s->ended_well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
            r->running--;
        }
}

static bool all_others(const run *r, progress least)
{
    for (int i = 0; i < r->plan->ranks; i++)
        if (i != r->plan->victim && r->board->seat[i].progress < (int)least) return false;
    return true;
}

/* The victim's process, from the moment of the fault on. */
static void tend_victim(run *r)
{
    const plan *p = r->plan;
    board *b = r->board;
    pid_t pid = b->seat[p->victim].pid;
    if (!b->fault_ns || b->thawed_ns || pid <= 0) return;
    int64_t since = ts_now_ns() - b->fault_ns;
    if (p->fault == FAULT_FREEZE && all_others(r, SEAT_DONE)) kill(pid, SIGKILL);
    bool in_time = p->fault == FAULT_PAUSE && since > (int64_t)p->pause_ms * 1000000;
    bool late = p->fault == FAULT_THAW && all_others(r, SEAT_FINISHED);
    if (!in_time && !late) return;
    b->thawed_ns = ts_now_ns();
    kill(pid, SIGCONT);
}

static void tend_network(run *r)
{
    const plan *p = r->plan;
    board *b = r->board;
    int id = (int)getpid(), host = p->host[p->victim];
    if (b->network_is_due && !b->fault_ns) {
        bool ok = p->fault == FAULT_SLOW ? lab_slow_down(id, host) : lab_cut(id, host, true);
        if (!ok) accuse(r, "the network cannot be changed");
        b->fault_ns = ts_now_ns();
    }
    bool over = b->fault_ns && ts_now_ns() - b->fault_ns > (int64_t)p->pause_ms * 1000000;
    if (p->fault != FAULT_GAP || !over || b->thawed_ns) return;
    if (!lab_cut(id, host, false)) accuse(r, "the network cannot be mended");
    b->thawed_ns = ts_now_ns();
}

static void report_hang(run *r)
{
    accuse(r, "the watchdog ends the run");
    for (int i = 0; i < r->plan->ranks; i++) {
        const seat *s = &r->board->seat[i];
        printf("    rank %d: progress %d, operation %d (%s), %s\n", i, s->progress, s->operation,
               s->name, s->text);
    }
}

static void kill_all(run *r)
{
    for (int i = 0; i < r->plan->ranks; i++)
        if (r->board->seat[i].pid > 0) kill(r->board->seat[i].pid, SIGKILL);
    for (int i = 0; i < 400 && r->running > 0; i++) {
        collect(r);
        usleep(5000);
    }
}

static void watch(run *r)
{
    while (collect(r), r->running > 0) {
        tend_victim(r);
        if (fault_flags(r->plan->fault) & NETWORK) tend_network(r);
        if (ts_now_ns() - r->began_ns > WATCHDOG_NS) {
            report_hang(r);
            kill_all(r);
            return;
        }
        usleep(1000);
    }
}

/* Nothing of ours has a name there, but what the launcher makes for Open MPI. */
static void look_for_shared_memory(run *r)
{
    DIR *dir = opendir("/dev/shm");
    struct dirent *entry;
    while (dir && (entry = readdir(dir)))
        if (strstr(entry->d_name, "tessera") && !strstr(entry->d_name, "-mpi-"))
            accuse(r, "left behind: /dev/shm/%s", entry->d_name);
    if (dir) closedir(dir);
}

/* Processes and files; the store's file stays where a rank was killed. */
static void look_for_leaks(run *r)
{
    DIR *dir = opendir(r->folder);
    struct dirent *entry;
    if (waitpid(-1, NULL, WNOHANG) >= 0) accuse(r, "left behind: a process");
    while (dir && (entry = readdir(dir))) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", r->folder, entry->d_name);
        if (entry->d_name[0] == '.') continue;
        if (strncmp(entry->d_name, "store", 5) != 0) accuse(r, "left behind: %s", path);
        unlink(path);
    }
    if (dir) closedir(dir);
    if (rmdir(r->folder) != 0) accuse(r, "left behind: something in %s", r->folder);
}

static void start_all(run *r)
{
    int processes = r->plan->threads ? 1 : r->plan->ranks;
    for (int i = 0; i < processes; i++)
        if (!start(r, i)) accuse(r, "fork fails");
    for (int i = processes; i < r->plan->ranks; i++) r->board->seat[i].ended_well = true;
    if (r->plan->tcp_store && !serve_store(r)) accuse(r, "the store: %s", ts_error_last());
}

int supervise(const plan *p)
{
    bool network = fault_flags(p->fault) & NETWORK;
    run r = {.plan = p, .began_ns = ts_now_ns()};
    snprintf(r.folder, sizeof r.folder, "/tmp/tessera-fault-XXXXXX");
    r.board =
        mmap(NULL, sizeof *r.board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (r.board == MAP_FAILED || !mkdtemp(r.folder)) return 2;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    setenv("TMPDIR", r.folder, 1);
    if (network && !lab_set_up((int)getpid()))
        accuse(&r, "the network cannot be made");
    else
        start_all(&r);
    watch(&r);
    if (network) lab_tear_down((int)getpid());
    ts_store_free(r.store);
    look_for_leaks(&r);
    look_for_shared_memory(&r);
    r.faults_found += judge(p, r.board);
    munmap(r.board, sizeof *r.board);
    return r.faults_found > 0;
}

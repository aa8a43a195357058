/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the library, cores, and the pool behind parallel loops. */
#include "base/thread.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/settings.h"
#include <tessera/threads.h>

typedef struct start_arg {
    void (*run)(void *arg);
    void *arg;
    ts_rank_ctx *rank;
    char name[16];
} start_arg;

static void *thread_main(void *arg)
{
    start_arg start = *(start_arg *)arg;
    free(arg);
    pthread_setname_np(pthread_self(), start.name);
    ts_thread_set_rank(start.rank);
    ts_rank_ctx_release(start.rank);
    start.run(start.arg);
    return NULL;
}

ts_status ts_thread_start(pthread_t *out, const char *name, void (*run)(void *arg), void *arg)
{
    start_arg *start = ts_calloc(1, sizeof *start);
    if (!start) return ts_fail_memory(sizeof *start, "starting a thread");
    start->run = run;
    start->arg = arg;
    start->rank = ts_rank_current();
    ts_rank_ctx_retain(start->rank);
    snprintf(start->name, sizeof start->name, "%s", name);

    sigset_t all, former;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &former);
    int error = pthread_create(out, NULL, thread_main, start);
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    if (error) {
        ts_rank_ctx_release(start->rank);
        free(start);
        return ts_fail(TS_ENOMEM, "cannot start thread '%s': %s", name, strerror(error));
    }
    return TS_OK;
}

/* ---- cores ----------------------------------------------------------------------------------- */

/* Cores by the cgroup's quota (version 2, then 1); 0: no quota. */
static int quota_cores(void)
{
    long long quota = -1, period = 0;
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (file) {
        if (fscanf(file, "%lld %lld", &quota, &period) != 2) quota = -1;
        fclose(file);
    } else if ((file = fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "re"))) {
        if (fscanf(file, "%lld", &quota) != 1) quota = -1;
        fclose(file);
        if (quota > 0 && (file = fopen("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "re"))) {
            if (fscanf(file, "%lld", &period) != 1) period = 0;
            fclose(file);
        }
    }
    return quota > 0 && period > 0 ? (int)((quota + period - 1) / period) : 0;
}

int ts_cores(void)
{
    cpu_set_t set;
    int cores = 1;
    if (sched_getaffinity(0, sizeof set, &set) == 0) cores = CPU_COUNT(&set);
    int quota = quota_cores();
    if (quota > 0 && quota < cores) cores = quota;
    return cores > 0 ? cores : 1;
}

int ts_host_cores(void)
{
    int64_t shared = ts_setting_int(TS_SETTING_HOST_CORES);
    return shared > 0 && shared < INT32_MAX ? (int)shared : ts_cores();
}

/* ---- the pool -------------------------------------------------------------------------------- */

/* One job at a time; workers and the caller take pieces from a counter.  A second caller that finds
 * the pool busy runs its pieces alone, which gives the same bits. */
typedef struct pool {
    pthread_mutex_t busy; /* held by the caller whose job runs */
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    int threads; /* workers started */
    int allowed; /* workers that may take part in the job */
    uint64_t generation;
    int working;
    void (*fn)(int64_t begin, int64_t end, void *user);
    void *user;
    int64_t n, grain, pieces;
    _Atomic int64_t next;
} pool;

static pool the_pool = {.busy = PTHREAD_MUTEX_INITIALIZER,
                        .lock = PTHREAD_MUTEX_INITIALIZER,
                        .wake = PTHREAD_COND_INITIALIZER,
                        .done = PTHREAD_COND_INITIALIZER};
enum { MOST_THREADS = 1024 };
static atomic_int threads_wanted; /* 0: not decided yet */
static _Thread_local int inside_piece;

static int int_from_environment(const char *name)
{
    const char *text = getenv(name);
    int value = text ? atoi(text) : 0;
    return value > 0 ? value : 0;
}

int ts_threads_in_use(void)
{
    int n = atomic_load_explicit(&threads_wanted, memory_order_relaxed);
    if (n > 0) return n;
    int64_t set = ts_setting_int(TS_SETTING_NUM_THREADS);
    n = set > MOST_THREADS ? MOST_THREADS : (int)set;
    if (n <= 0) n = int_from_environment("OMP_NUM_THREADS");
    if (n <= 0) {
        int local_ranks = int_from_environment("LOCAL_WORLD_SIZE");
        n = ts_cores() / (local_ranks > 0 ? local_ranks : 1);
    }
    if (n < 1) n = 1;
    if (n > MOST_THREADS) n = MOST_THREADS;
    atomic_store(&threads_wanted, n);
    return n;
}

ts_status ts_set_num_threads(int n)
{
    if (n < 1 || n > MOST_THREADS)
        return ts_fail(TS_EINVAL, "set_num_threads: %d is not in 1 .. %d", n, MOST_THREADS);
    atomic_store(&threads_wanted, n);
    return TS_OK;
}

int ts_num_threads(void) { return ts_threads_in_use(); }

static void run_pieces(pool *p)
{
    inside_piece++;
    for (;;) {
        int64_t piece = atomic_fetch_add(&p->next, 1);
        if (piece >= p->pieces) break;
        int64_t begin = piece * p->grain;
        int64_t end = begin + p->grain < p->n ? begin + p->grain : p->n;
        p->fn(begin, end, p->user);
    }
    inside_piece--;
}

static void worker(void *arg)
{
    pool *p = arg;
    uint64_t seen = 0;
    ts_thread_set_rank(ts_rank_ctx_of_process()); /* the caller's rank may end before the worker */
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (p->generation == seen) pthread_cond_wait(&p->wake, &p->lock);
        seen = p->generation;
        if (p->pieces == 0 || p->working == p->allowed) continue; /* over, or enough at work */
        p->working++;
        pthread_mutex_unlock(&p->lock);
        run_pieces(p);
        pthread_mutex_lock(&p->lock);
        if (--p->working == 0) pthread_cond_signal(&p->done);
    }
}

/* After a fork the workers are gone; the child starts its own. */
static void after_fork(void)
{
    the_pool = (pool){.busy = PTHREAD_MUTEX_INITIALIZER,
                      .lock = PTHREAD_MUTEX_INITIALIZER,
                      .wake = PTHREAD_COND_INITIALIZER,
                      .done = PTHREAD_COND_INITIALIZER};
}

static void register_fork_handler(void) { pthread_atfork(NULL, NULL, after_fork); }

static void start_workers(pool *p, int wanted)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_fork_handler);
    while (p->threads < wanted) {
        pthread_t thread;
        if (ts_thread_start(&thread, "ts-pool", worker, p) != TS_OK) break;
        pthread_detach(thread);
        p->threads++;
    }
}

void ts_parallel_for(int64_t n, int64_t grain, void (*fn)(int64_t begin, int64_t end, void *user),
                     void *user)
{
    if (n <= 0) return;
    if (grain < 1) grain = 1;
    pool *p = &the_pool;
    int64_t pieces = (n + grain - 1) / grain;
    int threads = pieces > 1 && !inside_piece ? ts_threads_in_use() : 1;
    if (threads <= 1 || pthread_mutex_trylock(&p->busy) != 0) {
        for (int64_t begin = 0; begin < n; begin += grain)
            fn(begin, begin + grain < n ? begin + grain : n, user);
        return;
    }
    start_workers(p, threads - 1);
    pthread_mutex_lock(&p->lock);
    p->fn = fn;
    p->user = user;
    p->n = n;
    p->grain = grain;
    p->pieces = pieces;
    p->allowed = threads - 1;
    atomic_store(&p->next, 0);
    p->generation++;
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    run_pieces(p);
    pthread_mutex_lock(&p->lock);
    while (p->working > 0) pthread_cond_wait(&p->done, &p->lock);
    p->fn = NULL;
    p->pieces = 0;
    pthread_mutex_unlock(&p->lock);
    pthread_mutex_unlock(&p->busy);
}

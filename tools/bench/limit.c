/* SPDX-License-Identifier: Apache-2.0 */
/* The streaming limit of a collective: its memory traffic, done by threads of one process. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tessera/tensor.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "bench/bench.h"
#include "kernels/combine.h"

enum {
    MAX_RANKS = 64,
    MIN_ROUNDS = 15,
    MAX_ROUNDS = 1000,
    BLOCK = 1 << 18, /* elements that one phase takes at a time */
    CHUNK = 1 << 13  /* elements that stay in the nearest cache */
};

/* How the parts of one operation's traffic go. */
typedef struct limit_run limit_run;
typedef void (*limit_round)(limit_run *run, int rank, int root);

struct limit_run {
    limit_round round;
    int64_t n; /* elements of a buffer */
    int ranks, rounds;
    bool own; /* each thread writes its buffer before each round, as ranks in place do */
    ts_memory memory;
    float *in[MAX_RANKS], *out[MAX_RANKS];
    atomic_int arrived, turn;
    _Atomic int64_t released_ns; /* when the last meeting ended */
    double us[MAX_ROUNDS];
};

typedef struct limit_thread {
    limit_run *run;
    int rank;
} limit_thread;

static void meet(limit_run *run)
{
    int turn = atomic_load(&run->turn);
    if (atomic_fetch_add(&run->arrived, 1) + 1 == run->ranks) {
        atomic_store(&run->arrived, 0);
        atomic_store(&run->released_ns, ts_now_ns());
        atomic_fetch_add(&run->turn, 1);
        return;
    }
    for (int spins = 0; atomic_load(&run->turn) == turn; spins++)
        if (spins > 1000) sched_yield();
}

/* ---- traffic --------------------------------------------------------------------------------- */

/* Elements [begin, begin + n) summed over the ranks. */
static void sum(limit_run *run, float *out, int64_t begin, int64_t n)
{
    const void *from[MAX_RANKS];
    for (int r = 0; r < run->ranks; r++) from[r] = run->in[r] + begin;
    ts_combine(out, from, run->ranks, n, TS_FLOAT32, TS_SUM);
}

static void copy(float *to, const float *from, int64_t n)
{
    memcpy(to, from, (size_t)n * sizeof *to);
}

/* Each thread sums its share and stores it for everyone while it is in the cache. */
static void all_reduce_store(limit_run *run, int rank, int root)
{
    int64_t begin = run->n * rank / run->ranks, end = run->n * (rank + 1) / run->ranks;
    (void)root;
    for (int64_t b = begin; b < end; b += CHUNK) {
        int64_t n = end - b < CHUNK ? end - b : CHUNK;
        sum(run, run->out[rank] + b, b, n);
        for (int r = 0; r < run->ranks; r++)
            if (r != rank) copy(run->out[r] + b, run->out[rank] + b, n);
    }
}

/* Each thread sums its share of a block, then fetches the others'. */
static void all_reduce_fetch(limit_run *run, int rank, int root)
{
    int ranks = run->ranks;
    (void)root;
    for (int64_t b = 0; b < run->n; b += BLOCK) {
        int64_t n = run->n - b < BLOCK ? run->n - b : BLOCK;
        int64_t from = b + n * rank / ranks, to = b + n * (rank + 1) / ranks;
        sum(run, run->out[rank] + from, from, to - from);
        meet(run);
        for (int r = 0; r < ranks; r++) {
            int64_t begin = b + n * r / ranks, end = b + n * (r + 1) / ranks;
            if (r != rank) copy(run->out[rank] + begin, run->out[r] + begin, end - begin);
        }
    }
}

static void reduce_share(limit_run *run, int rank, int root)
{
    int64_t begin = run->n * rank / run->ranks, end = run->n * (rank + 1) / run->ranks;
    sum(run, run->out[root] + begin, begin, end - begin);
}

static void reduce_scatter(limit_run *run, int rank, int root)
{
    int64_t piece = run->n / run->ranks;
    (void)root;
    sum(run, run->out[rank], rank * piece, piece);
}

static void broadcast(limit_run *run, int rank, int root)
{
    if (rank != root) copy(run->out[rank], run->out[root], run->n);
}

static void all_gather(limit_run *run, int rank, int root)
{
    int64_t piece = run->n / run->ranks;
    (void)root;
    for (int i = 0; i < run->ranks; i++) {
        int r = (rank + i) % run->ranks;
        copy(run->out[rank] + r * piece, run->in[r], piece);
    }
}

static void gather(limit_run *run, int rank, int root)
{
    int64_t piece = run->n / run->ranks;
    copy(run->out[root] + rank * piece, run->in[rank], piece);
}

static void scatter(limit_run *run, int rank, int root)
{
    int64_t piece = run->n / run->ranks;
    copy(run->out[rank], run->in[root] + rank * piece, piece);
}

static void all_to_all(limit_run *run, int rank, int root)
{
    int64_t piece = run->n / run->ranks;
    (void)root;
    for (int i = 0; i < run->ranks; i++) {
        int r = (rank + i) % run->ranks;
        copy(run->out[rank] + r * piece, run->in[r] + rank * piece, piece);
    }
}

/* The better of up to two ways counts. */
static const struct {
    limit_round way[2];
    bool in_place;
    bool own; /* a way leaves results in another's cache, which must not help the next round */
} limits[] = {[BENCH_LIMIT_ALL_REDUCE] = {{all_reduce_store, all_reduce_fetch}, true, true},
              [BENCH_LIMIT_REDUCE] = {{reduce_share, NULL}, true, true},
              [BENCH_LIMIT_REDUCE_SCATTER] = {{reduce_scatter, NULL}, false, false},
              [BENCH_LIMIT_BROADCAST] = {{broadcast, NULL}, true, false},
              [BENCH_LIMIT_ALL_GATHER] = {{all_gather, NULL}, false, false},
              [BENCH_LIMIT_GATHER] = {{gather, NULL}, false, false},
              [BENCH_LIMIT_SCATTER] = {{scatter, NULL}, false, false},
              [BENCH_LIMIT_ALL_TO_ALL] = {{all_to_all, NULL}, false, false}};

/* ---- running --------------------------------------------------------------------------------- */

/* One core per thread, in order, as the launcher pins ranks. */
static void pin(int rank, int ranks)
{
    cpu_set_t mine, one;
    if (sched_getaffinity(0, sizeof mine, &mine) != 0 || CPU_COUNT(&mine) < ranks) return;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &mine) && rank-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            sched_setaffinity(0, sizeof one, &one);
            return;
        }
}

/* Brings the buffer into the cache of this core, modified. */
static void own(limit_run *run, int rank)
{
    volatile float *buffer = run->in[rank];
    for (int64_t i = 0; i < run->n; i += 64 / (int64_t)sizeof *buffer) buffer[i] = 0;
}

static void *limit_main(void *user)
{
    limit_thread *self = user;
    limit_run *run = self->run;
    pin(self->rank, run->ranks);
    for (int i = 0; i < run->rounds; i++) {
        if (run->own) own(run, self->rank);
        meet(run);
        int64_t begin = atomic_load(&run->released_ns);
        run->round(run, self->rank, i % run->ranks);
        meet(run);
        if (self->rank == 0) run->us[i] = (double)(run->released_ns - begin) * 1e-3;
    }
    return NULL;
}

static double run_rounds(limit_run *run, int rounds)
{
    pthread_t thread[MAX_RANKS];
    limit_thread self[MAX_RANKS];
    run->rounds = rounds;
    for (int r = 0; r < run->ranks; r++) {
        self[r] = (limit_thread){run, r};
        if (pthread_create(&thread[r], NULL, limit_main, &self[r]) != 0) _exit(1);
    }
    for (int r = 0; r < run->ranks; r++) pthread_join(thread[r], NULL);
    return bench_stats_of(run->us, rounds).median;
}

static double run_way(limit_run *run, limit_round way, double seconds)
{
    if (!way) return INFINITY;
    run->round = way;
    double rounds = seconds * 1e6 / run_rounds(run, MIN_ROUNDS);
    return run_rounds(run, (int)fmax(MIN_ROUNDS, fmin(rounds, MAX_ROUNDS)));
}

static float *new_buffer(int64_t n, ts_memory memory)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.memory = memory;
    ts_tensor *t = ts_zeros(TS_SHAPE(n), &opt);
    return ts_tensor_status(t) == TS_OK ? ts_data_mut(t) : NULL;
}

static double measure(limit_run *run, bench_limit limit, double seconds)
{
    run->own = limits[limit].own;
    for (int r = 0; r < run->ranks; r++) {
        run->in[r] = new_buffer(run->n, run->memory);
        run->out[r] = limits[limit].in_place ? run->in[r] : new_buffer(run->n, run->memory);
        if (!run->in[r] || !run->out[r]) return NAN;
    }
    return fmin(run_way(run, limits[limit].way[0], seconds / 2),
                run_way(run, limits[limit].way[1], seconds / 2));
}

/* In a process of its own, which takes its memory with it. */
double bench_limit_us(bench_limit limit, int64_t bytes, int ranks, ts_memory memory, double seconds)
{
    static limit_run run;
    double us = NAN;
    int ends[2], status;
    if (limit == BENCH_LIMIT_NONE || ranks > MAX_RANKS || ranks < 2 || bytes < 4096) return NAN;
    run = (limit_run){.n = bytes / (int64_t)sizeof(float), .ranks = ranks, .memory = memory};
    if (pipe2(ends, O_CLOEXEC) != 0) return NAN;
    pid_t pid = fork();
    if (pid == 0) {
        us = measure(&run, limit, seconds);
        _exit(write(ends[1], &us, sizeof us) != (ssize_t)sizeof us);
    }
    close(ends[1]);
    if (pid < 0 || read(ends[0], &us, sizeof us) != (ssize_t)sizeof us) us = NAN;
    close(ends[0]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return us;
}

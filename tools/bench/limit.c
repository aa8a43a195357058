/* SPDX-License-Identifier: Apache-2.0 */
/* The streaming limit of a collective. */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "bench.h"
#include "kernels/combine.h"

enum { MAX_RANKS = 64, ROUNDS = 15, BLOCK = 1 << 18 /* elements that one phase takes at a time */ };

typedef struct limit_run {
    bench_op op;
    int64_t n; /* elements of a buffer */
    int ranks;
    float *in[MAX_RANKS], *out[MAX_RANKS];
    atomic_int arrived, turn;
    _Atomic int64_t released_ns; /* when the last meeting ended */
    double us[ROUNDS];
} limit_run;

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

/* Elements [begin, begin + n) summed over the ranks, to where the rank keeps them. */
static void reduce(limit_run *run, float *out, int64_t begin, int64_t n)
{
    const void *from[MAX_RANKS];
    for (int r = 0; r < run->ranks; r++) from[r] = run->in[r] + begin;
    ts_combine(out, from, run->ranks, n, TS_FLOAT32, TS_SUM);
}

/* One block of an all-reduce: each thread sums its part of it, then takes the others' sums. */
static void all_reduce_block(limit_run *run, int rank, int64_t begin, int64_t n)
{
    int ranks = run->ranks;
    int64_t from = begin + n * rank / ranks, to = begin + n * (rank + 1) / ranks;
    reduce(run, run->out[rank] + from, from, to - from);
    meet(run);
    for (int r = 0; r < ranks; r++) {
        int64_t b = begin + n * r / ranks, e = begin + n * (r + 1) / ranks;
        if (r != rank) memcpy(run->out[rank] + b, run->out[r] + b, (size_t)(e - b) * sizeof(float));
    }
}

static void one_round(limit_run *run, int rank)
{
    int64_t n = run->n, piece = n / run->ranks;
    if (run->op == BENCH_ALL_REDUCE)
        for (int64_t b = 0; b < n; b += BLOCK)
            all_reduce_block(run, rank, b, n - b < BLOCK ? n - b : BLOCK);
    else if (run->op == BENCH_REDUCE_SCATTER)
        reduce(run, run->out[rank], rank * piece, piece);
    else if (run->op == BENCH_ALL_GATHER)
        for (int r = 0; r < run->ranks; r++)
            memcpy(run->out[rank] + r * piece, run->in[r], (size_t)piece * sizeof(float));
    else if (rank != 0)
        memcpy(run->out[rank], run->in[0], (size_t)n * sizeof(float));
}

static void *limit_main(void *user)
{
    limit_thread *self = user;
    limit_run *run = self->run;
    for (int round = 0; round < ROUNDS; round++) {
        meet(run);
        int64_t begin = atomic_load(&run->released_ns);
        one_round(run, self->rank);
        meet(run);
        if (self->rank == 0) run->us[round] = (double)(run->released_ns - begin) * 1e-3;
    }
    return NULL;
}

static float *buffer(int64_t n)
{
    void *p = mmap(NULL, (size_t)n * sizeof(float) + 64, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

double bench_limit_us(bench_op op, int64_t bytes, int ranks)
{
    static limit_run run;
    pthread_t thread[MAX_RANKS];
    limit_thread self[MAX_RANKS];
    bool good = true;
    if (ranks > MAX_RANKS || ranks < 2 || bytes < 4096 || op == BENCH_BARRIER) return NAN;
    memset(&run, 0, sizeof run);
    run.op = op;
    run.n = bytes / (int64_t)sizeof(float);
    run.ranks = ranks;
    for (int r = 0; r < ranks; r++) {
        run.in[r] = buffer(run.n);
        run.out[r] = op == BENCH_ALL_REDUCE ? run.in[r] : buffer(run.n); /* in place */
        if (!run.in[r] || !run.out[r]) good = false;
    }
    int started = 0;
    for (; good && started < ranks; started++) {
        self[started] = (limit_thread){&run, started};
        if (pthread_create(&thread[started], NULL, limit_main, &self[started]) != 0) abort();
    }
    for (int r = 0; r < started; r++) pthread_join(thread[r], NULL);
    for (int r = 0; r < ranks; r++) {
        if (run.out[r] && run.out[r] != run.in[r]) munmap(run.out[r], (size_t)run.n * 4 + 64);
        if (run.in[r]) munmap(run.in[r], (size_t)run.n * 4 + 64);
    }
    return good ? bench_stats_of(run.us, ROUNDS).median : NAN;
}

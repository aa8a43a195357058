/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"

#include <stdatomic.h>
#include <unistd.h>

#include "base/context.h"
#include "test.h"

enum { MOST_PIECES = 40 };

static void count_piece(int64_t begin, int64_t end, void *user)
{
    atomic_int *runs = user;
    for (int64_t i = begin; i < end; i++) atomic_fetch_add(&runs[i], 1);
}

TS_TEST(parallel_for_runs_each_piece_once_when_jobs_follow_closely)
{
    TS_PASS(ts_set_num_threads(3));
    for (int job = 0; job < 300000; job++) {
        atomic_int runs[MOST_PIECES] = {0};
        int n = job % 2 ? MOST_PIECES : 2;
        ts_parallel_for(n, 1, count_piece, runs);
        for (int i = 0; i < n; i++) TS_EXPECT_INT(runs[i], 1);
    }
}

typedef struct crowd {
    atomic_int now, most;
} crowd;

static void join_crowd(int64_t begin, int64_t end, void *user)
{
    crowd *c = user;
    (void)begin, (void)end;
    int now = atomic_fetch_add(&c->now, 1) + 1, most = c->most;
    while (now > most && !atomic_compare_exchange_weak(&c->most, &most, now)) {
    }
    usleep(2000);
    atomic_fetch_sub(&c->now, 1);
}

TS_TEST(parallel_for_uses_no_more_threads_than_are_set_now)
{
    crowd many = {0}, few = {0};
    TS_PASS(ts_set_num_threads(6));
    ts_parallel_for(60, 1, join_crowd, &many);
    TS_EXPECT(many.most > 2);
    TS_PASS(ts_set_num_threads(2));
    ts_parallel_for(60, 1, join_crowd, &few);
    TS_EXPECT(few.most <= 2);
}

static void note_end(void *value) { *(bool *)value = true; }

static bool ended;
static void *give_flag(ts_rank_ctx *rank)
{
    (void)rank;
    return &ended;
}

TS_TEST(a_rank_ends_although_the_pool_was_started_for_it)
{
    ts_rank_ctx *rank = ts_rank_ctx_new(), *former = ts_rank_current();
    crowd c = {0};
    TS_EXPECT(rank != NULL);
    ts_thread_set_rank(rank);
    TS_EXPECT(ts_rank_slot_get(rank, TS_SLOT_LEDGER, give_flag, note_end) != NULL);
    TS_PASS(ts_set_num_threads(3));
    ts_parallel_for(30, 1, join_crowd, &c);
    TS_EXPECT(c.most > 1);
    ts_thread_set_rank(former);
    ts_rank_ctx_release(rank);
    TS_EXPECT(ended);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"

#include <stdatomic.h>

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

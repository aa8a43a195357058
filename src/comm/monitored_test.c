/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "test.h"

static void passes(ts_test *test)
{
    /* Messages of users with any tag are not touched. */
    ts_work *work;
    ts_tensor *t = ts_zeros(TS_SHAPE(1), NULL);
    TS_PASS(ts_irecv(test->group, t, TS_ANY_SOURCE, 1, &work));
    for (int i = 0; i < 5; i++) TS_PASS(ts_monitored_barrier(test->group, 5000, i % 2));
    int next = (test->rank + 1) % test->size;
    TS_PASS(ts_send(test->group, ts_ones(TS_SHAPE(1), NULL), next, 1));
    TS_PASS(ts_work_wait(work, 0));
    ts_work_free(work);
    TS_EXPECT_ALL(t, 1);
    TS_FAIL(ts_monitored_barrier(test->group, -1, false), TS_EINVAL, "negative");
}

TS_TEST(monitored_barrier_passes, .ranks = 3) { passes(test); }
TS_TEST(monitored_barrier_passes_hosts, .ranks = 3, .hosts = 3) { passes(test); }
TS_TEST(monitored_barrier_alone, .ranks = 1)
{
    TS_PASS(ts_monitored_barrier(test->group, 0, true));
}

/* Ranks 1 and 2 come too late, hear of it, and the next barrier is in order. */
static void late(ts_test *test, bool all)
{
    bool is_late = test->rank == 1 || test->rank == 2;
    if (is_late) ts_test_meet(test, "too late");
    if (test->rank == 0) {
        TS_FAIL(ts_monitored_barrier(test->group, 100, all), TS_ETIMEOUT,
                all ? "ranks 1, 2 " : "rank 1 ");
    } else {
        TS_FAIL(ts_monitored_barrier(test->group, 100, all), TS_EREMOTE, all ? "1, 2" : "rank 1");
    }
    if (!is_late) ts_test_meet(test, "too late");
    for (int i = 0; i < 3; i++) TS_PASS(ts_monitored_barrier(test->group, 5000, false));
    TS_PASS(ts_barrier(test->group, NULL));
}

TS_TEST(monitored_barrier_names_all_missing, .ranks = 4) { late(test, true); }
TS_TEST(monitored_barrier_names_the_first_missing, .ranks = 4) { late(test, false); }

TS_TEST(monitored_barrier_without_rank_0, .ranks = 2)
{
    if (test->rank == 1)
        TS_FAIL(ts_monitored_barrier(test->group, 50, false), TS_ETIMEOUT, "rank 0");
    ts_test_meet(test, "failed");
}

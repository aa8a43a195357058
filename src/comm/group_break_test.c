/* SPDX-License-Identifier: Apache-2.0 */
/* Groups that break, end and come again beside others. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "comm/engine_test.h"
#include "test.h"

/* A time-out and an abort end their own group only. */
static void others_go_on(ts_test *test)
{
    ts_group *late, *aborted, *fine;
    ts_group_options opt = TS_GROUP_OPTIONS_INIT;
    opt.timeout_ms = 200;
    TS_PASS(ts_new_group(&late, NULL, 0, &opt));
    TS_PASS(ts_new_group(&aborted, NULL, 0, NULL));
    TS_PASS(ts_new_group(&fine, NULL, 0, NULL));
    if (test->rank == 0) {
        TS_FAIL(ts_barrier(late, NULL), TS_ETIMEOUT, "rank 1");
        TS_FAIL(ts_barrier(late, NULL), TS_ETIMEOUT, "the group is broken since");
        TS_PASS(ts_abort_process_group(aborted));
        TS_FAIL(ts_barrier(aborted, NULL), TS_EABORTED, "rank 0 aborted the group");
    } else {
        TS_FAIL(ts_barrier(aborted, NULL), TS_EREMOTE, "rank 0 aborted the group");
    }
    for (int i = 0; i < 3; i++) {
        ts_tensor *t = ts_full(TS_SHAPE(1000), 1, NULL);
        TS_PASS(ts_all_reduce(i % 2 ? NULL : fine, t, TS_SUM, NULL));
        TS_EXPECT_ALL(t, 2.0);
    }
    TS_PASS(ts_destroy_process_group(late));
    TS_PASS(ts_new_group(&late, NULL, 0, NULL));
    TS_PASS(ts_barrier(late, NULL));
}

TS_TEST(group_that_breaks_disturbs_no_other, .ranks = 2) { others_go_on(test); }
TS_TEST(group_that_breaks_disturbs_no_other_of_hosts, .ranks = 2, .hosts = 2)
{
    others_go_on(test);
}

/* Descriptors and threads stay as many as they were. */
static void again_and_again(ts_test *test)
{
    ts_group *group;
    int descriptors = 0, threads = 0;
    for (int i = 0; i < 40; i++) {
        TS_PASS(ts_new_group(&group, NULL, 0, NULL));
        ts_tensor *t = ts_full(TS_SHAPE(3), test->rank + 1, NULL);
        TS_PASS(ts_all_reduce(group, t, TS_SUM, NULL));
        TS_EXPECT_ALL(t, 3.0);
        TS_PASS(ts_destroy_process_group(group));
        TS_PASS(ts_barrier(NULL, NULL));
        if (i == 2) {
            descriptors = count_descriptors();
            threads = count_threads();
            TS_PASS(ts_barrier(NULL, NULL));
        }
    }
    descriptors -= count_descriptors();
    threads -= count_threads();
    TS_PASS(ts_barrier(NULL, NULL)); /* who leaves closes its links */
    TS_EXPECT(descriptors == 0 && threads == 0);
}

TS_TEST(new_group_again_and_again, .ranks = 2, .mode = TS_TEST_PROCESSES) { again_and_again(test); }
TS_TEST(new_group_again_and_again_of_hosts, .ranks = 2, .hosts = 2, .mode = TS_TEST_PROCESSES)
{
    again_and_again(test);
}

/* Rank 1 leaves while rank 0, through which its host speaks, calls nothing. */
TS_TEST(leaving_ends_what_other_hosts_are_in, .ranks = 4, .hosts = 2)
{
    ts_group *group;
    TS_PASS(ts_new_group(&group, NULL, 0, NULL));
    TS_PASS(ts_barrier(group, NULL));
    int64_t began_ns = ts_now_ns();
    if (test->rank == 1) {
        usleep(20000);
        TS_PASS(ts_destroy_process_group(group));
    }
    if (test->rank > 1) {
        ts_status status = ts_barrier(group, NULL);
        TS_EXPECT(status == TS_ENETWORK || status == TS_EREMOTE);
        TS_EXPECT(strstr(ts_error_last(), "rank 1 (pid"));
        TS_EXPECT(strstr(ts_error_last(), "has left the group"));
        TS_EXPECT(ts_now_ns() - began_ns < INT64_C(5000000000));
    }
    ts_test_meet(test, "all have seen");
    if (test->rank == 0) TS_EXPECT(ts_barrier(group, NULL) != TS_OK);
    if (test->rank == 0) TS_EXPECT(strstr(ts_error_last(), "rank 1 (pid"));
}

/* What a rank has taken part in goes on without it. */
TS_TEST(leaving_disturbs_no_operation_before, .ranks = 4, .hosts = 2)
{
    for (int i = 0; i < 20; i++) {
        ts_group *group;
        TS_PASS(ts_new_group(&group, NULL, 0, NULL));
        ts_tensor *t = ts_full(TS_SHAPE(100000), 1, NULL);
        TS_PASS(ts_broadcast(group, t, i % 4, NULL));
        TS_PASS(ts_all_reduce(group, t, TS_SUM, NULL));
        TS_EXPECT_ALL(t, 4.0);
        TS_PASS(ts_destroy_process_group(group));
    }
}

/* Of three ranks one dies: the groups that it is a member of fail, that of the others goes on. */
static void one_dies(peer_rank *me)
{
    ts_group *all, *pair;
    static const int ranks[] = {0, 1};
    ME_PASS(ts_rank_enter(me->rank, 3, me->store));
    ME_PASS(ts_new_group(&all, NULL, 0, NULL));
    ME_PASS(ts_new_group(&pair, ranks, 2, NULL));
    ts_tensor *word = ts_zeros(TS_SHAPE(1), NULL); /* it dies when the others have their groups */
    if (me->rank < 2) ME_PASS(ts_send(NULL, word, 2, 1));
    for (int i = 0; i < 2 && me->rank == 2; i++) ME_PASS(ts_recv(NULL, word, i, 1, NULL));
    if (me->rank == 2) raise(SIGKILL);
    ts_status status = ts_barrier(all, NULL);
    ME_EXPECT(status == TS_ENETWORK || status == TS_EREMOTE);
    ME_EXPECT(strstr(ts_error_last(), "rank 2"));
    status = ts_barrier(NULL, NULL);
    ME_EXPECT(status == TS_ENETWORK || status == TS_EREMOTE);
    for (int i = 0; i < 20; i++) {
        ts_tensor *t = ts_full(TS_SHAPE(100), 2, NULL);
        ME_PASS(ts_all_reduce(pair, t, TS_SUM, NULL));
    }
    ME_PASS(ts_barrier(pair, NULL));
    ts_rank_leave();
}

TS_TEST(group_without_the_lost_rank_goes_on) { run_bare_processes(test, 3, one_dies); }

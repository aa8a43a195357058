/* SPDX-License-Identifier: Apache-2.0 */
/* Groups go on without ranks that were lost. */
#include <signal.h>
#include <stdlib.h>

#include "comm/engine_test.h"
#include "test.h"

static double sum_over(ts_group *group, double x)
{
    double sum = -1;
    ts_tensor *t = ts_full(TS_SHAPE(3), x, NULL);
    if (ts_all_reduce(group, t, TS_SUM, NULL) != TS_OK) return -1e9;
    return ts_item(ts_select(t, 0, 0), &sum) == TS_OK ? sum : -1;
}

/* All n ranks have come here, whatever becomes of them afterwards. */
static void meet(peer_rank *me, const char *what, int n)
{
    char all[64];
    const char *key = all;
    int64_t here;
    snprintf(all, sizeof all, "%s/all", what);
    ME_PASS(ts_store_add(me->store, what, 1, &here));
    if (here == n) ME_PASS(ts_store_set(me->store, all, "1", 1));
    ME_PASS(ts_store_wait(me->store, &key, 1, 20000));
}

/* ---- lost ranks ------------------------------------------------------------------------------ */

/* The default group of four: rank 2 is killed, the others are 0, 1 and 2 then. */
static void one_is_killed(peer_rank *me)
{
    ts_group *group, *pair;
    static const int lost[] = {2}, ends[] = {0, 2};
    ME_PASS(ts_rank_enter(me->rank, 4, me->store));
    ME_PASS(ts_new_group(&pair, ends, 2, NULL));
    meet(me, "begin", 4);
    if (me->rank == 2) raise(SIGKILL);
    ts_status status = ts_barrier(NULL, NULL);
    ME_EXPECT(status == TS_ENETWORK || status == TS_EREMOTE);
    ME_PASS(ts_shrink_group(&group, NULL, lost, 1, TS_SHRINK_DEFAULT, NULL));
    int rank = me->rank < 2 ? me->rank : me->rank - 1;
    ME_EXPECT(group == ts_default_group() && ts_rank() == rank && ts_world_size() == 3);
    ME_EXPECT(ts_group_count() == 1 && strcmp(ts_group_description(NULL), "default_pg") == 0);
    ME_EXPECT(sum_over(NULL, me->rank) == 4);
    /* Groups of it, and another loss. */
    ME_PASS(ts_new_group(&pair, ends, 2, NULL));
    ME_EXPECT(ts_is_member(pair) == (rank != 1));
    if (rank != 1) ME_EXPECT(sum_over(pair, 1) == 2);
    meet(me, "shrunk", 3);
    if (rank == 1) raise(SIGKILL);
    status = ts_barrier(NULL, NULL);
    ME_EXPECT(status == TS_ENETWORK || status == TS_EREMOTE);
    static const int second[] = {1};
    ME_PASS(ts_shrink_group(&group, NULL, second, 1, TS_SHRINK_ABORT, NULL));
    ME_EXPECT(ts_world_size() == 2 && sum_over(NULL, 1) == 2);
    ME_PASS(ts_barrier(NULL, NULL));
    ts_rank_leave();
}

TS_TEST(shrink_default_group_after_kills) { run_bare_processes(test, 4, one_is_killed); }

/* A group of some ranks keeps its numbers; the default group stays broken. */
static void one_of_a_group_is_killed(peer_rank *me)
{
    ts_group *group, *rest;
    ts_group_options opt = TS_GROUP_OPTIONS_INIT;
    static const int some[] = {1, 2, 3}, lost[] = {2};
    opt.timeout_ms = 12345;
    opt.description = "some";
    ME_PASS(ts_rank_enter(me->rank, 4, me->store));
    ME_PASS(ts_new_group(&group, some, 3, &opt));
    meet(me, "begin", 4);
    if (me->rank == 2) raise(SIGKILL);
    if (me->rank > 0) {
        ts_status status = ts_barrier(group, NULL);
        ME_EXPECT(status == TS_ENETWORK || status == TS_EREMOTE);
        ME_PASS(ts_shrink_group(&rest, group, lost, 1, TS_SHRINK_DEFAULT, NULL));
        int ranks[2] = {-1, -1};
        ME_EXPECT(ts_group_ranks(rest, ranks, 2) == 2 && ranks[0] == 1 && ranks[1] == 3);
        ME_EXPECT(ts_group_timeout(rest) == 12345);
        ME_EXPECT(strcmp(ts_group_description(rest), "some") == 0);
        for (int i = 0; i < 10; i++) ME_EXPECT(sum_over(rest, me->rank) == 4);
        ME_FAIL(ts_destroy_process_group(group), TS_EINVAL, "destroyed");
        ME_PASS(ts_barrier(rest, NULL));
    }
    ts_status status = ts_barrier(NULL, NULL);
    ME_EXPECT(status == TS_ENETWORK || status == TS_EREMOTE);
    ts_rank_leave();
}

TS_TEST(shrink_group_after_a_kill) { run_bare_processes(test, 4, one_of_a_group_is_killed); }

/* ---- ranks that live ------------------------------------------------------------------------- */

static void one_goes(ts_test *test)
{
    ts_group *group, *other;
    ts_work *work;
    static const int gone[] = {1};
    TS_PASS(ts_new_group(&other, NULL, 0, NULL));
    ts_test_meet(test, "made");
    ts_tensor *t = ts_ones(TS_SHAPE(100), NULL);
    if (test->rank != 1) {
        TS_PASS(ts_all_reduce(other, t, TS_SUM, &work)); /* rank 1 does not come */
        TS_PASS(ts_shrink_group(&group, NULL, gone, 1, TS_SHRINK_ABORT, NULL));
        TS_EXPECT(ts_status_is(ts_work_wait(work, 0), TS_EDIST)); /* aborted here, there, or left */
        ts_work_free(work);
        TS_EXPECT(ts_world_size() == 2 && ts_rank() == test->rank / 2);
        TS_EXPECT(sum_over(NULL, test->rank) == 2);
    }
    TS_PASS(ts_destroy_process_group(NULL));
    TS_EXPECT(!ts_is_initialized());
    ts_init_options init = TS_INIT_OPTIONS_INIT; /* and all come again */
    init.store = test->store;
    init.rank = test->rank;
    init.world_size = 3;
    ts_test_meet(test, "again");
    TS_PASS(ts_init_process_group(&init));
    TS_EXPECT(sum_over(NULL, 1) == 3);
    TS_PASS(ts_destroy_process_group(NULL));
}

TS_TEST(shrink_leaves_one_that_lives, .ranks = 3) { one_goes(test); }
TS_TEST(shrink_leaves_one_that_lives_of_hosts, .ranks = 3, .hosts = 3) { one_goes(test); }

TS_TEST(shrink_wrong_on_one_rank, .ranks = 3, .timeout_s = 20)
{
    ts_group *group = NULL, *sub;
    static const int last[] = {2}, first[] = {0}, outside[] = {5}, twice[] = {2, 2},
                     all[] = {0, 1, 2}, place[] = {TS_GROUP_RANK(2)};
    TS_PASS(ts_new_group(&sub, NULL, 0, NULL));
    for (int i = 0; i < 2; i++) {
        ts_group *of = i ? sub : NULL;
        bool me = test->rank == 1;
        if (test->rank == 2) {
            TS_FAIL(ts_shrink_group(&group, of, last, 1, 0, NULL), TS_EINVAL, "rank 2 is excluded");
            for (int k = 0; k < 5; k++) /* as often as the others */
                TS_FAIL(ts_shrink_group(&group, of, last, 1, 0, NULL), TS_EINVAL, "rank 2");
            continue;
        }
        TS_FAIL(ts_shrink_group(&group, of, me ? first : last, 1, 0, NULL), TS_EMISMATCH,
                "ranks disagree: rank");
        ts_status status = ts_shrink_group(&group, of, me ? outside : last, 1, 0, NULL);
        TS_EXPECT(status == (me ? TS_EINVAL : TS_EREMOTE));
        TS_EXPECT_TEXT(ts_error_last(), "rank 5 is not in group");
        TS_FAIL(ts_shrink_group(&group, of, twice, 2, 0, NULL), TS_EINVAL, "rank 2 is named twice");
        TS_FAIL(ts_shrink_group(&group, of, all, 3, 0, NULL), TS_EINVAL, "one must stay");
        TS_FAIL(ts_shrink_group(&group, of, NULL, 0, 0, NULL), TS_EINVAL, "no ranks to exclude");
        TS_FAIL(ts_shrink_group(&group, of, last, 1, 4, NULL), TS_EINVAL, "flags 0x4");
    }
    if (test->rank < 2) {
        TS_PASS(ts_shrink_group(&group, sub, place, 1, 0, NULL));
        TS_EXPECT(sum_over(group, 1) == 2);
    }
    ts_test_meet(test, "shrunk");
}

TS_TEST(shrink_is_not_for_every_backend)
{
    ts_group *group;
    static const int last[] = {2};
    ts_init_options init = TS_INIT_OPTIONS_INIT;
    init.backend = "fake";
    init.rank = 0;
    init.world_size = 3;
    TS_FAIL(ts_shrink_group(&group, NULL, last, 1, 0, NULL), TS_ESTATE, "no default group");
    TS_PASS(ts_init_process_group(&init));
    TS_FAIL(ts_shrink_group(&group, NULL, last, 1, 0, NULL), TS_EUNSUPPORTED, "backend 'fake'");
    TS_PASS(ts_destroy_process_group(NULL));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of some ranks: made in every way, and used beside each other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/tessera.h>

#include "test.h"

static double first_of(ts_tensor *t)
{
    double x = -1;
    return ts_item(ts_select(t, 0, 0), &x) == TS_OK ? x : -1;
}

/* Sum of x over the group. */
static double sum_over(ts_group *group, double x)
{
    ts_tensor *t = ts_full(TS_SHAPE(3), x, NULL);
    if (ts_all_reduce(group, t, TS_SUM, NULL) != TS_OK) return -1e9;
    return first_of(t);
}

/* ---- new_group ------------------------------------------------------------------------------- */

static void some_ranks(ts_test *test)
{
    ts_group *group;
    static const int ranks[] = {3, 0, 2};
    TS_PASS(ts_new_group(&group, ranks, 3, NULL));
    TS_EXPECT(ts_group_count() == 2);
    if (test->rank == 1) {
        TS_EXPECT(group == ts_group_not_member() && !ts_is_member(group));
        TS_EXPECT(ts_group_rank(group) == -1 && ts_group_size(group) == -1);
        TS_FAIL(ts_barrier(group, NULL), TS_ENOTMEMBER, "barrier: rank 1 is not a member");
        TS_PASS(ts_destroy_process_group(group));
        return;
    }
    int place = test->rank == 0 ? 0 : test->rank - 1, list[3] = {0}, r = -1;
    TS_EXPECT(ts_is_member(group) && ts_group_rank(group) == place && ts_group_size(group) == 3);
    TS_EXPECT(ts_group_ranks(group, list, 3) == 3 && list[0] == 0 && list[1] == 2 && list[2] == 3);
    TS_PASS(ts_group_rank_of(&r, group, 3));
    TS_EXPECT(r == 2);
    TS_FAIL(ts_group_rank_of(&r, group, 1), TS_EINVAL, "rank 1 is not in group '1'");
    TS_PASS(ts_global_rank_of(&r, group, 1));
    TS_EXPECT(r == 2);
    TS_FAIL(ts_global_rank_of(&r, group, 3), TS_EINVAL, "not in 0 .. 2");
    TS_EXPECT(strcmp(ts_group_name(group), "1") == 0);
    TS_EXPECT(strcmp(ts_group_description(group), "undefined") == 0);
    TS_EXPECT(strcmp(ts_group_backend(group), "native") == 0);
    TS_EXPECT(strcmp(ts_group_backend_config(group), "cpu:native") == 0);
    TS_EXPECT(sum_over(group, test->rank + 1.0) == 1 + 3 + 4);
    ts_tensor *t = ts_full(TS_SHAPE(3), test->rank, NULL);
    TS_PASS(ts_broadcast(group, t, 2, NULL)); /* global rank */
    TS_EXPECT_ALL(t, 2.0);
    t = ts_full(TS_SHAPE(100000), test->rank, NULL);
    TS_PASS(ts_broadcast(group, t, TS_GROUP_RANK(2), NULL));
    TS_EXPECT_ALL(t, 3.0);
    TS_FAIL(ts_broadcast(group, t, 1, NULL), TS_EINVAL, "rank 1");
    /* What is wrong is told in global ranks, too. */
    TS_FAIL(ts_all_reduce(group, t, test->rank == 3 ? TS_MAX : TS_SUM, NULL), TS_EMISMATCH,
            "ranks {0,2} call all_reduce SUM");
    TS_EXPECT_TEXT(ts_error_last(), "ranks {3} call all_reduce MAX");
    TS_FAIL(ts_broadcast(group, t, test->rank == 3 ? 2 : 3, NULL), TS_EMISMATCH,
            "ranks {3} call broadcast from 2");
    if (test->rank != 2)
        TS_FAIL(ts_all_reduce(group, t, TS_SUM, NULL), TS_EREMOTE, "rank 2 came with bad");
    else
        TS_FAIL(ts_all_reduce(group, NULL, TS_SUM, NULL), TS_EINVAL, "tensor is missing");
    TS_PASS(ts_destroy_process_group(group));
}

TS_TEST(new_group_of_some_ranks, .ranks = 4) { some_ranks(test); }
TS_TEST(new_group_of_some_ranks_of_hosts, .ranks = 4, .hosts = 2) { some_ranks(test); }

/* Messages and objects name global ranks; group ranks go too. */
static void messages(ts_test *test)
{
    ts_group *group;
    static const int ranks[] = {1, 3};
    TS_PASS(ts_new_group(&group, ranks, 2, NULL));
    if (test->rank % 2 == 0) return;
    int other = 4 - test->rank, from = -1;
    ts_tensor *in = ts_full(TS_SHAPE(5), -1, NULL), *out = ts_full(TS_SHAPE(5), test->rank, NULL);
    ts_work *work[2];
    TS_PASS(ts_isend(group, out, other, 7, &work[0]));
    TS_PASS(ts_irecv(group, in, TS_GROUP_RANK(test->rank == 1 ? 1 : 0), 7, &work[1]));
    TS_PASS(ts_wait_all(work, 2));
    TS_EXPECT_ALL(in, (double)other);
    TS_PASS(ts_isend(group, out, other, 8, &work[0]));
    TS_PASS(ts_recv(group, in, TS_ANY_SOURCE, 8, &from));
    TS_PASS(ts_wait_all(work, 1));
    TS_EXPECT(from == other);
    TS_FAIL(ts_send(group, out, 0, 0), TS_EINVAL, "rank 0 is not a member");
    TS_PASS(ts_monitored_barrier(group, 0, false));
}

TS_TEST(new_group_messages, .ranks = 4) { messages(test); }
TS_TEST(new_group_messages_of_hosts, .ranks = 4, .hosts = 4) { messages(test); }

/* Equal tags on three groups over the same links. */
static void beside_each_other(ts_test *test)
{
    ts_group *group[3];
    ts_work *work[6];
    ts_tensor *in[3], *out[3], *sum[3];
    static const int ranks[] = {0, 1};
    int other = 1 - test->rank;
    for (int i = 0; i < 3; i++) TS_PASS(ts_new_group(&group[i], ranks, 2, NULL));
    for (int i = 0; i < 3; i++) {
        in[i] = ts_full(TS_SHAPE(4), -1, NULL);
        out[i] = ts_full(TS_SHAPE(4), 10 * i + test->rank, NULL);
        TS_PASS(ts_isend(group[i], out[i], other, 0, &work[i]));
    }
    for (int i = 2; i >= 0; i--) TS_PASS(ts_irecv(group[i], in[i], other, 0, &work[3 + i]));
    TS_PASS(ts_wait_all(work, 6));
    for (int i = 0; i < 3; i++) TS_EXPECT_ALL(in[i], 10.0 * i + other);
    for (int k = 0; k < 3; k++) {
        int i = test->rank ? k : 2 - k; /* in other orders on each rank */
        sum[i] = ts_full(TS_SHAPE(50000), i + 1, NULL);
        TS_PASS(ts_all_reduce(group[i], sum[i], TS_SUM, &work[i]));
    }
    TS_PASS(ts_wait_all(work, 3));
    for (int i = 0; i < 3; i++) TS_EXPECT_ALL(sum[i], 2.0 * (i + 1));
    TS_PASS(ts_destroy_process_group(group[0]));
    TS_EXPECT(sum_over(group[1], 1) == 2 && sum_over(group[2], 2) == 4 && sum_over(NULL, 3) == 6);
}

TS_TEST(groups_work_beside_each_other, .ranks = 2) { beside_each_other(test); }
TS_TEST(groups_work_beside_each_other_of_hosts, .ranks = 2, .hosts = 2) { beside_each_other(test); }

/* V-06 of what users of others met: a group of one, then all ranks. */
TS_TEST(new_group_of_one, .ranks = 2)
{
    ts_group *group;
    static const int ranks[] = {0};
    TS_PASS(ts_new_group(&group, ranks, 1, NULL));
    TS_PASS(ts_barrier(NULL, NULL));
    ts_tensor *t = ts_full(TS_SHAPE(2), 5, NULL);
    if (test->rank == 0) {
        TS_PASS(ts_all_reduce(group, t, TS_SUM, NULL));
        TS_EXPECT_ALL(t, 5.0);
        TS_EXPECT(ts_group_rank(group) == 0 && ts_group_size(group) == 1);
        TS_PASS(ts_destroy_process_group(group));
    } else {
        TS_FAIL(ts_all_reduce(group, t, TS_SUM, NULL), TS_ENOTMEMBER, "is not a member");
    }
}

/* ---- arguments ------------------------------------------------------------------------------- */

TS_TEST(new_group_checks, .ranks = 3)
{
    ts_group *group = NULL;
    static const int twice[] = {0, 1, 0}, outside[] = {0, 3}, fine[] = {0, 1};
    TS_FAIL(ts_new_group(&group, twice, 3, NULL), TS_EINVAL, "rank 0 is named twice");
    TS_FAIL(ts_new_group(&group, outside, 2, NULL), TS_EINVAL, "rank 3 is not in 0 .. 2");
    TS_FAIL(ts_new_group(&group, fine, 0, NULL), TS_EINVAL, "empty");
    ts_group_options opt = TS_GROUP_OPTIONS_INIT;
    opt.timeout_ms = -1;
    TS_FAIL(ts_new_group(&group, fine, 2, &opt), TS_EINVAL, "-1 ms is negative");
    opt.timeout_ms = 0;
    opt.backend = "no such thing";
    TS_FAIL(ts_new_group(&group, fine, 2, &opt), TS_EBACKEND, "no such thing");
    opt.backend = NULL;
    opt.device = "cuda:0";
    TS_FAIL(ts_new_group(&group, fine, 2, &opt), TS_EINVAL, "cuda:0");
    opt.device = NULL;
    opt.name = "pair";
    TS_PASS(ts_new_group(&group, fine, 2, &opt));
    if (test->rank < 2) TS_EXPECT(strcmp(ts_group_name(group), "pair") == 0);
    ts_status again = ts_new_group(&group, fine, 2, &opt);
    TS_EXPECT(again == (test->rank < 2 ? TS_EINVAL : TS_EREMOTE));
    TS_EXPECT(sum_over(NULL, 1) == 3);
}

/* What is wrong on one rank only, all learn; the next one works. */
static void one_rank_is_wrong(ts_test *test)
{
    ts_group *group = NULL;
    static const int ranks[] = {0, 2}, other[] = {0, 1}, bad[] = {0, 9};
    bool me = test->rank == 2;
    ts_status status = ts_new_group(&group, me ? bad : ranks, 2, NULL);
    TS_EXPECT(status == (me ? TS_EINVAL : TS_EREMOTE));
    if (!me) TS_EXPECT(strstr(ts_error_last(), "rank 9 is not in 0 .. 2"));
    TS_FAIL(ts_new_group(&group, me ? other : ranks, 2, NULL), TS_EMISMATCH,
            "rank 0 asks for \"new_group: {0, 2}, backend native");
    TS_EXPECT(strstr(ts_error_last(), "rank 2 for \"new_group: {0, 1}, backend native"));
    TS_EXPECT(group == NULL);
    TS_PASS(ts_new_group(&group, ranks, 2, NULL));
    if (test->rank != 1) TS_EXPECT(sum_over(group, 1) == 2);
}

/* Ranks that have asked for different numbers of groups agree again afterwards. */
static void other_numbers_of_groups(ts_test *test)
{
    ts_group *group = NULL;
    bool me = test->rank == 2;
    TS_FAIL(ts_new_subgroups(&group, NULL, me ? 3 : 1, NULL, NULL), TS_EMISMATCH, "{0, 1, 2}");
    TS_EXPECT(ts_new_subgroups(&group, NULL, me ? 0 : 1, NULL, NULL) ==
              (me ? TS_EINVAL : TS_EREMOTE));
    TS_EXPECT(group == NULL);
    TS_PASS(ts_new_group(&group, NULL, 0, NULL));
    TS_EXPECT(strcmp(ts_group_name(group), "1") == 0 && sum_over(group, 1) == 3);
}

TS_TEST(new_group_after_other_numbers, .ranks = 3) { other_numbers_of_groups(test); }
TS_TEST(new_group_after_other_numbers_of_hosts, .ranks = 3, .hosts = 3)
{
    other_numbers_of_groups(test);
}

TS_TEST(new_group_wrong_on_one_rank, .ranks = 3) { one_rank_is_wrong(test); }
TS_TEST(new_group_wrong_on_one_rank_of_hosts, .ranks = 3, .hosts = 3) { one_rank_is_wrong(test); }

/* ---- by the members alone -------------------------------------------------------------------- */

/* V-07: three with the same members, used in another order, one of them destroyed. */
static void members_only(ts_test *test)
{
    ts_group *group[3];
    ts_work *work[3];
    ts_tensor *t[3];
    static const int ranks[] = {0, 1}, order[] = {2, 0, 1};
    static const double given[] = {1, 10, 100};
    ts_group_options opt = TS_GROUP_OPTIONS_INIT;
    opt.use_local_synchronization = true;
    if (test->rank > 1) {
        TS_PASS(ts_new_group(&group[0], ranks, 2, &opt));
        TS_EXPECT(group[0] == ts_group_not_member());
        return;
    }
    for (int i = 0; i < 3; i++) TS_PASS(ts_new_group(&group[i], ranks, 2, &opt));
    TS_EXPECT(strcmp(ts_group_name(group[0]), ts_group_name(group[1])) != 0);
    for (int k = 0; k < 3; k++) {
        t[k] = ts_full(TS_SHAPE(2), given[order[k]], NULL);
        TS_PASS(ts_all_reduce(group[order[k]], t[k], TS_SUM, &work[k]));
    }
    TS_PASS(ts_wait_all(work, 3));
    for (int k = 0; k < 3; k++) TS_EXPECT_ALL(t[k], 2 * given[order[k]]);
    TS_PASS(ts_destroy_process_group(group[0]));
    TS_EXPECT(sum_over(group[1], 1) == 2 && sum_over(group[2], 2) == 4);
}

TS_TEST(new_group_by_its_members, .ranks = 4) { members_only(test); }
TS_TEST(new_group_by_its_members_of_hosts, .ranks = 4, .hosts = 2) { members_only(test); }

TS_TEST(new_group_by_its_members_names_the_missing, .ranks = 3)
{
    ts_group *group;
    static const int ranks[] = {0, 2};
    ts_group_options opt = TS_GROUP_OPTIONS_INIT;
    opt.use_local_synchronization = true;
    opt.timeout_ms = 300;
    if (test->rank == 0)
        TS_FAIL(ts_new_group(&group, ranks, 2, &opt), TS_ETIMEOUT, "rank 2 did not come within");
    TS_PASS(ts_barrier(NULL, NULL));
}

/* ---- several at once ------------------------------------------------------------------------- */

static void split(ts_test *test)
{
    ts_group *half, *pair;
    static const int even[] = {4, 0, 2}, odd[] = {1, 3};
    const ts_rank_list lists[] = {{even, 3}, {odd, 2}};
    TS_PASS(ts_split_group(&half, NULL, lists, 2, NULL));
    if (test->rank == 5) {
        TS_EXPECT(half == ts_group_not_member());
        return;
    }
    TS_EXPECT(sum_over(half, test->rank) == (test->rank % 2 ? 4 : 6));
    if (test->rank % 2) return;
    static const int ends[] = {0, 2};
    const ts_rank_list two[] = {{ends, 2}}; /* places in half: ranks 0 and 4 */
    TS_PASS(ts_split_group(&pair, half, two, 1, NULL));
    if (test->rank == 2)
        TS_EXPECT(pair == ts_group_not_member());
    else
        TS_EXPECT(sum_over(pair, test->rank) == 4 && strcmp(ts_group_name(pair), "1.1") == 0);
    TS_PASS(ts_barrier(half, NULL));
    TS_PASS(ts_destroy_process_group(half)); /* the one split off lives on */
    if (test->rank != 2) TS_EXPECT(sum_over(pair, 1) == 2);
}

TS_TEST(split_group_of_groups, .ranks = 6) { split(test); }
TS_TEST(split_group_of_groups_of_hosts, .ranks = 6, .hosts = 3) { split(test); }

TS_TEST(split_group_checks, .ranks = 2)
{
    ts_group *group = NULL;
    static const int a[] = {0, 1}, b[] = {1};
    const ts_rank_list overlap[] = {{a, 2}, {b, 1}}, empty[] = {{a, 0}};
    TS_FAIL(ts_split_group(&group, NULL, overlap, 2, NULL), TS_EINVAL, "rank 1 is in two groups");
    TS_FAIL(ts_split_group(&group, NULL, empty, 1, NULL), TS_EINVAL, "empty");
    TS_FAIL(ts_split_group(&group, NULL, NULL, 0, NULL), TS_EINVAL, "no list");
    TS_FAIL(ts_new_subgroups(&group, NULL, 0, NULL, NULL), TS_EINVAL, "blocks of 0 ranks");
    TS_FAIL(ts_new_subgroups(&group, NULL, 3, NULL, NULL), TS_EINVAL, "blocks of 3 ranks");
    TS_EXPECT(sum_over(NULL, 1) == 2);
}

TS_TEST(new_subgroups_by_size, .ranks = 4)
{
    ts_group *own, *all[2];
    TS_PASS(ts_new_subgroups(&own, all, 2, NULL, NULL));
    TS_EXPECT(all[test->rank / 2] == own && all[1 - test->rank / 2] == ts_group_not_member());
    TS_EXPECT(sum_over(own, test->rank) == (test->rank < 2 ? 1 : 5));
}

TS_TEST(new_subgroups_by_lists, .ranks = 4)
{
    ts_group *own, *all[2];
    static const int even[] = {0, 2}, odd[] = {1, 3};
    const ts_rank_list lists[] = {{even, 2}, {odd, 2}};
    TS_PASS(ts_new_subgroups_by_enumeration(&own, all, lists, 2, NULL));
    TS_EXPECT(sum_over(own, test->rank) == (test->rank % 2 ? 4 : 2));
}

/* ---- what belongs to a group ----------------------------------------------------------------- */

TS_TEST(group_has_a_store_of_its_own, .ranks = 2)
{
    ts_group *group[2];
    ts_store *store[3];
    void *text = NULL;
    size_t size = 0;
    for (int i = 0; i < 2; i++) {
        TS_PASS(ts_new_group(&group[i], NULL, 0, NULL));
        TS_PASS(ts_group_store(&store[i], group[i]));
    }
    TS_PASS(ts_group_store(&store[2], NULL));
    for (int i = 0; i < 3 && test->rank == 0; i++)
        TS_PASS(ts_store_set(store[i], "key", i ? i == 1 ? "b" : "c" : "a", 1));
    for (int i = 0; i < 3; i++) {
        TS_PASS(ts_store_get(store[i], "key", &text, &size));
        TS_EXPECT(size == 1 && *(char *)text == 'a' + i);
        free(text);
    }
    TS_PASS(ts_barrier(NULL, NULL));
}

TS_TEST(group_options_hold, .ranks = 2)
{
    ts_group *group;
    ts_group_options opt = TS_GROUP_OPTIONS_INIT;
    opt.timeout_ms = 1234;
    opt.description = "tensor parallel";
    opt.device = "cpu";
    TS_PASS(ts_new_group(&group, NULL, 0, &opt));
    TS_EXPECT(ts_group_timeout(group) == 1234);
    TS_EXPECT(strcmp(ts_group_description(group), "tensor parallel") == 0);
    TS_EXPECT(strcmp(ts_group_description(NULL), "default_pg") == 0);
    TS_EXPECT(strcmp(ts_group_device(group), "cpu") == 0);
    TS_FAIL(ts_group_set_device(group, "cuda:3"), TS_EINVAL, "cuda:3");
    TS_PASS(ts_group_set_device(group, NULL));
    TS_EXPECT(strcmp(ts_group_device(group), "") == 0);
    TS_FAIL(ts_destroy_process_group((ts_group *)&opt), TS_EINVAL, "not a group of this rank");
}

TS_TEST(new_group_of_fake_ranks)
{
    ts_group *group;
    ts_init_options init = TS_INIT_OPTIONS_INIT;
    static const int ranks[] = {1, 5, 7};
    init.backend = "fake";
    init.rank = 5;
    init.world_size = 8;
    TS_PASS(ts_init_process_group(&init));
    TS_PASS(ts_new_group(&group, ranks, 3, NULL));
    TS_EXPECT(ts_group_rank(group) == 1 && ts_group_size(group) == 3);
    TS_PASS(ts_barrier(group, NULL));
    TS_PASS(ts_destroy_process_group(NULL));
}

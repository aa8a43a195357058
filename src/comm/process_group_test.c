/* SPDX-License-Identifier: Apache-2.0 */
/* Groups without a default group, the current one, merging, and the hook of completions. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
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

/* ---- groups by themselves -------------------------------------------------------------------- */

static void by_itself(ts_test *test)
{
    ts_group *group, *other, *pair, *named;
    ts_store *store;
    int r = -1;
    TS_PASS(ts_process_group_new(&group, test->store, test->rank, 3, NULL));
    TS_EXPECT(!ts_is_initialized() && ts_default_group() == NULL);
    TS_EXPECT(ts_group_rank(group) == test->rank && ts_group_size(group) == 3);
    TS_EXPECT_STR(ts_group_backend(group), "native");
    TS_EXPECT_INT(ts_group_count(), 0);
    TS_PASS(ts_global_rank_of(&r, group, 2));
    TS_EXPECT_INT(r, 2);
    TS_EXPECT(sum_over(group, test->rank + 1) == 6);
    TS_PASS(ts_process_group_new(&other, test->store, test->rank, 3, NULL));
    TS_EXPECT(strcmp(ts_group_name(group), ts_group_name(other)) != 0);
    ts_group_options opt = TS_GROUP_OPTIONS_INIT;
    opt.name = "trainer";
    opt.description = "of the trainers";
    opt.timeout_ms = 4321;
    opt.backend = "cpu:gloo";
    TS_PASS(ts_process_group_new(&named, test->store, test->rank, 3, &opt));
    TS_EXPECT_STR(ts_group_name(named), "trainer");
    TS_EXPECT_STR(ts_group_description(named), "of the trainers");
    TS_EXPECT_INT(ts_group_timeout(named), 4321);
    TS_FAIL(ts_process_group_new(&pair, test->store, test->rank, 3, &opt), TS_EINVAL,
            "there is a group 'trainer' already");
    TS_PASS(ts_group_store(&store, named));
    if (test->rank == 1) TS_PASS(ts_store_set(store, "key", "x", 1));
    const char *key = "key";
    TS_PASS(ts_store_wait(store, &key, 1, 0));
    /* Groups of it, and messages. */
    static const int ends[] = {0, 2};
    const ts_rank_list list = {ends, 2};
    TS_PASS(ts_split_group(&pair, other, &list, 1, NULL));
    TS_EXPECT(ts_is_member(pair) == (test->rank != 1));
    if (test->rank != 1) TS_EXPECT(sum_over(pair, 5) == 10);
    ts_tensor *t = ts_full(TS_SHAPE(4), test->rank, NULL);
    if (test->rank == 0) TS_PASS(ts_send(named, t, 2, 7));
    if (test->rank == 2) TS_PASS(ts_recv(named, t, TS_ANY_SOURCE, 7, &r));
    if (test->rank == 2) TS_EXPECT(r == 0);
    TS_EXPECT(sum_over(named, 1) == 3);
    TS_PASS(ts_destroy_process_group(group));
    TS_PASS(ts_destroy_process_group(named));
    TS_PASS(ts_process_group_new(&named, test->store, test->rank, 3, &opt)); /* the name again */
    TS_EXPECT(sum_over(other, 2) == 6 && sum_over(named, 2) == 6);
    TS_PASS(ts_barrier(other, NULL));
}

TS_TEST(object_group_needs_no_default, .ranks = 3, .no_group = true) { by_itself(test); }
TS_TEST(object_group_needs_no_default_of_hosts, .ranks = 3, .hosts = 2, .no_group = true)
{
    by_itself(test);
}

/* The default group comes, goes and is aborted beside it. */
TS_TEST(object_group_beside_the_default, .ranks = 2)
{
    ts_group *group;
    int size = -1;
    TS_PASS(ts_process_group_new(&group, test->store, 1 - test->rank, 2, NULL));
    TS_EXPECT(ts_group_rank(NULL) == test->rank && ts_group_rank(group) == 1 - test->rank);
    ts_tensor *t = ts_full(TS_SHAPE(5), test->rank, NULL);
    TS_PASS(ts_broadcast(group, t, 1, NULL)); /* the group's rank: 0 of the default group */
    TS_EXPECT_ALL(t, 0);
    if (test->rank == 0) TS_PASS(ts_abort_process_group(NULL));
    ts_status status = ts_barrier(NULL, NULL);
    TS_EXPECT(status == (test->rank == 0 ? TS_EABORTED : TS_EREMOTE));
    TS_EXPECT(sum_over(group, 3) == 6);
    TS_PASS(ts_destroy_process_group(NULL));
    TS_EXPECT(!ts_is_initialized() && sum_over(group, 4) == 8);
    size = ts_group_size(group);
    TS_EXPECT_INT(size, 2);
    TS_PASS(ts_destroy_process_group(group));
}

static void wrong_on_one(ts_test *test)
{
    ts_group *group = NULL;
    bool me = test->rank == 1;
    ts_group_options opt = TS_GROUP_OPTIONS_INIT;
    opt.timeout_ms = 20000;
    opt.device = me ? "cuda:0" : NULL;
    ts_status status = ts_process_group_new(&group, test->store, test->rank, 3, &opt);
    TS_EXPECT(status == (me ? TS_EINVAL : TS_EREMOTE));
    TS_EXPECT_TEXT(ts_error_last(), "cuda:0");
    if (!me) TS_EXPECT_TEXT(ts_error_last(), "rank 1 came with bad arguments");
    opt.device = NULL;
    opt.timeout_ms = me ? 19000 : 20000;
    TS_FAIL(ts_process_group_new(&group, test->store, test->rank, 3, &opt), TS_EMISMATCH,
            "ranks disagree");
    TS_EXPECT_TEXT(ts_error_last(), "19000 ms");
    TS_EXPECT_TEXT(ts_error_last(), "20000 ms");
    TS_EXPECT(group == NULL);
    opt.timeout_ms = 0;
    TS_PASS(ts_process_group_new(&group, test->store, test->rank, 3, &opt));
    TS_EXPECT(sum_over(group, 1) == 3);
    opt.timeout_ms = 300;
    if (test->rank > 0) {
        TS_FAIL(ts_process_group_new(&group, test->store, test->rank, 3, &opt), TS_ETIMEOUT,
                "process_group_new: rank 0 did not come within 300 ms");
    }
    TS_FAIL(ts_process_group_new(&group, test->store, 3, 3, NULL), TS_EINVAL, "rank 3 is not in");
    TS_FAIL(ts_process_group_new(&group, test->store, 0, 0, NULL), TS_EINVAL, "not positive");
}

TS_TEST(object_group_wrong_on_one_rank, .ranks = 3, .no_group = true, .timeout_s = 10)
{
    wrong_on_one(test);
}

TS_TEST(object_group_of_fake_ranks)
{
    ts_group *group;
    ts_group_options opt = TS_GROUP_OPTIONS_INIT;
    opt.backend = "fake";
    TS_PASS(ts_process_group_new(&group, NULL, 3, 8, &opt));
    TS_EXPECT(ts_group_rank(group) == 3 && ts_group_size(group) == 8);
    TS_PASS(ts_barrier(group, NULL));
    TS_PASS(ts_destroy_process_group(group));
    opt.backend = NULL;
    TS_PASS(ts_process_group_new(&group, NULL, 0, 1, &opt));
    TS_EXPECT(sum_over(group, 4) == 4);
    TS_PASS(ts_destroy_process_group(group));
}

/* Descriptors, threads and memory stay as they were. */
TS_TEST(object_group_again_and_again, .ranks = 2, .no_group = true, .mode = TS_TEST_PROCESSES)
{
    int descriptors = 0, threads = 0;
    for (int i = 0; i < 12; i++) {
        ts_group *group;
        TS_PASS(ts_process_group_new(&group, test->store, test->rank, 2, NULL));
        TS_EXPECT(sum_over(group, 1) == 2);
        TS_PASS(ts_destroy_process_group(group));
        ts_test_meet(test, "closed");
        if (i == 2) {
            descriptors = count_descriptors();
            threads = count_threads();
        }
    }
    TS_EXPECT_INT(count_descriptors(), descriptors);
    TS_EXPECT_INT(count_threads(), threads);
}

/* ---- the current one ------------------------------------------------------------------------- */

static void *other_thread(void *arg)
{
    (void)arg;
    bool none = ts_current_process_group() == NULL;
    ts_process_group_push(ts_group_not_member()); /* and never popped */
    return none ? "none" : NULL;
}

TS_TEST(object_group_current)
{
    ts_group *a, *b;
    pthread_t thread;
    void *none = NULL;
    TS_PASS(ts_process_group_new(&a, NULL, 0, 1, NULL));
    TS_PASS(ts_process_group_new(&b, NULL, 0, 1, NULL));
    TS_EXPECT(ts_current_process_group() == NULL);
    ts_process_group_pop(); /* nothing was pushed */
    TS_PASS(ts_process_group_push(a));
    TS_PASS(ts_process_group_push(b));
    TS_EXPECT(ts_current_process_group() == b && sum_over(ts_current_process_group(), 2) == 2);
    TS_EXPECT(pthread_create(&thread, NULL, other_thread, NULL) == 0);
    pthread_join(thread, &none);
    TS_EXPECT(none != NULL);
    TS_PASS(ts_process_group_push(NULL));
    TS_EXPECT(ts_current_process_group() == NULL);
    ts_process_group_pop();
    TS_PASS(ts_destroy_process_group(b));
    TS_FAIL(ts_barrier(ts_current_process_group(), NULL), TS_ESTATE, "has been destroyed");
    ts_process_group_pop();
    TS_EXPECT(ts_current_process_group() == a);
    ts_process_group_pop();
    TS_EXPECT(ts_current_process_group() == NULL);
    TS_PASS(ts_destroy_process_group(a));
}

/* ---- merging --------------------------------------------------------------------------------- */

/* Ranks 0, 1, 2 and 3, 4 are groups of their own. */
static void pair_up(ts_test *test, ts_group **own)
{
    static const int first[] = {0, 1, 2}, second[] = {3, 4};
    const ts_rank_list lists[] = {{first, 3}, {second, 2}};
    TS_PASS(ts_split_group(own, NULL, lists, 2, NULL));
}

static void merge(ts_test *test)
{
    ts_group *own = NULL, *all;
    pair_up(test, &own);
    if (!own) return;
    for (int i = 0; i < 3; i++) {
        TS_PASS(ts_merge_remote_group(&all, own, test->store, 5, NULL));
        TS_EXPECT_INT(ts_group_size(all), 5);
        int rank = ts_group_rank(all), within = ts_group_rank(own), base = rank - within;
        TS_EXPECT(test->rank < 3 ? base == 0 || base == 2 : base == 0 || base == 3);
        TS_EXPECT(sum_over(all, test->rank) == 10 && sum_over(own, 1) == ts_group_size(own));
        TS_PASS(ts_destroy_process_group(all));
    }
}

TS_TEST(merge_of_two_groups, .ranks = 5) { merge(test); }
TS_TEST(merge_of_two_groups_of_hosts, .ranks = 5, .hosts = 2) { merge(test); }

/* What is wrong in one group both learn, and the next time it goes well. */
TS_TEST(merge_that_is_wrong, .ranks = 5, .timeout_s = 20)
{
    ts_group *own = NULL, *all = NULL;
    pair_up(test, &own);
    if (!own) return;
    bool me = test->rank == 4;
    ts_group_options opt = TS_GROUP_OPTIONS_INIT;
    opt.timeout_ms = me ? -1 : 15000; /* bad on one rank of one group */
    ts_status status = ts_merge_remote_group(&all, own, test->store, 5, &opt);
    TS_EXPECT(status == (me ? TS_EINVAL : TS_EREMOTE));
    opt.timeout_ms = 15000;
    TS_PASS(ts_barrier(NULL, NULL));
    TS_FAIL(ts_merge_remote_group(&all, own, test->store, test->rank < 3 ? 5 : 6, &opt),
            TS_EMISMATCH, "merge_remote_group: a group of");
    TS_PASS(ts_barrier(NULL, NULL));
    status = ts_merge_remote_group(&all, own, test->store, me ? 6 : 5, &opt);
    TS_EXPECT(status == (test->rank < 3 ? TS_EREMOTE : TS_EMISMATCH));
    TS_PASS(ts_barrier(NULL, NULL));
    TS_EXPECT(all == NULL);
    opt.timeout_ms = 300;
    if (test->rank < 3)
        TS_FAIL(ts_merge_remote_group(&all, own, test->store, 5, &opt), TS_ETIMEOUT,
                "3 of 5 ranks have come within 300 ms");
    TS_PASS(ts_barrier(NULL, NULL));
    TS_FAIL(ts_merge_remote_group(&all, own, test->store, 1, NULL), TS_EINVAL, "less than the");
    TS_PASS(ts_barrier(NULL, NULL));
    TS_FAIL(ts_merge_remote_group(&all, own, NULL, 5, NULL), TS_EINVAL, "store is missing");
    TS_PASS(ts_merge_remote_group(&all, own, test->store, 5, NULL));
    TS_EXPECT(sum_over(all, 1) == 5);
}

/* ---- the hook -------------------------------------------------------------------------------- */

typedef struct heard {
    _Atomic int reductions, messages, failures, others;
    _Atomic bool good;
} heard;

static void hear(const ts_operation_event *event, void *user)
{
    heard *h = user;
    int64_t took = event->ended_ns - event->began_ns;
    bool good = event->ended && took >= 0 && took < INT64_C(20000000000) && event->began_ns > 0;
    if (event->status != TS_OK) {
        h->failures++;
    } else if (strcmp(event->name, "native:all_reduce") == 0) {
        h->reductions++;
        good = good && event->in == 6 && event->out == 6 && event->ndim == 2 &&
               event->dtype == TS_FLOAT32 && event->sequence == (uint64_t)h->reductions;
    } else if (strcmp(event->name, "native:irecv") == 0) {
        h->messages++;
        good = good && event->in == -1 && event->out == 6 && event->peer == 1 - event->rank;
    } else {
        h->others++;
    }
    if (!good) h->good = false;
}

static void hears(ts_test *test)
{
    ts_group *group;
    heard h = {.good = true};
    ts_work *work[3];
    ts_tensor *t = ts_ones(TS_SHAPE(2, 3), NULL), *in = ts_zeros(TS_SHAPE(2, 3), NULL);
    TS_PASS(ts_new_group(&group, NULL, 0, NULL));
    TS_PASS(ts_group_set_completion_hook(group, hear, &h));
    TS_PASS(ts_all_reduce(group, t, TS_SUM, NULL));
    TS_PASS(ts_all_reduce(group, t, TS_SUM, &work[0]));
    TS_PASS(ts_isend(group, t, 1 - test->rank, 0, &work[1]));
    TS_PASS(ts_irecv(group, in, TS_ANY_SOURCE, 0, &work[2]));
    TS_PASS(ts_wait_all(work, 3));
    TS_PASS(ts_barrier(NULL, NULL)); /* not of this group */
    ts_status status = ts_all_reduce(group, test->rank ? t : NULL, TS_SUM, NULL);
    TS_EXPECT(status == (test->rank ? TS_EREMOTE : TS_EINVAL));
    TS_PASS(ts_destroy_process_group(group));
    TS_EXPECT(h.reductions == 2 && h.messages == 1 && h.others == 1);
    TS_EXPECT_INT(h.failures, 1);
    TS_EXPECT(h.good);
}

TS_TEST(completion_hook_hears_of_its_group, .ranks = 2) { hears(test); }
TS_TEST(completion_hook_hears_of_its_group_of_hosts, .ranks = 2, .hosts = 2) { hears(test); }

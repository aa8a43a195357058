/* SPDX-License-Identifier: Apache-2.0 */
/* Groups that are used, made and aborted from several threads. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/context.h"
#include "comm/engine_test.h"
#include "test.h"

enum { MANY = 4 };

typedef struct user {
    pthread_t thread;
    ts_rank_ctx *of; /* the rank that the thread is of */
    ts_group *group;
    int number, rounds;
    _Atomic int done;
    char wrong[512]; /* empty: all went well */
} user;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void start(user *u, void *(*run)(void *))
{
    u->of = ts_rank_current();
    ts_rank_ctx_retain(u->of);
    pthread_create(&u->thread, NULL, run, u);
}

static void join_rank(const user *u)
{
    ts_thread_set_rank(u->of);
    ts_rank_ctx_release(u->of);
}

/* Sums of numbers that tell the groups apart. */
static void *reduce_often(void *arg)
{
    user *u = arg;
    join_rank(u);
    for (int i = 0; i < u->rounds && !*u->wrong; i++) {
        ts_scope scope = ts_scope_begin();
        ts_work *work = NULL;
        double x = -1;
        int64_t n = 1 + i * 997 % 5000;
        ts_tensor *t = ts_full(TS_SHAPE(n), u->number, NULL);
        ts_status status = ts_all_reduce(u->group, t, TS_SUM, i % 3 ? NULL : &work);
        if (status == TS_OK && work) status = ts_work_wait(work, 0);
        if (status == TS_OK) status = ts_item(ts_select(t, 0, n - 1), &x);
        if (status != TS_OK)
            snprintf(u->wrong, sizeof u->wrong, "%s", ts_error_last());
        else if (x != u->number * ts_group_size(u->group))
            snprintf(u->wrong, sizeof u->wrong, "round %d: %g", i, x);
        else
            u->done++;
        ts_work_free(work);
        ts_scope_end(scope);
    }
    return NULL;
}

/* A thread for each of several groups. */
static void one_each(ts_test *test)
{
    user u[MANY] = {{.number = 0}};
    for (int k = 0; k < MANY; k++) {
        u[k].number = k + 1;
        u[k].rounds = 100;
        TS_PASS(ts_new_group(&u[k].group, NULL, 0, NULL));
    }
    for (int k = 0; k < MANY; k++) start(&u[k], reduce_often);
    for (int k = 0; k < MANY; k++) pthread_join(u[k].thread, NULL);
    for (int k = 0; k < MANY; k++) {
        TS_EXPECT_STR(u[k].wrong, "");
        TS_EXPECT_INT(u[k].done, 100);
    }
}

TS_TEST(groups_with_a_thread_each, .ranks = 2) { one_each(test); }
TS_TEST(groups_with_a_thread_each_of_hosts, .ranks = 3, .hosts = 2) { one_each(test); }

/* Calls that are alike go one after the other, whoever of the threads comes first. */
static void *reduce_alike(void *arg)
{
    user *u = arg;
    u->number = 1;
    join_rank(u);
    for (int i = 0; i < u->rounds && !*u->wrong; i++) {
        ts_scope scope = ts_scope_begin();
        ts_work *work = NULL;
        ts_tensor *t = ts_ones(TS_SHAPE(300), NULL);
        double x = -1;
        ts_status status = ts_all_reduce(u->group, t, TS_SUM, i % 2 ? NULL : &work);
        if (status == TS_OK && work) status = ts_work_wait(work, 0);
        if (status == TS_OK) status = ts_item(ts_select(t, 0, 299), &x);
        if (status != TS_OK || x != ts_group_size(u->group))
            snprintf(u->wrong, sizeof u->wrong, "%g %s", x, ts_error_last());
        ts_work_free(work);
        ts_scope_end(scope);
    }
    return NULL;
}

static void one_for_all(ts_test *test)
{
    user u[MANY] = {{.number = 0}};
    for (int k = 0; k < MANY; k++) {
        u[k].rounds = 100;
        start(&u[k], reduce_alike);
    }
    for (int k = 0; k < MANY; k++) pthread_join(u[k].thread, NULL);
    for (int k = 0; k < MANY; k++) TS_EXPECT_STR(u[k].wrong, "");
    TS_EXPECT_INT(ts_group_sequence(NULL), MANY * 100);
}

TS_TEST(group_of_several_threads, .ranks = 2) { one_for_all(test); }
TS_TEST(group_of_several_threads_of_hosts, .ranks = 2, .hosts = 2) { one_for_all(test); }

/* ---- making ---------------------------------------------------------------------------------- */

static void *make_one(void *arg)
{
    user *u = arg;
    join_rank(u);
    u->done = 1;
    ts_status status = ts_new_group(&u->group, NULL, 0, NULL);
    if (status != TS_OK) snprintf(u->wrong, sizeof u->wrong, "%s", ts_error_last());
    return NULL;
}

/* While one thread makes a group, which takes until all ranks do, others are refused. */
TS_TEST(groups_are_made_by_one_thread_at_a_time, .ranks = 2)
{
    user u = {.number = 0};
    ts_group *group;
    if (test->rank == 0) {
        start(&u, make_one);
        while (!u.done) usleep(1000);
        usleep(100000);
        TS_FAIL(ts_new_group(&group, NULL, 0, NULL), TS_ESTATE, "another thread makes or destroys");
        TS_FAIL(ts_process_group_new(&group, test->store, 0, 1, NULL), TS_ESTATE, "another thread");
        static const int last[] = {1};
        TS_FAIL(ts_shrink_group(&group, NULL, last, 1, 0, NULL), TS_ESTATE, "another thread");
        TS_FAIL(ts_init_process_group(NULL), TS_ESTATE, "another thread");
        ts_test_meet(test, "refused");
        pthread_join(u.thread, NULL);
        TS_EXPECT_STR(u.wrong, "");
        group = u.group;
    } else {
        ts_test_meet(test, "refused");
        TS_PASS(ts_new_group(&group, NULL, 0, NULL));
    }
    TS_PASS(ts_barrier(group, NULL));
}

/* ---- ending ---------------------------------------------------------------------------------- */

static void *abort_soon(void *arg)
{
    user *u = arg;
    join_rank(u);
    while (u->done < 5) usleep(1000);
    ts_status status = ts_abort_process_group(u->group);
    if (status != TS_OK) snprintf(u->wrong, sizeof u->wrong, "%s", ts_error_last());
    return NULL;
}

/* All that is under way ends within a moment on all ranks, other groups go on, and the group can be
 * made again. */
static void abort_while_it_works(ts_test *test, bool async)
{
    user u = {.number = 0};
    ts_work *work[3] = {NULL};
    ts_tensor *t = ts_ones(TS_SHAPE(1 << 18), NULL);
    TS_PASS(ts_new_group(&u.group, NULL, 0, NULL));
    if (test->rank == 1) start(&u, abort_soon);
    ts_status status = TS_OK;
    double begun = now();
    while (status == TS_OK && now() - begun < 20) {
        for (int i = 0; async && i < 3; i++) TS_PASS(ts_all_reduce(u.group, t, TS_MAX, &work[i]));
        status = async ? ts_wait_all(work, 3) : ts_all_reduce(u.group, t, TS_MAX, NULL);
        u.done++;
    }
    TS_EXPECT(status == TS_EABORTED || status == TS_EREMOTE);
    TS_EXPECT_TEXT(ts_error_last(), "rank 1");
    begun = now();
    status = ts_barrier(u.group, NULL);
    TS_EXPECT(status == TS_EABORTED || status == TS_EREMOTE);
    TS_EXPECT(now() - begun < 1);
    if (test->rank == 1) pthread_join(u.thread, NULL);
    TS_EXPECT_STR(u.wrong, "");
    TS_PASS(ts_destroy_process_group(u.group));
    TS_PASS(ts_new_group(&u.group, NULL, 0, NULL));
    TS_PASS(ts_all_reduce(u.group, t, TS_SUM, NULL));
    TS_EXPECT_ALL(t, test->size);
}

TS_TEST(abort_of_a_group_that_works, .ranks = 3) { abort_while_it_works(test, false); }
TS_TEST(abort_of_a_group_with_works, .ranks = 3) { abort_while_it_works(test, true); }
TS_TEST(abort_of_a_group_with_works_of_hosts, .ranks = 3, .hosts = 3)
{
    abort_while_it_works(test, true);
}

TS_TEST(destroy_ends_all_groups, .ranks = 2)
{
    ts_group *group[6];
    ts_work *work[6];
    ts_tensor *t[6];
    for (int i = 0; i < 6; i++) {
        TS_PASS(ts_new_group(&group[i], NULL, 0, NULL));
        t[i] = ts_full(TS_SHAPE(1000), i, NULL);
        TS_PASS(ts_all_reduce(group[i], t[i], TS_SUM, &work[i]));
    }
    TS_EXPECT_INT(ts_group_count(), 7);
    TS_PASS(ts_destroy_process_group(ts_group_not_member()));
    TS_PASS(ts_destroy_process_group(group[2]));
    TS_FAIL(ts_destroy_process_group(group[2]), TS_EINVAL,
            "not a group of this rank, or destroyed");
    TS_PASS(ts_destroy_process_group(NULL));
    for (int i = 0; i < 6; i++) {
        TS_EXPECT(ts_work_is_success(work[i])); /* drained */
        TS_EXPECT_ALL(t[i], 2 * i);
        ts_work_free(work[i]);
        TS_FAIL(ts_destroy_process_group(group[i]), TS_EINVAL, "not a group of this rank");
    }
    TS_EXPECT(!ts_is_initialized() && ts_group_count() == 0);
    TS_FAIL(ts_destroy_process_group(NULL), TS_ESTATE, "no default group");
    ts_init_options init = TS_INIT_OPTIONS_INIT;
    init.store = test->store;
    init.rank = test->rank;
    init.world_size = 2;
    init.timeout_ms = 54321;
    TS_PASS(ts_init_process_group(&init));
    TS_EXPECT_INT(ts_group_timeout(NULL), 54321);
    TS_PASS(ts_new_group(&group[0], NULL, 0, NULL));
    TS_EXPECT_STR(ts_group_name(group[0]), "1"); /* names are counted anew */
    TS_EXPECT_INT(ts_group_count(), 2);
    TS_PASS(ts_destroy_process_group(NULL));
}

/* ---- what is left ---------------------------------------------------------------------------- */

typedef struct left_over {
    int descriptors, threads, mappings;
    long resident; /* pages */
} left_over;

static left_over look_around(void)
{
    left_over l = {.descriptors = count_descriptors(), .threads = count_threads()};
    FILE *file = fopen("/proc/self/maps", "r");
    for (int c = 0; file && (c = fgetc(file)) != EOF;) l.mappings += c == '\n';
    if (file) fclose(file);
    file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%*d %ld", &l.resident) != 1) l.resident = 0;
    if (file) fclose(file);
    return l;
}

/* Groups of all kinds, made and destroyed: nothing is left of them. */
static void nothing_is_left(ts_test *test)
{
    enum { WARM = 60, ROUNDS = 160, PAGES = 256 };
    left_over before = {0}, after;
    ts_group_options by_members = TS_GROUP_OPTIONS_INIT;
    by_members.use_local_synchronization = true;
    for (int i = 0; i < ROUNDS; i++) {
        ts_group *group, *half, *same;
        ts_scope scope = ts_scope_begin();
        TS_PASS(ts_new_group(&group, NULL, 0, NULL));
        TS_PASS(ts_new_subgroups(&half, NULL, 1, group, NULL));
        TS_PASS(ts_new_group(&same, NULL, 0, i % 8 ? NULL : &by_members));
        ts_work *work;
        ts_tensor *t = ts_full(TS_SHAPE(3), test->rank + 1, NULL);
        TS_PASS(ts_all_reduce(group, t, TS_SUM, &work)); /* with a thread */
        TS_PASS(ts_work_wait(work, 0));
        ts_work_free(work);
        TS_EXPECT_ALL(t, 3);
        TS_PASS(ts_barrier(half, NULL));
        TS_PASS(ts_barrier(same, NULL));
        TS_PASS(ts_destroy_process_group(i % 2 ? group : half));
        TS_PASS(ts_destroy_process_group(i % 2 ? half : group));
        TS_PASS(ts_destroy_process_group(same));
        TS_PASS(ts_scope_end(scope));
        if (i == WARM) before = look_around();
    }
    after = look_around();
    TS_PASS(ts_barrier(NULL, NULL));
    TS_EXPECT_INT(after.descriptors, before.descriptors);
    TS_EXPECT_INT(after.threads, before.threads);
    TS_EXPECT(after.mappings <= before.mappings + 4);
#ifndef __SANITIZE_ADDRESS__
    TS_EXPECT(after.resident <= before.resident + PAGES);
#endif
}

TS_TEST(groups_leave_nothing, .ranks = 2, .mode = TS_TEST_PROCESSES) { nothing_is_left(test); }
TS_TEST(groups_leave_nothing_of_hosts, .ranks = 2, .hosts = 2, .mode = TS_TEST_PROCESSES)
{
    nothing_is_left(test);
}

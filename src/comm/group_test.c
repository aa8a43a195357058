/* SPDX-License-Identifier: Apache-2.0 */
/* Agreement, errors, order, life of groups. */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void nap(int ms) { usleep((useconds_t)ms * 1000); }

static ts_tensor *ints(int64_t n, double value)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_INT32;
    return ts_full(TS_SHAPE(n), value, &opt);
}

/* The group is in step and works. */
#define EXPECT_IN_STEP()                                                                           \
    do {                                                                                           \
        ts_tensor *one_ = ts_ones(TS_SHAPE(3), NULL);                                              \
        TS_PASS(ts_all_reduce(test->group, one_, TS_SUM, NULL));                                   \
        TS_EXPECT_ALL(one_, test->size);                                                           \
    } while (0)

TS_TEST(group_queries, .ranks = 3)
{
    TS_EXPECT(ts_is_initialized());
    TS_EXPECT_INT(ts_rank(), test->rank);
    TS_EXPECT_INT(ts_world_size(), 3);
    TS_EXPECT_INT(ts_group_rank(NULL), test->rank);
    TS_EXPECT_INT(ts_group_size(test->group), 3);
    TS_EXPECT_STR(ts_group_backend(NULL), "native");
    TS_EXPECT_STR(ts_group_name(NULL), "default");
    TS_EXPECT(ts_is_backend_available("GLOO"));
    TS_EXPECT(!ts_is_backend_available("nccl"));
    TS_PASS(ts_group_set_timeout(NULL, 12345));
    TS_EXPECT_INT(ts_group_timeout(NULL), 12345);
    TS_FAIL(ts_group_set_timeout(NULL, -1), TS_EINVAL, "negative");
    TS_FAIL(ts_init_process_group(NULL), TS_ESTATE, "destroy it first");
    TS_EXPECT_INT(ts_group_sequence(NULL), 0);
    TS_PASS(ts_barrier(NULL, NULL));
    TS_EXPECT_INT(ts_group_sequence(NULL), 1);
}

TS_TEST(group_without_init)
{
    ts_tensor *t = ts_ones(TS_SHAPE(2), NULL);
    TS_EXPECT(!ts_is_initialized());
    TS_EXPECT_INT(ts_group_rank(NULL), -1);
    TS_FAIL(ts_all_reduce(NULL, t, TS_SUM, NULL), TS_ESTATE, "ts_init_process_group");
    TS_FAIL(ts_destroy_process_group(NULL), TS_ESTATE, "no default group");
}

TS_TEST(group_of_one)
{
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    opt.rank = 0;
    opt.world_size = 1;
    TS_PASS(ts_init_process_group(&opt));
    ts_tensor *t = ts_full(TS_SHAPE(2, 3), 5, NULL), *out = ts_zeros(TS_SHAPE(6), NULL);
    TS_PASS(ts_all_reduce(NULL, t, TS_AVG, NULL));
    TS_EXPECT_ALL(t, 5);
    TS_PASS(ts_broadcast(NULL, t, 0, NULL));
    TS_PASS(ts_all_gather_into_tensor(NULL, out, t, NULL));
    TS_EXPECT_ALL(out, 5);
    ts_work *work;
    TS_PASS(ts_reduce_scatter_tensor(NULL, t, out, TS_SUM, &work));
    TS_PASS(ts_work_wait(work, 0));
    ts_work_free(work);
    TS_PASS(ts_barrier(NULL, NULL));
    TS_FAIL(ts_broadcast(NULL, t, 1, NULL), TS_EINVAL, "rank 1");
    TS_FAIL(ts_send(NULL, t, 0, 0), TS_EINVAL, "itself");
    TS_PASS(ts_destroy_process_group(NULL));
    TS_EXPECT(!ts_is_initialized());
}

/* Everybody sees both calls and the sets of ranks, and goes on in step. */
TS_TEST(mismatch_names_both_sides, .ranks = 4)
{
    for (int round = 0; round < 3; round++) {
        ts_status status =
            test->rank == 2 ? ts_broadcast(test->group, ints(3, 1), 0, NULL)
                            : ts_all_reduce(test->group, ts_ones(TS_SHAPE(4), NULL), TS_SUM, NULL);
        TS_EXPECT_INT(status, TS_EMISMATCH);
        TS_EXPECT_TEXT(ts_error_last(), "{0,1,3} call all_reduce SUM of float32 (4,)");
        TS_EXPECT_TEXT(ts_error_last(), "{2} call broadcast from 0 of int32 (3,)");
        EXPECT_IN_STEP();
    }
}

static void mismatches(ts_test *test)
{
    bool odd = test->rank == 1;
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = odd ? TS_BFLOAT16 : TS_FLOAT32;
    ts_tensor *big = ts_ones(TS_SHAPE(odd ? 409598 : 409600), NULL);
    TS_FAIL(ts_all_reduce(test->group, big, TS_SUM, NULL), TS_EMISMATCH, "(409598,)");
    TS_EXPECT_ALL(big, 1);
    TS_FAIL(ts_all_reduce(test->group, ts_full(TS_SHAPE(1), 0.1, &opt), TS_SUM, NULL), TS_EMISMATCH,
            "bfloat16");
    TS_FAIL(ts_all_reduce(test->group, ts_ones(TS_SHAPE(1), NULL), odd ? TS_MAX : TS_SUM, NULL),
            TS_EMISMATCH, "MAX");
    TS_FAIL(ts_broadcast(test->group, ts_ones(TS_SHAPE(1), NULL), odd, NULL), TS_EMISMATCH,
            "from 1");
    EXPECT_IN_STEP();
}

TS_TEST(mismatch_of_fields, .ranks = 3) { mismatches(test); }
TS_TEST(mismatch_of_fields_hosts, .ranks = 3, .hosts = 3) { mismatches(test); }
TS_TEST(mismatch_of_fields_uneven_hosts, .ranks = 4, .hosts = 2, .split = "3+1")
{
    mismatches(test);
}

static void poisons(ts_test *test)
{
    bool culprit = test->rank == test->size - 1;
    ts_status want = culprit ? TS_ESHAPE : TS_EREMOTE;
    ts_tensor *bad =
        culprit ? ts_view(ts_ones(TS_SHAPE(3), NULL), TS_SHAPE(5)) : ts_ones(TS_SHAPE(5), NULL);
    TS_EXPECT_INT(ts_all_reduce(test->group, bad, TS_SUM, NULL), want);
    if (!culprit) TS_EXPECT_TEXT(ts_error_last(), test->size == 2 ? "rank 1" : "rank 2");
    TS_EXPECT_TEXT(ts_error_last(), "5");
    EXPECT_IN_STEP();

    ts_tensor *t = culprit ? NULL : ts_ones(TS_SHAPE(2), NULL);
    TS_FAIL(ts_broadcast(test->group, t, 0, NULL), culprit ? TS_EINVAL : TS_EREMOTE, "missing");
    EXPECT_IN_STEP();

    ts_work *work;
    ts_tensor *x = ts_ones(TS_SHAPE(2), NULL);
    TS_PASS(ts_all_reduce(test->group, x, culprit ? TS_BOR : TS_SUM, &work));
    TS_FAIL(ts_work_wait(work, 0), culprit ? TS_EDTYPE : TS_EREMOTE, "BOR of float32");
    TS_FAIL(ts_work_wait(work, 0), culprit ? TS_EDTYPE : TS_EREMOTE, "BOR of float32");
    TS_EXPECT(ts_work_is_completed(work) && !ts_work_is_success(work));
    ts_work_free(work);
    EXPECT_IN_STEP();

    ts_tensor *out = ts_zeros(TS_SHAPE(2 * test->size + culprit), NULL);
    TS_FAIL(ts_all_gather_into_tensor(test->group, out, x, NULL), culprit ? TS_ESHAPE : TS_EREMOTE,
            "elements");
    EXPECT_IN_STEP();
}

TS_TEST(bad_arguments_on_one_rank, .ranks = 3) { poisons(test); }
TS_TEST(bad_arguments_on_one_rank_hosts, .ranks = 2, .hosts = 2) { poisons(test); }
TS_TEST(bad_arguments_on_one_rank_of_a_host, .ranks = 3, .hosts = 2, .split = "1+2")
{
    poisons(test);
}

/* Works finish in the order of issue, mixed with synchronous calls, waited for in any order. */
TS_TEST(async_order, .ranks = 3)
{
    enum { N = 50 };
    ts_work *work[N];
    ts_tensor *t[N];
    for (int i = 0; i < N; i++) {
        t[i] = ts_full(TS_SHAPE(1 + i * 37), i + test->rank, NULL);
        if (i % 7 == 3) {
            work[i] = NULL;
            TS_PASS(ts_all_reduce(test->group, t[i], TS_SUM, NULL));
        } else {
            TS_PASS(ts_all_reduce(test->group, t[i], TS_SUM, &work[i]));
        }
    }
    TS_PASS(ts_barrier(test->group, NULL));
    for (int i = N - 1; i >= 0; i--) {
        if (!work[i]) continue;
        TS_EXPECT(ts_work_is_completed(work[i]));
        TS_PASS(ts_work_wait(work[i], 0));
        ts_work_free(work[i]);
    }
    for (int i = 0; i < N; i++) TS_EXPECT_ALL(t[i], 3 * i + 3);
}

/* A work keeps its tensor alive, and may be let go at once. */
TS_TEST(async_keeps_tensors, .ranks = 2)
{
    ts_work *work;
    ts_scope scope = ts_scope_begin();
    TS_PASS(ts_all_reduce(test->group, ts_ones(TS_SHAPE(100000), NULL), TS_SUM, &work));
    TS_PASS(ts_scope_end(scope));
    ts_work_free(work);
    EXPECT_IN_STEP();
}

/* Leaving a group finishes what was started. */
TS_TEST(destroy_drains_works, .ranks = 2)
{
    enum { N = 5 };
    ts_work *work[N];
    ts_tensor *t[N];
    for (int i = 0; i < N; i++) {
        t[i] = ts_full(TS_SHAPE(200000), i, NULL);
        TS_PASS(ts_all_reduce(test->group, t[i], TS_SUM, &work[i]));
    }
    TS_PASS(ts_destroy_process_group(NULL));
    for (int i = 0; i < N; i++) {
        TS_EXPECT(ts_work_is_success(work[i]));
        TS_EXPECT_ALL(t[i], 2 * i);
        ts_work_free(work[i]);
    }
}

TS_TEST(timeout_names_the_missing, .ranks = 3, .timeout_s = 20)
{
    EXPECT_IN_STEP();
    TS_PASS(ts_group_set_timeout(test->group, test->rank == 1 ? 5000 : 500));
    if (test->rank == 1) {
        nap(1500);
        ts_status status = ts_barrier(test->group, NULL);
        TS_EXPECT(status == TS_ETIMEOUT || status == TS_EREMOTE);
        return;
    }
    double begin = now();
    ts_status status = ts_broadcast(test->group, ts_ones(TS_SHAPE(5), NULL), 1, NULL);
    double took = now() - begin;
    TS_EXPECT(status == TS_ETIMEOUT || status == TS_EREMOTE);
    TS_EXPECT(took > 0.4 && took < 1.5);
    TS_EXPECT_TEXT(ts_error_last(), "rank 1 (last: all_reduce #1, finished)");
    TS_EXPECT_TEXT(ts_error_last(), "broadcast #2");
    TS_EXPECT(ts_barrier(test->group, NULL) != TS_OK);
    TS_EXPECT_TEXT(ts_error_last(), "broken since");
}

/* Rank 2 is late; the others are its neighbour on its host, its host's partner and one that waits for
 * news only. */
static void late_host(ts_test *test)
{
    EXPECT_IN_STEP();
    TS_PASS(ts_group_set_timeout(test->group, test->rank == 2 ? 5000 : 500));
    if (test->rank == 2) {
        nap(1500);
        ts_status status = ts_barrier(test->group, NULL);
        TS_EXPECT(status == TS_ETIMEOUT || status == TS_EREMOTE);
        return;
    }
    double begin = now();
    ts_status status = ts_all_reduce(test->group, ts_ones(TS_SHAPE(5), NULL), TS_SUM, NULL);
    TS_EXPECT(status == TS_ETIMEOUT || status == TS_EREMOTE);
    TS_EXPECT(now() - begin > 0.4 && now() - begin < 1.5);
    TS_EXPECT_TEXT(ts_error_last(), "2");
    TS_EXPECT_TEXT(ts_error_last(), "all_reduce");
    TS_EXPECT(ts_barrier(test->group, NULL) != TS_OK);
    TS_EXPECT_TEXT(ts_error_last(), "broken since");
}

TS_TEST(timeout_names_the_missing_hosts, .ranks = 4, .hosts = 4, .timeout_s = 20)
{
    late_host(test);
}
TS_TEST(timeout_names_the_missing_of_a_host, .ranks = 5, .hosts = 3, .split = "1+2+2",
        .timeout_s = 20)
{
    late_host(test);
}

TS_TEST(wait_has_its_own_limit, .ranks = 2)
{
    ts_work *work;
    if (test->rank == 1) nap(400);
    TS_PASS(ts_barrier(test->group, &work));
    if (test->rank == 0) TS_FAIL(ts_work_wait(work, 50), TS_ETIMEOUT, "goes on");
    TS_PASS(ts_work_wait(work, 0));
    ts_work_free(work);
}

static void loses_one(ts_test *test, ts_tensor *t, ts_work **work)
{
    EXPECT_IN_STEP();
    if (test->rank == 2) {
        nap(100);
        _exit(0);
    }
    double begin = now();
    ts_status status = ts_all_reduce(test->group, t, TS_SUM, work);
    if (work) status = ts_work_wait(*work, 0);
    if (work) ts_work_free(*work);
    TS_EXPECT(status == TS_ENETWORK || status == TS_EREMOTE);
    TS_EXPECT(now() - begin < 1.1);
    TS_EXPECT_TEXT(ts_error_last(), "rank 2");
    status = ts_barrier(test->group, NULL);
    TS_EXPECT(status == TS_ENETWORK || status == TS_EREMOTE);
    TS_EXPECT_TEXT(ts_error_last(), "broken since");
    TS_PASS(ts_destroy_process_group(NULL));
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    opt.store = test->store;
    opt.rank = test->rank;
    opt.world_size = 2;
    TS_PASS(ts_init_process_group(&opt));
    ts_tensor *one = ts_ones(TS_SHAPE(3), NULL);
    TS_PASS(ts_all_reduce(NULL, one, TS_SUM, NULL));
    TS_EXPECT_ALL(one, 2);
}

TS_TEST(lost_rank_small, .ranks = 3, .mode = TS_TEST_PROCESSES)
{
    loses_one(test, ts_ones(TS_SHAPE(4), NULL), NULL);
}

TS_TEST(lost_rank_large_async, .ranks = 3, .mode = TS_TEST_PROCESSES)
{
    ts_work *work;
    loses_one(test, ts_ones(TS_SHAPE(3000000), NULL), &work);
}

TS_TEST(lost_rank_hosts, .ranks = 3, .hosts = 3, .mode = TS_TEST_PROCESSES)
{
    loses_one(test, ts_ones(TS_SHAPE(300000), NULL), NULL);
}

/* A rank that is killed, or stopped, in the middle of large operations. */
static void loses_by_signal(ts_test *test, int64_t count, int signal, double least, double most)
{
    ts_tensor *t = ts_ones(TS_SHAPE(count), NULL);
    EXPECT_IN_STEP();
    TS_PASS(ts_group_set_timeout(test->group, 700));
    if (test->rank == 1) {
        pid_t self = getpid(), child = fork();
        if (child == 0) {
            nap(100);
            kill(self, signal);
            nap(1500);
            kill(self, SIGCONT);
            _exit(0);
        }
    }
    double begin = now();
    ts_status status = TS_OK;
    while (status == TS_OK && now() - begin < 10) {
        begin = now();
        status = ts_all_reduce(test->group, t, TS_AVG, NULL);
    }
    if (test->rank == 1) return;
    double took = now() - begin;
    TS_EXPECT(status == TS_ENETWORK || status == TS_EREMOTE || status == TS_ETIMEOUT);
    TS_EXPECT_TEXT(ts_error_last(), "rank 1");
    TS_EXPECT(took > least && took < most);
}

TS_TEST(stopped_rank, .ranks = 3, .mode = TS_TEST_PROCESSES)
{
    loses_by_signal(test, 500000, SIGSTOP, 0.3, 1.8);
}

/* Long enough that peers read its memory. */
TS_TEST(stopped_rank_whose_memory_is_read, .ranks = 3, .mode = TS_TEST_PROCESSES)
{
    loses_by_signal(test, 2000000, SIGSTOP, 0.3, 1.8);
}

static void *end_soon(void *unused)
{
    (void)unused;
    nap(100);
    _exit(0);
}

TS_TEST(lost_rank_whose_memory_is_read, .ranks = 2, .mode = TS_TEST_PROCESSES)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.memory = TS_MEMORY_HEAP;
    ts_tensor *t = ts_ones(TS_SHAPE(4000000), &opt), *all = ts_ones(TS_SHAPE(8000000), &opt);
    pthread_t thread;
    EXPECT_IN_STEP();
    if (test->rank == 1) pthread_create(&thread, NULL, end_soon, NULL);
    double begin = now();
    ts_status status = TS_OK;
    while (status == TS_OK && now() - begin < 10)
        status = ts_all_gather_into_tensor(test->group, all, t, NULL);
    TS_EXPECT(status == TS_ENETWORK || status == TS_EREMOTE);
    TS_EXPECT_TEXT(ts_error_last(), "rank 1");
    TS_EXPECT(now() - begin < 1.5);
}

TS_TEST(abort_ends_what_waits, .ranks = 2)
{
    ts_work *work;
    if (test->rank == 1) {
        nap(200);
        TS_PASS(ts_abort_process_group(NULL));
        TS_FAIL(ts_barrier(test->group, NULL), TS_EABORTED, "aborted");
        return;
    }
    double begin = now();
    TS_PASS(ts_all_reduce(test->group, ts_ones(TS_SHAPE(7), NULL), TS_SUM, &work));
    ts_status status = ts_work_wait(work, 0);
    TS_EXPECT(status == TS_EREMOTE || status == TS_EABORTED);
    TS_EXPECT_TEXT(ts_error_last(), "rank 1");
    TS_EXPECT(now() - begin < 1.2);
    ts_work_free(work);
}

TS_TEST(left_rank_is_named, .ranks = 2)
{
    EXPECT_IN_STEP();
    if (test->rank == 1) return;
    ts_status status = ts_barrier(test->group, NULL);
    TS_EXPECT_INT(status, TS_ENETWORK);
    TS_EXPECT_TEXT(ts_error_last(), "rank 1");
}

static int count_entries(const char *path)
{
    DIR *dir = opendir(path);
    int n = 0;
    while (dir && readdir(dir)) n++;
    if (dir) closedir(dir);
    return n;
}

/* In the child of a fork: the number of calls that did not say so. */
static int use_after_fork(void)
{
    ts_tensor *t = ts_ones(TS_SHAPE(1000), NULL);
    ts_work *work = NULL;
    int wrong = 0;
    wrong += ts_all_reduce(NULL, t, TS_SUM, NULL) != TS_ESTATE;
    wrong += strstr(ts_error_last(), "this process is a fork of rank") == NULL;
    wrong += ts_barrier(NULL, &work) != TS_ESTATE;
    wrong += ts_send(NULL, t, 0, 0) != TS_ESTATE;
    wrong += ts_destroy_process_group(NULL) != TS_ESTATE;
    return wrong;
}

TS_TEST(forked_process_is_no_member, .ranks = 2, .mode = TS_TEST_PROCESSES)
{
    ts_tensor *t = ts_ones(TS_SHAPE(100000), NULL);
    TS_PASS(ts_all_reduce(NULL, t, TS_SUM, NULL));
    int status = -1;
    pid_t child = fork();
    if (child == 0) _exit(use_after_fork());
    TS_EXPECT_INT(waitpid(child, &status, 0), child);
    TS_EXPECT_INT(status, 0);
    EXPECT_IN_STEP();
}

TS_TEST(init_and_destroy_again, .ranks = 2, .no_group = true, .timeout_s = 60)
{
    int files[2] = {0, 0}, threads[2] = {0, 0};
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    opt.store = test->store;
    opt.rank = test->rank;
    opt.world_size = test->size;
    for (int round = 0; round < 20; round++) {
        ts_scope scope = ts_scope_begin();
        TS_PASS(ts_init_process_group(&opt));
        ts_tensor *t = ts_full(TS_SHAPE(10000), test->rank + 1, NULL);
        ts_work *work;
        TS_PASS(ts_all_reduce(NULL, t, TS_SUM, &work));
        TS_PASS(ts_work_wait(work, 0));
        ts_work_free(work);
        TS_EXPECT_ALL(t, 3);
        TS_PASS(ts_destroy_process_group(NULL));
        TS_PASS(ts_scope_end(scope));
        ts_test_meet(test, "between rounds");
        if (test->rank == 0 && (round == 2 || round == 19)) {
            files[round == 19] = count_entries("/proc/self/fd");
            threads[round == 19] = count_entries("/proc/self/task");
        }
        ts_test_meet(test, "counted");
    }
    TS_EXPECT_INT(files[1], files[0]);
    TS_EXPECT_INT(threads[1], threads[0]);
}

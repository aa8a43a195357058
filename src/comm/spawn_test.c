/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <tessera/spawn.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/context.h"
#include "base/error.h"
#include "test.h"

static ts_status write_index(int index, void *arg)
{
    char c = (char)('a' + index);
    return write(*(int *)arg, &c, 1) == 1 ? TS_OK : TS_EIO;
}

TS_TEST(spawn_runs_a_function_in_each_child)
{
    int ends[2], seen = 0;
    char text[8];
    TS_EXPECT(pipe(ends) == 0);
    TS_PASS(ts_spawn(NULL, 4, NULL, write_index, &ends[1]));
    TS_EXPECT_INT(read(ends[0], text, sizeof text), 4);
    for (int i = 0; i < 4; i++) seen |= 1 << (text[i] - 'a');
    TS_EXPECT_INT(seen, 15);
}

/* What child 1 does in each test of failures; the others sleep. */
static ts_status misbehave(int index, void *arg)
{
    const char *how = arg;
    if (index != 1) sleep(60);
    if (strcmp(how, "status") == 0) return ts_fail(TS_ESHAPE, "the text of %d", index);
    if (strcmp(how, "bare") == 0) return TS_ENETWORK;
    if (strcmp(how, "exit") == 0) _exit(3);
    if (strcmp(how, "abort") == 0) abort();
    if (strcmp(how, "must") == 0) {
        fclose(stderr);
        ts_must(ts_fail(TS_EIO, "must not be"));
    }
    return TS_OK;
}

static ts_status failing(const char *how)
{
    ts_spawn_options opt = TS_SPAWN_OPTIONS_INIT;
    opt.grace_ms = 2000;
    return ts_spawn(NULL, 3, &opt, misbehave, (void *)(uintptr_t)how);
}

TS_TEST(spawn_says_who_failed_and_why)
{
    int64_t begin = ts_now_ns();
    TS_FAIL(failing("status"), TS_ESHAPE, "failed with exit code 1: the text of 1");
    TS_EXPECT_TEXT(ts_error_last(), "spawn: child 1 (pid ");
    TS_FAIL(failing("bare"), TS_ENETWORK, "child 1 (pid ");
    TS_FAIL(failing("exit"), TS_EUSER, "failed with exit code 3");
    TS_FAIL(failing("abort"), TS_EUSER, "was ended by signal 6 (Aborted)");
    TS_FAIL(failing("must"), TS_EIO, "failed with exit code 1: must not be");
    TS_EXPECT(ts_now_ns() - begin < 5000000000);
}

static ts_status two_lines(int index, void *arg)
{
    (void)index;
    dup2(*(int *)arg, 2);
    ts_rank_current()->rank = 5; /* as after init */
    ts_must(ts_fail(TS_EIO, "first\nsecond"));
    return TS_OK;
}

TS_TEST(must_begins_every_line_with_the_rank)
{
    int ends[2];
    char text[400] = "";
    TS_EXPECT(pipe(ends) == 0);
    TS_FAIL(ts_spawn(NULL, 1, NULL, two_lines, &ends[1]), TS_EIO, "first");
    TS_EXPECT(read(ends[0], text, sizeof text - 1) > 0);
    TS_EXPECT_TEXT(text, "[rank5] ");
    TS_EXPECT_TEXT(text, ": first\n[rank5] second (TS_EIO)\n");
}

static ts_status stay(int index, void *arg)
{
    (void)arg;
    if (index == 0) signal(SIGTERM, SIG_IGN);
    sleep(60);
    return TS_OK;
}

TS_TEST(spawn_join_can_be_asked_again_and_again)
{
    ts_spawn_options opt = TS_SPAWN_OPTIONS_INIT;
    ts_spawn_context *c;
    bool done = true;
    opt.grace_ms = 300;
    TS_PASS(ts_spawn(&c, 2, &opt, stay, NULL));
    TS_EXPECT_INT(ts_spawn_count(c), 2);
    TS_EXPECT(ts_spawn_pid(c, 0) > 0 && ts_spawn_pid(c, 1) > 0 && ts_spawn_pid(c, 2) == -1);
    TS_PASS(ts_spawn_join(c, 50, &done));
    TS_EXPECT(!done);
    TS_EXPECT_INT(ts_spawn_failed(c), -1);
    TS_FAIL(ts_spawn_join(c, -1, NULL), TS_EINVAL, "-1 ms");
    kill((pid_t)ts_spawn_pid(c, 1), SIGKILL);
    for (int i = 0; i < 2; i++) { /* child 0 has to be killed */
        TS_FAIL(ts_spawn_join(c, 0, &done), TS_EUSER, "child 1 (pid ");
        TS_EXPECT_TEXT(ts_error_last(), "signal 9 (Killed)");
        TS_EXPECT(done);
        TS_EXPECT_INT(ts_spawn_failed(c), 1);
    }
    TS_EXPECT(kill((pid_t)ts_spawn_pid(c, 0), 0) != 0 && errno == ESRCH);
    ts_spawn_free(c);
}

TS_TEST(spawn_interruption_is_no_failure)
{
    ts_spawn_context *c;
    signal(SIGINT, SIG_DFL); /* which a run in the background ignores */
    TS_PASS(ts_spawn(&c, 1, NULL, stay, NULL));
    kill((pid_t)ts_spawn_pid(c, 0), SIGINT);
    TS_PASS(ts_spawn_join(c, 0, NULL));
    ts_spawn_free(c);
}

TS_TEST(spawn_free_ends_the_children)
{
    ts_spawn_context *c;
    ts_spawn_options opt = TS_SPAWN_OPTIONS_INIT;
    opt.grace_ms = 100;
    TS_PASS(ts_spawn(&c, 2, &opt, stay, NULL));
    pid_t pid = (pid_t)ts_spawn_pid(c, 0);
    ts_spawn_free(c);
    TS_EXPECT(kill(pid, 0) != 0 && errno == ESRCH);
    ts_spawn_free(NULL);
}

/* A parent that is killed; its child tells how it ends. */
static void tell(int signal_number)
{
    char c = signal_number == SIGINT ? 'i' : 't';
    if (write(3, &c, 1) == 1) _exit(0);
}

static ts_status tell_signal(int index, void *arg)
{
    (void)index;
    dup2(*(int *)arg, 3);
    signal(SIGINT, tell);
    signal(SIGTERM, tell);
    if (write(*(int *)arg, "r", 1) != 1) return TS_EIO;
    sleep(20);
    return TS_OK;
}

static char signal_at_death(bool daemon)
{
    int ends[2];
    char text[2] = "";
    ts_spawn_context *c;
    ts_spawn_options opt = TS_SPAWN_OPTIONS_INIT;
    opt.daemon = daemon;
    if (pipe(ends) != 0) return '?';
    pid_t parent = fork();
    if (parent == 0) {
        ts_must(ts_spawn(&c, 1, &opt, tell_signal, &ends[1]));
        sleep(20);
        _exit(0);
    }
    close(ends[1]);
    if (read(ends[0], text, 1) != 1) return '?';
    kill(parent, SIGKILL);
    waitpid(parent, NULL, 0);
    if (read(ends[0], text + 1, 1) != 1) return '?';
    return text[1];
}

TS_TEST(spawn_children_learn_of_the_parents_death)
{
    TS_EXPECT_INT(signal_at_death(false), 'i');
    TS_EXPECT_INT(signal_at_death(true), 't');
}

static void *wait_for_end(void *mutex)
{
    pthread_mutex_lock(mutex);
    return NULL;
}

TS_TEST(spawn_refuses_what_cannot_work)
{
    pthread_t thread;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    ts_spawn_options opt = TS_SPAWN_OPTIONS_INIT;
    TS_FAIL(ts_spawn(NULL, 0, NULL, stay, NULL), TS_EINVAL, "0 processes");
    TS_FAIL(ts_spawn(NULL, 1, NULL, NULL, NULL), TS_EINVAL, "either a function");
    opt.entry = "x";
    TS_FAIL(ts_spawn(NULL, 1, &opt, stay, NULL), TS_EINVAL, "either a function");
    opt.entry = "";
    TS_FAIL(ts_spawn(NULL, 1, &opt, NULL, NULL), TS_EINVAL, "entry ''");
    opt = (ts_spawn_options){0};
    TS_FAIL(ts_spawn(NULL, 1, &opt, stay, NULL), TS_EINVAL, "_INIT");
    ts_init_options init = TS_INIT_OPTIONS_INIT;
    init.rank = 0;
    init.world_size = 1;
    TS_PASS(ts_init_process_group(&init));
    TS_FAIL(ts_spawn(NULL, 1, NULL, stay, NULL), TS_ESTATE, "has a default group");
    TS_PASS(ts_destroy_process_group(NULL));
    setenv("TESSERA_SPAWN", "0 1 3 -1 2 0 1 r x", 1);
    TS_FAIL(ts_spawn(NULL, 1, NULL, stay, NULL), TS_ESTATE, "ts_spawn_entry");
    unsetenv("TESSERA_SPAWN");
    pthread_mutex_lock(&mutex);
    pthread_create(&thread, NULL, wait_for_end, &mutex);
#ifndef __SANITIZE_THREAD__
    TS_FAIL(ts_spawn(NULL, 1, NULL, stay, NULL), TS_ESTATE, "has 2 threads");
#endif
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
}

static ts_status all_reduce(int index, void *arg)
{
    double value = 0;
    TS_TRY(ts_init_process_group(NULL));
    ts_tensor *t = ts_full(TS_SHAPE(1), index, NULL);
    TS_TRY(ts_all_reduce(NULL, t, TS_SUM, NULL));
    TS_TRY(ts_item(t, &value));
    TS_TRY(ts_destroy_process_group(NULL));
    return value == *(double *)arg ? TS_OK : ts_fail(TS_EUSER, "the sum is %g", value);
}

TS_TEST(spawned_ranks_meet)
{
    double sum = 6;
    ts_spawn_context *first, *second;
    ts_spawn_options opt = TS_SPAWN_OPTIONS_INIT;
    opt.ranks = true;
    setenv("MASTER_PORT", "1", 1); /* of somebody else */
    TS_PASS(ts_spawn(&first, 4, &opt, all_reduce, &sum));
    TS_PASS(ts_spawn(&second, 4, &opt, all_reduce, &sum));
    TS_PASS(ts_spawn_join(first, 0, NULL));
    TS_PASS(ts_spawn_join(second, 0, NULL));
    ts_spawn_free(first);
    ts_spawn_free(second);
}

/* Each rank forks a child, and the children make a group of their own while the parents use theirs. */
TS_TEST(forks_of_ranks_make_their_own_group, .ranks = 2, .mode = TS_TEST_PROCESSES)
{
    char url[300];
    int status;
    if (TS_TEST_THREAD_SANITIZER) ts_test_skip(test, "thread sanitizer fails forks with threads");
    snprintf(url, sizeof url, "file://%s/children", test->dir);
    ts_tensor *t = ts_ones(TS_SHAPE(100000), NULL);
    TS_PASS(ts_all_reduce(test->group, t, TS_SUM, NULL));
    pid_t child = fork();
    if (child == 0) {
        double sum = 0;
        ts_init_options opt = TS_INIT_OPTIONS_INIT;
        opt.init_method = url;
        opt.rank = test->rank;
        opt.world_size = 2;
        opt.timeout_ms = 8000;
        if (ts_all_reduce(NULL, NULL, TS_SUM, NULL) != TS_ESTATE) _exit(7);
        if (!strstr(ts_error_last(), "ts_after_fork")) _exit(8);
        ts_after_fork();
        ts_must(ts_init_process_group(&opt));
        ts_tensor *own = ts_full(TS_SHAPE(100000), 2 + test->rank, NULL);
        ts_must(ts_all_reduce(NULL, own, TS_SUM, NULL));
        ts_must(ts_item(ts_mean(own), &sum));
        ts_must(ts_destroy_process_group(NULL));
        _exit(sum == 5 ? 0 : 9);
    }
    TS_PASS(ts_all_reduce(test->group, t, TS_SUM, NULL));
    waitpid(child, &status, 0);
    TS_EXPECT_INT(status, 0);
    TS_PASS(ts_all_reduce(test->group, t, TS_SUM, NULL));
    TS_EXPECT_ALL(t, 8.0);
    ts_after_fork(); /* not a fork: nothing happens */
    TS_EXPECT(ts_is_initialized());
}

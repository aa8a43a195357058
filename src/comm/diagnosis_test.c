/* SPDX-License-Identifier: Apache-2.0 */
/* Never a silent hang: what ranks are told about those that did not come. */
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "comm/engine_test.h"
#include "test.h"

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Limits of minutes, as users have them, are for make soak. */
static bool soaks(void) { return getenv("TESSERA_TEST_SOAK") != NULL; }

static void missing_root(ts_test *test)
{
    double limit = soaks() ? 5 : 1;
    ts_tensor *t = ts_zeros(TS_SHAPE(8), NULL);
    TS_PASS(ts_group_set_timeout(test->group, (int64_t)(limit * 1000)));
    if (test->rank == 0) {
        double began = now_s();
        TS_FAIL(ts_broadcast(test->group, t, 1, NULL), TS_ETIMEOUT, "rank 1");
        TS_EXPECT(now_s() - began >= limit && now_s() - began < limit + 1);
    } else if (soaks()) {
        sleep(60);
    }
    ts_test_meet(test, "timed out");
}

TS_TEST(broadcast_whose_root_does_not_come, .ranks = 2, .timeout_s = 100) { missing_root(test); }
TS_TEST(broadcast_whose_root_does_not_come_hosts, .ranks = 2, .hosts = 2, .timeout_s = 100)
{
    missing_root(test);
}

static void leaving_root(ts_test *test)
{
    ts_tensor *t = ts_zeros(TS_SHAPE(8), NULL);
    TS_PASS(ts_group_set_timeout(test->group, 5000));
    if (test->rank == 1) {
        TS_PASS(ts_destroy_process_group(NULL));
        return;
    }
    double began = now_s();
    TS_FAIL(ts_broadcast(test->group, t, 1, NULL), TS_ENETWORK, "rank 1");
    TS_EXPECT(now_s() - began < 1.0);
}

TS_TEST(broadcast_whose_root_has_left, .ranks = 2) { leaving_root(test); }
TS_TEST(broadcast_whose_root_has_left_hosts, .ranks = 2, .hosts = 2) { leaving_root(test); }

/* The process ends without leaving. */
static void exiting_root(peer_rank *me)
{
    ts_tensor *t = ts_zeros(TS_SHAPE(8), NULL);
    ME_PASS(ts_rank_enter(me->rank, 2, me->store));
    ME_PASS(ts_group_set_timeout(NULL, 5000));
    if (me->rank == 1) _exit(0);
    double began = now_s();
    ME_FAIL(ts_broadcast(NULL, t, 1, NULL), TS_ENETWORK, "rank 1 (pid ");
    ME_EXPECT(strstr(ts_error_last(), "is gone") && now_s() - began < 1.0);
    ts_rank_leave();
}

TS_TEST(broadcast_whose_root_exits) { run_bare_processes(test, 2, exiting_root); }

static void frozen(ts_test *test)
{
    int64_t pid = getpid(), all[2] = {0, 0};
    ts_tensor *t = ts_full(TS_SHAPE(1), (double)pid, NULL), *both = ts_zeros(TS_SHAPE(2), NULL);
    TS_PASS(ts_all_gather_into_tensor(test->group, both, t, NULL));
    for (int i = 0; i < 2; i++) all[i] = (int64_t)((const float *)ts_data(both))[i];
    TS_PASS(ts_group_set_timeout(test->group, 700));
    if (test->rank == 1) {
        raise(SIGSTOP);
        return;
    }
    double began = now_s();
    ts_status status = ts_all_reduce(test->group, t, TS_SUM, NULL);
    double took = now_s() - began;
    char text[2048];
    snprintf(text, sizeof text, "%s", ts_error_last());
    kill((pid_t)all[1], SIGCONT);
    TS_EXPECT(status == TS_ETIMEOUT && took >= 0.7 && took < 1.7);
    TS_EXPECT_TEXT(text, "rank 1 (last: all_gather #1, finished; its process is stopped)");
}

TS_TEST(frozen_rank_is_named_at_the_limit, .ranks = 2, .mode = TS_TEST_PROCESSES) { frozen(test); }

/* One rank calls something else: both sides, their ranks and where they called it. */
static void other_call(ts_test *test)
{
    ts_tensor *three =
        ts_zeros(TS_SHAPE(3),
                 &(ts_tensor_options){.struct_size = sizeof(ts_tensor_options), .dtype = TS_INT32});
    ts_tensor *four = ts_zeros(TS_SHAPE(4), NULL);
    for (int i = 0; i < 2; i++) {
        ts_status status = test->rank == 2 ? ts_broadcast(test->group, three, 0, NULL)
                                           : ts_all_reduce(test->group, four, TS_SUM, NULL);
        TS_EXPECT_INT(status, TS_EMISMATCH);
        const char *text = ts_error_last();
        TS_EXPECT_TEXT(text,
                       "ranks {0,1,3} call all_reduce SUM of float32 (4,) at diagnosis_test.c:");
        TS_EXPECT_TEXT(text, "ranks {2} call broadcast from 0 of int32 (3,) at diagnosis_test.c:");
    }
    TS_PASS(ts_all_reduce(test->group, four, TS_SUM, NULL));
}

TS_TEST(other_call_names_both_sides_and_lines, .ranks = 4) { other_call(test); }
TS_TEST(other_call_names_both_sides_and_lines_hosts, .ranks = 4, .hosts = 2) { other_call(test); }

static void two_missing(ts_test *test, bool all)
{
    const char *who = all ? "2, 3" : "rank 2";
    int64_t limit_ms = soaks() ? 2000 : 500;
    if (test->rank >= 2) ts_test_meet(test, "late");
    if (test->rank >= 2 && soaks()) sleep(10);
    double began = now_s();
    if (test->rank == 0) {
        TS_FAIL(ts_monitored_barrier(test->group, limit_ms, all), TS_ETIMEOUT, who);
        TS_EXPECT((now_s() - began) * 1000 < (double)limit_ms + 1000);
    } else {
        TS_FAIL(ts_monitored_barrier(test->group, limit_ms, all), TS_EREMOTE, who);
        TS_EXPECT((now_s() - began) * 1000 < (double)limit_ms + 3000);
    }
    if (test->rank < 2) ts_test_meet(test, "late");
    ts_test_meet(test, "told");
}

TS_TEST(monitored_barrier_tells_all_ranks, .ranks = 4, .mode = TS_TEST_PROCESSES)
{
    two_missing(test, true);
}
TS_TEST(monitored_barrier_tells_of_the_first, .ranks = 4, .mode = TS_TEST_PROCESSES)
{
    two_missing(test, false);
}

/* ---- levels, log, settings ------------------------------------------------------------------- */

static void note_line(ts_log_severity severity, const char *component, const char *line, void *user)
{
    if (severity == TS_SEVERITY_WARNING && strcmp(component, "base") == 0 &&
        strstr(line, "NCCL_BLOCKING_WAIT is deprecated"))
        ++*(int *)user;
}

TS_TEST(debug_levels, .ranks = 0)
{
    setenv("TORCH_DISTRIBUTED_DEBUG", "detail", 1);
    TS_PASS(ts_set_debug_level_from_env());
    TS_EXPECT_INT(ts_get_debug_level(), TS_DEBUG_DETAIL);
    setenv("TORCH_DISTRIBUTED_DEBUG", "loud", 1);
    TS_FAIL(ts_set_debug_level_from_env(), TS_EINVAL, "OFF, INFO, DETAIL");
    TS_EXPECT_INT(ts_get_debug_level(), TS_DEBUG_DETAIL);
    TS_PASS(ts_set_debug_level(TS_DEBUG_OFF));
    TS_FAIL(ts_set_debug_level((ts_debug_level)9), TS_EINVAL, "9");
}

TS_TEST(variables_of_nccl_are_checked, .ranks = 0)
{
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    opt.backend = "fake";
    opt.rank = 0;
    opt.world_size = 2;
    setenv("TORCH_NCCL_ENABLE_MONITORING", "perhaps", 1);
    TS_FAIL(ts_init_process_group(&opt), TS_EINVAL, "TORCH_NCCL_ENABLE_MONITORING is 'perhaps'");
    setenv("TORCH_NCCL_ENABLE_MONITORING", "0", 1);
    setenv("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "soon", 1);
    TS_FAIL(ts_init_process_group(&opt), TS_EINVAL, "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC");
    setenv("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "100", 1);
    setenv("NCCL_BLOCKING_WAIT", "1", 1);
    int warnings = 0;
    ts_set_log_sink(note_line, &warnings);
    for (int i = 0; i < 2; i++) {
        TS_PASS(ts_init_process_group(&opt));
        TS_PASS(ts_destroy_process_group(NULL));
    }
    ts_set_log_sink(NULL, NULL);
    TS_EXPECT_INT(warnings, 1);
}

TS_TEST(nan_check_names_the_rank, .ranks = 2, .no_group = true, .mode = TS_TEST_PROCESSES)
{
    setenv("TORCH_NCCL_NAN_CHECK", "1", 1);
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    opt.store = test->store;
    opt.rank = test->rank;
    opt.world_size = test->size;
    TS_PASS(ts_init_process_group(&opt));
    ts_tensor *t = ts_ones(TS_SHAPE(4), NULL);
    TS_PASS(ts_all_reduce(NULL, t, TS_SUM, NULL));
    if (test->rank == 1) ts_fill_(t, NAN);
    if (test->rank == 1)
        TS_FAIL(ts_all_reduce(NULL, t, TS_SUM, NULL), TS_EINVAL, "element 0 of the input is NaN");
    else
        TS_FAIL(ts_all_reduce(NULL, t, TS_SUM, NULL), TS_EREMOTE, "rank 1");
    ts_fill_(t, 1.0);
    TS_PASS(ts_all_reduce(NULL, t, TS_SUM, NULL));
    TS_EXPECT_ALL(t, 2.0);
}

/* A debugger that goes on at once. */
static void trace_parent(void)
{
    int status;
    pid_t pid = getppid();
    usleep(200000);
    if (ptrace(PTRACE_ATTACH, pid, NULL, NULL) != 0) _exit(1);
    for (int stops = 0; waitpid(pid, &status, 0) == pid && WIFSTOPPED(status); stops++) {
        if (WSTOPSIG(status) == SIGTRAP) {
            ptrace(PTRACE_DETACH, pid, NULL, NULL);
            _exit(0);
        }
        ptrace(PTRACE_CONT, pid, NULL, NULL);
    }
    _exit(1);
}

TS_TEST(breakpoint_stops_one_rank, .ranks = 2, .mode = TS_TEST_PROCESSES)
{
    pid_t child = -1;
    int status = 0;
    TS_PASS(ts_breakpoint(1, 1, 5)); /* skipped */
    TS_FAIL(ts_breakpoint(7, 0, 5), TS_EINVAL, "rank 7");
    if (test->rank == 1 && (child = fork()) == 0) trace_parent();
    TS_PASS(ts_breakpoint(1, 1, 20));
    if (child > 0) waitpid(child, &status, 0);
    TS_EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* In a process of its own, for it is ended. */
_Noreturn static void fail_unseen(ts_test *test, const char *mode)
{
    ts_work *work;
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    setenv("TESSERA_ASYNC_ERROR_HANDLING", mode, 1);
    opt.store = test->store;
    opt.rank = test->rank;
    opt.world_size = test->size;
    if (ts_init_process_group(&opt) != TS_OK) _exit(1);
    if (ts_group_set_timeout(NULL, 300) != TS_OK) _exit(1);
    if (test->rank == 1) {
        sleep(2);
        _exit(0);
    }
    if (ts_barrier(NULL, &work) != TS_OK) _exit(1);
    sleep(1);
    _exit(0);
}

static void failure_unseen(ts_test *test, const char *mode, bool ends)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) fail_unseen(test, mode);
    TS_EXPECT(pid > 0 && waitpid(pid, &status, 0) == pid);
    if (test->rank == 0 && ends)
        TS_EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    else
        TS_EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TS_TEST(async_failure_ends_the_process, .ranks = 2, .no_group = true, .mode = TS_TEST_PROCESSES)
{
    failure_unseen(test, "3", true);
}
TS_TEST(async_failure_aborts_only, .ranks = 2, .no_group = true, .mode = TS_TEST_PROCESSES)
{
    failure_unseen(test, "2", false);
}

static void count_line(ts_log_severity severity, const char *component, const char *line,
                       void *user)
{
    if (severity == TS_SEVERITY_DEBUG && strcmp(component, "comm") == 0 &&
        strstr(line, "barrier #"))
        ++*(int *)user;
}

/* The debug level counts where the log level is INFO. */
TS_TEST(log_level_and_debug_level, .ranks = 1, .mode = TS_TEST_PROCESSES)
{
    int lines = 0;
    ts_set_log_sink(count_line, &lines);
    setenv("TORCH_CPP_LOG_LEVEL", "WARNING", 1);
    TS_PASS(ts_set_debug_level(TS_DEBUG_DETAIL));
    TS_PASS(ts_barrier(test->group, NULL));
    TS_EXPECT_INT(lines, 0);
    setenv("TORCH_CPP_LOG_LEVEL", "INFO", 1);
    TS_PASS(ts_set_debug_level(TS_DEBUG_DETAIL));
    TS_PASS(ts_barrier(test->group, NULL));
    TS_EXPECT_INT(lines, 1);
    TS_PASS(ts_set_debug_level(TS_DEBUG_OFF));
    TS_PASS(ts_barrier(test->group, NULL));
    TS_EXPECT_INT(lines, 1);
    ts_set_log_sink(NULL, NULL);
}

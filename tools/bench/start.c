/* SPDX-License-Identifier: Apache-2.0 */
/* tessera bench start: from the exec of the launcher to the end of the ranks' first all-reduce. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tessera/tessera.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "bench/bench.h"
#include "commands.h"
#include "json.h"
#include "launch/launch.h"

/* Descriptor to which each rank writes the time of its first result; set for the job only. */
#define START_FD "TESSERA_BENCH_START_FD"

enum { MAX_REPEATS = 1000, LIMIT_MS = 60000 };

typedef struct start_values {
    int64_t ranks, repeats;
    bool json;
} start_values;

#define AT(field) offsetof(start_values, field)
static const ts_opt start_options[] = {
    {"ranks", 'n', TS_OPT_INT, AT(ranks), "N", "2", "Ranks to start.", 1, 1024, NULL},
    {"repeats", 0, TS_OPT_INT, AT(repeats), "N", "11", "Jobs to start, one after the other.", 1,
     MAX_REPEATS, NULL},
    {"json", 0, TS_OPT_FLAG, AT(json), NULL, NULL, "One JSON object.", 0, 0, NULL},
    {NULL, 0, TS_OPT_FLAG, 0, NULL, NULL, NULL, 0, 0, NULL}};

static ts_status first_all_reduce(int64_t *when)
{
    double value;
    TS_TRY(ts_init_process_group(NULL));
    ts_tensor *t = ts_full(TS_SHAPE(1), 1.0, NULL);
    TS_TRY(ts_all_reduce(NULL, t, TS_SUM, NULL));
    *when = ts_now_ns();
    TS_TRY(ts_item(t, &value));
    if (value != ts_world_size())
        return ts_fail(TS_EUSER, "the sum of ones is %g on %d ranks", value, ts_world_size());
    return TS_OK;
}

static int run_rank(int fd)
{
    int64_t when = 0;
    ts_status status = first_all_reduce(&when);
    if (status == TS_OK && write(fd, &when, sizeof when) != (ssize_t)sizeof when)
        status = ts_fail(TS_EIO, "reporting the time: %s", strerror(errno));
    if (status == TS_OK) status = ts_destroy_process_group(NULL);
    if (status == TS_OK) return TS_EXIT_OK;
    fprintf(stderr, "tessera bench start: rank %d: %s\n", ts_rank(), ts_error_last());
    return TS_EXIT_FAILURE;
}

/* The latest of n times from fd; 0: they did not come. */
static int64_t read_latest(int fd, int n)
{
    int64_t latest = 0, when;
    struct pollfd ready = {fd, POLLIN, 0};
    for (int i = 0; i < n; i++) {
        if (poll(&ready, 1, LIMIT_MS) <= 0 || read(fd, &when, sizeof when) != (ssize_t)sizeof when)
            return 0;
        if (when > latest) latest = when;
    }
    return latest;
}

/* Starts one job; its milliseconds, or -1. */
static double start_once(int ranks)
{
    char ranks_text[16];
    int ends[2], status = 0;
    pid_t pid;
    snprintf(ranks_text, sizeof ranks_text, "%d", ranks);
    char *argv[] = {"/proc/self/exe", "bench", "start", "--ranks", ranks_text, NULL};
    if (pipe2(ends, O_CLOEXEC) != 0) return -1;
    int inherited = fcntl(ends[1], F_DUPFD, 3);
    char fd_text[16];
    snprintf(fd_text, sizeof fd_text, "%d", inherited);
    setenv(START_FD, fd_text, 1);
    int64_t begin = ts_now_ns();
    int error = posix_spawn(&pid, argv[0], NULL, NULL, argv, environ);
    unsetenv(START_FD);
    close(ends[1]);
    close(inherited);
    int64_t latest = error ? 0 : read_latest(ends[0], ranks);
    close(ends[0]);
    while (!error && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return latest && status == 0 ? (double)(latest - begin) * 1e-6 : -1;
}

static int start_run(void *values, int argc, char **argv)
{
    static double ms[MAX_REPEATS];
    const start_values *v = values;
    const char *fd = getenv(START_FD);
    (void)argc, (void)argv;
    if (fd && ts_launched()) return run_rank(atoi(fd));
    if (fd) return ts_launch_self("tessera bench start", (int)v->ranks, NULL);
    for (int64_t i = 0; i < v->repeats; i++)
        if ((ms[i] = start_once((int)v->ranks)) < 0) {
            fprintf(stderr, "tessera bench start: the job failed\n");
            return TS_EXIT_FAILURE;
        }
    bench_stats s = bench_stats_of(ms, (int)v->repeats);
    if (v->json) {
        ts_json json = ts_json_begin(stdout);
        ts_json_int(&json, "ranks", v->ranks);
        ts_json_real(&json, "ms_median", s.median);
        ts_json_real(&json, "ms_min", s.min);
        ts_json_int(&json, "repeats", v->repeats);
        ts_json_end(&json);
    } else {
        printf("%lld rank(s): %.1f ms (median of %lld, best %.1f)\n", (long long)v->ranks, s.median,
               (long long)v->repeats, s.min);
    }
    return TS_EXIT_OK;
}

const ts_command ts_command_bench_start = {
    .name = "bench start",
    .summary = "Measure the start of a job: exec to first finished all-reduce.",
    .options = start_options,
    .values_size = sizeof(start_values),
    .run = start_run,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a job in which something goes wrong: failing-rank BACKEND WHAT.  Started by mpirun and
 * by tessera run from backend_test.c; uses the library as a program of a user does.  Prints
 * "ok RANK of SIZE" at the end, or what was not as it should be. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/tessera.h>
#include <time.h>
#include <unistd.h>

static int rank, size;

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "rank %d, line %d: %s does not hold\n", rank, __LINE__, #condition);   \
            exit(3);                                                                               \
        }                                                                                          \
    } while (0)

#define FAILS(expr, expected, needle)                                                              \
    do {                                                                                           \
        ts_status s_ = (expr);                                                                     \
        if (s_ != (expected) || !strstr(s_ ? ts_error_last() : "", needle)) {                      \
            fprintf(stderr, "rank %d, line %d: %s gives %s (%s)\n", rank, __LINE__, #expr,         \
                    ts_status_name(s_), s_ ? ts_error_last() : "");                                \
            exit(3);                                                                               \
        }                                                                                          \
    } while (0)

static void join(const char *backend, int64_t timeout_ms)
{
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    opt.backend = backend;
    opt.timeout_ms = timeout_ms;
    ts_must(ts_init_process_group(&opt));
    rank = ts_rank();
    size = ts_world_size();
    EXPECT(strcmp(ts_group_backend(NULL), backend) == 0);
}

static bool all_are(ts_tensor *t, double value)
{
    double least, most;
    ts_must(ts_item(ts_min(t), &least));
    ts_must(ts_item(ts_max(t), &most));
    return least == value && most == value;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The last rank does not come: the others name it, and go on with a new group. */
static void check_late(const char *backend)
{
    char name[32];
    ts_tensor *t = ts_ones(TS_SHAPE(1000), NULL);
    join(backend, 1000);
    ts_must(ts_barrier(NULL, NULL));
    snprintf(name, sizeof name, "not arrived: rank %d", size - 1);
    double start = now();
    if (rank == size - 1) usleep(2500000);
    ts_status status = ts_all_reduce(NULL, t, TS_SUM, NULL);
    EXPECT(status == TS_EREMOTE || (rank < size - 1 && status == TS_ETIMEOUT));
    EXPECT(strstr(ts_error_last(), name));
    EXPECT(now() - start < (rank == size - 1 ? 4 : 2));
    FAILS(ts_barrier(NULL, NULL), status, "broken since");
    ts_must(ts_destroy_process_group(NULL));
    join(backend, 20000);
    ts_must(ts_all_reduce(NULL, t, TS_SUM, NULL));
    EXPECT(all_are(t, size));
    ts_must(ts_destroy_process_group(NULL));
}

static void check_abort(const char *backend)
{
    join(backend, 20000);
    ts_must(ts_barrier(NULL, NULL));
    double start = now();
    if (rank == 0) {
        usleep(200000);
        ts_must(ts_abort_process_group(NULL));
        FAILS(ts_barrier(NULL, NULL), TS_EABORTED, "aborted");
    } else {
        FAILS(ts_barrier(NULL, NULL), TS_EREMOTE, "rank 0 aborted");
    }
    EXPECT(now() - start < 5);
    ts_must(ts_destroy_process_group(NULL));
}

/* Rank 0 leaves; the others still count on it. */
static void check_leave(const char *backend)
{
    join(backend, 20000);
    ts_must(ts_barrier(NULL, NULL));
    double start = now();
    if (rank > 0) { /* or another rank was quicker to notice, and told */
        ts_status status = ts_barrier(NULL, NULL);
        EXPECT(status == TS_ENETWORK || status == TS_EREMOTE);
        EXPECT(strstr(ts_error_last(), "rank 0 has left"));
    }
    EXPECT(now() - start < 5);
    ts_must(ts_destroy_process_group(NULL));
}

static void check_killed(const char *backend)
{
    join(backend, 20000);
    ts_must(ts_barrier(NULL, NULL));
    if (rank == 1) raise(SIGKILL);
    ts_must(ts_barrier(NULL, NULL));
}

static void check_forgets(const char *backend)
{
    join(backend, 20000);
    ts_must(ts_barrier(NULL, NULL));
}

static void check_given(const char *backend)
{
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    opt.backend = backend;
    opt.rank = 4;
    opt.world_size = 5;
    ts_must(ts_init_process_group(&opt));
    rank = ts_rank();
    size = ts_world_size();
    EXPECT(size != 5 && rank < size);
    ts_must(ts_destroy_process_group(NULL));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(const char *backend);
    } checks[] = {{"late", check_late},     {"abort", check_abort}, {"leave", check_leave},
                  {"killed", check_killed}, {"given", check_given}, {"forgets", check_forgets}};
    for (size_t i = 0; argc == 3 && i < sizeof checks / sizeof *checks; i++)
        if (strcmp(checks[i].name, argv[2]) == 0) {
            checks[i].run(argv[1]);
            printf("ok %d of %d\n", rank, size);
            return 0;
        }
    fprintf(stderr, "usage: failing-rank BACKEND WHAT\n");
    return 2;
}

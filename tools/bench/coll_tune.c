/* SPDX-License-Identifier: Apache-2.0 */
/* tessera bench coll --tune: measures every algorithm of the native backend, each in a job of its
 * own with TESSERA_ALGORITHM, and writes the table by which it chooses (select_table.inc). */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "bench/coll.h"
#include "comm/backend/native/select.h"
#include "comm/names.h"
#include "commands.h"

/* A later algorithm must be that much better than the one for smaller sizes: tables stay short, and
 * noise does not choose. */
#define WORTH_A_ROW 0.93

enum { NAME = 64, ROWS = TS_MAX_CHOICES };

/* Where it is measured, and from how many ranks of that class of hosts on it counts. */
static const struct place {
    int ranks, hosts, min_ranks;
} places[] = {{2, 1, 2}, {4, 1, 4}, {8, 1, 8}, {16, 1, 16}, {2, 2, 2},
              {4, 2, 4}, {8, 2, 8}, {4, 4, 3}, {8, 4, 8},   {16, 16, 9}};
enum { NUM_PLACES = sizeof places / sizeof *places };
static const char *const class_names[] = {"ONE", "TWO", "FEW", "MANY"};

typedef struct tuner {
    const coll_plan *plan;
    double us[TS_NUM_ALGORITHMS][COLL_MAX_SIZES]; /* NaN: it did not run */
    ts_choice row[ROWS], last[ROWS];
    int rows, last_rows;
    FILE *to;
} tuner;

/* ---- one job --------------------------------------------------------------------------------- */

static int open_job(pid_t *pid, const tuner *t, const struct place *place, const coll_op *op)
{
    char ranks[16], hosts[16], seconds[32];
    const coll_values *v = t->plan->v;
    snprintf(ranks, sizeof ranks, "%d", place->ranks);
    snprintf(hosts, sizeof hosts, "%d", place->hosts);
    snprintf(seconds, sizeof seconds, "%g", v->seconds);
    const char *argv[] = {
        "/proc/self/exe", "bench",   "coll",    "--json",  "--no-limit",        "--op",  op->name,
        "--ranks",        ranks,     "--hosts", hosts,     "--seconds",         seconds, "--memory",
        v->memory,        "--dtype", v->dtype,  "--bytes", coll_sizes(t->plan), NULL};
    posix_spawn_file_actions_t actions;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    int error = posix_spawn(pid, argv[0], &actions, NULL, (char **)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (error == 0) return ends[0];
    close(ends[0]);
    return -1;
}

static void read_line(tuner *t, ts_algorithm algorithm, const char *line)
{
    double bytes = coll_line_number(line, "bytes"), us = coll_line_number(line, "us_median");
    for (int i = 0; i < t->plan->sizes; i++)
        if ((double)t->plan->size[i] == bytes) t->us[algorithm][i] = us;
}

/* A job that fails leaves NaNs: the algorithm is not chosen. */
static void run_job(tuner *t, const struct place *place, const coll_op *op, ts_algorithm algorithm)
{
    char override[NAME], line[4096];
    pid_t pid;
    int status;
    for (int i = 0; i < t->plan->sizes; i++) t->us[algorithm][i] = NAN;
    snprintf(override, sizeof override, "%s:%s", op->name, ts_algorithm_name(algorithm));
    setenv("TESSERA_ALGORITHM", override, 1);
    int fd = open_job(&pid, t, place, op);
    unsetenv("TESSERA_ALGORITHM");
    FILE *from = fd >= 0 ? fdopen(fd, "r") : NULL;
    while (from && fgets(line, sizeof line, from)) read_line(t, algorithm, line);
    if (from) fclose(from);
    while (fd >= 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
}

/* ---- choosing -------------------------------------------------------------------------------- */

static ts_algorithm best_at(const tuner *t, unsigned offered, int size, ts_algorithm usual)
{
    ts_algorithm best = usual;
    double least = t->us[usual][size] * WORTH_A_ROW;
    if (!isfinite(least)) least = INFINITY;
    for (int a = 0; a < TS_NUM_ALGORITHMS; a++)
        if (offered >> a & 1 && t->us[a][size] < least) {
            least = t->us[a][size];
            best = (ts_algorithm)a;
        }
    return best;
}

static ts_algorithm first_of(unsigned offered)
{
    int a = 0;
    while (!(offered >> a & 1)) a++;
    return (ts_algorithm)a;
}

/* Flat has a longest size, so it is never the one without limit. */
enum { FLAT_ONLY = 1u << TS_ALGORITHM_FLAT };

/* Rows from the sizes that were measured; borders lie halfway between two of them. */
static void choose_rows(tuner *t, unsigned offered)
{
    const int64_t *size = t->plan->size;
    ts_algorithm now = first_of(offered);
    t->rows = 0;
    for (int i = 0; i < t->plan->sizes && t->rows < ROWS - 2; i++) {
        if (i == t->plan->sizes - 1 && offered != FLAT_ONLY) offered &= ~FLAT_ONLY;
        ts_algorithm next = best_at(t, offered, i, offered >> now & 1 ? now : first_of(offered));
        if (i > 0 && next != now) {
            double border = exp2(round(log2(sqrt((double)size[i - 1] * (double)size[i]))));
            t->row[t->rows++] = (ts_choice){(size_t)border, now, 0};
        }
        now = next;
    }
    if (now == TS_ALGORITHM_FLAT && offered != FLAT_ONLY) now = first_of(offered & ~FLAT_ONLY);
    t->row[t->rows++] = (ts_choice){0, now, 0};
}

/* ---- writing --------------------------------------------------------------------------------- */

static void put_upper(FILE *to, const char *text)
{
    for (; *text; text++) fputc(toupper((unsigned char)*text), to);
}

static void put_rows(tuner *t, const struct place *place, const coll_op *op)
{
    for (int i = 0; i < t->rows; i++) {
        fprintf(t->to, "ROW(");
        put_upper(t->to, op->name);
        fprintf(t->to, ", %s, %d, %zu, ", class_names[ts_hosts_class_of(place->hosts)],
                place->min_ranks, t->row[i].max_bytes);
        put_upper(t->to, ts_algorithm_name(t->row[i].algorithm));
        fprintf(t->to, ", 0)\n");
    }
    fflush(t->to);
}

static void put_times(const tuner *t, const struct place *place, const coll_op *op,
                      unsigned offered)
{
    fprintf(stderr, "%s, %d ranks on %d host(s), us\n%12s", op->name, place->ranks, place->hosts,
            "bytes");
    for (int a = 0; a < TS_NUM_ALGORITHMS; a++)
        if (offered >> a & 1) fprintf(stderr, " %10s", ts_algorithm_name((ts_algorithm)a));
    for (int i = 0; i < t->plan->sizes; i++) {
        fprintf(stderr, "\n%12lld", (long long)t->plan->size[i]);
        for (int a = 0; a < TS_NUM_ALGORITHMS; a++)
            if (offered >> a & 1) fprintf(stderr, " %10.1f", t->us[a][i]);
    }
    fprintf(stderr, "\n");
}

static bool same_rows(const tuner *t)
{
    for (int i = 0; i < t->rows && t->rows == t->last_rows; i++)
        if (t->row[i].max_bytes != t->last[i].max_bytes ||
            t->row[i].algorithm != t->last[i].algorithm)
            return false;
    return t->rows == t->last_rows;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static bool same_class(const struct place *a, const struct place *b)
{
    return ts_hosts_class_of(a->hosts) == ts_hosts_class_of(b->hosts);
}

static void tune_place(tuner *t, int p, const coll_op *op, ts_collective id)
{
    const struct place *place = &places[p];
    unsigned offered = ts_algorithms_offered(id, ts_hosts_class_of(place->hosts));
    bool first = p == 0 || !same_class(place, place - 1), one = (offered & (offered - 1)) == 0;
    if (!offered || (one && !first)) return;
    for (int a = 0; a < TS_NUM_ALGORITHMS && !one; a++)
        if (offered >> a & 1) run_job(t, place, op, (ts_algorithm)a);
    if (one)
        t->row[0] = (ts_choice){0, first_of(offered), 0}, t->rows = 1;
    else
        choose_rows(t, offered);
    if (!one) put_times(t, place, op, offered);
    if (first || !same_rows(t)) put_rows(t, place, op);
    memcpy(t->last, t->row, sizeof t->last);
    t->last_rows = t->rows;
}

static void tune_op(tuner *t, const coll_op *op)
{
    for (int id = 0; id < TS_NUM_COLLECTIVES; id++)
        for (int p = 0; p < NUM_PLACES; p++)
            if (strcmp(ts_collective_name((ts_collective)id), op->name) == 0)
                tune_place(t, p, op, (ts_collective)id);
}

int coll_tune(const coll_plan *plan)
{
    static tuner t;
    t.plan = plan;
    t.to = plan->v->output ? fopen(plan->v->output, "we") : stdout;
    if (!t.to) {
        fprintf(stderr, "tessera bench coll: cannot write %s: %s\n", plan->v->output,
                strerror(errno));
        return TS_EXIT_FAILURE;
    }
    fprintf(t.to, "/* SPDX-License-Identifier: Apache-2.0 */\n"
                  "/* Written by `tessera bench coll --tune`; see select.h. */\n");
    for (int i = 0; i < plan->ops; i++) tune_op(&t, plan->op[i]);
    bool good = !ferror(t.to);
    if (t.to != stdout && fclose(t.to) != 0) good = false;
    return good ? TS_EXIT_OK : TS_EXIT_FAILURE;
}

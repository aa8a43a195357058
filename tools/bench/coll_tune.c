/* SPDX-License-Identifier: Apache-2.0 */
/* tessera bench coll --tune: measures every algorithm of the native backend, each in jobs of its own
 * with TESSERA_ALGORITHM, and writes the table by which it chooses (select_table.inc).  What it does
 * not measure keeps the rows that the file has, so that it can be done in parts. */
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
#include "bench/coll_table.h"
#include "comm/names.h"
#include "commands.h"

/* What the table has stays unless another algorithm is that much better. */
#define WORTH_A_CHANGE 0.93

/* A row must pay: by this much of a logarithm (a third of the time) at one size, or less at several.  Tables stay short, and noise
 * does not choose. */
#define A_ROW_COSTS 0.3

enum { NAME = 64, MOST_ROUNDS = 32 };

/* Where it is measured, and from how many ranks of that class of hosts on it counts. */
static const struct place {
    int ranks, hosts, min_ranks;
} places[] = {{2, 1, 2}, {4, 1, 4}, {8, 1, 8}, {16, 1, 16}, {2, 2, 2},
              {4, 2, 3}, {8, 2, 8}, {4, 4, 3}, {8, 4, 8},   {16, 16, 9}};
enum { NUM_PLACES = sizeof places / sizeof *places };

typedef struct tuner {
    const coll_plan *plan;
    coll_table table;
    double us[TS_NUM_ALGORITHMS][COLL_MAX_SIZES]; /* medians over the rounds; NaN: it did not run */
    double round[MOST_ROUNDS][TS_NUM_ALGORITHMS][COLL_MAX_SIZES];
    ts_choice before[TS_MAX_CHOICES],
        row[TS_MAX_CHOICES]; /* of the place: as it was, as it will be */
    int rows_before, rows;
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

static void read_line(const tuner *t, double *us, const char *line)
{
    double bytes = coll_line_number(line, "bytes");
    for (int i = 0; i < t->plan->sizes; i++)
        if ((double)t->plan->size[i] == bytes) us[i] = coll_line_number(line, "us_median");
}

/* A job that fails leaves NaNs: the algorithm is not chosen. */
static void run_job(const tuner *t, double *us, const struct place *place, const coll_op *op,
                    ts_algorithm algorithm)
{
    char override[NAME], line[4096];
    pid_t pid;
    int status;
    for (int i = 0; i < t->plan->sizes; i++) us[i] = NAN;
    snprintf(override, sizeof override, "%s:%s", op->name, ts_algorithm_name(algorithm));
    setenv("TESSERA_ALGORITHM", override, 1);
    int fd = open_job(&pid, t, place, op);
    unsetenv("TESSERA_ALGORITHM");
    FILE *from = fd >= 0 ? fdopen(fd, "r") : NULL;
    while (from && fgets(line, sizeof line, from)) read_line(t, us, line);
    if (from) fclose(from);
    while (fd >= 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
}

static double median_of(tuner *t, int rounds, int algorithm, int size)
{
    double value[MOST_ROUNDS];
    for (int r = 0; r < rounds; r++) {
        value[r] = t->round[r][algorithm][size];
        if (!isfinite(value[r])) return NAN;
    }
    return bench_stats_of(value, rounds).median;
}

/* The algorithms in turn, so that what disturbs for a while disturbs all of them. */
static void measure(tuner *t, const struct place *place, const coll_op *op, unsigned offered)
{
    int rounds = (int)t->plan->v->rounds;
    for (int r = 0; r < rounds; r++)
        for (int a = 0; a < TS_NUM_ALGORITHMS; a++)
            if (offered >> a & 1) run_job(t, t->round[r][a], place, op, (ts_algorithm)a);
    for (int a = 0; a < TS_NUM_ALGORITHMS; a++)
        for (int i = 0; i < t->plan->sizes; i++)
            t->us[a][i] = offered >> a & 1 ? median_of(t, rounds, a, i) : NAN;
}

/* ---- choosing -------------------------------------------------------------------------------- */

/* Flat has a longest size, so it is never the one without limit. */
enum { FLAT_ONLY = 1u << TS_ALGORITHM_FLAT };

static ts_algorithm first_of(unsigned offered)
{
    int a = 0;
    while (!(offered >> a & 1)) a++;
    return (ts_algorithm)a;
}

/* The row of the table as it was; NULL: it has none. */
static const ts_choice *row_before(const tuner *t, int64_t bytes)
{
    const ts_choice *c = t->before;
    for (int i = 0; i < t->rows_before; i++, c++)
        if (c->max_bytes == 0 || (uint64_t)bytes <= c->max_bytes) return c;
    return NULL;
}

/* Where one algorithm ends and the next begins: where it was, or halfway between the two sizes. */
static size_t border(const tuner *t, int size, ts_algorithm now, ts_algorithm next)
{
    int64_t low = t->plan->size[size - 1], high = t->plan->size[size];
    for (int i = 0; i + 1 < t->rows_before; i++) {
        const ts_choice *c = &t->before[i];
        if (c->algorithm == now && c[1].algorithm == next && c->max_bytes >= (uint64_t)low &&
            c->max_bytes < (uint64_t)high)
            return c->max_bytes;
    }
    return (size_t)exp2(round(log2(sqrt((double)low * (double)high))));
}

static void add_row(tuner *t, size_t max_bytes, ts_algorithm algorithm)
{
    size_t segment = 0;
    for (int i = 0; i < t->rows_before; i++)
        if (t->before[i].algorithm == algorithm) segment = t->before[i].segment;
    t->row[t->rows++] = (ts_choice){max_bytes, algorithm, segment};
}

/* What it costs to take an algorithm at a size: the logarithm of its time, and more when the table
 * has another one there. */
static double cost_at(const tuner *t, unsigned offered, int size, int algorithm)
{
    const ts_choice *before = row_before(t, t->plan->size[size]);
    if (size == t->plan->sizes - 1 && offered != FLAT_ONLY) offered &= ~FLAT_ONLY;
    if (!(offered >> algorithm & 1) || !isfinite(t->us[algorithm][size])) return INFINITY;
    bool usual = before && (int)before->algorithm == algorithm;
    return log(t->us[algorithm][size]) + (usual ? log(WORTH_A_CHANGE) : 0);
}

/* The cheapest way through all sizes, where every row costs too (dynamic programming). */
static void choose_algorithms(const tuner *t, unsigned offered, int chosen[COLL_MAX_SIZES])
{
    double cost[COLL_MAX_SIZES][TS_NUM_ALGORITHMS];
    int from[COLL_MAX_SIZES][TS_NUM_ALGORITHMS], last = t->plan->sizes - 1;
    for (int i = 0; i <= last; i++)
        for (int a = 0; a < TS_NUM_ALGORITHMS; a++) {
            double least = i == 0 ? 0 : cost[i - 1][a];
            from[i][a] = a;
            for (int b = 0; i > 0 && b < TS_NUM_ALGORITHMS; b++)
                if (cost[i - 1][b] + A_ROW_COSTS < least) {
                    least = cost[i - 1][b] + A_ROW_COSTS;
                    from[i][a] = b;
                }
            cost[i][a] = least + cost_at(t, offered, i, a);
        }
    chosen[last] = first_of(offered == FLAT_ONLY ? offered : offered & ~FLAT_ONLY);
    for (int a = 0; a < TS_NUM_ALGORITHMS; a++)
        if (cost[last][a] < cost[last][chosen[last]]) chosen[last] = a;
    for (int i = last; i > 0; i--) chosen[i - 1] = from[i][chosen[i]];
}

static void choose_rows(tuner *t, unsigned offered)
{
    int chosen[COLL_MAX_SIZES];
    choose_algorithms(t, offered, chosen);
    t->rows = 0;
    for (int i = 1; i < t->plan->sizes && t->rows < TS_MAX_CHOICES - 1; i++) {
        ts_algorithm now = (ts_algorithm)chosen[i - 1], next = (ts_algorithm)chosen[i];
        if (next != now) add_row(t, border(t, i, now, next), now);
    }
    add_row(t, 0, (ts_algorithm)chosen[t->plan->sizes - 1]);
}

/* ---- all of it ------------------------------------------------------------------------------- */

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

static bool is_wanted(const tuner *t, const struct place *place)
{
    static const char *const names[] = {"one", "two", "few", "many"};
    const char *only = t->plan->v->hosts_class;
    return !only || strcmp(only, names[ts_hosts_class_of(place->hosts)]) == 0;
}

static ts_status tune_place(tuner *t, const struct place *place, const coll_op *op,
                            ts_collective id)
{
    unsigned offered = ts_algorithms_offered(id, ts_hosts_class_of(place->hosts));
    bool one = (offered & (offered - 1)) == 0;
    coll_key key = {(int)id, (int)ts_hosts_class_of(place->hosts), place->min_ranks};
    if (!offered || !is_wanted(t, place)) return TS_OK;
    t->rows_before = coll_table_find(&t->table, key, t->before);
    if (one) {
        t->row[0] = (ts_choice){0, first_of(offered), 0};
        t->rows = 1;
    } else {
        measure(t, place, op, offered);
        put_times(t, place, op, offered);
        choose_rows(t, offered);
    }
    return coll_table_put(&t->table, key, t->row, t->rows);
}

static ts_status tune_op(tuner *t, const coll_op *op)
{
    for (int id = 0; id < TS_NUM_COLLECTIVES; id++)
        for (int p = 0; p < NUM_PLACES; p++)
            if (strcmp(ts_collective_name((ts_collective)id), op->name) == 0)
                TS_TRY(tune_place(t, &places[p], op, (ts_collective)id));
    return TS_OK;
}

static ts_status tune(tuner *t)
{
    const char *output = t->plan->v->output;
    if (output) TS_TRY(coll_table_read(&t->table, output));
    for (int i = 0; i < t->plan->ops; i++) {
        TS_TRY(tune_op(t, t->plan->op[i]));
        if (output) TS_TRY(coll_table_write(&t->table, output));
    }
    return output ? TS_OK : coll_table_write(&t->table, NULL);
}

int coll_tune(const coll_plan *plan)
{
    static tuner t;
    t.plan = plan;
    if (tune(&t) == TS_OK) return TS_EXIT_OK;
    fprintf(stderr, "tessera bench coll: %s\n", ts_error_last());
    return TS_EXIT_FAILURE;
}

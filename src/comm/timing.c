/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/timing.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/context.h"
#include "base/memory.h"
#include "base/settings.h"
#include "comm/names.h"

enum { RECORD_MAX = 256, WAIT_MS = 10000 };

static int64_t loaded;
static _Atomic int64_t marks[TS_NUM_MARKS];

__attribute__((constructor)) static void note_loading(void) { loaded = ts_now_ns(); }

int64_t ts_timing_loaded(void) { return loaded; }

static bool wanted(void)
{
    return ts_setting_bool(TS_SETTING_TIMING) && ts_rank_current() == ts_rank_ctx_of_process();
}

static void note(ts_mark mark, int64_t at_ns)
{
    int64_t none = 0;
    atomic_compare_exchange_strong(&marks[mark], &none, at_ns);
}

/* What the launcher has noted, and the loading. */
static void note_earlier(void)
{
    const char *text = getenv(TS_TIMING_START);
    int64_t launcher, exec;
    if (text && sscanf(text, "%" SCNd64 " %" SCNd64, &launcher, &exec) == 2) {
        note(TS_MARK_LAUNCHER, launcher);
        note(TS_MARK_EXEC, exec);
    }
    note(TS_MARK_LOADED, loaded);
}

void ts_timing_mark(ts_mark mark)
{
    if (!wanted()) return;
    if (mark == TS_MARK_INIT) note_earlier();
    note(mark, ts_now_ns());
}

/* ---- the table ------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static size_t print(char *out, size_t size, size_t used, const char *format, ...) TS_PRINTF(4, 5);
static size_t print(char *out, size_t size, size_t used, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(out + used, size - used, format, args);
    va_end(args);
    if (n < 0) return used;
    return used + (size_t)n < size ? used + (size_t)n : size - 1;
}

static size_t print_phase(char *out, size_t size, size_t used, const char *name, double *ms, int n)
{
    if (n == 0) return used;
    qsort(ms, (size_t)n, sizeof *ms, by_size);
    return print(out, size, used, "  %-34s %9.2f %9.2f %9.2f\n", name, ms[0], ms[n / 2], ms[n - 1]);
}

void ts_timing_table(char *out, size_t size, int64_t (*times)[TS_NUM_MARKS], int num_ranks,
                     const char *collective)
{
    static const char *const names[TS_NUM_MARKS] = {
        [TS_MARK_EXEC] = "launcher, up to the rank's exec",
        [TS_MARK_LOADED] = "exec and libraries",
        [TS_MARK_INIT] = "program, up to init_process_group",
        [TS_MARK_STORE] = "store connected",
        [TS_MARK_RECORDS] = "records exchanged",
        [TS_MARK_READY] = "links and shared memory",
        [TS_MARK_CALLED] = "program, up to the first collective"};
    char first[64];
    double *ms = ts_calloc((size_t)num_ranks, sizeof *ms);
    size_t used = print(out, size, 0, "start of %d rank(s), ms:              %9s %9s %9s\n",
                        num_ranks, "min", "median", "max");
    snprintf(first, sizeof first, "first %s", collective);
    for (int mark = 1; ms && mark <= TS_NUM_MARKS; mark++) {
        int n = 0, last = mark < TS_NUM_MARKS ? mark : TS_MARK_DONE;
        for (int rank = 0; rank < num_ranks; rank++) {
            int begin = mark < TS_NUM_MARKS ? mark - 1 : TS_MARK_LAUNCHER;
            while (mark == TS_NUM_MARKS && begin < TS_MARK_LOADED && !times[rank][begin]) begin++;
            if (times[rank][begin] && times[rank][last])
                ms[n++] = (double)(times[rank][last] - times[rank][begin]) * 1e-6;
        }
        used = print_phase(out, size, used,
                           mark == TS_NUM_MARKS   ? "in all"
                           : mark == TS_MARK_DONE ? first
                                                  : names[mark],
                           ms, n);
    }
    free(ms);
}

/* ---- together -------------------------------------------------------------------------------- */

static void read_record(int64_t times[TS_NUM_MARKS], const char *text)
{
    for (int i = 0; i < TS_NUM_MARKS && *text; i++) {
        char *end;
        times[i] = strtoll(text, &end, 10);
        text = end;
    }
}

static ts_status tell_rank(ts_group *group, int rank, bool own, int64_t times[TS_NUM_MARKS])
{
    char key[32], record[RECORD_MAX];
    const char *name = key;
    void *value;
    size_t size, used = 0;
    snprintf(key, sizeof key, "timing/%d", rank);
    if (own) {
        for (int i = 0; i < TS_NUM_MARKS; i++)
            used = print(record, sizeof record, used, "%" PRId64 " ", atomic_load(&marks[i]));
        read_record(times, record);
        return group->store ? ts_store_set(group->store, key, record, used) : TS_OK;
    }
    TS_TRY(ts_store_wait(group->store, &name, 1, WAIT_MS));
    TS_TRY(ts_store_get(group->store, key, &value, &size));
    read_record(times, value);
    free(value);
    return TS_OK;
}

static void show(ts_group *group)
{
    char text[2048];
    int64_t(*times)[TS_NUM_MARKS] = ts_calloc((size_t)group->size, sizeof *times);
    for (int rank = 0; times && rank < group->size; rank++)
        if (tell_rank(group, rank, rank == 0, times[rank]) != TS_OK) {
            fprintf(stderr, "tessera: no times of rank %d: %s\n", rank, ts_error_last());
            break;
        }
    if (times) ts_timing_table(text, sizeof text, times, group->size, "collective");
    if (times) fputs(text, stderr);
    free(times);
}

void ts_timing_tell(ts_group *group)
{
    int64_t times[TS_NUM_MARKS];
    if (!wanted() || group != ts_default_group()) return;
    if (group->rank == 0)
        show(group);
    else
        tell_rank(group, group->rank, true, times);
}

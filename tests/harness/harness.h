/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the harness share.
 *
 * A job is one run of a test in one mode.  The runner (main.c) starts a watcher process per job
 * (watch.c); the watcher starts the processes that run the body (ranks.c), enforces the time limit,
 * and ends everything that is left below it.  Body and watcher share a board that says how far each
 * rank is. */
#ifndef TS_HARNESS_H
#define TS_HARNESS_H

#include <stdatomic.h>
#include <sys/types.h>

#include "test.h"

#define TS_TEST_MAX_RANKS 128

/* Exit codes of a rank's process and of a watcher. */
enum { TS_EXIT_PASSED = 0, TS_EXIT_FAILED = 1, TS_EXIT_SKIPPED = 77 };

typedef enum ts_seat_state {
    TS_SEAT_NOT_STARTED,
    TS_SEAT_JOINING, /* making store and group */
    TS_SEAT_RUNNING,
    TS_SEAT_LEAVING, /* body done, leaving the group */
    TS_SEAT_DONE,
    TS_SEAT_FAILED
} ts_seat_state;

typedef struct ts_test_seat {
    _Atomic int state;
    _Atomic int line; /* of the last check */
    char meeting[64]; /* where it waits in ts_test_meet, or "" */
} ts_test_seat;

typedef struct ts_job {
    ts_test_case *c;
    bool threads;       /* of a multi-rank test: its ranks are threads */
    int ranks;          /* seats: at least 1 */
    ts_test_seat *seat; /* shared with the watcher */
    char root[64];      /* folder of the job; holds "dir" (the test's own) and "store" */
    char dir[80];
} ts_job;

/* main.c's side */
double ts_job_time_limit(const ts_job *job); /* seconds; longer under a sanitizer */
void ts_job_title(char *out, size_t size, const ts_job *job); /* "name" or "name/threads" */
ts_status ts_job_open(ts_job *job);                           /* board and folder */
void ts_job_close(ts_job *job);                               /* removes them */

/* watch.c: runs the job below the calling process and returns an exit code; reports to stderr. */
int ts_job_watch(ts_job *job);

/* ranks.c: run in the processes that the watcher starts.  Both return an exit code. */
int ts_job_run_rank(ts_job *job, int rank); /* a single test, or one rank as a process */
int ts_job_run_threads(ts_job *job);        /* all ranks as threads */

/* expect.c: a source file's path below the source folder, however the compiler was given it. */
const char *ts_test_short_path(const char *file);

/* tree.c */
void ts_remove_tree(const char *path);
/* Direct children of this process, at most max; the count. */
int ts_list_children(pid_t *out, int max);
void ts_process_name(char *out, size_t size, pid_t pid);
bool ts_program_exists(const char *program); /* on the path, or by its path */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the built program from tests. */
#ifndef TS_TESTS_CLI_H
#define TS_TESTS_CLI_H

#include <sys/types.h>

#include "test.h"

typedef struct cli_job {
    pid_t pid;
    char out_path[160], err_path[160];
    double started;
    int status;     /* exit code, or 128 + signal */
    double seconds; /* from start to end */
    char out[32768], err[32768];
} cli_job;

/* Starts a line of shell in which $T is the program; the line replaces the shell, so the job's pid
 * is the program's when the line begins with $T.  Names of files are relative to the test's own
 * folder. */
void cli_start(ts_test *test, cli_job *job, const char *line);
void cli_wait(cli_job *job);
void cli_run(ts_test *test, cli_job *job, const char *line);

/* Skips where libtessera_<plugin>.so is missing, and under sanitizers: MPI libraries leak. */
void cli_need_plugin(ts_test *test, const char *plugin);
int cli_count_text(const char *text, const char *part);

/* Processes alive whose environment has name=value (zombies do not count). */
int cli_count_marked(const char *mark);
/* Waits until that number is n, at most for so long; the number at the end. */
int cli_wait_marked(const char *mark, int n, double seconds);

#define CLI_EXPECT_STATUS(job, expected)                                                           \
    do {                                                                                           \
        ts_test_at(test, __LINE__);                                                                \
        if ((job)->status != (expected))                                                           \
            TS_FAIL_TEST("exit status %d, expected %d\nstdout: %s\nstderr: %s", (job)->status,     \
                         (expected), (job)->out, (job)->err);                                      \
    } while (0)

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TS_TOOLS_LAUNCH_IMPL_H
#define TS_TOOLS_LAUNCH_IMPL_H

#include <sched.h>
#include <sys/types.h>
#include <tessera/store.h>
#include <uv.h>

#include "base/memory.h"
#include "launch.h"

typedef struct launch launch;

/* One stream of a rank that passes through the launcher. */
typedef struct launch_stream {
    uv_poll_t poll;
    struct launch_rank *rank;
    int fd;          /* read end, non-blocking; -1: none or closed */
    int log_fd;      /* copy goes here; -1: none */
    int console_fd;  /* 1, 2 or -1 */
    char prefix[48]; /* before each line on the console */
    char line[4096]; /* the line being collected */
    size_t length;
    char last[512]; /* last line that was not empty */
} launch_stream;

/* Where a rank asks for the others, in MPICH's way. */
typedef struct launch_pmi {
    uv_poll_t poll;
    bool watched;
    int fd, child_fd; /* -1: none or closed */
    char line[2048];
    size_t length;
} launch_pmi;

/* An error that ranks have reported. */
enum { LAUNCH_FOLDS = 8 };
typedef struct launch_fold {
    char text[1024];
    char ranks[128]; /* those whose reports were not shown */
    int count;
} launch_fold;

typedef struct launch_rank {
    launch *job;
    int local;
    pid_t pid; /* 0: not running */
    int pidfd, exec_fd;
    uv_poll_t poll;
    launch_stream out, err;
    launch_pmi pmi;
    char error_file[512]; /* "" without a log folder */
} launch_rank;

typedef enum launch_stage { LAUNCH_RUNNING, LAUNCH_ENDING, LAUNCH_OVER } launch_stage;

struct launch {
    const ts_launch_options *opt;
    uv_loop_t loop;
    uv_signal_t signals[4];
    uv_timer_t grace;
    launch_rank *rank;
    int running, attempt;
    launch_stage stage;
    int exit_status; /* of the attempt */
    launch_fold fold[LAUNCH_FOLDS];
    int folds;
    bool broken;     /* could not start; starting again would not help */
    int stop_signal; /* the launcher was told to end by it; 0: no */
    ts_store *store;
    int port;
    char run_id[64];
    char log_root[384]; /* "" without logs */
    cpu_set_t cores;    /* allowed ones */
    int num_cores;
    pid_t guard;
    int guard_fd;
    ts_map pmi_values;                  /* what ranks have put */
    int pmi_waiting;                    /* ranks in the barrier */
    const struct launch_pmix_api *pmix; /* NULL: the job does not ask for Open MPI */
    char segments[64]; /* folder of Open MPI's shared memory, so that a killed rank leaves none */
};

/* guard.c: the process that ends the ranks' process groups when the launcher is gone. */
int launch_guard_start(launch *job);
void launch_guard_add(const launch *job, pid_t pid);
void launch_guard_remove(const launch *job, pid_t pid);
void launch_guard_end(launch *job);

/* rank.c: starts rank's process; 0, or an errno after printing.  The result of its exec is known
 * after launch_rank_started. */
int launch_rank_start(launch_rank *rank);
int launch_rank_started(launch_rank *rank);
int launch_rank_number(const launch_rank *rank); /* among those of all hosts */
/* Sends to the rank's whole process group. */
void launch_rank_signal(const launch_rank *rank, int signal_number);

/* environment.c: a NULL-terminated environment for the rank; NULL: out of memory. */
char **launch_environment(const launch_rank *rank);
void launch_environment_free(char **env);
/* argv with ${local_rank} replaced. */
char **launch_arguments(const launch_rank *rank);
/* The cores of a rank; false: not pinned. */
bool launch_cores_of(cpu_set_t *out, const launch *job, int local);
int launch_threads_of(const launch *job, int local);

/* output.c */
int launch_output_check(const ts_launch_options *opt); /* non-zero after printing: malformed */
int launch_logs_open(launch *job);                     /* the folder of the run, if needed */
/* Decides where the rank's stdout and stderr go: makes pipes and files.  child_fd[0] and [1] are
 * what the child takes as 1 and 2 (-1: inherited). */
int launch_output_open(launch_rank *rank, int child_fd[2]);
int launch_output_watch(launch_rank *rank);
void launch_stream_read(launch_stream *stream); /* everything that is there now */
void launch_output_close(launch_rank *rank);    /* reads the rest first */

/* fold.c: whether a line of a rank's stderr repeats the report of another rank; and at the end of an
 * attempt, whose were not shown. */
bool launch_fold_hides(launch *job, int rank, const char *line, size_t length);
void launch_fold_tell(launch *job);

/* openmpi.c: all do nothing unless the job asks for Open MPI.  load: 0, or non-zero after saying
 * what is missing; begin and end are called per attempt. */
int launch_openmpi_load(launch *job);
int launch_openmpi_begin(launch *job);
char **launch_openmpi_environment(const launch_rank *rank); /* ends with NULL; or NULL */
void launch_openmpi_end(launch *job);
void launch_openmpi_unload(launch *job);
void launch_openmpi_clear(const launch *job); /* the guard, last: no shared memory stays */

/* pmi.c: all do nothing unless the job asks for MPICH.  open makes the socket, before fork; started
 * closes the child's end, after it. */
int launch_pmi_open(launch_rank *rank);
void launch_pmi_started(launch_rank *rank);
int launch_pmi_watch(launch_rank *rank);
void launch_pmi_close(launch_rank *rank);
void launch_pmi_forget(launch *job); /* what an attempt has put */

void launch_say(const launch *job, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif

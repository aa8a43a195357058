/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the ranks of a job on this host, watches them, and ends them as a unit.
 *
 * On one host the launcher serves the store through which the ranks find each other (ranks are its
 * clients, see TORCHELASTIC_USE_AGENT_STORE), so no two jobs can collide on a port.  On several
 * rank 0 serves it at the port that every launcher is given, and the launchers know nothing of each
 * other: ranks notice by themselves that others have failed.  The first rank that fails
 * is reported first; the others get SIGTERM and, after a grace time, SIGKILL.  Whatever happens to
 * the launcher, no process of the job outlives it: every rank leads a process group of its own that the
 * guard process (guard.c) ends when the launcher is gone. */
#ifndef TS_TOOLS_LAUNCH_H
#define TS_TOOLS_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

/* Exit statuses of the launcher itself. */
enum { TS_LAUNCH_FAILED = 1, TS_LAUNCH_USAGE = 2 };

typedef struct ts_launch_options {
    const char *title;       /* begins every message: "tessera run" */
    int ranks;               /* on this host */
    int nodes, node_rank;    /* hosts, each with a launcher of its own; 0 or 1: this one only */
    int max_restarts;        /* of the whole group, after a failure */
    const char *run_id;      /* NULL: made up */
    const char *role;        /* NULL: "default" */
    const char *master_addr; /* NULL: 127.0.0.1 */
    int master_port;         /* 0: a free one */
    bool no_pin, quiet;
    bool secure;           /* the job gets a secret and TLS */
    bool timing;           /* ranks print how long the phases of their start took */
    double grace_s;        /* between SIGTERM and SIGKILL */
    const char *log_dir;   /* NULL: a temporary folder, if a log is asked for */
    const char *redirects; /* "3" or "0:1,1:2"; bit 1 stdout, bit 2 stderr; NULL: none */
    const char *tee;       /* likewise */
    const char *filter;    /* local ranks shown on the console, "0,2"; NULL: all */
    const char *mpi;       /* "mpich", "openmpi": serve that MPI too; NULL: none */
    char **argv;           /* program and arguments, NULL-terminated */
} ts_launch_options;

/* Blocks until the job is over.  The exit status for the launcher: 0, or the first failure's
 * (128 + signal for a signal). */
int ts_launch_run(const ts_launch_options *opt);

/* Runs this program again with its own arguments (main's argv), once per rank; mpi as above. */
int ts_launch_self(const char *title, int ranks, const char *mpi);
/* True in a process that some launcher (ours, torchrun, srun, mpirun) started as a rank. */
bool ts_launched(void);
/* Remembers main's argv for ts_launch_self. */
void ts_launch_remember(char **argv);

#endif

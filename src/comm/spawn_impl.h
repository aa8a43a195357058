/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TS_COMM_SPAWN_IMPL_H
#define TS_COMM_SPAWN_IMPL_H

#include <sys/types.h>
#include <tessera/spawn.h>

typedef struct ts_spawn_child {
    pid_t pid; /* 0: not started */
    int pidfd, report_fd;
    bool running;
} ts_spawn_child;

struct ts_spawn_context {
    int count, running, failed;
    int64_t grace_ms;
    bool ending;
    ts_status status; /* of the first failure */
    char *text;
    ts_spawn_child child[];
};

/* spawn_child.c: what a child does with the function's result. */
#define TS_SPAWN_REPORT_MAX 4096
/* Runs fn and ends the process; its failure goes to report_fd as the status and a text. */
_Noreturn void ts_spawn_child_run(int index, int report_fd, ts_spawn_fn fn, void *arg);
/* The parent's death ends this process; it may have happened already. */
void ts_spawn_child_of(pid_t parent, int death_signal);
/* Variables of rank index of size; run names the job. */
void ts_spawn_child_is_rank(int index, int size, const char *run);

/* spawn_exec.c: starts this program again for an entry. */
ts_status ts_spawn_exec(pid_t *pid, int index, int report_fd, int arg_fd, int count,
                        const char *run, const ts_spawn_options *opt);
#define TS_SPAWN_VARIABLE "TESSERA_SPAWN"

#endif

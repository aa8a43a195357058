/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that run a function: workers, or the ranks of a job without a launcher.
 *
 *     static ts_status train(int index, void *arg) { ... }
 *
 *     ts_spawn_options opt = TS_SPAWN_OPTIONS_INIT;
 *     opt.ranks = true;                         ts_init_process_group(NULL) works in train
 *     ts_must(ts_spawn(NULL, 4, &opt, train, NULL));
 *
 * The first child that fails ends the others, and its error is the caller's: the status and text that
 * the function returned, or the exit code or signal, with the number and pid of the child. */
#ifndef TESSERA_SPAWN_H
#define TESSERA_SPAWN_H

#include <tessera/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ts_spawn_context ts_spawn_context;

/* Runs in child number index; a status other than TS_OK, with the text of ts_error_last, is the
 * child's failure. */
typedef ts_status (*ts_spawn_fn)(int index, void *arg);

typedef struct ts_spawn_options {
    size_t struct_size;
    bool ranks;       /* false; true: children have the variables of ranks of one job */
    bool daemon;      /* false: children get SIGINT when the parent dies; true: SIGTERM */
    int64_t grace_ms; /* 30000, from SIGTERM to SIGKILL for children that are ended */
    /* Instead of forking, run this program again: ts_spawn_entry there finds the function of this
     * name.  Then arg is arg_bytes bytes, of which each child gets a copy.  NULL: fork. */
    const char *entry;
    size_t arg_bytes;
} ts_spawn_options;
#define TS_SPAWN_OPTIONS_INIT                                                                      \
    {                                                                                              \
        sizeof(ts_spawn_options), false, false, 30000, NULL, 0                                     \
    }

/* Starts nprocs children.  out NULL: waits for their end.  Otherwise *out is yours to join and free,
 * and must not outlive the thread that called (children take its end for the parent's).
 *
 * Forking needs a process with one thread and without a default group (TS_ESTATE): call it before
 * ts_init_process_group.  With an entry, fn is NULL and neither matters. */
TS_API ts_status ts_spawn(ts_spawn_context **out, int nprocs, const ts_spawn_options *opt,
                          ts_spawn_fn fn, void *arg);

/* Waits until all children have ended, at most timeout_ms (0: no limit).  *done (may be NULL) says
 * whether they have; the error of the first that failed is returned when they have, every time.  A
 * child that SIGINT ended has not failed. */
TS_API ts_status ts_spawn_join(ts_spawn_context *context, int64_t timeout_ms, bool *done);

TS_API int ts_spawn_count(const ts_spawn_context *context);
TS_API int64_t ts_spawn_pid(const ts_spawn_context *context, int index); /* -1: no such child */
TS_API int ts_spawn_failed(const ts_spawn_context *context); /* who failed first; -1: nobody yet */

/* Ends children that still run (SIGTERM, SIGKILL after grace_ms).  NULL is fine. */
TS_API void ts_spawn_free(ts_spawn_context *context);

/* For the first lines of main: in a child that was started for this entry, runs fn and ends the
 * process; elsewhere does nothing. */
TS_API void ts_spawn_entry(const char *name, ts_spawn_fn fn);

/* For a process that forks after ts_init_process_group by other means: called in the child, it lets
 * go of the parent's groups, so that the child can make its own.  Tensors from before the fork may be
 * used; what the child writes only it sees.  Elsewhere it does nothing. */
TS_API void ts_after_fork(void);

#ifdef __cplusplus
}
#endif
#endif

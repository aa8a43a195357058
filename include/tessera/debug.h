/* SPDX-License-Identifier: Apache-2.0 */
/* Finding out what ranks do and why they wait: debug level, log, flight recorder, breakpoint.
 *
 * Every operation on a group is noted in a ring of the rank, which survives in memory even when the
 * rank hangs: `tessera doctor --job ID` reads it from outside.  The same can be had as JSON, in the
 * fields of PyTorch's flight recorder. */
#ifndef TESSERA_DEBUG_H
#define TESSERA_DEBUG_H

#include <tessera/group.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- level -----------------------------------------------------------------------------------
 *
 * Of the process; TESSERA_DEBUG or TORCH_DISTRIBUTED_DEBUG at the start.  It never changes results;
 * the contract check and the names of missing ranks are there at every level.  What it adds to the log
 * is shown with TORCH_CPP_LOG_LEVEL=INFO only. */
typedef enum ts_debug_level {
    TS_DEBUG_OFF = 0,
    TS_DEBUG_INFO = 1,   /* more in the log */
    TS_DEBUG_DETAIL = 2, /* every operation and object in the log; call stacks in the recorder */
    TS_DEBUG_COMPARE = 3 /* DETAIL; reserved for comparing each training step with one process */
} ts_debug_level;

TS_API ts_status ts_set_debug_level(ts_debug_level level);
/* Reads the environment again.  TS_EINVAL, naming the words, if it holds another one. */
TS_API ts_status ts_set_debug_level_from_env(void);
TS_API ts_debug_level ts_get_debug_level(void);

/* ---- log ------------------------------------------------------------------------------------- */

typedef enum ts_log_severity {
    TS_SEVERITY_ERROR = 0,
    TS_SEVERITY_WARNING = 1,
    TS_SEVERITY_INFO = 2,
    TS_SEVERITY_DEBUG = 3
} ts_log_severity;
/* Takes each line, without newline, instead of stderr; any thread, several at once.  NULL: stderr
 * again. */
typedef void (*ts_log_sink)(ts_log_severity severity, const char *component, const char *line,
                            void *user);
TS_API void ts_set_log_sink(ts_log_sink sink, void *user);

/* ---- flight recorder -------------------------------------------------------------------------
 *
 * The last TESSERA_RECORDER_ENTRIES operations of the calling thread's rank, on all its groups. */

typedef struct ts_dump_options {
    size_t struct_size;
    bool include_collectives;  /* true: the entries; else only groups and their state */
    bool include_stack_traces; /* true: where each was called, with file and line if known */
    bool only_active;          /* false; true: only what has not completed */
} ts_dump_options;
#define TS_DUMP_OPTIONS_INIT                                                                       \
    {                                                                                              \
        sizeof(ts_dump_options), true, true, false                                                 \
    }

/* JSON, yours to free().  Any thread, also while operations run. */
TS_API ts_status ts_flight_recorder_dump(char **json, const ts_dump_options *opt);
/* To path, or where TESSERA_DUMP_FILE says (NULL): a prefix to which the rank is added. */
TS_API ts_status ts_flight_recorder_dump_file(const char *path, const ts_dump_options *opt);
TS_API ts_status ts_flight_recorder_reset(void); /* forgets the entries */

/* Takes dumps instead of files, those on failures too; for the whole process.  TS_ESTATE the second
 * time. */
typedef ts_status (*ts_dump_writer)(int rank, const char *json, size_t size, void *user);
TS_API ts_status ts_register_dump_writer(ts_dump_writer writer, void *user);

/* From now on this signal has a thread of the library dump all ranks of the process, as
 * ts_flight_recorder_dump_file(NULL) does.  TESSERA_DUMP_SIGNAL does the same from the start. */
TS_API ts_status ts_dump_on_signal(int signal_number);

/* ---- profiling ------------------------------------------------------------------------------- */

typedef struct ts_operation_event {
    bool ended;           /* false: it was called; true: it is over */
    const char *name;     /* "native:all_reduce" */
    const char *group;    /* its name */
    uint64_t id;          /* pairs both events; of the rank */
    uint64_t sequence;    /* among the group's collectives or messages */
    int rank;             /* within the group */
    int peer;             /* root, or the other side of a message; -1: none */
    const int64_t *shape; /* of the tensor; valid during the call */
    int ndim;
    ts_dtype dtype;
    int64_t in, out;            /* elements that go in and come out; -1: none on this rank */
    ts_status status;           /* when it ended: */
    int64_t began_ns, ended_ns; /* by the monotonic clock */
} ts_operation_event;
/* Runs for every collective and message of the process, the end perhaps on another thread; must not
 * block or communicate.  NULL: none. */
typedef void (*ts_operation_hook)(const ts_operation_event *event, void *user);
TS_API void ts_set_operation_hook(ts_operation_hook hook, void *user);

/* ---- breakpoint ------------------------------------------------------------------------------
 *
 * Collective on the default group.  The chosen rank says how to attach a debugger, waits for it and
 * stops; the others wait in a barrier.  The first `skip` calls do nothing.  The time limit of the
 * group is raised to timeout_s (0: one hour) while it waits; TS_ETIMEOUT if nobody came. */
TS_API ts_status ts_breakpoint(int rank, int skip, double timeout_s);

#ifdef __cplusplus
}
#endif
#endif

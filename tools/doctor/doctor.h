/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks were doing, from their recorders or from files, and what follows from it. */
#ifndef TS_TOOLS_DOCTOR_H
#define TS_TOOLS_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { TRACE_SCHEDULED, TRACE_STARTED, TRACE_COMPLETED };

typedef struct trace_entry {
    char *name;    /* "all_reduce", as it was called */
    char *kind;    /* as ranks must agree on it: "all_reduce" for its variants too */
    char *site;    /* "train.c:42", or "" */
    char *sizes;   /* "float32 (2, 3)", for comparing */
    int64_t group; /* its key in the groups of the trace */
    int64_t sequence, created_ns, id;
    int state, peer; /* peer: rank of the group; -1: none */
    bool message, sending, failed;
} trace_entry;

typedef struct trace_group {
    int64_t key;
    char *name;
    int *rank, size, own; /* global ranks; place of this rank */
} trace_group;

typedef struct trace {
    int rank, world;
    int64_t pid, now_ns;
    char *host, *run_id, *job; /* job: what ranks of one job have in common, for people */
    char process;              /* letter of /proc/PID/stat; 0: not known */
    char *json;                /* of a live rank: its dump */
    trace_entry *entry;
    int entries;
    trace_group *group;
    int groups;
} trace;

/* trace.c: reads a dump, of ours or of PyTorch's, whatever the bytes are.  false: not one, and why. */
bool trace_parse(trace *out, const char *text, size_t size, char *why, size_t why_size);
void trace_free(trace *t);
const trace_group *trace_group_of(const trace *t, int64_t key);
/* What the rank is in, or else did last; NULL: nothing yet. */
const trace_entry *trace_current(const trace *t);

/* live.c: all ranks on this machine of the jobs that are meant: a run ID, a process, HOST:PORT of the
 * store, or NULL for every job.  Gives how many, ordered by job and rank; the array is the caller's. */
int live_find(trace **out, const char *job);

/* report.c: the table, who waits for whom, and where ranks part. */
void report_ranks(const trace *traces, int n, bool json);
void report_title(const char *job, bool another,
                  bool json); /* before its table, if there are more */

/* checks.c, pairs.c: before a job. */
int check_machine(bool json);
int check_pairs(bool json);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The flight recorder: a ring with the last operations of a rank.
 *
 * It lies in a memfd named "tessera-recorder", so that `tessera doctor` can read it through
 * /proc/PID/fd while the rank hangs or is stopped.  Recording takes no lock and no atomic addition:
 * a thread takes numbers in runs.  What a reader finds is checked as bytes from outside. */
#ifndef TS_COMM_RECORDER_H
#define TS_COMM_RECORDER_H

#include <stdatomic.h>
#include <stdio.h>
#include <tessera/debug.h>
#include <tessera/ext/backend.h>

#include "base/context.h"
#include "base/error.h"

enum {
    TS_RECORDER_GROUPS = 128,
    TS_RECORDER_NAMES = 64,
    TS_RECORDER_RUNS = 64,
    TS_RECORDER_FRAMES = 16,
    TS_RECORDER_WORDS = 24
};

/* What an operation is, besides those of ts_collective. */
enum { TS_RECORD_SEND = 32, TS_RECORD_RECV = 33 };
enum { TS_RECORD_SCHEDULED, TS_RECORD_STARTED, TS_RECORD_COMPLETED, TS_RECORD_NUM_STATES };

/* One operation.  In the ring each member is a word or shares one, see recorder.c. */
typedef struct ts_op_record {
    uint64_t id;                              /* from 1 on; 0: none */
    int64_t created_ns, started_ns, ended_ns; /* monotonic clock; 0: not known */
    uint64_t sequence, site;                  /* site: address that the call returns to */
    int64_t timeout_ms, in, out;              /* elements */
    uint32_t group;
    int name, op, dtype, state, status, ndim;
    int peer, tag; /* rank of the group: root or other side; -1: none */
    int64_t dim[TS_MAX_DIMS];
    uint64_t frame[TS_RECORDER_FRAMES];
} ts_op_record;

typedef struct ts_recorder_run {
    int32_t first, count, step;
} ts_recorder_run;

typedef struct ts_recorder_group {
    _Atomic uint64_t id; /* 0: free */
    _Atomic uint64_t enqueued, started, completed, messages;
    _Atomic uint32_t closed;
    int32_t rank, size, runs;
    char name[96], desc[96], backend[24];
    ts_recorder_run run[TS_RECORDER_RUNS]; /* global ranks */
} ts_recorder_group;

typedef struct ts_recorder_slot {
    _Alignas(64) _Atomic uint64_t word[TS_RECORDER_WORDS];
} ts_recorder_slot;

#define TS_RECORDER_MAGIC UINT64_C(0x31636572617373)

/* The memfd. */
typedef struct ts_recorder_memory {
    uint64_t magic, bytes;
    int64_t real_offset_ns; /* what makes monotonic times times of day */
    int64_t pid;
    uint32_t capacity;
    _Atomic int32_t rank, size; /* in the default group; -1: none yet */
    char run_id[64], host[64], master[96];
    char name[TS_RECORDER_NAMES][48];
    _Alignas(64) _Atomic uint64_t next; /* number of the next run of ids */
    _Atomic uint64_t oldest;            /* entries before it are forgotten */
    ts_recorder_group group[TS_RECORDER_GROUPS];
    ts_recorder_slot slot[]; /* capacity of them, then frames */
} ts_recorder_memory;

static inline _Atomic uint64_t *ts_recorder_frames(const ts_recorder_memory *memory, uint64_t slot)
{
    _Atomic uint64_t *frames = (_Atomic uint64_t *)(uintptr_t)&memory->slot[memory->capacity];
    return frames + slot * TS_RECORDER_FRAMES;
}

typedef struct ts_recorder ts_recorder;

/* ---- life ------------------------------------------------------------------------------------ */

ts_recorder *ts_recorder_of_rank(void); /* of the calling thread's; NULL: off, or no memory */
void ts_recorder_retain(ts_recorder *recorder);
void ts_recorder_release(ts_recorder *recorder);
void ts_recorder_set_place(ts_recorder *recorder, int rank, int size);
const ts_recorder_memory *ts_recorder_memory_of(const ts_recorder *recorder);
/* Runs fn for every recorder of the process. */
void ts_recorder_each(void (*fn)(ts_recorder *recorder, void *user), void *user);

/* Not twice within pause_ns. */
bool ts_recorder_may_dump(ts_recorder *recorder, int64_t pause_ns);

/* ---- recording ------------------------------------------------------------------------------- */

/* The group's place in the table; it stays as that of a closed group until the place is needed. */
ts_recorder_group *ts_recorder_group_open(ts_recorder *recorder, const char *name, const char *desc,
                                          const char *backend, int rank, int size,
                                          const int *ranks);
void ts_recorder_group_close(ts_recorder *recorder, ts_recorder_group *group);

/* What is about to be recorded; name is a literal. */
typedef struct ts_recording {
    ts_recorder_group *group; /* or NULL */
    const char *name;
    int op, dtype, peer, tag;
    uint64_t sequence;
    const void *site;
    int64_t timeout_ms, in, out;
    const ts_shape *shape; /* or NULL */
    bool started;
} ts_recording;

uint64_t ts_recorder_begin(ts_recorder *recorder, const ts_recording *what);
void ts_recorder_start(ts_recorder *recorder, uint64_t id, int64_t now_ns);
/* ended_ns 0: not measured. */
void ts_recorder_end(ts_recorder *recorder, uint64_t id, ts_status status, int64_t ended_ns);
void ts_recorder_forget(ts_recorder *recorder); /* all entries so far */

/* ---- reading --------------------------------------------------------------------------------- */

/* The records that can be read, oldest first; *n of them, to be freed.  NULL: out of memory. */
ts_op_record *ts_recorder_read(const ts_recorder_memory *memory, int *n);
const char *ts_recorder_name(const ts_recorder_memory *memory, const ts_op_record *record);
/* The group with this id; NULL: forgotten. */
const ts_recorder_group *ts_recorder_find_group(const ts_recorder_memory *memory, uint64_t id);
/* Global rank of a member; -1 if it is not known. */
int ts_recorder_global(const ts_recorder_group *group, int member);
/* "is in all_reduce #7 of group 'tp', begun 3.2 s ago": what the rank does now (true), or did last. */
bool ts_recorder_last_words(char *text, size_t size, const ts_recorder_memory *memory);

/* "send at train.c:42 in step": the last message of that kind (TS_RECORD_SEND or TS_RECORD_RECV) in
 * the group with that peer, tag and length; false: there is none. */
typedef struct ts_message_key {
    const char *group;
    int op, peer, tag;
    size_t bytes;
} ts_message_key;
bool ts_recorder_find_message(char *text, size_t size, const ts_recorder_memory *memory,
                              const ts_message_key *key);

/* The recorder of a rank in another process of this machine, or this one: mapped, or NULL.  rank -1:
 * the nth one that the process has. */
const ts_recorder_memory *ts_recorder_map(int pid, int rank, int nth);
void ts_recorder_unmap(const ts_recorder_memory *memory);

/* recorder_json.c: the dump.  where: resolve addresses by the maps of that process; NULL opt: the
 * defaults. */
ts_status ts_recorder_write(FILE *to, const ts_recorder_memory *memory, const ts_dump_options *opt);

#endif

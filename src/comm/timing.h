/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time goes between the launcher and the end of the first collective.  With
 * TESSERA_TIMING=1 every rank notes when it passes each mark, and rank 0 prints a table of the
 * phases between them to stderr. */
#ifndef TS_COMM_TIMING_H
#define TS_COMM_TIMING_H

#include "comm/group_impl.h"

typedef enum ts_mark {
    TS_MARK_LAUNCHER, /* the launcher has begun; from TESSERA_TIMING_START, as the next one */
    TS_MARK_EXEC,
    TS_MARK_LOADED, /* libraries are loaded and relocated */
    TS_MARK_INIT,   /* ts_init_process_group is called */
    TS_MARK_STORE,  /* connected to the store */
    TS_MARK_RECORDS,
    TS_MARK_READY,  /* ts_init_process_group returns */
    TS_MARK_CALLED, /* the first collective */
    TS_MARK_DONE,
    TS_NUM_MARKS
} ts_mark;

/* The first time counts.  Only of the rank that is the process. */
void ts_timing_mark(ts_mark mark);
/* After the first collective of the default group. */
void ts_timing_tell(ts_group *group);
/* When this process was loaded, in nanoseconds of the monotonic clock. */
int64_t ts_timing_loaded(void);

/* Puts the table into out; times: num_ranks rows of marks, 0 where one was not passed. */
void ts_timing_table(char *out, size_t size, int64_t (*times)[TS_NUM_MARKS], int num_ranks,
                     const char *collective);

#define TS_TIMING_START "TESSERA_TIMING_START"

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The file store's file: an append-only log of (key, value) records, each with 32-bit lengths, read
 * into a table and written under a lock.  A key "-k" deletes k, "+k" puts the value into the queue k and
 * "<k" takes the oldest one out. */
#ifndef TS_STORE_LOG_H
#define TS_STORE_LOG_H

#include "base/clock.h"
#include "store/table.h"

typedef struct ts_log_file {
    int fd;
    const char *path; /* the owner's */
    int64_t end;      /* what has been read: the end of the last complete record */
    int64_t size;     /* of the file when it was last locked */
    ts_table table;
} ts_log_file;

/* Opens the file, which is made if it does not exist, and locks it for writing. */
ts_status ts_log_file_open(ts_log_file *file, const char *path, ts_deadline deadline);
void ts_log_file_close(ts_log_file *file);

/* Locks and reads what others have written.  TS_ESTORE: the file has been removed. */
ts_status ts_log_file_lock(ts_log_file *file, bool write, ts_deadline deadline);
void ts_log_file_unlock(ts_log_file *file);

/* Under a lock for writing: applies the change to the table and, if it makes a difference, writes
 * it. */
ts_status ts_log_file_change(ts_log_file *file, const char *lead, ts_store_change *change);

/* Under a lock for writing: the queue named lead + key. */
ts_status ts_log_file_push(ts_log_file *file, const char *lead, const char *key, ts_bytes value);
ts_status ts_log_file_pop(ts_log_file *file, const char *lead, const char *key, void **value,
                          size_t *size);

#endif

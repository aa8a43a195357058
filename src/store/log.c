/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a file store: records at the end, under a lock. */
#include "store/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "net/socket.h"

static ts_status failed(const ts_log_file *file, const char *what)
{
    return ts_fail(TS_EIO, "file store '%s': %s: %s", file->path, what, strerror(errno));
}

/* ---- reading --------------------------------------------------------------------------------- */

/* One length and its bytes at *at; false: incomplete. */
static bool take_field(ts_bytes data, size_t *at, ts_bytes *field)
{
    uint32_t size;
    if (data.size - *at < sizeof size) return false;
    memcpy(&size, data.data + *at, sizeof size);
    if (data.size - *at - sizeof size < size) return false;
    *field = (ts_bytes){data.data + *at + sizeof size, size};
    *at += sizeof size + size;
    return true;
}

static ts_status take_out(ts_table *table, ts_bytes key)
{
    void *value;
    if (ts_table_queued(table, key) == 0) return TS_OK;
    TS_TRY(ts_table_pop(table, key, &value, NULL));
    free(value);
    return TS_OK;
}

static ts_status apply(ts_table *table, ts_bytes key, ts_bytes value)
{
    char kind = key.size > 0 ? key.data[0] : '\0';
    ts_bytes rest = {key.data + 1, key.size - 1};
    ts_table_change set = {.op = TS_STORE_SET, .key = key, .value = value};
    ts_table_change delete = {.op = TS_STORE_DELETE, .key = rest};
    if (kind == '+') return ts_table_push(table, rest, value);
    if (kind == '<') return take_out(table, rest);
    return ts_table_apply(table, kind == '-' ? &delete : &set);
}

static ts_status replay(ts_log_file *file, ts_bytes data)
{
    ts_bytes key, value;
    for (size_t at = 0; take_field(data, &at, &key) && take_field(data, &at, &value);) {
        TS_TRY(apply(&file->table, key, value));
        file->end += (int64_t)(8 + key.size + value.size);
    }
    return TS_OK;
}

static ts_status read_tail(ts_log_file *file, size_t size)
{
    char *data = malloc(size);
    size_t done = 0;
    if (!data) return ts_fail_memory(size, "reading a file store");
    while (done < size) {
        ssize_t n = pread(file->fd, data + done, size - done, (off_t)(file->end + (int64_t)done));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        done += (size_t)n;
    }
    ts_status status =
        done < size ? failed(file, "cannot read") : replay(file, (ts_bytes){data, size});
    free(data);
    return status;
}

/* ---- locking --------------------------------------------------------------------------------- */

static ts_status acquire(ts_log_file *file, bool write, ts_deadline deadline)
{
    for (int attempt = 1; flock(file->fd, (write ? LOCK_EX : LOCK_SH) | LOCK_NB) != 0; attempt++) {
        if (errno == EINTR) continue;
        if (errno != EWOULDBLOCK) return failed(file, "cannot lock");
        if (ts_deadline_passed(deadline))
            return ts_fail(TS_ETIMEOUT,
                           "file store '%s': another process holds the lock, after %lld ms still",
                           file->path, (long long)deadline.timeout_ms);
        ts_backoff(attempt < 4 ? attempt : 4, deadline);
    }
    return TS_OK;
}

static ts_status lock_and_read(ts_log_file *file, bool write, ts_deadline deadline, bool *removed)
{
    struct stat info;
    TS_TRY(acquire(file, write, deadline));
    ts_status status = fstat(file->fd, &info) == 0 ? TS_OK : failed(file, "cannot stat");
    *removed = status == TS_OK && info.st_nlink == 0;
    file->size = status == TS_OK ? info.st_size : 0;
    if (status == TS_OK && info.st_size > file->end)
        status = read_tail(file, (size_t)(info.st_size - file->end));
    if (status != TS_OK) ts_log_file_unlock(file);
    return status;
}

ts_status ts_log_file_lock(ts_log_file *file, bool write, ts_deadline deadline)
{
    bool removed;
    TS_TRY(lock_and_read(file, write, deadline, &removed));
    if (!removed) return TS_OK;
    ts_log_file_unlock(file);
    return ts_fail(TS_ESTORE, "file store '%s': the file has been removed while it was in use",
                   file->path);
}

void ts_log_file_unlock(ts_log_file *file) { flock(file->fd, LOCK_UN); }

ts_status ts_log_file_open(ts_log_file *file, const char *path, ts_deadline deadline)
{
    bool removed = true;
    *file = (ts_log_file){.fd = -1, .path = path};
    for (int attempt = 1;; attempt++) {
        file->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (file->fd < 0) return failed(file, "cannot open");
        ts_status status = lock_and_read(file, true, deadline, &removed);
        if (status == TS_OK && !removed) return TS_OK;
        ts_log_file_close(file); /* the last user of a run that has just ended removed it */
        if (status != TS_OK) return status;
        if (ts_deadline_passed(deadline))
            return ts_fail(TS_ESTORE, "file store '%s': the file is removed again and again", path);
        ts_backoff(attempt < 4 ? attempt : 4, deadline);
    }
}

void ts_log_file_close(ts_log_file *file)
{
    ts_socket_close(file->fd);
    ts_table_fini(&file->table);
    file->fd = -1;
    file->end = 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* A record that stays incomplete, by a full disk, is taken away again. */
static ts_status append(ts_log_file *file, ts_bytes record)
{
    size_t done = 0;
    if (ftruncate(file->fd, (off_t)file->end) != 0) return failed(file, "cannot write");
    while (done < record.size) {
        ssize_t n = pwrite(file->fd, record.data + done, record.size - done,
                           (off_t)(file->end + (int64_t)done));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            ts_status status = failed(file, "cannot write");
            if (ftruncate(file->fd, (off_t)file->end) != 0)
                return failed(file, "cannot undo a write");
            return status;
        }
        done += (size_t)n;
    }
    file->end += (int64_t)record.size;
    return TS_OK;
}

static char *put_field(char *at, const char *lead, ts_bytes bytes)
{
    uint32_t size = (uint32_t)(strlen(lead) + bytes.size);
    memcpy(at, &size, sizeof size);
    at = stpcpy(at + sizeof size, lead);
    if (bytes.size > 0) memcpy(at, bytes.data, bytes.size);
    return at + bytes.size;
}

/* If that fails, the table, which has the change already, is read anew from the file. */
static ts_status write_record(ts_log_file *file, const char *kind, ts_bytes key, ts_bytes value)
{
    if (value.size > UINT32_MAX - 16)
        return ts_fail(TS_ESTORE, "file store '%s': a value exceeds 4 GiB", file->path);
    char *record = malloc(16 + key.size + value.size);
    if (!record) return ts_fail_memory(value.size, "a record of a file store");
    char *end = put_field(put_field(record, kind, key), "", value);
    ts_status status = append(file, (ts_bytes){record, (size_t)(end - record)});
    free(record);
    if (status == TS_OK) return TS_OK;
    ts_table_fini(&file->table);
    file->end = 0;
    return status;
}

/* The present state of a key. */
static ts_status write_key(ts_log_file *file, ts_bytes key)
{
    const ts_entry *e = ts_table_find(&file->table, key);
    bool present = e && e->present;
    return write_record(file, present ? "" : "-", key,
                        present ? (ts_bytes){e->value, e->size} : (ts_bytes){NULL, 0});
}

ts_status ts_log_file_change(ts_log_file *file, const char *lead, ts_store_change *change)
{
    bool written = false;
    TS_TRY(ts_table_change_text(&file->table, lead, change, &written));
    if (!written) return TS_OK;
    char *key = ts_asprintf("%s%s", lead, change->key);
    ts_status status = key ? write_key(file, ts_bytes_of(key)) : ts_fail_memory(0, "a key");
    free(key);
    return status;
}

ts_status ts_log_file_push(ts_log_file *file, const char *lead, const char *key, ts_bytes value)
{
    char *name = ts_asprintf("%s%s", lead, key);
    if (!name) return ts_fail_memory(strlen(key), "a key of a file store");
    ts_status status = ts_table_push(&file->table, ts_bytes_of(name), value);
    if (status == TS_OK) status = write_record(file, "+", ts_bytes_of(name), value);
    free(name);
    return status;
}

ts_status ts_log_file_pop(ts_log_file *file, const char *lead, const char *key, void **value,
                          size_t *size)
{
    char *name = ts_asprintf("%s%s", lead, key);
    if (!name) return ts_fail_memory(strlen(key), "a key of a file store");
    ts_status status = TS_OK;
    if (ts_table_queued(&file->table, ts_bytes_of(name)) > 0)
        status = ts_table_pop(&file->table, ts_bytes_of(name), value, size);
    if (status == TS_OK && *value)
        status = write_record(file, "<", ts_bytes_of(name), (ts_bytes){NULL, 0});
    free(name);
    if (status == TS_OK) return TS_OK;
    free(*value);
    *value = NULL;
    return status;
}

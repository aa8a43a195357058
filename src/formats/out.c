/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/out.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"

enum { BUFFER = 1 << 16 };

static ts_status io_error(const ts_out *out, const char *what)
{
    return ts_fail(TS_EIO, "%s '%s': %s", what, out->path, strerror(errno));
}

static void forget(ts_out *out)
{
    free(out->path);
    free(out->temporary);
    free(out->buffer);
    *out = (ts_out){.fd = -1};
}

/* Opens a new file beside the place; names that are taken are passed over. */
static ts_status open_beside(ts_out *out)
{
    for (unsigned n = 0; n < 1000; n++) {
        free(out->temporary);
        out->temporary = ts_asprintf("%s.tmp-%ld-%u", out->path, (long)getpid(), n);
        if (!out->temporary) return ts_fail_memory(strlen(out->path), "a path");
        out->fd = open(out->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (out->fd >= 0) return TS_OK;
        if (errno != EEXIST && errno != EINTR) return io_error(out, "cannot write");
    }
    return ts_fail(TS_EIO, "cannot write '%s': too many files %s.tmp-... lie beside it", out->path,
                   out->path);
}

/* A new version keeps the permissions of the file that it replaces. */
static ts_status look_at_place(mode_t *mode, const ts_out *out)
{
    struct stat info;
    *mode = 0;
    if (stat(out->path, &info) != 0)
        return errno == ENOENT ? TS_OK : io_error(out, "cannot look at");
    if (!S_ISREG(info.st_mode))
        return ts_fail(TS_EIO, "cannot write '%s': it is %s", out->path,
                       S_ISDIR(info.st_mode) ? "a folder" : "not a regular file");
    *mode = info.st_mode & 07777;
    return TS_OK;
}

static ts_status begin(ts_out *out)
{
    mode_t mode;
    TS_TRY(look_at_place(&mode, out));
    out->buffer = malloc(BUFFER);
    if (!out->buffer) return ts_fail_memory(BUFFER, "writing a file");
    TS_TRY(open_beside(out));
    if (mode && fchmod(out->fd, mode) != 0) return io_error(out, "cannot write");
    return TS_OK;
}

ts_status ts_out_begin(ts_out *out, const char *path)
{
    *out = (ts_out){.fd = -1};
    if (!path || !*path) return ts_fail(TS_EINVAL, "save: the path is missing");
    out->path = realpath(path, NULL); /* fails for what does not exist yet */
    if (!out->path) out->path = ts_strdup(path);
    if (!out->path) return ts_fail_memory(strlen(path), "a path");
    ts_status status = begin(out);
    if (status != TS_OK) ts_out_abandon(out);
    return status;
}

static ts_status write_all(ts_out *out, const uint8_t *data, size_t size)
{
    while (size > 0) {
        ssize_t n = write(out->fd, data, size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return io_error(out, "cannot write");
        data += n;
        size -= (size_t)n;
    }
    return TS_OK;
}

static ts_status flush(ts_out *out)
{
    size_t used = out->used;
    out->used = 0;
    return write_all(out, out->buffer, used);
}

ts_status ts_out_write(ts_out *out, const void *data, size_t size)
{
    if (size == 0) return TS_OK;
    out->at += size;
    if (size > BUFFER - out->used) TS_TRY(flush(out));
    if (size >= BUFFER) return write_all(out, data, size);
    memcpy(out->buffer + out->used, data, size);
    out->used += size;
    return TS_OK;
}

ts_status ts_out_zeros(ts_out *out, size_t size)
{
    static const uint8_t zeros[256];
    for (size_t n; size > 0; size -= n) {
        n = size < sizeof zeros ? size : sizeof zeros;
        TS_TRY(ts_out_write(out, zeros, n));
    }
    return TS_OK;
}

/* The name itself is on the disk when its folder is. */
static ts_status sync_folder(const ts_out *out)
{
    char *copy = ts_strdup(out->path);
    if (!copy) return ts_fail_memory(strlen(out->path), "a path");
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(copy);
    if (fd < 0) return TS_OK; /* a folder that may be searched but not read */
    int error = fsync(fd) == 0 || errno == EINVAL ? 0 : errno;
    close(fd);
    errno = error;
    return error ? io_error(out, "cannot sync the folder of") : TS_OK;
}

static ts_status publish(ts_out *out)
{
    TS_TRY(flush(out));
    if (fsync(out->fd) != 0 && errno != EINVAL) return io_error(out, "cannot write");
    int fd = out->fd;
    out->fd = -1;
    if (close(fd) != 0 && errno != EINTR) return io_error(out, "cannot write");
    if (rename(out->temporary, out->path) != 0) return io_error(out, "cannot replace");
    free(out->temporary);
    out->temporary = NULL;
    return sync_folder(out);
}

ts_status ts_out_commit(ts_out *out)
{
    ts_status status = publish(out);
    ts_out_abandon(out);
    return status;
}

void ts_out_abandon(ts_out *out)
{
    bool opened = out->fd >= 0;
    if (opened) close(out->fd);
    if (out->temporary) unlink(out->temporary);
    forget(out);
}

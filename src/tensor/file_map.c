/* SPDX-License-Identifier: Apache-2.0 */
/* Read-only file maps.  Pages belong to the system's cache, so the ledger does not count them. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tensor/allocator.h"

static ts_status file_alloc(ts_storage *storage, size_t nbytes)
{
    (void)storage;
    return ts_fail(TS_ESTATE, "mapped memory cannot be resized (to %zu bytes)", nbytes);
}

static void file_free(ts_storage *storage) { munmap(storage->data, storage->nbytes); }

const ts_allocator ts_allocator_file = {"mapped", false, file_alloc, file_free};

/* An empty file has no bytes to map and is no error. */
static ts_status map_descriptor(void **data, size_t *bytes, int fd, const char *path)
{
    struct stat info;
    if (fstat(fd, &info) != 0) return ts_fail(TS_EIO, "map_file: %s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return ts_fail(TS_EIO, "map_file: %s is not a regular file%s", path,
                       S_ISDIR(info.st_mode) ? " but a folder" : "");

    *bytes = (size_t)info.st_size;
    if (*bytes == 0) return TS_OK;
    void *map = mmap(NULL, *bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return ts_fail(TS_EIO, "map_file: %s: mapping %zu bytes: %s", path, *bytes,
                       strerror(errno));
    *data = map;
    return TS_OK;
}

static ts_storage *map_storage(int fd, const char *path)
{
    void *data = NULL;
    size_t bytes = 0;
    if (map_descriptor(&data, &bytes, fd, path) != TS_OK) return NULL;
    ts_storage *storage = ts_storage_bare(&ts_allocator_file, TS_CATEGORY_OTHER);
    if (!storage) {
        if (data) munmap(data, bytes);
        return NULL;
    }
    storage->data = data;
    storage->nbytes = bytes;
    storage->read_only = true;
    return storage;
}

ts_tensor *ts_map_file(const char *path)
{
    if (!path) return ts_fail_tensor(TS_EINVAL, "map_file: path is missing (NULL)");
    int fd;
    do fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    while (fd < 0 && errno == EINTR);
    if (fd < 0) return ts_fail_tensor(TS_EIO, "map_file: %s: %s", path, strerror(errno));
    ts_storage *storage = map_storage(fd, path);
    close(fd);
    if (!storage) return ts_fail_tensor_last(ts_thread()->error_status);
    ts_spec spec = {TS_SHAPE((int64_t)storage->nbytes), TS_UINT8, TS_CPU};
    ts_tensor *t = ts_scope_give(ts_tensor_over(storage, &spec, 0));
    ts_storage_release(storage);
    return t;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <tessera/scope.h>

#include "serialize/serialize.h"

ts_status ts_mapped_open(ts_mapped *file, const char *path, bool copy)
{
    *file = (ts_mapped){.copy = copy};
    ts_scope scope = ts_scope_begin();
    ts_tensor *t = ts_map_file(path);
    ts_status status = ts_tensor_check(t, "load: the file");
    if (status == TS_OK) {
        file->storage = t->storage;
        ts_storage_retain(file->storage);
        file->data = t->storage->data;
        file->size = t->storage->nbytes;
    }
    ts_scope_end(scope);
    return status;
}

void ts_mapped_close(ts_mapped *file)
{
    ts_storage_release(file->storage);
    *file = (ts_mapped){0};
}

static void release_file(void *data, void *user)
{
    (void)data;
    ts_storage_release(user);
}

static ts_storage *copy_of(const uint8_t *data, uint64_t size)
{
    ts_storage *storage = ts_storage_new((size_t)size, TS_CPU, TS_MEMORY_HEAP, TS_CATEGORY_OTHER);
    if (storage && size > 0) memcpy(storage->data, data, (size_t)size);
    return storage;
}

ts_storage *ts_mapped_part(const ts_mapped *file, uint64_t begin, uint64_t size, size_t element)
{
    const uint8_t *data = file->data + begin;
    if (file->copy || size == 0 || begin % element != 0) return copy_of(data, size);
    ts_storage_retain(file->storage);
    ts_storage *part = ts_storage_wrap((void *)(uintptr_t)data, (size_t)size, TS_CATEGORY_OTHER,
                                       release_file, file->storage);
    if (part)
        part->read_only = true;
    else
        ts_storage_release(file->storage);
    return part;
}

ts_status ts_check_bools(const ts_storage *storage, const char *name)
{
    const uint8_t *data = storage->data;
    for (size_t i = 0; i < storage->nbytes; i++)
        if (data[i] > 1)
            return ts_fail(TS_EFORMAT, "'%s' holds bools that are neither true nor false", name);
    return TS_OK;
}

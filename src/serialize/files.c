/* SPDX-License-Identifier: Apache-2.0 */
/* Saving and loading: which format, which file. */
#include <string.h>

#include "base/options.h"
#include "formats/safetensors.h"
#include "object/object.h"
#include "serialize/serialize.h"

/* ---- saving ---------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static ts_status pick_format(ts_format *format, const char *path)
{
    if (*format == TS_FORMAT_AUTO)
        *format = ends_with(path, ".safetensors") ? TS_FORMAT_SAFETENSORS : TS_FORMAT_TORCH;
    if (*format == TS_FORMAT_TORCH || *format == TS_FORMAT_SAFETENSORS) return TS_OK;
    return ts_fail(TS_EINVAL, "save: %d is not a format", (int)*format);
}

ts_status ts_save(const ts_object *object, const char *path, const ts_save_options *opt)
{
    ts_save_options o = TS_SAVE_OPTIONS_INIT;
    ts_out out;
    TS_TRY(ts_options_read(&o, sizeof o, opt, "save"));
    if (!path || !object) return ts_fail(TS_EINVAL, "save: an object and a path are needed");
    TS_TRY(ts_object_status(object));
    TS_TRY(pick_format(&o.format, path));
    TS_TRY(ts_out_begin(&out, path));
    ts_status status = o.format == TS_FORMAT_TORCH ? ts_torch_write(&out, object, &o)
                                                   : ts_safetensors_write(&out, object, &o);
    if (status == TS_OK) return ts_out_commit(&out);
    ts_out_abandon(&out);
    return status;
}

/* ---- loading --------------------------------------------------------------------------------- */

/* Before version 1.6, torch.save wrote one pickle after the other; the first is a magic number. */
static bool is_old_torch(const ts_mapped *file)
{
    static const uint8_t magic[] = {0x80, 2,    0x8a, 10,   0x6c, 0xfc, 0x9c,
                                    0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};
    return file->size >= sizeof magic && memcmp(file->data, magic, sizeof magic) == 0;
}

ts_object *ts_mapped_read(const ts_mapped *file)
{
    if (file->size >= 4 && memcmp(file->data, "PK\3\4", 4) == 0) return ts_torch_read(file);
    if (is_old_torch(file))
        return ts_object_fail_last(
            ts_fail(TS_EUNSUPPORTED,
                    "load: this is the format that torch.save had before version 1.6; load it with "
                    "PyTorch and save it again"));
    if (ts_safetensors_probe(file->data, file->size)) return ts_safetensors_load(file);
    return ts_object_fail_last(
        ts_fail(TS_EFORMAT, "load: this is neither torch.save's format nor safetensors"));
}

/* Texts of errors begin with the path. */
static ts_object *load_named(const ts_mapped *file, const char *path,
                             ts_object *(*read)(const ts_mapped *file))
{
    size_t size = strlen(path);
    int mark = ts_where_push(size > 200 ? path + size - 200 : path);
    ts_object *object = read(file);
    ts_where_pop(mark);
    return object;
}

static ts_object *open_and(ts_object *(*read)(const ts_mapped *file), const char *path, bool copy)
{
    ts_mapped file;
    if (!path) return ts_object_missing("load: the path");
    ts_status status = ts_mapped_open(&file, path, copy);
    if (status != TS_OK) return ts_object_fail_last(status);
    ts_object *object = load_named(&file, path, read);
    ts_mapped_close(&file);
    return object; /* cppcheck-suppress returnDanglingLifetime */
}

ts_object *ts_load(const char *path, const ts_load_options *opt)
{
    ts_load_options o = TS_LOAD_OPTIONS_INIT;
    ts_status status = ts_options_read(&o, sizeof o, opt, "load");
    if (status != TS_OK) return ts_object_fail_last(status);
    return open_and(ts_mapped_read, path, !o.mmap);
}

ts_object *ts_load_metadata(const char *path)
{
    return open_and(ts_safetensors_load_metadata, path, false);
}

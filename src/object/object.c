/* SPDX-License-Identifier: Apache-2.0 */
/* Life of objects: making, putting into containers, freeing. */
#include "object/object.h"

#include <stdlib.h>
#include <string.h>

#include "formats/utf8.h"
#include "tensor/tensor.h"

/* For want of memory; shared, so it never enters a container. */
static ts_object no_memory = {.kind = TS_OBJECT_FAILED, .status = TS_ENOMEM};

static const char *const kind_names[] = {
    [TS_OBJECT_NULL] = "null",       [TS_OBJECT_BOOL] = "a bool",
    [TS_OBJECT_INT] = "an int",      [TS_OBJECT_DOUBLE] = "a double",
    [TS_OBJECT_TEXT] = "text",       [TS_OBJECT_BYTES] = "bytes",
    [TS_OBJECT_LIST] = "a list",     [TS_OBJECT_MAP] = "a map",
    [TS_OBJECT_TENSOR] = "a tensor", [TS_OBJECT_FAILED] = "a failed object"};

const char *ts_object_kind_name(ts_object_kind kind) { return kind_names[kind]; }

/* ---- making ---------------------------------------------------------------------------------- */

ts_object *ts_object_new_kind(ts_object_kind kind)
{
    ts_object *o = ts_small_new(sizeof *o);
    if (!o) {
        ts_fail_memory(sizeof *o, "an object");
        return &no_memory;
    }
    o->kind = kind;
    return o;
}

ts_object *ts_object_fail_last(ts_status status)
{
    ts_object *o = ts_object_new_kind(TS_OBJECT_FAILED);
    if (o == &no_memory) return o;
    o->status = status;
    o->string.data = ts_strdup(ts_error_last());
    return o;
}

ts_object *ts_object_missing(const char *what)
{
    return ts_object_fail_last(ts_fail(TS_EINVAL, "%s is missing (NULL)", what));
}

static bool has_failed(const ts_object *o) { return o && o->kind == TS_OBJECT_FAILED; }

ts_object *ts_object_null(void) { return ts_object_new_kind(TS_OBJECT_NULL); }
ts_object *ts_object_list(void) { return ts_object_new_kind(TS_OBJECT_LIST); }
ts_object *ts_object_map(void) { return ts_object_new_kind(TS_OBJECT_MAP); }

ts_object *ts_object_bool(bool value)
{
    ts_object *o = ts_object_new_kind(TS_OBJECT_BOOL);
    if (!has_failed(o)) o->boolean = value;
    return o;
}

ts_object *ts_object_int(int64_t value)
{
    ts_object *o = ts_object_new_kind(TS_OBJECT_INT);
    if (!has_failed(o)) o->integer = value;
    return o;
}

ts_object *ts_object_double(double value)
{
    ts_object *o = ts_object_new_kind(TS_OBJECT_DOUBLE);
    if (!has_failed(o)) o->real = value;
    return o;
}

ts_object *ts_object_new_string(ts_object_kind kind, const void *data, size_t size)
{
    char *copy = size < SIZE_MAX ? malloc(size + 1) : NULL;
    if (!copy) return ts_object_fail_last(ts_fail_memory(size, "an object"));
    ts_object *o = ts_object_new_kind(kind);
    if (has_failed(o)) {
        free(copy);
        return o;
    }
    if (size > 0) memcpy(copy, data, size);
    copy[size] = '\0';
    o->string.data = copy;
    o->string.size = size;
    return o;
}

ts_object *ts_object_text(const char *text)
{
    size_t bad, size = text ? strlen(text) : 0;
    if (!text) return ts_object_null();
    if (!ts_utf8_valid(text, size, &bad))
        return ts_object_fail_last(ts_fail(
            TS_EINVAL, "object_text: byte %zu is not UTF-8; use ts_object_bytes for it", bad));
    return ts_object_new_string(TS_OBJECT_TEXT, text, size);
}

ts_object *ts_object_bytes(const void *data, size_t size)
{
    if (!data && size > 0)
        return ts_object_fail_last(ts_fail(TS_EINVAL, "object_bytes: data is missing (NULL)"));
    return ts_object_new_string(TS_OBJECT_BYTES, data, size);
}

ts_object *ts_object_tensor(ts_tensor *tensor)
{
    if (!tensor) return ts_object_null();
    ts_status status = ts_tensor_check(tensor, "object_tensor: tensor");
    if (status == TS_OK && tensor->device != TS_CPU)
        status = ts_fail(TS_EUNSUPPORTED,
                         "object_tensor: the tensor lies on device %s; copy it to the cpu first",
                         ts_device_name((ts_device)tensor->device));
    if (status != TS_OK) return ts_object_fail_last(status);
    ts_object *o = ts_object_new_kind(TS_OBJECT_TENSOR);
    if (!has_failed(o)) o->tensor = ts_retain(tensor);
    return o;
}

/* ---- freeing: one object after the other, however deep they lie ------------------------------ */

/* Takes the last entry out of a container; NULL: there is none. */
static ts_object *take_last(ts_object *o)
{
    if (o->kind == TS_OBJECT_LIST && o->list.count > 0) return o->list.item[--o->list.count];
    if (o->kind != TS_OBJECT_MAP || o->map.count == 0) return NULL;
    free(o->map.entry[--o->map.count].key);
    return o->map.entry[o->map.count].value;
}

static void free_content(ts_object *o)
{
    switch (o->kind) {
    case TS_OBJECT_TEXT:
    case TS_OBJECT_BYTES:
    case TS_OBJECT_FAILED: free(o->string.data); break;
    case TS_OBJECT_LIST: ts_vec_fini(&o->list); break;
    case TS_OBJECT_MAP: ts_map_fini(&o->map); break;
    case TS_OBJECT_TENSOR: ts_release(o->tensor); break;
    default: break;
    }
}

/* Frees what o contains and leaves o empty. */
static void clear(ts_object *o)
{
    for (ts_object *at = o;;) {
        ts_object *last = take_last(at);
        if (last) {
            at = last;
            continue;
        }
        free_content(at);
        if (at == o) return;
        ts_object *parent = at->parent;
        ts_small_free(at, sizeof *at);
        at = parent;
    }
}

void ts_object_free(ts_object *o)
{
    if (!o || o->parent || o == &no_memory) return;
    clear(o);
    ts_small_free(o, sizeof *o);
}

void ts_object_become_failed(ts_object *o, ts_status status)
{
    if (o->kind == TS_OBJECT_FAILED) return;
    char *text = ts_strdup(ts_error_last());
    clear(o);
    memset(&o->string, 0, sizeof o->string);
    o->kind = TS_OBJECT_FAILED;
    o->status = status;
    o->string.data = text;
}

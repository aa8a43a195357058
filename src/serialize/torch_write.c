/* SPDX-License-Identifier: Apache-2.0 */
/* Writing what torch.load(weights_only=True) reads. */
#include <stdlib.h>
#include <string.h>
#include <tessera/scope.h>

#include "base/memory.h"
#include "formats/pickle.h"
#include "formats/zip.h"
#include "object/object.h"
#include "serialize/serialize.h"
#include "serialize/torch.h"

/* ---- storages: one entry per storage and dtype, cut to what the tensors reach ---------------- */

typedef struct part {
    ts_tensor *first; /* a tensor of the storage */
    ts_dtype dtype;
    int64_t low, high; /* elements of the storage that tensors reach */
    int tensors;
    int64_t place; /* among the storages; its name in the file */
    bool compact; /* the only tensor is written row-major, without what lies between its elements */
} part;

typedef struct writer {
    ts_pickle_writer pickle;
    ts_map parts; /* by storage and dtype */
    ts_vec order; /* part */
    bool integer_keys;
} writer;

static void part_key(char *key, size_t size, const ts_tensor *t)
{
    snprintf(key, size, "%p %d", (void *)t->storage, t->dtype);
}

/* The elements of its storage that t reaches: [low, high). */
static void reach(int64_t *low, int64_t *high, const ts_tensor *t)
{
    *low = *high = t->offset;
    for (int i = 0; i < t->shape.ndim; i++) {
        int64_t far = t->stride[i] * (t->shape.dim[i] - 1);
        *(far < 0 ? low : high) += far;
    }
    ++*high;
}

static bool has_negative_stride(const ts_tensor *t)
{
    for (int i = 0; i < t->shape.ndim; i++)
        if (t->stride[i] < 0 && t->shape.dim[i] > 1) return true;
    return false;
}

static part *part_of(const writer *w, const ts_tensor *t)
{
    char key[64];
    part_key(key, sizeof key, t);
    return ts_map_get(&w->parts, key);
}

static part *new_part(writer *w, ts_tensor *t)
{
    char key[64];
    part *p = ts_calloc(1, sizeof *p);
    if (!p) return NULL;
    *p = (part){.first = t,
                .dtype = (ts_dtype)t->dtype,
                .low = INT64_MAX,
                .high = -1,
                .place = w->order.count};
    part_key(key, sizeof key, t);
    if (!ts_vec_push(&w->order, p)) {
        free(p);
        return NULL;
    }
    return ts_map_set(&w->parts, key, p) ? p : NULL;
}

static ts_status note_tensor(writer *w, ts_tensor *t)
{
    int64_t low, high;
    part *p = part_of(w, t);
    if (!p && !(p = new_part(w, t))) return ts_fail_memory(sizeof *p, "the storages of a file");
    p->tensors += t != p->first || p->tensors == 0;
    if (t->numel == 0) return TS_OK;
    if (has_negative_stride(t))
        return ts_fail(TS_EUNSUPPORTED,
                       "torch.save: PyTorch has no negative strides; save a copy of the tensor");
    reach(&low, &high, t);
    if (low < p->low) p->low = low;
    if (high > p->high) p->high = high;
    p->compact = p->tensors == 1 && high - low > t->numel;
    return TS_OK;
}

static ts_status note_all(writer *w, const ts_object *o, int depth)
{
    if (depth > TS_OBJECT_MAX_DEPTH)
        return ts_fail(TS_EINVAL, "save: lists and maps are nested more than %d deep",
                       TS_OBJECT_MAX_DEPTH);
    if (o->kind == TS_OBJECT_TENSOR) return note_tensor(w, o->tensor);
    for (int64_t i = 0; i < ts_object_count(o); i++)
        TS_TRY(note_all(w, ts_object_at(o, i), depth + 1));
    return TS_OK;
}

static int64_t part_numel(const part *p)
{
    if (p->high < 0) return 0;
    return p->compact ? p->first->numel : p->high - p->low;
}

/* ---- the pickle ------------------------------------------------------------------------------ */

static void op(writer *w, const char *codes)
{
    for (; *codes; codes++) ts_pickle_write_op(&w->pickle, *codes);
}

static void text(writer *w, const char *value)
{
    ts_pickle_write_text(&w->pickle, value, strlen(value));
}

static void write_numbers(writer *w, const int64_t *number, int count)
{
    op(w, "(");
    for (int i = 0; i < count; i++) ts_pickle_write_int(&w->pickle, number[i]);
    op(w, "t");
}

/* _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, backward_hooks) */
static void write_tensor(writer *w, const ts_tensor *t)
{
    const part *p = part_of(w, t);
    int64_t stride[TS_MAX_DIMS];
    char name[32];
    memcpy(stride, t->stride, sizeof stride);
    if (p->compact || t->numel == 0) ts_row_major_strides(stride, t->shape);
    snprintf(name, sizeof name, "%lld", (long long)p->place);
    ts_pickle_write_global(&w->pickle, "torch._utils", "_rebuild_tensor_v2");
    op(w, "((");
    text(w, "storage");
    ts_pickle_write_global(&w->pickle, "torch", ts_torch_storage_name(p->dtype));
    text(w, name);
    text(w, "cpu");
    ts_pickle_write_int(&w->pickle, part_numel(p));
    op(w, "tQ");
    ts_pickle_write_int(&w->pickle, p->compact || t->numel == 0 ? 0 : t->offset - p->low);
    write_numbers(w, t->shape.dim, t->shape.ndim);
    write_numbers(w, stride, t->shape.ndim);
    op(w, "\x89");
    ts_pickle_write_global(&w->pickle, "collections", "OrderedDict");
    op(w, ")RtR");
}

/* Protocol 2 has no bytes: they are text of the characters 0 to 255. */
static ts_status write_bytes(writer *w, const ts_object *o)
{
    char *coded = malloc(2 * o->string.size + 1), *at = coded;
    if (!coded) return ts_fail_memory(2 * o->string.size, "bytes of an object");
    for (size_t i = 0; i < o->string.size; i++) {
        uint8_t byte = (uint8_t)o->string.data[i];
        if (byte >= 0x80) *at++ = (char)(0xC0 | byte >> 6);
        *at++ = (char)(byte < 0x80 ? byte : 0x80 | (byte & 0x3F));
    }
    ts_pickle_write_global(&w->pickle, "_codecs", "encode");
    ts_pickle_write_text(&w->pickle, coded, (size_t)(at - coded));
    text(w, "latin1");
    op(w, "\x86R");
    free(coded);
    return TS_OK;
}

/* "0" and "-12", but not "007" or what does not fit. */
static bool is_integer(int64_t *value, const char *key)
{
    char canonical[32], *end;
    *value = strtoll(key, &end, 10);
    snprintf(canonical, sizeof canonical, "%lld", (long long)*value);
    return strcmp(canonical, key) == 0;
}

static void write_key(writer *w, const char *key)
{
    int64_t value;
    if (w->integer_keys && is_integer(&value, key))
        ts_pickle_write_int(&w->pickle, value);
    else
        text(w, key);
}

static ts_status write_object(writer *w, const ts_object *o);

static ts_status write_container(writer *w, const ts_object *o)
{
    bool map = o->kind == TS_OBJECT_MAP;
    op(w, map ? "}(" : "](");
    for (int64_t i = 0; i < ts_object_count(o); i++) {
        if (map) write_key(w, ts_object_key_at(o, i));
        TS_TRY(write_object(w, ts_object_at(o, i)));
    }
    op(w, map ? "u" : "e");
    return TS_OK;
}

static ts_status write_object(writer *w, const ts_object *o)
{
    bool string = o->kind == TS_OBJECT_TEXT || o->kind == TS_OBJECT_BYTES;
    if (string && o->string.size > UINT32_MAX / 2)
        return ts_fail(TS_EUNSUPPORTED, "torch.save: %zu bytes of text are too many",
                       o->string.size);
    switch (o->kind) {
    case TS_OBJECT_NULL: op(w, "N"); return TS_OK;
    case TS_OBJECT_BOOL: op(w, o->boolean ? "\x88" : "\x89"); return TS_OK;
    case TS_OBJECT_INT: ts_pickle_write_int(&w->pickle, o->integer); return TS_OK;
    case TS_OBJECT_DOUBLE: ts_pickle_write_double(&w->pickle, o->real); return TS_OK;
    case TS_OBJECT_TEXT:
        ts_pickle_write_text(&w->pickle, o->string.data, o->string.size);
        return TS_OK;
    case TS_OBJECT_BYTES: return write_bytes(w, o);
    case TS_OBJECT_TENSOR: write_tensor(w, o->tensor); return TS_OK;
    case TS_OBJECT_LIST:
    case TS_OBJECT_MAP: return write_container(w, o);
    case TS_OBJECT_FAILED: break;
    }
    return ts_object_status(o);
}

/* ---- the archive ----------------------------------------------------------------------------- */

static ts_status write_compact(ts_zip_writer *zip, const char *name, ts_tensor *t)
{
    ts_scope scope = ts_scope_begin();
    ts_spec spec = ts_tensor_spec(t);
    ts_tensor *copy = ts_tensor_new(&spec, TS_MEMORY_HEAP, TS_CATEGORY_STAGING);
    ts_status status = ts_tensor_check(copy, "save: a copy");
    if (status == TS_OK) status = ts_tensor_copy_data(copy, t);
    if (status == TS_OK) status = ts_zip_add(zip, name, ts_tensor_bytes(copy), ts_nbytes(copy));
    ts_scope_end(scope);
    return status;
}

static ts_status write_part(ts_zip_writer *zip, const char *name, const part *p)
{
    if (p->compact) return write_compact(zip, name, p->first);
    size_t each = ts_dtype_size(p->dtype), numel = (size_t)part_numel(p);
    const char *data =
        numel > 0 ? (const char *)p->first->storage->data + p->low * (int64_t)each : "";
    return ts_zip_add(zip, name, data, numel * each);
}

static ts_status write_archive(ts_zip_writer *zip, const writer *w)
{
    TS_TRY(ts_zip_add(zip, "archive/data.pkl", w->pickle.data, w->pickle.size));
    TS_TRY(ts_zip_add(zip, "archive/byteorder", "little", 6));
    for (int64_t i = 0; i < w->order.count; i++) {
        char name[64];
        snprintf(name, sizeof name, "archive/data/%lld", (long long)i);
        TS_TRY(write_part(zip, name, w->order.item[i]));
    }
    TS_TRY(ts_zip_add(zip, "archive/version", "3\n", 2));
    return ts_zip_finish(zip);
}

static ts_status write_pickle(writer *w, const ts_object *object)
{
    op(w, "\x80\x02");
    TS_TRY(write_object(w, object));
    op(w, ".");
    return w->pickle.failed ? ts_fail_memory(w->pickle.size, "a pickle") : TS_OK;
}

ts_status ts_torch_write(ts_out *out, const ts_object *object, const ts_save_options *opt)
{
    writer w = {.integer_keys = opt->integer_keys};
    ts_zip_writer zip;
    ts_zip_begin(&zip, out);
    ts_status status = note_all(&w, object, 0);
    if (status == TS_OK) status = write_pickle(&w, object);
    if (status == TS_OK) status = write_archive(&zip, &w);
    ts_zip_writer_free(&zip);
    for (int64_t i = 0; i < w.order.count; i++) free(w.order.item[i]);
    ts_vec_fini(&w.order);
    ts_map_fini(&w.parts);
    free(w.pickle.data);
    return status;
}

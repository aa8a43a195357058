/* SPDX-License-Identifier: Apache-2.0 */
/* torch.save: an archive with a pickle, data.pkl, that describes an object, and one entry of bytes per
 * storage. */
#include <stdlib.h>
#include <string.h>
#include <tessera/scope.h>

#include "base/memory.h"
#include "formats/pickle.h"
#include "formats/utf8.h"
#include "formats/zip.h"
#include "object/object.h"
#include "serialize/serialize.h"
#include "serialize/torch.h"

/* ---- the names that a file may ask for ------------------------------------------------------- */

enum {
    MAKES_TENSOR = 1,
    MAKES_PARAMETER = 2,
    MAKES_SIZE = 3,
    MAKES_DEVICE = 4,
    MAKES_BYTES = 5,
    IS_STORAGE = 100, /* + dtype */
    IS_DTYPE = 200    /* + dtype */
};

#define STORAGES(X)                                                                                \
    X("FloatStorage", "float32", FLOAT32)                                                          \
    X("DoubleStorage", "float64", FLOAT64)                                                         \
    X("HalfStorage", "float16", FLOAT16)                                                           \
    X("BFloat16Storage", "bfloat16", BFLOAT16)                                                     \
    X("CharStorage", "int8", INT8)                                                                 \
    X("ByteStorage", "uint8", UINT8)                                                               \
    X("ShortStorage", "int16", INT16)                                                              \
    X("IntStorage", "int32", INT32)                                                                \
    X("LongStorage", "int64", INT64)                                                               \
    X("BoolStorage", "bool", BOOL)                                                                 \
    X("ComplexFloatStorage", "complex64", COMPLEX64)                                               \
    X("ComplexDoubleStorage", "complex128", COMPLEX128)

static const ts_pickle_global known_names[] = {
    {"collections", "OrderedDict", TS_PICKLE_MAKES_DICT},
    {"torch._utils", "_rebuild_tensor_v2", MAKES_TENSOR},
    {"torch._utils", "_rebuild_parameter", MAKES_PARAMETER},
    {"torch._utils", "_rebuild_parameter_with_state", MAKES_PARAMETER},
    {"torch", "Size", MAKES_SIZE},
    {"torch", "device", MAKES_DEVICE},
    {"_codecs", "encode", MAKES_BYTES},
#define X(storage, dtype, number)                                                                  \
    {"torch", storage, IS_STORAGE + TS_##number}, {"torch", dtype, IS_DTYPE + TS_##number},
    STORAGES(X)
#undef X
        {NULL, NULL, 0}};

const char *ts_torch_storage_name(ts_dtype dtype)
{
    static const char *const names[TS_NUM_DTYPES] = {
#define X(storage, dtype, number) [TS_##number] = storage,
        STORAGES(X)
#undef X
    };
    return names[dtype];
}

const char *ts_torch_dtype_name(ts_dtype dtype)
{
    static const char *const names[TS_NUM_DTYPES] = {
#define X(storage, dtype, number) [TS_##number] = "torch." dtype,
        STORAGES(X)
#undef X
    };
    return names[dtype];
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct reader {
    const ts_mapped *file;
    ts_zip zip;
    char *prefix;    /* "archive/" */
    ts_map storages; /* by key */
    int64_t
        budget; /* values that may still be made: what is shared in a pickle is not in an object */
} reader;

static bool convert(ts_object **out, reader *r, ts_pickle_value *v, int depth);

static ts_object *wrong(const char *what)
{
    return ts_object_fail_last(ts_fail(TS_EFORMAT, "torch.save: %s", what));
}

static const ts_pickle_value *arg(const ts_pickle_value *v, int64_t i, ts_pickle_kind kind)
{
    return i < v->count && v->item[i]->kind == kind ? v->item[i] : NULL;
}

/* ---- storages -------------------------------------------------------------------------------- */

/* What a persistent id says: ("storage", torch.FloatStorage, "0", "cpu", 12). */
typedef struct storage_id {
    ts_dtype dtype;
    int64_t numel;
    char key[64];
} storage_id;

static ts_status read_id(storage_id *id, const ts_pickle_value *v)
{
    const ts_pickle_value *t = v->kind == TS_PICKLE_PERSISTENT ? arg(v, 0, TS_PICKLE_TUPLE) : NULL;
    const ts_pickle_value *tag = t ? arg(t, 0, TS_PICKLE_TEXT) : NULL;
    const ts_pickle_value *type = t ? arg(t, 1, TS_PICKLE_GLOBAL) : NULL;
    const ts_pickle_value *key = t ? arg(t, 2, TS_PICKLE_TEXT) : NULL;
    const ts_pickle_value *numel = t ? arg(t, 4, TS_PICKLE_INT) : NULL;
    if (!tag || tag->size != 7 || memcmp(tag->text, "storage", 7) != 0 || !type || !key || !numel ||
        type->global < IS_STORAGE || type->global >= IS_STORAGE + TS_NUM_DTYPES ||
        key->size >= sizeof id->key || memchr(key->text, 0, key->size) || numel->integer < 0)
        return ts_fail(TS_EFORMAT, "torch.save: a tensor's storage is not described as one");
    id->dtype = (ts_dtype)(type->global - IS_STORAGE);
    id->numel = numel->integer;
    memcpy(id->key, key->text, key->size);
    id->key[key->size] = '\0';
    return TS_OK;
}

static const ts_zip_entry *find_entry(const reader *r, const char *folder, const char *name)
{
    char *path = ts_asprintf("%s%s%s", r->prefix, folder, name);
    const ts_zip_entry *e = path ? ts_zip_find(&r->zip, path) : NULL;
    free(path);
    return e;
}

/* Checked against each id that names it: ids of one key can differ. */
static ts_status find_storage(ts_storage **out, reader *r, const storage_id *id)
{
    size_t each = ts_dtype_size(id->dtype);
    const ts_zip_entry *e = find_entry(r, "data/", id->key);
    if (!e) return ts_fail(TS_EFORMAT, "torch.save: storage '%s' is not in the file", id->key);
    if ((uint64_t)id->numel > e->size / each)
        return ts_fail(TS_EFORMAT, "torch.save: storage '%s' has %llu bytes, too few for %lld %s",
                       id->key, (unsigned long long)e->size, (long long)id->numel,
                       ts_dtype_name(id->dtype));
    char key[96];
    snprintf(key, sizeof key, "%d %s", (int)id->dtype,
             id->key); /* dtypes are aligned differently */
    *out = ts_map_get(&r->storages, key);
    if (*out) return TS_OK;
    if (r->file->copy) TS_TRY(ts_zip_verify(&r->zip, e));
    *out = ts_mapped_part(r->file, e->begin, e->size, each);
    if (!*out) return TS_ENOMEM;
    ts_status status = id->dtype == TS_BOOL ? ts_check_bools(*out, id->key) : TS_OK;
    if (status == TS_OK && !ts_map_set(&r->storages, key, *out))
        status = ts_fail_memory(sizeof key, "the storages of a file");
    if (status != TS_OK) ts_storage_release(*out);
    return status;
}

/* ---- tensors --------------------------------------------------------------------------------- */

typedef struct geometry {
    int64_t offset;
    ts_shape shape;
    int64_t stride[TS_MAX_DIMS];
} geometry;

/* torch.Size is pickled as a tuple, or as a call with one. */
static ts_status read_numbers(int64_t *to, int *count, const ts_pickle_value *v)
{
    if (v->kind == TS_PICKLE_CALL && v->global == MAKES_SIZE && v->count == 1) v = v->item[0];
    if (v->kind != TS_PICKLE_TUPLE)
        return ts_fail(TS_EFORMAT, "torch.save: a shape or its strides are no tuple");
    if (v->count > TS_MAX_DIMS)
        return ts_fail(TS_EUNSUPPORTED, "torch.save: a tensor has %lld dimensions; %d are possible",
                       (long long)v->count, TS_MAX_DIMS);
    *count = (int)v->count;
    for (int i = 0; i < *count; i++) {
        if (v->item[i]->kind != TS_PICKLE_INT || v->item[i]->integer < 0)
            return ts_fail(TS_EFORMAT, "torch.save: a size or stride is not a number >= 0");
        to[i] = v->item[i]->integer;
    }
    return TS_OK;
}

static ts_status read_geometry(geometry *g, const ts_pickle_value *v)
{
    int strides;
    const ts_pickle_value *offset = arg(v, 1, TS_PICKLE_INT);
    if (v->count < 4 || !offset || offset->integer < 0)
        return ts_fail(TS_EFORMAT, "torch.save: a tensor is not described as one");
    *g = (geometry){.offset = offset->integer};
    TS_TRY(read_numbers(g->shape.dim, &g->shape.ndim, v->item[2]));
    TS_TRY(read_numbers(g->stride, &strides, v->item[3]));
    if (strides == g->shape.ndim) return TS_OK;
    return ts_fail(TS_EFORMAT, "torch.save: a tensor of %d dimensions has %d strides",
                   g->shape.ndim, strides);
}

/* Does every element lie among the storage's numel? */
static bool fits(const geometry *g, int64_t numel)
{
    int64_t last = g->offset, count = ts_shape_numel(g->shape), reach;
    if (count < 0) return false;
    for (int i = 0; count > 0 && i < g->shape.ndim; i++)
        if (__builtin_mul_overflow(g->shape.dim[i] - 1, g->stride[i], &reach) ||
            __builtin_add_overflow(last, reach, &last))
            return false;
    return count > 0 ? last < numel : last <= numel;
}

static ts_status make_tensor(ts_tensor **out, reader *r, const ts_pickle_value *v)
{
    storage_id id;
    geometry g;
    ts_storage *storage = NULL;
    if (v->count < 1) return ts_fail(TS_EFORMAT, "torch.save: a tensor without a storage");
    TS_TRY(read_id(&id, v->item[0]));
    TS_TRY(read_geometry(&g, v));
    if (!fits(&g, id.numel))
        return ts_fail(TS_EFORMAT,
                       "torch.save: a tensor reaches beyond the %lld elements of "
                       "storage '%s'",
                       (long long)id.numel, id.key);
    TS_TRY(find_storage(&storage, r, &id));
    ts_spec spec = {TS_SHAPE(id.numel), id.dtype, TS_CPU};
    ts_tensor *all = ts_scope_give(ts_tensor_over(storage, &spec, 0));
    TS_TRY(ts_tensor_check(all, "load: a tensor"));
    *out = ts_tensor_view(all, g.shape, g.stride, g.offset);
    return ts_tensor_check(*out, "load: a tensor");
}

/* One tensor that is in several places stays one. */
static ts_object *convert_tensor(reader *r, ts_pickle_value *v)
{
    if (v->global == MAKES_PARAMETER) {
        ts_pickle_value *data = (ts_pickle_value *)(uintptr_t)arg(v, 0, TS_PICKLE_CALL);
        if (!data || data->global != MAKES_TENSOR) return wrong("a parameter without its tensor");
        v = data;
    }
    ts_tensor *t = v->made;
    if (!t) {
        ts_status status = make_tensor(&t, r, v);
        if (status != TS_OK) return ts_object_fail_last(status);
        v->made = t;
    }
    return ts_object_tensor(t);
}

/* ---- other values ---------------------------------------------------------------------------- */

/* Bytes travel as text of the characters 0 to 255. */
static ts_object *convert_bytes(reader *r, const ts_pickle_value *v)
{
    const ts_pickle_value *text = arg(v, 0, TS_PICKLE_TEXT), *code = arg(v, 1, TS_PICKLE_TEXT);
    if (!text || !code || code->size != 6 || memcmp(code->text, "latin1", 6) != 0)
        return wrong("bytes that are not coded as latin1");
    r->budget -= (int64_t)(text->size / 16);
    uint8_t *data = malloc(text->size + 1);
    size_t n = 0;
    if (!data) return ts_object_fail_last(ts_fail_memory(text->size, "bytes"));
    for (size_t i = 0; i < text->size; n++) {
        uint8_t first = (uint8_t)text->text[i++];
        if (first >= 0xC4) {
            free(data);
            return wrong("bytes with a character beyond 255");
        }
        data[n] = first < 0x80 ? first : (uint8_t)(first << 6 | ((uint8_t)text->text[i++] & 0x3F));
    }
    ts_object *o = ts_object_new_string(TS_OBJECT_BYTES, data, n);
    free(data);
    return o;
}

/* torch.device("cpu") and torch.device("cuda", 1) */
static ts_object *convert_device(const ts_pickle_value *v)
{
    const ts_pickle_value *type = arg(v, 0, TS_PICKLE_TEXT), *index = arg(v, 1, TS_PICKLE_INT);
    char text[64];
    if (!type || type->size > 32) return wrong("a device without a type");
    if (index)
        snprintf(text, sizeof text, "%.*s:%lld", (int)type->size, type->text,
                 (long long)index->integer);
    else
        snprintf(text, sizeof text, "%.*s", (int)type->size, type->text);
    return ts_object_text(text);
}

static ts_object *convert_list(reader *r, const ts_pickle_value *v, int depth)
{
    ts_object *list = ts_object_list(), *item;
    for (int64_t i = 0; i < v->count; i++) {
        bool good = convert(&item, r, v->item[i], depth + 1);
        ts_object_append(list, item);
        if (!good) break;
    }
    return list;
}

static ts_status read_key(char **out, const ts_pickle_value *v)
{
    if (v->kind == TS_PICKLE_INT)
        *out = ts_asprintf("%lld", (long long)v->integer);
    else if (v->kind == TS_PICKLE_TEXT && !memchr(v->text, 0, v->size))
        *out = ts_strndup(v->text, v->size);
    else
        return ts_fail(TS_EUNSUPPORTED, "torch.save: a dict key that is neither text nor int");
    return *out ? TS_OK : ts_fail_memory(v->size, "a dict key");
}

static ts_object *convert_dict(reader *r, const ts_pickle_value *v, int depth)
{
    ts_object *map = ts_object_map(), *item;
    for (int64_t i = 0; i + 1 < v->count; i += 2) {
        char *key;
        ts_status status = read_key(&key, v->item[i]);
        if (status != TS_OK) {
            ts_object_become_failed(map, status);
            break;
        }
        r->budget -= (int64_t)strlen(key) / 16;
        bool good = convert(&item, r, v->item[i + 1], depth + 1);
        ts_object_set(map, key, item);
        free(key);
        if (!good) break;
    }
    return map;
}

static ts_object *convert_call(reader *r, ts_pickle_value *v, int depth)
{
    switch (v->global) {
    case MAKES_TENSOR:
    case MAKES_PARAMETER: return convert_tensor(r, v);
    case MAKES_BYTES: return convert_bytes(r, v);
    case MAKES_DEVICE: return convert_device(v);
    case MAKES_SIZE:
        if (!arg(v, 0, TS_PICKLE_TUPLE)) return wrong("a torch.Size without sizes");
        return convert_list(r, v->item[0], depth);
    default: return wrong("a call of what cannot be called");
    }
}

static ts_object *convert_text(reader *r, const ts_pickle_value *v, ts_object_kind kind)
{
    r->budget -= (int64_t)(v->size / 16);
    return ts_object_new_string(kind, v->text, v->size);
}

static ts_object *convert_value(reader *r, ts_pickle_value *v, int depth)
{
    if (depth >= TS_OBJECT_MAX_DEPTH) return wrong("lists and dicts are nested too deep");
    if (--r->budget < 0) return wrong("the object is out of all proportion to the file");
    switch (v->kind) {
    case TS_PICKLE_NONE: return ts_object_null();
    case TS_PICKLE_BOOL: return ts_object_bool(v->integer != 0);
    case TS_PICKLE_INT: return ts_object_int(v->integer);
    case TS_PICKLE_FLOAT: return ts_object_double(v->real);
    case TS_PICKLE_TEXT: return convert_text(r, v, TS_OBJECT_TEXT);
    case TS_PICKLE_BYTES: return convert_text(r, v, TS_OBJECT_BYTES);
    case TS_PICKLE_TUPLE:
    case TS_PICKLE_LIST: return convert_list(r, v, depth);
    case TS_PICKLE_DICT: return convert_dict(r, v, depth);
    case TS_PICKLE_CALL: return convert_call(r, v, depth);
    case TS_PICKLE_GLOBAL:
        if (v->global >= IS_DTYPE)
            return ts_object_text(ts_torch_dtype_name((ts_dtype)(v->global - IS_DTYPE)));
        return wrong("a name where a value belongs");
    case TS_PICKLE_PERSISTENT: break;
    }
    return wrong("a storage without a tensor");
}

/* False: *out has failed, and so will what it is put in. */
static bool convert(ts_object **out, reader *r, ts_pickle_value *v, int depth)
{
    *out = convert_value(r, v, depth);
    return ts_object_kind_of(*out) != TS_OBJECT_FAILED;
}

/* ---- the archive ----------------------------------------------------------------------------- */

static ts_status find_pickle(const ts_zip_entry **out, reader *r)
{
    static const char name[] = "data.pkl";
    for (int64_t i = 0; i < r->zip.count; i++) {
        const ts_zip_entry *e = &r->zip.entry[i];
        const char *slash = strchr(e->name, '/');
        if (strcmp(slash ? slash + 1 : e->name, name) != 0) continue;
        r->prefix = ts_strndup(e->name, strlen(e->name) - strlen(name));
        if (!r->prefix) return ts_fail_memory(strlen(e->name), "reading an archive");
        *out = e;
        return TS_OK;
    }
    return ts_fail(TS_EFORMAT,
                   "torch.save: the zip archive has no data.pkl; torch.save did not write it");
}

static ts_status check_order(const reader *r)
{
    const ts_zip_entry *e = find_entry(r, "", "byteorder");
    if (!e || (e->size == 6 && memcmp(r->file->data + e->begin, "little", 6) == 0)) return TS_OK;
    return ts_fail(TS_EUNSUPPORTED, "torch.save: the file's numbers are not little-endian");
}

static ts_object *read_archive(reader *r)
{
    const ts_zip_entry *e = NULL;
    ts_pickle pickle;
    ts_object *object;
    ts_status status = find_pickle(&e, r);
    if (status == TS_OK) status = check_order(r);
    if (status == TS_OK) status = ts_zip_verify(&r->zip, e);
    if (status == TS_OK)
        status = ts_pickle_read(&pickle, r->file->data + e->begin, (size_t)e->size, known_names);
    if (status != TS_OK) return ts_object_fail_last(status);
    r->budget = (int64_t)e->size * 4 + 1024;
    convert(&object, r, pickle.root, 0);
    ts_pickle_free(&pickle);
    return object;
}

ts_object *ts_torch_read(const ts_mapped *file)
{
    reader r = {.file = file};
    ts_status status = ts_zip_open(&r.zip, file->data, file->size);
    if (status != TS_OK) return ts_object_fail_last(status);
    ts_scope scope = ts_scope_begin();
    ts_object *object = read_archive(&r);
    for (int64_t i = 0; i < r.storages.count; i++) ts_storage_release(r.storages.entry[i].value);
    ts_map_fini(&r.storages);
    ts_zip_close(&r.zip);
    free(r.prefix);
    ts_scope_end(scope);
    return object;
}

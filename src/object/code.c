/* SPDX-License-Identifier: Apache-2.0 */
/* Objects as CBOR and back.  Tensors are the arrays of RFC 8746: tag 40 with sizes and a typed,
 * little-endian array; dtypes that it does not know have tags of our own. */
#include <stdlib.h>
#include <string.h>

#include "formats/cbor.h"
#include "object/object.h"
#include "tensor/tensor.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tensors are encoded in the byte order of this machine, which must be little-endian"
#endif

enum { TAG_ARRAY = 40, TAG_OWN = 0x74733000 /* "ts0" and the dtype */ };

static const uint64_t dtype_tag[TS_NUM_DTYPES] = {
    [TS_FLOAT32] = 85,
    [TS_FLOAT64] = 86,
    [TS_FLOAT16] = 84,
    [TS_BFLOAT16] = TAG_OWN + TS_BFLOAT16,
    [TS_INT8] = 72,
    [TS_UINT8] = 64,
    [TS_INT16] = 77,
    [TS_INT32] = 78,
    [TS_INT64] = 79,
    [TS_BOOL] = TAG_OWN + TS_BOOL,
    [TS_COMPLEX64] = TAG_OWN + TS_COMPLEX64,
    [TS_COMPLEX128] = TAG_OWN + TS_COMPLEX128,
};

static ts_status too_deep(const char *op, ts_status status)
{
    return ts_fail(status, "%s: more than %d lists and maps within each other", op,
                   TS_OBJECT_MAX_DEPTH);
}

/* ---- encoding -------------------------------------------------------------------------------- */

static ts_status encode(ts_cbor_writer *w, const ts_object *o, int depth);

/* The elements in row-major order; room need not be aligned. */
static ts_status copy_elements(void *room, ts_tensor *t)
{
    if (t->contiguous) {
        memcpy(room, ts_tensor_bytes(t), ts_nbytes(t));
        return TS_OK;
    }
    ts_spec spec = ts_tensor_spec(t);
    ts_tensor *copy = ts_tensor_new_owned(&spec, TS_MEMORY_HEAP, TS_CATEGORY_OTHER);
    ts_status status = ts_tensor_check(copy, "object_encode: a contiguous copy");
    if (status == TS_OK) status = ts_tensor_copy_data(copy, t);
    if (status == TS_OK) memcpy(room, ts_tensor_bytes(copy), ts_nbytes(t));
    ts_release(copy);
    return status;
}

static ts_status encode_tensor(ts_cbor_writer *w, ts_tensor *t)
{
    TS_TRY(ts_tensor_check(t, "object_encode: tensor"));
    size_t bytes = ts_nbytes(t);
    ts_cbor_write_tag(w, TAG_ARRAY);
    ts_cbor_write_array(w, 2);
    ts_cbor_write_array(w, (size_t)t->shape.ndim);
    for (int i = 0; i < t->shape.ndim; i++) ts_cbor_write_int(w, t->shape.dim[i]);
    ts_cbor_write_tag(w, dtype_tag[t->dtype]);
    void *room = ts_cbor_write_room(w, bytes);
    return room && bytes > 0 ? copy_elements(room, t) : TS_OK;
}

static ts_status encode_list(ts_cbor_writer *w, const ts_object *const *item, int64_t n, int depth)
{
    ts_cbor_write_array(w, (size_t)n);
    for (int64_t i = 0; i < n; i++) TS_TRY(encode(w, item[i], depth + 1));
    return TS_OK;
}

static ts_status encode_map(ts_cbor_writer *w, const ts_map *map, int depth)
{
    ts_cbor_write_map(w, (size_t)map->count);
    for (int64_t i = 0; i < map->count; i++) {
        ts_cbor_write_text(w, map->entry[i].key, strlen(map->entry[i].key));
        TS_TRY(encode(w, map->entry[i].value, depth + 1));
    }
    return TS_OK;
}

static ts_status encode(ts_cbor_writer *w, const ts_object *o, int depth)
{
    ts_object_kind kind = ts_object_kind_of(o);
    bool container = kind == TS_OBJECT_LIST || kind == TS_OBJECT_MAP;
    if (container && depth > TS_OBJECT_MAX_DEPTH) return too_deep("object_encode", TS_EINVAL);
    switch (kind) {
    case TS_OBJECT_BOOL: ts_cbor_write_bool(w, o->boolean); break;
    case TS_OBJECT_INT: ts_cbor_write_int(w, o->integer); break;
    case TS_OBJECT_DOUBLE: ts_cbor_write_double(w, o->real); break;
    case TS_OBJECT_TEXT: ts_cbor_write_text(w, o->string.data, o->string.size); break;
    case TS_OBJECT_BYTES: ts_cbor_write_bytes(w, o->string.data, o->string.size); break;
    case TS_OBJECT_LIST:
        return encode_list(w, (const ts_object *const *)o->list.item, o->list.count, depth);
    case TS_OBJECT_MAP: return encode_map(w, &o->map, depth);
    case TS_OBJECT_TENSOR: return encode_tensor(w, o->tensor);
    case TS_OBJECT_FAILED: return ts_object_status(o);
    default: ts_cbor_write_null(w); break;
    }
    return TS_OK;
}

/* What is to be encoded: one object, or several as a list. */
typedef struct source {
    const ts_object *object;
    const ts_object *const *item;
    int64_t n;
} source;

static ts_status write_source(ts_cbor_writer *w, const source *s)
{
    return s->item ? encode_list(w, s->item, s->n, 0) : encode(w, s->object, 1);
}

/* Once to count, once to write. */
static ts_status encode_source(void **data, size_t *size, const source *s)
{
    ts_cbor_writer count = {0}, writer = {0};
    TS_TRY(write_source(&count, s));
    writer.data = malloc(count.size);
    if (!writer.data) return ts_fail_memory(count.size, "an encoded object");
    ts_status status = write_source(&writer, s);
    if (status != TS_OK) {
        free(writer.data);
        return status;
    }
    TS_ASSERT(writer.size == count.size);
    *data = writer.data;
    *size = writer.size;
    return TS_OK;
}

ts_status ts_object_encode(const ts_object *o, void **data, size_t *size)
{
    if (!o) return ts_fail(TS_EINVAL, "object_encode: object is missing (NULL)");
    return encode_source(data, size, &(source){.object = o});
}

ts_status ts_object_encode_list(const ts_object *const *item, int64_t n, void **data, size_t *size)
{
    return encode_source(data, size, &(source){.item = item, .n = n});
}

/* ---- decoding -------------------------------------------------------------------------------- */

static ts_object *decode(ts_cbor_reader *r, int depth);

static ts_object *malformed(const char *what, size_t at)
{
    return ts_object_fail_last(ts_fail(TS_EFORMAT, "object_decode: %s before byte %zu", what, at));
}

static ts_object *decode_int(const ts_cbor_item *item, size_t at)
{
    if (item->number > INT64_MAX) return malformed("a number beyond 64 bits with sign", at);
    int64_t n = (int64_t)item->number;
    return ts_object_int(item->kind == TS_CBOR_UNSIGNED ? n : -1 - n);
}

static ts_object *decode_text(const ts_cbor_item *item, size_t at)
{
    if (item->size > 0 && memchr(item->data, 0, item->size))
        return malformed("text with a zero character", at);
    return ts_object_new_string(TS_OBJECT_TEXT, item->data, item->size);
}

static ts_object *decode_list(ts_cbor_reader *r, uint64_t n, int depth)
{
    if (depth > TS_OBJECT_MAX_DEPTH)
        return ts_object_fail_last(too_deep("object_decode", TS_EFORMAT));
    ts_object *list = ts_object_list();
    for (uint64_t i = 0; i < n && list->kind == TS_OBJECT_LIST; i++)
        ts_object_append(list, decode(r, depth + 1));
    return list;
}

/* The key is copied to end it with a zero byte. */
static ts_object *decode_key(ts_cbor_reader *r)
{
    ts_cbor_item item;
    ts_status status = ts_cbor_read(r, &item);
    if (status != TS_OK) return ts_object_fail_last(status);
    return item.kind == TS_CBOR_TEXT ? decode_text(&item, r->at)
                                     : malformed("a key that is not text", r->at);
}

static void decode_entry(ts_object *map, ts_cbor_reader *r, int depth)
{
    ts_object *item, *key = decode_key(r);
    if (key->kind == TS_OBJECT_FAILED)
        item = key;
    else if (ts_object_get(map, key->string.data))
        item = malformed("the same key twice", r->at);
    else
        item = decode(r, depth + 1);
    ts_object_set(map, key->kind == TS_OBJECT_FAILED ? "" : key->string.data, item);
    if (item != key) ts_object_free(key);
}

static ts_object *decode_map(ts_cbor_reader *r, uint64_t n, int depth)
{
    if (depth > TS_OBJECT_MAX_DEPTH)
        return ts_object_fail_last(too_deep("object_decode", TS_EFORMAT));
    ts_object *map = ts_object_map();
    for (uint64_t i = 0; i < n && map->kind == TS_OBJECT_MAP; i++) decode_entry(map, r, depth);
    return map;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static bool read_kind(ts_cbor_reader *r, ts_cbor_item *item, ts_cbor_kind kind)
{
    return ts_cbor_read(r, item) == TS_OK && item->kind == kind;
}

static bool read_shape(ts_cbor_reader *r, ts_shape *shape)
{
    ts_cbor_item item;
    if (!read_kind(r, &item, TS_CBOR_ARRAY) || item.number != 2) return false;
    if (!read_kind(r, &item, TS_CBOR_ARRAY) || item.number > TS_MAX_DIMS) return false;
    *shape = (ts_shape){.ndim = (int)item.number};
    for (int i = 0; i < shape->ndim; i++) {
        if (!read_kind(r, &item, TS_CBOR_UNSIGNED) || item.number > INT64_MAX) return false;
        shape->dim[i] = (int64_t)item.number;
    }
    return true;
}

static ts_dtype dtype_of_tag(uint64_t tag)
{
    int dtype = 0;
    while (dtype < TS_NUM_DTYPES && dtype_tag[dtype] != tag) dtype++;
    return (ts_dtype)dtype;
}

/* shape NULL: as many elements as there are bytes for. */
static ts_object *decode_elements(ts_cbor_reader *r, ts_dtype dtype, const ts_shape *shape)
{
    ts_cbor_item item;
    if (!read_kind(r, &item, TS_CBOR_BYTES)) return malformed("a tensor without bytes", r->at);
    int64_t each = (int64_t)ts_dtype_size(dtype), bytes = (int64_t)item.size;
    ts_spec spec = {shape ? *shape : TS_SHAPE(bytes / each), dtype, TS_CPU};
    int64_t n = ts_shape_numel(spec.shape);
    if (n < 0 || n > INT64_MAX / each || n * each != bytes)
        return malformed("a tensor whose bytes do not fit its shape", r->at);
    ts_tensor *t = ts_tensor_new_owned(&spec, TS_MEMORY_HEAP, TS_CATEGORY_OTHER);
    ts_status status = ts_tensor_check(t, "a tensor");
    if (status == TS_OK && bytes > 0) memcpy(ts_tensor_bytes(t), item.data, item.size);
    ts_object *o = status == TS_OK ? ts_object_tensor(t) : ts_object_fail_last(status);
    ts_release(t);
    return o;
}

static ts_object *decode_tag(ts_cbor_reader *r, uint64_t tag)
{
    ts_shape shape;
    ts_cbor_item item = {.number = tag};
    bool shaped = tag == TAG_ARRAY;
    if (shaped && (!read_shape(r, &shape) || !read_kind(r, &item, TS_CBOR_TAG)))
        return malformed("a malformed tensor", r->at);
    ts_dtype dtype = dtype_of_tag(item.number);
    if (dtype == TS_NUM_DTYPES)
        return ts_object_fail_last(ts_fail(TS_EFORMAT,
                                           "object_decode: unknown tag %llu before byte %zu",
                                           (unsigned long long)item.number, r->at));
    return decode_elements(r, dtype, shaped ? &shape : NULL);
}

/* ---- all ------------------------------------------------------------------------------------- */

static ts_object *decode(ts_cbor_reader *r, int depth)
{
    ts_cbor_item item;
    ts_status status = ts_cbor_read(r, &item);
    if (status != TS_OK) return ts_object_fail_last(status);
    switch (item.kind) {
    case TS_CBOR_BOOL: return ts_object_bool(item.boolean);
    case TS_CBOR_UNSIGNED:
    case TS_CBOR_NEGATIVE: return decode_int(&item, r->at);
    case TS_CBOR_FLOAT: return ts_object_double(item.real);
    case TS_CBOR_BYTES: return ts_object_new_string(TS_OBJECT_BYTES, item.data, item.size);
    case TS_CBOR_TEXT: return decode_text(&item, r->at);
    case TS_CBOR_ARRAY: return decode_list(r, item.number, depth);
    case TS_CBOR_MAP: return decode_map(r, item.number, depth);
    case TS_CBOR_TAG: return decode_tag(r, item.number);
    default: return ts_object_null();
    }
}

static ts_object *decode_all(const void *data, size_t size, int depth)
{
    ts_cbor_reader reader = {.data = data, .size = size};
    ts_object *o = decode(&reader, depth);
    if (o->kind == TS_OBJECT_FAILED || reader.at == size) return o;
    ts_fail(TS_EFORMAT, "object_decode: %zu bytes behind the object", size - reader.at);
    ts_object_become_failed(o, TS_EFORMAT);
    return o;
}

ts_object *ts_object_decode(const void *data, size_t size)
{
    if (!data && size > 0) return ts_object_missing("object_decode: data");
    return decode_all(data, size, 1);
}

ts_status ts_object_decode_list(ts_object **item, int64_t n, const void *data, size_t size)
{
    ts_object *list = decode_all(data, size, 0);
    ts_status status = ts_object_status(list);
    if (status == TS_OK && ts_object_count(list) != n)
        status = ts_fail(TS_EFORMAT, "object_decode: %lld objects came, not %lld",
                         (long long)ts_object_count(list), (long long)n);
    for (int64_t i = 0; status == TS_OK && i < n; i++) {
        item[i] = list->list.item[i];
        item[i]->parent = NULL;
    }
    if (status == TS_OK) list->list.count = 0;
    ts_object_free(list);
    return status;
}

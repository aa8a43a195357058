/* SPDX-License-Identifier: Apache-2.0 */
/* Objects and safetensors files. */
#include <stdlib.h>
#include <string.h>
#include <tessera/scope.h>

#include "base/memory.h"
#include "formats/safetensors.h"
#include "object/object.h"
#include "serialize/serialize.h"

/* ---- reading --------------------------------------------------------------------------------- */

static ts_status add_tensor(ts_object *map, const ts_mapped *file, const ts_safetensors_entry *e)
{
    ts_storage *part = ts_mapped_part(file, e->begin, e->end - e->begin, ts_dtype_size(e->dtype));
    if (!part) return TS_ENOMEM;
    ts_spec spec = {e->shape, e->dtype, TS_CPU};
    ts_status status = e->dtype == TS_BOOL ? ts_check_bools(part, e->name) : TS_OK;
    ts_tensor *t = status == TS_OK ? ts_tensor_over(part, &spec, 0) : NULL;
    ts_storage_release(part);
    if (status != TS_OK) return status;
    ts_object_set(map, e->name, ts_object_tensor(t));
    ts_release(t);
    return ts_object_status(map);
}

ts_object *ts_safetensors_load(const ts_mapped *file)
{
    ts_safetensors s;
    ts_status status = ts_safetensors_read(&s, file->data, file->size);
    if (status != TS_OK) return ts_object_fail_last(status);
    ts_object *map = ts_object_map();
    for (int64_t i = 0; status == TS_OK && i < s.count; i++)
        status = add_tensor(map, file, &s.entry[i]);
    if (status != TS_OK) ts_object_become_failed(map, status);
    ts_safetensors_free(&s);
    return map;
}

ts_object *ts_safetensors_load_metadata(const ts_mapped *file)
{
    ts_safetensors s;
    ts_status status = ts_safetensors_read(&s, file->data, file->size);
    if (status != TS_OK) return ts_object_fail_last(status);
    ts_object *map = ts_object_map();
    for (int64_t i = 0; i < s.pairs; i++)
        ts_object_set(map, s.metadata[i].key, ts_object_text(s.metadata[i].value));
    ts_safetensors_free(&s);
    return map;
}

/* ---- writing --------------------------------------------------------------------------------- */

static ts_status check_entry(const char *name, const ts_object *item)
{
    if (ts_object_kind_of(item) != TS_OBJECT_TENSOR)
        return ts_fail(TS_EINVAL,
                       "safetensors holds tensors only; '%s' is %s (torch.save takes it)", name,
                       ts_object_kind_name(ts_object_kind_of(item)));
    if (strcmp(name, "__metadata__") == 0)
        return ts_fail(TS_EINVAL, "safetensors: no tensor can be called '__metadata__'");
    return TS_OK;
}

static ts_status describe(ts_safetensors *s, const ts_object *map)
{
    int64_t count = ts_object_count(map);
    s->entry = ts_calloc((size_t)count, sizeof *s->entry);
    if (!s->entry) return ts_fail_memory((size_t)count * sizeof *s->entry, "a header");
    for (int64_t i = 0; i < count; i++) {
        const char *name = ts_object_key_at(map, i);
        const ts_object *item = ts_object_at(map, i);
        TS_TRY(check_entry(name, item));
        ts_safetensors_entry *e = &s->entry[i];
        e->name = ts_strdup(name);
        if (!e->name) return ts_fail_memory(strlen(name), "a header");
        s->count++;
        e->dtype = (ts_dtype)item->tensor->dtype;
        e->shape = item->tensor->shape;
    }
    return TS_OK;
}

static ts_status add_pair(ts_safetensors *s, const char *key, const char *value)
{
    ts_safetensors_pair *pair = &s->metadata[s->pairs++];
    pair->key = ts_strdup(key);
    pair->value = ts_strdup(value);
    return pair->key && pair->value ? TS_OK : ts_fail_memory(strlen(key), "a header");
}

static ts_status describe_metadata(ts_safetensors *s, const ts_object *metadata)
{
    int64_t count = metadata ? ts_object_count(metadata) : 1;
    s->metadata = ts_calloc((size_t)count, sizeof *s->metadata);
    if (!s->metadata) return ts_fail_memory((size_t)count * sizeof *s->metadata, "a header");
    if (!metadata) return add_pair(s, "format", "pt");
    if (ts_object_kind_of(metadata) != TS_OBJECT_MAP)
        return ts_fail(TS_EINVAL, "safetensors: the metadata is %s, not a map of texts",
                       ts_object_kind_name(ts_object_kind_of(metadata)));
    for (int64_t i = 0; i < count; i++) {
        const char *text;
        TS_TRY(ts_object_as_text(ts_object_at(metadata, i), &text));
        TS_TRY(add_pair(s, ts_object_key_at(metadata, i), text));
    }
    return TS_OK;
}

static ts_status write_tensor(ts_out *out, ts_tensor *t)
{
    ts_scope scope = ts_scope_begin();
    ts_tensor *flat = t->contiguous
                          ? t
                          : ts_tensor_new(&(ts_spec){t->shape, (ts_dtype)t->dtype, TS_CPU},
                                          TS_MEMORY_HEAP, TS_CATEGORY_STAGING);
    ts_status status = ts_tensor_check(flat, "save: a copy");
    if (status == TS_OK && flat != t) status = ts_tensor_copy_data(flat, t);
    if (status == TS_OK) status = ts_out_write(out, ts_tensor_bytes(flat), ts_nbytes(flat));
    ts_scope_end(scope);
    return status;
}

static ts_status write_all(ts_out *out, ts_safetensors *s, const ts_object *map)
{
    void *head;
    size_t size;
    TS_TRY(ts_safetensors_header(&head, &size, s));
    ts_status status = ts_out_write(out, head, size);
    free(head);
    for (int64_t i = 0; status == TS_OK && i < s->count; i++)
        status = write_tensor(out, ts_object_get(map, s->entry[i].name)->tensor);
    return status;
}

ts_status ts_safetensors_write(ts_out *out, const ts_object *object, const ts_save_options *opt)
{
    if (ts_object_kind_of(object) != TS_OBJECT_MAP)
        return ts_fail(TS_EINVAL, "safetensors holds a map of tensors, not %s",
                       ts_object_kind_name(ts_object_kind_of(object)));
    ts_safetensors s = {0};
    ts_status status = describe(&s, object);
    if (status == TS_OK) status = describe_metadata(&s, opt->metadata);
    if (status == TS_OK) status = write_all(out, &s, object);
    ts_safetensors_free(&s);
    return status;
}

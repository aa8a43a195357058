/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/safetensors.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "formats/little.h"
#include "formats/utf8.h"

enum { HEAD = 8, MOST_HEADER = 100 * 1000 * 1000 }; /* the format's own limit */

/* By ts_dtype; the format has no name for complex128.  place: in which order the reference writes
 * them, wider ones first. */
static const struct {
    const char *name;
    int place;
} dtypes[TS_NUM_DTYPES] = {
    [TS_INT64] = {"I64", 0},   [TS_FLOAT64] = {"F64", 1}, [TS_COMPLEX64] = {"C64", 2},
    [TS_FLOAT32] = {"F32", 3}, [TS_INT32] = {"I32", 4},   [TS_BFLOAT16] = {"BF16", 5},
    [TS_FLOAT16] = {"F16", 6}, [TS_INT16] = {"I16", 7},   [TS_INT8] = {"I8", 8},
    [TS_UINT8] = {"U8", 9},    [TS_BOOL] = {"BOOL", 10}};

bool ts_safetensors_probe(const uint8_t *data, size_t size)
{
    return size > HEAD && data[HEAD] == '{' && ts_little64(data) <= MOST_HEADER;
}

void ts_safetensors_free(ts_safetensors *s)
{
    for (int64_t i = 0; i < s->count; i++) free(s->entry[i].name);
    for (int64_t i = 0; i < s->pairs; i++) {
        free(s->metadata[i].key);
        free(s->metadata[i].value);
    }
    free(s->entry);
    free(s->metadata);
    *s = (ts_safetensors){0};
}

/* ---- reading --------------------------------------------------------------------------------- */

/* A whole number >= 0 that a double holds exactly. */
static bool whole(uint64_t *out, const cJSON *number)
{
    double value = cJSON_IsNumber(number) ? number->valuedouble : -1;
    if (!(value >= 0 && value < 9007199254740992.0) || value != (double)(uint64_t)value)
        return false;
    *out = (uint64_t)value;
    return true;
}

static ts_status read_dtype(ts_safetensors_entry *e, const cJSON *item)
{
    const char *text = cJSON_GetStringValue(item);
    for (int i = 0; text && i < TS_NUM_DTYPES; i++)
        if (dtypes[i].name && strcmp(dtypes[i].name, text) == 0) {
            e->dtype = (ts_dtype)i;
            return TS_OK;
        }
    return ts_fail(text ? TS_EUNSUPPORTED : TS_EFORMAT, "safetensors: '%s' has dtype %s", e->name,
                   text ? text : "of no name");
}

static ts_status read_shape(ts_safetensors_entry *e, const cJSON *item)
{
    const cJSON *size;
    if (!cJSON_IsArray(item)) return ts_fail(TS_EFORMAT, "safetensors: '%s' has no shape", e->name);
    cJSON_ArrayForEach(size, item)
    {
        uint64_t value;
        if (e->shape.ndim == TS_MAX_DIMS)
            return ts_fail(TS_EUNSUPPORTED, "safetensors: '%s' has more than %d dimensions",
                           e->name, TS_MAX_DIMS);
        if (!whole(&value, size))
            return ts_fail(TS_EFORMAT, "safetensors: a size of '%s' is not a whole number",
                           e->name);
        e->shape.dim[e->shape.ndim++] = (int64_t)value;
    }
    return TS_OK;
}

static ts_status read_range(ts_safetensors_entry *e, const cJSON *item, uint64_t first,
                            uint64_t size)
{
    uint64_t begin, end;
    if (!cJSON_IsArray(item) || cJSON_GetArraySize(item) != 2 ||
        !whole(&begin, cJSON_GetArrayItem(item, 0)) || !whole(&end, cJSON_GetArrayItem(item, 1)))
        return ts_fail(TS_EFORMAT,
                       "safetensors: the data_offsets of '%s' are not two whole numbers", e->name);
    if (begin > end || end > size - first)
        return ts_fail(TS_EFORMAT,
                       "safetensors: '%s' claims bytes %llu to %llu of %llu; the file is cut or "
                       "damaged",
                       e->name, (unsigned long long)begin, (unsigned long long)end,
                       (unsigned long long)(size - first));
    int64_t numel = ts_shape_numel(e->shape);
    uint64_t each = ts_dtype_size(e->dtype), bytes = end - begin;
    if (numel < 0 || bytes % each != 0 || bytes / each != (uint64_t)numel) {
        char text[TS_SHAPE_TEXT];
        return ts_fail(TS_EFORMAT, "safetensors: '%s' has %llu bytes, not those of %s %s", e->name,
                       (unsigned long long)bytes, ts_dtype_name(e->dtype),
                       ts_shape_format(text, sizeof text, e->shape));
    }
    e->begin = first + begin;
    e->end = first + end;
    return TS_OK;
}

static ts_status read_entry(ts_safetensors *s, const cJSON *item, uint64_t first, uint64_t size)
{
    ts_safetensors_entry *e = &s->entry[s->count];
    e->name = ts_strdup(item->string);
    if (!e->name) return ts_fail_memory(strlen(item->string), "a safetensors header");
    s->count++;
    if (!cJSON_IsObject(item))
        return ts_fail(TS_EFORMAT, "safetensors: '%s' is not described", e->name);
    TS_TRY(read_dtype(e, cJSON_GetObjectItemCaseSensitive(item, "dtype")));
    TS_TRY(read_shape(e, cJSON_GetObjectItemCaseSensitive(item, "shape")));
    return read_range(e, cJSON_GetObjectItemCaseSensitive(item, "data_offsets"), first, size);
}

static ts_status read_metadata(ts_safetensors *s, const cJSON *map)
{
    const cJSON *item;
    if (!cJSON_IsObject(map) || s->metadata)
        return ts_fail(TS_EFORMAT, "safetensors: __metadata__ is not one map of texts");
    s->metadata = ts_calloc((size_t)cJSON_GetArraySize(map), sizeof *s->metadata);
    if (!s->metadata) return ts_fail_memory(sizeof *s->metadata, "a safetensors header");
    cJSON_ArrayForEach(item, map)
    {
        if (!cJSON_IsString(item))
            return ts_fail(TS_EFORMAT, "safetensors: '%s' in __metadata__ is not text",
                           item->string);
        ts_safetensors_pair *pair = &s->metadata[s->pairs++];
        pair->key = ts_strdup(item->string);
        pair->value = ts_strdup(item->valuestring);
        if (!pair->key || !pair->value) return ts_fail_memory(64, "a safetensors header");
    }
    return TS_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(ts_safetensors_entry *const *)a)->name,
                  (*(ts_safetensors_entry *const *)b)->name);
}

static int by_place(const void *a, const void *b)
{
    const ts_safetensors_entry *x = *(ts_safetensors_entry *const *)a;
    const ts_safetensors_entry *y = *(ts_safetensors_entry *const *)b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static ts_status check_sorted(ts_safetensors_entry **order, int64_t n, uint64_t first,
                              uint64_t size)
{
    qsort(order, (size_t)n, sizeof *order, by_name);
    for (int64_t i = 1; i < n; i++)
        if (by_name(&order[i - 1], &order[i]) == 0)
            return ts_fail(TS_EFORMAT, "safetensors: there are two tensors '%s'", order[i]->name);
    qsort(order, (size_t)n, sizeof *order, by_place);
    uint64_t end = first;
    for (int64_t i = 0; i < n; i++) {
        if (order[i]->begin != end)
            return ts_fail(TS_EFORMAT, "safetensors: the bytes of '%s' %s", order[i]->name,
                           order[i]->begin < end ? "overlap another tensor's"
                                                 : "do not follow the tensor before");
        end = order[i]->end;
    }
    if (end == size) return TS_OK;
    return ts_fail(TS_EFORMAT, "safetensors: %llu bytes at the end belong to no tensor",
                   (unsigned long long)(size - end));
}

static ts_status check_cover(ts_safetensors *s, uint64_t first, uint64_t size)
{
    ts_safetensors_entry **order = ts_calloc((size_t)s->count, sizeof *order);
    if (!order) return ts_fail_memory((size_t)s->count * sizeof *order, "a safetensors header");
    for (int64_t i = 0; i < s->count; i++) order[i] = &s->entry[i];
    ts_status status = check_sorted(order, s->count, first, size);
    free(order);
    return status;
}

static ts_status read_items(ts_safetensors *s, const cJSON *root, uint64_t first, uint64_t size)
{
    const cJSON *item;
    if (!cJSON_IsObject(root))
        return ts_fail(TS_EFORMAT, "safetensors: the header is not a JSON object");
    s->entry = ts_calloc((size_t)cJSON_GetArraySize(root), sizeof *s->entry);
    if (!s->entry) return ts_fail_memory(sizeof *s->entry, "a safetensors header");
    cJSON_ArrayForEach(item, root)
    {
        if (strcmp(item->string, "__metadata__") == 0)
            TS_TRY(read_metadata(s, item));
        else
            TS_TRY(read_entry(s, item, first, size));
    }
    return check_cover(s, first, size);
}

/* cJSON ends texts at a zero character, which no name has. */
static bool has_zero(const char *text, size_t size)
{
    return memchr(text, 0, size) || memmem(text, size, "\\u0000", 6);
}

static ts_status check_text(const char *text, size_t size)
{
    if (!ts_utf8_valid(text, size, NULL))
        return ts_fail(TS_EFORMAT, "safetensors: the header is not UTF-8");
    if (has_zero(text, size))
        return ts_fail(TS_EFORMAT, "safetensors: the header has a zero character");
    return TS_OK;
}

ts_status ts_safetensors_read(ts_safetensors *out, const uint8_t *data, size_t size)
{
    *out = (ts_safetensors){0};
    if (size < HEAD) return ts_fail(TS_EFORMAT, "safetensors: the file has %zu bytes only", size);
    uint64_t length = ts_little64(data);
    if (length > MOST_HEADER || length > size - HEAD)
        return ts_fail(TS_EFORMAT, "safetensors: the header claims %llu bytes of a file of %zu",
                       (unsigned long long)length, size);
    const char *text = (const char *)data + HEAD;
    TS_TRY(check_text(text, (size_t)length));
    const char *end = text;
    cJSON *root = cJSON_ParseWithLengthOpts(text, (size_t)length, &end, 0);
    while (root && end < text + length && strchr(" \t\r\n", *end)) end++;
    if (!root || end < text + length) {
        cJSON_Delete(root);
        return ts_fail(TS_EFORMAT, "safetensors: the header is not JSON at its byte %lld",
                       (long long)(end - text));
    }
    ts_status status = read_items(out, root, HEAD + length, size);
    cJSON_Delete(root);
    if (status != TS_OK) ts_safetensors_free(out);
    return status;
}

/* ---- writing --------------------------------------------------------------------------------- */

static int by_dtype_and_name(const void *a, const void *b)
{
    const ts_safetensors_entry *x = a, *y = b;
    int difference = dtypes[x->dtype].place - dtypes[y->dtype].place;
    return difference ? difference : strcmp(x->name, y->name);
}

static bool add_metadata(cJSON *root, const ts_safetensors *s)
{
    cJSON *map = s->pairs > 0 ? cJSON_AddObjectToObject(root, "__metadata__") : NULL;
    for (int64_t i = 0; i < s->pairs; i++)
        if (!cJSON_AddStringToObject(map, s->metadata[i].key, s->metadata[i].value)) return false;
    return s->pairs == 0 || map;
}

static bool add_number(cJSON *array, uint64_t number)
{
    cJSON *item = cJSON_CreateNumber((double)number);
    return item && cJSON_AddItemToArray(array, item);
}

static bool add_entry(cJSON *root, ts_safetensors_entry *e, uint64_t *at)
{
    cJSON *item = cJSON_AddObjectToObject(root, e->name);
    if (!item || !cJSON_AddStringToObject(item, "dtype", dtypes[e->dtype].name)) return false;
    cJSON *shape = cJSON_AddArrayToObject(item, "shape");
    for (int d = 0; d < e->shape.ndim; d++)
        if (!shape || !add_number(shape, (uint64_t)e->shape.dim[d])) return false;
    cJSON *range = cJSON_AddArrayToObject(item, "data_offsets");
    e->begin = *at;
    e->end = *at += (uint64_t)ts_shape_numel(e->shape) * ts_dtype_size(e->dtype);
    return shape && range && add_number(range, e->begin) && add_number(range, e->end);
}

static char *print_header(ts_safetensors *s)
{
    cJSON *root = cJSON_CreateObject();
    uint64_t at = 0;
    bool good = root && add_metadata(root, s);
    for (int64_t i = 0; good && i < s->count; i++) good = add_entry(root, &s->entry[i], &at);
    char *text = good ? cJSON_PrintUnformatted(root) : NULL;
    cJSON_Delete(root);
    return text;
}

ts_status ts_safetensors_header(void **data, size_t *size, ts_safetensors *s)
{
    for (int64_t i = 0; i < s->count; i++)
        if (!dtypes[s->entry[i].dtype].name)
            return ts_fail(TS_EDTYPE, "safetensors: '%s' is %s, for which the format has no name",
                           s->entry[i].name, ts_dtype_name(s->entry[i].dtype));
    qsort(s->entry, (size_t)s->count, sizeof *s->entry, by_dtype_and_name);
    char *text = print_header(s);
    size_t length = text ? strlen(text) : 0, padded = (length + 7) / 8 * 8;
    uint8_t *head = text ? malloc(HEAD + padded) : NULL;
    if (head) {
        ts_put_little(head, padded, 8);
        memset(head + HEAD, ' ', padded);
        memcpy(head + HEAD, text, length);
    }
    free(text);
    if (!head) return ts_fail_memory(padded, "a safetensors header");
    *data = head;
    *size = HEAD + padded;
    return TS_OK;
}

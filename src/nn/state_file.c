/* SPDX-License-Identifier: Apache-2.0 */
/* State dicts as objects and in files. */
#include <string.h>
#include <tessera/formats.h>
#include <tessera/scope.h>

#include "nn/module_impl.h"
#include "tensor/tensor.h"

ts_object *ts_tensor_list_to_object(const ts_tensor_list *list)
{
    ts_object *map = ts_object_map();
    for (int64_t i = 0; i < ts_tensor_list_count(list); i++)
        ts_object_set(map, ts_tensor_list_name(list, i),
                      ts_object_tensor(ts_tensor_list_get(list, i)));
    return map;
}

static ts_status add_entries(ts_tensor_list *list, const ts_object *map)
{
    for (int64_t i = 0; i < ts_object_count(map); i++) {
        const ts_object *item = ts_object_at(map, i);
        const char *name = ts_object_key_at(map, i);
        if (ts_object_kind_of(item) != TS_OBJECT_TENSOR)
            return ts_fail(TS_EINVAL,
                           "state dict: '%s' is no tensor; of a checkpoint, give the part that is "
                           "the state dict",
                           name);
        TS_TRY(ts_tensor_list_add(list, name, ts_object_as_tensor(item)));
    }
    return TS_OK;
}

ts_status ts_tensor_list_from_object(ts_tensor_list **out, const ts_object *map)
{
    TS_TRY(ts_object_status(map));
    if (ts_object_kind_of(map) != TS_OBJECT_MAP)
        return ts_fail(TS_EINVAL, "state dict: the object is no map of tensors");
    ts_tensor_list *list = ts_tensor_list_new();
    if (!list) return TS_ENOMEM;
    ts_scope scope = ts_scope_begin();
    ts_status status = add_entries(list, map);
    ts_scope_end(scope);
    if (status == TS_OK)
        *out = list;
    else
        ts_tensor_list_free(list);
    return status;
}

/* ---- files ----------------------------------------------------------------------------------- */

static bool is_safetensors(const char *path)
{
    static const char end[] = ".safetensors";
    size_t n = strlen(path), m = strlen(end);
    return n >= m && strcmp(path + n - m, end) == 0;
}

/* Was the tensor under an earlier name? */
static bool is_repeated(const ts_tensor_list *list, int64_t i)
{
    const ts_tensor *t = ts_tensor_list_get(list, i);
    for (int64_t k = 0; k < i; k++) {
        const ts_tensor *before = ts_tensor_list_get(list, k);
        if (before->storage == t->storage && before->offset == t->offset && t->numel > 0 &&
            ts_shape_equal(before->shape, t->shape))
            return true;
    }
    return false;
}

static ts_object *each_once(const ts_tensor_list *list)
{
    ts_object *map = ts_object_map();
    for (int64_t i = 0; i < ts_tensor_list_count(list); i++)
        if (!is_repeated(list, i))
            ts_object_set(map, ts_tensor_list_name(list, i),
                          ts_object_tensor(ts_tensor_list_get(list, i)));
    return map;
}

ts_status ts_module_save(const ts_module *m, const char *path)
{
    TS_TRY(ts_module_status(m));
    if (!path) return ts_fail(TS_EINVAL, "module_save: the path is missing (NULL)");
    ts_tensor_list *list = ts_module_state_dict(m);
    if (!list) return TS_ENOMEM;
    ts_object *map = is_safetensors(path) ? each_once(list) : ts_tensor_list_to_object(list);
    ts_status status = ts_save(map, path, NULL);
    ts_object_free(map);
    ts_tensor_list_free(list);
    return status;
}

ts_status ts_module_load(ts_object **report, ts_module *m, const char *path, bool strict)
{
    ts_tensor_list *list = NULL;
    if (report) *report = NULL;
    TS_TRY(ts_module_status(m));
    ts_object *map = ts_load(path, NULL);
    ts_status status = ts_tensor_list_from_object(&list, map);
    ts_object_free(map);
    if (status == TS_OK) status = ts_module_load_reporting(report, m, list, strict);
    ts_tensor_list_free(list);
    return status;
}

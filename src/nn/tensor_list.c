/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of named tensors, in order: parameters, buffers, state dicts. */
#include <stdlib.h>
#include <tessera/module.h>
#include <tessera/scope.h>

#include "base/error.h"
#include "base/memory.h"
#include "tensor/tensor.h"

struct ts_tensor_list {
    ts_map map; /* name to tensor, one reference each */
};

ts_tensor_list *ts_tensor_list_new(void)
{
    ts_tensor_list *list = ts_calloc(1, sizeof *list);
    if (!list) ts_fail_memory(sizeof *list, "a list of tensors");
    return list;
}

ts_status ts_tensor_list_add(ts_tensor_list *list, const char *name, ts_tensor *t)
{
    if (!list || !name) return ts_fail(TS_EINVAL, "tensor_list_add: a list and a name are needed");
    TS_TRY(ts_tensor_check(t, name));
    if (ts_map_get(&list->map, name))
        return ts_fail(TS_EINVAL, "tensor_list_add: the list already has a tensor called '%s'",
                       name);
    if (!ts_map_set(&list->map, name, t)) return ts_fail_memory(sizeof t, "a list of tensors");
    ts_retain(t);
    return TS_OK;
}

void ts_tensor_list_free(ts_tensor_list *list)
{
    if (!list) return;
    for (int64_t i = 0; i < list->map.count; i++) ts_release(list->map.entry[i].value);
    ts_map_fini(&list->map);
    free(list);
}

int64_t ts_tensor_list_count(const ts_tensor_list *list) { return list ? list->map.count : 0; }

static bool inside(const ts_tensor_list *list, int64_t i)
{
    return list && i >= 0 && i < list->map.count;
}

ts_tensor *ts_tensor_list_get(const ts_tensor_list *list, int64_t i)
{
    return inside(list, i) ? list->map.entry[i].value : NULL;
}

const char *ts_tensor_list_name(const ts_tensor_list *list, int64_t i)
{
    return inside(list, i) ? list->map.entry[i].key : "";
}

ts_tensor *ts_tensor_list_find(const ts_tensor_list *list, const char *name)
{
    return list && name ? ts_map_get(&list->map, name) : NULL;
}

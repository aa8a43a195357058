/* SPDX-License-Identifier: Apache-2.0 */
/* Lists and maps: what goes in, and what can be found there. */
#include <string.h>

#include "formats/utf8.h"
#include "object/object.h"

/* ---- putting in ------------------------------------------------------------------------------ */

static const ts_object *root_of(const ts_object *o)
{
    while (o->parent) o = o->parent;
    return o;
}

/* TS_OK if container may own item. */
static ts_status check_item(const char *op, const ts_object *container, const ts_object *item)
{
    TS_TRY(ts_object_status(item));
    if (item && item->parent)
        return ts_fail(TS_EINVAL, "%s: the object is in a container already; make another one", op);
    if (item == root_of(container))
        return ts_fail(TS_EINVAL, "%s: the object would contain itself", op);
    return TS_OK;
}

static ts_status check_container(const char *op, const ts_object *o, ts_object_kind wanted)
{
    if (o->kind == wanted) return TS_OK;
    return ts_fail(TS_EINVAL, "%s: the container is %s, not %s", op, ts_object_kind_name(o->kind),
                   ts_object_kind_name(wanted));
}

/* The container fails with the error just worded; the item is let go unless it has an owner. */
static ts_object *give_up(ts_object *container, ts_object *item, ts_status status)
{
    bool within = container && item && root_of(container) == item;
    ts_object_become_failed(container, status);
    if (!within) ts_object_free(item);
    return container;
}

static ts_status append(ts_object *list, ts_object *item)
{
    TS_TRY(check_container("object_append", list, TS_OBJECT_LIST));
    TS_TRY(check_item("object_append", list, item));
    if (ts_vec_push(&list->list, item)) return TS_OK;
    return ts_fail_memory(sizeof item, "a list entry");
}

static ts_status set(ts_object *map, const char *key, ts_object *item)
{
    TS_TRY(check_container("object_set", map, TS_OBJECT_MAP));
    if (!key || !ts_utf8_valid(key, strlen(key), NULL))
        return ts_fail(TS_EINVAL, "object_set: the key is %s",
                       key ? "not UTF-8" : "missing (NULL)");
    TS_TRY(check_item("object_set", map, item));
    ts_object *old = ts_map_get(&map->map, key);
    if (!ts_map_set(&map->map, key, item)) return ts_fail_memory(strlen(key) + 1, "a map entry");
    if (old) old->parent = NULL;
    ts_object_free(old);
    return TS_OK;
}

ts_object *ts_object_append(ts_object *list, ts_object *item)
{
    if (!item) item = ts_object_null();
    if (!list) list = ts_object_missing("object_append: the list");
    if (list->kind == TS_OBJECT_FAILED) return give_up(list, item, list->status);
    ts_status status = append(list, item);
    if (status != TS_OK) return give_up(list, item, status);
    item->parent = list;
    return list;
}

ts_object *ts_object_set(ts_object *map, const char *key, ts_object *item)
{
    if (!item) item = ts_object_null();
    if (!map) map = ts_object_missing("object_set: the map");
    if (map->kind == TS_OBJECT_FAILED) return give_up(map, item, map->status);
    ts_status status = set(map, key, item);
    if (status != TS_OK) return give_up(map, item, status);
    item->parent = map;
    return map;
}

/* ---- finding --------------------------------------------------------------------------------- */

int64_t ts_object_count(const ts_object *o)
{
    if (!o) return 0;
    return o->kind == TS_OBJECT_LIST ? o->list.count : o->kind == TS_OBJECT_MAP ? o->map.count : 0;
}

ts_object *ts_object_at(const ts_object *o, int64_t i)
{
    if (i < 0 || i >= ts_object_count(o)) return NULL;
    return o->kind == TS_OBJECT_LIST ? o->list.item[i] : o->map.entry[i].value;
}

const char *ts_object_key_at(const ts_object *o, int64_t i)
{
    bool there = o && o->kind == TS_OBJECT_MAP && i >= 0 && i < o->map.count;
    return there ? o->map.entry[i].key : NULL;
}

ts_object *ts_object_get(const ts_object *o, const char *key)
{
    return o && o->kind == TS_OBJECT_MAP && key ? ts_map_get(&o->map, key) : NULL;
}

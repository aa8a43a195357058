/* SPDX-License-Identifier: Apache-2.0 */
/* Paths, look-up and walks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "nn/module_impl.h"
#include "tensor/tensor.h"

char *ts_module_path_below(char *buf, size_t size, const ts_module *m, const ts_module *above)
{
    size_t at = size - 1;
    buf[at] = '\0';
    for (; m->parent && m != above; m = m->parent) {
        size_t length = strlen(m->name), dot = buf[at] != '\0';
        if (length + dot > at) break;
        if (dot) buf[--at] = '.';
        at -= length;
        memcpy(buf + at, m->name, length);
    }
    return memmove(buf, buf + at, size - at);
}

char *ts_module_path(char *buf, size_t size, const ts_module *m)
{
    return ts_module_path_below(buf, size, m, NULL);
}

/* ---- look-up --------------------------------------------------------------------------------- */

/* Walks down the parts of path that end before `end`. */
static const ts_module *descend(const ts_module *m, const char *path, const char *end)
{
    while (m && path < end) {
        const char *dot = memchr(path, '.', (size_t)(end - path));
        const char *stop = dot ? dot : end;
        m = ts_module_find_child(m, path, (size_t)(stop - path));
        path = stop + 1;
    }
    return m;
}

ts_module *ts_module_child(const ts_module *m, const char *path)
{
    if (!m || !path) return NULL;
    return (ts_module *)descend(m, path, path + strlen(path));
}

/* The slot at path, in parameters or buffers. */
static ts_slot *find_slot(const ts_module *m, const char *path, bool buffers)
{
    const char *dot = strrchr(path, '.');
    const ts_module *owner = dot ? descend(m, path, dot) : m;
    if (!owner) return NULL;
    return ts_slots_find(buffers ? &owner->buffers : &owner->parameters, dot ? dot + 1 : path);
}

ts_tensor *ts_module_parameter(const ts_module *m, const char *path)
{
    ts_slot *slot = m && path ? find_slot(m, path, false) : NULL;
    return slot ? slot->tensor : NULL;
}

/* ---- walks ----------------------------------------------------------------------------------- */

/* A path that grows and shrinks with the walk. */
typedef struct walk {
    char *text;
    size_t length, capacity;
} walk;

static ts_status walk_push(walk *w, const char *name, size_t *mark)
{
    *mark = w->length;
    size_t need = w->length + strlen(name) + 2;
    if (need > w->capacity) {
        char *grown = ts_grow(w->text, 2 * need, 1);
        if (!grown) return ts_fail_memory(2 * need, "the path of a module");
        w->text = grown;
        w->capacity = 2 * need;
    }
    w->length += (size_t)sprintf(w->text + w->length, "%s%s", w->length ? "." : "", name);
    return TS_OK;
}

static void walk_pop(walk *w, size_t mark)
{
    w->length = mark;
    if (w->text) w->text[mark] = '\0';
}

/* Begins with the path of m in its tree, or empty. */
static ts_status walk_init(walk *w, const char *from)
{
    size_t mark;
    *w = (walk){0};
    return walk_push(w, from, &mark);
}

typedef ts_status (*tensor_visitor)(const ts_named *named, void *user);

static ts_status visit_slots(const ts_slots *slots, bool are_buffers, walk *w, tensor_visitor fn,
                             void *user)
{
    for (int64_t i = 0; i < slots->count; i++) {
        const ts_slot *slot = &slots->item[i];
        if (!slot->tensor) continue;
        size_t mark;
        TS_TRY(walk_push(w, slot->name, &mark));
        ts_named named = {w->text, slot->tensor, are_buffers, slot->persistent};
        TS_TRY(fn(&named, user));
        walk_pop(w, mark);
    }
    return TS_OK;
}

static ts_status visit_tensors(const ts_module *m, walk *w, tensor_visitor fn, void *user)
{
    TS_TRY(visit_slots(&m->parameters, false, w, fn, user));
    TS_TRY(visit_slots(&m->buffers, true, w, fn, user));
    for (int64_t i = 0; i < m->children.count; i++) {
        const ts_module *child = m->children.item[i];
        size_t mark;
        TS_TRY(walk_push(w, child->name, &mark));
        TS_TRY(visit_tensors(child, w, fn, user));
        walk_pop(w, mark);
    }
    return TS_OK;
}

ts_status ts_module_visit_tensors(const ts_module *m, tensor_visitor fn, void *user)
{
    TS_TRY(ts_module_status(m));
    walk w;
    ts_status status = walk_init(&w, "");
    if (status == TS_OK) status = visit_tensors(m, &w, fn, user);
    free(w.text);
    return status;
}

static ts_status visit_modules(ts_module *m, walk *w,
                               ts_status (*fn)(ts_module *, const char *, void *), void *user)
{
    for (int64_t i = 0; i < m->children.count; i++) {
        ts_module *child = m->children.item[i];
        size_t mark;
        TS_TRY(walk_push(w, child->name, &mark));
        TS_TRY(visit_modules(child, w, fn, user));
        walk_pop(w, mark);
    }
    return fn(m, w->text, user);
}

ts_status ts_module_apply(ts_module *m, ts_status (*fn)(ts_module *m, const char *path, void *user),
                          void *user)
{
    TS_TRY(ts_module_status(m));
    if (!fn) return ts_fail(TS_EINVAL, "module_apply: the function is missing (NULL)");
    walk w;
    ts_status status = walk_init(&w, "");
    if (status == TS_OK) status = visit_modules(m, &w, fn, user);
    free(w.text);
    return status;
}

/* ---- names of tensors ------------------------------------------------------------------------ */

static ts_status name_tensor(const ts_named *named, void *user)
{
    const ts_module *root = user;
    ts_tensor *t = named->tensor;
    const char *now = ts_tensor_name(t);
    ts_slot *slot = *now ? find_slot(root, now, named->is_buffer) : NULL;
    if (!slot || slot->tensor != t) ts_tensor_set_name(t, named->path);
    return TS_OK;
}

void ts_module_name_parameters(ts_module *m)
{
    char path[1024];
    ts_module *root = m;
    while (root->parent) root = root->parent;
    walk w;
    /* Names only serve messages: without memory they stay as they are. */
    if (walk_init(&w, ts_module_path(path, sizeof path, m)) == TS_OK)
        (void)visit_tensors(m, &w, name_tensor, root);
    free(w.text);
}

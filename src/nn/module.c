/* SPDX-License-Identifier: Apache-2.0 */
/* Making, building and freeing modules. */
#include "nn/module.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/autograd.h>

#include "base/log.h"
#include "nn/module_impl.h"
#include "tensor/tensor.h"

static const ts_module_class failed_class = {.name = "failed", .state_size = TS_MODULE_MAX_STATE};

ts_module ts_module_out_of_memory = {.klass = &failed_class, .status = TS_ENOMEM};

static ts_module *allocate(const ts_module_class *klass)
{
    size_t head = (sizeof(ts_module) + 63) / 64 * 64;
    ts_module *m = ts_calloc(1, head + klass->state_size);
    if (!m) {
        ts_fail_memory(head + klass->state_size, "a module");
        return &ts_module_out_of_memory;
    }
    m->klass = klass;
    m->state = (char *)m + head;
    m->training = true;
    return m;
}

ts_module *ts_module_new(const ts_module_class *klass)
{
    if (!klass || !klass->name) return ts_module_fail("module_new: a class with a name is needed");
    if (klass->state_size > TS_MODULE_MAX_STATE)
        return ts_module_fail("module_new: state of %s has %zu bytes; at most %d are possible",
                              klass->name, klass->state_size, TS_MODULE_MAX_STATE);
    return allocate(klass);
}

ts_module *ts_module_fail_last(ts_status status)
{
    ts_module *m = allocate(&failed_class);
    if (m == &ts_module_out_of_memory) return m;
    m->status = status;
    m->error = ts_strdup(ts_error_last());
    return m;
}

ts_module *ts_module_fail(const char *format, ...)
{
    char text[TS_ERROR_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return ts_module_fail_last(ts_fail(TS_EINVAL, "%s", text));
}

void ts_module_mark_failed(ts_module *m, ts_status status, const char *text)
{
    for (; m && m->status == TS_OK; m = m->parent) {
        m->status = status;
        m->error = ts_strdup(text);
    }
}

static void free_slots(ts_slots *slots)
{
    for (int64_t i = 0; i < slots->count; i++) {
        ts_release(slots->item[i].tensor);
        free(slots->item[i].name);
    }
    free(slots->item);
}

static void free_tree(ts_module *m)
{
    if (m->klass->fini) m->klass->fini(m);
    for (int64_t i = 0; i < m->children.count; i++) free_tree(m->children.item[i]);
    ts_vec_fini(&m->children);
    free_slots(&m->parameters);
    free_slots(&m->buffers);
    free(m->hook);
    free(m->name);
    free(m->error);
    free(m);
}

void ts_module_free(ts_module *root)
{
    if (!root || root == &ts_module_out_of_memory) return;
    if (root->parent) {
        TS_LOG(TS_LOG_NN, TS_LEVEL_WARNING,
               "module_free: %s '%s' belongs to its parent, which frees it; nothing was done",
               root->klass->name, root->name ? root->name : "");
        return;
    }
    free_tree(root);
}

void *ts_module_state(ts_module *m)
{
    static char scratch[TS_MODULE_MAX_STATE]; /* written by makers that go on without memory */
    return m && m->state ? m->state : memset(scratch, 0, sizeof scratch);
}

const ts_module_class *ts_module_class_of(const ts_module *m) { return m ? m->klass : NULL; }

ts_status ts_module_status(const ts_module *m)
{
    if (!m) return ts_fail(TS_EINVAL, "module is missing (NULL)");
    if (m->status == TS_OK) return TS_OK;
    return ts_fail_again(m->status, m->error ? m->error : "out of memory for a module");
}

/* ---- building -------------------------------------------------------------------------------- */

ts_slot *ts_slots_find(const ts_slots *slots, const char *name)
{
    for (int64_t i = 0; i < slots->count; i++)
        if (strcmp(slots->item[i].name, name) == 0) return &slots->item[i];
    return NULL;
}

ts_module *ts_module_find_child(const ts_module *m, const char *name, size_t length)
{
    for (int64_t i = 0; i < m->children.count; i++) {
        ts_module *child = m->children.item[i];
        if (strncmp(child->name, name, length) == 0 && child->name[length] == '\0') return child;
    }
    return NULL;
}

static ts_status check_name(const ts_module *m, const char *op, const char *name)
{
    if (!name || !*name || strchr(name, '.'))
        return ts_fail(TS_EINVAL, "%s: '%s' is not a name; it must not be empty or contain '.'", op,
                       name ? name : "(null)");
    if (ts_module_find_child(m, name, strlen(name)) || ts_slots_find(&m->parameters, name) ||
        ts_slots_find(&m->buffers, name))
        return ts_fail(TS_EINVAL, "%s: %s already has something called '%s'", op, m->klass->name,
                       name);
    return TS_OK;
}

static ts_status check_child(const ts_module *m, const char *name, const ts_module *child)
{
    TS_TRY(check_name(m, "module_add", name));
    if (child->parent)
        return ts_fail(
            TS_EINVAL,
            "module_add: '%s' already belongs to another module; a module has one parent", name);
    for (const ts_module *above = m; above; above = above->parent)
        if (above == child)
            return ts_fail(TS_EINVAL, "module_add: '%s' cannot contain itself", name);
    return TS_OK;
}

/* A child that is refused is still owned by m, unless it lives elsewhere: nothing leaks. */
static ts_status attach(ts_module *m, const char *name, ts_module *child)
{
    ts_status status = check_child(m, name, child);
    if (status != TS_OK && (child->parent || child == m)) return status;
    for (ts_module *above = m->parent; above; above = above->parent)
        if (above == child) return status;
    char *copy = ts_strdup(name ? name : "");
    if (!copy || !ts_vec_push(&m->children, child)) {
        free(copy);
        return ts_fail_memory(strlen(name) + sizeof child, "a child module");
    }
    child->name = copy;
    child->parent = m;
    return status != TS_OK ? status : ts_module_status(child);
}

ts_module *ts_module_add(ts_module *m, const char *name, ts_module *child)
{
    if (!m || m == &ts_module_out_of_memory) {
        ts_module_free(child);
        return &ts_module_out_of_memory;
    }
    if (!child) child = ts_module_fail("module_add: the module for '%s' is missing (NULL)", name);
    if (child == &ts_module_out_of_memory) {
        ts_module_mark_failed(m, TS_ENOMEM, "out of memory for a module");
        return child;
    }
    ts_status status = attach(m, name, child);
    if (status != TS_OK)
        ts_module_mark_failed(m, status, ts_error_last());
    else
        ts_module_name_parameters(child);
    return child;
}

static ts_status push_slot(ts_module *m, ts_slots *slots, const char *name, ts_tensor *t)
{
    TS_TRY(check_name(m, slots == &m->parameters ? "module_add_parameter" : "module_add_buffer",
                      name));
    if (slots->count == slots->capacity) {
        int64_t capacity = slots->capacity ? 2 * slots->capacity : 4;
        void *grown = ts_grow(slots->item, (size_t)capacity, sizeof *slots->item);
        if (!grown)
            return ts_fail_memory((size_t)capacity * sizeof *slots->item, "tensors of a module");
        slots->item = grown;
        slots->capacity = capacity;
    }
    char *copy = ts_strdup(name);
    if (!copy) return ts_fail_memory(strlen(name), "the name of a tensor");
    slots->item[slots->count++] = (ts_slot){.name = copy, .tensor = ts_retain(t)};
    return TS_OK;
}

static ts_status add_parameter(ts_module *m, const char *name, ts_tensor *t)
{
    if (t) {
        TS_TRY(ts_tensor_check(t, name));
        TS_TRY(ts_set_requires_grad(t, true));
        if (!ts_is_leaf(t))
            return ts_fail(TS_EINVAL,
                           "module_add_parameter: '%s' was made by an operation; detach it first",
                           name);
        ts_storage_set_category(t->storage, TS_CATEGORY_PARAMETER);
    }
    TS_TRY(push_slot(m, &m->parameters, name, t));
    if (t) ts_module_name_parameters(m);
    return TS_OK;
}

ts_tensor *ts_module_add_parameter(ts_module *m, const char *name, ts_tensor *t)
{
    if (!m || m->status != TS_OK) return t;
    ts_status status = add_parameter(m, name, t);
    if (status != TS_OK) ts_module_mark_failed(m, status, ts_error_last());
    return t;
}

static ts_status add_buffer(ts_module *m, const char *name, ts_tensor *t, bool persistent)
{
    if (t) TS_TRY(ts_tensor_check(t, name));
    TS_TRY(push_slot(m, &m->buffers, name, t));
    m->buffers.item[m->buffers.count - 1].persistent = persistent;
    if (t) ts_module_name_parameters(m);
    return TS_OK;
}

ts_tensor *ts_module_add_buffer(ts_module *m, const char *name, ts_tensor *t, bool persistent)
{
    if (!m || m->status != TS_OK) return t;
    ts_status status = add_buffer(m, name, t, persistent);
    if (status != TS_OK) ts_module_mark_failed(m, status, ts_error_last());
    return t;
}

/* ---- mode ------------------------------------------------------------------------------------ */

void ts_module_train(ts_module *m, bool training)
{
    if (!m || m == &ts_module_out_of_memory) return;
    bool changed = m->training != training;
    m->training = training;
    if (changed && m->klass->train) m->klass->train(m, training);
    for (int64_t i = 0; i < m->children.count; i++) ts_module_train(m->children.item[i], training);
}

bool ts_module_is_training(const ts_module *m) { return m && m->training; }

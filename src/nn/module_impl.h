/* SPDX-License-Identifier: Apache-2.0 */
/* The module object, for this folder. */
#ifndef TS_NN_MODULE_IMPL_H
#define TS_NN_MODULE_IMPL_H

#include <tessera/module.h>

#include "base/memory.h"
#include "nn/module.h"

typedef struct ts_slot { /* a named parameter or buffer */
    char *name;
    ts_tensor *tensor; /* a reference; NULL: registered as none */
    bool persistent;
} ts_slot;

typedef struct ts_slots {
    ts_slot *item;
    int64_t count, capacity;
} ts_slots;

typedef struct ts_module_hook {
    int64_t id;              /* 0: removed, swept when no call of the module runs */
    ts_forward_pre_hook pre; /* one of the four */
    ts_forward_hook post;
    ts_full_backward_pre_hook backward_pre;
    ts_full_backward_hook backward;
    void *user;
} ts_module_hook;

struct ts_module {
    const ts_module_class *klass;
    ts_module *parent; /* NULL: a root */
    char *name;        /* in the parent */
    ts_status status;
    char *error; /* failed: first cause; NULL if no memory was left for it */
    bool training;
    ts_vec children; /* of ts_module */
    ts_slots parameters, buffers;
    ts_module_hook *hook;
    int64_t num_hooks, hook_capacity, last_hook;
    int calls_running;
    bool hooks_removed;
    void *state; /* in the same block, after this struct */
};

/* The handle; 0 after ts_fail. */
int64_t ts_module_register_hook(ts_module *m, ts_module_hook hook);
/* Around a pass over m->hook: what is removed meanwhile stays in the list until the last ends. */
void ts_module_hooks_begin(ts_module *m);
void ts_module_hooks_end(ts_module *m);

/* Backward hooks (module_backward.c): puts a function before the inputs and one after the output,
 * if m has such hooks and there will be a backward.  A failed tensor or NULL. */
typedef struct ts_module_backward ts_module_backward;
ts_tensor *ts_module_hook_inputs(ts_module_backward **out, ts_module *m, ts_tensor **args, int n);
/* Lets call go. */
ts_tensor *ts_module_hook_output(ts_module_backward *call, ts_tensor *out);

/* What stands for a module when there is no memory for one.  Never freed, takes nothing in. */
extern ts_module ts_module_out_of_memory;

/* Makes m and the modules around it failed, unless they are; text is the first cause. */
void ts_module_mark_failed(ts_module *m, ts_status status, const char *text);
ts_module *ts_module_find_child(const ts_module *m, const char *name, size_t length);
ts_slot *ts_slots_find(const ts_slots *slots, const char *name);

/* Path of m from `above`, or from its root if above is NULL or not above m; as ts_module_path. */
char *ts_module_path_below(char *buf, size_t size, const ts_module *m, const ts_module *above);

/* ts_module_load_state_dict; *report, unless report is NULL, gets the names as ts_module_load's. */
ts_status ts_module_load_reporting(ts_object **report, ts_module *m, const ts_tensor_list *state,
                                   bool strict);

/* Names of tensors below m become paths from its root; a tied one keeps its first name. */
void ts_module_name_parameters(ts_module *m);

#endif

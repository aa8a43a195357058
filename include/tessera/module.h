/* SPDX-License-Identifier: Apache-2.0 */
/* Modules: named parameters, buffers and children, and a forward function.
 *
 * A new module floats: ts_module_add takes it over; a root is freed with ts_module_free.  A module
 * that could not be made is a failed module, inert, and its parent fails with the first cause. */
#ifndef TESSERA_MODULE_H
#define TESSERA_MODULE_H

#include <tessera/object.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ts_module ts_module;

#define TS_MODULE_MAX_ARGS 8

typedef struct ts_module_class {
    const char *name;  /* "Linear" */
    size_t state_size; /* at most TS_MODULE_MAX_STATE; zeroed */
    /* One of the two.  forward takes one tensor, forward_args the n that ts_module_call got. */
    ts_tensor *(*forward)(ts_module *self, ts_tensor *x);
    ts_tensor *(*forward_args)(ts_module *self, ts_tensor *const *args, int n);
    void (*fini)(ts_module *self); /* optional: frees what state owns besides children */
    void (*train)(ts_module *self, bool training); /* optional: told when the mode changes */
} ts_module_class;
#define TS_MODULE_MAX_STATE 4096

/* klass must outlive the module. */
TS_API ts_module *ts_module_new(const ts_module_class *klass);
TS_API void ts_module_free(ts_module *root); /* and its children; NULL is fine */
TS_API ts_module *ts_module_fail(const char *format, ...)
    TS_PRINTF(1, 2); /* a failed module (TS_EINVAL) */
/* The class's state; of a failed module a zeroed scratch block, so makers need no check. */
TS_API void *ts_module_state(ts_module *m);
TS_API const ts_module_class *ts_module_class_of(const ts_module *m);
TS_API ts_status ts_module_status(const ts_module *m); /* and ts_error_last, if not TS_OK */

/* ---- building: each returns what was added --------------------------------------------------- */
/* Names must be non-empty, without '.', and new in m. */
TS_API ts_module *ts_module_add(ts_module *m, const char *name, ts_module *child);
/* The parameter gets its own reference, requires grad, and the ledger category "parameter".  NULL
 * registers "none" and returns NULL.  One tensor may be registered in several places (tied). */
TS_API ts_tensor *ts_module_add_parameter(ts_module *m, const char *name, ts_tensor *t);
TS_API ts_tensor *ts_module_add_buffer(ts_module *m, const char *name, ts_tensor *t,
                                       bool persistent);

/* ---- calling --------------------------------------------------------------------------------- */
TS_API ts_tensor *ts_forward(ts_module *m, ts_tensor *x);
TS_API ts_tensor *ts_module_call(ts_module *m, ts_tensor *const *args, int n);

/* Hooks; removal by handle.  pre: may replace entries of args (which hold n tensors); a failed
 * entry stops the call.  post: returns the replacement or NULL for "unchanged". */
typedef ts_status (*ts_forward_pre_hook)(ts_module *m, ts_tensor **args, int n, void *user);
typedef ts_tensor *(*ts_forward_hook)(ts_module *m, ts_tensor *const *args, int n, ts_tensor *out,
                                      void *user);
TS_API int64_t ts_module_register_forward_pre_hook(ts_module *m, ts_forward_pre_hook hook,
                                                   void *user);
TS_API int64_t ts_module_register_forward_hook(ts_module *m, ts_forward_hook hook, void *user);
/* Of backward through a call of m.  pre runs when the gradient of the output is there and returns
 * the replacement or NULL for "unchanged".  The other one runs when the gradients of the n inputs
 * are there (NULL: none wanted or zero) and may replace entries of grad_in; grad_out is what the
 * output got.  If no input requires grad, it runs as soon as grad_out is there, with NULLs.
 * Failure stops backward.  They count for calls that begin after registering; m must live until
 * backward has run.  As PyTorch's, inputs and output are not to be changed in place. */
typedef ts_tensor *(*ts_full_backward_pre_hook)(ts_module *m, ts_tensor *grad_out, void *user);
typedef ts_status (*ts_full_backward_hook)(ts_module *m, ts_tensor **grad_in, int n,
                                           ts_tensor *grad_out, void *user);
TS_API int64_t ts_module_register_full_backward_pre_hook(ts_module *m,
                                                         ts_full_backward_pre_hook hook,
                                                         void *user);
TS_API int64_t ts_module_register_full_backward_hook(ts_module *m, ts_full_backward_hook hook,
                                                     void *user);
TS_API void ts_module_remove_hook(ts_module *m, int64_t handle);

TS_API void ts_module_train(ts_module *m, bool training); /* recursive; modules start in training */
TS_API bool ts_module_is_training(const ts_module *m);

/* ---- looking inside -------------------------------------------------------------------------- */
TS_API ts_module *ts_module_child(const ts_module *m,
                                  const char *path); /* "h.0.attn"; NULL: none */
TS_API ts_tensor *ts_module_parameter(const ts_module *m,
                                      const char *path); /* "h.0.attn.c_attn.weight" */

/* A list of named tensors in registration order, depth first.  A shared tensor appears once, under
 * its first name, in parameters; under every name in a state dict.  Holds references; free with
 * ts_tensor_list_free. */
typedef struct ts_tensor_list ts_tensor_list;
TS_API ts_tensor_list *
ts_module_parameters(const ts_module *m); /* trainable and not; NULL: out of memory */
TS_API ts_tensor_list *ts_module_buffers(const ts_module *m);
TS_API ts_tensor_list *ts_module_state_dict(
    const ts_module *m); /* parameters and persistent buffers, detached, sharing storage */
TS_API ts_tensor_list *ts_tensor_list_new(void);
TS_API ts_status ts_tensor_list_add(ts_tensor_list *list, const char *name, ts_tensor *t);
TS_API void ts_tensor_list_free(ts_tensor_list *list); /* NULL is fine */
TS_API int64_t ts_tensor_list_count(const ts_tensor_list *list);
TS_API ts_tensor *ts_tensor_list_get(const ts_tensor_list *list, int64_t i);
TS_API const char *ts_tensor_list_name(const ts_tensor_list *list, int64_t i);
TS_API ts_tensor *ts_tensor_list_find(const ts_tensor_list *list, const char *name);

/* Copies values into the module's tensors by name.  strict: missing or unexpected names are
 * TS_EINVAL and listed; shapes and dtypes must agree either way.  Of the names of one tensor, one is
 * enough.  Nothing is changed on error. */
TS_API ts_status ts_module_load_state_dict(ts_module *m, const ts_tensor_list *state, bool strict);

/* The same list as a map of tensors, to be part of a checkpoint (formats.h); and back: TS_EINVAL
 * names an entry that is no tensor. */
TS_API ts_object *ts_tensor_list_to_object(const ts_tensor_list *list);
TS_API ts_status ts_tensor_list_from_object(ts_tensor_list **out, const ts_object *map);

/* The state dict in a file of torch.save's format or, where path ends in ".safetensors", of that
 * (shared tensors once).  PyTorch's load_state_dict takes it. */
TS_API ts_status ts_module_save(const ts_module *m, const char *path);
/* Loads such a file; its contents say which format it has.  *report, unless report is NULL, gets
 * {"missing": [...], "unexpected": [...]}, also where strict makes them an error; free it with
 * ts_object_free.  A file that could not be read leaves NULL there. */
TS_API ts_status ts_module_load(ts_object **report, ts_module *m, const char *path, bool strict);

TS_API int64_t ts_module_num_parameters(const ts_module *m); /* elements, shared ones once */
TS_API void ts_module_zero_grad(ts_module *m);               /* gradients become none */
/* Visits m and every descendant, depth first, children before parents (as nn.Module.apply). */
TS_API ts_status ts_module_apply(ts_module *m,
                                 ts_status (*fn)(ts_module *m, const char *path, void *user),
                                 void *user);

#ifdef __cplusplus
}
#endif
#endif

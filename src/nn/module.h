/* SPDX-License-Identifier: Apache-2.0 */
/* Modules, for the layers above. */
#ifndef TS_NN_MODULE_H
#define TS_NN_MODULE_H

#include <tessera/module.h>

/* A failed module for the error that ts_fail has just worded. */
ts_module *ts_module_fail_last(ts_status status);

/* Path of m from its root ("transformer.h.0"; "" for the root) into buf; returns buf.  A path that
 * does not fit loses its beginning. */
char *ts_module_path(char *buf, size_t size, const ts_module *m);

/* Visits parameters (or buffers) below m, with path, in registration order, depth first; shared
 * tensors as often as they are registered.  Entries that are none are left out. */
typedef struct ts_named {
    const char *path;
    ts_tensor *tensor;
    bool is_buffer, persistent;
} ts_named;
ts_status ts_module_visit_tensors(const ts_module *m,
                                  ts_status (*fn)(const ts_named *named, void *user), void *user);

#endif

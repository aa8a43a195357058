/* SPDX-License-Identifier: Apache-2.0 */
/* Which backends there are. */
#ifndef TS_COMM_BACKENDS_H
#define TS_COMM_BACKENDS_H

#include <tessera/ext/backend.h>

const ts_backend_ops *ts_backend_native(void);
const ts_backend_ops *ts_backend_fake(void);

/* A name in any letter case, or "device:name,device:name"; the backend for CPU tensors.  NULL:
 * native.  Loads a plug-in if the name needs one.  Errors say what there is instead. */
ts_status ts_backend_find(const ts_backend_ops **out, const char *spec);

/* plugin.c: a shared object from the folders where plug-ins lie, which stays loaded. */
ts_status ts_plugin_open(void **handle, const char *file);
/* The table of libtessera_NAME.so, from the folders where plug-ins lie. */
ts_status ts_plugin_load(const ts_backend_ops **out, const char *backend);
/* TS_EINVAL if the table is of another version or incomplete. */
ts_status ts_backend_check(const ts_backend_ops *ops);

#endif

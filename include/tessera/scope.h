/* SPDX-License-Identifier: Apache-2.0 */
/* Scopes own the tensors that functions return, as a function's locals own them in Python.
 *
 *     ts_scope step = ts_scope_begin();
 *     ... tensors ...
 *     ts_must(ts_scope_end(step));          every tensor made since begin is let go
 *
 * Scopes belong to a thread and nest; every thread has an implicit outermost one that ends with the
 * thread.  Containers (graph, module, optimizer, work) take references of their own, so what they
 * hold outlives the scope. */
#ifndef TESSERA_SCOPE_H
#define TESSERA_SCOPE_H

#include <tessera/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ts_scope {
    uint64_t id;
} ts_scope;

TS_API ts_scope ts_scope_begin(void);

/* Ends scope and every scope begun inside it that was forgotten.  Returns the first failure among
 * the tensors of these scopes that no action has reported yet, else TS_OK.  TS_EINVAL if the scope
 * is not open on this thread. */
TS_API ts_status ts_scope_end(ts_scope scope);

/* Ends scope but hands keep (NULL is fine) to the scope around it, and returns keep. */
TS_API ts_tensor *ts_scope_end_keep(ts_scope scope, ts_tensor *keep);

/* Keeps a tensor beyond its scope: one more reference, yours to release.  NULL is fine. */
TS_API ts_tensor *ts_retain(ts_tensor *t);
TS_API void ts_release(ts_tensor *t);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TS_TENSOR_SCOPE_IMPL_H
#define TS_TENSOR_SCOPE_IMPL_H

#include "tensor/tensor.h"

typedef struct ts_scope_stack ts_scope_stack;

/* The one failed value that needs no memory.  Retaining and releasing it do nothing. */
extern ts_tensor ts_no_memory_value;

/* Removes every occurrence of t from the calling thread's scopes, without releasing it: the shared
 * out-of-memory value has been reported. */
void ts_scope_forget(const ts_tensor *t);

#endif

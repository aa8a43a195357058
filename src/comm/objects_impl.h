/* SPDX-License-Identifier: Apache-2.0 */
/* What collectives and messages of objects share. */
#ifndef TS_COMM_OBJECTS_IMPL_H
#define TS_COMM_OBJECTS_IMPL_H

#include "object/object.h"
#include "tensor/tensor.h"

/* Adds what a rank claims to send to the total; TS_ENOMEM beyond TESSERA_OBJECT_LIMIT, TS_EFORMAT for
 * a negative number. */
ts_status ts_objects_add(int64_t *total, int64_t bytes, const char *op);
/* A view of encoded bytes, in the scope. */
ts_tensor *ts_objects_tensor(void *data, int64_t bytes);
/* As ts_object_encode_list.  With the debug level DETAIL this and its counterpart tell the log how many
 * bytes there are and their hash. */
ts_status ts_objects_encode(const ts_object *const *list, int64_t n, void **data, size_t *size);
/* n objects from their encoding.  No bytes at all: null objects (the fake backend brings nothing). */
ts_status ts_objects_decode(ts_object **list, int64_t n, const void *data, int64_t bytes);

#endif

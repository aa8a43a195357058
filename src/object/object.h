/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of objects, for the layers above. */
#ifndef TS_OBJECT_OBJECT_H
#define TS_OBJECT_OBJECT_H

#include <tessera/object.h>

#include "base/error.h"
#include "base/memory.h"

struct ts_object {
    ts_object_kind kind;
    ts_status status;         /* FAILED: why */
    struct ts_object *parent; /* the container that owns it */
    union {
        bool boolean;
        int64_t integer;
        double real;
        struct {
            char *data; /* TEXT and FAILED end with a zero byte; NULL when FAILED without memory */
            size_t size;
        } string;
        ts_vec list;
        ts_map map;
        ts_tensor *tensor;
    };
};

ts_object *ts_object_new_kind(ts_object_kind kind);
/* A failed object with the error that ts_fail has just worded. */
ts_object *ts_object_fail_last(ts_status status);
ts_object *ts_object_new_string(ts_object_kind kind, const void *data, size_t size);
/* A failed object: what is missing (NULL). */
ts_object *ts_object_missing(const char *what);
/* Lets go of what a root or container holds and keeps the error just worded instead. */
void ts_object_become_failed(ts_object *object, ts_status status);
const char *ts_object_kind_name(ts_object_kind kind); /* "an int" */

/* n objects as one list, without taking them over.  *data is malloc'd. */
ts_status ts_object_encode_list(const ts_object *const *item, int64_t n, void **data, size_t *size);
/* The inverse, if there are n: item[] are roots of their own. */
ts_status ts_object_decode_list(ts_object **item, int64_t n, const void *data, size_t size);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Small objects that describe themselves: numbers, text, bytes, lists, maps and tensors, as one value
 * that can be encoded, sent, stored and printed.
 *
 *     ts_object *state = ts_object_map();
 *     ts_object_set(state, "epoch", ts_object_int(3));
 *     ts_object_set(state, "weight", ts_object_tensor(w));
 *     ts_must(ts_broadcast_object_list(NULL, &state, 1, 0));
 *     ts_object_free(state);
 *
 * Objects are returned like modules: a list or map takes over what is put in, and a root is freed
 * with ts_object_free.  What goes wrong is kept in the object (an object of kind FAILED with its
 * first cause), goes on to the container it is put in, and is reported by every action.
 *
 * Encoded they are CBOR (RFC 8949), which most languages read.  Decoding checks everything and
 * executes nothing, so the bytes may come from anywhere.
 *
 * Local; an object must not be changed by one thread while another one uses it. */
#ifndef TESSERA_OBJECT_H
#define TESSERA_OBJECT_H

#include <stdio.h>
#include <tessera/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ts_object ts_object;

typedef enum ts_object_kind {
    TS_OBJECT_NULL = 0,
    TS_OBJECT_BOOL = 1,
    TS_OBJECT_INT = 2,
    TS_OBJECT_DOUBLE = 3,
    TS_OBJECT_TEXT = 4,
    TS_OBJECT_BYTES = 5,
    TS_OBJECT_LIST = 6,
    TS_OBJECT_MAP = 7,
    TS_OBJECT_TENSOR = 8,
    TS_OBJECT_FAILED = 9
} ts_object_kind;

/* Levels of lists and maps within each other that can be encoded. */
#define TS_OBJECT_MAX_DEPTH 64

/* ---- making ---------------------------------------------------------------------------------- */

TS_API ts_object *ts_object_null(void);
TS_API ts_object *ts_object_bool(bool value);
TS_API ts_object *ts_object_int(int64_t value);
TS_API ts_object *ts_object_double(double value);
TS_API ts_object *ts_object_text(const char *text); /* UTF-8, copied; NULL: a null object */
TS_API ts_object *ts_object_bytes(const void *data, size_t size); /* copied */
TS_API ts_object *ts_object_list(void);
TS_API ts_object *ts_object_map(void); /* in the order of setting */
/* Takes a reference.  The numbers are read when the object is encoded. */
TS_API ts_object *ts_object_tensor(ts_tensor *tensor);

/* Put item (NULL: a null object) into the container, which is returned and owns it from now on.  A
 * key that is there already gets the new item instead of its old one. */
TS_API ts_object *ts_object_append(ts_object *list, ts_object *item);
TS_API ts_object *ts_object_set(ts_object *map, const char *key, ts_object *item);

/* A root with all it contains; NULL is fine.  Does nothing to what a container owns. */
TS_API void ts_object_free(ts_object *object);

/* ---- reading --------------------------------------------------------------------------------- */

TS_API ts_object_kind ts_object_kind_of(const ts_object *object); /* NULL: TS_OBJECT_NULL */
/* TS_OK, or the status of a failed object with its text in ts_error_last. */
TS_API ts_status ts_object_status(const ts_object *object);
TS_API int64_t ts_object_count(const ts_object *object); /* of a list or map; 0 of others */

/* What a container holds, and owns.  NULL: nothing there; reading that then fails, without naming
 * the key, which only the caller knows. */
TS_API ts_object *ts_object_at(const ts_object *container, int64_t i);
TS_API const char *ts_object_key_at(const ts_object *map, int64_t i);
TS_API ts_object *ts_object_get(const ts_object *map, const char *key);

/* TS_EINVAL if the object is missing or of another kind, saying where in its root it stands.
 * Pointers lead into the object. */
TS_API ts_status ts_object_as_bool(const ts_object *object, bool *out);
TS_API ts_status ts_object_as_int(const ts_object *object, int64_t *out);
TS_API ts_status ts_object_as_double(const ts_object *object, double *out); /* of an int too */
TS_API ts_status ts_object_as_text(const ts_object *object, const char **out);
TS_API ts_status ts_object_as_bytes(const ts_object *object, const void **out, size_t *size);
TS_API ts_tensor *ts_object_as_tensor(const ts_object *object); /* a value, as all tensors */

/* ---- coding ---------------------------------------------------------------------------------- */

/* *data is malloc'd and yours to free. */
TS_API ts_status ts_object_encode(const ts_object *object, void **data, size_t *size);
/* Exactly one object of size bytes; a failed one (TS_EFORMAT) says what is wrong at which byte.
 * Takes memory in proportion to size, whatever the bytes claim. */
TS_API ts_object *ts_object_decode(const void *data, size_t size);

/* Text like JSON, for people: tensors as dtype and shape, bytes in hexadecimal, both shortened.
 * The string is malloc'd and yours to free; NULL: out of memory. */
TS_API char *ts_object_to_string(const ts_object *object);
TS_API void ts_object_print(const ts_object *object, FILE *to);

#ifdef __cplusplus
}
#endif
#endif

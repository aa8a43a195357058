/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors: 8 bytes with the length of a JSON header, the header, then the tensors one after the
 * other without gaps. */
#ifndef TS_FORMATS_SAFETENSORS_H
#define TS_FORMATS_SAFETENSORS_H

#include <tessera/dtype.h>
#include <tessera/shape.h>
#include <tessera/status.h>

typedef struct ts_safetensors_entry {
    char *name;
    ts_dtype dtype;
    ts_shape shape;
    uint64_t begin, end; /* of its bytes, within the file */
} ts_safetensors_entry;

typedef struct ts_safetensors_pair {
    char *key, *value;
} ts_safetensors_pair;

/* In the order of the header. */
typedef struct ts_safetensors {
    ts_safetensors_entry *entry;
    int64_t count;
    ts_safetensors_pair *metadata;
    int64_t pairs;
} ts_safetensors;

/* May the data be a safetensors file?  Looks at the first 9 bytes. */
bool ts_safetensors_probe(const uint8_t *data, size_t size);
/* Every entry lies within the file, in the length that its shape and dtype need; together they cover
 * it once; names are unique UTF-8.  TS_EFORMAT, TS_EUNSUPPORTED (a dtype we have not). */
ts_status ts_safetensors_read(ts_safetensors *out, const uint8_t *data, size_t size);
void ts_safetensors_free(ts_safetensors *s);

/* The file's beginning for these entries, which are sorted as the reference does it, wide dtypes first
 * and then by name: so their bytes follow, each aligned to its size; begin and end count from the end
 * of the header.  *data is yours to free. */
ts_status ts_safetensors_header(void **data, size_t *size, ts_safetensors *s);

#endif

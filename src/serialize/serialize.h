/* SPDX-License-Identifier: Apache-2.0 */
/* What the formats share: mapped files and their parts, and the map of a flat file. */
#ifndef TS_SERIALIZE_H
#define TS_SERIALIZE_H

#include <tessera/formats.h>

#include "formats/out.h"
#include "tensor/tensor.h"

/* A mapped file.  bytes lies in storage. */
typedef struct ts_mapped {
    ts_storage *storage;
    const uint8_t *data;
    size_t size;
    bool copy; /* tensors get memory of their own */
} ts_mapped;

ts_status ts_mapped_open(ts_mapped *file, const char *path, bool copy);
void ts_mapped_close(ts_mapped *file);
/* Bytes of the file that lie within it, for elements of that size: a read-only part of the map, or a
 * copy where that is asked for or the place is not aligned.  NULL after ts_fail. */
ts_storage *ts_mapped_part(const ts_mapped *file, uint64_t begin, uint64_t size, size_t element);
/* Bytes of a bool that are neither 0 nor 1 are TS_EFORMAT; name is for the message. */
ts_status ts_check_bools(const ts_storage *storage, const char *name);

/* What the file holds, or a failed object: by its contents, or of one format. */
ts_object *ts_mapped_read(const ts_mapped *file);
ts_object *ts_torch_read(const ts_mapped *file);
ts_object *ts_safetensors_load(const ts_mapped *file);
ts_object *ts_safetensors_load_metadata(const ts_mapped *file);

ts_status ts_torch_write(ts_out *out, const ts_object *object, const ts_save_options *opt);
ts_status ts_safetensors_write(ts_out *out, const ts_object *object, const ts_save_options *opt);

#endif

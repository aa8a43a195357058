/* SPDX-License-Identifier: Apache-2.0 */
/* Zip archives of stored (not compressed) entries, with the 64-bit extension (APPNOTE 6.3.9). */
#ifndef TS_FORMATS_ZIP_H
#define TS_FORMATS_ZIP_H

#include <tessera/status.h>

#include "formats/out.h"

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct ts_zip_entry {
    char *name;
    uint64_t begin, size; /* of the data, within the archive */
    uint32_t crc;
} ts_zip_entry;

typedef struct ts_zip {
    const uint8_t *data;
    size_t size;
    ts_zip_entry *entry;
    int64_t count;
} ts_zip;

/* Reads the list of entries; data stays the caller's.  TS_EFORMAT, TS_EUNSUPPORTED say what is wrong;
 * every entry lies within the archive, and no two have the same name. */
ts_status ts_zip_open(ts_zip *zip, const void *data, size_t size);
void ts_zip_close(ts_zip *zip);
const ts_zip_entry *ts_zip_find(const ts_zip *zip, const char *name);
/* TS_EFORMAT if the entry's checksum is not that of its bytes. */
ts_status ts_zip_verify(const ts_zip *zip, const ts_zip_entry *entry);

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct ts_zip_writer {
    ts_out *out;
    ts_zip_entry *entry; /* begin: of the header */
    int64_t count, capacity;
    uint64_t limit; /* numbers from here on take the 64-bit extension: 0xFFFFFFFF */
} ts_zip_writer;

void ts_zip_begin(ts_zip_writer *w, ts_out *out);
/* An entry whose data begins at a multiple of 64. */
ts_status ts_zip_add(ts_zip_writer *w, const char *name, const void *data, size_t size);
ts_status ts_zip_finish(ts_zip_writer *w);
void ts_zip_writer_free(ts_zip_writer *w);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* CBOR (RFC 8949), one item head after the other.  Strings and containers have definite lengths;
 * what those of indefinite length are for, streams of unknown size, does not occur here. */
#ifndef TS_FORMATS_CBOR_H
#define TS_FORMATS_CBOR_H

#include <tessera/status.h>

/* ---- reading --------------------------------------------------------------------------------- */

typedef enum ts_cbor_kind {
    TS_CBOR_NULL = 0,
    TS_CBOR_BOOL = 1,
    TS_CBOR_UNSIGNED = 2, /* number */
    TS_CBOR_NEGATIVE = 3, /* -1 - number */
    TS_CBOR_FLOAT = 4,
    TS_CBOR_BYTES = 5,
    TS_CBOR_TEXT = 6,  /* UTF-8 has been checked */
    TS_CBOR_ARRAY = 7, /* number items follow */
    TS_CBOR_MAP = 8,   /* number pairs follow */
    TS_CBOR_TAG = 9    /* number says what the item that follows means */
} ts_cbor_kind;

typedef struct ts_cbor_item {
    ts_cbor_kind kind;
    bool boolean;
    double real;
    uint64_t number;
    const uint8_t *data; /* of a string, within the input */
    size_t size;
} ts_cbor_item;

typedef struct ts_cbor_reader {
    const uint8_t *data;
    size_t size, at;
} ts_cbor_reader;

/* The next head.  TS_EFORMAT names the byte where the input ends early or holds what is not
 * supported.  A container that claims more items than bytes are left is refused, so that memory for
 * its items can be asked for at once. */
ts_status ts_cbor_read(ts_cbor_reader *reader, ts_cbor_item *item);

/* ---- writing --------------------------------------------------------------------------------- */

/* With data NULL only the size is counted; otherwise data has room for all. */
typedef struct ts_cbor_writer {
    uint8_t *data;
    size_t size;
} ts_cbor_writer;

void ts_cbor_write_null(ts_cbor_writer *writer);
void ts_cbor_write_bool(ts_cbor_writer *writer, bool value);
void ts_cbor_write_int(ts_cbor_writer *writer, int64_t value);
void ts_cbor_write_double(ts_cbor_writer *writer, double value);
void ts_cbor_write_text(ts_cbor_writer *writer, const char *text, size_t size);
void ts_cbor_write_bytes(ts_cbor_writer *writer, const void *data, size_t size);
/* The head of a byte string; the caller fills the room for its contents, which is returned (NULL
 * when only counting). */
void *ts_cbor_write_room(ts_cbor_writer *writer, size_t size);
void ts_cbor_write_array(ts_cbor_writer *writer, size_t count);
void ts_cbor_write_map(ts_cbor_writer *writer, size_t count);
void ts_cbor_write_tag(ts_cbor_writer *writer, uint64_t tag);

#endif

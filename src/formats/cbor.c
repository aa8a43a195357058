/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing of CBOR heads, which libcbor codes. */
#include "formats/cbor.h"

#include <cbor.h>
#include <string.h>

#include "base/error.h"
#include "formats/utf8.h"

/* ---- reading: libcbor calls the one that fits ------------------------------------------------ */

typedef struct visitor {
    ts_cbor_item *item;
    bool unsupported;
} visitor;

static void set_number(void *user, ts_cbor_kind kind, uint64_t number)
{
    ts_cbor_item *item = ((visitor *)user)->item;
    item->kind = kind;
    item->number = number;
}

static void set_string(void *user, ts_cbor_kind kind, const uint8_t *data, size_t size)
{
    ts_cbor_item *item = ((visitor *)user)->item;
    item->kind = kind;
    item->data = data;
    item->size = size;
}

static void on_u8(void *user, uint8_t n) { set_number(user, TS_CBOR_UNSIGNED, n); }
static void on_u16(void *user, uint16_t n) { set_number(user, TS_CBOR_UNSIGNED, n); }
static void on_u32(void *user, uint32_t n) { set_number(user, TS_CBOR_UNSIGNED, n); }
static void on_u64(void *user, uint64_t n) { set_number(user, TS_CBOR_UNSIGNED, n); }
static void on_n8(void *user, uint8_t n) { set_number(user, TS_CBOR_NEGATIVE, n); }
static void on_n16(void *user, uint16_t n) { set_number(user, TS_CBOR_NEGATIVE, n); }
static void on_n32(void *user, uint32_t n) { set_number(user, TS_CBOR_NEGATIVE, n); }
static void on_n64(void *user, uint64_t n) { set_number(user, TS_CBOR_NEGATIVE, n); }
static void on_array(void *user, size_t n) { set_number(user, TS_CBOR_ARRAY, n); }
static void on_map(void *user, size_t n) { set_number(user, TS_CBOR_MAP, n); }
static void on_tag(void *user, uint64_t n) { set_number(user, TS_CBOR_TAG, n); }
static void on_null(void *user) { set_number(user, TS_CBOR_NULL, 0); }
static void on_unsupported(void *user) { ((visitor *)user)->unsupported = true; }

static void on_bytes(void *user, cbor_data data, size_t size)
{
    set_string(user, TS_CBOR_BYTES, data, size);
}

static void on_text(void *user, cbor_data data, size_t size)
{
    set_string(user, TS_CBOR_TEXT, data, size);
}

static void on_bool(void *user, bool value)
{
    set_number(user, TS_CBOR_BOOL, 0);
    ((visitor *)user)->item->boolean = value;
}

static void on_double(void *user, double value)
{
    set_number(user, TS_CBOR_FLOAT, 0);
    ((visitor *)user)->item->real = value;
}

static void on_float(void *user, float value) { on_double(user, (double)value); }

static const struct cbor_callbacks visit = {
    .uint8 = on_u8,
    .uint16 = on_u16,
    .uint32 = on_u32,
    .uint64 = on_u64,
    .negint8 = on_n8,
    .negint16 = on_n16,
    .negint32 = on_n32,
    .negint64 = on_n64,
    .byte_string = on_bytes,
    .string = on_text,
    .array_start = on_array,
    .map_start = on_map,
    .tag = on_tag,
    .float2 = on_float,
    .float4 = on_float,
    .float8 = on_double,
    .null = on_null,
    .boolean = on_bool,
    .byte_string_start = on_unsupported,
    .string_start = on_unsupported,
    .indef_array_start = on_unsupported,
    .indef_map_start = on_unsupported,
    .indef_break = on_unsupported,
    .undefined = on_unsupported,
};

static ts_status check_text(const ts_cbor_reader *reader, const ts_cbor_item *item)
{
    size_t bad;
    if (ts_utf8_valid((const char *)item->data, item->size, &bad)) return TS_OK;
    return ts_fail(TS_EFORMAT, "cbor: the text at byte %zu is not UTF-8",
                   (size_t)(item->data - reader->data) + bad);
}

static ts_status check_count(const ts_cbor_reader *reader, const ts_cbor_item *item)
{
    uint64_t left = reader->size - reader->at, each = item->kind == TS_CBOR_MAP ? 2 : 1;
    if (item->number <= left / each) return TS_OK;
    return ts_fail(TS_EFORMAT,
                   "cbor: a container before byte %zu claims %llu entries, but only %llu bytes are "
                   "left",
                   reader->at, (unsigned long long)item->number, (unsigned long long)left);
}

ts_status ts_cbor_read(ts_cbor_reader *reader, ts_cbor_item *item)
{
    static const uint8_t nothing;
    visitor v = {.item = item};
    const uint8_t *from = reader->data ? reader->data + reader->at : &nothing;
    size_t begin = reader->at;
    memset(item, 0, sizeof *item);
    struct cbor_decoder_result result = cbor_stream_decode(from, reader->size - begin, &visit, &v);
    if (result.status == CBOR_DECODER_NEDATA)
        return ts_fail(TS_EFORMAT, "cbor: the input of %zu bytes ends within the item at byte %zu",
                       reader->size, begin);
    if (result.status != CBOR_DECODER_FINISHED || v.unsupported)
        return ts_fail(TS_EFORMAT, "cbor: the item at byte %zu (0x%02x) is not supported", begin,
                       *from);
    reader->at += result.read;
    if (item->kind == TS_CBOR_TEXT) return check_text(reader, item);
    if (item->kind == TS_CBOR_ARRAY || item->kind == TS_CBOR_MAP) return check_count(reader, item);
    return TS_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

enum { HEAD = 9 };

static void append(ts_cbor_writer *w, const void *data, size_t size)
{
    if (w->data && size > 0) memcpy(w->data + w->size, data, size);
    w->size += size;
}

void ts_cbor_write_null(ts_cbor_writer *w)
{
    uint8_t head[HEAD];
    append(w, head, cbor_encode_null(head, HEAD));
}

void ts_cbor_write_bool(ts_cbor_writer *w, bool value)
{
    uint8_t head[HEAD];
    append(w, head, cbor_encode_bool(value, head, HEAD));
}

void ts_cbor_write_int(ts_cbor_writer *w, int64_t value)
{
    uint8_t head[HEAD];
    append(w, head,
           value < 0 ? cbor_encode_negint((uint64_t)(-1 - value), head, HEAD)
                     : cbor_encode_uint((uint64_t)value, head, HEAD));
}

void ts_cbor_write_double(ts_cbor_writer *w, double value)
{
    uint8_t head[HEAD];
    append(w, head, cbor_encode_double(value, head, HEAD));
}

void ts_cbor_write_text(ts_cbor_writer *w, const char *text, size_t size)
{
    uint8_t head[HEAD];
    append(w, head, cbor_encode_string_start(size, head, HEAD));
    append(w, text, size);
}

void *ts_cbor_write_room(ts_cbor_writer *w, size_t size)
{
    uint8_t head[HEAD];
    append(w, head, cbor_encode_bytestring_start(size, head, HEAD));
    void *room = w->data ? w->data + w->size : NULL;
    w->size += size;
    return room;
}

void ts_cbor_write_bytes(ts_cbor_writer *w, const void *data, size_t size)
{
    void *room = ts_cbor_write_room(w, size);
    if (room && size > 0) memcpy(room, data, size);
}

void ts_cbor_write_array(ts_cbor_writer *w, size_t count)
{
    uint8_t head[HEAD];
    append(w, head, cbor_encode_array_start(count, head, HEAD));
}

void ts_cbor_write_map(ts_cbor_writer *w, size_t count)
{
    uint8_t head[HEAD];
    append(w, head, cbor_encode_map_start(count, head, HEAD));
}

void ts_cbor_write_tag(ts_cbor_writer *w, uint64_t tag)
{
    uint8_t head[HEAD];
    append(w, head, cbor_encode_tag(tag, head, HEAD));
}

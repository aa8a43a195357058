/* SPDX-License-Identifier: Apache-2.0 */
/* The store's protocol: writing fields, finding where a request ends. */
#include "store/wire.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static const char *const fields_of[TS_WIRE_COMMAND_COUNT] = {
#define X(name, number, fields) [number] = fields,
    TS_WIRE_COMMANDS(X)
#undef X
};

/* ---- writing --------------------------------------------------------------------------------- */

static bool reserve(ts_buffer *buffer, size_t more)
{
    if (buffer->failed) return false;
    if (more <= buffer->capacity - buffer->size) return true;
    if (more > TS_WIRE_MAX_REQUEST - buffer->size) return buffer->failed = true, false;
    size_t capacity = buffer->capacity ? buffer->capacity : 256;
    while (capacity - buffer->size < more) capacity *= 2;
    char *data = ts_grow(buffer->data, capacity, 1);
    if (!data) return buffer->failed = true, false;
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

void ts_buffer_put(ts_buffer *buffer, const void *data, size_t size)
{
    if (size == 0 || !reserve(buffer, size)) return;
    memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
}

void ts_buffer_put_byte(ts_buffer *buffer, int byte)
{
    unsigned char value = (unsigned char)byte;
    ts_buffer_put(buffer, &value, 1);
}

void ts_buffer_put_u32(ts_buffer *buffer, uint32_t value)
{
    ts_buffer_put(buffer, &value, sizeof value);
}
void ts_buffer_put_i64(ts_buffer *buffer, int64_t value)
{
    ts_buffer_put(buffer, &value, sizeof value);
}

void ts_buffer_put_bytes(ts_buffer *buffer, ts_bytes bytes)
{
    ts_buffer_put_i64(buffer, (int64_t)bytes.size);
    ts_buffer_put(buffer, bytes.data, bytes.size);
}

void ts_buffer_drop(ts_buffer *buffer, size_t size)
{
    buffer->size -= size;
    if (buffer->size > 0)
        memmove(buffer->data, buffer->data + size, buffer->size);
    else if (buffer->capacity > 1 << 20) /* do not keep what one large value needed */
        ts_buffer_fini(buffer);
}

void ts_buffer_fini(ts_buffer *buffer)
{
    free(buffer->data);
    *buffer = (ts_buffer){0};
}

/* ---- finding the end of a request ------------------------------------------------------------ */

enum { NEED_MORE = 0, BAD = -1 };

static int64_t bad(const char **why, const char *text) { return *why = text, BAD; }

static int64_t sized_field(const char *data, size_t left, uint64_t limit, const char **why)
{
    uint64_t size;
    if (left < sizeof size) return NEED_MORE;
    memcpy(&size, data, sizeof size);
    if (size > limit) return bad(why, "a key or value is too long");
    return left - sizeof size < size ? NEED_MORE : (int64_t)(sizeof size + size);
}

/* Bytes of the field at data, NEED_MORE or BAD. */
static int64_t field_size(char kind, const char *data, size_t left, const char **why)
{
    switch (kind) {
    case 'k': return sized_field(data, left, TS_WIRE_MAX_KEY, why);
    case 'v': return sized_field(data, left, TS_WIRE_MAX_VALUE, why);
    case 'w': return left < 4 ? NEED_MORE : 4;
    default: return left < 8 ? NEED_MORE : 8;
    }
}

static bool begin_list(ts_wire_scan *scan, const char *data)
{
    uint64_t count;
    memcpy(&count, data, sizeof count);
    if (count > TS_WIRE_MAX_KEYS) return false;
    scan->repeats = count;
    scan->next = count > 0 ? scan->next : scan->next + strlen(scan->next);
    if (count > 0) scan->repeats--;
    return true;
}

/* At the end of an item of a list the next item begins. */
static void end_item(ts_wire_scan *scan)
{
    if (*scan->next || scan->repeats == 0) return;
    scan->repeats--;
    scan->next = scan->fields + 1;
}

static bool begin_request(ts_wire_scan *scan, unsigned char command)
{
    if (command >= TS_WIRE_COMMAND_COUNT) return false;
    scan->fields = scan->next = fields_of[command];
    scan->at = 1;
    return true;
}

int64_t ts_wire_find_end(ts_wire_scan *scan, const char *data, size_t size, const char **why)
{
    if (size == 0) return NEED_MORE;
    if (!scan->fields && !begin_request(scan, (unsigned char)data[0]))
        return bad(why, "no command has this number");
    while (*scan->next) {
        char kind = *scan->next;
        int64_t used = field_size(kind, data + scan->at, size - scan->at, why);
        if (used <= 0)
            return used == BAD                  ? BAD
                   : size > TS_WIRE_MAX_REQUEST ? bad(why, "too long")
                                                : NEED_MORE;
        scan->next++;
        if (kind == '*' && !begin_list(scan, data + scan->at))
            return bad(why, "a list is too long");
        scan->at += (size_t)used;
        end_item(scan);
    }
    return (int64_t)scan->at;
}

/* ---- reading --------------------------------------------------------------------------------- */

int64_t ts_wire_i64(ts_wire_reader *reader)
{
    int64_t value;
    memcpy(&value, reader->at, sizeof value);
    reader->at += sizeof value;
    return value;
}

uint32_t ts_wire_u32(ts_wire_reader *reader)
{
    uint32_t value;
    memcpy(&value, reader->at, sizeof value);
    reader->at += sizeof value;
    return value;
}

ts_bytes ts_wire_bytes(ts_wire_reader *reader)
{
    size_t size = (size_t)ts_wire_i64(reader);
    ts_bytes bytes = {reader->at, size};
    reader->at += size;
    return bytes;
}

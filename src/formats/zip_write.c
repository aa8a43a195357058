/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "formats/little.h"
#include "formats/zip.h"

enum {
    ALIGNMENT = 64,
    LOCAL = 30,
    VERSION = 45,      /* of the specification: 64-bit numbers */
    DATE = 0x21,       /* 1980-01-01, the first there is: the same object gives the same bytes */
    UTF8_NAME = 0x800, /* flag */
    PADDING = 0x4246   /* extra field that readers skip */
};

void ts_zip_begin(ts_zip_writer *w, ts_out *out)
{
    *w = (ts_zip_writer){.out = out, .limit = 0xFFFFFFFF};
}

void ts_zip_writer_free(ts_zip_writer *w)
{
    for (int64_t i = 0; i < w->count; i++) free(w->entry[i].name);
    free(w->entry);
    *w = (ts_zip_writer){0};
}

static uint32_t narrow(const ts_zip_writer *w, uint64_t number)
{
    return number >= w->limit ? 0xFFFFFFFF : (uint32_t)number;
}

static ts_zip_entry *new_entry(ts_zip_writer *w, const char *name)
{
    if (w->count == w->capacity) {
        int64_t capacity = w->capacity ? 2 * w->capacity : 32;
        void *grown = ts_grow(w->entry, (size_t)capacity, sizeof *w->entry);
        if (!grown) return NULL;
        w->entry = grown;
        w->capacity = capacity;
    }
    ts_zip_entry *e = &w->entry[w->count];
    *e = (ts_zip_entry){.name = ts_strdup(name), .begin = w->out->at};
    if (!e->name) return NULL;
    w->count++;
    return e;
}

/* Version needed, flags, method, date, checksum, both sizes: common to both kinds of headers. */
static uint8_t *put_common(uint8_t *p, const ts_zip_writer *w, const ts_zip_entry *e)
{
    p = ts_put_little(p, VERSION, 2);
    p = ts_put_little(p, UTF8_NAME, 2);
    p = ts_put_little(p, 0, 2); /* stored */
    p = ts_put_little(p, 0, 2); /* time */
    p = ts_put_little(p, DATE, 2);
    p = ts_put_little(p, e->crc, 4);
    p = ts_put_little(p, narrow(w, e->size), 4);
    p = ts_put_little(p, narrow(w, e->size), 4);
    return ts_put_little(p, strlen(e->name), 2);
}

ts_status ts_zip_add(ts_zip_writer *w, const char *name, const void *data, size_t size)
{
    uint8_t head[LOCAL], extra[20 + 4 + ALIGNMENT] = {0}, *p = head, *x = extra;
    ts_zip_entry *e = new_entry(w, name);
    if (!e) return ts_fail_memory(strlen(name), "an archive's directory");
    e->size = size;
    e->crc = (uint32_t)crc32_z(0, data, size);
    if (size >= w->limit) {
        x = ts_put_little(x, 1, 2);
        x = ts_put_little(x, 16, 2);
        x = ts_put_little(ts_put_little(x, size, 8), size, 8);
    }
    size_t fixed = (size_t)(x - extra) + 4;
    size_t padding = -(size_t)(w->out->at + LOCAL + strlen(name) + fixed) % ALIGNMENT;
    ts_put_little(ts_put_little(x, PADDING, 2), padding, 2);

    p = ts_put_little(p, 0x04034b50, 4);
    p = put_common(p, w, e);
    ts_put_little(p, fixed + padding, 2);
    TS_TRY(ts_out_write(w->out, head, sizeof head));
    TS_TRY(ts_out_write(w->out, name, strlen(name)));
    TS_TRY(ts_out_write(w->out, extra, fixed + padding));
    return ts_out_write(w->out, data, size);
}

static ts_status write_central(ts_zip_writer *w, const ts_zip_entry *e)
{
    uint8_t head[46] = {0}, extra[28], *p = head, *x = extra + 4;
    if (e->size >= w->limit) x = ts_put_little(ts_put_little(x, e->size, 8), e->size, 8);
    if (e->begin >= w->limit) x = ts_put_little(x, e->begin, 8);
    size_t extra_size = x == extra + 4 ? 0 : (size_t)(x - extra);
    ts_put_little(ts_put_little(extra, 1, 2), (uint64_t)(x - extra) - 4, 2);

    p = ts_put_little(p, 0x02014b50, 4);
    p = ts_put_little(p, VERSION, 2);
    p = put_common(p, w, e);
    ts_put_little(p, extra_size, 2);
    ts_put_little(head + 42, narrow(w, e->begin), 4); /* no comment, one part, no attributes */
    TS_TRY(ts_out_write(w->out, head, sizeof head));
    TS_TRY(ts_out_write(w->out, e->name, strlen(e->name)));
    return ts_out_write(w->out, extra, extra_size);
}

static ts_status write_end64(ts_zip_writer *w, uint64_t begin, uint64_t size)
{
    uint8_t record[56 + 20] = {0}, *p = record;
    uint64_t at = w->out->at;
    p = ts_put_little(p, 0x06064b50, 4);
    p = ts_put_little(p, 44, 8);
    p = ts_put_little(ts_put_little(p, VERSION, 2), VERSION, 2);
    p = ts_put_little(p, 0, 8); /* parts */
    p = ts_put_little(ts_put_little(p, (uint64_t)w->count, 8), (uint64_t)w->count, 8);
    p = ts_put_little(ts_put_little(p, size, 8), begin, 8);
    p = ts_put_little(p, 0x07064b50, 4);
    p = ts_put_little(p, 0, 4);
    p = ts_put_little(p, at, 8);
    ts_put_little(p, 1, 4);
    return ts_out_write(w->out, record, sizeof record);
}

ts_status ts_zip_finish(ts_zip_writer *w)
{
    uint64_t begin = w->out->at, limit16 = w->limit < 0xFFFF ? w->limit : 0xFFFF;
    for (int64_t i = 0; i < w->count; i++) TS_TRY(write_central(w, &w->entry[i]));
    uint64_t size = w->out->at - begin, count = (uint64_t)w->count;
    if (begin >= w->limit || size >= w->limit || count >= limit16)
        TS_TRY(write_end64(w, begin, size));
    uint8_t record[22] = {0}, *p = ts_put_little(record, 0x06054b50, 4) + 4;
    uint64_t shown = count >= limit16 ? 0xFFFF : count;
    p = ts_put_little(ts_put_little(p, shown, 2), shown, 2);
    ts_put_little(ts_put_little(p, narrow(w, size), 4), narrow(w, begin), 4);
    return ts_out_write(w->out, record, sizeof record);
}

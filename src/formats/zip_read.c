/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the entries of an archive: the end record, the central directory, the local headers. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "formats/little.h"
#include "formats/zip.h"

enum {
    END = 22,        /* bytes of the end record */
    LOCATOR = 20,    /* of the pointer to the 64-bit end record */
    END64 = 56,      /* of the 64-bit end record */
    CENTRAL = 46,    /* of a header in the central directory */
    LOCAL = 30,      /* of a header before the data */
    EXTRA64 = 0x0001 /* extra field with 64-bit numbers */
};

static bool is_at(const ts_zip *zip, uint64_t at, uint64_t bytes, const char *signature)
{
    return at <= zip->size && zip->size - at >= bytes && memcmp(zip->data + at, signature, 4) == 0;
}

/* What the end record says. */
typedef struct directory {
    uint64_t begin, size, count;
} directory;

static ts_status find_end(uint64_t *at, const ts_zip *zip)
{
    uint64_t last = zip->size < END ? 0 : zip->size - END;
    uint64_t first = last > 65535 ? last - 65535 : 0;
    for (uint64_t i = last + 1; i-- > first;)
        if (is_at(zip, i, END, "PK\5\6") &&
            ts_little16(zip->data + i + 20) == zip->size - i - END) {
            *at = i;
            return TS_OK;
        }
    return ts_fail(TS_EFORMAT, "zip: the archive's end is missing; the file is cut or not a zip");
}

static ts_status read_end64(directory *d, const ts_zip *zip, uint64_t end)
{
    if (end < LOCATOR || !is_at(zip, end - LOCATOR, LOCATOR, "PK\6\7"))
        return ts_fail(TS_EFORMAT, "zip: the 64-bit end record is missing");
    uint64_t at = ts_little64(zip->data + end - LOCATOR + 8);
    if (!is_at(zip, at, END64, "PK\6\6"))
        return ts_fail(TS_EFORMAT, "zip: the 64-bit end record is not at byte %llu",
                       (unsigned long long)at);
    d->count = ts_little64(zip->data + at + 32);
    d->size = ts_little64(zip->data + at + 40);
    d->begin = ts_little64(zip->data + at + 48);
    return TS_OK;
}

static ts_status read_end(directory *d, const ts_zip *zip)
{
    uint64_t end = 0;
    TS_TRY(find_end(&end, zip));
    const uint8_t *p = zip->data + end;
    if (ts_little16(p + 4) != 0 && ts_little16(p + 4) != 0xFFFF)
        return ts_fail(TS_EUNSUPPORTED, "zip: archives in several parts are not read");
    *d = (directory){ts_little32(p + 16), ts_little32(p + 12), ts_little16(p + 10)};
    if (d->begin == 0xFFFFFFFF || d->size == 0xFFFFFFFF || d->count == 0xFFFF)
        TS_TRY(read_end64(d, zip, end));
    if (d->begin > zip->size || d->size > zip->size - d->begin || d->count > d->size / CENTRAL)
        return ts_fail(TS_EFORMAT, "zip: the directory claims %llu entries in %llu bytes at %llu",
                       (unsigned long long)d->count, (unsigned long long)d->size,
                       (unsigned long long)d->begin);
    return TS_OK;
}

/* Numbers of a header; those that are all ones stand in the extra field, in this order. */
typedef struct numbers {
    uint64_t size, packed, header;
} numbers;

static bool take64(uint64_t *value, const uint8_t **at, const uint8_t *end)
{
    if (*value != 0xFFFFFFFF) return true;
    if (end - *at < 8) return false;
    *value = ts_little64(*at);
    *at += 8;
    return true;
}

static bool read_extra(numbers *n, const uint8_t *at, size_t size)
{
    bool wanted = n->size == 0xFFFFFFFF || n->packed == 0xFFFFFFFF || n->header == 0xFFFFFFFF;
    for (const uint8_t *end = at + size; wanted && end - at >= 4;) {
        size_t field = ts_little16(at + 2);
        const uint8_t *p = at + 4;
        if (field > (size_t)(end - p)) return false;
        if (ts_little16(at) == EXTRA64)
            return take64(&n->size, &p, p + field) && take64(&n->packed, &p, at + 4 + field) &&
                   take64(&n->header, &p, at + 4 + field);
        at = p + field;
    }
    return true; /* without the field, all ones means what it says */
}

/* Where the data begins: behind the local header, which has a name and extras of its own. */
static ts_status find_data(ts_zip_entry *e, const ts_zip *zip, uint64_t header)
{
    if (!is_at(zip, header, LOCAL, "PK\3\4"))
        return ts_fail(TS_EFORMAT, "zip: '%s' has no header at byte %llu", e->name,
                       (unsigned long long)header);
    const uint8_t *p = zip->data + header;
    size_t name = ts_little16(p + 26), skip = LOCAL + name + ts_little16(p + 28);
    uint64_t left = zip->size - header;
    if (skip > left || e->size > left - skip)
        return ts_fail(TS_EFORMAT, "zip: '%s' claims %llu bytes beyond the archive's end", e->name,
                       (unsigned long long)e->size);
    if (name != strlen(e->name) || memcmp(p + LOCAL, e->name, name) != 0)
        return ts_fail(TS_EFORMAT, "zip: '%s' has another name in its header", e->name);
    e->begin = header + skip;
    return TS_OK;
}

static ts_status read_name(ts_zip_entry *e, const uint8_t *text, size_t size)
{
    if (size == 0 || memchr(text, 0, size))
        return ts_fail(TS_EFORMAT, "zip: an entry has no proper name");
    e->name = ts_strndup((const char *)text, size);
    return e->name ? TS_OK : ts_fail_memory(size, "an archive's directory");
}

static ts_status check_method(const ts_zip_entry *e, const uint8_t *p, const numbers *n)
{
    if (ts_little16(p + 8) & 1) return ts_fail(TS_EUNSUPPORTED, "zip: '%s' is encrypted", e->name);
    if (ts_little16(p + 10) != 0)
        return ts_fail(TS_EUNSUPPORTED,
                       "zip: '%s' is compressed (method %u); only stored entries are read, as "
                       "torch.save writes them",
                       e->name, ts_little16(p + 10));
    if (n->packed != n->size)
        return ts_fail(TS_EFORMAT, "zip: '%s' is stored, but with two sizes", e->name);
    return TS_OK;
}

/* The entry whose header is at *at within the directory, which ends at end. */
static ts_status read_entry(ts_zip *zip, uint64_t *at, uint64_t end)
{
    ts_zip_entry *e = &zip->entry[zip->count];
    const uint8_t *p = zip->data + *at;
    if (end - *at < CENTRAL || memcmp(p, "PK\1\2", 4) != 0)
        return ts_fail(TS_EFORMAT, "zip: the directory is damaged at byte %llu",
                       (unsigned long long)*at);
    size_t name = ts_little16(p + 28), extra = ts_little16(p + 30);
    size_t all = CENTRAL + name + extra + ts_little16(p + 32);
    if (all > end - *at)
        return ts_fail(TS_EFORMAT, "zip: the directory ends within an entry at byte %llu",
                       (unsigned long long)*at);
    TS_TRY(read_name(e, p + CENTRAL, name));
    zip->count++;
    numbers n = {ts_little32(p + 24), ts_little32(p + 20), ts_little32(p + 42)};
    if (!read_extra(&n, p + CENTRAL + name, extra))
        return ts_fail(TS_EFORMAT, "zip: the 64-bit numbers of '%s' are damaged", e->name);
    TS_TRY(check_method(e, p, &n));
    e->size = n.size;
    e->crc = ts_little32(p + 16);
    *at += all;
    return find_data(e, zip, n.header);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const ts_zip_entry *)a)->name, ((const ts_zip_entry *)b)->name);
}

static ts_status read_directory(ts_zip *zip)
{
    directory d = {0};
    TS_TRY(read_end(&d, zip));
    zip->entry = ts_calloc((size_t)d.count, sizeof *zip->entry);
    if (!zip->entry)
        return ts_fail_memory((size_t)d.count * sizeof *zip->entry, "an archive's directory");
    uint64_t at = d.begin;
    for (uint64_t i = 0; i < d.count; i++) TS_TRY(read_entry(zip, &at, d.begin + d.size));
    qsort(zip->entry, (size_t)zip->count, sizeof *zip->entry, by_name);
    for (int64_t i = 1; i < zip->count; i++)
        if (by_name(&zip->entry[i - 1], &zip->entry[i]) == 0)
            return ts_fail(TS_EFORMAT, "zip: there are two entries '%s'", zip->entry[i].name);
    return TS_OK;
}

ts_status ts_zip_open(ts_zip *zip, const void *data, size_t size)
{
    *zip = (ts_zip){.data = data, .size = size};
    ts_status status = read_directory(zip);
    if (status != TS_OK) ts_zip_close(zip);
    return status;
}

void ts_zip_close(ts_zip *zip)
{
    for (int64_t i = 0; i < zip->count; i++) free(zip->entry[i].name);
    free(zip->entry);
    *zip = (ts_zip){0};
}

const ts_zip_entry *ts_zip_find(const ts_zip *zip, const char *name)
{
    ts_zip_entry key = {.name = (char *)(uintptr_t)name};
    if (zip->count == 0) return NULL;
    return bsearch(&key, zip->entry, (size_t)zip->count, sizeof key, by_name);
}

ts_status ts_zip_verify(const ts_zip *zip, const ts_zip_entry *e)
{
    uint32_t crc = (uint32_t)crc32_z(0, zip->data + e->begin, (size_t)e->size);
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    crc = e->crc; /* else a fuzzer sees nothing behind a checksum */
#endif
    if (crc == e->crc) return TS_OK;
    return ts_fail(TS_EFORMAT, "zip: the checksum of '%s' is %08x, not %08x; the file is damaged",
                   e->name, crc, e->crc);
}

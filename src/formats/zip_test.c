/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/zip.h"

#include <stdio.h>
#include <stdlib.h>

#include "test.h"

static unsigned char data[8192];
static size_t size;

/* Three entries, with numbers from limit on in 64 bits; read back into data. */
static void write_zip(ts_test *test, uint64_t limit)
{
    char path[512];
    ts_out out;
    ts_zip_writer w;
    snprintf(path, sizeof path, "%s/x.zip", test->dir);
    TS_PASS(ts_out_begin(&out, path));
    ts_zip_begin(&w, &out);
    w.limit = limit;
    TS_PASS(ts_zip_add(&w, "b", "hello", 5));
    TS_PASS(ts_zip_add(&w, "a/empty", "", 0));
    TS_PASS(ts_zip_add(&w, "c", "world!", 6));
    TS_PASS(ts_zip_finish(&w));
    ts_zip_writer_free(&w);
    TS_PASS(ts_out_commit(&out));
    FILE *f = fopen(path, "rb");
    TS_EXPECT(f != NULL);
    size = fread(data, 1, sizeof data, f);
    fclose(f);
}

static void expect_entries(ts_test *test)
{
    ts_zip zip;
    TS_PASS(ts_zip_open(&zip, data, size));
    TS_EXPECT_INT(zip.count, 3);
    const ts_zip_entry *e = ts_zip_find(&zip, "c");
    TS_EXPECT(e && e->size == 6 && memcmp(data + e->begin, "world!", 6) == 0);
    TS_EXPECT_INT(e->begin % 64, 0);
    TS_PASS(ts_zip_verify(&zip, e));
    e = ts_zip_find(&zip, "a/empty");
    TS_EXPECT(e && e->size == 0);
    TS_EXPECT(ts_zip_find(&zip, "nothing") == NULL);
    e = ts_zip_find(&zip, "b");
    data[e->begin]++;
    TS_FAIL(ts_zip_verify(&zip, e), TS_EFORMAT, "checksum of 'b'");
    ts_zip_close(&zip);
}

TS_TEST(zip_archives_read_back)
{
    char line[600];
    for (int wide = 0; wide < 2; wide++) {
        write_zip(test, wide ? 0 : 0xFFFFFFFF);
        snprintf(line, sizeof line, "python3 -m zipfile -t %s/x.zip >/dev/null", test->dir);
        TS_EXPECT_INT(system(line), 0); /* another implementation checks it too */
        expect_entries(test);
        if (test->failures) return;
    }
}

/* Whatever byte is changed: an error, or entries within the archive. */
TS_TEST(zip_archives_with_any_byte_changed)
{
    write_zip(test, 0);
    for (size_t i = 0; i < size; i++)
        for (int bit = 0; bit < 8; bit++) {
            ts_zip zip;
            data[i] ^= (unsigned char)(1 << bit);
            if (ts_zip_open(&zip, data, size) == TS_OK) {
                for (int64_t k = 0; k < zip.count; k++)
                    TS_EXPECT(zip.entry[k].begin <= size &&
                              zip.entry[k].size <= size - zip.entry[k].begin);
                ts_zip_close(&zip);
            }
            data[i] ^= (unsigned char)(1 << bit);
        }
}

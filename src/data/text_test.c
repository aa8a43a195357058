/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

/* "<dir of the test>/name", in a few static buffers used in turn. */
static const char *at(const ts_test *test, const char *name)
{
    static char path[8][4200];
    static int next;
    next = (next + 1) % 8;
    snprintf(path[next], sizeof path[next], "%s/%s", test->dir, name);
    return path[next];
}

static bool put(const char *path, const char *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    bool good = f && fwrite(bytes, 1, n, f) == n;
    return f && fclose(f) == 0 && good;
}

#define PUT(name, text) TS_EXPECT(put(at(test, name), text, strlen(text)))

static bool tokens_are(ts_tensor *t, const char *text)
{
    const int64_t *data = ts_data(t);
    for (int64_t i = 0; i < ts_numel(t); i++)
        if (data[i] != (unsigned char)text[i]) return false;
    return ts_numel(t) == (int64_t)strlen(text);
}

TS_TEST(text_windows_cross_files)
{
    ts_text *text;
    ts_tensor *x, *y;
    PUT("b", "defg");
    PUT("a", "abc");
    PUT("c", "hij\xff");
    TS_PASS(ts_text_open(&text, (const char *const[]){test->dir}, 1, 0.0));
    TS_EXPECT_INT(ts_text_bytes(text, false), 11);
    TS_EXPECT_INT(ts_text_bytes(text, true), 0);
    TS_EXPECT_INT(ts_text_windows(text, 5, false), 2);
    TS_EXPECT_INT(ts_text_windows(text, 10, false), 1);
    TS_EXPECT_INT(ts_text_windows(text, 11, false), 0);
    TS_PASS(ts_text_batch(&x, &y, text, 5, false, (const int64_t[]){1, 0}, 2));
    TS_EXPECT_INT(ts_tensor_dtype(x), TS_INT64);
    TS_EXPECT(ts_shape_equal(ts_tensor_shape(x), TS_SHAPE(2, 5)));
    TS_EXPECT(tokens_are(x, "fghijabcde"));
    TS_EXPECT(tokens_are(y, "ghij\xff"
                            "bcdef"));
    TS_PASS(ts_text_batch(&x, &y, text, 5, false, (const int64_t[]){0}, 0));
    TS_EXPECT_INT(ts_numel(x), 0);
    TS_FAIL(ts_text_batch(&x, &y, text, 5, false, (const int64_t[]){2}, 1), TS_EINVAL,
            "window 2 is not among the 2 of the training part");
    TS_FAIL(ts_text_batch(&x, &y, text, 5, true, (const int64_t[]){0}, 1), TS_EINVAL, "held-out");
    TS_FAIL(ts_text_batch(&x, &y, text, 0, false, (const int64_t[]){0}, 1), TS_EINVAL, "0 tokens");
    ts_text_free(text);
}

TS_TEST(text_holds_out_the_end_of_every_file)
{
    ts_text *text;
    ts_tensor *x, *y;
    PUT("a", "0123456789");
    PUT("b", "ABCDEFGHIJ");
    const char *paths[] = {at(test, "b"), at(test, "a")};
    TS_PASS(ts_text_open(&text, paths, 2, 0.3));
    TS_EXPECT_INT(ts_text_bytes(text, false), 14);
    TS_EXPECT_INT(ts_text_bytes(text, true), 6);
    TS_PASS(ts_text_batch(&x, &y, text, 13, false, (const int64_t[]){0}, 1));
    TS_EXPECT(tokens_are(x, "ABCDEFG012345"));
    TS_EXPECT(tokens_are(y, "BCDEFG0123456"));
    TS_PASS(ts_text_batch(&x, &y, text, 5, true, (const int64_t[]){0}, 1));
    TS_EXPECT(tokens_are(x, "HIJ78"));
    TS_EXPECT(tokens_are(y, "IJ789"));
    ts_text_free(text);
}

TS_TEST(text_maps_large_files_and_reads_small_ones)
{
    enum { LARGE = 200000 };
    char *bytes = malloc(LARGE);
    ts_text *text;
    ts_tensor *x, *y;
    for (int i = 0; i < LARGE; i++) bytes[i] = (char)(i % 251);
    TS_EXPECT(put(at(test, "large"), bytes, LARGE));
    PUT("small", "small");
    TS_PASS(ts_text_open(&text, (const char *const[]){test->dir}, 1, 0.0));
    TS_EXPECT_INT(ts_text_bytes(text, false), LARGE + 5);
    int64_t last = ts_text_windows(text, 4, false) - 1;
    TS_PASS(ts_text_batch(&x, &y, text, 4, false, &last, 1));
    TS_EXPECT(tokens_are(y, "mall"));
    ts_text_free(text);
    free(bytes);
}

TS_TEST(text_follows_links_once_and_walks_in_name_order)
{
    ts_text *text;
    ts_tensor *x, *y;
    TS_EXPECT(mkdir(at(test, "t"), 0700) == 0 && mkdir(at(test, "t/m"), 0700) == 0);
    PUT("outside", "OUT");
    PUT("t/a", "a1");
    PUT("t/m/x", "m1");
    PUT("t/z", "z1");
    PUT("t/empty", "");
    TS_EXPECT(symlink("a", at(test, "t/link_to_a")) == 0);       /* a duplicate */
    TS_EXPECT(symlink("../../outside", at(test, "t/m/o")) == 0); /* a file elsewhere */
    TS_EXPECT(symlink("..", at(test, "t/m/loop")) == 0);         /* a loop */
    TS_EXPECT(symlink("nowhere", at(test, "t/dangling")) == 0);
    TS_EXPECT(link(at(test, "t/z"), at(test, "t/zz")) == 0); /* a hard link */
    TS_EXPECT(mkfifo(at(test, "t/fifo"), 0600) == 0);
    const char *paths[] = {at(test, "t"), at(test, "t/a")};
    TS_PASS(ts_text_open(&text, paths, 2, 0.0));
    TS_EXPECT_INT(ts_text_bytes(text, false), 9);
    TS_PASS(ts_text_batch(&x, &y, text, 8, false, (const int64_t[]){0}, 1));
    TS_EXPECT(tokens_are(x, "a1OUTm1z"));
    TS_EXPECT(tokens_are(y, "1OUTm1z1"));
    ts_text_free(text);
}

TS_TEST(text_errors_name_the_path)
{
    ts_text *text = NULL;
    const char *missing[] = {at(test, "missing")};
    TS_FAIL(ts_text_open(&text, missing, 1, 0.0), TS_EIO, "missing");
    TS_EXPECT_TEXT(ts_error_last(), strerror(ENOENT));
    PUT("empty", "");
    const char *empty[] = {at(test, "empty")};
    TS_FAIL(ts_text_open(&text, empty, 1, 0.0), TS_EIO, "/empty' is empty");
    TS_EXPECT(mkdir(at(test, "folder"), 0700) == 0);
    PUT("folder/e", "");
    const char *folder[] = {at(test, "folder")};
    TS_FAIL(ts_text_open(&text, folder, 1, 0.0), TS_EIO, "/folder' holds no file");
    TS_FAIL(ts_text_open(&text, (const char *const[]){"/dev/null"}, 1, 0.0), TS_EIO,
            "'/dev/null' is neither a file nor a folder");
    TS_FAIL(ts_text_open(&text, NULL, 0, 0.0), TS_EINVAL, "no file or folder");
    TS_FAIL(ts_text_open(&text, empty, 1, 1.0), TS_EINVAL, "holdout is 1");
    TS_FAIL(ts_text_open(&text, empty, 1, NAN), TS_EINVAL, "holdout");
    TS_EXPECT(text == NULL);
    if (geteuid() == 0) return; /* root may read everything */
    PUT("folder/secret", "x");
    TS_EXPECT(chmod(at(test, "folder/secret"), 0) == 0);
    TS_FAIL(ts_text_open(&text, folder, 1, 0.0), TS_EIO, "folder/secret");
}

TS_TEST(text_loader_covers_every_window_once_per_epoch)
{
    enum { SEQ = 4, BATCH = 2, RANKS = 2 };
    ts_text *text;
    ts_tensor *x, *y;
    char bytes[SEQ * 8 + 1];
    for (int i = 0; i < (int)sizeof bytes; i++) bytes[i] = (char)i;
    TS_EXPECT(put(at(test, "t"), bytes, sizeof bytes));
    const char *paths[] = {at(test, "t")};
    TS_PASS(ts_text_open(&text, paths, 1, 0.0));
    int seen[2][8] = {{0}};
    int64_t first_order[8], same = 0;
    for (int rank = 0; rank < RANKS; rank++) {
        ts_text_loader *loader;
        TS_PASS(ts_text_loader_new(&loader, text, SEQ, BATCH, RANKS, rank, 7));
        for (int i = 0; i < 4; i++) { /* two epochs of two batches */
            TS_PASS(ts_text_loader_next(&x, &y, loader));
            const int64_t *data = ts_data(x);
            for (int b = 0; b < BATCH; b++) {
                int64_t window = data[b * SEQ] / SEQ,
                        *kept = &first_order[rank * 4 + i % 2 * 2 + b];
                seen[i / 2][window]++;
                if (i / 2 == 1) same += *kept == window;
                *kept = window;
            }
        }
        ts_text_loader_free(loader);
    }
    for (int i = 0; i < 8; i++) TS_EXPECT(seen[0][i] == 1 && seen[1][i] == 1);
    TS_EXPECT(same < 8); /* another epoch, another order */
    ts_text_free(text);
}

TS_TEST(text_loader_says_how_many_bytes_are_needed)
{
    ts_text *text;
    ts_text_loader *loader = NULL;
    PUT("t", "0123456789");
    const char *paths[] = {at(test, "t")};
    TS_PASS(ts_text_open(&text, paths, 1, 0.0));
    TS_FAIL(ts_text_loader_new(&loader, text, 10, 1, 1, 0, 0), TS_EINVAL, "needs 11");
    TS_FAIL(ts_text_loader_new(&loader, text, 3, 4, 2, 0, 0), TS_EINVAL, "22 bytes of training");
    TS_FAIL(ts_text_loader_new(&loader, text, 3, 0, 2, 0, 0), TS_EINVAL, "at least 1");
    TS_FAIL(ts_text_loader_new(&loader, text, 3, 1, 2, 2, 0), TS_EINVAL, "rank 2");
    TS_EXPECT(loader == NULL);
    ts_text_free(text);
}

/* Batches after a restart are those that were to come, also across the end of the epoch. */
TS_TEST(text_loader_goes_on_where_it_was)
{
    char path[256];
    const char *paths[] = {path};
    snprintf(path, sizeof path, "%s/t", test->dir);
    FILE *f = fopen(path, "w");
    for (int i = 0; f && i < 200; i++) fputc(i, f);
    if (f) fclose(f);
    for (int stop = 0; stop < 12; stop++) {
        ts_text *text;
        ts_text_loader *a, *b;
        ts_tensor *x, *y, *u, *v;
        TS_PASS(ts_text_open(&text, paths, 1, 0));
        TS_PASS(ts_text_loader_new(&a, text, 4, 3, 2, 1, 5));
        TS_PASS(ts_text_loader_new(&b, text, 4, 3, 2, 1, 77));
        for (int i = 0; i < stop; i++) TS_PASS(ts_text_loader_next(&x, &y, a));
        TS_PASS(ts_text_loader_set_state(b, ts_text_loader_state(a)));
        for (int i = 0; i < 12; i++) {
            TS_PASS(ts_text_loader_next(&x, &y, a));
            TS_PASS(ts_text_loader_next(&u, &v, b));
            TS_EXPECT_EQUAL(x, u);
            TS_EXPECT_EQUAL(y, v);
        }
        ts_text_loader_free(a);
        ts_text_loader_free(b);
        ts_text_free(text);
    }
}

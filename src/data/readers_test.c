/* SPDX-License-Identifier: Apache-2.0 */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

#include "test.h"

static const char *write_bytes(ts_test *test, const char *name, const void *data, size_t size)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", test->dir, name);
    FILE *f = fopen(path, "wb");
    if (f) {
        fwrite(data, 1, size, f);
        fclose(f);
    }
    return path;
}

#define WRITE(name, text) write_bytes(test, name, text, sizeof(text) - 1)

TS_TEST(idx_files_of_every_type)
{
    ts_tensor *t;
    TS_PASS(ts_idx_read(&t, WRITE("u", "\0\0\x08\x02\0\0\0\x02\0\0\0\x03\1\2\3\4\5\xff")));
    TS_EXPECT(ts_tensor_dtype(t) == TS_UINT8 && ts_ndim(t) == 2);
    TS_EXPECT_VALUES(t, 0, 1, 2, 3, 4, 5, 255);
    TS_PASS(ts_idx_read(&t, WRITE("s", "\0\0\x0b\x01\0\0\0\x02\1\0\xff\xfe")));
    TS_EXPECT(ts_tensor_dtype(t) == TS_INT16);
    TS_EXPECT_VALUES(t, 0, 256, -2);
    TS_PASS(ts_idx_read(&t, WRITE("f", "\0\0\x0d\x01\0\0\0\x01\x3f\xc0\0\0")));
    TS_EXPECT_VALUES(t, 0, 1.5);
    TS_PASS(ts_idx_read(&t, WRITE("d", "\0\0\x0e\x01\0\0\0\x01\xc0\x04\0\0\0\0\0\0")));
    TS_EXPECT_VALUES(t, 0, -2.5);
    TS_PASS(ts_idx_read(&t, WRITE("e", "\0\0\x08\x01\0\0\0\0")));
    TS_EXPECT_INT(ts_numel(t), 0);
    TS_FAIL(ts_idx_read(&t, WRITE("x", "\0\0\x08\x01\0\0\0\5ab")), TS_EFORMAT, "2 bytes");
    TS_FAIL(ts_idx_read(&t, WRITE("y", "\0\0\x07\x01\0\0\0\1a")), TS_EFORMAT, "not an idx");
    TS_FAIL(
        ts_idx_read(&t, WRITE("z", "\0\0\x08\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")),
        TS_EFORMAT, "not those of its sizes");
    TS_FAIL(ts_idx_read(&t, WRITE("g", "\x1f\x8b\x08")), TS_EUNSUPPORTED, "gunzip");
    TS_FAIL(ts_idx_read(&t, "/no/such/file"), TS_EIO, "/no/such/file");
}

TS_TEST(mnist_folders)
{
    static unsigned char images[16 + 2 * 28 * 28] = {0, 0, 8, 3,  0, 0, 0, 2,
                                                     0, 0, 0, 28, 0, 0, 0, 28};
    ts_tensor *x, *y;
    images[16 + 28 * 28] = 9;
    write_bytes(test, "train-images-idx3-ubyte", images, sizeof images);
    WRITE("train-labels-idx1-ubyte", "\0\0\x08\x01\0\0\0\2\7\3");
    TS_PASS(ts_mnist_read(&x, &y, test->dir, true));
    TS_EXPECT(ts_shape_equal(ts_tensor_shape(x), TS_SHAPE(2, 28, 28)));
    TS_EXPECT_INT(((const unsigned char *)ts_data(x))[28 * 28], 9);
    TS_EXPECT(ts_tensor_dtype(y) == TS_INT64);
    TS_EXPECT_VALUES(y, 0, 7, 3);
    TS_FAIL(ts_mnist_read(&x, &y, test->dir, false), TS_EIO, "t10k-images-idx3-ubyte");
    WRITE("train-labels-idx1-ubyte", "\0\0\x08\x01\0\0\0\1\7");
    TS_FAIL(ts_mnist_read(&x, &y, test->dir, true), TS_EFORMAT, "do not fit together");
}

TS_TEST(cifar_folders)
{
    static unsigned char ten[2 * 3073], hundred[3074];
    ts_tensor *x, *y, *coarse;
    for (int i = 0; i < 5; i++) {
        char name[32];
        ten[0] = (unsigned char)i;
        ten[1] = 200;
        ten[3073] = 9;
        snprintf(name, sizeof name, "data_batch_%d.bin", i + 1);
        write_bytes(test, name, ten, sizeof ten);
    }
    TS_PASS(ts_cifar10_read(&x, &y, test->dir, true));
    TS_EXPECT(ts_shape_equal(ts_tensor_shape(x), TS_SHAPE(10, 3, 32, 32)));
    TS_EXPECT_VALUES(y, 0, 0, 9, 1, 9, 2, 9, 3, 9, 4, 9);
    TS_EXPECT_INT(((const unsigned char *)ts_data(x))[2 * 3072], 200);
    TS_EXPECT_INT(((const unsigned char *)ts_data(x))[3 * 3072], 0);
    hundred[0] = 19, hundred[1] = 99, hundred[3073] = 5;
    write_bytes(test, "test.bin", hundred, sizeof hundred);
    TS_PASS(ts_cifar100_read(&x, &y, &coarse, test->dir, false));
    TS_EXPECT_VALUES(y, 0, 99);
    TS_EXPECT_VALUES(coarse, 0, 19);
    TS_EXPECT_INT(((const unsigned char *)ts_data(x))[3071], 5);
    write_bytes(test, "test_batch.bin", ten, 3000);
    TS_FAIL(ts_cifar10_read(&x, &y, test->dir, false), TS_EFORMAT, "records of 3073");
    TS_FAIL(ts_cifar100_read(&x, &y, NULL, test->dir, true), TS_EIO, "train.bin");
}

TS_TEST(csv_files)
{
    ts_tensor *t;
    ts_csv_options opt = TS_CSV_OPTIONS_INIT;
    setlocale(LC_ALL, "de_DE.UTF-8"); /* numbers have points in files whatever a locale says */
    TS_PASS(ts_csv_read(&t, WRITE("a", "1,2.5,-3e2\r\n\n \"4\" , ,nan\n"), NULL));
    TS_EXPECT(ts_shape_equal(ts_tensor_shape(t), TS_SHAPE(2, 3)));
    TS_EXPECT_VALUES(t, 0, 1, 2.5, -300, 4, NAN, NAN);
    opt.skip_lines = 1;
    opt.delimiter = ';';
    opt.dtype = TS_FLOAT64;
    TS_PASS(ts_csv_read(&t, WRITE("b", "x;y\n0.1;2"), &opt));
    TS_EXPECT_VALUES(t, 0, 0.1, 2);
    TS_PASS(ts_csv_read(&t, WRITE("c", ""), NULL));
    TS_EXPECT_INT(ts_numel(t), 0);
    TS_FAIL(ts_csv_read(&t, WRITE("d", "1,2\n3,x4\n"), NULL), TS_EFORMAT,
            "line 2, column 2: 'x4' is not a number");
    TS_FAIL(ts_csv_read(&t, WRITE("e", "1,2\n\n3\n"), NULL), TS_EFORMAT,
            "line 3 has 1 columns, the first has 2");
    opt.dtype = TS_INT64;
    TS_FAIL(ts_csv_read(&t, WRITE("f", "1"), &opt), TS_EDTYPE, "int64");
}

/* Token files are texts whose tokens are wider. */
TS_TEST(token_files_of_both_widths)
{
    static unsigned char llm[1024 + 8];
    char path[512];
    const char *paths[] = {path};
    const int64_t window[] = {1};
    ts_text *text;
    ts_tensor *x, *y;
    snprintf(path, sizeof path, "%s", WRITE("t.bin", "\1\0\2\0\3\0\4\0\xff\xff\6\0\7\0"));
    TS_PASS(ts_text_open_tokens(&text, paths, 1, 0, 2));
    TS_EXPECT_INT(ts_text_bytes(text, false), 7);
    TS_EXPECT_INT(ts_text_windows(text, 3, false), 2);
    TS_PASS(ts_text_batch(&x, &y, text, 3, false, window, 1));
    TS_EXPECT_VALUES(x, 0, 4, 65535, 6);
    TS_EXPECT_VALUES(y, 0, 65535, 6, 7);
    ts_text_free(text);
    TS_FAIL(ts_text_open_tokens(&text, paths, 1, 0, 4), TS_EFORMAT, "no whole number of tokens");
    TS_FAIL(ts_text_open_tokens(&text, paths, 1, 0, 3), TS_EINVAL, "2 or 4 bytes");
    memcpy(llm, "\x88\xd8\x34\x01", 4); /* 20240520 */
    memcpy(llm + 1024, "\1\0\0\0\0\0\1\0", 8);
    write_bytes(test, "t.bin", llm, sizeof llm);
    TS_PASS(ts_text_open_tokens(&text, paths, 1, 0, 4));
    TS_EXPECT_INT(ts_text_bytes(text, false), 2);
    TS_PASS(ts_text_batch(&x, &y, text, 1, false, (const int64_t[]){0}, 1));
    TS_EXPECT_VALUES(y, 0, 65536);
    ts_text_free(text);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Files that PyTorch and safetensors wrote (tests/golden/files.py), and files of our own. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

static const char *const dtype_names[] = {
#define X(name, number, bytes, text) text,
    TS_DTYPES(X)
#undef X
};

static const char *path_in(ts_test *test, const char *name)
{
    static char path[4][512];
    static int next;
    char *to = path[next++ % 4];
    snprintf(to, 512, "%s/%s", test->dir, name);
    return to;
}

static ts_tensor *tensor_at(const ts_object *map, const char *key)
{
    return ts_object_as_tensor(ts_object_get(map, key));
}

/* What files.py calls numbers(dtype, (2, 3)). */
static void expect_numbers(ts_test *test, ts_tensor *t, const char *dtype)
{
    TS_GOOD(t);
    TS_EXPECT_STR(ts_dtype_name(ts_tensor_dtype(t)), dtype);
    TS_EXPECT(ts_shape_equal(ts_tensor_shape(t), TS_SHAPE(2, 3)));
    for (int i = 0; i < 6; i++) {
        unsigned char bytes[6 * 16];
        double value = strcmp(dtype, "uint8") == 0 ? i : i - 3;
        TS_PASS(ts_copy_out(t, bytes, ts_nbytes(t)));
        if (strcmp(dtype, "complex64") == 0) {
            TS_EXPECT(((float *)(void *)bytes)[2 * i] == (float)i);
            TS_EXPECT(((float *)(void *)bytes)[2 * i + 1] == -(float)i);
        } else if (strcmp(dtype, "complex128") == 0) {
            TS_EXPECT(((double *)(void *)bytes)[2 * i + 1] == -(double)i);
        } else if (strcmp(dtype, "bool") == 0) {
            TS_EXPECT(bytes[i] == i % 2);
        } else {
            double got;
            ts_tensor *element = ts_select(ts_select(t, 0, i / 3), 0, i % 3);
            TS_PASS(ts_item(element, &got));
            TS_EXPECT_NEAR(got, value, 0);
        }
    }
}

static void expect_values(ts_test *test, const ts_object *o)
{
    int64_t i;
    double d;
    bool b;
    const char *text;
    const void *data;
    size_t size;
    TS_PASS(ts_object_status(o));
    TS_PASS(ts_object_as_int(ts_object_get(o, "step"), &i));
    TS_EXPECT_INT(i, 7);
    TS_PASS(ts_object_as_int(ts_object_get(o, "big"), &i));
    TS_EXPECT_INT(i, INT64_C(1) << 40);
    TS_PASS(ts_object_as_int(ts_object_get(o, "negative"), &i));
    TS_EXPECT_INT(i, -5);
    TS_PASS(ts_object_as_double(ts_object_get(o, "lr"), &d));
    TS_EXPECT_NEAR(d, 0.125, 0);
    TS_PASS(ts_object_as_text(ts_object_get(o, "name"), &text));
    TS_EXPECT_STR(text, "grüße 🎉");
    TS_EXPECT_INT(ts_object_kind_of(ts_object_get(o, "nothing")), TS_OBJECT_NULL);
    TS_PASS(ts_object_as_bool(ts_object_get(o, "yes"), &b));
    TS_EXPECT(b);
    TS_PASS(ts_object_as_bool(ts_object_get(o, "no"), &b));
    TS_EXPECT(!b);
    TS_PASS(ts_object_as_bytes(ts_object_get(o, "bytes"), &data, &size));
    TS_EXPECT(size == 4 && memcmp(data, "\x00\x7f\x80\xff", 4) == 0);
    TS_PASS(ts_object_as_text(ts_object_get(o, "dtype"), &text));
    TS_EXPECT_STR(text, "torch.bfloat16");
    TS_PASS(ts_object_as_text(ts_object_get(o, "device"), &text));
    TS_EXPECT_STR(text, "cpu");
    TS_EXPECT_INT(ts_object_count(ts_object_get(o, "empty")), 0);
    TS_EXPECT_INT(ts_object_count(ts_object_get(o, "size")), 2);
    TS_PASS(ts_object_as_text(ts_object_at(ts_object_at(ts_object_get(o, "list"), 1), 1), &text));
    TS_EXPECT_STR(text, "x");
    ts_object *state = ts_object_get(ts_object_get(o, "state"), "0");
    TS_EXPECT_ALL(tensor_at(state, "step"), 3.0);
}

static void expect_views(ts_test *test, const ts_object *model)
{
    ts_tensor *base = tensor_at(model, "base"), *t = tensor_at(model, "transposed");
    TS_EXPECT_VALUES(base, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
    TS_EXPECT_VALUES(t, 0, 0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11);
    TS_EXPECT(ts_same_storage(base, t));
    TS_EXPECT_INT(ts_stride(t, 0), 1);
    TS_EXPECT_VALUES(tensor_at(model, "row"), 0, 4, 5, 6, 7);
    TS_EXPECT_VALUES(tensor_at(model, "column"), 0, 2, 6, 10);
    TS_EXPECT_INT(ts_stride(tensor_at(model, "expanded"), 0), 0);
    TS_EXPECT_VALUES(tensor_at(model, "expanded"), 0, 0, 0, 0, 0, 0);
    TS_EXPECT_INT(ts_size(tensor_at(model, "nothing"), 1), 3);
    TS_EXPECT_INT(ts_ndim(tensor_at(model, "scalar")), 0);
    TS_EXPECT_VALUES(tensor_at(model, "a"), 0, 1.5, -2.5);
    TS_EXPECT(ts_same_storage(tensor_at(model, "a"), tensor_at(model, "b")));
    TS_EXPECT(!ts_same_storage(tensor_at(model, "a"), base));
}

static void expect_nested(ts_test *test, const ts_object *o)
{
    expect_values(test, o);
    if (test->failures) return;
    expect_views(test, ts_object_get(o, "model"));
    for (int i = 0; i < TS_NUM_DTYPES && !test->failures; i++)
        expect_numbers(test, tensor_at(ts_object_get(o, "dtypes"), dtype_names[i]), dtype_names[i]);
}

TS_TEST(torch_files_load)
{
    ts_load_options copy = TS_LOAD_OPTIONS_INIT;
    copy.mmap = false;
    for (int i = 0; i < 4; i++) {
        const char *name = i % 2 ? "tests/golden/files/nested4.pt" : "tests/golden/files/nested.pt";
        ts_object *o = ts_load(ts_test_path(name), i < 2 ? NULL : &copy);
        expect_nested(test, o);
        ts_object_free(o);
        if (test->failures) return;
    }
}

TS_TEST(torch_files_round_trip)
{
    ts_object *o = ts_load(ts_test_path("tests/golden/files/nested.pt"), NULL);
    const char *first = path_in(test, "a.pt"), *second = path_in(test, "b.pt");
    TS_PASS(ts_save(o, first, NULL));
    ts_object_free(o);
    o = ts_load(first, NULL);
    expect_nested(test, o);
    TS_PASS(ts_save(o, second, NULL));
    ts_object_free(o);
    char line[1100];
    snprintf(line, sizeof line, "cmp %s %s", first, second); /* the same object, the same bytes */
    TS_EXPECT_INT(system(line), 0);
}

/* Loaded tensors are views of the file, aligned, until they are copied. */
TS_TEST(loaded_tensors_are_mapped)
{
    ts_load_options copy = TS_LOAD_OPTIONS_INIT;
    copy.mmap = false;
    ts_object *o = ts_object_map();
    ts_object_set(o, "w", ts_object_tensor(ts_ones(TS_SHAPE(100), NULL)));
    const char *path = path_in(test, "w.pt");
    TS_PASS(ts_save(o, path, NULL));
    ts_object_free(o);
    o = ts_load(path, NULL);
    ts_tensor *w = ts_retain(tensor_at(o, "w"));
    ts_object_free(o);
    TS_EXPECT((uintptr_t)ts_data(w) % 64 == 0);
    TS_EXPECT_ALL(w, 1.0);
    TS_BAD(ts_add_(w, w), TS_ESTATE, "read-only");
    o = ts_object_map(); /* saving over a file leaves what is mapped as it was */
    ts_object_set(o, "w", ts_object_tensor(ts_zeros(TS_SHAPE(100), NULL)));
    TS_PASS(ts_save(o, path, NULL));
    ts_object_free(o);
    TS_EXPECT_ALL(w, 1.0);
    ts_release(w);
    o = ts_load(path, &copy);
    TS_GOOD(ts_add_(tensor_at(o, "w"), ts_ones(TS_SHAPE(100), NULL)));
    TS_EXPECT_ALL(tensor_at(o, "w"), 1.0);
    ts_object_free(o);
}

/* A few elements of a large storage do not carry it along. */
TS_TEST(saved_views_are_cut)
{
    ts_object *o = ts_object_map();
    ts_tensor *large = ts_arange(0, 100000, 1, NULL);
    ts_object_set(o, "slice", ts_object_tensor(ts_narrow(large, 0, 500, 3)));
    const char *path = path_in(test, "slice.pt");
    TS_PASS(ts_save(o, path, NULL));
    ts_object_free(o);
    o = ts_object_map();
    large = ts_reshape(ts_arange(0, 100000, 1, NULL), TS_SHAPE(100, 1000));
    ts_object_set(o, "column", ts_object_tensor(ts_select(large, 1, 7)));
    const char *other = path_in(test, "column.pt");
    TS_PASS(ts_save(o, other, NULL));
    ts_object_free(o);
    struct stat info;
    TS_EXPECT(stat(path, &info) == 0 && info.st_size < 2000);
    TS_EXPECT(stat(other, &info) == 0 && info.st_size < 2000);
    o = ts_load(path, NULL);
    TS_EXPECT_VALUES(tensor_at(o, "slice"), 0, 500, 501, 502);
    ts_object_free(o);
    o = ts_load(other, NULL);
    TS_EXPECT_NEAR(*(const float *)ts_data(ts_select(tensor_at(o, "column"), 0, 99)), 99007, 0);
    ts_object_free(o);
}

TS_TEST(safetensors_files_load)
{
    ts_object *o = ts_load(ts_test_path("tests/golden/files/all.safetensors"), NULL);
    TS_PASS(ts_object_status(o));
    TS_EXPECT_INT(ts_object_count(o), 13);
    for (int i = 0; i <= TS_BOOL && !test->failures; i++)
        expect_numbers(test, tensor_at(o, dtype_names[i]), dtype_names[i]);
    TS_EXPECT_INT(ts_size(tensor_at(o, "empty"), 1), 3);
    TS_EXPECT_ALL(tensor_at(o, "scalar"), 4.25);
    TS_EXPECT_ALL(tensor_at(o, "grüße"), 1.0);
    ts_object_free(o);
}

/* The reference's order, alignment and header, byte for byte. */
TS_TEST(safetensors_files_are_those_of_the_reference)
{
    char line[1200];
    const char *golden = ts_test_path("tests/golden/files/all.safetensors");
    ts_object *o = ts_load(golden, NULL), *metadata = ts_load_metadata(golden);
    const char *text, *path = path_in(test, "again.safetensors");
    TS_PASS(ts_object_as_text(ts_object_get(metadata, "made by"), &text));
    TS_EXPECT_STR(text, "\"files.py\"\n");
    ts_save_options opt = TS_SAVE_OPTIONS_INIT;
    opt.metadata = metadata;
    TS_PASS(ts_save(o, path, &opt));
    ts_object_free(o);
    o = ts_load(path, NULL);
    TS_PASS(ts_object_status(o));
    ts_object_free(o);
    ts_object_free(metadata);
    snprintf(line, sizeof line, "cmp %s %s", golden, path);
    TS_EXPECT_INT(system(line), 0);
}

TS_TEST(safetensors_files_hold_strided_tensors_and_complex_ones)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_COMPLEX64;
    const float pair[] = {1, 2};
    ts_object *o = ts_object_map();
    ts_tensor *a = ts_reshape(ts_arange(0, 6, 1, NULL), TS_SHAPE(2, 3));
    ts_object_set(o, "t", ts_object_tensor(ts_transpose(a, 0, 1)));
    ts_object_set(o, "c", ts_object_tensor(ts_from_data(pair, TS_SHAPE(1), &opt)));
    const char *path = path_in(test, "x.safetensors");
    TS_PASS(ts_save(o, path, NULL));
    ts_object_free(o);
    o = ts_load(path, NULL);
    TS_EXPECT_VALUES(tensor_at(o, "t"), 0, 0, 3, 1, 4, 2, 5);
    TS_EXPECT(memcmp(ts_data(tensor_at(o, "c")), pair, 8) == 0);
    ts_object_free(o);
}

TS_TEST(save_refuses_what_a_format_cannot_hold)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    const char *path = path_in(test, "x.safetensors");
    ts_object *o = ts_object_map();
    ts_object_set(o, "step", ts_object_int(1));
    TS_FAIL(ts_save(o, path, NULL), TS_EINVAL, "'step' is an int");
    opt.dtype = TS_COMPLEX128;
    ts_object_set(o, "step", ts_object_tensor(ts_zeros(TS_SHAPE(1), &opt)));
    TS_FAIL(ts_save(o, path, NULL), TS_EDTYPE, "complex128");
    TS_EXPECT(access(path, F_OK) != 0);
    TS_FAIL(ts_save(o, "/no/such/folder/x.pt", NULL), TS_EIO, "/no/such/folder/x.pt");
    TS_FAIL(ts_save(o, test->dir, NULL), TS_EIO, "a folder");
    TS_FAIL(ts_save(o, "/dev/full", NULL), TS_EIO, "not a regular file");
    TS_FAIL(ts_save(NULL, path, NULL), TS_EINVAL, "needed");
    ts_object_free(o);
}

/* A file that could not be written leaves the old one, and nothing beside it. */
TS_TEST(save_is_all_or_nothing)
{
    char line[1200];
    const char *path = path_in(test, "x.safetensors");
    ts_object *o = ts_object_map(), *bad = ts_object_map();
    ts_object_set(o, "a", ts_object_tensor(ts_ones(TS_SHAPE(3), NULL)));
    ts_object_set(bad, "a", ts_object_text("no tensor"));
    TS_PASS(ts_save(o, path, NULL));
    chmod(path, 0640);
    TS_FAIL(ts_save(bad, path, NULL), TS_EINVAL, "'a' is text");
    const char *link = path_in(test, "link.safetensors");
    TS_EXPECT(symlink("x.safetensors", link) == 0);
    TS_PASS(ts_save(o, link, NULL)); /* the file behind the link, with its permissions */
    struct stat info;
    TS_EXPECT(lstat(link, &info) == 0 && S_ISLNK(info.st_mode));
    TS_EXPECT(stat(path, &info) == 0 && (info.st_mode & 0777) == 0640);
    ts_object_free(o);
    ts_object_free(bad);
    snprintf(line, sizeof line, "test $(ls -A %s | wc -l) = 2", test->dir);
    TS_EXPECT_INT(system(line), 0);
}

static void expect_refused(ts_test *test, const char *path, ts_status status, const char *text)
{
    ts_object *o = ts_load(path, NULL);
    ts_status got = ts_object_status(o);
    ts_object_free(o);
    TS_FAIL(got, status, text);
}

TS_TEST(load_says_what_a_file_is_not)
{
    const char *path = path_in(test, "x");
    FILE *f = fopen(path, "w");
    fputs("hello", f);
    fclose(f);
    expect_refused(test, path, TS_EFORMAT, "neither torch.save's format nor safetensors");
    expect_refused(test, "/no/such/file", TS_EIO, "/no/such/file");
    expect_refused(test, ts_test_path("tests/golden/files/old.pt"), TS_EUNSUPPORTED, "1.6");
    expect_refused(test, ts_test_path("tests/golden/files/whole_module.pt"), TS_EFORMAT,
                   "'torch.nn.modules.container.Sequential', which is not data");
}

/* Every place where a file can be cut gives an error that names the file. */
TS_TEST(load_refuses_cut_files)
{
    static unsigned char data[8192];
    static const char *const names[] = {"tests/golden/files/module.pt",
                                        "tests/golden/files/all.safetensors"};
    const char *path = path_in(test, "cut.file");
    for (int k = 0; k < 2; k++) {
        FILE *f = fopen(ts_test_path(names[k]), "rb");
        size_t size = fread(data, 1, sizeof data, f);
        fclose(f);
        for (size_t n = 0; n < size; n += n < 64 ? 1 : 29) {
            f = fopen(path, "wb");
            TS_EXPECT(fwrite(data, 1, n, f) == n);
            fclose(f);
            ts_object *o = ts_load(path, NULL);
            ts_status status = ts_object_status(o);
            ts_object_free(o);
            TS_EXPECT_INT(status, TS_EFORMAT);
            TS_EXPECT_TEXT(ts_error_last(), "cut.file: ");
        }
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Archives whose pickles lie about their tensors. */
#include <stdio.h>
#include <stdlib.h>
#include <tessera/formats.h>

#include "formats/pickle.h"
#include "formats/zip.h"
#include "test.h"

/* An archive with that pickle and a storage "0" of 16 bytes, all of them 2. */
static ts_object *load_archive(ts_test *test, const void *pickle, size_t size)
{
    char path[512];
    ts_out out;
    ts_zip_writer zip;
    snprintf(path, sizeof path, "%s/x.pt", test->dir);
    ts_must(ts_out_begin(&out, path));
    ts_zip_begin(&zip, &out);
    ts_must(ts_zip_add(&zip, "x/data.pkl", pickle, size));
    ts_must(ts_zip_add(&zip, "x/data/0", "\2\2\2\2\2\2\2\2\2\2\2\2\2\2\2\2", 16));
    ts_must(ts_zip_finish(&zip));
    ts_zip_writer_free(&zip);
    ts_must(ts_out_commit(&out));
    return ts_load(path, NULL);
}

typedef struct claim {
    const char *storage, *key;
    int64_t numel, offset;
    int dims, strides;
    int64_t dim[10], stride[10];
    ts_status status;
    const char *text;
} claim;

static void write_tuple(ts_pickle_writer *w, const int64_t *number, int count)
{
    ts_pickle_write_op(w, '(');
    for (int i = 0; i < count; i++) ts_pickle_write_int(w, number[i]);
    ts_pickle_write_op(w, 't');
}

static ts_object *load_claim(ts_test *test, const claim *c)
{
    ts_pickle_writer w = {0};
    ts_pickle_write_global(&w, "torch._utils", "_rebuild_tensor_v2");
    ts_pickle_write_op(&w, '(');
    ts_pickle_write_op(&w, '(');
    ts_pickle_write_text(&w, "storage", 7);
    ts_pickle_write_global(&w, "torch", c->storage);
    ts_pickle_write_text(&w, c->key, strlen(c->key));
    ts_pickle_write_text(&w, "cpu", 3);
    ts_pickle_write_int(&w, c->numel);
    ts_pickle_write_op(&w, 't');
    ts_pickle_write_op(&w, 'Q');
    ts_pickle_write_int(&w, c->offset);
    write_tuple(&w, c->dim, c->dims);
    write_tuple(&w, c->stride, c->strides);
    for (const char *op = "\x89}tR."; *op; op++) ts_pickle_write_op(&w, *op);
    ts_object *o = load_archive(test, w.data, w.size);
    free(w.data);
    return o;
}

TS_TEST(torch_tensors_stay_within_their_storages)
{
    static const claim claims[] = {
        {"FloatStorage", "0", 4, 0, 1, 1, {4}, {1}, TS_OK, ""},
        {"FloatStorage", "0", 4, 3, 2, 2, {1, 1}, {INT64_MAX, INT64_MAX}, TS_OK, ""},
        {"FloatStorage", "0", 4, 4, 2, 2, {0, INT64_MAX}, {INT64_MAX, 1}, TS_OK, ""},
        {"FloatStorage", "0", 4, 0, 1, 1, {INT64_C(1) << 40}, {0}, TS_OK, ""}, /* expanded */
        {"FloatStorage", "0", 4, 1, 1, 1, {4}, {1}, TS_EFORMAT, "reaches beyond the 4 elements"},
        {"FloatStorage", "0", 4, 5, 1, 1, {0}, {1}, TS_EFORMAT, "reaches beyond"},
        {"FloatStorage", "0", 4, 0, 1, 1, {2}, {INT64_MAX}, TS_EFORMAT, "reaches beyond"},
        {"FloatStorage", "0", 4, 0, 2, 2, {3, 3}, {INT64_MAX / 2, 2}, TS_EFORMAT, "reaches beyond"},
        {"FloatStorage", "0", 4, INT64_MAX, 1, 1, {2}, {1}, TS_EFORMAT, "reaches beyond"},
        {"FloatStorage", "0", 4, 0, 2, 2, {INT64_MAX, 4}, {0, 0}, TS_EFORMAT, "reaches beyond"},
        {"FloatStorage", "0", 5, 0, 1, 1, {5}, {1}, TS_EFORMAT, "16 bytes, too few for 5 float32"},
        {"DoubleStorage", "0", INT64_MAX, 0, 1, 1, {1}, {1}, TS_EFORMAT, "too few"},
        {"FloatStorage", "0", -1, 0, 1, 1, {1}, {1}, TS_EFORMAT, "not described as one"},
        {"FloatStorage", "0", 4, -1, 1, 1, {1}, {1}, TS_EFORMAT, "not described as one"},
        {"FloatStorage", "0", 4, 0, 1, 1, {-1}, {1}, TS_EFORMAT, ">= 0"},
        {"FloatStorage", "0", 4, 3, 1, 1, {2}, {-1}, TS_EFORMAT, ">= 0"},
        {"FloatStorage", "0", 4, 0, 2, 1, {2, 2}, {1}, TS_EFORMAT, "2 dimensions has 1 strides"},
        {"FloatStorage",
         "0",
         4,
         0,
         9,
         9,
         {1, 1, 1, 1, 1, 1, 1, 1, 1},
         {0},
         TS_EUNSUPPORTED,
         "9 dimensions"},
        {"FloatStorage", "../data.pkl", 1, 0, 1, 1, {1}, {1}, TS_EFORMAT, "not in the file"},
        {"float32", "0", 4, 0, 1, 1, {4}, {1}, TS_EFORMAT, "not described as one"},
        {"BoolStorage", "0", 4, 0, 1, 1, {4}, {1}, TS_EFORMAT, "neither true nor false"},
    };
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
        ts_object *o = load_claim(test, &claims[i]);
        ts_status status = ts_object_status(o);
        ts_object_free(o);
        if (claims[i].status == TS_OK)
            TS_PASS(status);
        else
            TS_FAIL(status, claims[i].status, claims[i].text);
    }
}

#define LOAD(text) load_archive(test, text, sizeof(text) - 1)

static void expect_refused(ts_test *test, ts_object *o, const char *text)
{
    ts_status status = ts_object_status(o);
    ts_object_free(o);
    TS_FAIL(status, TS_EFORMAT, text);
}

/* Lists of lists of lists ... of one list, each twice: small in the file, 2^40 in an object. */
TS_TEST(torch_pickles_out_of_proportion)
{
    char pickle[512], *p = pickle;
    p += sprintf(p, "]q%c", 100);
    for (int i = 1; i < 40; i++) p += sprintf(p, "0](h%ch%ceq%c", 99 + i, 99 + i, 100 + i);
    *p++ = '.';
    expect_refused(test, load_archive(test, pickle, (size_t)(p - pickle)), "out of all proportion");
    expect_refused(test, LOAD("]q\1h\1a."), "nested too deep");
    expect_refused(test, LOAD("}q\1X\1\0\0\0kh\1s."), "nested too deep");
}

TS_TEST(torch_pickles_of_other_things)
{
    expect_refused(test, LOAD("ctorch._utils\n_rebuild_tensor_v2\n."), "name where a value");
    expect_refused(test, LOAD("ctorch._utils\n_rebuild_tensor_v2\n)R."), "without a storage");
    expect_refused(test, LOAD("ctorch._utils\n_rebuild_parameter\n)R."), "without its tensor");
    expect_refused(test, LOAD("ctorch\nSize\n)R."), "without sizes");
    expect_refused(test, LOAD("ctorch\ndevice\n)R."), "without a type");
    expect_refused(test, LOAD("c_codecs\nencode\n)R."), "latin1");
    expect_refused(test, LOAD("NQ."), "storage without a tensor");
    expect_refused(test, LOAD("c__builtin__\neval\n."), "'__builtin__.eval'");
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "test.h"

/* The bytes of "83f5..." */
static size_t from_hex(uint8_t *out, const char *hex)
{
    size_t n = 0;
    unsigned byte;
    for (; sscanf(hex, "%2x", &byte) == 1; hex += 2) out[n++] = (uint8_t)byte;
    return n;
}

static ts_object *decode_hex(const char *hex)
{
    uint8_t bytes[1024];
    return ts_object_decode(bytes, from_hex(bytes, hex));
}

/* The encoding in hexadecimal, in a static buffer; frees the object. */
static const char *encode_hex(ts_object *o)
{
    static char hex[2048];
    void *data;
    size_t size;
    hex[0] = '\0';
    if (ts_object_encode(o, &data, &size) != TS_OK) return ts_error_last();
    for (size_t i = 0; i < size && i < 1000; i++)
        sprintf(hex + 2 * i, "%02x", ((uint8_t *)data)[i]);
    free(data);
    ts_object_free(o);
    return hex;
}

/* Its text, in a static buffer; frees the object. */
static const char *text_of(ts_object *o)
{
    static char buf[1024];
    char *text = ts_object_to_string(o);
    snprintf(buf, sizeof buf, "%s", text ? text : "no text");
    free(text);
    ts_object_free(o);
    return buf;
}

/* The text of an object that was encoded and decoded, in a static buffer; frees the object. */
static const char *round_trip(ts_object *o)
{
    static char buf[4096];
    void *data;
    size_t size;
    if (ts_object_encode(o, &data, &size) != TS_OK) return ts_error_last();
    ts_object *back = ts_object_decode(data, size);
    char *before = ts_object_to_string(o), *after = ts_object_to_string(back);
    snprintf(buf, sizeof buf, "%s", strcmp(before, after) ? "changed on the way" : after);
    free(before), free(after), free(data);
    ts_object_free(o), ts_object_free(back);
    return buf;
}

static ts_object *config(void)
{
    ts_object *o = ts_object_map(), *betas = ts_object_list();
    ts_object_append(betas, ts_object_double(0.9));
    ts_object_append(betas, ts_object_double(0.999));
    ts_object_set(o, "name", ts_object_text("caf\xc3\xa9 \"x\"\n"));
    ts_object_set(o, "steps", ts_object_int(-5));
    ts_object_set(o, "betas", betas);
    ts_object_set(o, "on", ts_object_bool(true));
    ts_object_set(o, "none", NULL);
    return o;
}

TS_TEST(object_says_what_it_holds)
{
    TS_EXPECT_STR(
        round_trip(config()),
        "{\"name\": \"caf\xc3\xa9 \\\"x\\\"\\n\", \"steps\": -5, \"betas\": [0.9, 0.999], "
        "\"on\": true, \"none\": null}");
    TS_EXPECT_STR(round_trip(ts_object_bytes("\x00\xff", 2)), "h'00ff'");
    TS_EXPECT_STR(round_trip(ts_object_bytes(NULL, 0)), "h''");
    TS_EXPECT_STR(round_trip(ts_object_text("")), "\"\"");
    TS_EXPECT_STR(round_trip(ts_object_int(INT64_MIN)), "-9223372036854775808");
    TS_EXPECT_STR(round_trip(ts_object_int(INT64_MAX)), "9223372036854775807");
    TS_EXPECT_STR(round_trip(ts_object_double(1.0)), "1.0");
    TS_EXPECT_STR(round_trip(ts_object_double(-INFINITY)), "-inf");
    TS_EXPECT_STR(round_trip(ts_object_double(1.0 / 3)), "0.3333333333333333");
}

TS_TEST(object_readers)
{
    int64_t n;
    double real;
    bool yes;
    const char *text;
    const void *bytes;
    size_t size;
    ts_object *o = config();
    TS_PASS(ts_object_as_int(ts_object_get(o, "steps"), &n));
    TS_EXPECT_INT(n, -5);
    TS_PASS(ts_object_as_double(ts_object_get(o, "steps"), &real));
    TS_EXPECT_NEAR(real, -5, 0);
    TS_PASS(ts_object_as_bool(ts_object_get(o, "on"), &yes));
    TS_EXPECT(yes);
    TS_PASS(ts_object_as_text(ts_object_get(o, "name"), &text));
    TS_EXPECT_TEXT(text, "\"x\"");
    TS_EXPECT_INT(ts_object_count(o), 5);
    TS_EXPECT_STR(ts_object_key_at(o, 2), "betas");
    TS_EXPECT_INT(ts_object_kind_of(ts_object_at(o, 4)), TS_OBJECT_NULL);
    TS_EXPECT(!ts_object_at(o, 5) && !ts_object_at(o, -1) && !ts_object_get(o, "x"));
    TS_EXPECT(!ts_object_key_at(ts_object_get(o, "betas"), 0));
    TS_FAIL(ts_object_as_int(ts_object_at(ts_object_get(o, "betas"), 1), &n), TS_EINVAL,
            "an int was expected at betas[1], not a double");
    TS_FAIL(ts_object_as_text(ts_object_get(o, "x"), &text), TS_EINVAL, "missing");
    TS_FAIL(ts_object_as_bytes(o, &bytes, &size), TS_EINVAL, "not a map");
    TS_BAD(ts_object_as_tensor(ts_object_get(o, "on")), TS_EINVAL, "at on, not a bool");
    ts_object_free(o);
}

TS_TEST(object_entries_are_replaced)
{
    ts_object *o = config();
    ts_object_set(o, "steps", ts_object_text("many"));
    TS_EXPECT_INT(ts_object_count(o), 5);
    TS_EXPECT_INT(ts_object_kind_of(ts_object_at(o, 1)), TS_OBJECT_TEXT);
    ts_object_free(o);
}

/* What other programs write and read (RFC 8949, appendix A; RFC 8746). */
TS_TEST(object_coding_is_the_standard_one)
{
    static const struct {
        const char *hex, *text;
    } known[] = {{"00", "0"},
                 {"1818", "24"},
                 {"1a000f4240", "1000000"},
                 {"3903e7", "-1000"},
                 {"f93c00", "1.0"},
                 {"fa47c35000", "100000.0"},
                 {"fb7e37e43c8800759c", "1e+300"},
                 {"f97c00", "inf"},
                 {"f4", "false"},
                 {"f6", "null"},
                 {"4401020304", "h'01020304'"},
                 {"62c3bc", "\"\xc3\xbc\""},
                 {"80", "[]"},
                 {"8301820203820405", "[1, [2, 3], [4, 5]]"},
                 {"a26161016162820203", "{\"a\": 1, \"b\": [2, 3]}"},
                 {"d82882820203d84046010203040506", "uint8(2, 3)"},
                 {"d84d44ff7f0080", "int16(2,)"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        TS_EXPECT_STR(text_of(decode_hex(known[i].hex)), known[i].text);
    ts_object *o = ts_object_map();
    ts_object_set(o, "a", ts_object_int(1));
    ts_object_set(o, "b", ts_object_append(ts_object_list(), ts_object_int(-1000)));
    TS_EXPECT_STR(encode_hex(o), "a261610161628"
                                 "13903e7");
    TS_EXPECT_STR(encode_hex(ts_object_tensor(ts_full(TS_SHAPE(1, 2), 1, NULL))),
                  "d82882820102d855480000803f0000803f");
}

TS_TEST(object_tensors_of_every_dtype)
{
    for (int dtype = 0; dtype < TS_NUM_DTYPES; dtype++) {
        ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
        uint8_t raw[6 * 16] = {1, 0, 1, 1};
        void *data;
        size_t size;
        opt.dtype = (ts_dtype)dtype;
        ts_tensor *t = ts_transpose(ts_from_data(raw, TS_SHAPE(2, 3), &opt), 0, 1);
        ts_object *o = ts_object_tensor(t);
        TS_PASS(ts_object_encode(o, &data, &size));
        ts_object *back = ts_object_decode(data, size);
        ts_tensor *u = ts_object_as_tensor(back);
        TS_GOOD(u);
        TS_EXPECT_INT(ts_tensor_dtype(u), dtype);
        TS_EXPECT(ts_shape_equal(ts_tensor_shape(u), TS_SHAPE(3, 2)));
        uint8_t a[sizeof raw], b[sizeof raw];
        TS_PASS(ts_copy_out(t, a, ts_nbytes(t)));
        TS_PASS(ts_copy_out(u, b, ts_nbytes(u)));
        TS_EXPECT(memcmp(a, b, ts_nbytes(t)) == 0);
        free(data);
        ts_object_free(o), ts_object_free(back);
        TS_GOOD(u); /* outlives its object */
    }
}

TS_TEST(object_tensors_without_elements_or_dimensions)
{
    TS_EXPECT_STR(round_trip(ts_object_tensor(ts_scalar(3, NULL))), "float32()");
    TS_EXPECT_STR(round_trip(ts_object_tensor(ts_zeros(TS_SHAPE(0), NULL))), "float32(0,)");
    TS_EXPECT_STR(round_trip(ts_object_tensor(ts_zeros(TS_SHAPE(3, 0, 2), NULL))),
                  "float32(3, 0, 2)");
    TS_EXPECT_STR(round_trip(ts_object_tensor(NULL)), "null");
}

/* Bytes that must be refused, and the words that say why. */
TS_TEST(object_refuses_malformed_bytes)
{
    static const struct {
        const char *hex, *word;
    } bad[] = {{"", "ends within"},
               {"18", "ends within"},
               {"0000", "1 bytes behind"},
               {"1bffffffffffffffff", "beyond 64 bits"},
               {"3bffffffffffffffff", "beyond 64 bits"},
               {"5bffffffffffffffff00", "ends within"},
               {"9bffffffffffffffff00", "claims 18446744073709551615 entries"},
               {"bb7fffffffffffffff00", "claims"},
               {"8200", "claims 2 entries, but only 1"},
               {"8100ff", "behind"},
               {"9f00ff", "not supported"},
               {"5f4100ff", "not supported"},
               {"f7", "not supported"},
               {"f820", "not supported"},
               {"1c", "not supported"},
               {"62c328", "not UTF-8"},
               {"63eda080", "not UTF-8"},
               {"6100", "zero character"},
               {"a10000", "key that is not text"},
               {"a2616100616100", "same key twice"},
               {"c000", "unknown tag 0"},
               {"d82800", "malformed tensor"},
               {"d8288281018100", "malformed tensor"},
               {"d828828103d8404101", "do not fit"},
               {"d8288281"
                "1b4000000000000000"
                "d855"
                "40",
                "do not fit"},
               {"d82882"
                "82"
                "1b7fffffffffffffff"
                "1b7fffffffffffffff"
                "d84040",
                "do not fit"},
               {"d82882"
                "8f"
                "010101010101010101010101010101"
                "d8404101",
                "malformed tensor"},
               {"d85543010203", "do not fit"},
               {"d855f6", "without bytes"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ts_object *o = decode_hex(bad[i].hex);
        TS_EXPECT_INT(ts_object_kind_of(o), TS_OBJECT_FAILED);
        TS_FAIL(ts_object_status(o), TS_EFORMAT, bad[i].word);
        ts_object_free(o);
    }
    ts_object *missing = ts_object_decode(NULL, 3);
    TS_FAIL(ts_object_status(missing), TS_EINVAL, "missing");
    ts_object_free(missing);
}

/* Every truncation of a good encoding is refused. */
TS_TEST(object_refuses_truncation)
{
    void *data;
    size_t size;
    ts_object *o = config();
    ts_object_set(o, "t", ts_object_tensor(ts_ones(TS_SHAPE(3), NULL)));
    TS_PASS(ts_object_encode(o, &data, &size));
    for (size_t n = 0; n < size; n++) {
        ts_object *part = ts_object_decode(data, n);
        TS_EXPECT_INT(ts_object_kind_of(part), TS_OBJECT_FAILED);
        ts_object_free(part);
    }
    free(data);
    ts_object_free(o);
}

static ts_object *nested(int depth)
{
    ts_object *o = ts_object_list();
    for (int i = 1; i < depth; i++) o = ts_object_append(ts_object_list(), o);
    return o;
}

TS_TEST(object_depth_is_bounded)
{
    uint8_t bytes[100];
    void *data;
    size_t size;
    TS_EXPECT_TEXT(round_trip(nested(TS_OBJECT_MAX_DEPTH)), "[[[[");
    ts_object *deep = nested(TS_OBJECT_MAX_DEPTH + 1);
    TS_FAIL(ts_object_encode(deep, &data, &size), TS_EINVAL, "more than 64");
    ts_object_free(deep);
    memset(bytes, 0x81, sizeof bytes);
    bytes[64] = 0x80;
    deep = ts_object_decode(bytes, 65);
    TS_FAIL(ts_object_status(deep), TS_EFORMAT, "more than 64");
    ts_object_free(deep);
    ts_object_free(nested(1000000)); /* freeing does not recurse */
}

/* The first cause is kept, and goes on to the containers. */
TS_TEST(object_failures_are_kept)
{
    void *data;
    size_t size;
    ts_object *o = ts_object_map(), *inner = ts_object_list();
    ts_object_set(o, "inner", inner);
    ts_object_append(inner, ts_object_text("\xff"));
    ts_object_append(inner, ts_object_int(1));
    TS_EXPECT_INT(ts_object_kind_of(inner), TS_OBJECT_FAILED);
    TS_FAIL(ts_object_encode(o, &data, &size), TS_EINVAL, "byte 0 is not UTF-8");
    ts_object_set(o, "inner", NULL);
    TS_PASS(ts_object_encode(o, &data, &size));
    free(data);
    ts_object_append(o, ts_object_int(1));
    TS_FAIL(ts_object_status(o), TS_EINVAL, "the container is a map, not a list");
    ts_object_free(o);
    o = ts_object_tensor(ts_view(ts_ones(TS_SHAPE(3), NULL), TS_SHAPE(2)));
    TS_FAIL(ts_object_status(o), TS_ESHAPE, "view");
    ts_object_free(o);
    ts_tensor_options meta = TS_TENSOR_OPTIONS_INIT;
    meta.device = TS_META;
    o = ts_object_tensor(ts_empty(TS_SHAPE(2), &meta));
    TS_FAIL(ts_object_status(o), TS_EUNSUPPORTED, "device meta; copy it to the cpu first");
    ts_object_free(o);
    TS_FAIL(ts_object_encode(NULL, &data, &size), TS_EINVAL, "missing");
    o = ts_object_append(NULL, ts_object_int(1));
    TS_FAIL(ts_object_status(o), TS_EINVAL, "list is missing");
    ts_object_free(o);
}

TS_TEST(object_has_one_owner)
{
    ts_object *a = ts_object_list(), *b = ts_object_list(), *item = ts_object_int(1);
    ts_object_append(a, item);
    ts_object_append(b, item);
    TS_FAIL(ts_object_status(b), TS_EINVAL, "already");
    ts_object_free(item); /* a's */
    TS_EXPECT_INT(ts_object_count(a), 1);
    ts_object *root = ts_object_append(ts_object_list(), a);
    ts_object_append(a, root);
    TS_FAIL(ts_object_status(a), TS_EINVAL, "contain itself");
    ts_object_free(root);
    ts_object_free(b);
    ts_object *self = ts_object_map();
    ts_object_set(self, "self", self);
    TS_FAIL(ts_object_status(self), TS_EINVAL, "contain itself");
    ts_object_free(self);
    ts_object_free(NULL);
}

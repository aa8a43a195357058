/* SPDX-License-Identifier: Apache-2.0 */
/* Headers that lie. */
#include "formats/safetensors.h"

#include <stdlib.h>

#include "test.h"

static unsigned char file[1024];

/* The header, then so many bytes. */
static size_t make(const char *header, size_t bytes)
{
    size_t length = strlen(header);
    memset(file, 0, sizeof file);
    file[0] = (unsigned char)length;
    file[1] = (unsigned char)(length >> 8);
    memcpy(file + 8, header, length);
    return 8 + length + bytes;
}

typedef struct lie {
    const char *header;
    size_t bytes;
    ts_status status;
    const char *text;
} lie;

TS_TEST(safetensors_headers_that_lie)
{
    static const lie lies[] = {
        {"[]", 0, TS_EFORMAT, "not a JSON object"},
        {"{\"a\":", 0, TS_EFORMAT, "not JSON"},
        {"{} x", 0, TS_EFORMAT, "not JSON"},
        {"{\"a\xff\":1}", 0, TS_EFORMAT, "not UTF-8"},
        {"{\"a\\u0000b\":1}", 0, TS_EFORMAT, "zero character"},
        {"{\"a\":1}", 0, TS_EFORMAT, "not described"},
        {"{\"a\":{\"dtype\":\"F9\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, TS_EUNSUPPORTED,
         "F9"},
        {"{\"a\":{\"shape\":[],\"data_offsets\":[0,4]}}", 4, TS_EFORMAT, "no name"},
        {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, TS_EFORMAT, "no shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, TS_EFORMAT,
         "size"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}}", 4, TS_EFORMAT,
         "size"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1e30],\"data_offsets\":[0,4]}}", 4, TS_EFORMAT,
         "size"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,1],\"data_offsets\":[0,4]}}",
         4, TS_EFORMAT, "not those of"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
         TS_EUNSUPPORTED, "8 dimensions"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", 4, TS_EFORMAT,
         "two whole"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, TS_EFORMAT,
         "two whole"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, TS_EFORMAT,
         "claims"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 4, TS_EFORMAT, "cut"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, TS_EFORMAT,
         "4 bytes, not those of float32 (2,)"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 8, TS_EFORMAT,
         "belong to no tensor"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
         4, TS_EFORMAT, "overlap"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, TS_EFORMAT,
         "do not follow"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
         8, TS_EFORMAT, "two tensors 'a'"},
        {"{\"__metadata__\":{\"a\":1}}", 0, TS_EFORMAT, "not text"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, TS_EFORMAT, "one map"},
    };
    ts_safetensors s;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        size_t size = make(lies[i].header, lies[i].bytes);
        TS_FAIL(ts_safetensors_read(&s, file, size), lies[i].status, lies[i].text);
    }
    TS_PASS(ts_safetensors_read(&s, file, make("{}   ", 0)));
    ts_safetensors_free(&s);
    TS_FAIL(ts_safetensors_read(&s, file, 5), TS_EFORMAT, "5 bytes");
    memset(file, 0xff, 8);
    TS_FAIL(ts_safetensors_read(&s, file, 100), TS_EFORMAT, "claims");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: bytes that claim to be an object.  What decodes must survive another round
 * unchanged.  Start from tests/fuzz/corpus/object. */
#include <stdlib.h>
#include <string.h>
#include <tessera/object.h>
#include <tessera/scope.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void again(const ts_object *o)
{
    void *first, *second;
    size_t n, m;
    if (ts_object_encode(o, &first, &n) != TS_OK) abort();
    ts_object *back = ts_object_decode(first, n);
    if (ts_object_encode(back, &second, &m) != TS_OK || n != m || memcmp(first, second, n) != 0)
        abort();
    free(first);
    free(second);
    ts_object_free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ts_scope scope = ts_scope_begin();
    ts_object *o = ts_object_decode(data, size);
    free(ts_object_to_string(o));
    if (ts_object_status(o) == TS_OK) again(o);
    ts_object_free(o);
    if (ts_scope_end(scope) != TS_OK) abort();
    return 0;
}

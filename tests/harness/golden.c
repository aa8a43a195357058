/* SPDX-License-Identifier: Apache-2.0 */
#include "golden.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "test.h"

typedef struct cursor {
    const unsigned char *at, *end;
} cursor;

static ts_status take(void *to, cursor *c, size_t bytes)
{
    if ((size_t)(c->end - c->at) < bytes) return ts_fail(TS_EFORMAT, "golden file: ends too early");
    if (bytes) memcpy(to, c->at, bytes);
    c->at += bytes;
    return TS_OK;
}

static ts_status read_array(ts_tensor_list *list, cursor *c)
{
    uint32_t head[4]; /* length of the name, dtype, dimensions, reserved */
    ts_shape shape = {0};
    char name[256];
    TS_TRY(take(head, c, sizeof head));
    if (head[0] >= sizeof name || head[1] >= TS_NUM_DTYPES || head[2] > TS_MAX_DIMS)
        return ts_fail(TS_EFORMAT, "golden file: a header is damaged");
    shape.ndim = (int)head[2];
    TS_TRY(take(shape.dim, c, head[2] * sizeof *shape.dim));
    TS_TRY(take(name, c, head[0]));
    name[head[0]] = '\0';
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = (ts_dtype)head[1];
    size_t bytes = (size_t)ts_shape_numel(shape) * ts_dtype_size(opt.dtype);
    if ((size_t)(c->end - c->at) < bytes)
        return ts_fail(TS_EFORMAT, "golden file: '%s' ends too early", name);
    TS_TRY(ts_tensor_list_add(list, name, ts_from_data(c->at, shape, &opt)));
    c->at += bytes;
    return TS_OK;
}

static ts_status read_arrays(ts_tensor_list *list, cursor c)
{
    char magic[8];
    TS_TRY(take(magic, &c, sizeof magic));
    if (memcmp(magic, "TSGOLD1\n", sizeof magic) != 0)
        return ts_fail(TS_EFORMAT, "golden file: this is not one");
    while (c.at < c.end) TS_TRY(read_array(list, &c));
    return TS_OK;
}

ts_status ts_golden_read(ts_tensor_list **out, const char *path)
{
    if (path[0] != '/') path = ts_test_path(path);
    ts_scope scope = ts_scope_begin();
    ts_tensor *file = ts_map_file(path);
    ts_status status = ts_tensor_status(file);
    ts_tensor_list *list = ts_tensor_list_new();
    const unsigned char *data = ts_data(file);
    if (status != TS_OK)
        ts_fail(status, "%s", ts_tensor_error(file));
    else
        status = read_arrays(list, (cursor){data, data + ts_nbytes(file)});
    ts_scope_end(scope);
    if (status == TS_OK)
        *out = list;
    else
        ts_tensor_list_free(list);
    return status;
}

ts_tensor *ts_golden_get(const ts_tensor_list *golden, const char *format, ...)
{
    char name[256];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    return ts_tensor_list_find(golden, name);
}

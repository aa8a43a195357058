/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that backends outside the library may use. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/settings.h"
#include "base/thread.h"
#include "comm/names.h"
#include "comm/statement.h"
#include "kernels/combine.h"
#include "kernels/convert.h"

static void log_at(ts_log_level level, const char *format, va_list args)
{
    char text[1024];
    vsnprintf(text, sizeof text, format, args);
    TS_LOG(TS_LOG_COMM, level, "%s", text);
}

static void warn(const char *format, ...) TS_PRINTF(1, 2);
static void warn(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_at(TS_LEVEL_WARNING, format, args);
    va_end(args);
}

static void inform(const char *format, ...) TS_PRINTF(1, 2);
static void inform(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_at(TS_LEVEL_INFO, format, args);
    va_end(args);
}

static int64_t now_ns(void) { return ts_now_ns(); }

static int64_t setting(const char *variable)
{
    const ts_setting_info *info;
    for (int i = 0; (info = ts_setting_describe(i)); i++)
        if (strcmp(info->variable, variable) == 0) return ts_setting_int((ts_setting)i);
    return -1;
}

static void convert(void *to, ts_dtype to_dtype, const void *from, ts_dtype from_dtype,
                    int64_t count)
{
    ts_convert_fn fn = ts_kernel_convert(to_dtype, from_dtype);
    if (fn) fn(to, from, count);
}

#define DIVIDE(type)                                                                               \
    do {                                                                                           \
        type *element = data;                                                                      \
        for (int64_t i = 0; i < count; i++) element[i] = (type)(element[i] / n);                   \
    } while (0)

/* 16-bit floating types, through float32. */
static void divide_short(void *data, int64_t count, ts_dtype dtype, int n)
{
    float block[256];
    uint16_t *element = data;
    while (count > 0) {
        int64_t length = count < 256 ? count : 256;
        convert(block, TS_FLOAT32, element, dtype, length);
        for (int64_t i = 0; i < length; i++) block[i] /= (float)n;
        convert(element, dtype, block, TS_FLOAT32, length);
        element += length;
        count -= length;
    }
}

static void divide(void *data, int64_t count, ts_dtype dtype, int n)
{
    if (dtype == TS_COMPLEX64 || dtype == TS_COMPLEX128) count *= 2;
    switch (dtype) {
    case TS_FLOAT32:
    case TS_COMPLEX64: DIVIDE(float); break;
    case TS_FLOAT64:
    case TS_COMPLEX128: DIVIDE(double); break;
    case TS_FLOAT16:
    case TS_BFLOAT16: divide_short(data, count, dtype, n); break;
    case TS_INT64: DIVIDE(int64_t); break;
    case TS_INT32: DIVIDE(int32_t); break;
    case TS_INT16: DIVIDE(int16_t); break;
    case TS_INT8: DIVIDE(int8_t); break;
    case TS_UINT8: DIVIDE(uint8_t); break;
    default: break; /* bool has no average */
    }
}

const ts_host_api *ts_host(void)
{
    static const ts_host_api host = {
        .version = TS_HOST_API_VERSION,
        .backend_version = TS_BACKEND_VERSION,
        .fail = ts_fail,
        .fail_again = ts_fail_again,
        .error_last = ts_error_last,
        .warn = warn,
        .inform = inform,
        .now_ns = now_ns,
        .setting = setting,
        .collective_name = ts_collective_name,
        .dtype_name = ts_dtype_name,
        .reduce_name = ts_reduce_name,
        .dtype_size = ts_dtype_size,
        .combine = ts_combine,
        .divide = divide,
        .convert = convert,
        .state = ts_statement_make,
        .judge = ts_statements_judge,
        .digest = ts_call_digest,
        .thread_start = ts_thread_start,
        .store_set = ts_store_set,
        .store_get = ts_store_get,
        .store_add = ts_store_add,
        .store_wait = ts_store_wait,
        .store_check = ts_store_check,
        .store_delete_key = ts_store_delete_key,
        .store_retain = ts_store_retain,
        .store_free = ts_store_free,
    };
    return &host;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Checks: noting failures, comparing tensors. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "harness.h"
#include "paths.h"

void ts_test_at(ts_test *test, int line)
{
    if (test->seat) test->seat->line = line;
}

const char *ts_test_short_path(const char *file)
{
    size_t prefix = strlen(TS_SOURCE_DIR);
    if (strncmp(file, TS_SOURCE_DIR "/", prefix + 1) == 0) file += prefix + 1;
    while (strncmp(file, "../", 3) == 0) file += 3;
    return file;
}

void ts_test_in_the_clear(void)
{
    unsetenv("TESSERA_SECRET");
    unsetenv("TESSERA_SECRET_FILE");
    unsetenv("TESSERA_TLS");
}

void ts_test_fail(ts_test *test, const char *file, int line, const char *format, ...)
{
    char text[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "[rank%d] %s:%d: %s\n", test->rank, ts_test_short_path(file), line, text);
    test->failures++;
    if (test->seat) test->seat->state = TS_SEAT_FAILED;
}

void ts_test_skip(ts_test *test, const char *format, ...)
{
    va_list args;
    (void)test;
    va_start(args, format);
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    fflush(NULL);
    _exit(TS_EXIT_SKIPPED);
}

const char *ts_test_path(const char *relative)
{
    static _Thread_local char path[4096];
    snprintf(path, sizeof path, "%s/%s", TS_SOURCE_DIR, relative);
    return path;
}

/* ---- elements as long double, which holds every value of every dtype exactly ----------------- */

static long double half_value(uint16_t bits)
{
    int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    double value = exponent == 31  ? (mantissa ? (double)NAN : (double)INFINITY)
                   : exponent == 0 ? ldexp(mantissa, -24)
                                   : ldexp(mantissa + 1024, exponent - 25);
    return bits & 0x8000 ? -value : value;
}

static long double bfloat_value(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static long double element(const void *data, ts_dtype dtype, int64_t i)
{
    switch (dtype) {
    case TS_FLOAT32:
    case TS_COMPLEX64: return ((const float *)data)[i];
    case TS_FLOAT64:
    case TS_COMPLEX128: return ((const double *)data)[i];
    case TS_FLOAT16: return half_value(((const uint16_t *)data)[i]);
    case TS_BFLOAT16: return bfloat_value(((const uint16_t *)data)[i]);
    case TS_INT8: return ((const int8_t *)data)[i];
    case TS_UINT8:
    case TS_BOOL: return ((const uint8_t *)data)[i];
    case TS_INT16: return ((const int16_t *)data)[i];
    case TS_INT32: return ((const int32_t *)data)[i];
    case TS_INT64: return (long double)((const int64_t *)data)[i];
    default: return NAN;
    }
}

/* Real numbers in t: a complex element counts as two. */
static int64_t count_of(const ts_tensor *t)
{
    ts_dtype dtype = ts_tensor_dtype(t);
    return ts_numel(t) * (dtype == TS_COMPLEX64 || dtype == TS_COMPLEX128 ? 2 : 1);
}

/* A malloc'd copy of the elements; NULL after noting a failure. */
static void *elements(ts_test *test, const char *file, int line, const char *text, ts_tensor *t)
{
    void *copy = NULL;
    ts_test_at(test, line);
    if (!t)
        ts_test_fail(test, file, line, "%s is NULL", text);
    else if (ts_failed(t))
        ts_test_fail(test, file, line, "%s has failed: %s", text, ts_tensor_error(t));
    else if (!(copy = malloc(ts_nbytes(t) + 1)))
        ts_test_fail(test, file, line, "%s: out of memory", text);
    else if (ts_copy_out(t, copy, ts_nbytes(t)) == TS_OK)
        return copy;
    else
        ts_test_fail(test, file, line, "%s: ts_copy_out: %s", text, ts_error_last());
    free(copy);
    return NULL;
}

static bool near(long double a, long double e, double rtol, double atol)
{
    if (a == e || (isnan(a) && isnan(e))) return true;
    return fabsl(a - e) <= (long double)atol + (long double)rtol * fabsl(e) && isfinite(e);
}

/* Notes the first of the differing elements and how many there are. */
static bool judge(ts_test *test, const char *file, int line, const char *text, ts_tensor *t,
                  int64_t differ, int64_t first, long double actual, long double expected)
{
    char shape[TS_SHAPE_TEXT];
    if (!differ) return true;
    ts_test_fail(test, file, line,
                 "%s: element %lld is %.12Lg, expected %.12Lg (%lld of %lld differ; shape %s)",
                 text, (long long)first, actual, expected, (long long)differ,
                 (long long)count_of(t), ts_shape_format(shape, sizeof shape, ts_tensor_shape(t)));
    return false;
}

bool ts_test_all(ts_test *test, const char *file, int line, const char *text, ts_tensor *t,
                 double value)
{
    void *data = elements(test, file, line, text, t);
    if (!data) return false;
    int64_t n = count_of(t), differ = 0, first = 0;
    for (int64_t i = n - 1; i >= 0; i--)
        if (!near(element(data, ts_tensor_dtype(t), i), value, 0, 0)) differ++, first = i;
    long double actual = n ? element(data, ts_tensor_dtype(t), first) : 0;
    free(data);
    return judge(test, file, line, text, t, differ, first, actual, value);
}

bool ts_test_values(ts_test *test, const char *file, int line, const char *text, ts_tensor *t,
                    const double *values, size_t n, double tolerance)
{
    void *data = elements(test, file, line, text, t);
    if (!data) return false;
    if (count_of(t) != (int64_t)n) {
        ts_test_fail(test, file, line, "%s has %lld elements, expected %zu", text,
                     (long long)count_of(t), n);
        free(data);
        return false;
    }
    int64_t differ = 0, first = 0;
    for (int64_t i = (int64_t)n - 1; i >= 0; i--)
        if (!near(element(data, ts_tensor_dtype(t), i), values[i], 0, tolerance))
            differ++, first = i;
    long double actual = n ? element(data, ts_tensor_dtype(t), first) : 0;
    free(data);
    return judge(test, file, line, text, t, differ, first, actual, n ? values[first] : 0);
}

static bool same_kind(ts_test *test, const char *file, int line, const char *a_text, ts_tensor *a,
                      const char *b_text, ts_tensor *b)
{
    char a_shape[TS_SHAPE_TEXT], b_shape[TS_SHAPE_TEXT];
    if (ts_shape_equal(ts_tensor_shape(a), ts_tensor_shape(b)) &&
        ts_tensor_dtype(a) == ts_tensor_dtype(b))
        return true;
    ts_test_fail(test, file, line, "%s is %s %s, but %s is %s %s", a_text,
                 ts_dtype_name(ts_tensor_dtype(a)),
                 ts_shape_format(a_shape, sizeof a_shape, ts_tensor_shape(a)), b_text,
                 ts_dtype_name(ts_tensor_dtype(b)),
                 ts_shape_format(b_shape, sizeof b_shape, ts_tensor_shape(b)));
    return false;
}

bool ts_test_close(ts_test *test, const char *file, int line, const char *a_text, ts_tensor *a,
                   const char *b_text, ts_tensor *b, double rtol, double atol)
{
    void *x = elements(test, file, line, a_text, a);
    void *y = x ? elements(test, file, line, b_text, b) : NULL;
    bool good = y && same_kind(test, file, line, a_text, a, b_text, b);
    if (good) {
        ts_dtype dtype = ts_tensor_dtype(a);
        int64_t n = count_of(a), differ = 0, first = 0;
        for (int64_t i = n - 1; i >= 0; i--)
            if (!near(element(x, dtype, i), element(y, dtype, i), rtol, atol)) differ++, first = i;
        good = judge(test, file, line, a_text, a, differ, first, n ? element(x, dtype, first) : 0,
                     n ? element(y, dtype, first) : 0);
    }
    free(x);
    free(y);
    return good;
}

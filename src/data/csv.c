/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of numbers, whatever the locale. */
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/data.h>
#include <tessera/scope.h>

#include "base/memory.h"
#include "base/options.h"
#include "tensor/tensor.h"

typedef struct table {
    double *value;
    int64_t count, capacity;
    int64_t rows, columns; /* columns 0: no row yet */
    char delimiter;
    locale_t locale;
    const char *path;
} table;

static ts_status add(table *t, double value)
{
    if (t->count == t->capacity) {
        int64_t capacity = t->capacity ? 2 * t->capacity : 1024;
        void *grown = ts_grow(t->value, (size_t)capacity, sizeof *t->value);
        if (!grown) return ts_fail_memory((size_t)capacity * sizeof *t->value, "a table");
        t->value = grown;
        t->capacity = capacity;
    }
    t->value[t->count++] = value;
    return TS_OK;
}

/* A number with white space or quotes around it. */
static ts_status read_field(table *t, const char *field, size_t size, int64_t line, int64_t column)
{
    char text[64], *end;
    while (size > 0 && strchr(" \t\"", *field)) field++, size--;
    while (size > 0 && strchr(" \t\"\r", field[size - 1])) size--;
    if (size == 0) return add(t, NAN);
    if (size < sizeof text) {
        memcpy(text, field, size);
        text[size] = '\0';
        double value = strtod_l(text, &end, t->locale);
        if (*end == '\0') return add(t, value);
    }
    return ts_fail(TS_EFORMAT, "csv_read: '%s', line %lld, column %lld: '%.*s' is not a number",
                   t->path, (long long)line, (long long)column, (int)(size < 60 ? size : 60),
                   field);
}

static ts_status read_line(table *t, const char *line, size_t size, int64_t number)
{
    int64_t columns = 0;
    for (const char *at = line, *end = line + size;; columns++) {
        const char *stop = memchr(at, t->delimiter, (size_t)(end - at));
        TS_TRY(read_field(t, at, (size_t)((stop ? stop : end) - at), number, columns + 1));
        if (!stop) break;
        at = stop + 1;
    }
    columns++;
    if (t->columns == 0) t->columns = columns;
    t->rows++;
    if (columns == t->columns) return TS_OK;
    return ts_fail(TS_EFORMAT, "csv_read: '%s', line %lld has %lld columns, the first has %lld",
                   t->path, (long long)number, (long long)columns, (long long)t->columns);
}

static bool is_blank(const char *line, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!strchr(" \t\r", line[i])) return false;
    return true;
}

static ts_status read_lines(table *t, const char *text, size_t size, int64_t skip)
{
    const char *end = text + size;
    int64_t number = 1;
    for (const char *line = text, *stop; line < end; line = stop + 1, number++) {
        stop = memchr(line, '\n', (size_t)(end - line));
        size_t length = (size_t)((stop ? stop : end) - line);
        if (number > skip && !is_blank(line, length)) TS_TRY(read_line(t, line, length, number));
        if (!stop) break;
    }
    return TS_OK;
}

static ts_status make_tensor(ts_tensor **out, const table *t, ts_dtype dtype)
{
    ts_spec spec = {TS_SHAPE(t->rows, t->columns), dtype, TS_CPU};
    *out = ts_tensor_new(&spec, TS_MEMORY_HEAP, TS_CATEGORY_OTHER);
    TS_TRY(ts_tensor_check(*out, "csv_read: a tensor"));
    void *to = t->count > 0 ? ts_tensor_bytes(*out) : NULL;
    for (int64_t i = 0; i < t->count; i++)
        if (dtype == TS_FLOAT32)
            ((float *)to)[i] = (float)t->value[i];
        else
            ((double *)to)[i] = t->value[i];
    return TS_OK;
}

static ts_status read_file(ts_tensor **out, const char *path, const ts_csv_options *o)
{
    table t = {.path = path, .delimiter = o->delimiter};
    ts_tensor *file = ts_map_file(path);
    TS_TRY(ts_tensor_check(file, "the file"));
    t.locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!t.locale) return ts_fail_memory(64, "a locale");
    const char *text = ts_data(file);
    ts_status status = text ? read_lines(&t, text, ts_nbytes(file), o->skip_lines) : TS_OK;
    if (status == TS_OK) status = make_tensor(out, &t, o->dtype);
    freelocale(t.locale);
    free(t.value);
    return status;
}

ts_status ts_csv_read(ts_tensor **out, const char *path, const ts_csv_options *opt)
{
    ts_csv_options o = TS_CSV_OPTIONS_INIT;
    TS_TRY(ts_options_read(&o, sizeof o, opt, "csv_read"));
    if (o.dtype != TS_FLOAT32 && o.dtype != TS_FLOAT64)
        return ts_fail(TS_EDTYPE, "csv_read: %s is not offered; float32 and float64 are",
                       ts_dtype_name(o.dtype));
    ts_tensor *t = NULL;
    ts_scope scope = ts_scope_begin();
    ts_status status = read_file(&t, path, &o);
    t = ts_scope_end_keep(scope, status == TS_OK ? t : NULL);
    if (status == TS_OK) *out = t;
    return status;
}

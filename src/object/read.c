/* SPDX-License-Identifier: Apache-2.0 */
/* What objects hold, for programs and for people. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "object/object.h"
#include "tensor/tensor.h"

ts_object_kind ts_object_kind_of(const ts_object *o) { return o ? o->kind : TS_OBJECT_NULL; }

ts_status ts_object_status(const ts_object *o)
{
    if (!o || o->kind != TS_OBJECT_FAILED) return TS_OK;
    return ts_fail_again(o->status, o->string.data ? o->string.data : ts_status_text(o->status));
}

/* ---- values ---------------------------------------------------------------------------------- */

enum { PATH = 256 };

/* "config.lr[3]": the way from the root to o; "" for a root. */
static void describe_place(const ts_object *o, char path[PATH])
{
    const ts_object *p = o->parent;
    path[0] = '\0';
    if (!p) return;
    describe_place(p, path);
    size_t used = strlen(path);
    for (int64_t i = 0; i < ts_object_count(p); i++) {
        if (ts_object_at(p, i) != o) continue;
        if (p->kind == TS_OBJECT_MAP)
            snprintf(path + used, PATH - used, "%s%s", used ? "." : "", ts_object_key_at(p, i));
        else
            snprintf(path + used, PATH - used, "[%" PRId64 "]", i);
    }
}

static ts_status check_kind(const ts_object *o, ts_object_kind wanted)
{
    char path[PATH];
    const char *name = ts_object_kind_name(wanted);
    if (!o)
        return ts_fail(
            TS_EINVAL,
            "object: %s was expected, but is missing (NULL): the map has no such key, or the "
            "list no such entry",
            name);
    TS_TRY(ts_object_status(o));
    if (o->kind == wanted) return TS_OK;
    describe_place(o, path);
    return ts_fail(TS_EINVAL, "object: %s was expected%s%s, not %s", name, path[0] ? " at " : "",
                   path, ts_object_kind_name(o->kind));
}

ts_status ts_object_as_bool(const ts_object *o, bool *out)
{
    TS_TRY(check_kind(o, TS_OBJECT_BOOL));
    *out = o->boolean;
    return TS_OK;
}

ts_status ts_object_as_int(const ts_object *o, int64_t *out)
{
    TS_TRY(check_kind(o, TS_OBJECT_INT));
    *out = o->integer;
    return TS_OK;
}

ts_status ts_object_as_double(const ts_object *o, double *out)
{
    if (o && o->kind == TS_OBJECT_INT) {
        *out = (double)o->integer;
        return TS_OK;
    }
    TS_TRY(check_kind(o, TS_OBJECT_DOUBLE));
    *out = o->real;
    return TS_OK;
}

ts_status ts_object_as_text(const ts_object *o, const char **out)
{
    TS_TRY(check_kind(o, TS_OBJECT_TEXT));
    *out = o->string.data;
    return TS_OK;
}

ts_status ts_object_as_bytes(const ts_object *o, const void **out, size_t *size)
{
    TS_TRY(check_kind(o, TS_OBJECT_BYTES));
    *out = o->string.data;
    *size = o->string.size;
    return TS_OK;
}

ts_tensor *ts_object_as_tensor(const ts_object *o)
{
    ts_status status = check_kind(o, TS_OBJECT_TENSOR);
    if (status != TS_OK) return ts_fail_tensor_last(status);
    return ts_scope_give(ts_retain(o->tensor));
}

/* ---- text ------------------------------------------------------------------------------------ */

static void print(const ts_object *o, FILE *to, int depth);

static void print_text(const char *text, FILE *to)
{
    fputc('"', to);
    for (const char *p = text; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\')
            fprintf(to, "\\%c", c);
        else if (c == '\n')
            fputs("\\n", to);
        else if (c < 0x20 || c == 0x7F)
            fprintf(to, "\\u%04x", c);
        else
            fputc(c, to);
    }
    fputc('"', to);
}

static void print_bytes(const ts_object *o, FILE *to)
{
    enum { SHOWN = 32 };
    fputs("h'", to);
    for (size_t i = 0; i < o->string.size && i < SHOWN; i++)
        fprintf(to, "%02x", (unsigned char)o->string.data[i]);
    if (o->string.size > SHOWN)
        fprintf(to, "'... (%zu bytes)", o->string.size);
    else
        fputc('\'', to);
}

static void print_tensor(const ts_tensor *t, FILE *to)
{
    char shape[TS_SHAPE_TEXT];
    fprintf(to, "%s%s", ts_dtype_name((ts_dtype)t->dtype),
            ts_shape_format(shape, sizeof shape, t->shape));
}

/* The shortest digits that read back as the same number. */
static void print_double(double value, FILE *to)
{
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    fprintf(to, "%s%s", text, isfinite(value) && !strpbrk(text, ".e") ? ".0" : "");
}

static void print_container(const ts_object *o, FILE *to, int depth)
{
    bool map = o->kind == TS_OBJECT_MAP;
    fputc(map ? '{' : '[', to);
    for (int64_t i = 0; i < ts_object_count(o); i++) {
        if (i > 0) fputs(", ", to);
        if (map) {
            print_text(ts_object_key_at(o, i), to);
            fputs(": ", to);
        }
        if (depth < TS_OBJECT_MAX_DEPTH)
            print(ts_object_at(o, i), to, depth + 1);
        else
            fputs("...", to);
    }
    fputc(map ? '}' : ']', to);
}

static void print(const ts_object *o, FILE *to, int depth)
{
    switch (ts_object_kind_of(o)) {
    case TS_OBJECT_NULL: fputs("null", to); break;
    case TS_OBJECT_BOOL: fputs(o->boolean ? "true" : "false", to); break;
    case TS_OBJECT_INT: fprintf(to, "%" PRId64, o->integer); break;
    case TS_OBJECT_DOUBLE: print_double(o->real, to); break;
    case TS_OBJECT_TEXT: print_text(o->string.data, to); break;
    case TS_OBJECT_BYTES: print_bytes(o, to); break;
    case TS_OBJECT_LIST:
    case TS_OBJECT_MAP: print_container(o, to, depth); break;
    case TS_OBJECT_TENSOR: print_tensor(o->tensor, to); break;
    case TS_OBJECT_FAILED:
        fprintf(to, "<failed: %s>", o->string.data ? o->string.data : ts_status_text(o->status));
        break;
    }
}

void ts_object_print(const ts_object *o, FILE *to) { print(o, to, 0); }

char *ts_object_to_string(const ts_object *o)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    if (!to) return NULL;
    print(o, to, 0);
    if (fclose(to) == 0) return text;
    free(text);
    return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Nested brackets as numpy and PyTorch print them: all numbers of a tensor in one format. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/convert.h"
#include "tensor/tensor.h"

enum { THRESHOLD = 1000, EDGE = 3, LINE = 80, TEXT = 96 };

typedef enum style { WHOLE, FIXED, SCIENTIFIC, INTEGER, BOOLEAN, COMPLEX } style;

typedef struct printer {
    FILE *out;
    const ts_tensor *t;
    bool shorten; /* only EDGE elements at both ends of each dimension */
    style style;
    int width;
    double smallest, largest; /* magnitudes of the finite numbers that are shown, but zero */
    bool all_whole;
} printer;

/* Calls visit for every element that is shown. */
static void each_shown(printer *p, int dim, int64_t offset, void (*visit)(printer *, const char *))
{
    const ts_tensor *t = p->t;
    if (dim == t->shape.ndim) {
        visit(p, ts_tensor_bytes(t) + offset * (int64_t)ts_element_size(t->dtype));
        return;
    }
    int64_t n = t->shape.dim[dim];
    for (int64_t i = 0; i < n; i++) {
        if (p->shorten && n > 2 * EDGE && i == EDGE) i = n - EDGE;
        each_shown(p, dim + 1, offset + i * t->stride[dim], visit);
    }
}

static double read_f64(const printer *p, const char *element)
{
    double value;
    ts_kernel_convert(TS_FLOAT64, (ts_dtype)p->t->dtype)(&value, element, 1);
    return value;
}

static int format_complex(const printer *p, char *text, const char *element)
{
    double part[2];
    float narrow[2];
    if (p->t->dtype == TS_COMPLEX128) {
        memcpy(part, element, sizeof part);
    } else {
        memcpy(narrow, element, sizeof narrow);
        part[0] = (double)narrow[0];
        part[1] = (double)narrow[1];
    }
    return snprintf(text, TEXT, "%.5g%+.5gj", part[0], part[1]);
}

static int format(const printer *p, char *text, const char *element)
{
    int64_t integer;
    switch (p->style) {
    case COMPLEX: return format_complex(p, text, element);
    case BOOLEAN: return snprintf(text, TEXT, "%s", *element ? "true" : "false");
    case INTEGER:
        ts_kernel_convert(TS_INT64, (ts_dtype)p->t->dtype)(&integer, element, 1);
        return snprintf(text, TEXT, "%lld", (long long)integer);
    default: break;
    }
    double value = read_f64(p, element);
    if (!isfinite(value)) return snprintf(text, TEXT, "%g", value);
    if (p->style == WHOLE) return snprintf(text, TEXT, "%.0f.", value);
    return snprintf(text, TEXT, p->style == FIXED ? "%.4f" : "%.4e", value);
}

static void see(printer *p, const char *element)
{
    double value = fabs(read_f64(p, element));
    if (!isfinite(value) || value == 0) return;
    if (value != floor(value)) p->all_whole = false;
    if (value < p->smallest) p->smallest = value;
    if (value > p->largest) p->largest = value;
}

static void measure(printer *p, const char *element)
{
    char text[TEXT];
    int width = format(p, text, element);
    if (width > p->width) p->width = width;
}

static void choose_style(printer *p)
{
    ts_dtype dtype = (ts_dtype)p->t->dtype;
    if (dtype == TS_BOOL || dtype >= TS_COMPLEX64 || !ts_dtype_is_floating(dtype)) {
        p->style = dtype == TS_BOOL ? BOOLEAN : dtype >= TS_COMPLEX64 ? COMPLEX : INTEGER;
        return;
    }
    p->smallest = INFINITY;
    p->all_whole = true;
    each_shown(p, 0, 0, see);
    bool wide = p->largest > 1e8 || (p->largest > 0 && p->smallest < 1e-4) ||
                p->largest > 1000 * p->smallest;
    p->style = p->all_whole && p->largest < 1e8 ? WHOLE
               : wide && !p->all_whole          ? SCIENTIFIC
                                                : FIXED;
    if (p->all_whole && p->largest >= 1e8) p->style = SCIENTIFIC;
}

static void print_element(printer *p, const char *element)
{
    char text[TEXT];
    format(p, text, element);
    fprintf(p->out, "%*s", p->width, text);
}

static void separate(printer *p, int dim, int64_t *column)
{
    int left = p->t->shape.ndim - dim - 1;
    if (left == 0) {
        *column += p->width + 2;
        bool wrap = *column + p->width > LINE;
        if (wrap) *column = 0;
        fprintf(p->out, wrap ? ",\n%*s" : ", ", wrap ? 7 + dim + 1 : 0, "");
        return;
    }
    fputc(',', p->out);
    for (int i = 0; i < left; i++) fputc('\n', p->out);
    fprintf(p->out, "%*s", 7 + dim + 1, "");
}

static void print_dim(printer *p, int dim, int64_t offset)
{
    const ts_tensor *t = p->t;
    if (dim == t->shape.ndim) {
        each_shown(p, dim, offset, print_element);
        return;
    }
    int64_t n = t->shape.dim[dim], column = 7 + dim;
    fputc('[', p->out);
    for (int64_t i = 0; i < n; i++) {
        if (i > 0) separate(p, dim, &column);
        if (p->shorten && n > 2 * EDGE && i == EDGE) {
            fputs("...", p->out);
            separate(p, dim, &column);
            i = n - EDGE;
        }
        print_dim(p, dim + 1, offset + i * t->stride[dim]);
    }
    fputc(']', p->out);
}

static void print_values(printer *p)
{
    if (p->t->numel == 0 || !p->t->storage->data) {
        fputs(p->t->numel == 0 ? "[]" : "...", p->out);
        return;
    }
    p->shorten = p->t->numel > THRESHOLD;
    choose_style(p);
    each_shown(p, 0, 0, measure);
    print_dim(p, 0, 0);
}

static void write_tensor(FILE *out, const ts_tensor *t)
{
    if (!t) {
        fputs("none", out);
    } else if (ts_failed(t)) {
        fprintf(out, "failed tensor (%s): %s", ts_status_name(t->status), t->error);
    } else {
        char shape[TS_SHAPE_TEXT];
        printer p = {.out = out, .t = t};
        fputs("tensor(", out);
        print_values(&p);
        fprintf(out, ", shape=%s, dtype=%s", ts_shape_format(shape, sizeof shape, t->shape),
                ts_dtype_name((ts_dtype)t->dtype));
        if (t->device != TS_CPU) fprintf(out, ", device=%s", ts_device_name((ts_device)t->device));
        if (t->keys & TS_KEY_AUTOGRAD) fputs(", requires_grad", out);
        fputc(')', out);
    }
}

char *ts_tensor_to_string(const ts_tensor *t)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    write_tensor(out, t);
    bool complete = !ferror(out);
    if (fclose(out) == 0 && complete) return text;
    free(text);
    return NULL;
}

void ts_tensor_print(const ts_tensor *t, FILE *to)
{
    if (!to) return;
    write_tensor(to, t);
    fputc('\n', to);
}

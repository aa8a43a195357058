/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/conv.h"

#include "kernels/scratch.h"

enum { TILE_VALUES = 1 << 15, LEAST_TILE = 64 }; /* of the columns */

static int64_t patch_of(const ts_conv *c)
{
    return c->in_channels / c->groups * c->kernel[0] * c->kernel[1];
}

static int64_t positions_of(const ts_conv *c) { return c->out_size[0] * c->out_size[1]; }
static int64_t plane_of(const ts_conv *c) { return c->size[0] * c->size[1]; }

/* The channels of one group, in elements. */
static int64_t x_offset(const ts_conv *c, int64_t group)
{
    return group * (c->in_channels / c->groups) * plane_of(c);
}
static int64_t y_offset(const ts_conv *c, int64_t group)
{
    return group * (c->out_channels / c->groups) * positions_of(c);
}
static int64_t w_offset(const ts_conv *c, int64_t group)
{
    return group * (c->out_channels / c->groups) * patch_of(c);
}

static int64_t tile_of(const ts_conv *c)
{
    int64_t tile = TILE_VALUES / (patch_of(c) > 0 ? patch_of(c) : 1), all = positions_of(c);
    tile = (tile < LEAST_TILE ? LEAST_TILE : tile) / 16 * 16;
    return tile < all ? tile : all;
}

static bool is_plain(const ts_conv *c)
{
    for (int d = 0; d < 2; d++)
        if (c->kernel[d] != 1 || c->stride[d] != 1 || c->padding[d] != 0) return false;
    return true;
}

static bool is_depthwise(const ts_conv *c) { return c->in_channels == c->groups; }

size_t ts_conv_scratch(const ts_conv *c)
{
    if (is_depthwise(c)) return 64;
    return ts_round_up_64((size_t)(tile_of(c) * patch_of(c) * c->esize) + 64);
}

/* Outputs o of first .. end - 1 along dimension d read inside x at kernel position k. */
static void inside(const ts_conv *c, int d, int64_t k, int64_t *first, int64_t *end)
{
    int64_t from = k * c->dilation[d] - c->padding[d], s = c->stride[d]; /* reads from + o s */
    int64_t low = from >= 0 ? 0 : (-from + s - 1) / s;
    int64_t high = c->size[d] - from <= 0 ? 0 : (c->size[d] - from + s - 1) / s;
    if (high > c->out_size[d]) high = c->out_size[d];
    *first = low < high ? low : high;
    *end = high;
}

/* ---- columns --------------------------------------------------------------------------------- */

/* Part of a column row: outputs begin .. end - 1 of line oh, kernel position (i, j). */
typedef struct span {
    int64_t oh, begin, end, i, j;
} span;

/* Where output (oh, ow) reads in the plane. */
static int64_t source_of(const ts_conv *c, span s, int64_t ow)
{
    int64_t h = s.oh * c->stride[0] + s.i * c->dilation[0] - c->padding[0];
    return h * c->size[1] + ow * c->stride[1] + s.j * c->dilation[1] - c->padding[1];
}

#define SPAN(name, type)                                                                           \
    static void gather_##name(const ts_conv *c, type *to, const type *plane, span s)               \
    {                                                                                              \
        int64_t first, end, h = s.oh * c->stride[0] + s.i * c->dilation[0] - c->padding[0];        \
        inside(c, 1, s.j, &first, &end);                                                           \
        if (h < 0 || h >= c->size[0]) end = first = s.begin;                                       \
        if (first < s.begin) first = s.begin;                                                      \
        if (first > s.end) first = s.end;                                                          \
        if (end > s.end) end = s.end;                                                              \
        if (end < first) end = first;                                                              \
        for (int64_t o = s.begin; o < first; o++) *to++ = 0;                                       \
        const type *from = plane + source_of(c, s, first);                                         \
        if (end > first && c->stride[1] == 1)                                                      \
            memcpy(to, from, (size_t)(end - first) * sizeof *to);                                  \
        else                                                                                       \
            for (int64_t o = 0; o < end - first; o++) to[o] = from[o * c->stride[1]];              \
        to += end - first;                                                                         \
        for (int64_t o = end; o < s.end; o++) *to++ = 0;                                           \
    }                                                                                              \
    static void scatter_##name(const ts_conv *c, const type *from, type *plane, span s)            \
    {                                                                                              \
        int64_t first, end, h = s.oh * c->stride[0] + s.i * c->dilation[0] - c->padding[0];        \
        inside(c, 1, s.j, &first, &end);                                                           \
        if (first < s.begin) first = s.begin;                                                      \
        if (end > s.end) end = s.end;                                                              \
        if (h < 0 || h >= c->size[0] || end <= first) return;                                      \
        type *to = plane + source_of(c, s, first);                                                 \
        from += first - s.begin;                                                                   \
        for (int64_t o = 0; o < end - first; o++) to[o * c->stride[1]] += from[o];                 \
    }
SPAN(f32, float)
SPAN(f64, double)

/* The columns of positions p .. p + tile - 1, gathered from x or added to it. */
static void columns(const ts_conv *c, char *cols, char *x, int64_t p, int64_t tile, bool gather)
{
    int64_t patch = patch_of(c), width = c->out_size[1], area = c->kernel[0] * c->kernel[1];
    for (int64_t r = 0; r < patch; r++) {
        char *plane = x + r / area * plane_of(c) * c->esize;
        span s = {.i = r % area / c->kernel[1], .j = r % c->kernel[1]};
        for (int64_t at = p; at < p + tile; at += s.end - s.begin) {
            void *line = cols + (r * tile + at - p) * c->esize;
            s.oh = at / width;
            s.begin = at % width;
            s.end = s.begin + p + tile - at < width ? s.begin + p + tile - at : width;
            if (gather && c->esize == 4)
                gather_f32(c, line, (const float *)(void *)plane, s);
            else if (gather)
                gather_f64(c, line, (const double *)(void *)plane, s);
            else if (c->esize == 4)
                scatter_f32(c, line, (float *)(void *)plane, s);
            else
                scatter_f64(c, line, (double *)(void *)plane, s);
        }
    }
}

static ts_status multiply(const ts_conv *c, ts_gemm_call call)
{
    call.dtype = c->dtype;
    return ts_gemm_run(&call);
}

/* ---- one channel per group ------------------------------------------------------------------- */

typedef enum which { FORWARD, TO_INPUT, TO_WEIGHT } which;

/* to[i t] += factor from[i f] */
static void add_line(const ts_conv *c, char *to, int64_t t, const char *from, int64_t f, int64_t n,
                     double factor)
{
    if (t == 1 && f == 1) {
        c->nn->add_scaled(to, from, n, factor);
        return;
    }
    bool f64 = c->esize == 8;
    for (int64_t i = 0; i < n; i++)
        ts_write_at(to, f64, i * t,
                    ts_read_at(to, f64, i * t) + factor * ts_read_at(from, f64, i * f));
}

static double dot_line(const ts_conv *c, const char *y, const char *x, int64_t step, int64_t n)
{
    double sum = 0;
    bool f64 = c->esize == 8;
    if (step == 1) return c->nn->dot(y, x, n);
    for (int64_t i = 0; i < n; i++) sum += ts_read_at(y, f64, i) * ts_read_at(x, f64, i * step);
    return sum;
}

/* All lines of one plane at kernel position (s.i, s.j). */
static void plane_at(const ts_conv *c, which what, char *y, char *x, char *w, span s)
{
    int64_t first, end, top, bottom, n, step = c->stride[1];
    double sum = 0, factor = ts_read_at(w, c->esize == 8, 0);
    inside(c, 0, s.i, &top, &bottom);
    inside(c, 1, s.j, &first, &end);
    n = end - first;
    for (s.oh = top; s.oh < bottom && n > 0; s.oh++) {
        char *out = y + (s.oh * c->out_size[1] + first) * c->esize;
        char *in = x + source_of(c, s, first) * c->esize;
        if (what == FORWARD) add_line(c, out, 1, in, step, n, factor);
        if (what == TO_INPUT) add_line(c, in, step, out, 1, n, factor);
        if (what == TO_WEIGHT) sum += dot_line(c, out, in, step, n);
    }
    if (what == TO_WEIGHT) ts_write_at(w, c->esize == 8, 0, factor + sum);
}

static ts_status depthwise(const ts_conv *c, which what, char *y, char *x, char *w)
{
    int64_t outputs = c->out_channels / c->groups, area = c->kernel[0] * c->kernel[1];
    if (what == FORWARD) memset(y, 0, (size_t)(outputs * positions_of(c) * c->esize));
    if (what == TO_INPUT) memset(x, 0, (size_t)(plane_of(c) * c->esize));
    for (int64_t o = 0; o < outputs; o++)
        for (int64_t k = 0; k < area; k++)
            plane_at(c, what, y + o * positions_of(c) * c->esize, x, w + (o * area + k) * c->esize,
                     (span){.i = k / c->kernel[1], .j = k % c->kernel[1]});
    return TS_OK;
}

/* ---- the three products ---------------------------------------------------------------------- */

static char *writable(const char *data) { return (char *)(uintptr_t)data; }

ts_status ts_conv_forward(const ts_conv *c, int64_t group, char *y, const char *x, const char *w,
                          void *scratch)
{
    int64_t all = positions_of(c), patch = patch_of(c), tile = tile_of(c);
    y += y_offset(c, group) * c->esize;
    x += x_offset(c, group) * c->esize;
    w += w_offset(c, group) * c->esize;
    if (is_depthwise(c)) return depthwise(c, FORWARD, y, writable(x), writable(w));
    for (int64_t p = 0; p < all; p += tile) {
        int64_t n = tile < all - p ? tile : all - p;
        ts_gemm_call call = {.m = c->out_channels / c->groups, .n = n, .k = patch, .ldc = all};
        call.a = (ts_matrix){w, patch, 1};
        call.b = is_plain(c) ? (ts_matrix){x + p * c->esize, all, 1} : (ts_matrix){scratch, n, 1};
        call.c = y + p * c->esize;
        if (!is_plain(c)) columns(c, scratch, writable(x), p, n, true);
        TS_TRY(multiply(c, call));
    }
    return TS_OK;
}

ts_status ts_conv_input(const ts_conv *c, int64_t group, char *dx, const char *dy, const char *w,
                        void *scratch)
{
    int64_t all = positions_of(c), patch = patch_of(c), tile = tile_of(c);
    dx += x_offset(c, group) * c->esize;
    dy += y_offset(c, group) * c->esize;
    w += w_offset(c, group) * c->esize;
    if (is_depthwise(c)) return depthwise(c, TO_INPUT, writable(dy), dx, writable(w));
    memset(dx, 0, (size_t)(c->in_channels / c->groups * plane_of(c) * c->esize));
    for (int64_t p = 0; p < all; p += tile) {
        int64_t n = tile < all - p ? tile : all - p;
        ts_gemm_call call = {.m = patch, .n = n, .k = c->out_channels / c->groups};
        call.a = (ts_matrix){w, 1, patch};
        call.b = (ts_matrix){dy + p * c->esize, all, 1};
        call.c = is_plain(c) ? dx + p * c->esize : scratch;
        call.ldc = is_plain(c) ? all : n;
        TS_TRY(multiply(c, call));
        if (!is_plain(c)) columns(c, scratch, dx, p, n, false);
    }
    return TS_OK;
}

ts_status ts_conv_weight(const ts_conv *c, int64_t group, char *dw, const char *dy, const char *x,
                         void *scratch)
{
    int64_t all = positions_of(c), patch = patch_of(c), tile = tile_of(c);
    dw += w_offset(c, group) * c->esize;
    dy += y_offset(c, group) * c->esize;
    x += x_offset(c, group) * c->esize;
    if (is_depthwise(c)) return depthwise(c, TO_WEIGHT, writable(dy), writable(x), dw);
    for (int64_t p = 0; p < all; p += tile) {
        int64_t n = tile < all - p ? tile : all - p;
        ts_gemm_call call = {.m = c->out_channels / c->groups, .n = patch, .k = n, .ldc = patch};
        call.a = (ts_matrix){dy + p * c->esize, all, 1};
        call.b = is_plain(c) ? (ts_matrix){x + p * c->esize, 1, all} : (ts_matrix){scratch, 1, n};
        call.c = dw;
        call.add = true;
        if (!is_plain(c)) columns(c, scratch, writable(x), p, n, true);
        TS_TRY(multiply(c, call));
    }
    return TS_OK;
}

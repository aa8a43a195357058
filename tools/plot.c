/* SPDX-License-Identifier: Apache-2.0 */
#include "plot.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"

enum { WIDTH = 860, HEIGHT = 480, LEFT = 70, RIGHT = 24, TOP = 48, BOTTOM = 60, MAX_POINTS = 1200 };

bool ts_series_add(ts_series *s, double x, double y)
{
    if (!isfinite(x) || !isfinite(y)) return true;
    if (s->count == s->capacity) {
        int capacity = s->capacity ? 2 * s->capacity : 256;
        double *xs = ts_grow(s->x, (size_t)capacity, sizeof *xs);
        if (xs) s->x = xs;
        double *ys = ts_grow(s->y, (size_t)capacity, sizeof *ys);
        if (ys) s->y = ys;
        if (!xs || !ys) return false;
        s->capacity = capacity;
    }
    s->x[s->count] = x;
    s->y[s->count++] = y;
    return true;
}

void ts_series_free(ts_series *s)
{
    free(s->x);
    free(s->y);
    s->x = s->y = NULL;
    s->count = s->capacity = 0;
}

/* The range of one axis, with ticks at multiples of step.  Of a logarithmic one, low, high and step
 * are logarithms to base. */
typedef struct axis {
    double low, high, step;
    double base; /* 0: linear */
} axis;

static axis axis_for(double low, double high, int ticks)
{
    if (!(high > low)) low -= 0.5, high += 0.5;
    double rough = (high - low) / ticks, power = pow(10, floor(log10(rough))), part = rough / power;
    double step = power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
    return (axis){floor(low / step) * step, ceil(high / step) * step, step, 0};
}

static axis log_axis_for(double low, double high, double base, int ticks)
{
    double from = floor(log(low) / log(base) + 1e-9), to = ceil(log(high) / log(base) - 1e-9);
    if (!(to > from)) to = from + 1;
    return (axis){from, to, ceil((to - from) / ticks), base};
}

/* Logarithmic charts leave out what is not positive. */
static bool is_shown(const ts_plot *plot, const ts_series *s, int i)
{
    return !plot->log || (s->x[i] > 0 && s->y[i] > 0);
}

static void find_ranges(const ts_plot *plot, axis *x, axis *y)
{
    double x0 = INFINITY, x1 = -INFINITY, y0 = INFINITY, y1 = -INFINITY;
    for (int s = 0; s < plot->count; s++)
        for (int i = 0; i < plot->series[s].count; i++) {
            if (!is_shown(plot, &plot->series[s], i)) continue;
            x0 = fmin(x0, plot->series[s].x[i]);
            x1 = fmax(x1, plot->series[s].x[i]);
            y0 = fmin(y0, plot->series[s].y[i]);
            y1 = fmax(y1, plot->series[s].y[i]);
        }
    if (x0 > x1) x0 = y0 = plot->log ? 1 : 0, x1 = y1 = plot->log ? 2 : 1;
    *x = plot->log ? log_axis_for(x0, x1, 2, 14) : axis_for(x0, x1, 8);
    *y = plot->log ? log_axis_for(y0, y1, 10, 12) : axis_for(y0, y1, 7);
}

static double along(axis a, double v)
{
    if (a.base > 0) v = log(v) / log(a.base);
    return (v - a.low) / (a.high - a.low);
}

static double at_x(axis a, double v) { return LEFT + along(a, v) * (WIDTH - LEFT - RIGHT); }

static double at_y(axis a, double v)
{
    return HEIGHT - BOTTOM - along(a, v) * (HEIGHT - TOP - BOTTOM);
}

static int tick_count(axis a) { return (int)((a.high - a.low) / a.step + 1.5); }

static double tick(axis a, int i)
{
    double v = a.low + i * a.step;
    if (a.base > 0) return pow(a.base, v);
    return fabs(v) < a.step / 1e6 ? 0 : v;
}

/* 4, 64K, 16M on an axis of bytes, plain numbers elsewhere. */
static void tick_text(char *text, size_t size, axis a, double v)
{
    int unit = 0;
    for (; a.base == 2 && v >= 1024 && unit < 4; unit++) v /= 1024;
    snprintf(text, size, "%.6g%.1s", v, &" KMGT"[unit]);
    if (unit == 0) snprintf(text, size, "%.6g", v);
}

static void put_text(FILE *f, double x, double y, const char *extra, const char *text)
{
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, extra);
    for (; *text; text++) {
        if (*text == '<' || *text == '>' || *text == '&')
            fprintf(f, "&#%d;", *text);
        else
            fputc(*text, f);
    }
    fprintf(f, "</text>\n");
}

static void put_ticks(FILE *f, axis x, axis y)
{
    char text[64];
    for (int i = 0; i < tick_count(x); i++) {
        double at = at_x(x, tick(x, i));
        fprintf(f, "<path stroke=\"#333\" d=\"M%.1f %d v5\"/>\n", at, HEIGHT - BOTTOM);
        tick_text(text, sizeof text, x, tick(x, i));
        put_text(f, at, HEIGHT - BOTTOM + 20, "text-anchor=\"middle\"", text);
    }
    for (int i = 0; i < tick_count(y); i++) {
        double at = at_y(y, tick(y, i));
        fprintf(f, "<path stroke=\"#ddd\" d=\"M%d %.1f H%d\"/>\n", LEFT, at, WIDTH - RIGHT);
        tick_text(text, sizeof text, y, tick(y, i));
        put_text(f, LEFT - 8, at + 4, "text-anchor=\"end\"", text);
    }
}

static void put_axes(FILE *f, const ts_plot *plot, axis x, axis y)
{
    put_ticks(f, x, y);
    fprintf(f, "<path fill=\"none\" stroke=\"#333\" d=\"M%d %d V%d H%d\"/>\n", LEFT, TOP,
            HEIGHT - BOTTOM, WIDTH - RIGHT);
    put_text(f, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 16, "text-anchor=\"middle\"", plot->x_label);
    fprintf(f, "<g transform=\"translate(20 %d) rotate(-90)\">", (TOP + HEIGHT - BOTTOM) / 2);
    put_text(f, 0, 0, "text-anchor=\"middle\"", plot->y_label);
    fprintf(f, "</g>\n");
    put_text(f, WIDTH / 2.0, 26, "text-anchor=\"middle\" font-size=\"16\"", plot->title);
}

/* A long series is drawn by the means of equal runs of points. */
static void put_series(FILE *f, const ts_plot *plot, const ts_series *s, axis x, axis y)
{
    int run = (s->count + MAX_POINTS - 1) / MAX_POINTS;
    if (s->count == 0) return;
    fprintf(f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.6\"%s points=\"", s->color,
            s->dashed ? " stroke-dasharray=\"6 4\"" : "");
    for (int i = 0; i < s->count; i += run) {
        int n = s->count - i < run ? s->count - i : run;
        double sum_x = 0, sum_y = 0;
        for (int j = i; j < i + n; j++) sum_x += s->x[j], sum_y += s->y[j];
        if (is_shown(plot, s, i)) fprintf(f, "%.1f,%.1f ", at_x(x, sum_x / n), at_y(y, sum_y / n));
    }
    fprintf(f, "\"/>\n");
    for (int i = 0; s->points && i < s->count; i++)
        if (is_shown(plot, s, i))
            fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", at_x(x, s->x[i]),
                    at_y(y, s->y[i]), s->color);
}

/* Where curves seldom are: a loss falls from the left, times rise to the right. */
static void put_legend(FILE *f, const ts_plot *plot)
{
    for (int s = 0, line = 0; s < plot->count; s++) {
        if (plot->log && plot->series[s].count == 0) continue;
        int y = TOP + 16 + 20 * line++, x = plot->log ? LEFT + 16 : WIDTH - RIGHT - 170;
        fprintf(f, "<path stroke=\"%s\" stroke-width=\"2\"%s d=\"M%d %d h26\"/>\n",
                plot->series[s].color, plot->series[s].dashed ? " stroke-dasharray=\"6 4\"" : "", x,
                y);
        put_text(f, x + 34, y + 4, "", plot->series[s].name);
    }
}

static void put_plot(FILE *f, const ts_plot *plot)
{
    axis x, y;
    find_ranges(plot, &x, &y);
    put_axes(f, plot, x, y);
    for (int s = 0; s < plot->count; s++) put_series(f, plot, &plot->series[s], x, y);
    put_legend(f, plot);
}

static void put_plots(FILE *f, const ts_plot *plots, int n, int columns)
{
    int width = WIDTH * columns, height = HEIGHT * ((n + columns - 1) / columns);
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            width, height, width, height);
    for (int i = 0; i < n; i++) {
        fprintf(f, "<g transform=\"translate(%d %d)\">\n", WIDTH * (i % columns),
                HEIGHT * (i / columns));
        put_plot(f, &plots[i]);
        fprintf(f, "</g>\n");
    }
    fprintf(f, "</svg>\n");
}

/* Only a regular file may be replaced; what else has this name (a device, a pipe, a link) is written
 * to. */
static bool is_replaceable(const char *path)
{
    struct stat info;
    return lstat(path, &info) != 0 || S_ISREG(info.st_mode);
}

static char *written_name(const char *path, bool replace)
{
    return replace ? ts_asprintf("%s.tmp%d", path, (int)getpid()) : ts_asprintf("%s", path);
}

static ts_status plot_fail(const char *path, int error)
{
    return ts_fail(TS_EIO, "plot: cannot write %s: %s; choose another file", path, strerror(error));
}

ts_status ts_plot_check(const char *path)
{
    bool replace = is_replaceable(path);
    char *name = written_name(path, replace);
    if (!name) return ts_fail_memory(strlen(path) + 16, "plot");
    int fd = open(name, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_CREAT, 0666);
    int error = errno;
    if (fd >= 0) close(fd);
    if (fd >= 0 && replace) unlink(name);
    free(name);
    return fd >= 0 || error == ENXIO ? TS_OK : plot_fail(path, error);
}

ts_status ts_plots_write(const ts_plot *plots, int n, int columns, const char *path)
{
    bool replace = is_replaceable(path);
    char *name = written_name(path, replace);
    if (!name) return ts_fail_memory(strlen(path) + 16, "plot");
    FILE *f = fopen(name, "we");
    if (f) put_plots(f, plots, n, columns);
    bool good = f && !ferror(f);
    if (f && fclose(f) != 0) good = false;
    if (good && replace) good = rename(name, path) == 0;
    int error = errno;
    if (!good && replace) unlink(name);
    free(name);
    return good ? TS_OK : plot_fail(path, error);
}

ts_status ts_plot_write(const ts_plot *plot, const char *path)
{
    return ts_plots_write(plot, 1, 1, path);
}

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

/* The range of one axis, with ticks at multiples of step. */
typedef struct axis {
    double low, high, step;
} axis;

static axis axis_for(double low, double high, int ticks)
{
    if (!(high > low)) low -= 0.5, high += 0.5;
    double rough = (high - low) / ticks, power = pow(10, floor(log10(rough))), part = rough / power;
    double step = power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
    return (axis){floor(low / step) * step, ceil(high / step) * step, step};
}

static void find_ranges(const ts_plot *plot, axis *x, axis *y)
{
    double x0 = INFINITY, x1 = -INFINITY, y0 = INFINITY, y1 = -INFINITY;
    for (int s = 0; s < plot->count; s++)
        for (int i = 0; i < plot->series[s].count; i++) {
            x0 = fmin(x0, plot->series[s].x[i]);
            x1 = fmax(x1, plot->series[s].x[i]);
            y0 = fmin(y0, plot->series[s].y[i]);
            y1 = fmax(y1, plot->series[s].y[i]);
        }
    if (x0 > x1) x0 = y0 = 0, x1 = y1 = 1;
    *x = axis_for(x0, x1, 8);
    *y = axis_for(y0, y1, 7);
}

static double at_x(axis a, double v)
{
    return LEFT + (v - a.low) / (a.high - a.low) * (WIDTH - LEFT - RIGHT);
}

static double at_y(axis a, double v)
{
    return HEIGHT - BOTTOM - (v - a.low) / (a.high - a.low) * (HEIGHT - TOP - BOTTOM);
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

static void put_axes(FILE *f, const ts_plot *plot, axis x, axis y)
{
    char text[64];
    fprintf(f, "<g stroke=\"#ddd\">\n");
    for (double v = y.low; v <= y.high + y.step / 2; v += y.step)
        fprintf(f, "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>\n", LEFT, WIDTH - RIGHT,
                at_y(y, v), at_y(y, v));
    fprintf(f, "</g>\n<g stroke=\"#333\"><path fill=\"none\" d=\"M%d %d V%d H%d\"/>\n", LEFT, TOP,
            HEIGHT - BOTTOM, WIDTH - RIGHT);
    for (double v = x.low; v <= x.high + x.step / 2; v += x.step)
        fprintf(f, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>\n", at_x(x, v), at_x(x, v),
                HEIGHT - BOTTOM, HEIGHT - BOTTOM + 5);
    fprintf(f, "</g>\n");
    for (double v = x.low; v <= x.high + x.step / 2; v += x.step) {
        snprintf(text, sizeof text, "%.6g", fabs(v) < x.step / 1e6 ? 0 : v);
        put_text(f, at_x(x, v), HEIGHT - BOTTOM + 20, "text-anchor=\"middle\"", text);
    }
    for (double v = y.low; v <= y.high + y.step / 2; v += y.step) {
        snprintf(text, sizeof text, "%.6g", fabs(v) < y.step / 1e6 ? 0 : v);
        put_text(f, LEFT - 8, at_y(y, v) + 4, "text-anchor=\"end\"", text);
    }
    put_text(f, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 16, "text-anchor=\"middle\"", plot->x_label);
    fprintf(f, "<g transform=\"translate(20 %d) rotate(-90)\">", (TOP + HEIGHT - BOTTOM) / 2);
    put_text(f, 0, 0, "text-anchor=\"middle\"", plot->y_label);
    fprintf(f, "</g>\n");
    put_text(f, WIDTH / 2.0, 26, "text-anchor=\"middle\" font-size=\"16\"", plot->title);
}

/* A long series is drawn by the means of equal runs of points. */
static void put_series(FILE *f, const ts_series *s, axis x, axis y)
{
    int run = (s->count + MAX_POINTS - 1) / MAX_POINTS;
    if (s->count == 0) return;
    fprintf(f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.6\" points=\"", s->color);
    for (int i = 0; i < s->count; i += run) {
        int n = s->count - i < run ? s->count - i : run;
        double sum_x = 0, sum_y = 0;
        for (int j = i; j < i + n; j++) sum_x += s->x[j], sum_y += s->y[j];
        fprintf(f, "%.1f,%.1f ", at_x(x, sum_x / n), at_y(y, sum_y / n));
    }
    fprintf(f, "\"/>\n");
    for (int i = 0; s->points && i < s->count; i++)
        fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", at_x(x, s->x[i]),
                at_y(y, s->y[i]), s->color);
}

static void put_legend(FILE *f, const ts_plot *plot)
{
    for (int s = 0; s < plot->count; s++) {
        int y = TOP + 16 + 20 * s, x = WIDTH - RIGHT - 170;
        fprintf(
            f, "<line x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\" stroke=\"%s\" stroke-width=\"2\"/>\n",
            x, x + 26, y, y, plot->series[s].color);
        put_text(f, x + 34, y + 4, "", plot->series[s].name);
    }
}

static void put_plot(FILE *f, const ts_plot *plot)
{
    axis x, y;
    find_ranges(plot, &x, &y);
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT);
    put_axes(f, plot, x, y);
    for (int s = 0; s < plot->count; s++) put_series(f, &plot->series[s], x, y);
    put_legend(f, plot);
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
    return ts_fail(TS_EIO, "plot: cannot write %s: %s; choose another file with --plot", path,
                   strerror(error));
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

ts_status ts_plot_write(const ts_plot *plot, const char *path)
{
    bool replace = is_replaceable(path);
    char *name = written_name(path, replace);
    if (!name) return ts_fail_memory(strlen(path) + 16, "plot");
    FILE *f = fopen(name, "we");
    if (f) put_plot(f, plot);
    bool good = f && !ferror(f);
    if (f && fclose(f) != 0) good = false;
    if (good && replace) good = rename(name, path) == 0;
    int error = errno;
    if (!good && replace) unlink(name);
    free(name);
    return good ? TS_OK : plot_fail(path, error);
}

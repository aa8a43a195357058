/* SPDX-License-Identifier: Apache-2.0 */
/* Line charts as SVG files: axes with ticks, labels, a legend. */
#ifndef TS_TOOLS_PLOT_H
#define TS_TOOLS_PLOT_H

#include <stdbool.h>
#include <tessera/status.h>

typedef struct ts_series {
    const char *name, *color;
    double *x, *y;
    int count, capacity;
    bool points; /* a mark at each point */
    bool dashed;
} ts_series;

/* Non-finite values are left out.  false: out of memory. */
bool ts_series_add(ts_series *series, double x, double y);
void ts_series_free(ts_series *series);

typedef struct ts_plot {
    const char *title, *x_label, *y_label;
    const ts_series *series;
    int count;
    bool log; /* both axes are logarithmic: x in powers of two, in bytes, and y in powers of ten */
} ts_plot;

/* TS_EIO if path cannot be written; nothing is changed. */
ts_status ts_plot_check(const char *path);

/* Writes a regular file whole or not at all; a device, pipe or link is written to, not replaced.
 * TS_EIO names it. */
ts_status ts_plot_write(const ts_plot *plot, const char *path);
/* Several charts in one picture, columns of them side by side. */
ts_status ts_plots_write(const ts_plot *plots, int n, int columns, const char *path);

#endif

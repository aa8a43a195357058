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
} ts_series;

/* Non-finite values are left out.  false: out of memory. */
bool ts_series_add(ts_series *series, double x, double y);
void ts_series_free(ts_series *series);

typedef struct ts_plot {
    const char *title, *x_label, *y_label;
    const ts_series *series;
    int count;
} ts_plot;

/* Writes the file whole or not at all.  TS_EIO names it. */
ts_status ts_plot_write(const ts_plot *plot, const char *path);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What a training run shows and writes: progress, JSON lines, metrics file, loss curve.  Only rank
 * 0 has one that does anything. */
#ifndef TS_TOOLS_REPORT_H
#define TS_TOOLS_REPORT_H

#include <stdio.h>
#include <tessera/memory.h>
#include <tessera/status.h>

#include "plot.h"

typedef struct report_step {
    int64_t step; /* from 1 */
    double loss, lr, grad_norm, step_ms, tokens_per_s;
} report_step;

typedef struct report_end {
    int64_t params, steps;
    double final_loss, heldout_loss, tokens_per_s, seconds;
    bool replicas_equal;
    const char *differs; /* name of a parameter, if not */
    int ranks;
} report_end;

typedef struct report {
    bool active, json, terminal;
    FILE *metrics;
    const char *metrics_path, *plot_path;
    int64_t steps, first; /* first: steps that were done before */
    double started, last_line, heldout;
    ts_series curve[2]; /* training, held out */
} report;

/* Opens the metrics file.  TS_EIO names it. */
ts_status report_begin(report *r, bool active, bool json, const char *metrics_path,
                       const char *plot_path, int64_t steps);
ts_status report_on_step(report *r, const report_step *step);
ts_status report_on_heldout(report *r, int64_t step, double loss);
ts_status report_done(report *r, const report_end *end); /* also writes the curve */
void report_sample(report *r, const char *text);
void report_free(report *r);

#endif

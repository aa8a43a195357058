/* SPDX-License-Identifier: Apache-2.0 */
/* The drawing of tessera bench coll: one chart per operation. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "bench/coll.h"
#include "plot.h"

enum { MAX_CURVES = 8, LIMIT = 0, OURS = 1, NAME = 64, LINE = 4096 };

static const char *const colors[MAX_CURVES] = {"#888888", "#1f77b4", "#d62728", "#2ca02c",
                                               "#9467bd", "#ff7f0e", "#8c564b", "#e377c2"};

typedef struct chart_panel {
    const coll_op *op;
    char title[NAME + 64];
    char name[MAX_CURVES][NAME];
    ts_series curve[MAX_CURVES];
    int curves;
} chart_panel;

struct coll_chart {
    const coll_plan *plan;
    int ranks, panels;
    chart_panel panel[COLL_MAX_OPS];
};

/* ---- curves ---------------------------------------------------------------------------------- */

/* The panel's curve of this name, made if there is none; NULL: there are too many. */
static ts_series *curve_of(chart_panel *panel, const char *name)
{
    int i = LIMIT;
    while (i < panel->curves && strcmp(panel->name[i], name) != 0) i++;
    if (i == MAX_CURVES) return NULL;
    if (i == panel->curves) {
        snprintf(panel->name[i], NAME, "%s", name);
        panel->curve[i] =
            (ts_series){.color = colors[i], .points = i != LIMIT, .dashed = i == LIMIT};
        panel->curves++;
    }
    return &panel->curve[i];
}

/* Points stay in the order of sizes; of several for one size the fastest stays. */
static ts_status add(chart_panel *panel, const char *name, double bytes, double us)
{
    ts_series *c = curve_of(panel, name);
    for (int i = 0; c && i < c->count; i++)
        if (c->x[i] == bytes) {
            c->y[i] = fmin(c->y[i], us);
            return TS_OK;
        }
    if (!c) return TS_OK;
    if (!ts_series_add(c, bytes, us)) return ts_fail_memory(sizeof(double), "the chart");
    for (int i = c->count - 1; i > 0 && c->x[i - 1] > c->x[i]; i--) {
        double x = c->x[i], y = c->y[i];
        c->x[i] = c->x[i - 1], c->y[i] = c->y[i - 1];
        c->x[i - 1] = x, c->y[i - 1] = y;
    }
    return TS_OK;
}

static chart_panel *panel_of(coll_chart *chart, const char *op)
{
    for (int i = 0; i < chart->panels; i++)
        if (strcmp(chart->panel[i].op->name, op) == 0) return &chart->panel[i];
    return NULL;
}

ts_status coll_chart_add(coll_chart *chart, const coll_result *r)
{
    chart_panel *panel = panel_of(chart, r->c->op->name);
    if (!panel) return TS_OK;
    double bytes = (double)r->c->bytes;
    TS_TRY(add(panel, panel->name[OURS], bytes, r->us.median));
    return add(panel, panel->name[LIMIT], bytes, r->limit_us);
}

/* ---- curves of other runs -------------------------------------------------------------------- */

/* What follows "key": in a line of JSON; NULL: it has no such key. */
static const char *field(const char *line, const char *key)
{
    char quoted[NAME];
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char *at = strstr(line, quoted);
    if (!at) return NULL;
    at += strlen(quoted);
    return at + strspn(at, " ");
}

double coll_line_number(const char *line, const char *key)
{
    const char *at = field(line, key);
    return at ? strtod(at, NULL) : NAN;
}

static void text(char *out, const char *line, const char *key)
{
    const char *at = field(line, key);
    size_t length = at && *at == '"' ? strcspn(at + 1, "\"") : 0;
    snprintf(out, NAME, "%.*s", (int)length, at ? at + 1 : "");
}

static const char *curve_name(char *name, const char *backend, const char *memory)
{
    if (strcmp(backend, "native") != 0) return backend;
    snprintf(name, NAME, "tessera, %.20s, %.20s memory", backend, memory);
    return name;
}

/* A line of another run counts if it is about the same operation, ranks and hosts. */
static ts_status add_line(coll_chart *chart, const char *line)
{
    char op[NAME], backend[NAME], memory[NAME], name[NAME];
    text(op, line, "op");
    text(backend, line, "backend");
    text(memory, line, "memory");
    chart_panel *panel = panel_of(chart, op);
    double hosts = coll_line_number(line, "hosts");
    if (!panel || !*backend || coll_line_number(line, "ranks") != chart->ranks) return TS_OK;
    if (isfinite(hosts) && hosts != (double)chart->plan->v->hosts) return TS_OK;
    const char *curve = curve_name(name, backend, memory);
    if (strcmp(curve, panel->name[OURS]) == 0) return TS_OK; /* this run draws it */
    return add(panel, curve, coll_line_number(line, "bytes"), coll_line_number(line, "us_median"));
}

static ts_status add_file(coll_chart *chart, const char *path)
{
    char line[LINE];
    ts_status status = TS_OK;
    FILE *f = fopen(path, "re");
    if (!f)
        return ts_fail(TS_EIO,
                       "bench coll: cannot read %s: %s; --compare takes what --json printed", path,
                       strerror(errno));
    while (status == TS_OK && fgets(line, sizeof line, f)) status = add_line(chart, line);
    fclose(f);
    return status;
}

/* ---- the chart ------------------------------------------------------------------------------- */

static void begin_panel(coll_chart *chart, const coll_op *op)
{
    const coll_values *v = chart->plan->v;
    chart_panel *panel = &chart->panel[chart->panels++];
    char name[NAME], hosts[32] = "";
    panel->op = op;
    if (v->hosts > 1) snprintf(hosts, sizeof hosts, " on %lld hosts", (long long)v->hosts);
    snprintf(panel->title, sizeof panel->title, "%s, %d ranks%s, %s", op->name, chart->ranks, hosts,
             v->dtype);
    curve_of(panel, "streaming limit");
    curve_of(panel, curve_name(name, v->backend, v->memory));
}

ts_status coll_chart_new(coll_chart **out, const coll_plan *plan, int ranks)
{
    TS_TRY(ts_plot_check(plan->v->svg));
    coll_chart *chart = ts_calloc(1, sizeof *chart);
    if (!chart) return ts_fail_memory(sizeof *chart, "the chart");
    chart->plan = plan;
    chart->ranks = ranks;
    for (int i = 0; i < plan->ops; i++)
        if (!plan->op[i]->no_data) begin_panel(chart, plan->op[i]);
    ts_status status = plan->v->compare ? add_file(chart, plan->v->compare) : TS_OK;
    if (status == TS_OK)
        *out = chart;
    else
        coll_chart_free(chart);
    return status;
}

ts_status coll_chart_write(coll_chart *chart, const char *path)
{
    ts_plot plots[COLL_MAX_OPS];
    for (int i = 0; i < chart->panels; i++) {
        chart_panel *panel = &chart->panel[i];
        for (int s = 0; s < panel->curves; s++) panel->curve[s].name = panel->name[s];
        plots[i] = (ts_plot){panel->title, "bytes",       "microseconds per call",
                             panel->curve, panel->curves, .log = true};
    }
    return ts_plots_write(plots, chart->panels, chart->panels < 2 ? 1 : 2, path);
}

void coll_chart_free(coll_chart *chart)
{
    for (int i = 0; chart && i < chart->panels; i++)
        for (int s = 0; s < chart->panel[i].curves; s++) ts_series_free(&chart->panel[i].curve[s]);
    free(chart);
}

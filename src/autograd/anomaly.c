/* SPDX-License-Identifier: Apache-2.0 */
/* Anomaly mode: nodes remember the calls that made them, and gradients must be finite. */
#include <execinfo.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/autograd_impl.h"
#include "base/memory.h"
#include "base/site.h"

enum { MAX_FRAMES = 32, SHOWN = 4 };

struct ts_trace {
    char where[TS_WHERE_MAX]; /* path of the module that ran */
    int count;
    void *frame[MAX_FRAMES];
};

struct ts_trace *ts_trace_new(void)
{
    struct ts_trace *trace = ts_calloc(1, sizeof *trace);
    if (!trace) return NULL;
    memcpy(trace->where, ts_thread()->where, sizeof trace->where - 1);
    trace->count = backtrace(trace->frame, MAX_FRAMES);
    return trace;
}

/* ---- where a node was made ------------------------------------------------------------------- */

static bool is_entry(const ts_site *site)
{
    static const char *const entry[] = {"ts_dispatch", "ts_dispatch1",      "ts_dispatch2",
                                        "ts_op_run",   "ts_function_apply", "ts_dispatch3"};
    for (size_t i = 0; i < sizeof entry / sizeof *entry; i++)
        if (strcmp(site->function, entry[i]) == 0) return true;
    return false;
}

/* The first frame after the library's own: beyond the dispatcher, the first whose function was
 * not called from another public function. */
static int first_outside(const struct ts_trace *trace, ts_sites *sites)
{
    ts_site site;
    int at = 0, entry = -1;
    for (; at < trace->count && entry < 0; at++)
        if (ts_site_find(&site, sites, (uint64_t)(uintptr_t)trace->frame[at]) && is_entry(&site))
            entry = at;
    if (entry < 0) return 0;
    while (at < trace->count && ts_site_find(&site, sites, (uint64_t)(uintptr_t)trace->frame[at]) &&
           strncmp(site.function, "ts_", 3) == 0)
        at++;
    return at < trace->count ? at : entry;
}

static void format_frames(char *text, size_t size, const struct ts_trace *trace)
{
    ts_sites *sites = ts_sites_open(0);
    int first = first_outside(trace, sites);
    size_t used = 0;
    text[0] = '\0';
    for (int i = first; i < trace->count && i < first + SHOWN && used < size; i++) {
        char site[300];
        ts_site_format(site, sizeof site, sites, (uint64_t)(uintptr_t)trace->frame[i]);
        if (!*site) break;
        used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", from " : "", site);
        if (strstr(site, " in main")) break;
    }
    ts_sites_close(sites);
}

ts_status ts_trace_explain(const ts_node *node, ts_status status)
{
    if (status == TS_OK || !node->trace) return status;
    char frames[1000], first[TS_ERROR_MAX];
    const char *where = node->trace->where;
    memcpy(first, ts_thread()->error, sizeof first);
    format_frames(frames, sizeof frames, node->trace);
    size_t path = strlen(where);
    while (path > 0 && (where[path - 1] == ' ' || where[path - 1] == ':')) path--;
    char text[TS_ERROR_MAX];
    snprintf(text, sizeof text, "%.900s; that %s ran %s%.*s%sat %s", first, node->name,
             path ? "in " : "", (int)path, where, path ? " " : "", *frames ? frames : "?");
    return ts_fail_again(status, text);
}

/* ---- gradients that are not finite ----------------------------------------------------------- */

static bool all_finite(const ts_tensor *t)
{
    const double *x = t->storage->data;
    for (int64_t i = 0; i < t->numel; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

static ts_status check_one(const ts_node *node, int i, const ts_tensor *grad)
{
    char shape[TS_SHAPE_TEXT];
    if (!ts_dtype_is_floating((ts_dtype)grad->dtype) || grad->device != TS_CPU) return TS_OK;
    ts_spec spec = {grad->shape, TS_FLOAT64, TS_CPU};
    ts_tensor *copy = ts_tensor_new_owned(&spec, TS_MEMORY_HEAP, TS_CATEGORY_GRADIENT);
    ts_status status = ts_tensor_check(copy, "gradient");
    if (status == TS_OK) status = ts_tensor_copy_data(copy, grad);
    bool finite = status != TS_OK || all_finite(copy);
    ts_release(copy);
    if (finite) return status;
    return ts_fail(TS_ESTATE,
                   "backward of %s: the gradient of input %d, of shape %s, is not finite",
                   node->name, i, ts_shape_format(shape, sizeof shape, grad->shape));
}

ts_status ts_anomaly_check(const ts_node *node, ts_tensor *const *grad_in)
{
    for (int i = 0; i < node->num_edges; i++)
        if (grad_in[i] && node->edge[i].node) TS_TRY(check_one(node, i, grad_in[i]));
    return TS_OK;
}

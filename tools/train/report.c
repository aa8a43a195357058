/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "json.h"

static double seconds(void) { return (double)ts_now_ns() * 1e-9; }

ts_status report_begin(report *r, bool active, bool json, const char *metrics_path,
                       const char *plot_path, int64_t steps)
{
    *r = (report){.active = active,
                  .json = json,
                  .terminal = !json && isatty(1),
                  .metrics_path = metrics_path,
                  .plot_path = plot_path,
                  .steps = steps,
                  .started = seconds(),
                  .heldout = NAN};
    r->curve[0] = (ts_series){.name = "training", .color = "#1f77b4"};
    r->curve[1] = (ts_series){.name = "held out", .color = "#d62728", .points = true};
    if (active && plot_path) TS_TRY(ts_plot_check(plot_path));
    if (!active || !metrics_path) return TS_OK;
    r->metrics = fopen(metrics_path, "we");
    if (r->metrics) return setvbuf(r->metrics, NULL, _IOLBF, BUFSIZ), TS_OK;
    return ts_fail(TS_EIO, "train: cannot write %s: %s; choose another file with --metrics",
                   metrics_path, strerror(errno));
}

void report_free(report *r)
{
    if (r->metrics) fclose(r->metrics);
    r->metrics = NULL;
    for (int i = 0; i < 2; i++) ts_series_free(&r->curve[i]);
}

static void put_peaks(ts_json *json)
{
    ts_memory_stats stats;
    ts_memory_read(&stats);
    ts_json_open(json, "peak_bytes");
    for (int i = 0; i < TS_NUM_CATEGORIES; i++)
        if (stats.peak[i]) ts_json_int(json, ts_category_name((ts_category)i), stats.peak[i]);
    ts_json_int(json, "total", stats.peak_total);
    ts_json_int(json, "pool", stats.pool_bytes);
    ts_json_close(json);
}

static void put_step(FILE *to, const report_step *s, bool peaks)
{
    ts_json json = ts_json_begin(to);
    ts_json_text(&json, "event", "step");
    ts_json_int(&json, "step", s->step);
    ts_json_real(&json, "loss", s->loss);
    ts_json_real(&json, "tokens_per_s", s->tokens_per_s);
    ts_json_real(&json, "step_ms", s->step_ms);
    ts_json_real(&json, "lr", s->lr);
    ts_json_real(&json, "grad_norm", s->grad_norm);
    if (peaks) put_peaks(&json);
    ts_json_end(&json);
}

static void format_left(char *out, size_t size, double left)
{
    long whole = left > 0 && left < 1e8 ? lround(left) : 0;
    snprintf(out, size, "%ld:%02ld", whole / 60, whole % 60);
}

/* One line on a terminal, rewritten; elsewhere a line now and then. */
static void show_step(report *r, const report_step *s)
{
    char left[32], heldout[48] = "";
    double now = seconds();
    int64_t every = r->steps / 20 > 0 ? r->steps / 20 : 1;
    bool due = r->terminal ? now - r->last_line > 0.1 : s->step % every == 0;
    if (s->step != 1 && s->step != r->steps && !due) return;
    r->last_line = now;
    format_left(left, sizeof left,
                (now - r->started) / (double)(s->step - r->first) * (double)(r->steps - s->step));
    if (isfinite(r->heldout)) snprintf(heldout, sizeof heldout, "  held out %.4f", r->heldout);
    printf("%sstep %lld/%lld  loss %.4f%s  %.0f tokens/s  %s left%s", r->terminal ? "\r" : "",
           (long long)s->step, (long long)r->steps, s->loss, heldout, s->tokens_per_s, left,
           r->terminal && s->step != r->steps ? "\033[K" : "\n");
    fflush(stdout);
}

/* Lines are out at once, for whoever watches, and so is the news that they cannot be written. */
static ts_status written_status(const report *r)
{
    if (fflush(stdout) != 0 || ferror(stdout))
        return ts_fail(TS_EIO, "train: writing to standard output failed; is the disk full?");
    if (!r->metrics || !ferror(r->metrics)) return TS_OK;
    return ts_fail(TS_EIO, "train: writing %s failed; is the disk full?", r->metrics_path);
}

ts_status report_on_step(report *r, const report_step *s)
{
    if (!r->active) return TS_OK;
    if (!ts_series_add(&r->curve[0], (double)s->step, s->loss))
        return ts_fail(TS_ENOMEM, "train: out of memory for the loss curve");
    if (r->json)
        put_step(stdout, s, false);
    else
        show_step(r, s);
    if (r->metrics) put_step(r->metrics, s, true);
    return written_status(r);
}

static void put_heldout(FILE *to, int64_t step, double loss)
{
    ts_json json = ts_json_begin(to);
    ts_json_text(&json, "event", "heldout");
    ts_json_int(&json, "step", step);
    ts_json_real(&json, "loss", loss);
    ts_json_end(&json);
}

ts_status report_on_heldout(report *r, int64_t step, double loss)
{
    if (!r->active) return TS_OK;
    r->heldout = loss;
    if (!ts_series_add(&r->curve[1], (double)step, loss))
        return ts_fail(TS_ENOMEM, "train: out of memory for the loss curve");
    if (r->json) put_heldout(stdout, step, loss);
    if (r->metrics) put_heldout(r->metrics, step, loss);
    return written_status(r);
}

static void put_end(FILE *to, const report_end *e)
{
    ts_json json = ts_json_begin(to);
    ts_json_text(&json, "event", "done");
    ts_json_int(&json, "params", e->params);
    ts_json_int(&json, "steps", e->steps);
    ts_json_int(&json, "ranks", e->ranks);
    ts_json_real(&json, "final_loss", e->final_loss);
    ts_json_real(&json, "heldout_loss", e->heldout_loss);
    ts_json_real(&json, "tokens_per_s", e->tokens_per_s);
    ts_json_real(&json, "seconds", e->seconds);
    put_peaks(&json);
    ts_json_bool(&json, "replicas_equal", e->replicas_equal);
    ts_json_end(&json);
}

static void show_end(const report *r, const report_end *e)
{
    printf("%lld parameters, %lld steps in %.1f s, %.0f tokens/s\n", (long long)e->params,
           (long long)e->steps, e->seconds, e->tokens_per_s);
    printf("loss: training %.4f, held out ", e->final_loss);
    if (isfinite(e->heldout_loss))
        printf("%.4f nats per token\n", e->heldout_loss);
    else
        printf("unknown (the held-out part is shorter than one sequence)\n");
    if (e->ranks > 1)
        printf("replicas: %s%s on %d ranks\n",
               e->replicas_equal ? "equal bit for bit" : "DIFFERENT in ",
               e->replicas_equal ? "" : e->differs, e->ranks);
    if (r->plot_path) printf("loss curve: %s\n", r->plot_path);
    if (r->metrics_path) printf("metrics: %s\n", r->metrics_path);
}

ts_status report_done(report *r, const report_end *e)
{
    if (!r->active) return TS_OK;
    ts_plot plot = {.title = "Loss",
                    .x_label = "step",
                    .y_label = "nats per token",
                    .series = r->curve,
                    .count = 2};
    if (r->plot_path) TS_TRY(ts_plot_write(&plot, r->plot_path));
    if (r->metrics) put_end(r->metrics, e);
    if (r->json)
        put_end(stdout, e);
    else
        show_end(r, e);
    return written_status(r);
}

void report_sample(report *r, const char *text)
{
    if (!r->active) return;
    if (r->json) {
        ts_json json = ts_json_begin(stdout);
        ts_json_text(&json, "event", "sample");
        ts_json_text(&json, "text", text);
        ts_json_end(&json);
    } else {
        printf("---- sample ----\n%s\n----------------\n", text);
    }
}

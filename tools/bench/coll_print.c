/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of tessera bench coll. */
#include <math.h>
#include <stdio.h>
#include <tessera/tessera.h>

#include "bench/coll.h"
#include "json.h"

void coll_print_head(const coll_plan *plan)
{
    if (plan->v->json) return;
    printf("%d ranks", ts_world_size());
    if (plan->v->hosts > 1) printf(" on %lld hosts", (long long)plan->v->hosts);
    printf(", backend %s, %s memory, %s\n", ts_group_backend(NULL), plan->v->memory,
           plan->v->dtype);
    printf("%-20s %10s  %11s %11s %11s  %8s %8s  %s\n", "operation", "bytes", "median us", "min",
           "p99", "GB/s", "bus", "streaming limit");
}

static void print_json(const coll_result *r, double speed, double bus)
{
    const coll_case *c = r->c;
    const coll_values *v = c->plan->v;
    ts_json json = ts_json_begin(stdout);
    ts_json_text(&json, "op", c->op->name);
    ts_json_int(&json, "bytes", c->bytes);
    ts_json_int(&json, "ranks", c->ranks);
    ts_json_int(&json, "hosts", v->hosts);
    ts_json_text(&json, "backend", ts_group_backend(NULL));
    ts_json_text(&json, "memory", v->memory);
    ts_json_text(&json, "dtype", v->dtype);
    ts_json_bool(&json, "async", v->async);
    ts_json_real(&json, "us_median", r->us.median);
    ts_json_real(&json, "us_min", r->us.min);
    ts_json_real(&json, "us_p99", r->us.p99);
    ts_json_real(&json, "GBps", speed);
    ts_json_real(&json, "busGBps", bus);
    ts_json_text(&json, "check", c->plan->fake ? "none" : "ok");
    ts_json_real(&json, "limit_us", r->limit_us);
    ts_json_real(&json, "of_limit", r->limit_us / r->us.median);
    ts_json_int(&json, "samples", r->samples);
    ts_json_int(&json, "calls_per_sample", r->calls);
    ts_json_end(&json);
}

void coll_print(const coll_result *r)
{
    const coll_case *c = r->c;
    double speed = (double)c->bytes / r->us.median * 1e-3;
    double bus = speed * (c->op->bus ? c->op->bus(c->ranks) : 1);
    if (c->plan->v->json) {
        print_json(r, speed, bus);
        return;
    }
    printf("%-20s %10lld  %11.2f %11.2f %11.2f  %8.3f %8.3f", c->op->name, (long long)c->bytes,
           r->us.median, r->us.min, r->us.p99, speed, bus);
    if (isfinite(r->limit_us))
        printf("  %.1f us: %3.0f%%", r->limit_us, 100 * r->limit_us / r->us.median);
    printf("\n");
    fflush(stdout);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* tessera bench coll: time and bandwidth of collectives; the data is always checked. */
#include "bench/coll.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/tessera.h>

#include "base/error.h"
#include "commands.h"
#include "launch/launch.h"

/* Rank 0's answer to each line. */
static ts_status report(const coll_result *result, coll_chart *chart)
{
    if (result->c->rank != 0) return TS_OK;
    coll_print(result);
    return chart ? coll_chart_add(chart, result) : TS_OK;
}

static ts_status run_case(const coll_plan *plan, const coll_op *op, int64_t bytes,
                          coll_chart *chart)
{
    coll_case c;
    coll_result result;
    ts_scope scope = ts_scope_begin();
    ts_status status = coll_case_make(&c, plan, op, bytes);
    if (status == TS_OK) status = coll_measure(&result, &c);
    if (status == TS_OK) status = report(&result, chart);
    coll_case_free(&c);
    ts_status left = ts_scope_end(scope);
    return status != TS_OK ? status : left;
}

static ts_status run_cases(const coll_plan *plan, coll_chart *chart)
{
    for (int i = 0; i < plan->ops; i++) {
        const coll_op *op = plan->op[i];
        if (op->pair && ts_world_size() < 2) continue;
        if (op->no_data) TS_TRY(run_case(plan, op, 0, chart));
        for (int s = 0; s < plan->sizes && !op->no_data; s++)
            TS_TRY(run_case(plan, op, plan->size[s], chart));
    }
    return TS_OK;
}

static int ranks_of(const coll_values *v) { return v->ranks > 0 ? (int)v->ranks : 2; }

static ts_status run_all(const coll_plan *plan)
{
    coll_chart *chart = NULL;
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    opt.backend = plan->v->backend;
    if (plan->fake) opt.rank = 0, opt.world_size = ranks_of(plan->v);
    TS_TRY(ts_init_process_group(&opt));
    if (ts_rank() == 0) {
        if (plan->v->svg) TS_TRY(coll_chart_new(&chart, plan, ts_world_size()));
        coll_print_head(plan);
    }
    ts_status status = run_cases(plan, chart);
    if (status == TS_OK && chart) status = coll_chart_write(chart, plan->v->svg);
    coll_chart_free(chart);
    TS_TRY(status);
    return ts_destroy_process_group(NULL);
}

/* A rank of the pretend host that its number falls into. */
static void set_pretend_host(const coll_values *v)
{
    char host[32];
    if (v->hosts < 2) return;
    snprintf(host, sizeof host, "bench-host-%lld",
             (long long)(ts_rank() * v->hosts / ts_world_size()));
    setenv("TESSERA_HOST_ID", host, 1);
}

static int coll_run(void *values, int argc, char **argv)
{
    coll_plan plan;
    const coll_values *v = values;
    (void)argc, (void)argv;
    int status = coll_plan_make(&plan, v);
    if (status != TS_EXIT_OK) return status;
    if (v->tune) return coll_tune(&plan);
    if (!ts_launched() && !plan.fake) {
        if (strcmp(v->backend, "mpi") == 0 && !v->mpi)
            return ts_usage_error(&ts_command_bench_coll,
                                  "--backend mpi: name the MPI with --mpi openmpi or --mpi mpich, "
                                  "or start the ranks with mpirun -n N tessera bench coll ...");
        coll_limits_leave(&plan, ranks_of(v));
        return ts_launch_self("tessera bench coll", ranks_of(v), v->mpi);
    }
    set_pretend_host(v);
    if (run_all(&plan) == TS_OK) return TS_EXIT_OK;
    fprintf(stderr, "tessera bench coll: rank %d: %s\n", ts_rank(), ts_error_last());
    return TS_EXIT_FAILURE;
}

const ts_command ts_command_bench_coll = {
    .name = "bench coll",
    .summary = "Measure collectives; the data is always checked.",
    .about =
        "A sample is a run of calls back to back after a barrier, as many as take about 50 us "
        "(one if a call takes longer), and its time that of the slowest rank over the calls in "
        "it; median, minimum and 99th percentile are over samples. Rooted operations take the "
        "ranks in turn as root. ping_pong is one way: half of there and back. GB/s is bytes "
        "over the median time; bus is what each link of a ring would carry. The streaming "
        "limit is the time of the memory traffic that the operation needs, by threads of one "
        "process with the same kernels (float32, one host). With --backend fake this process is "
        "rank 0 of "
        "N and nothing moves: what is left is the time of the calls themselves.",
    .options = coll_options,
    .values_size = sizeof(coll_values),
    .run = coll_run,
};

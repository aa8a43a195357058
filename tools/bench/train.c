/* SPDX-License-Identifier: Apache-2.0 */
/* tessera bench train: time of a training step, next to what matrix products alone would reach. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "bench/bench.h"
#include "commands.h"
#include "json.h"
#include "launch/launch.h"
#include "train/train.h"

typedef struct bench_train_values {
    model_values model;
    const char *name;
    int64_t steps, warmup, gemm;
    bool json;
} bench_train_values;

#define AT(field) offsetof(bench_train_values, field)
static const ts_opt train_options[] = {
    {"model", 0, TS_OPT_TEXT, AT(name), "NAME", "gpt", "Model.", 0, 0, NULL},
    MODEL_OPTIONS(bench_train_values, "4", "256", "8", "128", "8", "512", "ddp"),
    {"steps", 0, TS_OPT_INT, AT(steps), "N", "20", "Timed steps.", 1, 1e6, NULL},
    {"warmup-steps", 0, TS_OPT_INT, AT(warmup), "N", "3", "Steps before.", 1, 1e6, NULL},
    {"gemm", 0, TS_OPT_INT, AT(gemm), "N", "1536",
     "Size of the square product that gives the rate to compare with.", 64, 16384, NULL},
    {"json", 0, TS_OPT_FLAG, AT(json), NULL, NULL, "One JSON object.", 0, 0, NULL},
    {NULL, 0, TS_OPT_FLAG, 0, NULL, NULL, NULL, 0, 0, NULL}};

typedef struct measured {
    double step_ms, gemm_gflops, loss;
    int64_t params;
} measured;

/* One square product, on all ranks at once, as the steps run. */
static ts_status timed_product(double *ms, ts_tensor *a, ts_tensor *b)
{
    ts_scope scope = ts_scope_begin();
    ts_status status = ts_is_initialized() ? ts_barrier(NULL, NULL) : TS_OK;
    int64_t begin = ts_now_ns();
    ts_tensor *c = ts_matmul(a, b);
    *ms = (double)(ts_now_ns() - begin) * 1e-6;
    if (status == TS_OK) status = ts_tensor_status(c);
    ts_status left = ts_scope_end(scope);
    return status != TS_OK ? status : left;
}

static ts_status timed_step(double *ms, measured *m, trainer *t, const model_values *v)
{
    trainer_result result;
    ts_scope scope = ts_scope_begin();
    ts_tensor *tokens = ts_randint(0, v->vocab, TS_SHAPE(v->batch, v->seq), NULL);
    ts_tensor *targets = ts_randint(0, v->vocab, TS_SHAPE(v->batch, v->seq), NULL);
    int64_t begin = ts_now_ns();
    ts_status status = trainer_step(&result, t, tokens, targets, 1e-4);
    *ms = (double)(ts_now_ns() - begin) * 1e-6;
    m->loss = result.loss;
    ts_status left = ts_scope_end(scope);
    return status != TS_OK ? status : left;
}

/* A step and a product in turn, so that what slows the machine slows both: the medians of each. */
static ts_status measure_pairs(measured *m, trainer *t, const bench_train_values *v, double *ms,
                               double *product_ms)
{
    double ignored, n = (double)v->gemm;
    ts_tensor *a = ts_randn(TS_SHAPE(v->gemm, v->gemm), NULL);
    ts_tensor *b = ts_randn(TS_SHAPE(v->gemm, v->gemm), NULL);
    for (int64_t i = 0; i < v->warmup; i++) {
        TS_TRY(timed_step(&ignored, m, t, &v->model));
        TS_TRY(timed_product(&ignored, a, b));
    }
    for (int64_t i = 0; i < v->steps; i++) {
        if (ts_is_initialized()) TS_TRY(ts_barrier(NULL, NULL));
        TS_TRY(timed_step(&ms[i], m, t, &v->model));
        TS_TRY(timed_product(&product_ms[i], a, b));
    }
    m->step_ms = bench_stats_of(ms, (int)v->steps).median;
    m->gemm_gflops = 2 * n * n * n / bench_stats_of(product_ms, (int)v->steps).median * 1e-6;
    TS_TRY(trainer_mean(&m->gemm_gflops));
    return trainer_mean(&m->step_ms);
}

static ts_status measure(measured *m, trainer *t, const bench_train_values *v)
{
    trainer_options opt = {.gpt = model_gpt_options(&v->model),
                           .ddp = ts_is_initialized() && ts_world_size() > 1,
                           .seed = (uint64_t)v->model.seed};
    TS_TRY(trainer_new(t, &opt));
    m->params = ts_module_num_parameters(t->gpt);
    double *ms = ts_calloc((size_t)v->steps, 2 * sizeof *ms);
    if (!ms)
        return ts_fail(TS_ENOMEM, "bench train: out of memory for %lld times", (long long)v->steps);
    ts_scope scope = ts_scope_begin();
    ts_status status = measure_pairs(m, t, v, ms, ms + v->steps);
    ts_status left = ts_scope_end(scope);
    free(ms);
    return status != TS_OK ? status : left;
}

static void print_bytes(ts_json *json)
{
    ts_memory_stats stats;
    ts_memory_read(&stats);
    ts_json_open(json, "bytes_by_category");
    for (int i = 0; i < TS_NUM_CATEGORIES; i++)
        ts_json_int(json, ts_category_name((ts_category)i), stats.peak[i]);
    ts_json_close(json);
}

static void print_result(const measured *m, const bench_train_values *v, int ranks)
{
    struct rusage usage;
    ts_gpt_options gpt = model_gpt_options(&v->model);
    double flops = ts_gpt_step_flops(&gpt, v->model.batch, v->model.seq);
    double tokens = (double)(v->model.batch * v->model.seq * ranks) / m->step_ms * 1000;
    double utilisation = flops / (m->step_ms * 1e-3) / (m->gemm_gflops * 1e9);
    getrusage(RUSAGE_SELF, &usage);
    double rss = (double)usage.ru_maxrss / 1024;
    if (!v->json) {
        printf("step %.2f ms, %.0f tokens/s on %d rank(s), %d thread(s) each\n"
               "%lld parameters, %.3f GFLOP per step and rank\n"
               "%.1f GFLOP/s of %.1f (matrix product): utilisation %.2f\npeak memory %.0f MB\n",
               m->step_ms, tokens, ranks, ts_num_threads(), (long long)m->params, flops * 1e-9,
               flops / m->step_ms * 1e-6, m->gemm_gflops, utilisation, rss);
        return;
    }
    ts_json json = ts_json_begin(stdout);
    ts_json_text(&json, "model", v->name);
    ts_json_int(&json, "ranks", ranks);
    ts_json_int(&json, "threads", ts_num_threads());
    ts_json_real(&json, "step_ms", m->step_ms);
    ts_json_real(&json, "tokens_per_s", tokens);
    ts_json_int(&json, "params", m->params);
    ts_json_real(&json, "flops_per_step", flops);
    ts_json_real(&json, "gemm_gflops", m->gemm_gflops);
    ts_json_real(&json, "utilisation", utilisation);
    ts_json_real(&json, "peak_rss_mb", rss);
    ts_json_real(&json, "loss", m->loss);
    print_bytes(&json);
    ts_json_end(&json);
}

static int run_rank(const bench_train_values *v)
{
    trainer t = {0};
    measured m = {0};
    ts_status status = model_join(&v->model, "bench train");
    if (status == TS_OK) status = measure(&m, &t, v);
    int ranks = ts_is_initialized() ? ts_world_size() : 1;
    if (status == TS_OK && (ranks == 1 || ts_rank() == 0)) print_result(&m, v, ranks);
    if (status != TS_OK)
        fprintf(stderr, "tessera bench train: rank %d: %s\n", ts_rank(), ts_error_last());
    trainer_free(&t);
    if (ts_is_initialized()) ts_destroy_process_group(NULL);
    return status == TS_OK ? TS_EXIT_OK : TS_EXIT_FAILURE;
}

static int train_run(void *values, int argc, char **argv)
{
    const bench_train_values *v = values;
    (void)argc, (void)argv;
    if (strcmp(v->name, "gpt") != 0)
        return ts_usage_error(&ts_command_bench_train,
                              "--model %s is not offered yet by this version; use gpt", v->name);
    int status = model_check(&ts_command_bench_train, &v->model);
    if (status != TS_EXIT_OK) return status;
    if (ts_launched() || v->model.ranks < 2) return run_rank(v);
    return ts_launch_self("tessera bench train", (int)v->model.ranks, NULL);
}

const ts_command ts_command_bench_train = {
    .name = "bench train",
    .summary = "Measure training steps of a model on random data.",
    .about =
        "The utilisation is the model's FLOP/s (6 P B T + 12 L C T B T per step) over the rate "
        "of a large square matrix product in the same process with the same threads.",
    .options = train_options,
    .values_size = sizeof(bench_train_values),
    .run = train_run,
};

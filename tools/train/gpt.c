/* SPDX-License-Identifier: Apache-2.0 */
/* tessera train gpt: trains a GPT on the bytes of files. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "checkpoint.h"
#include "commands.h"
#include "launch/launch.h"
#include "report.h"
#include "train.h"

typedef struct gpt_values {
    model_values model;
    ts_text_list data;
    int64_t steps, warmup, eval_every, eval_batches, sample_length;
    double lr, clip, weight_decay, holdout, temperature;
    int64_t save_every;
    const char *sample, *plot, *metrics, *checkpoint;
    bool json, resume;
} gpt_values;

#define AT(field) offsetof(gpt_values, field)
static const ts_opt gpt_options[] = {
    {"data", 0, TS_OPT_LIST, AT(data), "FILE|DIR...", NULL,
     "Text to learn: files, and folders with all that is in them.", 0, 0, NULL},
    MODEL_OPTIONS(gpt_values, "4", "128", "4", "128", "8", "256", "ddp"),
    {"steps", 0, TS_OPT_INT, AT(steps), "N", "500", "Training steps.", 1, 1e12, NULL},
    {"lr", 0, TS_OPT_REAL, AT(lr), "X", "1e-3", "Peak learning rate.", 0, 1e6, NULL},
    {"warmup", 0, TS_OPT_INT, AT(warmup), "N", "50",
     "Steps until the peak; afterwards it falls along a cosine to a tenth.", 0, 1e12, NULL},
    {"clip", 0, TS_OPT_REAL, AT(clip), "X", "1", "Largest norm of the gradient; 0: not limited.", 0,
     1e30, NULL},
    {"weight-decay", 0, TS_OPT_REAL, AT(weight_decay), "X", "0.1", "Weight decay of AdamW.", 0, 1e6,
     NULL},
    {"holdout", 0, TS_OPT_REAL, AT(holdout), "X", "0.05",
     "Part of every file that is kept back for the held-out loss.", 0, 0.9, NULL},
    {"eval-every", 0, TS_OPT_INT, AT(eval_every), "N", "100",
     "Steps between measurements of the held-out loss; 0: only at the end.", 0, 1e12, NULL},
    {"eval-batches", 0, TS_OPT_INT, AT(eval_batches), "N", "4",
     "Batches per rank of such a measurement.", 1, 1e6, NULL},
    {"sample", 0, TS_OPT_TEXT, AT(sample), "TEXT", NULL,
     "Let the trained model go on with this text.", 0, 0, NULL},
    {"sample-length", 0, TS_OPT_INT, AT(sample_length), "N", "300", "Tokens of the sample.", 1, 1e6,
     NULL},
    {"temperature", 0, TS_OPT_REAL, AT(temperature), "X", "0.8",
     "Randomness of the sample; 0: always the likeliest token.", 0, 100, NULL},
    {"plot", 0, TS_OPT_TEXT, AT(plot), "FILE.svg", NULL, "Draw the loss curve into this file.", 0,
     0, NULL},
    {"metrics", 0, TS_OPT_TEXT, AT(metrics), "FILE.jsonl", NULL,
     "Write one JSON object per step into this file.", 0, 0, NULL},
    {"json", 0, TS_OPT_FLAG, AT(json), NULL, NULL, "One JSON object per line on standard output.",
     0, 0, NULL},
    {"checkpoint", 0, TS_OPT_TEXT, AT(checkpoint), "DIR", NULL,
     "Save all that the run needs to go on into this folder, at the end and on the way.", 0, 0,
     NULL},
    {"save-every", 0, TS_OPT_INT, AT(save_every), "K", "1000",
     "Steps between checkpoints; 0: only at the end.", 0, 1e12, NULL},
    {"resume", 0, TS_OPT_FLAG, AT(resume), NULL, NULL,
     "Go on from the newest checkpoint in the folder, if there is one.", 0, 0, NULL},
    {NULL, 0, TS_OPT_FLAG, 0, NULL, NULL, NULL, 0, 0, NULL}};

typedef struct gpt_run {
    const gpt_values *v;
    int rank, size;
    ts_text *text;
    ts_text_loader *loader;
    trainer t;
    report report;
    int64_t first; /* steps that were done before this run */
    double final_loss, heldout, train_ms;
} gpt_run;

/* ---- data ------------------------------------------------------------------------------------ */

static ts_status open_text(ts_text **out, const gpt_values *v, int ranks)
{
    int64_t seq = v->model.seq, needed = v->model.batch * ranks;
    TS_TRY(ts_text_open(out, v->data.item, v->data.count, v->holdout));
    int64_t windows = ts_text_windows(*out, seq, false);
    if (windows >= needed) return TS_OK;
    ts_text_free(*out);
    *out = NULL;
    return ts_fail(
        TS_EINVAL,
        "train: the data has %lld sequences of %lld tokens, one step of %d rank(s) needs "
        "%lld; give more data or a smaller --seq or --batch",
        (long long)windows, (long long)seq, ranks, (long long)needed);
}

/* ---- held-out loss --------------------------------------------------------------------------- */

/* Mean over eval_batches batches per rank, spread evenly over the part. */
static ts_status heldout_loss(double *out, gpt_run *run)
{
    const gpt_values *v = run->v;
    int64_t batch = v->model.batch, windows = ts_text_windows(run->text, v->model.seq, true);
    int64_t total = v->eval_batches * run->size * batch;
    double sum = 0;
    *out = NAN;
    if (windows == 0) return TS_OK;
    int64_t *index = ts_calloc((size_t)batch, sizeof *index);
    if (!index) return ts_fail_memory((size_t)batch * sizeof *index, "train: indices");
    ts_status status = TS_OK;
    for (int64_t b = 0; b < v->eval_batches && status == TS_OK; b++) {
        ts_scope scope = ts_scope_begin();
        ts_tensor *tokens, *targets;
        double loss = NAN;
        for (int64_t i = 0; i < batch; i++) {
            int64_t position = (b * run->size + run->rank) * batch + i;
            index[i] = total <= windows ? position * windows / total : position % windows;
        }
        status = ts_text_batch(&tokens, &targets, run->text, v->model.seq, true, index, batch);
        if (status == TS_OK) status = trainer_loss(&loss, &run->t, tokens, targets);
        sum += loss;
        ts_status left = ts_scope_end(scope);
        if (status == TS_OK) status = left;
    }
    free(index);
    *out = sum / (double)v->eval_batches;
    return status == TS_OK ? trainer_mean(out) : status;
}

/* ---- the loop -------------------------------------------------------------------------------- */

static ts_status one_step(gpt_run *run, int64_t step)
{
    const gpt_values *v = run->v;
    ts_tensor *tokens, *targets;
    trainer_result result;
    int64_t begin = ts_now_ns();
    double lr = ts_lr_warmup_cosine(step, v->warmup, v->steps, v->lr, v->lr * 0.1);
    TS_TRY(ts_text_loader_next(&tokens, &targets, run->loader));
    TS_TRY(trainer_step(&result, &run->t, tokens, targets, lr));
    TS_TRY(trainer_mean(&result.loss));
    double ms = (double)(ts_now_ns() - begin) * 1e-6;
    run->train_ms += ms;
    run->final_loss = result.loss;
    if (!isfinite(result.loss))
        return ts_fail(TS_EUSER, "train: the loss is %g at step %lld; try a smaller --lr",
                       result.loss, (long long)step + 1);
    report_step line = {.step = step + 1,
                        .loss = result.loss,
                        .lr = lr,
                        .grad_norm = result.grad_norm,
                        .step_ms = ms};
    line.tokens_per_s = (double)(v->model.batch * v->model.seq * run->size) / ms * 1000;
    return report_on_step(&run->report, &line);
}

/* Rank 0 writes; the others wait for it in the next step. */
static ts_status save(const gpt_run *run, int64_t step)
{
    const gpt_values *v = run->v;
    bool due = step == v->steps || (v->save_every > 0 && step % v->save_every == 0);
    if (!v->checkpoint || !due || run->rank != 0) return TS_OK;
    checkpoint at = {step, run->final_loss, ts_text_loader_state(run->loader)};
    return checkpoint_save(v->checkpoint, &run->t, &at);
}

static ts_status resume(gpt_run *run)
{
    const gpt_values *v = run->v;
    checkpoint at;
    bool found = false;
    if (v->checkpoint) TS_TRY(checkpoint_prepare(v->checkpoint));
    if (v->resume) TS_TRY(checkpoint_load(&found, &at, &run->t, v->checkpoint));
    if (v->resume && run->rank == 0)
        fprintf(stderr,
                found ? "tessera train: goes on after step %lld of %s\n"
                      : "tessera train: starts at step %lld; there is no checkpoint in %s\n",
                found ? (long long)at.step : 0LL, v->checkpoint);
    if (!found) return TS_OK;
    run->first = at.step;
    run->report.first = at.step;
    run->final_loss = at.loss;
    return ts_text_loader_set_state(run->loader, at.loader);
}

static ts_status train(gpt_run *run)
{
    const gpt_values *v = run->v;
    for (int64_t step = run->first; step < v->steps; step++) {
        ts_scope scope = ts_scope_begin();
        ts_status status = one_step(run, step);
        ts_status left = ts_scope_end(scope);
        TS_TRY(status);
        TS_TRY(left);
        TS_TRY(save(run, step + 1));
        bool last = step + 1 == v->steps;
        if (!last && (v->eval_every == 0 || (step + 1) % v->eval_every != 0)) continue;
        TS_TRY(heldout_loss(&run->heldout, run));
        TS_TRY(report_on_heldout(&run->report, step + 1, run->heldout));
    }
    return TS_OK;
}

/* Text for people: bytes that no terminal should see become dots. */
static char *printable(const int64_t *tokens, int64_t count)
{
    char *text = ts_calloc((size_t)count + 1, 1);
    for (int64_t i = 0; text && i < count; i++) {
        int c = tokens[i] >= 0 && tokens[i] < 256 ? (int)tokens[i] : '.';
        text[i] = (char)(c == '\n' || c == '\t' || (c < 128 && isprint(c)) ? c : '.');
    }
    return text;
}

static ts_status show_sample(gpt_run *run)
{
    const gpt_values *v = run->v;
    if (!v->sample || run->rank != 0) return TS_OK;
    int64_t count = (int64_t)strlen(v->sample);
    const char *prompt = count ? v->sample : "\n";
    if (count == 0) count = 1;
    int64_t *tokens = ts_calloc((size_t)(count + v->sample_length), sizeof *tokens);
    if (!tokens) return ts_fail(TS_ENOMEM, "train: out of memory for the sample");
    for (int64_t i = 0; i < count; i++) tokens[i] = (unsigned char)prompt[i];
    ts_generate_options opt = TS_GENERATE_OPTIONS_INIT;
    opt.max_new_tokens = v->sample_length;
    opt.temperature = v->temperature;
    opt.seed = (uint64_t)v->model.seed;
    ts_status status = ts_gpt_generate(run->t.gpt, tokens, &count, &opt);
    char *text = status == TS_OK ? printable(tokens, count) : NULL;
    if (text) report_sample(&run->report, text);
    free(text);
    free(tokens);
    return status;
}

static ts_status finish(gpt_run *run)
{
    const gpt_values *v = run->v;
    char name[256] = "";
    report_end end = {.params = ts_module_num_parameters(run->t.gpt),
                      .steps = v->steps,
                      .final_loss = run->final_loss,
                      .heldout_loss = run->heldout,
                      .ranks = run->size,
                      .seconds = run->train_ms / 1000,
                      .differs = name};
    double tokens = (double)((v->steps - run->first) * v->model.batch * v->model.seq * run->size);
    if (run->train_ms > 0) end.tokens_per_s = tokens / run->train_ms * 1000;
    TS_TRY(trainer_replicas_equal(&end.replicas_equal, name, sizeof name, &run->t));
    TS_TRY(show_sample(run));
    TS_TRY(report_done(&run->report, &end));
    if (!end.replicas_equal)
        return ts_fail(TS_EMISMATCH, "train: the replicas differ in parameter %s", name);
    return TS_OK;
}

static ts_status train_on_rank(gpt_run *run)
{
    const gpt_values *v = run->v;
    TS_TRY(model_join(&v->model, "train"));
    run->rank = ts_launched() ? ts_rank() : 0;
    run->size = ts_launched() ? ts_world_size() : 1;
    TS_TRY(open_text(&run->text, v, run->size));
    TS_TRY(report_begin(&run->report, run->rank == 0, v->json, v->metrics, v->plot, v->steps));
    TS_TRY(ts_text_loader_new(&run->loader, run->text, v->model.seq, v->model.batch, run->size,
                              run->rank, (uint64_t)v->model.seed));
    trainer_options opt = {.gpt = model_gpt_options(&v->model),
                           .ddp = run->size > 1,
                           .weight_decay = v->weight_decay,
                           .clip = v->clip,
                           .seed = (uint64_t)v->model.seed};
    TS_TRY(trainer_new(&run->t, &opt));
    TS_TRY(resume(run));
    TS_TRY(train(run));
    return finish(run);
}

static int run_rank(const gpt_values *v)
{
    gpt_run run = {.v = v, .heldout = NAN};
    ts_status status = train_on_rank(&run);
    if (status != TS_OK) {
        fflush(stdout);
        char rank[32] = "";
        if (ts_launched()) snprintf(rank, sizeof rank, "rank %d: ", ts_rank());
        fprintf(stderr, "tessera train: %s%s\n", rank, ts_error_last());
    }
    trainer_free(&run.t);
    ts_text_loader_free(run.loader);
    ts_text_free(run.text);
    report_free(&run.report);
    if (ts_is_initialized() && ts_destroy_process_group(NULL) != TS_OK && status == TS_OK) {
        fprintf(stderr, "tessera train: rank %s: leaving the group: %s\n", getenv("RANK"),
                ts_error_last());
        status = TS_EDIST;
    }
    return status == TS_OK ? TS_EXIT_OK : TS_EXIT_FAILURE;
}

static int gpt_run_command(void *values, int argc, char **argv)
{
    gpt_values *v = values;
    ts_text *text;
    (void)argc, (void)argv;
    int status = model_check(&ts_command_train_gpt, &v->model);
    if (status != TS_EXIT_OK) return status;
    if (v->data.count == 0)
        return ts_usage_error(&ts_command_train_gpt, "which text? give --data FILE|DIR...");
    if (v->model.vocab < 256)
        return ts_usage_error(&ts_command_train_gpt,
                              "--vocab %lld is too small for bytes; at least 256",
                              (long long)v->model.vocab);
    if (v->resume && !v->checkpoint)
        return ts_usage_error(&ts_command_train_gpt, "--resume from where? give --checkpoint DIR");
    if (ts_launched() || v->model.ranks < 2) return run_rank(v);
    if (open_text(&text, v, (int)v->model.ranks) != TS_OK) { /* once, not once per rank */
        fprintf(stderr, "tessera train: %s\n", ts_error_last());
        return TS_EXIT_FAILURE;
    }
    ts_text_free(text);
    return ts_launch_self("tessera train", (int)v->model.ranks, NULL);
}

const ts_command ts_command_train_gpt = {
    .name = "train gpt",
    .summary = "Train a GPT on the bytes of text files.",
    .about =
        "Started by a launcher (tessera run, torchrun), it uses the ranks that it finds; alone "
        "with --ranks N it starts them itself.\n"
        "The loss is in nats per token, and a token is a byte.",
    .options = gpt_options,
    .values_size = sizeof(gpt_values),
    .run = gpt_run_command,
};

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TS_TOOLS_TRAIN_H
#define TS_TOOLS_TRAIN_H

#include "options.h"
#include "trainer.h"

/* Options of the GPT model, the same for `train` and `bench train`. */
typedef struct model_values {
    int64_t layers, dim, heads, seq, batch, vocab, threads, ranks, seed;
    const char *parallel, *dtype;
} model_values;

#define MODEL_AT(type, field) (offsetof(type, model) + offsetof(model_values, field))
#define MODEL_OPTIONS(type, layers_, dim_, heads_, seq_, batch_, vocab_, parallel_)                  \
    {"layers", 0,    TS_OPT_INT, MODEL_AT(type, layers), "N", layers_, "Blocks of the model.",       \
     1,        1000, NULL},                                                                          \
        {"dim", 0,     TS_OPT_INT, MODEL_AT(type, dim), "N", dim_, "Width of the model.",            \
         1,     65536, NULL},                                                                        \
        {"heads",                                                                                    \
         0,                                                                                          \
         TS_OPT_INT,                                                                                 \
         MODEL_AT(type, heads),                                                                      \
         "N",                                                                                        \
         heads_,                                                                                     \
         "Attention heads; must divide the width.",                                                  \
         1,                                                                                          \
         1024,                                                                                       \
         NULL},                                                                                      \
        {"seq", 0,       TS_OPT_INT, MODEL_AT(type, seq), "N", seq_, "Tokens of a sequence.",        \
         1,     1 << 20, NULL},                                                                      \
        {"batch",                                                                                    \
         0,                                                                                          \
         TS_OPT_INT,                                                                                 \
         MODEL_AT(type, batch),                                                                      \
         "N",                                                                                        \
         batch_,                                                                                     \
         "Sequences per rank and step.",                                                             \
         1,                                                                                          \
         1 << 20,                                                                                    \
         NULL},                                                                                      \
        {"vocab", 0,   TS_OPT_INT, MODEL_AT(type, vocab), "N", vocab_, "Size of the vocabulary.", 2, \
         1 << 24, NULL},                                                                             \
        {"parallel",                                                                                 \
         0,                                                                                          \
         TS_OPT_TEXT,                                                                                \
         MODEL_AT(type, parallel),                                                                   \
         "NAME",                                                                                     \
         parallel_,                                                                                  \
         "ddp: every rank has the whole model, gradients are averaged; none: one rank.",             \
         0,                                                                                          \
         0,                                                                                          \
         NULL},                                                                                      \
        {"ranks",                                                                                    \
         0,                                                                                          \
         TS_OPT_INT,                                                                                 \
         MODEL_AT(type, ranks),                                                                      \
         "N",                                                                                        \
         NULL,                                                                                       \
         "Start that many ranks on this host. [the ranks of the launcher, else 1]",                  \
         1,                                                                                          \
         4096,                                                                                       \
         NULL},                                                                                      \
        {"threads",                                                                                  \
         0,                                                                                          \
         TS_OPT_INT,                                                                                 \
         MODEL_AT(type, threads),                                                                    \
         "N",                                                                                        \
         NULL,                                                                                       \
         "Threads per rank. [cores / ranks]",                                                        \
         1,                                                                                          \
         1024,                                                                                       \
         NULL},                                                                                      \
        {"dtype", 0, TS_OPT_TEXT, MODEL_AT(type, dtype), "NAME", "f32", "Type of the numbers.",      \
         0,       0, NULL},                                                                          \
        {"seed", 0,    TS_OPT_INT, MODEL_AT(type, seed), "N", "1", "Seed of all random numbers.",    \
         0,      9e15, NULL},                                                                        \
        {"kv-heads", 0, TS_OPT_INT, 0, "N", NULL, NULL, 0, 0, NULL},                                 \
        {"tp", 0, TS_OPT_INT, 0, "N", NULL, NULL, 0, 0, NULL},                                       \
        {"pp", 0, TS_OPT_INT, 0, "N", NULL, NULL, 0, 0, NULL},                                       \
        {"cp", 0, TS_OPT_INT, 0, "N", NULL, NULL, 0, 0, NULL},                                       \
    {                                                                                                \
        "ep", 0, TS_OPT_INT, 0, "N", NULL, NULL, 0, 0, NULL                                          \
    }

/* Checks what a table cannot; TS_EXIT_USAGE after printing. */
int model_check(const ts_command *command, const model_values *v);
ts_gpt_options model_gpt_options(const model_values *v);

/* Number of ranks of the job: --ranks, else the launcher's, else 1. */
int model_ranks(const model_values *v);
/* Joins the job that a launcher started: threads, default group.  Checks --ranks against it. */
ts_status model_join(const model_values *v, const char *title);

#endif

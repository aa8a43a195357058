/* SPDX-License-Identifier: Apache-2.0 */
/* The options of tessera bench coll. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/tessera.h>

#include "base/error.h"
#include "base/settings.h"
#include "bench/coll.h"
#include "commands.h"

#define AT(field) offsetof(coll_values, field)
const ts_opt coll_options[] = {
    {"op", 0, TS_OPT_TEXT, AT(op), "OP,...", NULL,
     "all_reduce, reduce, broadcast, all_gather, gather, scatter, reduce_scatter, all_to_all, "
     "barrier, send_recv, ping_pong, all_reduce_coalesced, or all. [all_reduce; with --tune all]",
     0, 0, NULL},
    {"bytes", 0, TS_OPT_TEXT, AT(bytes), "SIZE,...", NULL,
     "Sizes of the whole data. Where each rank has one piece (the input of all_gather and gather, "
     "the result of scatter and reduce_scatter, the blocks of all_to_all), it is that share of it. "
     "[4,1K,64K,1M,16M,64M]",
     0, 0, NULL},
    {"ranks", 'n', TS_OPT_INT, AT(ranks), "N", NULL, "Ranks to start. [the launcher's, else 2]", 1,
     100000, NULL},
    {"hosts", 0, TS_OPT_INT, AT(hosts), "H", "1",
     "Split the ranks into pretend hosts that talk TCP on loopback.", 1, 1024, NULL},
    {"backend", 0, TS_OPT_TEXT, AT(backend), "NAME", "native",
     "Backend: native, mpi, fake, or any other that is there.", 0, 0, NULL},
    {"mpi", 0, TS_OPT_TEXT, AT(mpi), "WHICH", NULL,
     "Start the ranks as ones of this MPI, for the backend mpi.", 0, 0, "openmpi|mpich"},
    {"memory", 0, TS_OPT_TEXT, AT(memory), "KIND", "shared",
     "Where the data lies: the heap that peers can read, or the plain one.", 0, 0, "shared|heap"},
    {"dtype", 0, TS_OPT_TEXT, AT(dtype), "NAME", "f32", "Type of the elements.", 0, 0,
     "f32|f64|f16|bf16|i32|i64|u8"},
    {"iterations", 0, TS_OPT_INT, AT(iterations), "N", "0",
     "Timed samples per line; 0: as many as fit --seconds, 5 to 2000.", 0, 1e9, NULL},
    {"seconds", 0, TS_OPT_REAL, AT(seconds), "X", "0.5", "Time per line.", 0.001, 3600, NULL},
    {"async", 0, TS_OPT_FLAG, AT(async), NULL, NULL, "Start each call, then wait for its work.", 0,
     0, NULL},
    {"json", 0, TS_OPT_FLAG, AT(json), NULL, NULL, "One JSON object per line.", 0, 0, NULL},
    {"svg", 0, TS_OPT_TEXT, AT(svg), "FILE.svg", NULL,
     "Draw time against bytes, with the limit as a line.", 0, 0, NULL},
    {"compare", 0, TS_OPT_TEXT, AT(compare), "FILE.jsonl", NULL,
     "Add to the drawing what other runs printed with --json, one curve per backend.", 0, 0, NULL},
    {"no-limit", 0, TS_OPT_FLAG, AT(no_limit), NULL, NULL, "Leave out the streaming limit.", 0, 0,
     NULL},
    {"tune", 0, TS_OPT_FLAG, AT(tune), NULL, NULL,
     "Measure every algorithm of the native backend on up to 16 ranks and pretend hosts (minutes), "
     "and print the table by which it chooses.",
     0, 0, NULL},
    {"rounds", 0, TS_OPT_INT, AT(rounds), "N", "3", "Jobs for each algorithm; the medians count.",
     1, 32, NULL},
    {"class", 0, TS_OPT_TEXT, AT(hosts_class), "HOSTS", NULL,
     "Tune only for groups on so many hosts: one, two, few (up to 8) or many.", 0, 0,
     "one|two|few|many"},
    {"output", 0, TS_OPT_TEXT, AT(output), "FILE", NULL,
     "Put the table into FILE. Rows there for what is not measured stay, and an algorithm there "
     "stays unless another is 7 % faster.",
     0, 0, NULL},
    {NULL, 0, TS_OPT_FLAG, 0, NULL, NULL, NULL, 0, 0, NULL}};

static const struct {
    const char *name;
    ts_dtype dtype;
} dtypes[] = {{"f32", TS_FLOAT32}, {"f64", TS_FLOAT64}, {"f16", TS_FLOAT16}, {"bf16", TS_BFLOAT16},
              {"i32", TS_INT32},   {"i64", TS_INT64},   {"u8", TS_UINT8}};

static bool is_word(const char *word, const char *text, size_t length)
{
    return strlen(word) == length && strncmp(word, text, length) == 0;
}

static void add_op(coll_plan *plan, const coll_op *op)
{
    for (int i = 0; i < plan->ops; i++)
        if (plan->op[i] == op) return;
    plan->op[plan->ops++] = op;
}

static int plan_ops(coll_plan *plan)
{
    const char *text = plan->v->op ? plan->v->op : plan->v->tune ? "all" : "all_reduce";
    while (*text) {
        size_t length = strcspn(text, ",");
        bool all = is_word("all", text, length), found = all;
        for (int i = 0; i < coll_num_ops; i++)
            if (all || is_word(coll_ops[i].name, text, length)) {
                add_op(plan, &coll_ops[i]);
                found = true;
            }
        if (!found)
            return ts_usage_error(&ts_command_bench_coll, "--op: there is no '%.*s'", (int)length,
                                  text);
        text += length + (text[length] == ',');
    }
    return TS_EXIT_OK;
}

const char *coll_sizes(const coll_plan *plan)
{
    if (plan->v->bytes) return plan->v->bytes;
    return plan->v->tune ? "64,256,1K,4K,16K,64K,256K,1M,4M,16M" : "4,1K,64K,1M,16M,64M";
}

static int plan_sizes(coll_plan *plan)
{
    const char *text = coll_sizes(plan);
    while (*text) {
        char one[32];
        size_t length = strcspn(text, ",");
        snprintf(one, sizeof one, "%.*s", (int)length, text);
        if (plan->sizes == COLL_MAX_SIZES)
            return ts_usage_error(&ts_command_bench_coll, "--bytes: more than %d sizes",
                                  COLL_MAX_SIZES);
        if (ts_parse_size(&plan->size[plan->sizes++], one) != TS_OK)
            return ts_usage_error(&ts_command_bench_coll, "--bytes: %s", ts_error_last());
        text += length + (text[length] == ',');
    }
    return TS_EXIT_OK;
}

int coll_plan_make(coll_plan *plan, const coll_values *v)
{
    *plan = (coll_plan){.v = v};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(dtypes[i].name, v->dtype) == 0) plan->dtype = dtypes[i].dtype;
    plan->memory = strcmp(v->memory, "shared") == 0 ? TS_MEMORY_SHARED : TS_MEMORY_HEAP;
    plan->fake = strcmp(v->backend, "fake") == 0;
    if (!ts_is_backend_available(v->backend))
        return ts_usage_error(&ts_command_bench_coll, "--backend: '%s' is not there", v->backend);
    if (!plan->fake && v->ranks > COLL_MAX_RANKS)
        return ts_usage_error(&ts_command_bench_coll, "--ranks: more than %d need --backend fake",
                              COLL_MAX_RANKS);
    if (v->compare && !v->svg)
        return ts_usage_error(&ts_command_bench_coll, "--compare draws; give --svg FILE.svg too");
    if (v->output && !v->tune)
        return ts_usage_error(&ts_command_bench_coll, "--output takes the table of --tune");
    int status = plan_ops(plan);
    return status == TS_EXIT_OK ? plan_sizes(plan) : status;
}

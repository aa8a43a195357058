/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "launch/launch.h"
#include "train.h"

static bool later_parallel(const char *name)
{
    return strcmp(name, "fsdp") == 0 || strcmp(name, "tp") == 0 || strcmp(name, "pp") == 0;
}

int model_check(const ts_command *command, const model_values *v)
{
    if (later_parallel(v->parallel))
        return ts_usage_error(command, "--parallel %s is not offered yet by this version; use ddp",
                              v->parallel);
    if (strcmp(v->parallel, "ddp") != 0 && strcmp(v->parallel, "none") != 0)
        return ts_usage_error(command, "--parallel is ddp or none, not '%s'", v->parallel);
    if (strcmp(v->dtype, "bf16") == 0)
        return ts_usage_error(command, "--dtype bf16 is not offered yet by this version; use f32");
    if (strcmp(v->dtype, "f32") != 0)
        return ts_usage_error(command, "--dtype is f32, not '%s'", v->dtype);
    if (v->dim % v->heads != 0)
        return ts_usage_error(command, "--heads %lld does not divide --dim %lld",
                              (long long)v->heads, (long long)v->dim);
    if (strcmp(v->parallel, "none") == 0 && model_ranks(v) > 1)
        return ts_usage_error(command, "--parallel none is for one rank, but there are %d; use ddp",
                              model_ranks(v));
    return TS_EXIT_OK;
}

ts_gpt_options model_gpt_options(const model_values *v)
{
    ts_gpt_options opt = TS_GPT_OPTIONS_INIT;
    opt.vocab_size = v->vocab;
    opt.block_size = v->seq;
    opt.n_layer = v->layers;
    opt.n_head = v->heads;
    opt.n_embd = v->dim;
    return opt;
}

int model_ranks(const model_values *v)
{
    if (v->ranks > 0) return (int)v->ranks;
    return ts_launched() ? ts_world_size() : 1;
}

ts_status model_join(const model_values *v, const char *title)
{
    if (v->threads > 0) TS_TRY(ts_set_num_threads((int)v->threads));
    if (!ts_launched()) return TS_OK;
    if (v->ranks > 0 && v->ranks != ts_world_size())
        return ts_fail(TS_EINVAL,
                       "%s: --ranks %lld, but the launcher started %d; leave --ranks out", title,
                       (long long)v->ranks, ts_world_size());
    return ts_init_process_group(NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

ts_status trainer_new(trainer *t, const trainer_options *opt)
{
    memset(t, 0, sizeof *t);
    t->clip = opt->clip;
    ts_manual_seed(opt->seed);
    t->gpt = t->model = ts_gpt_new(&opt->gpt);
    TS_TRY(ts_module_status(t->gpt));
    if (opt->ddp) {
        t->model = NULL; /* ts_ddp_new takes the module over, also on error */
        TS_TRY(ts_ddp_new(&t->model, t->gpt, NULL));
    }
    t->parameters = ts_module_parameters(t->model);
    ts_tensor_list *optimized = ts_module_parameters(t->model);
    if (!t->parameters || !optimized) {
        ts_tensor_list_free(optimized);
        return ts_fail(TS_ENOMEM, "train: out of memory for the list of parameters");
    }
    ts_adamw_options adamw = TS_ADAMW_OPTIONS_INIT;
    adamw.weight_decay = opt->weight_decay;
    adamw.beta2 = 0.99;
    return ts_adamw_new(&t->optim, optimized, &adamw);
}

void trainer_free(trainer *t)
{
    ts_optim_free(t->optim);
    ts_tensor_list_free(t->parameters);
    ts_module_free(t->model);
    memset(t, 0, sizeof *t);
}

static ts_status step_in_scope(trainer_result *out, trainer *t, ts_tensor *tokens,
                               ts_tensor *targets)
{
    ts_tensor *loss = ts_module_call(t->model, (ts_tensor *[]){tokens, targets}, 2);
    ts_optim_zero_grad(t->optim);
    TS_TRY(ts_backward(loss));
    out->grad_norm = NAN;
    if (t->clip > 0) TS_TRY(ts_clip_grad_norm(&out->grad_norm, t->parameters, t->clip, 2.0));
    TS_TRY(ts_optim_step(t->optim));
    return ts_item(loss, &out->loss);
}

ts_status trainer_step(trainer_result *out, trainer *t, ts_tensor *tokens, ts_tensor *targets,
                       double lr)
{
    ts_scope scope = ts_scope_begin();
    ts_optim_set_lr(t->optim, lr);
    ts_status status = step_in_scope(out, t, tokens, targets);
    ts_status left = ts_scope_end(scope);
    return status != TS_OK ? status : left;
}

ts_status trainer_loss(double *out, trainer *t, ts_tensor *tokens, ts_tensor *targets)
{
    ts_scope scope = ts_scope_begin();
    bool former = ts_no_grad_begin();
    bool training = ts_module_is_training(t->gpt);
    ts_module_train(t->gpt, false);
    ts_status status = ts_item(ts_module_call(t->gpt, (ts_tensor *[]){tokens, targets}, 2), out);
    ts_module_train(t->gpt, training);
    ts_no_grad_end(former);
    ts_status left = ts_scope_end(scope);
    return status != TS_OK ? status : left;
}

ts_status trainer_mean(double *value)
{
    if (!ts_is_initialized()) return TS_OK;
    ts_scope scope = ts_scope_begin();
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_FLOAT64;
    opt.memory = TS_MEMORY_SHARED;
    ts_tensor *t = ts_full(TS_SHAPE(1), *value, &opt);
    ts_status status = ts_all_reduce(NULL, t, TS_AVG, NULL);
    if (status == TS_OK) status = ts_item(t, value);
    ts_status left = ts_scope_end(scope);
    return status != TS_OK ? status : left;
}

/* ---- are the replicas equal? ----------------------------------------------------------------- */

/* FNV-1a over 8-byte words with a final mix; enough to see any real difference. */
static uint64_t hash_bytes(const unsigned char *data, size_t size)
{
    uint64_t hash = 0xcbf29ce484222325u ^ size;
    for (size_t i = 0; i < size; i += 8) {
        uint64_t word = 0;
        memcpy(&word, data + i, size - i < 8 ? size - i : 8);
        hash = (hash ^ word) * 0x100000001b3u;
        hash ^= hash >> 29;
    }
    return hash;
}

static ts_status hash_parameter(int64_t *out, ts_tensor *t)
{
    size_t bytes = ts_nbytes(t);
    unsigned char *copy = malloc(bytes + 1);
    if (!copy) return ts_fail_memory(bytes, "train: copy of a parameter");
    ts_status status = ts_copy_out(t, copy, bytes);
    uint64_t hash = status == TS_OK ? hash_bytes(copy, bytes) : 0;
    memcpy(out, &hash, sizeof hash);
    free(copy);
    return status;
}

static void compare(bool *equal, char *name, size_t size, const trainer *t, const int64_t *all,
                    int ranks)
{
    int64_t n = ts_tensor_list_count(t->parameters);
    *equal = true;
    for (int64_t i = 0; i < n; i++)
        for (int r = 1; r < ranks; r++)
            if (all[r * n + i] != all[i]) {
                snprintf(name, size, "%s", ts_tensor_list_name(t->parameters, i));
                *equal = false;
                return;
            }
}

static ts_status gather_and_compare(bool *equal, char *name, size_t size, const trainer *t,
                                    int64_t *own, int64_t *all)
{
    int64_t n = ts_tensor_list_count(t->parameters);
    int ranks = ts_world_size();
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_INT64;
    for (int64_t i = 0; i < n; i++)
        TS_TRY(hash_parameter(&own[i], ts_tensor_list_get(t->parameters, i)));
    ts_tensor *in = ts_from_data(own, TS_SHAPE(n), &opt),
              *out = ts_empty(TS_SHAPE(n * ranks), &opt);
    TS_TRY(ts_all_gather_into_tensor(NULL, out, in, NULL));
    TS_TRY(ts_copy_out(out, all, sizeof *all * (size_t)(n * ranks)));
    compare(equal, name, size, t, all, ranks);
    return TS_OK;
}

ts_status trainer_replicas_equal(bool *equal, char *name, size_t size, const trainer *t)
{
    *equal = true;
    if (!ts_is_initialized()) return TS_OK;
    size_t n = (size_t)ts_tensor_list_count(t->parameters), ranks = (size_t)ts_world_size();
    int64_t *own = ts_calloc(n + 1, sizeof *own), *all = ts_calloc(n * ranks + 1, sizeof *all);
    ts_scope scope = ts_scope_begin();
    ts_status status = own && all ? gather_and_compare(equal, name, size, t, own, all)
                                  : ts_fail_memory(n * ranks * 8, "train: hashes");
    ts_scope_end(scope);
    free(own);
    free(all);
    return status;
}

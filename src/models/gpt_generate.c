/* SPDX-License-Identifier: Apache-2.0 */
/* Text from a GPT, a token at a time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/autograd.h>
#include <tessera/random.h>

#include "base/memory.h"
#include "base/options.h"
#include "models/gpt.h"
#include "tensor/tensor.h"

typedef struct generation {
    ts_module *module;
    ts_gpt *gpt;
    ts_generate_options opt;
    double *chance; /* uniform in [0, 1), one per new token */
    double *logits; /* of the next token */
    double *ranked; /* scratch for top_k */
} generation;

/* ---- choosing -------------------------------------------------------------------------------- */

static int64_t greedy(const double *logits, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

static int descending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* The smallest logit that top_k lets through. */
static double threshold(const generation *g, int64_t n)
{
    if (g->opt.top_k <= 0 || g->opt.top_k >= n) return -INFINITY;
    memcpy(g->ranked, g->logits, (size_t)n * sizeof *g->ranked);
    qsort(g->ranked, (size_t)n, sizeof *g->ranked, descending);
    return g->ranked[g->opt.top_k - 1];
}

static int64_t sample(const generation *g, int64_t n, double chance)
{
    double least = threshold(g, n), most = g->logits[greedy(g->logits, n)], total = 0;
    for (int64_t i = 0; i < n; i++) {
        double logit = g->logits[i];
        g->logits[i] = logit >= least ? exp((logit - most) / g->opt.temperature) : 0.0;
        total += g->logits[i];
    }
    int64_t last = 0;
    double left = chance * total;
    for (int64_t i = 0; i < n; i++) {
        if (g->logits[i] <= 0) continue;
        last = i;
        left -= g->logits[i];
        if (left < 0) break;
    }
    return last;
}

/* ---- running --------------------------------------------------------------------------------- */

/* Feeds the tokens that follow the cache; logits of the last one into g->logits. */
static ts_status feed(generation *g, const int64_t *tokens, int64_t n)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_INT64;
    ts_tensor *x = ts_from_data(tokens, TS_SHAPE(1, n), &opt);
    ts_tensor *hidden = ts_forward(g->gpt->transformer, x);
    ts_tensor *last = ts_forward(g->gpt->lm_head, ts_narrow(hidden, 1, n - 1, 1));
    size_t bytes = (size_t)g->gpt->opt.vocab_size * sizeof *g->logits;
    return ts_copy_out(ts_to_dtype(last, TS_FLOAT64), g->logits, bytes);
}

/* Extends tokens by one.  fresh: how many tokens at the end the cache has not seen. */
static ts_status extend(generation *g, int64_t *tokens, int64_t count, int64_t fresh, double chance)
{
    int64_t block = g->gpt->opt.block_size;
    if (ts_gpt_cache_length(g->gpt) + fresh > block) {
        /* Positions are absolute: a context that slides is read anew, half of it to have room. */
        bool prompt = ts_gpt_cache_length(g->gpt) == 0;
        ts_gpt_cache_clear(g->gpt);
        fresh = prompt ? block : block / 2 > 0 ? block / 2 : 1;
    }
    ts_scope scope = ts_scope_begin();
    ts_status status = feed(g, tokens + count - fresh, fresh);
    ts_scope_end(scope);
    TS_TRY(status);
    int64_t vocab = g->gpt->opt.vocab_size;
    tokens[count] = g->opt.temperature == 0 ? greedy(g->logits, vocab) : sample(g, vocab, chance);
    return TS_OK;
}

static ts_status draw_chances(generation *g)
{
    ts_generator_state former = ts_generator_get_state();
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_FLOAT64;
    ts_manual_seed(g->opt.seed);
    ts_tensor *t = ts_rand(TS_SHAPE(g->opt.max_new_tokens), &opt);
    ts_generator_set_state(former);
    return ts_copy_out(t, g->chance, (size_t)g->opt.max_new_tokens * sizeof *g->chance);
}

static ts_status run(generation *g, int64_t *tokens, int64_t *count)
{
    TS_TRY(draw_chances(g));
    TS_TRY(ts_gpt_cache_begin(g->gpt, 1));
    ts_status status = TS_OK;
    int64_t fresh = *count;
    for (int64_t i = 0; i < g->opt.max_new_tokens && status == TS_OK; i++) {
        status = extend(g, tokens, *count, fresh, g->chance[i]);
        if (status == TS_OK) ++*count;
        fresh = 1;
    }
    ts_gpt_cache_end(g->gpt);
    return status;
}

/* ---- modes ----------------------------------------------------------------------------------- */

static ts_status collect(ts_module *m, const char *path, void *user)
{
    (void)path;
    return ts_vec_push(user, m) ? TS_OK : ts_fail_memory(sizeof m, "a list of modules");
}

/* Setting a module's mode sets its children's; modules lists children before parents, so the modes
 * are put back from its end. */
static ts_status run_with_modes(generation *g, const ts_vec *modules, int64_t *tokens,
                                int64_t *count)
{
    bool *training = ts_calloc((size_t)modules->count, sizeof *training);
    if (!training) return ts_fail_memory((size_t)modules->count, "the modes of modules");
    for (int64_t i = 0; i < modules->count; i++)
        training[i] = ts_module_is_training(modules->item[i]);
    ts_module_train(g->module, false);
    bool former = ts_no_grad_begin();
    ts_status status = run(g, tokens, count);
    ts_no_grad_end(former);
    for (int64_t i = modules->count - 1; i >= 0; i--)
        if (ts_module_is_training(modules->item[i]) != training[i])
            ts_module_train(modules->item[i], training[i]);
    free(training);
    return status;
}

static ts_status run_in_eval(generation *g, int64_t *tokens, int64_t *count)
{
    ts_vec modules = {0};
    ts_status status = ts_module_apply(g->module, collect, &modules);
    if (status == TS_OK) status = run_with_modes(g, &modules, tokens, count);
    ts_vec_fini(&modules);
    return status;
}

/* ---- the call -------------------------------------------------------------------------------- */

static ts_status check(const generation *g, const int64_t *tokens, const int64_t *count)
{
    const ts_generate_options *o = &g->opt;
    if (!tokens || !count || *count < 1)
        return ts_fail(TS_EINVAL, "gpt_generate: at least one token to start from is needed");
    if (o->max_new_tokens < 0 || !(o->temperature >= 0) || isinf(o->temperature) || o->top_k < 0)
        return ts_fail(
            TS_EINVAL,
            "gpt_generate: max_new_tokens %lld, temperature %g, top_k %lld: none may be negative",
            (long long)o->max_new_tokens, o->temperature, (long long)o->top_k);
    for (int64_t i = 0; i < *count; i++)
        if (tokens[i] < 0 || tokens[i] >= g->gpt->opt.vocab_size)
            return ts_fail(TS_EINVAL, "gpt_generate: token %lld at %lld is not in 0 .. %lld",
                           (long long)tokens[i], (long long)i,
                           (long long)g->gpt->opt.vocab_size - 1);
    return TS_OK;
}

ts_status ts_gpt_generate(ts_module *gpt, int64_t *tokens, int64_t *count,
                          const ts_generate_options *opt)
{
    generation g = {.module = gpt, .opt = TS_GENERATE_OPTIONS_INIT};
    TS_TRY(ts_module_status(gpt));
    if (!(g.gpt = ts_gpt_state(gpt))) return TS_EINVAL;
    TS_TRY(ts_options_read(&g.opt, sizeof g.opt, opt, "gpt_generate"));
    TS_TRY(check(&g, tokens, count));
    size_t vocab = (size_t)g.gpt->opt.vocab_size;
    double *block = ts_calloc(2 * vocab + (size_t)g.opt.max_new_tokens, sizeof *block);
    if (!block)
        return ts_fail_memory((2 * vocab + (size_t)g.opt.max_new_tokens) * sizeof *block,
                              "gpt_generate");
    g.logits = block;
    g.ranked = block + vocab;
    g.chance = block + 2 * vocab;
    ts_scope scope = ts_scope_begin();
    ts_status status = run_in_eval(&g, tokens, count);
    ts_scope_end(scope);
    free(block);
    return status;
}

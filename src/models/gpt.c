/* SPDX-License-Identifier: Apache-2.0 */
/* The GPT-2 model: embeddings, blocks, tied output layer. */
#include "models/gpt.h"

#include <tessera/scope.h>

#include "base/options.h"
#include "models/gpt_block.h"
#include "nn/module.h"
#include "tensor/tensor.h"

/* ---- the transformer: tokens (B, T) to hidden states (B, T, C) ------------------------------- */

typedef struct transformer {
    ts_module *wte, *wpe, *drop, *h, *ln_f;
    int64_t block_size, n_layer;
} transformer;

static int64_t past_length(const transformer *s)
{
    return ts_gpt_block_cache(ts_module_list_get(s->h, 0))->length;
}

static ts_tensor *transformer_forward(ts_module *self, ts_tensor *tokens)
{
    transformer *s = ts_module_state(self);
    int64_t past = past_length(s), seq = ts_size(tokens, 1);
    if (!tokens) return ts_fail_tensor(TS_EINVAL, "gpt: tokens are missing (NULL)");
    if (ts_failed(tokens)) return tokens;
    if (ts_ndim(tokens) != 2)
        return ts_fail_tensor(TS_ESHAPE,
                              "gpt: tokens have %d dimensions; (batch, sequence) is needed",
                              ts_ndim(tokens));
    if (past + seq > s->block_size)
        return ts_fail_tensor(
            TS_ESHAPE,
            "gpt: a context of %lld tokens is longer than block_size %lld; cut it or "
            "build the model with a larger block_size",
            (long long)(past + seq), (long long)s->block_size);
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_INT64;
    ts_tensor *positions = ts_arange((double)past, (double)(past + seq), 1.0, &opt);
    ts_tensor *x = ts_add(ts_forward(s->wte, tokens), ts_forward(s->wpe, positions));
    if (s->drop) x = ts_forward(s->drop, x);
    for (int64_t i = 0; i < s->n_layer; i++) x = ts_forward(ts_module_list_get(s->h, i), x);
    return ts_forward(s->ln_f, x);
}

static const ts_module_class transformer_class = {
    .name = "GPTTransformer", .state_size = sizeof(transformer), .forward = transformer_forward};

static ts_module *gpt_embedding_new(const ts_gpt_options *opt, int64_t count)
{
    ts_embedding_options o = TS_EMBEDDING_OPTIONS_INIT;
    o.dtype = opt->dtype;
    ts_module *m = ts_embedding_new(count, opt->n_embd, &o);
    ts_scope scope = ts_scope_begin();
    ts_init_normal_(ts_module_parameter(m, "weight"), 0.0, 0.02);
    ts_scope_end(scope);
    return m;
}

static ts_module *transformer_new(const ts_gpt_options *opt)
{
    ts_module *self = ts_module_new(&transformer_class);
    transformer *s = ts_module_state(self);
    ts_layer_norm_options norm = TS_LAYER_NORM_OPTIONS_INIT;
    norm.bias = opt->bias;
    norm.dtype = opt->dtype;
    s->block_size = opt->block_size;
    s->n_layer = opt->n_layer;
    s->wte = ts_module_add(self, "wte", gpt_embedding_new(opt, opt->vocab_size));
    s->wpe = ts_module_add(self, "wpe", gpt_embedding_new(opt, opt->block_size));
    if (opt->dropout > 0) s->drop = ts_module_add(self, "drop", ts_dropout_new(opt->dropout));
    s->h = ts_module_add(self, "h", ts_module_list_new(NULL, 0));
    for (int64_t i = 0; i < opt->n_layer; i++) {
        char name[32];
        snprintf(name, sizeof name, "%lld", (long long)i);
        ts_module_add(s->h, name, ts_gpt_block_new(opt));
    }
    s->ln_f = ts_module_add(self, "ln_f", ts_layer_norm_new(TS_SHAPE(opt->n_embd), &norm));
    return self;
}

/* ---- the output layer, which shares the token embedding's weight ----------------------------- */

typedef struct tied_linear {
    ts_tensor *weight;
} tied_linear;

static ts_tensor *tied_linear_forward(ts_module *self, ts_tensor *x)
{
    tied_linear *s = ts_module_state(self);
    return ts_linear(x, s->weight, NULL);
}

static const ts_module_class tied_linear_class = {
    .name = "Linear", .state_size = sizeof(tied_linear), .forward = tied_linear_forward};

static ts_module *tied_linear_new(ts_tensor *weight)
{
    ts_module *self = ts_module_new(&tied_linear_class);
    tied_linear *s = ts_module_state(self);
    s->weight = ts_module_add_parameter(self, "weight", weight);
    return self;
}

/* ---- the model ------------------------------------------------------------------------------- */

static ts_tensor *loss_of(ts_tensor *logits, ts_tensor *targets)
{
    int64_t count = ts_size(logits, 0) * ts_size(logits, 1), vocab = ts_size(logits, 2);
    if (ts_failed(logits)) return logits;
    return ts_cross_entropy(ts_reshape(logits, TS_SHAPE(count, vocab)),
                            ts_reshape(targets, TS_SHAPE(count)), NULL);
}

static ts_tensor *gpt_forward(ts_module *self, ts_tensor *const *args, int n)
{
    ts_gpt *s = ts_module_state(self);
    if (n != 1 && n != 2)
        return ts_fail_tensor(TS_EINVAL, "gpt: takes tokens, or tokens and targets, not %d tensors",
                              n);
    ts_tensor *logits = ts_forward(s->lm_head, ts_forward(s->transformer, args[0]));
    return n == 1 ? logits : loss_of(logits, args[1]);
}

static const ts_module_class gpt_class = {
    .name = "GPT", .state_size = sizeof(ts_gpt), .forward_args = gpt_forward};

static ts_status check(const ts_gpt_options *o)
{
    if (o->vocab_size < 1 || o->block_size < 1 || o->n_layer < 1 || o->n_head < 1 || o->n_embd < 1)
        return ts_fail(
            TS_EINVAL,
            "gpt_new: vocab_size %lld, block_size %lld, n_layer %lld, n_head %lld, n_embd %lld:"
            " each must be at least 1",
            (long long)o->vocab_size, (long long)o->block_size, (long long)o->n_layer,
            (long long)o->n_head, (long long)o->n_embd);
    if (o->n_embd % o->n_head != 0)
        return ts_fail(TS_EINVAL, "gpt_new: n_embd %lld is not a multiple of n_head %lld",
                       (long long)o->n_embd, (long long)o->n_head);
    return TS_OK;
}

ts_module *ts_gpt_new(const ts_gpt_options *opt)
{
    ts_gpt_options o = TS_GPT_OPTIONS_INIT;
    ts_status status = ts_options_read(&o, sizeof o, opt, "gpt_new");
    if (status == TS_OK) status = check(&o);
    if (status != TS_OK) return ts_module_fail_last(status);
    ts_module *self = ts_module_new(&gpt_class);
    ts_gpt *s = ts_module_state(self);
    s->opt = o;
    s->transformer = ts_module_add(self, "transformer", transformer_new(&o));
    ts_tensor *weight = ts_module_parameter(s->transformer, "wte.weight");
    s->lm_head = ts_module_add(self, "lm_head", tied_linear_new(weight));
    return self;
}

double ts_gpt_step_flops(const ts_gpt_options *opt, int64_t batch, int64_t seq)
{
    ts_gpt_options o = TS_GPT_OPTIONS_INIT;
    if (ts_options_read(&o, sizeof o, opt, "gpt_step_flops") != TS_OK) return 0;
    double dim = (double)o.n_embd, layers = (double)o.n_layer, tokens = (double)batch * (double)seq;
    double weights = 12 * dim * dim + 2 * dim, biases = o.bias ? 11 * dim : 0;
    double parameters = (double)(o.vocab_size + o.block_size) * dim + layers * (weights + biases) +
                        dim * (o.bias ? 2 : 1);
    return 6 * parameters * tokens + 12 * layers * dim * (double)seq * tokens;
}

/* ---- the cache ------------------------------------------------------------------------------- */

ts_gpt *ts_gpt_state(ts_module *m)
{
    if (ts_module_status(m) != TS_OK) return NULL;
    if (ts_module_class_of(m) == &gpt_class) return ts_module_state(m);
    ts_fail(TS_EINVAL, "gpt: a %s is not a GPT; give the model that ts_gpt_new made",
            ts_module_class_of(m)->name);
    return NULL;
}

static ts_gpt_cache *cache_at(const ts_gpt *gpt, int64_t i)
{
    transformer *s = ts_module_state(gpt->transformer);
    return ts_gpt_block_cache(ts_module_list_get(s->h, i));
}

ts_status ts_gpt_cache_begin(ts_gpt *gpt, int64_t batch)
{
    const ts_gpt_options *o = &gpt->opt;
    ts_spec spec = {TS_SHAPE(batch, o->n_head, o->block_size, o->n_embd / o->n_head), o->dtype,
                    TS_CPU};
    for (int64_t i = 0; i < o->n_layer; i++) {
        ts_gpt_cache *cache = cache_at(gpt, i);
        cache->k = ts_tensor_new_owned(&spec, TS_MEMORY_HEAP, TS_CATEGORY_OTHER);
        cache->v = ts_tensor_new_owned(&spec, TS_MEMORY_HEAP, TS_CATEGORY_OTHER);
        ts_status status = ts_tensor_check(ts_failed(cache->k) ? cache->k : cache->v, "cache");
        if (status != TS_OK) {
            ts_gpt_cache_end(gpt);
            return status;
        }
    }
    return TS_OK;
}

void ts_gpt_cache_clear(ts_gpt *gpt)
{
    for (int64_t i = 0; i < gpt->opt.n_layer; i++) cache_at(gpt, i)->length = 0;
}

int64_t ts_gpt_cache_length(const ts_gpt *gpt) { return cache_at(gpt, 0)->length; }

void ts_gpt_cache_end(ts_gpt *gpt)
{
    for (int64_t i = 0; i < gpt->opt.n_layer; i++) {
        ts_gpt_cache *cache = cache_at(gpt, i);
        ts_release(cache->k);
        ts_release(cache->v);
        *cache = (ts_gpt_cache){0};
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A block of GPT-2: attention with a cache for generation, and the feed-forward part. */
#include "models/gpt_block.h"

#include <math.h>
#include <tessera/scope.h>

ts_module *ts_gpt_linear_new(const ts_gpt_options *opt, int64_t in, int64_t out, double std)
{
    ts_linear_options o = TS_LINEAR_OPTIONS_INIT;
    o.bias = opt->bias;
    o.dtype = opt->dtype;
    ts_module *m = ts_linear_new(in, out, &o);
    ts_tensor *bias = ts_module_parameter(m, "bias");
    ts_scope scope = ts_scope_begin();
    ts_init_normal_(ts_module_parameter(m, "weight"), 0.0, std);
    if (bias) ts_init_constant_(bias, 0.0);
    ts_scope_end(scope);
    return m;
}

static double residual_std(const ts_gpt_options *opt)
{
    return 0.02 / sqrt(2.0 * (double)opt->n_layer);
}

/* ---- attention ------------------------------------------------------------------------------- */

typedef struct attention {
    ts_module *c_attn, *c_proj, *drop;
    int64_t n_head;
    ts_gpt_cache cache;
} attention;

/* Part i of the joint projection (B, T, 3 C) as heads (B, H, T, C / H), without a copy. */
static ts_tensor *heads(ts_tensor *part, int64_t n_head)
{
    int64_t batch = ts_size(part, 0), seq = ts_size(part, 1), dim = ts_size(part, 2);
    return ts_transpose(ts_view(part, TS_SHAPE(batch, seq, n_head, dim / n_head)), 1, 2);
}

/* Appends x to the cached tensor and gives everything that it now holds. */
static ts_tensor *append(ts_tensor *cached, int64_t length, ts_tensor *x)
{
    int64_t more = ts_size(x, 2);
    ts_tensor *written = ts_copy_(ts_narrow(cached, 2, length, more), x);
    return ts_failed(written) ? written : ts_narrow(cached, 2, 0, length + more);
}

static ts_tensor *attention_forward(ts_module *self, ts_tensor *x)
{
    attention *s = ts_module_state(self);
    ts_tensor *part[3], *joint = ts_forward(s->c_attn, x);
    int64_t dim = ts_size(x, 2);
    ts_split(part, joint, (const int64_t[]){dim, dim, dim}, 3, 2);
    ts_tensor *q = heads(part[0], s->n_head), *k = heads(part[1], s->n_head);
    ts_tensor *v = heads(part[2], s->n_head);
    if (s->cache.k) {
        int64_t seq = ts_size(k, 2);
        k = append(s->cache.k, s->cache.length, k);
        v = append(s->cache.v, s->cache.length, v);
        s->cache.length += seq;
    }
    ts_tensor *y = ts_attention(q, k, v, true, 0.0);
    y = ts_reshape(ts_transpose(y, 1, 2), ts_tensor_shape(x));
    y = ts_forward(s->c_proj, y);
    return s->drop ? ts_forward(s->drop, y) : y;
}

static const ts_module_class attention_class = {
    .name = "CausalSelfAttention", .state_size = sizeof(attention), .forward = attention_forward};

static ts_module *attention_new(const ts_gpt_options *opt)
{
    ts_module *self = ts_module_new(&attention_class);
    attention *s = ts_module_state(self);
    int64_t dim = opt->n_embd;
    s->n_head = opt->n_head;
    s->c_attn = ts_module_add(self, "c_attn", ts_gpt_linear_new(opt, dim, 3 * dim, 0.02));
    s->c_proj = ts_module_add(self, "c_proj", ts_gpt_linear_new(opt, dim, dim, residual_std(opt)));
    if (opt->dropout > 0)
        s->drop = ts_module_add(self, "resid_dropout", ts_dropout_new(opt->dropout));
    return self;
}

/* ---- the feed-forward part ------------------------------------------------------------------- */

typedef struct feed_forward {
    ts_module *c_fc, *c_proj, *drop;
} feed_forward;

static ts_tensor *feed_forward_forward(ts_module *self, ts_tensor *x)
{
    feed_forward *s = ts_module_state(self);
    ts_tensor *y = ts_forward(s->c_proj, ts_gelu(ts_forward(s->c_fc, x), TS_GELU_TANH));
    return s->drop ? ts_forward(s->drop, y) : y;
}

static const ts_module_class feed_forward_class = {
    .name = "MLP", .state_size = sizeof(feed_forward), .forward = feed_forward_forward};

static ts_module *feed_forward_new(const ts_gpt_options *opt)
{
    ts_module *self = ts_module_new(&feed_forward_class);
    feed_forward *s = ts_module_state(self);
    int64_t dim = opt->n_embd;
    s->c_fc = ts_module_add(self, "c_fc", ts_gpt_linear_new(opt, dim, 4 * dim, 0.02));
    s->c_proj =
        ts_module_add(self, "c_proj", ts_gpt_linear_new(opt, 4 * dim, dim, residual_std(opt)));
    if (opt->dropout > 0) s->drop = ts_module_add(self, "dropout", ts_dropout_new(opt->dropout));
    return self;
}

/* ---- the block ------------------------------------------------------------------------------- */

typedef struct block {
    ts_module *ln_1, *attn, *ln_2, *mlp;
} block;

static ts_tensor *block_forward(ts_module *self, ts_tensor *x)
{
    block *s = ts_module_state(self);
    x = ts_add(x, ts_forward(s->attn, ts_forward(s->ln_1, x)));
    return ts_add(x, ts_forward(s->mlp, ts_forward(s->ln_2, x)));
}

static const ts_module_class block_class = {
    .name = "Block", .state_size = sizeof(block), .forward = block_forward};

ts_module *ts_gpt_block_new(const ts_gpt_options *opt)
{
    ts_layer_norm_options norm = TS_LAYER_NORM_OPTIONS_INIT;
    norm.bias = opt->bias;
    norm.dtype = opt->dtype;
    ts_module *self = ts_module_new(&block_class);
    block *s = ts_module_state(self);
    s->ln_1 = ts_module_add(self, "ln_1", ts_layer_norm_new(TS_SHAPE(opt->n_embd), &norm));
    s->attn = ts_module_add(self, "attn", attention_new(opt));
    s->ln_2 = ts_module_add(self, "ln_2", ts_layer_norm_new(TS_SHAPE(opt->n_embd), &norm));
    s->mlp = ts_module_add(self, "mlp", feed_forward_new(opt));
    return self;
}

ts_gpt_cache *ts_gpt_block_cache(ts_module *m)
{
    block *s = ts_module_state(m);
    attention *a = ts_module_state(s->attn);
    return &a->cache;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Embedding, LayerNorm and Dropout. */
#include <tessera/nn.h>

#include "nn/layer.h"

ts_tensor *ts_layer_parameter(ts_module *m, const char *name, ts_shape shape, ts_dtype dtype)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = dtype;
    opt.category = TS_CATEGORY_PARAMETER;
    return ts_module_add_parameter(m, name, ts_empty(shape, &opt));
}

/* ---- embedding ------------------------------------------------------------------------------- */

typedef struct embedding {
    ts_tensor *weight;
} embedding;

static ts_tensor *embedding_forward(ts_module *self, ts_tensor *indices)
{
    embedding *s = ts_module_state(self);
    return ts_embedding(s->weight, indices);
}

static const ts_module_class embedding_class = {
    .name = "Embedding", .state_size = sizeof(embedding), .forward = embedding_forward};

ts_module *ts_embedding_new(int64_t num_embeddings, int64_t embedding_dim,
                            const ts_embedding_options *opt)
{
    ts_embedding_options o = TS_EMBEDDING_OPTIONS_INIT;
    ts_status status = ts_options_read(&o, sizeof o, opt, "embedding_new");
    if (status != TS_OK) return ts_module_fail_last(status);
    if (num_embeddings < 0 || embedding_dim < 0)
        return ts_module_fail("embedding_new: %lld embeddings of %lld; neither may be negative",
                              (long long)num_embeddings, (long long)embedding_dim);
    ts_module *self = ts_module_new(&embedding_class);
    embedding *s = ts_module_state(self);
    ts_scope scope = ts_scope_begin();
    s->weight =
        ts_layer_parameter(self, "weight", TS_SHAPE(num_embeddings, embedding_dim), o.dtype);
    ts_init_normal_(s->weight, 0.0, 1.0);
    ts_scope_end(scope);
    return self;
}

/* ---- layer norm ------------------------------------------------------------------------------ */

typedef struct layer_norm {
    ts_shape shape;
    double eps;
    ts_tensor *weight, *bias;
} layer_norm;

static ts_tensor *layer_norm_forward(ts_module *self, ts_tensor *x)
{
    layer_norm *s = ts_module_state(self);
    return ts_layer_norm(x, s->shape, s->weight, s->bias, s->eps);
}

static const ts_module_class layer_norm_class = {
    .name = "LayerNorm", .state_size = sizeof(layer_norm), .forward = layer_norm_forward};

ts_module *ts_layer_norm_new(ts_shape normalized_shape, const ts_layer_norm_options *opt)
{
    ts_layer_norm_options o = TS_LAYER_NORM_OPTIONS_INIT;
    ts_status status = ts_options_read(&o, sizeof o, opt, "layer_norm_new");
    if (status != TS_OK) return ts_module_fail_last(status);
    if (normalized_shape.ndim < 1 || ts_shape_numel(normalized_shape) < 0)
        return ts_module_fail("layer_norm_new: normalized_shape needs 1 to %d sizes, none negative",
                              TS_MAX_DIMS);
    ts_module *self = ts_module_new(&layer_norm_class);
    layer_norm *s = ts_module_state(self);
    ts_scope scope = ts_scope_begin();
    s->shape = normalized_shape;
    s->eps = o.eps;
    bool bias = o.elementwise_affine && o.bias;
    s->weight = o.elementwise_affine ? ts_layer_parameter(self, "weight", normalized_shape, o.dtype)
                                     : ts_module_add_parameter(self, "weight", NULL);
    s->bias = bias ? ts_layer_parameter(self, "bias", normalized_shape, o.dtype)
                   : ts_module_add_parameter(self, "bias", NULL);
    if (s->weight) ts_init_constant_(s->weight, 1.0);
    if (s->bias) ts_init_constant_(s->bias, 0.0);
    ts_scope_end(scope);
    return self;
}

/* ---- dropout --------------------------------------------------------------------------------- */

typedef struct dropout {
    double p;
} dropout;

static ts_tensor *dropout_forward(ts_module *self, ts_tensor *x)
{
    dropout *s = ts_module_state(self);
    return ts_dropout(x, s->p, ts_module_is_training(self));
}

static const ts_module_class dropout_class = {
    .name = "Dropout", .state_size = sizeof(dropout), .forward = dropout_forward};

ts_module *ts_dropout_new(double p)
{
    if (!(p >= 0.0 && p <= 1.0))
        return ts_module_fail("dropout_new: p is %g; it must be in [0, 1]", p);
    ts_module *self = ts_module_new(&dropout_class);
    dropout *s = ts_module_state(self);
    s->p = p;
    return self;
}

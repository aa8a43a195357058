/* SPDX-License-Identifier: Apache-2.0 */
/* Layers.  Names of parameters, defaults and initial values are PyTorch's. */
#ifndef TESSERA_NN_H
#define TESSERA_NN_H

#include <tessera/module.h>
#include <tessera/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ts_linear_options {
    size_t struct_size;
    bool bias;      /* true */
    ts_dtype dtype; /* float32 */
} ts_linear_options;
#define TS_LINEAR_OPTIONS_INIT                                                                     \
    {                                                                                              \
        sizeof(ts_linear_options), true, TS_FLOAT32                                                \
    }
/* weight (out, in), bias (out), both uniform in +-1/sqrt(in).  x (..., in) -> (..., out) */
TS_API ts_module *ts_linear_new(int64_t in_features, int64_t out_features,
                                const ts_linear_options *opt);

typedef struct ts_embedding_options {
    size_t struct_size;
    ts_dtype dtype;
} ts_embedding_options;
#define TS_EMBEDDING_OPTIONS_INIT                                                                  \
    {                                                                                              \
        sizeof(ts_embedding_options), TS_FLOAT32                                                   \
    }
/* weight (num, dim) normal (0, 1).  int64 indices of any shape -> (..., dim) */
TS_API ts_module *ts_embedding_new(int64_t num_embeddings, int64_t embedding_dim,
                                   const ts_embedding_options *opt);

typedef struct ts_layer_norm_options {
    size_t struct_size;
    double eps;              /* 1e-5 */
    bool elementwise_affine; /* true */
    bool bias;               /* true */
    ts_dtype dtype;          /* float32 */
} ts_layer_norm_options;
#define TS_LAYER_NORM_OPTIONS_INIT                                                                 \
    {                                                                                              \
        sizeof(ts_layer_norm_options), 1e-5, true, true, TS_FLOAT32                                \
    }
TS_API ts_module *ts_layer_norm_new(ts_shape normalized_shape, const ts_layer_norm_options *opt);

TS_API ts_module *ts_dropout_new(double p);
TS_API ts_module *ts_relu_new(void);
TS_API ts_module *ts_gelu_new(ts_gelu_form form);

/* Takes n modules over; children are named "0", "1", ... */
TS_API ts_module *ts_sequential_new(ts_module *const *modules, int n);
/* A list without a forward of its own; ts_module_child(list, "3") or ts_module_list_get. */
TS_API ts_module *ts_module_list_new(ts_module *const *modules, int n);
TS_API ts_module *ts_module_list_get(const ts_module *list, int64_t i);

/* Initialisers, in place, outside autograd; return t. */
TS_API ts_tensor *ts_init_uniform_(ts_tensor *t, double low, double high);
TS_API ts_tensor *ts_init_normal_(ts_tensor *t, double mean, double std);
TS_API ts_tensor *ts_init_constant_(ts_tensor *t, double value);
TS_API ts_tensor *ts_init_kaiming_uniform_(ts_tensor *t, double a);
TS_API ts_tensor *ts_init_kaiming_normal_(ts_tensor *t, double a);
TS_API ts_tensor *ts_init_xavier_uniform_(ts_tensor *t, double gain);
TS_API ts_tensor *ts_init_xavier_normal_(ts_tensor *t, double gain);
/* Normal numbers that lie within low .. high (in the units of t, as torch's a and b). */
TS_API ts_tensor *ts_init_trunc_normal_(ts_tensor *t, double mean, double std, double low,
                                        double high);

#ifdef __cplusplus
}
#endif
#endif

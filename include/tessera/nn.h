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

typedef struct ts_rms_norm_options {
    size_t struct_size;
    double eps;              /* 0: the dtype's epsilon, as PyTorch's None */
    bool elementwise_affine; /* true: weight, ones */
    ts_dtype dtype;          /* float32 */
} ts_rms_norm_options;
#define TS_RMS_NORM_OPTIONS_INIT                                                                   \
    {                                                                                              \
        sizeof(ts_rms_norm_options), 0.0, true, TS_FLOAT32                                         \
    }
TS_API ts_module *ts_rms_norm_new(ts_shape normalized_shape, const ts_rms_norm_options *opt);

typedef struct ts_group_norm_options {
    size_t struct_size;
    double eps;     /* 1e-5 */
    bool affine;    /* true: weight, ones, and bias, zeros, of (channels) */
    ts_dtype dtype; /* float32 */
} ts_group_norm_options;
#define TS_GROUP_NORM_OPTIONS_INIT                                                                 \
    {                                                                                              \
        sizeof(ts_group_norm_options), 1e-5, true, TS_FLOAT32                                      \
    }
/* x (N, C, ...) of the same shape. */
TS_API ts_module *ts_group_norm_new(int64_t num_groups, int64_t num_channels,
                                    const ts_group_norm_options *opt);

typedef struct ts_batch_norm_options {
    size_t struct_size;
    double eps;               /* 1e-5 */
    double momentum;          /* 0.1; negative: the mean of all batches so far (PyTorch's None) */
    bool affine;              /* true: weight, ones, and bias, zeros */
    bool track_running_stats; /* true; false: by the statistics of the batch in evaluation too */
    ts_dtype dtype;           /* float32 */
} ts_batch_norm_options;
#define TS_BATCH_NORM_OPTIONS_INIT                                                                 \
    {                                                                                              \
        sizeof(ts_batch_norm_options), 1e-5, 0.1, true, true, TS_FLOAT32                           \
    }
/* Buffers running_mean, running_var (C) and num_batches_tracked (int64, 0-dim).  1d takes (N, C) and
 * (N, C, L), 2d (N, C, H, W). */
TS_API ts_module *ts_batch_norm1d_new(int64_t num_features, const ts_batch_norm_options *opt);
TS_API ts_module *ts_batch_norm2d_new(int64_t num_features, const ts_batch_norm_options *opt);

/* Height, width; 1d takes the first. */
typedef struct ts_conv_layer_options {
    size_t struct_size;
    int64_t stride[2];   /* 1 */
    int64_t padding[2];  /* 0; zeros */
    int64_t dilation[2]; /* 1 */
    int64_t groups;      /* 1 */
    bool bias;           /* true */
    ts_dtype dtype;      /* float32 */
} ts_conv_layer_options;
#define TS_CONV_LAYER_OPTIONS_INIT                                                                 \
    {                                                                                              \
        sizeof(ts_conv_layer_options), {1, 1}, {0, 0}, {1, 1}, 1, true, TS_FLOAT32                 \
    }
/* weight (out, in / groups, kernel...), bias (out), both uniform in +-1/sqrt(in / groups kernel...). */
TS_API ts_module *ts_conv1d_new(int64_t in_channels, int64_t out_channels, int64_t kernel,
                                const ts_conv_layer_options *opt);
TS_API ts_module *ts_conv2d_new(int64_t in_channels, int64_t out_channels, int64_t kernel_height,
                                int64_t kernel_width, const ts_conv_layer_options *opt);

/* Windows as of ts_max_pool2d. */
TS_API ts_module *ts_max_pool1d_new(ts_pool_window window);
TS_API ts_module *ts_max_pool2d_new(ts_pool_window window);
TS_API ts_module *ts_avg_pool1d_new(ts_pool_window window);
TS_API ts_module *ts_avg_pool2d_new(ts_pool_window window);
TS_API ts_module *ts_adaptive_avg_pool1d_new(int64_t length);
TS_API ts_module *ts_adaptive_avg_pool2d_new(int64_t height, int64_t width);

TS_API ts_module *ts_dropout_new(double p);
TS_API ts_module *ts_relu_new(void);
TS_API ts_module *ts_gelu_new(ts_gelu_form form);
TS_API ts_module *ts_silu_new(void);
TS_API ts_module *ts_tanh_new(void);
TS_API ts_module *ts_sigmoid_new(void);
TS_API ts_module *ts_softmax_new(int dim);
TS_API ts_module *ts_log_softmax_new(int dim);
TS_API ts_module *ts_identity_new(void);
TS_API ts_module *ts_flatten_new(int start_dim, int end_dim); /* PyTorch's defaults: 1, -1 */

/* Losses: called with two tensors, input and target. */
TS_API ts_module *ts_mse_loss_new(void);
TS_API ts_module *ts_cross_entropy_loss_new(const ts_cross_entropy_options *opt);

/* Takes n modules over; children are named "0", "1", ... */
TS_API ts_module *ts_sequential_new(ts_module *const *modules, int n);
/* A list without a forward of its own; ts_module_child(list, "3") or ts_module_list_get. */
TS_API ts_module *ts_module_list_new(ts_module *const *modules, int n);
/* n modules by name, without a forward of its own; ts_module_child(dict, name). */
TS_API ts_module *ts_module_dict_new(const char *const *names, ts_module *const *modules, int n);
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

/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution of one sample: x (C, H, W), w (O, C / groups, kh, kw), y (O, oh, ow), row-major.
 *
 * Every product runs over tiles of output positions: a tile's patches are gathered as columns
 * (C / groups kh kw, tile), which stay in the cache.  Where x itself is that matrix (kernel 1 x 1,
 * stride 1, no padding) nothing is gathered.  With one input channel per group there is nothing to
 * multiply: lines are added up directly. */
#ifndef TS_OPS_CONV_H
#define TS_OPS_CONV_H

#include "ops/nn_impl.h"

typedef struct ts_conv {
    const ts_nn_kernels *nn;
    ts_dtype dtype;
    int64_t esize, groups;
    int64_t in_channels, out_channels; /* of all groups */
    int64_t size[2], out_size[2], kernel[2], stride[2], padding[2], dilation[2];
} ts_conv;

/* Bytes of scratch memory of a call; 64-byte aligned. */
size_t ts_conv_scratch(const ts_conv *c);

/* y = conv(x, w), dx = its transpose applied to dy, dw += the gradient of w, each of one group. */
ts_status ts_conv_forward(const ts_conv *c, int64_t group, char *y, const char *x, const char *w,
                          void *scratch);
ts_status ts_conv_input(const ts_conv *c, int64_t group, char *dx, const char *dy, const char *w,
                        void *scratch);
ts_status ts_conv_weight(const ts_conv *c, int64_t group, char *dw, const char *dy, const char *x,
                         void *scratch);

#endif

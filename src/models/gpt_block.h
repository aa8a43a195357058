/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TS_MODELS_GPT_BLOCK_H
#define TS_MODELS_GPT_BLOCK_H

#include <tessera/models.h>

/* One transformer block: x + attn(ln_1(x)), then x + mlp(ln_2(x)). */
ts_module *ts_gpt_block_new(const ts_gpt_options *opt);
/* A linear layer as GPT-2 initialises it. */
ts_module *ts_gpt_linear_new(const ts_gpt_options *opt, int64_t in, int64_t out, double std);

/* The cache of a block: tensors (batch, heads, block_size, head size), one reference each, and how
 * many positions are filled.  NULL tensors: none. */
typedef struct ts_gpt_cache {
    ts_tensor *k, *v;
    int64_t length;
} ts_gpt_cache;
ts_gpt_cache *ts_gpt_block_cache(ts_module *block);

#endif

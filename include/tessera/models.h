/* SPDX-License-Identifier: Apache-2.0 */
/* Models that are shipped. */
#ifndef TESSERA_MODELS_H
#define TESSERA_MODELS_H

#include <tessera/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Linear layers fc1, fc2, ... with ReLU between; sizes[0] inputs ... sizes[n-1] outputs. */
TS_API ts_module *ts_mlp_new(const int64_t *sizes, int n);

/* GPT-2 (Radford et al., 2019): pre-norm blocks, learned positions, tanh gelu, tied output.
 * Parameter names as in the well-known PyTorch model: transformer.wte.weight,
 * transformer.wpe.weight, transformer.h.N.{ln_1,attn.c_attn,attn.c_proj,ln_2,mlp.c_fc,mlp.c_proj},
 * transformer.ln_f, lm_head.weight (tied to wte).  Linear weights are (out, in). */
typedef struct ts_gpt_options {
    size_t struct_size;
    int64_t vocab_size; /* 256 */
    int64_t block_size; /* 128: longest context */
    int64_t n_layer;    /* 4 */
    int64_t n_head;     /* 8 */
    int64_t n_embd;     /* 256 */
    double dropout;     /* 0: after the embeddings and at the end of both residual branches */
    bool bias;          /* true: in linear layers and layer norms */
    ts_dtype dtype;     /* float32 */
} ts_gpt_options;
#define TS_GPT_OPTIONS_INIT                                                                        \
    {                                                                                              \
        sizeof(ts_gpt_options), 256, 128, 4, 8, 256, 0.0, true, TS_FLOAT32                         \
    }
TS_API ts_module *ts_gpt_new(const ts_gpt_options *opt);
/* forward: int64 tokens (B, T) -> logits (B, T, vocab).  With two arguments (tokens, targets) the
 * result is the mean cross-entropy, a 0-dim tensor. */

/* The weights at path into a GPT: torch.save or safetensors, of ours or of transformers' GPT2LMHeadModel
 * and GPT2Model.  Their linear weights are (in, out) and are turned; masks in old files and the tied
 * lm_head are left out.  Everything else must be there, in shape. */
TS_API ts_status ts_gpt_load(ts_module *gpt, const char *path);
/* A GPT as transformers' save_pretrained wrote it: config.json says its sizes, model.safetensors or
 * pytorch_model.bin its weights.  In evaluation mode; dropout is 0. */
TS_API ts_module *ts_gpt_from_pretrained(const char *folder);

/* Model FLOPs of one training step: 6 P B T + 12 L C T B T. */
TS_API double ts_gpt_step_flops(const ts_gpt_options *opt, int64_t batch, int64_t seq);

/* Extends tokens by max_new_tokens, one at a time with a key/value cache.  The model sees the last
 * block_size tokens of a longer start; whenever its context is full it goes on from the newer half
 * of it, because positions are absolute.  Runs in evaluation mode, without gradients, and does not
 * touch the default generator.  On error *count tells how far it came.  tokens holds *count ids and
 * has room for *count + max_new_tokens; *count is updated.  temperature 0 is greedy; top_k 0 means
 * all.  The module is left in its mode. */
typedef struct ts_generate_options {
    size_t struct_size;
    int64_t max_new_tokens; /* 128 */
    double temperature;     /* 1 */
    int64_t top_k;          /* 0 */
    uint64_t seed;          /* 0 */
} ts_generate_options;
#define TS_GENERATE_OPTIONS_INIT                                                                   \
    {                                                                                              \
        sizeof(ts_generate_options), 128, 1.0, 0, 0                                                \
    }
TS_API ts_status ts_gpt_generate(ts_module *gpt, int64_t *tokens, int64_t *count,
                                 const ts_generate_options *opt);

#ifdef __cplusplus
}
#endif
#endif

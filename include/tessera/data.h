/* SPDX-License-Identifier: Apache-2.0 */
/* Text as bytes, samplers and batches. */
#ifndef TESSERA_DATA_H
#define TESSERA_DATA_H

#include <tessera/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The bytes of files and folders (recursively, in name order), mapped where large, seen as one
 * sequence of tokens 0..255, files joined by nothing.  Inside folders, links to files and folders
 * are followed, and whatever is met twice counts once; empty and special files and links that lead
 * nowhere are left out.  The last `holdout` fraction of every file is the held-out part.  TS_EIO
 * names the path: missing, unreadable, an empty file, a folder without any bytes. */
typedef struct ts_text ts_text;
TS_API ts_status ts_text_open(ts_text **out, const char *const *paths, int n, double holdout);
TS_API void ts_text_free(ts_text *text);
TS_API int64_t ts_text_bytes(const ts_text *text, bool held_out);
/* Number of windows of seq + 1 tokens, non-overlapping by their first seq, in a part. */
TS_API int64_t ts_text_windows(const ts_text *text, int64_t seq, bool held_out);
/* Windows index[0..batch-1] of a part: *tokens and *targets are int64 (batch, seq) tensors in the
 * scope, targets one byte ahead.  TS_EINVAL for an index out of range. */
TS_API ts_status ts_text_batch(ts_tensor **tokens, ts_tensor **targets, const ts_text *text,
                               int64_t seq, bool held_out, const int64_t *index, int64_t batch);

/* Which samples a rank takes, by PyTorch's DistributedSampler arithmetic: without drop_last the
 * list is padded from its own start to a multiple of the ranks, else cut; rank r takes positions
 * r, r + num_replicas, ...  The shuffle is a permutation by Philox(seed + epoch). */
typedef struct ts_sampler_options {
    size_t struct_size;
    bool shuffle;   /* true */
    uint64_t seed;  /* 0 */
    bool drop_last; /* false */
} ts_sampler_options;
#define TS_SAMPLER_OPTIONS_INIT                                                                    \
    {                                                                                              \
        sizeof(ts_sampler_options), true, 0, false                                                 \
    }
typedef struct ts_sampler ts_sampler;
TS_API ts_status ts_sampler_new(ts_sampler **out, int64_t dataset_size, int num_replicas, int rank,
                                const ts_sampler_options *opt);
TS_API void ts_sampler_free(ts_sampler *sampler);
TS_API ts_status ts_sampler_set_epoch(ts_sampler *sampler, int64_t epoch);
TS_API int64_t ts_sampler_length(const ts_sampler *sampler);             /* samples of this rank */
TS_API int64_t ts_sampler_index(const ts_sampler *sampler, int64_t i);   /* -1 out of range */
TS_API bool ts_sampler_is_padding(const ts_sampler *sampler, int64_t i); /* a repeated sample? */

/* Endless batches of a text: epoch after epoch of the sampler, `batch` windows of this rank at a
 * time; an epoch's incomplete last batch is dropped. */
typedef struct ts_text_loader ts_text_loader;
TS_API ts_status ts_text_loader_new(ts_text_loader **out, const ts_text *text, int64_t seq,
                                    int64_t batch, int num_replicas, int rank, uint64_t seed);
TS_API void ts_text_loader_free(ts_text_loader *loader);
TS_API ts_status ts_text_loader_next(ts_tensor **tokens, ts_tensor **targets,
                                     ts_text_loader *loader);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Text as bytes or tokens, samplers and batches, files of images and numbers.  Tensors that are read
 * belong to the scope. */
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
/* The same over files of token numbers, little-endian, of bytes_per_token 2 or 4: then a token, not a
 * byte, is what the functions count.  Files that begin as llm.c's do (magic 20240520, 256 numbers of 4
 * bytes) are read without that head.  TS_EFORMAT: a file that is no whole number of tokens. */
TS_API ts_status ts_text_open_tokens(ts_text **out, const char *const *paths, int n, double holdout,
                                     int bytes_per_token);
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
/* Goes on within the epoch where all ranks together have taken `taken` samples, in whatever number of
 * ranks: the list begins there until the epoch is set again. */
TS_API ts_status ts_sampler_resume(ts_sampler *sampler, int64_t taken);

/* Where a loader is, to be saved with a checkpoint; the same on all ranks. */
typedef struct ts_loader_state {
    int64_t epoch;
    int64_t taken; /* samples of this epoch that all ranks together have had */
    uint64_t seed;
} ts_loader_state;

/* Endless batches of a text: epoch after epoch of the sampler, `batch` windows of this rank at a
 * time; an epoch's incomplete last batch is dropped. */
typedef struct ts_text_loader ts_text_loader;
TS_API ts_status ts_text_loader_new(ts_text_loader **out, const ts_text *text, int64_t seq,
                                    int64_t batch, int num_replicas, int rank, uint64_t seed);
TS_API void ts_text_loader_free(ts_text_loader *loader);
TS_API ts_status ts_text_loader_next(ts_tensor **tokens, ts_tensor **targets,
                                     ts_text_loader *loader);
TS_API ts_loader_state ts_text_loader_state(const ts_text_loader *loader);
/* Goes on from there, also with another number of ranks or another batch. */
TS_API ts_status ts_text_loader_set_state(ts_text_loader *loader, ts_loader_state state);

/* ---- readers of well-known files: images are uint8, labels int64 ------------------------------- */

/* An idx file, as MNIST's: its type and sizes stand in it. */
TS_API ts_status ts_idx_read(ts_tensor **out, const char *path);
/* (n, 28, 28) and (n) from train-images-idx3-ubyte and its three companions, unpacked. */
TS_API ts_status ts_mnist_read(ts_tensor **images, ts_tensor **labels, const char *folder,
                               bool train);
/* (n, 3, 32, 32) and (n) from the binary version: data_batch_1.bin ... 5, or test_batch.bin. */
TS_API ts_status ts_cifar10_read(ts_tensor **images, ts_tensor **labels, const char *folder,
                                 bool train);
/* train.bin or test.bin; coarse (20 classes) may be NULL. */
TS_API ts_status ts_cifar100_read(ts_tensor **images, ts_tensor **fine, ts_tensor **coarse,
                                  const char *folder, bool train);

typedef struct ts_csv_options {
    size_t struct_size;
    char delimiter;     /* ',' */
    int64_t skip_lines; /* 0: lines before the numbers, such as names of columns */
    ts_dtype dtype;     /* float32; or float64 */
} ts_csv_options;
#define TS_CSV_OPTIONS_INIT                                                                        \
    {                                                                                              \
        sizeof(ts_csv_options), ',', 0, TS_FLOAT32                                                 \
    }
/* Numbers as a (lines, columns) tensor.  Empty lines are left out, an empty field is NaN; TS_EFORMAT
 * names line and column. */
TS_API ts_status ts_csv_read(ts_tensor **out, const char *path, const ts_csv_options *opt);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Datasets by callbacks, and batches of them, fetched ahead by worker threads.
 *
 *     ts_must(ts_tensor_dataset_new(&data, (ts_tensor *[]){images, labels}, 2));
 *     ts_loader_options opt = TS_LOADER_OPTIONS_INIT;
 *     opt.batch_size = 32, opt.shuffle = true, opt.num_workers = 2;
 *     ts_must(ts_loader_new(&loader, data, &opt));
 *     for (;;) {
 *         ts_must(ts_loader_next(batch, &more, loader));
 *         if (!more) break;                       the epoch ends; the next call begins another
 *         ... batch[0], batch[1] ...
 *     }
 */
#ifndef TESSERA_LOADER_H
#define TESSERA_LOADER_H

#include <tessera/data.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TS_SAMPLE_FIELDS 8

/* Which sample, and a random seed that is a function of the loader's seed, epoch and index alone, so
 * that random changes do not depend on which thread makes them. */
typedef struct ts_sample_id {
    int64_t index, epoch;
    uint64_t seed;
} ts_sample_id;

typedef struct ts_dataset_class {
    const char *name;
    int fields; /* tensors of a sample, 1 to TS_SAMPLE_FIELDS */
    /* One of the two.  get gives sample id->index; several threads call it at once. */
    ts_status (*get)(ts_tensor **sample, const ts_sample_id *id, void *state);
    /* next gives the samples of a stream one after the other, *end instead of one behind the last;
     * one thread at a time calls it.  begin (optional) goes back to the start. */
    ts_status (*next)(ts_tensor **sample, bool *end, void *state);
    ts_status (*begin)(int64_t epoch, void *state);
    /* Optional: a batch of n samples at once instead of get and collate; several threads. */
    ts_status (*get_batch)(ts_tensor **batch, const ts_sample_id *id, int64_t n, void *state);
    void (*fini)(void *state); /* optional */
} ts_dataset_class;

typedef struct ts_dataset ts_dataset;
/* size: of samples; a stream's is not known, give -1.  state is the callbacks' own. */
TS_API ts_status ts_dataset_new(ts_dataset **out, const ts_dataset_class *klass, int64_t size,
                                void *state);
TS_API void ts_dataset_free(ts_dataset *dataset); /* after the loaders over it; NULL is fine */
TS_API int64_t ts_dataset_size(const ts_dataset *dataset);
/* Sample i is row i of each of n tensors, of which references are kept. */
TS_API ts_status ts_tensor_dataset_new(ts_dataset **out, ts_tensor *const *tensors, int n);

/* Joins count samples into a batch; sample[i * fields + f] is field f of sample i.  The default stacks
 * them along a new first dimension. */
typedef ts_status (*ts_collate_fn)(ts_tensor **batch, ts_tensor *const *sample, int64_t count,
                                   int fields, void *user);

typedef struct ts_loader_options {
    size_t struct_size;
    int64_t batch_size;    /* 1 */
    bool shuffle;          /* false; a function of seed and epoch alone */
    uint64_t seed;         /* 0 */
    bool drop_last;        /* false: leave an incomplete last batch out */
    int num_workers;       /* 0: the caller's thread fetches; else that many threads */
    int prefetch_factor;   /* 2: batches that each worker may have ready */
    int num_replicas;      /* 1: ranks that share the samples, as DistributedSampler does */
    int rank;              /* 0: among them */
    ts_collate_fn collate; /* NULL: the default */
    void *collate_user;
} ts_loader_options;
#define TS_LOADER_OPTIONS_INIT                                                                     \
    {                                                                                              \
        sizeof(ts_loader_options), 1, false, 0, false, 0, 2, 1, 0, NULL, NULL                      \
    }

typedef struct ts_loader ts_loader;
/* A stream's samples go to the ranks in turn; it is not shuffled, and not padded. */
TS_API ts_status ts_loader_new(ts_loader **out, ts_dataset *dataset, const ts_loader_options *opt);
TS_API void ts_loader_free(ts_loader *loader); /* ends its threads; NULL is fine */
/* The next batch, in order, whatever the number of workers: batch[] gets the tensors of its fields, in
 * the scope.  *more false: the epoch has ended, and batch is untouched.  A sample that fails fails its
 * batch, in its place; the call after that goes on behind it. */
TS_API ts_status ts_loader_next(ts_tensor **batch, bool *more, ts_loader *loader);
/* What next has given is taken, what is fetched ahead is not. */
TS_API ts_loader_state ts_loader_state_of(const ts_loader *loader);
/* Goes on from there, also with another number of ranks, workers, or another batch size.  Streams skip
 * what was taken. */
TS_API ts_status ts_loader_set_state(ts_loader *loader, ts_loader_state state);
/* Full batches and, unless dropped, the incomplete one, in an epoch; -1 for a stream. */
TS_API int64_t ts_loader_length(const ts_loader *loader);

#ifdef __cplusplus
}
#endif
#endif

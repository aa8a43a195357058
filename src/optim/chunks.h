/* SPDX-License-Identifier: Apache-2.0 */
/* Several tensors as one list of chunks, so that one parallel pass serves them all. */
#ifndef TS_OPTIM_CHUNKS_H
#define TS_OPTIM_CHUNKS_H

#include <tessera/module.h>

enum { TS_CHUNK = 16384 }; /* elements */

typedef struct ts_chunk_item {
    ts_tensor *tensor, *grad;
    ts_tensor *copy; /* row-major stand-in of a strided tensor that is written; else NULL */
    void *data;      /* of the tensor or its stand-in, row-major */
    void *grad_data;
    ts_dtype dtype;
    int64_t numel;
    int64_t first; /* number of its first chunk */
    int64_t param; /* place in the list of parameters */
} ts_chunk_item;

typedef struct ts_chunks {
    ts_chunk_item *item;
    int64_t items, chunks;
    bool write_grad;
} ts_chunks;

/* Room for count items. */
ts_status ts_chunks_init(ts_chunks *chunks, int64_t count, const char *op);
void ts_chunks_fini(ts_chunks *chunks);

/* Empties chunks.  write_grad: the gradients are what will be written, and `data` points to them. */
void ts_chunks_clear(ts_chunks *chunks, bool write_grad);
/* Parameter i of the list with a gradient, both row-major; strided ones are copied into the scope. */
ts_status ts_chunks_add(ts_chunks *chunks, const ts_tensor_list *parameters, int64_t i,
                        ts_tensor *grad, const char *op);
/* Empties chunks and adds all parameters that have a gradient, with it. */
ts_status ts_chunks_collect(ts_chunks *chunks, const ts_tensor_list *parameters, bool write_grad,
                            const char *op);
/* Brings what was written to stand-ins back and tells autograd about the change. */
ts_status ts_chunks_finish(const ts_chunks *chunks);

/* Calls fn for each piece (elements begin to end of an item) of chunks first to last - 1. */
void ts_chunks_walk(const ts_chunks *chunks, int64_t first, int64_t last,
                    void (*fn)(const ts_chunk_item *item, int64_t begin, int64_t end, void *user),
                    void *user);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TS_DATA_LOADER_IMPL_H
#define TS_DATA_LOADER_IMPL_H

#include <pthread.h>
#include <tessera/loader.h>

#include "base/error.h"
#include "base/memory.h"

struct ts_dataset {
    const ts_dataset_class *klass;
    int64_t size; /* -1: a stream */
    void *state;
};

/* A batch that has been fetched, or why not. */
typedef struct ts_fetched {
    enum { TS_SLOT_EMPTY, TS_SLOT_BUSY, TS_SLOT_READY } state;
    ts_status status;
    char *error;
    bool end;                            /* of a stream: there is no such batch */
    ts_tensor *tensor[TS_SAMPLE_FIELDS]; /* one reference each */
} ts_fetched;

struct ts_loader {
    ts_dataset *dataset;
    ts_loader_options opt;
    ts_sampler *sampler; /* NULL for streams */
    int64_t epoch, start;
    int64_t batches; /* from start on; INT64_MAX while a stream's end is not known */
    int64_t next;    /* batch that the caller gets next */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* under the lock */
    int64_t claimed; /* batches that have been claimed by workers */
    int busy;        /* workers that fetch */
    bool paused, stopped;
    ts_fetched *slot; /* batch b is in slot b % slots */
    int64_t slots;
    pthread_mutex_t draw; /* held by whoever reads the stream */
    int64_t drawn;        /* samples that the stream has given in this epoch */
    bool stream_ended;
    pthread_t *thread;
    int threads;
};

/* Fetches batch b into slot, in any thread.  Samples of a stream have been drawn into drawn[]. */
void ts_loader_fetch(ts_loader *l, int64_t b, ts_fetched *slot);
void ts_fetched_clear(ts_fetched *slot);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of tokens and their successors from a text. */
#include <stdlib.h>
#include <tessera/data.h>

#include "base/error.h"
#include "base/memory.h"

struct ts_text_loader {
    const ts_text *text;
    ts_sampler *sampler;
    int64_t seq, batch;
    int replicas, rank;
    uint64_t seed;
    int64_t epoch;
    int64_t start;    /* what all ranks had taken when the sampler's list began */
    int64_t position; /* of the next batch in that list */
    int64_t *index;   /* windows of a batch */
};

static ts_status check(const ts_text *text, int64_t seq, int64_t batch)
{
    if (!text) return ts_fail(TS_EINVAL, "text_loader_new: the text is missing (NULL)");
    if (seq < 1 || batch < 1)
        return ts_fail(TS_EINVAL,
                       "text_loader_new: batches of %lld windows of %lld tokens; both must be"
                       " at least 1",
                       (long long)batch, (long long)seq);
    if (ts_text_windows(text, seq, false) == 0)
        return ts_fail(
            TS_EINVAL,
            "text_loader_new: the text has %lld training bytes; one window of %lld tokens "
            "needs %lld; give more text or a shorter sequence",
            (long long)ts_text_bytes(text, false), (long long)seq, (long long)seq + 1);
    return TS_OK;
}

static ts_status check_batch(const ts_text_loader *l, int replicas)
{
    int64_t length = ts_sampler_length(l->sampler);
    if (length >= l->batch) return TS_OK;
    /* Enough once every rank's share, rounded up, is a batch. */
    int64_t windows = (l->batch - 1) * replicas + 1;
    return ts_fail(
        TS_EINVAL,
        "text_loader_new: %lld windows per rank do not fill a batch of %lld; %lld bytes of "
        "training text are needed, there are %lld; give more text or a smaller batch",
        (long long)length, (long long)l->batch, (long long)(windows * l->seq + 1),
        (long long)ts_text_bytes(l->text, false));
}

/* Replaces the sampler by one with that seed. */
static ts_status new_sampler(ts_text_loader *l, uint64_t seed)
{
    ts_sampler *sampler;
    ts_sampler_options opt = TS_SAMPLER_OPTIONS_INIT;
    opt.seed = seed;
    TS_TRY(ts_sampler_new(&sampler, ts_text_windows(l->text, l->seq, false), l->replicas, l->rank,
                          &opt));
    ts_sampler_free(l->sampler);
    l->sampler = sampler;
    l->seed = seed;
    return TS_OK;
}

ts_status ts_text_loader_new(ts_text_loader **out, const ts_text *text, int64_t seq, int64_t batch,
                             int num_replicas, int rank, uint64_t seed)
{
    TS_TRY(check(text, seq, batch));
    ts_text_loader *l = ts_calloc(1, sizeof *l);
    if (!l) return ts_fail_memory(sizeof *l, "a loader");
    *l = (ts_text_loader){
        .text = text, .seq = seq, .batch = batch, .replicas = num_replicas, .rank = rank};
    ts_status status = new_sampler(l, seed);
    if (status == TS_OK) status = check_batch(l, num_replicas);
    if (status == TS_OK && !(l->index = ts_calloc((size_t)batch, sizeof *l->index)))
        status = ts_fail_memory((size_t)batch * sizeof *l->index, "a loader");
    if (status != TS_OK) {
        ts_text_loader_free(l);
        return status;
    }
    *out = l;
    return TS_OK;
}

void ts_text_loader_free(ts_text_loader *loader)
{
    if (!loader) return;
    ts_sampler_free(loader->sampler);
    free(loader->index);
    free(loader);
}

ts_status ts_text_loader_next(ts_tensor **tokens, ts_tensor **targets, ts_text_loader *loader)
{
    if (!loader) return ts_fail(TS_EINVAL, "text_loader_next: the loader is missing (NULL)");
    if (loader->position + loader->batch > ts_sampler_length(loader->sampler)) {
        TS_TRY(ts_sampler_set_epoch(loader->sampler, loader->epoch + 1));
        loader->epoch++;
        loader->start = loader->position = 0;
    }
    for (int64_t b = 0; b < loader->batch; b++)
        loader->index[b] = ts_sampler_index(loader->sampler, loader->position + b);
    TS_TRY(ts_text_batch(tokens, targets, loader->text, loader->seq, false, loader->index,
                         loader->batch));
    loader->position += loader->batch;
    return TS_OK;
}

/* ---- going on later -------------------------------------------------------------------------- */

ts_loader_state ts_text_loader_state(const ts_text_loader *l)
{
    if (!l) return (ts_loader_state){0};
    return (ts_loader_state){l->epoch, l->start + l->position * l->replicas, l->seed};
}

ts_status ts_text_loader_set_state(ts_text_loader *l, ts_loader_state state)
{
    if (!l) return ts_fail(TS_EINVAL, "text_loader_set_state: the loader is missing (NULL)");
    if (state.epoch < 0 || state.taken < 0)
        return ts_fail(TS_EINVAL, "text_loader_set_state: epoch %lld and %lld samples cannot be",
                       (long long)state.epoch, (long long)state.taken);
    TS_TRY(new_sampler(l, state.seed));
    TS_TRY(ts_sampler_set_epoch(l->sampler, state.epoch));
    TS_TRY(ts_sampler_resume(l->sampler, state.taken));
    l->epoch = state.epoch;
    l->start = state.taken;
    l->position = 0;
    return TS_OK;
}

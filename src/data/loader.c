/* SPDX-License-Identifier: Apache-2.0 */
/* Batches in order: fetched by the caller, or ahead of it by workers, who claim one batch number after
 * the other and put what they fetched into a ring that the caller empties in order. */
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "base/thread.h"
#include "data/loader_impl.h"
#include "tensor/tensor.h"

/* ---- workers --------------------------------------------------------------------------------- */

static bool may_claim(const ts_loader *l)
{
    return !l->paused && l->claimed < l->batches && l->claimed < l->next + l->slots;
}

/* Waits, under the lock, until there is a batch to fetch; NULL: the loader ends.  With streams, the
 * draw lock is taken first, so that batches are drawn in the order in which they are claimed. */
static ts_fetched *claim(int64_t *b, ts_loader *l)
{
    while (!l->stopped && !may_claim(l)) pthread_cond_wait(&l->changed, &l->lock);
    if (l->stopped) return NULL;
    *b = l->claimed++;
    l->busy++;
    l->slot[*b % l->slots].state = TS_SLOT_BUSY;
    return &l->slot[*b % l->slots];
}

static void finish(ts_loader *l, int64_t b, ts_fetched *slot)
{
    slot->state = TS_SLOT_READY;
    if (slot->end && b < l->batches) l->batches = b;
    l->busy--;
    pthread_cond_broadcast(&l->changed);
}

static void work(void *arg)
{
    ts_loader *l = arg;
    int64_t b;
    for (;;) {
        if (!l->sampler) pthread_mutex_lock(&l->draw);
        pthread_mutex_lock(&l->lock);
        ts_fetched *slot = claim(&b, l);
        pthread_mutex_unlock(&l->lock);
        if (!slot) break;
        ts_loader_fetch(l, b, slot); /* lets the draw lock go */
        pthread_mutex_lock(&l->lock);
        finish(l, b, slot);
        pthread_mutex_unlock(&l->lock);
    }
    if (!l->sampler) pthread_mutex_unlock(&l->draw);
}

/* No worker fetches and nothing is ready when this returns; they go on after resume. */
static void pause_workers(ts_loader *l)
{
    pthread_mutex_lock(&l->lock);
    l->paused = true;
    while (l->busy > 0) pthread_cond_wait(&l->changed, &l->lock);
    for (int64_t i = 0; i < l->slots; i++) ts_fetched_clear(&l->slot[i]);
    pthread_mutex_unlock(&l->lock);
}

static void resume_workers(ts_loader *l)
{
    pthread_mutex_lock(&l->lock);
    l->paused = false;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
}

/* ---- epochs ---------------------------------------------------------------------------------- */

static int64_t batches_of(const ts_loader *l, int64_t samples)
{
    int64_t size = l->opt.batch_size;
    return samples / size + (!l->opt.drop_last && samples % size != 0);
}

static ts_status begin_map(ts_loader *l, int64_t epoch, int64_t taken)
{
    TS_TRY(ts_sampler_set_epoch(l->sampler, epoch));
    TS_TRY(ts_sampler_resume(l->sampler, taken));
    l->batches = batches_of(l, ts_sampler_length(l->sampler));
    return TS_OK;
}

/* Samples before `taken` are read and dropped by whoever draws first. */
static ts_status begin_stream(ts_loader *l, int64_t epoch)
{
    const ts_dataset *d = l->dataset;
    if (d->klass->begin) TS_TRY(d->klass->begin(epoch, d->state));
    l->drawn = 0;
    l->stream_ended = false;
    l->batches = INT64_MAX;
    return TS_OK;
}

static ts_status begin_at(ts_loader *l, int64_t epoch, int64_t taken)
{
    pause_workers(l);
    ts_status status = l->sampler ? begin_map(l, epoch, taken) : begin_stream(l, epoch);
    if (status == TS_OK) {
        l->epoch = epoch;
        l->start = taken;
        l->next = l->claimed = 0;
    }
    resume_workers(l);
    return status;
}

/* ---- life ------------------------------------------------------------------------------------ */

static ts_status check(const ts_dataset *d, const ts_loader_options *o)
{
    if (!d) return ts_fail(TS_EINVAL, "loader_new: the dataset is missing (NULL)");
    if (o->batch_size < 1 || o->num_workers < 0 || o->prefetch_factor < 1)
        return ts_fail(TS_EINVAL,
                       "loader_new: batch_size %lld, num_workers %d, prefetch_factor %d cannot be",
                       (long long)o->batch_size, o->num_workers, o->prefetch_factor);
    if (o->num_replicas < 1 || o->rank < 0 || o->rank >= o->num_replicas)
        return ts_fail(TS_EINVAL, "loader_new: rank %d of %d replicas cannot be", o->rank,
                       o->num_replicas);
    if (d->size < 0 && o->shuffle)
        return ts_fail(TS_EINVAL, "loader_new: a stream ('%s') cannot be shuffled", d->klass->name);
    return TS_OK;
}

static ts_status new_sampler(ts_loader *l, uint64_t seed)
{
    ts_sampler *sampler;
    ts_sampler_options opt = TS_SAMPLER_OPTIONS_INIT;
    opt.shuffle = l->opt.shuffle;
    opt.seed = seed;
    TS_TRY(ts_sampler_new(&sampler, l->dataset->size, l->opt.num_replicas, l->opt.rank, &opt));
    ts_sampler_free(l->sampler);
    l->sampler = sampler;
    return TS_OK;
}

static ts_status start_workers(ts_loader *l)
{
    l->thread = ts_calloc((size_t)l->opt.num_workers, sizeof *l->thread);
    if (!l->thread) return ts_fail_memory(sizeof *l->thread, "a loader");
    for (; l->threads < l->opt.num_workers; l->threads++)
        TS_TRY(ts_thread_start(&l->thread[l->threads], "ts-loader", work, l));
    return TS_OK;
}

static ts_status set_up(ts_loader *l)
{
    l->slots = l->opt.num_workers > 0 ? (int64_t)l->opt.num_workers * l->opt.prefetch_factor : 1;
    l->slot = ts_calloc((size_t)l->slots, sizeof *l->slot);
    if (!l->slot) return ts_fail_memory((size_t)l->slots * sizeof *l->slot, "a loader");
    if (l->dataset->size >= 0) TS_TRY(new_sampler(l, l->opt.seed));
    TS_TRY(begin_at(l, 0, 0));
    return l->opt.num_workers > 0 ? start_workers(l) : TS_OK;
}

ts_status ts_loader_new(ts_loader **out, ts_dataset *dataset, const ts_loader_options *opt)
{
    ts_loader_options o = TS_LOADER_OPTIONS_INIT;
    TS_TRY(ts_options_read(&o, sizeof o, opt, "loader_new"));
    TS_TRY(check(dataset, &o));
    ts_loader *l = ts_calloc(1, sizeof *l);
    if (!l) return ts_fail_memory(sizeof *l, "a loader");
    l->dataset = dataset;
    l->opt = o;
    pthread_mutex_init(&l->lock, NULL);
    pthread_mutex_init(&l->draw, NULL);
    pthread_cond_init(&l->changed, NULL);
    ts_status status = set_up(l);
    if (status == TS_OK)
        *out = l;
    else
        ts_loader_free(l);
    return status;
}

void ts_loader_free(ts_loader *l)
{
    if (!l) return;
    pthread_mutex_lock(&l->lock);
    l->stopped = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < l->threads; i++) pthread_join(l->thread[i], NULL);
    for (int64_t i = 0; l->slot && i < l->slots; i++) ts_fetched_clear(&l->slot[i]);
    pthread_mutex_destroy(&l->lock);
    pthread_mutex_destroy(&l->draw);
    pthread_cond_destroy(&l->changed);
    ts_sampler_free(l->sampler);
    free(l->thread);
    free(l->slot);
    free(l);
}

/* ---- the caller ------------------------------------------------------------------------------ */

/* Batch l->next, in a slot that nobody else touches.  NULL: the epoch has no such batch. */
static ts_fetched *wait_for_batch(ts_loader *l)
{
    ts_fetched *slot = &l->slot[l->next % l->slots];
    if (l->opt.num_workers == 0) {
        if (l->next >= l->batches) return NULL;
        if (!l->sampler) pthread_mutex_lock(&l->draw);
        ts_loader_fetch(l, l->next, slot);
        return slot->end ? NULL : slot;
    }
    pthread_mutex_lock(&l->lock);
    while (l->next < l->batches && slot->state != TS_SLOT_READY)
        pthread_cond_wait(&l->changed, &l->lock);
    bool there = l->next < l->batches;
    pthread_mutex_unlock(&l->lock);
    return there ? slot : NULL;
}

static ts_status deliver(ts_tensor **batch, ts_loader *l, ts_fetched *slot)
{
    ts_status status = slot->status;
    if (status != TS_OK) ts_fail_again(status, slot->error ? slot->error : "loader: out of memory");
    for (int f = 0; status == TS_OK && f < l->dataset->klass->fields; f++) {
        batch[f] = ts_scope_give(slot->tensor[f]);
        slot->tensor[f] = NULL;
    }
    pthread_mutex_lock(&l->lock);
    ts_fetched_clear(slot);
    l->next++;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    return status;
}

ts_status ts_loader_next(ts_tensor **batch, bool *more, ts_loader *l)
{
    if (!l || !batch || !more)
        return ts_fail(TS_EINVAL, "loader_next: a loader and places for its results are needed");
    ts_fetched *slot = wait_for_batch(l);
    *more = slot != NULL;
    return slot ? deliver(batch, l, slot) : begin_at(l, l->epoch + 1, 0);
}

ts_loader_state ts_loader_state_of(const ts_loader *l)
{
    if (!l) return (ts_loader_state){0};
    int64_t taken = l->start + l->next * l->opt.batch_size * l->opt.num_replicas;
    return (ts_loader_state){l->epoch, taken, l->opt.seed};
}

ts_status ts_loader_set_state(ts_loader *l, ts_loader_state state)
{
    if (!l) return ts_fail(TS_EINVAL, "loader_set_state: the loader is missing (NULL)");
    if (state.epoch < 0 || state.taken < 0)
        return ts_fail(TS_EINVAL, "loader_set_state: epoch %lld and %lld samples cannot be",
                       (long long)state.epoch, (long long)state.taken);
    pause_workers(l);
    ts_status status = l->sampler ? new_sampler(l, state.seed) : TS_OK;
    if (status == TS_OK) l->opt.seed = state.seed;
    if (status == TS_OK) return begin_at(l, state.epoch, state.taken);
    resume_workers(l);
    return status;
}

int64_t ts_loader_length(const ts_loader *l)
{
    if (!l || !l->sampler) return l ? -1 : 0;
    int64_t replicas = l->opt.num_replicas, size = l->dataset->size;
    return batches_of(l, size / replicas + (size % replicas != 0));
}

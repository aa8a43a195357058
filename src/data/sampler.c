/* SPDX-License-Identifier: Apache-2.0 */
/* Which samples a rank reads in an epoch, in which order. */
#include <stdlib.h>
#include <tessera/data.h>
#include <tessera/random.h>

#include "base/memory.h"
#include "base/options.h"

struct ts_sampler {
    int64_t size;   /* of the dataset */
    int64_t start;  /* where the list begins: what of the epoch was taken before */
    int64_t length; /* samples of this rank from there on */
    int64_t replicas, rank;
    uint64_t seed;
    bool drop_last;
    int64_t *order; /* the epoch's permutation; NULL: as they come */
};

/* Positions of the padded or cut list per rank. */
static int64_t samples_per_rank(int64_t size, int64_t replicas, bool drop_last)
{
    return drop_last ? size / replicas : size / replicas + (size % replicas != 0);
}

static ts_status check(int64_t size, int replicas, int rank)
{
    if (size < 0)
        return ts_fail(TS_EINVAL, "sampler: a dataset cannot have %lld samples", (long long)size);
    if (replicas < 1)
        return ts_fail(TS_EINVAL, "sampler: %d replicas; at least 1 is needed", replicas);
    if (rank < 0 || rank >= replicas)
        return ts_fail(TS_EINVAL, "sampler: rank %d is not in 0 .. %d", rank, replicas - 1);
    return TS_OK;
}

ts_status ts_sampler_new(ts_sampler **out, int64_t dataset_size, int num_replicas, int rank,
                         const ts_sampler_options *opt)
{
    ts_sampler_options o = TS_SAMPLER_OPTIONS_INIT;
    TS_TRY(ts_options_read(&o, sizeof o, opt, "sampler_new"));
    TS_TRY(check(dataset_size, num_replicas, rank));
    ts_sampler *s = ts_calloc(1, sizeof *s);
    if (!s) return ts_fail_memory(sizeof *s, "a sampler");
    s->size = dataset_size;
    s->replicas = num_replicas;
    s->rank = rank;
    s->seed = o.seed;
    s->drop_last = o.drop_last;
    ts_status status = TS_OK;
    if (o.shuffle && !(s->order = ts_calloc((size_t)dataset_size, sizeof *s->order)))
        status = ts_fail_memory((size_t)dataset_size * sizeof *s->order, "the order of a dataset");
    if (status == TS_OK) status = ts_sampler_set_epoch(s, 0);
    if (status != TS_OK) {
        ts_sampler_free(s);
        return status;
    }
    *out = s;
    return TS_OK;
}

void ts_sampler_free(ts_sampler *sampler)
{
    if (!sampler) return;
    free(sampler->order);
    free(sampler);
}

ts_status ts_sampler_set_epoch(ts_sampler *sampler, int64_t epoch)
{
    if (!sampler) return ts_fail(TS_EINVAL, "sampler_set_epoch: the sampler is missing (NULL)");
    if (sampler->order)
        TS_TRY(ts_permutation(sampler->order, sampler->size, sampler->seed + (uint64_t)epoch));
    return ts_sampler_resume(sampler, 0);
}

ts_status ts_sampler_resume(ts_sampler *s, int64_t taken)
{
    if (!s) return ts_fail(TS_EINVAL, "sampler_resume: the sampler is missing (NULL)");
    if (taken < 0)
        return ts_fail(TS_EINVAL, "sampler_resume: %lld samples cannot have been taken",
                       (long long)taken);
    s->start = taken < s->size ? taken : s->size; /* padding may have been taken too */
    s->length = samples_per_rank(s->size - s->start, s->replicas, s->drop_last);
    return TS_OK;
}

int64_t ts_sampler_length(const ts_sampler *sampler) { return sampler ? sampler->length : 0; }

/* Place of sample i in the list that all ranks share; -1 out of range. */
static int64_t position(const ts_sampler *s, int64_t i)
{
    return s && i >= 0 && i < s->length ? s->start + s->rank + i * s->replicas : -1;
}

int64_t ts_sampler_index(const ts_sampler *sampler, int64_t i)
{
    int64_t at = position(sampler, i);
    if (at < 0) return -1;
    at %= sampler->size; /* padding repeats the list from its start */
    return sampler->order ? sampler->order[at] : at;
}

bool ts_sampler_is_padding(const ts_sampler *sampler, int64_t i)
{
    int64_t at = position(sampler, i);
    return at >= 0 && at >= sampler->size;
}

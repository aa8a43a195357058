/* SPDX-License-Identifier: Apache-2.0 */
/* How a batch comes about: which samples, getting them, joining them. */
#include <stdlib.h>
#include <string.h>
#include <tessera/ops.h>
#include <tessera/scope.h>

#include "data/loader_impl.h"
#include "tensor/tensor.h"

/* splitmix64 (Steele et al., 2014) over the three numbers. */
static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static ts_sample_id make_id(const ts_loader *l, int64_t index)
{
    uint64_t seed = mix(mix(mix(l->opt.seed) + (uint64_t)l->epoch) + (uint64_t)index);
    return (ts_sample_id){index, l->epoch, seed};
}

static ts_status check_all(ts_tensor *const *tensor, int64_t n, const char *name)
{
    for (int64_t i = 0; i < n; i++) TS_TRY(ts_tensor_check(tensor[i], name));
    return TS_OK;
}

/* Field f of every sample, along a new first dimension. */
static ts_status stack_field(ts_tensor **out, ts_tensor *const *sample, int64_t count, int fields,
                             int f)
{
    const ts_tensor *first = sample[f];
    ts_spec spec = {.shape.ndim = first->shape.ndim + 1, .dtype = (ts_dtype)first->dtype};
    if (first->shape.ndim == TS_MAX_DIMS)
        return ts_fail(TS_ESHAPE, "loader: a sample has %d dimensions; a batch has one more",
                       TS_MAX_DIMS);
    spec.shape.dim[0] = count;
    memcpy(spec.shape.dim + 1, first->shape.dim, (size_t)first->shape.ndim * sizeof(int64_t));
    *out = ts_tensor_new(&spec, TS_MEMORY_HEAP, TS_CATEGORY_ACTIVATION);
    TS_TRY(ts_tensor_check(*out, "loader: a batch"));
    for (int64_t i = 0; i < count; i++) {
        const ts_tensor *t = sample[i * fields + f];
        char a[TS_SHAPE_TEXT], b[TS_SHAPE_TEXT];
        if (!ts_shape_equal(t->shape, first->shape) || t->dtype != first->dtype)
            return ts_fail(
                TS_ESHAPE,
                "loader: the samples of a batch differ: %s %s and %s %s; give a collate "
                "function that joins them",
                ts_dtype_name((ts_dtype)first->dtype), ts_shape_format(a, sizeof a, first->shape),
                ts_dtype_name((ts_dtype)t->dtype), ts_shape_format(b, sizeof b, t->shape));
        TS_TRY(ts_tensor_copy_data(ts_select(*out, 0, i), t));
    }
    return TS_OK;
}

static ts_status stack(ts_tensor **batch, ts_tensor *const *sample, int64_t count, int fields)
{
    for (int f = 0; f < fields; f++) TS_TRY(stack_field(&batch[f], sample, count, fields, f));
    return TS_OK;
}

static ts_status join(ts_tensor **batch, const ts_loader *l, ts_tensor *const *sample,
                      int64_t count)
{
    int fields = l->dataset->klass->fields;
    TS_TRY(check_all(sample, count * fields, l->dataset->klass->name));
    if (l->opt.collate) return l->opt.collate(batch, sample, count, fields, l->opt.collate_user);
    return stack(batch, sample, count, fields);
}

static ts_tensor **new_samples(const ts_loader *l, int64_t count)
{
    size_t n = (size_t)(count * l->dataset->klass->fields);
    ts_tensor **sample = ts_calloc(n, sizeof *sample);
    if (!sample) ts_fail_memory(n * sizeof *sample, "the samples of a batch");
    return sample;
}

/* ---- maps ------------------------------------------------------------------------------------ */

static ts_status get_each(ts_tensor **batch, const ts_loader *l, const ts_sample_id *id, int64_t n)
{
    const ts_dataset *d = l->dataset;
    ts_tensor **sample = new_samples(l, n);
    if (!sample) return TS_ENOMEM;
    ts_status status = TS_OK;
    for (int64_t i = 0; i < n && status == TS_OK; i++)
        status = d->klass->get(sample + i * d->klass->fields, &id[i], d->state);
    if (status == TS_OK) status = join(batch, l, sample, n);
    free(sample);
    return status;
}

static ts_status fetch_map(ts_tensor **batch, const ts_loader *l, int64_t b)
{
    const ts_dataset *d = l->dataset;
    int64_t first = b * l->opt.batch_size, n = ts_sampler_length(l->sampler) - first;
    if (n > l->opt.batch_size) n = l->opt.batch_size;
    ts_sample_id *id = ts_calloc((size_t)n, sizeof *id);
    if (!id) return ts_fail_memory((size_t)n * sizeof *id, "a batch");
    for (int64_t i = 0; i < n; i++) id[i] = make_id(l, ts_sampler_index(l->sampler, first + i));
    bool at_once = d->klass->get_batch && (!l->opt.collate || !d->klass->get);
    ts_status status =
        at_once ? d->klass->get_batch(batch, id, n, d->state) : get_each(batch, l, id, n);
    free(id);
    return status;
}

/* ---- streams --------------------------------------------------------------------------------- */

/* The next sample of this rank; *end if there is none. */
static ts_status draw_one(ts_tensor **sample, bool *end, ts_loader *l)
{
    for (;;) {
        *end = l->stream_ended;
        if (*end) return TS_OK;
        ts_scope scope = ts_scope_begin();
        int64_t place = l->drawn - l->start;
        ts_status status = l->dataset->klass->next(sample, end, l->dataset->state);
        bool mine = place >= 0 && place % l->opt.num_replicas == l->opt.rank;
        bool keep = status == TS_OK && !*end && mine;
        for (int f = 0; keep && f < l->dataset->klass->fields; f++) ts_retain(sample[f]);
        ts_scope_end(scope);
        l->stream_ended = *end;
        if (!*end) l->drawn++;
        if (status != TS_OK || *end || mine) return status;
    }
}

static ts_status draw(ts_tensor **sample, int64_t *count, ts_loader *l)
{
    int fields = l->dataset->klass->fields;
    bool end = false;
    for (*count = 0; *count < l->opt.batch_size; ++*count) {
        TS_TRY(draw_one(sample + *count * fields, &end, l));
        if (end) break;
        for (int f = 0; f < fields; f++) ts_scope_give(sample[*count * fields + f]);
    }
    return TS_OK;
}

/* The caller holds the draw lock, which is let go when the samples are there. */
static ts_status fetch_stream(ts_tensor **batch, bool *end, ts_loader *l)
{
    int64_t count = 0;
    ts_tensor **sample = new_samples(l, l->opt.batch_size);
    ts_status status = sample ? draw(sample, &count, l) : TS_ENOMEM;
    pthread_mutex_unlock(&l->draw);
    *end = status == TS_OK && (count == 0 || (l->opt.drop_last && count < l->opt.batch_size));
    if (status == TS_OK && !*end) status = join(batch, l, sample, count);
    free(sample);
    return status;
}

/* ---- both ------------------------------------------------------------------------------------ */

void ts_loader_fetch(ts_loader *l, int64_t b, ts_fetched *slot)
{
    ts_tensor *batch[TS_SAMPLE_FIELDS] = {0};
    int fields = l->dataset->klass->fields;
    ts_scope scope = ts_scope_begin();
    ts_status status = l->sampler ? fetch_map(batch, l, b) : fetch_stream(batch, &slot->end, l);
    if (status == TS_OK && !slot->end) status = check_all(batch, fields, l->dataset->klass->name);
    slot->status = status;
    if (status != TS_OK) slot->error = ts_strdup(ts_error_last());
    for (int f = 0; status == TS_OK && !slot->end && f < fields; f++)
        slot->tensor[f] = ts_retain(batch[f]);
    ts_scope_end(scope);
}

void ts_fetched_clear(ts_fetched *slot)
{
    free(slot->error);
    for (int f = 0; f < TS_SAMPLE_FIELDS; f++) ts_release(slot->tensor[f]);
    *slot = (ts_fetched){0};
}

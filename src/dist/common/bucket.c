/* SPDX-License-Identifier: Apache-2.0 */
/* Cutting a list of tensors into buckets, and flat buffers over each. */
#include "dist/common/bucket.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* A bucket while it is being filled. */
typedef struct draft {
    int first, last; /* chain through next[] */
    int64_t bytes;
    int closed; /* order of closing; -1: open */
} draft;

typedef struct planner {
    draft *drafts;
    int *next; /* by tensor index */
    int num_drafts, num_closed;
    int open[TS_NUM_DTYPES]; /* draft that takes the dtype's next tensor; -1 */
    int cap[TS_NUM_DTYPES];  /* position in the list of caps */
} planner;

static void append(planner *p, int tensor, ts_dtype dtype, int64_t bytes)
{
    if (p->open[dtype] < 0) {
        p->open[dtype] = p->num_drafts;
        p->drafts[p->num_drafts++] = (draft){tensor, tensor, 0, -1};
    } else {
        draft *d = &p->drafts[p->open[dtype]];
        p->next[d->last] = tensor;
        d->last = tensor;
    }
    p->next[tensor] = -1;
    p->drafts[p->open[dtype]].bytes += bytes;
}

static void close_if_full(planner *p, ts_dtype dtype, const int64_t *caps, int num_caps)
{
    draft *d = &p->drafts[p->open[dtype]];
    if (d->bytes < caps[p->cap[dtype]]) return;
    d->closed = p->num_closed++;
    p->open[dtype] = -1;
    if (p->cap[dtype] < num_caps - 1) p->cap[dtype]++;
}

static int emit(ts_bucket_plan *plan, const planner *p, int bucket, int at, int draft_index)
{
    plan->start[bucket] = at;
    for (int t = p->drafts[draft_index].first; t >= 0; t = p->next[t]) plan->index[at++] = t;
    return at;
}

static void write_plan(ts_bucket_plan *plan, const planner *p)
{
    int at = 0, bucket = 0;
    for (int order = 0; order < p->num_closed; order++)
        for (int i = 0; i < p->num_drafts; i++)
            if (p->drafts[i].closed == order) at = emit(plan, p, bucket++, at, i);
    for (int i = 0; i < p->num_drafts; i++)
        if (p->drafts[i].closed < 0) at = emit(plan, p, bucket++, at, i);
    plan->start[bucket] = at;
    plan->num_buckets = bucket;
}

ts_status ts_bucket_plan_make(ts_bucket_plan *out, ts_tensor *const *tensors, const int *order,
                              int n, const int64_t *caps, int num_caps)
{
    planner p = {.drafts = ts_calloc((size_t)n, sizeof *p.drafts),
                 .next = ts_calloc((size_t)n, sizeof *p.next)};
    ts_bucket_plan plan = {.num_tensors = n,
                           .start = ts_calloc((size_t)n + 1, sizeof *plan.start),
                           .index = ts_calloc((size_t)n, sizeof *plan.index)};
    ts_status status = TS_OK;
    if (p.drafts && p.next && plan.start && plan.index) {
        memset(p.open, -1, sizeof p.open);
        for (int i = 0; i < n; i++) {
            const ts_tensor *t = tensors[order[i]];
            append(&p, order[i], (ts_dtype)t->dtype, (int64_t)ts_nbytes(t));
            close_if_full(&p, (ts_dtype)t->dtype, caps, num_caps);
        }
        write_plan(&plan, &p);
        *out = plan;
    } else {
        ts_bucket_plan_fini(&plan);
        status = ts_fail_memory((size_t)n * 4 * sizeof(int), "a bucket plan");
    }
    free(p.drafts);
    free(p.next);
    return status;
}

void ts_bucket_plan_fini(ts_bucket_plan *plan)
{
    free(plan->start);
    free(plan->index);
    *plan = (ts_bucket_plan){0};
}

/* ---- flat buffers ---------------------------------------------------------------------------- */

ts_status ts_flat_make(ts_flat *out, ts_tensor *const *tensors, const int *index, int n,
                       ts_memory memory, ts_category category)
{
    int64_t total = 0;
    for (int i = 0; i < n; i++) total += tensors[index[i]]->numel;
    ts_spec spec = {TS_SHAPE(total), (ts_dtype)tensors[index[0]]->dtype, TS_CPU};

    ts_flat flat = {.n = n, .view = ts_calloc((size_t)n, sizeof *flat.view)};
    if (!flat.view) return ts_fail_memory((size_t)n * sizeof *flat.view, "bucket views");
    flat.buffer = ts_tensor_new_owned(&spec, memory, category);
    ts_status status = ts_tensor_check(flat.buffer, "bucket");
    int64_t offset = 0;
    for (int i = 0; i < n && status == TS_OK; i++) {
        ts_spec like = ts_tensor_spec(tensors[index[i]]);
        flat.view[i] = ts_tensor_over(flat.buffer->storage, &like, offset);
        status = ts_tensor_check(flat.view[i], "bucket view");
        offset += tensors[index[i]]->numel;
    }
    if (status != TS_OK) {
        ts_flat_fini(&flat);
        return status;
    }
    if (ts_nbytes(flat.buffer) > 0) memset(ts_tensor_bytes(flat.buffer), 0, ts_nbytes(flat.buffer));
    *out = flat;
    return TS_OK;
}

void ts_flat_fini(ts_flat *flat)
{
    for (int i = 0; i < flat->n && flat->view; i++) ts_release(flat->view[i]);
    free(flat->view);
    ts_release(flat->buffer);
    *flat = (ts_flat){0};
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Clipping by the joint norm. */
#include <math.h>
#include <tessera/optim.h>

#include "base/thread.h"
#include "kernels/optim.h"
#include "optim/chunks.h"
#include "tensor/tensor.h"

/* Chunks are shared out to SLOTS partial sums by their numbers alone, so the bits of the norm do
 * not depend on threads. */
enum { SLOTS = 64 };

typedef struct norm_job {
    const ts_chunks *chunks;
    double p;
    double partial[SLOTS];
} norm_job;

typedef struct accumulator {
    double p, value;
} accumulator;

static double sum_powers(const ts_chunk_item *item, int64_t begin, int64_t end, double p)
{
    double sum = 0;
    if (item->dtype == TS_FLOAT32)
        for (int64_t i = begin; i < end; i++)
            sum += pow(fabs((double)((const float *)item->data)[i]), p);
    else
        for (int64_t i = begin; i < end; i++) sum += pow(fabs(((const double *)item->data)[i]), p);
    return sum;
}

static void add_piece(const ts_chunk_item *item, int64_t begin, int64_t end, void *user)
{
    accumulator *a = user;
    const ts_optim_kernels *kernels = ts_optim_kernels_for(item->dtype);
    const char *data = (const char *)item->data + begin * (int64_t)ts_dtype_size(item->dtype);
    if (isinf(a->p)) {
        double most = kernels->max_abs(data, end - begin);
        if (!(most <= a->value)) a->value = isnan(a->value) ? a->value : most;
    } else if (a->p == 2.0) {
        a->value += kernels->sum_squares(data, end - begin);
    } else if (a->p == 1.0) {
        a->value += kernels->sum_abs(data, end - begin);
    } else {
        a->value += sum_powers(item, begin, end, a->p);
    }
}

static void sum_slots(int64_t begin, int64_t end, void *user)
{
    norm_job *job = user;
    for (int64_t s = begin; s < end; s++) {
        accumulator a = {.p = job->p};
        int64_t first = job->chunks->chunks * s / SLOTS,
                last = job->chunks->chunks * (s + 1) / SLOTS;
        if (first < last) ts_chunks_walk(job->chunks, first, last, add_piece, &a);
        job->partial[s] = a.value;
    }
}

static double joint_norm(const ts_chunks *chunks, double p)
{
    norm_job job = {.chunks = chunks, .p = p};
    double total = 0;
    if (chunks->chunks == 0) return 0;
    ts_parallel_for(SLOTS, 1, sum_slots, &job);
    for (int s = 0; s < SLOTS; s++) {
        if (!isinf(p))
            total += job.partial[s];
        else if (!(job.partial[s] <= total))
            total = isnan(total) ? total : job.partial[s];
    }
    if (isinf(p) || p == 1.0) return total;
    return p == 2.0 ? sqrt(total) : pow(total, 1.0 / p);
}

typedef struct scale_job {
    const ts_chunks *chunks;
    double factor;
} scale_job;

static void scale_piece(const ts_chunk_item *item, int64_t begin, int64_t end, void *user)
{
    const scale_job *job = user;
    char *data = (char *)item->data + begin * (int64_t)ts_dtype_size(item->dtype);
    ts_optim_kernels_for(item->dtype)->scale(data, job->factor, end - begin);
}

static void scale_chunks(int64_t begin, int64_t end, void *user)
{
    scale_job *job = user;
    ts_chunks_walk(job->chunks, begin, end, scale_piece, job);
}

static ts_status scale_all(const ts_chunks *chunks, double max_norm, double norm)
{
    double factor = max_norm / (norm + 1e-6);
    if (factor >= 1.0 || chunks->chunks == 0) return TS_OK;
    scale_job job = {chunks, factor};
    ts_parallel_for(chunks->chunks, 1, scale_chunks, &job);
    return ts_chunks_finish(chunks);
}

static void clamp_piece(const ts_chunk_item *item, int64_t begin, int64_t end, void *user)
{
    const scale_job *job = user;
    char *data = (char *)item->data + begin * (int64_t)ts_dtype_size(item->dtype);
    ts_optim_kernels_for(item->dtype)->clamp(data, job->factor, end - begin);
}

static void clamp_chunks(int64_t begin, int64_t end, void *user)
{
    scale_job *job = user;
    ts_chunks_walk(job->chunks, begin, end, clamp_piece, job);
}

static ts_status clamp_all(const ts_chunks *chunks, double value)
{
    scale_job job = {chunks, value};
    if (chunks->chunks == 0) return TS_OK;
    ts_parallel_for(chunks->chunks, 1, clamp_chunks, &job);
    return ts_chunks_finish(chunks);
}

/* What is to be done with the gradients. */
typedef struct clip_job {
    const char *op;
    double p, limit, norm;
    enum { NORM_ONLY, CLIP_NORM, WITH_NORM, CLIP_VALUE } what;
} clip_job;

static ts_status clip_chunks(clip_job *job, ts_chunks *chunks, const ts_tensor_list *parameters)
{
    TS_TRY(ts_chunks_collect(chunks, parameters, true, job->op));
    if (job->what == CLIP_VALUE) return clamp_all(chunks, job->limit);
    if (job->what != WITH_NORM) job->norm = joint_norm(chunks, job->p);
    return job->what == NORM_ONLY ? TS_OK : scale_all(chunks, job->limit, job->norm);
}

static ts_status clip(clip_job *job, const ts_tensor_list *parameters)
{
    ts_chunks chunks;
    if (!parameters)
        return ts_fail(TS_EINVAL, "%s: the list of parameters is missing (NULL)", job->op);
    if (!(job->limit >= 0.0))
        return ts_fail(TS_EINVAL, "%s: %s is %g; it must be >= 0", job->op,
                       job->what == CLIP_VALUE ? "value" : "max_norm", job->limit);
    if (!(job->p > 0.0))
        return ts_fail(TS_EINVAL, "%s: p is %g; it must be above 0", job->op, job->p);
    TS_TRY(ts_chunks_init(&chunks, ts_tensor_list_count(parameters), job->op));
    ts_scope scope = ts_scope_begin();
    ts_status status = clip_chunks(job, &chunks, parameters);
    ts_scope_end(scope);
    ts_chunks_fini(&chunks);
    return status;
}

ts_status ts_clip_grad_norm(double *norm, const ts_tensor_list *parameters, double max_norm,
                            double p)
{
    clip_job job = {.op = "clip_grad_norm", .p = p, .limit = max_norm, .what = CLIP_NORM};
    TS_TRY(clip(&job, parameters));
    if (norm) *norm = job.norm;
    return TS_OK;
}

ts_status ts_grad_norm(double *norm, const ts_tensor_list *parameters, double p,
                       bool error_if_nonfinite)
{
    clip_job job = {.op = "grad_norm", .p = p, .what = NORM_ONLY};
    TS_TRY(clip(&job, parameters));
    *norm = job.norm;
    if (error_if_nonfinite && !isfinite(job.norm))
        return ts_fail(TS_EINVAL, "grad_norm: the norm is %g, not finite", job.norm);
    return TS_OK;
}

ts_status ts_clip_grads_with_norm(const ts_tensor_list *parameters, double max_norm, double norm)
{
    clip_job job = {"clip_grads_with_norm", 2.0, max_norm, norm, WITH_NORM};
    return clip(&job, parameters);
}

ts_status ts_clip_grad_value(const ts_tensor_list *parameters, double value)
{
    clip_job job = {.op = "clip_grad_value", .p = 2.0, .limit = value, .what = CLIP_VALUE};
    return clip(&job, parameters);
}

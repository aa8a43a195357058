/* SPDX-License-Identifier: Apache-2.0 */
/* y = x / (1 - p) where u >= p, else 0, with u the uniform number of the element.  Only the
 * generator's state is kept; backward draws the same numbers. */
#include "ops/nn_impl.h"
#include "tensor/random.h"

enum { AT_P, AT_SEED, AT_OFFSET, NUM_ATTRS };
enum { PART = 4096, BUFFER = 512 };

static ts_status dropout_infer(const ts_op_call *call, ts_spec *out)
{
    TS_TRY(ts_need_float("dropout", "input", call->in[0]));
    *out = ts_tensor_spec(call->in[0]);
    return TS_OK;
}

typedef struct drop_job {
    const void *x;
    void *y;
    bool f64;
    double p;
    ts_generator_state state;
} drop_job;

static void drop_part(int64_t begin, int64_t end, void *user)
{
    const drop_job *job = user;
    float u[BUFFER];
    double scale = job->p < 1 ? 1 / (1 - job->p) : 0;
    for (int64_t i = begin; i < end; i += BUFFER) {
        int64_t n = end - i < BUFFER ? end - i : BUFFER;
        ts_kernel_uniform_f32(u, n, job->state.seed, job->state.offset + (uint64_t)i);
        for (int64_t j = 0; j < n; j++) {
            bool keep = (double)u[j] >= job->p;
            if (job->f64)
                ((double *)job->y)[i + j] = keep ? ((const double *)job->x)[i + j] * scale : 0;
            else
                ((float *)job->y)[i + j] = keep ? ((const float *)job->x)[i + j] * (float)scale : 0;
        }
    }
}

static ts_status dropout_kernel(ts_op_call *call)
{
    ts_tensor *x = ts_row_major(call->in[0]), *y = call->out[0];
    TS_TRY(ts_tensor_check(x, "dropout"));
    if (y->numel == 0) return TS_OK;
    drop_job job = {.x = ts_tensor_bytes(x), .y = ts_tensor_bytes(y), .p = call->attr[AT_P].f};
    job.f64 = y->dtype == TS_FLOAT64;
    job.state.seed = (uint64_t)call->attr[AT_SEED].i;
    job.state.offset = (uint64_t)call->attr[AT_OFFSET].i;
    ts_parallel_for(y->numel, PART, drop_part, &job);
    return TS_OK;
}

static ts_tensor *drop(ts_tensor *x, double p, ts_generator_state state);

/* The map is linear: its gradient is the same map. */
static ts_status dropout_backward(const ts_backward_call *call)
{
    ts_generator_state state = {(uint64_t)call->attr[AT_SEED].i, (uint64_t)call->attr[AT_OFFSET].i};
    call->grad_in[0] = drop(call->grad_out[0], call->attr[AT_P].f, state);
    return TS_OK;
}

static const ts_op_def dropout_row = {.name = "dropout",
                                      .flags = TS_OP_RANDOM,
                                      .num_out = 1,
                                      .infer = dropout_infer,
                                      .kernel = {[TS_CPU] = dropout_kernel},
                                      .backward = dropout_backward};

static ts_tensor *drop(ts_tensor *x, double p, ts_generator_state state)
{
    ts_op_call call = {.def = &dropout_row, .in = &x, .num_in = 1, .num_attrs = NUM_ATTRS};
    call.attr[AT_P].f = p;
    call.attr[AT_SEED].i = (int64_t)state.seed;
    call.attr[AT_OFFSET].i = (int64_t)state.offset;
    return ts_dispatch(&call);
}

ts_tensor *ts_dropout(ts_tensor *x, double p, bool training)
{
    if (!x || ts_failed(x)) return ts_dispatch1(&dropout_row, x);
    if (!(p >= 0 && p <= 1))
        return ts_fail_tensor(TS_EINVAL, "dropout: p is %g; it must be in 0 .. 1", p);
    if (!ts_dtype_is_floating((ts_dtype)x->dtype))
        return ts_fail_tensor(TS_EDTYPE, "dropout: input is %s; it must be floating point",
                              ts_dtype_name((ts_dtype)x->dtype));
    if (!training || p == 0) return x;
    if (ts_is_half(x)) return ts_to_dtype(ts_dropout(ts_half_up(x), p, true), (ts_dtype)x->dtype);
    return drop(x, p, ts_generator_reserve(x->numel));
}

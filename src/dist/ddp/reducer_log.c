/* SPDX-License-Identifier: Apache-2.0 */
/* What the log tells of a data-parallel module: how it was made, and how long its parts take. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/debug.h>

#include "base/log.h"
#include "dist/ddp/reducer_impl.h"

static void append(char *text, size_t size, const char *format, ...) TS_PRINTF(3, 4);
static void append(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

/* ---- construction ---------------------------------------------------------------------------- */

static void append_dtypes(char *text, size_t size, const ts_reducer *r)
{
    bool seen[TS_NUM_DTYPES] = {false}, first = true;
    for (int i = 0; i < r->num_params; i++) {
        ts_dtype dtype = ts_tensor_dtype(r->params[i].tensor);
        if (seen[dtype]) continue;
        append(text, size, "%s%s", first ? "" : " ", ts_dtype_name(dtype));
        seen[dtype] = true;
        first = false;
    }
}

static void append_buckets(char *text, size_t size, const ts_reducer *r)
{
    for (int b = 0; b < r->plan.num_buckets; b++)
        append(text, size, "%s%zu", b ? " " : "", ts_nbytes(r->buckets[b].flat.buffer));
}

static void append_environment(char *text, size_t size)
{
    static const char *const names[] = {"MASTER_ADDR",          "MASTER_PORT",
                                        "TESSERA_DEBUG",        "TORCH_DISTRIBUTED_DEBUG",
                                        "CUDA_VISIBLE_DEVICES", "GLOO_SOCKET_IFNAME",
                                        "NCCL_SOCKET_IFNAME",   "NCCL_DEBUG",
                                        "NCCL_IB_DISABLE",      "NCCL_NTHREADS"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        append(text, size, ", %s=%.100s", names[i], value && *value ? value : "N/A");
    }
}

void ts_reducer_log_creation(const ts_reducer *r, const char *module, bool broadcast_buffers)
{
    char text[3072] = "";
    int64_t bytes = 0;
    if (ts_get_debug_level() < TS_DEBUG_INFO || !ts_log_enabled(TS_LOG_DDP, TS_LEVEL_INFO)) return;
    for (int i = 0; i < r->num_params; i++) bytes += (int64_t)ts_nbytes(r->params[i].tensor);
    append(text, sizeof text,
           "module %s, rank %d of %d, iteration 0, %d parameters of %lld bytes, dtypes ", module,
           ts_group_rank(r->group), ts_group_size(r->group), r->num_params, (long long)bytes);
    append_dtypes(text, sizeof text, r);
    append(text, sizeof text, ", bucket sizes ");
    append_buckets(text, sizeof text, r);
    append(text, sizeof text,
           ", bucket caps %lld and %lld, broadcast_buffers %d, find_unused_parameters 0, "
           "gradient_as_bucket_view 1, static_graph 0, devices cpu, backend %s",
           (long long)r->caps[0], (long long)r->caps[1], broadcast_buffers,
           ts_group_backend(r->group));
    append_environment(text, sizeof text);
    TS_LOG(TS_LOG_DDP, TS_LEVEL_INFO, "made: %s", text);
}

void reducer_log_rebuild(const ts_reducer *r)
{
    char text[1024] = "";
    if (ts_get_debug_level() < TS_DEBUG_INFO || !ts_log_enabled(TS_LOG_DDP, TS_LEVEL_INFO)) return;
    append_buckets(text, sizeof text, r);
    TS_LOG(TS_LOG_DDP, TS_LEVEL_INFO, "buckets rebuilt in the order of gradients: %s bytes", text);
}

/* ---- run time -------------------------------------------------------------------------------- */

enum { FIRST_ONES = 10, THEN_EVERY = 100 };

static bool is_sampled(int64_t iteration)
{
    return iteration <= FIRST_ONES || iteration % THEN_EVERY == 0;
}

static int64_t unused_bytes(const ts_reducer *r)
{
    int64_t bytes = 0;
    for (int i = 0; i < r->num_params; i++)
        if (!r->params[i].ready) bytes += (int64_t)ts_nbytes(r->params[i].tensor);
    return bytes;
}

void reducer_log_times(ts_reducer *r, int64_t computed_ns, int64_t reduced_ns)
{
    reducer_times *t = &r->times;
    int64_t iteration = r->iterations + 1;
    if (ts_get_debug_level() < TS_DEBUG_DETAIL || !is_sampled(iteration)) return;
    t->samples++;
    t->forward_ns += r->armed_ns - r->forward_ns;
    t->backward_ns += computed_ns - r->armed_ns;
    t->communication_ns += reduced_ns - r->launched_ns;
    if (computed_ns > r->launched_ns) t->overlap_ns += computed_ns - r->launched_ns;
    TS_LOG(TS_LOG_DDP, TS_LEVEL_INFO,
           "iteration %lld: unused parameters %lld bytes, means of %lld: forward %lld ns, backward "
           "%lld ns, communication %lld ns, overlap %lld ns",
           (long long)iteration, (long long)unused_bytes(r), (long long)t->samples,
           (long long)(t->forward_ns / t->samples), (long long)(t->backward_ns / t->samples),
           (long long)(t->communication_ns / t->samples), (long long)(t->overlap_ns / t->samples));
}

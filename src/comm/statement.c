/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/statement.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/shape.h>

#include "base/context.h"
#include "base/error.h"
#include "base/memory.h"
#include "comm/names.h"

/* A ts_statement from inside.  Fields that an operation does not use are 0. */
typedef struct said {
    uint64_t digest, pairs;
    uint8_t op, dtype, reduce, ndim;
    int32_t root, status, reserved;
    int64_t count;        /* elements of all parts, or of the tensor */
    int64_t gives, takes; /* elements, where sizes agree in pairs */
    int64_t dim[TS_MAX_DIMS];
    char cause[376];
} said;
_Static_assert(sizeof(said) <= sizeof(ts_statement), "a statement has room");

/* ---- digests --------------------------------------------------------------------------------- */

/* A finaliser with good avalanche (splitmix64). */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Not symmetric: a pair must differ from its reverse. */
static uint64_t add(uint64_t hash, uint64_t value)
{
    return mix((hash + 1) * 0x9e3779b97f4a7c15u + value);
}

static uint64_t pair(int from, int to, int64_t count)
{
    return add(add((uint64_t)from, (uint64_t)to), (uint64_t)count);
}

static int64_t total(const ts_buffer *parts, int size)
{
    int64_t count = 0;
    for (int i = 0; parts && i < size; i++) count += parts[i].count;
    return count;
}

static int64_t count_of(const ts_coll *coll, int size)
{
    return coll->parts ? total(coll->parts, size) : coll->tensor.count;
}

uint64_t ts_call_pairs(const ts_coll *coll, int rank, int size)
{
    uint64_t sum = 0;
    bool gather = coll->op == TS_COLL_GATHER, scatter = coll->op == TS_COLL_SCATTER;
    if (coll->status != TS_OK) return 0;
    if (gather) sum += pair(rank, coll->root, coll->tensor.count);
    if (scatter) sum -= pair(coll->root, rank, coll->tensor.count);
    for (int q = 0; coll->parts && q < size; q++)
        sum +=
            gather ? 0 - pair(q, rank, coll->parts[q].count) : pair(rank, q, coll->parts[q].count);
    for (int q = 0; coll->received && q < size; q++) sum -= pair(q, rank, coll->received[q].count);
    return sum;
}

uint64_t ts_call_digest(const ts_coll *coll, int rank, int size, uint64_t *pairs)
{
    int fields = ts_collective_agreement(coll->op);
    uint64_t hash = add((uint64_t)coll->op, coll->sequence);
    if (fields & TS_AGREE_DTYPE) hash = add(hash, (uint64_t)coll->dtype);
    if (fields & TS_AGREE_REDUCE) hash = add(hash, (uint64_t)coll->reduce);
    if (fields & TS_AGREE_ROOT) hash = add(hash, (uint64_t)coll->root);
    if (fields & TS_AGREE_COUNT) hash = add(hash, (uint64_t)count_of(coll, size));
    for (int q = 0; fields & TS_AGREE_PARTS && coll->parts && q < size; q++)
        hash = add(hash, (uint64_t)coll->parts[q].count);
    *pairs = fields & TS_AGREE_PAIRS ? ts_call_pairs(coll, rank, size) : 0;
    return hash;
}

void ts_statement_make(ts_statement *out, const ts_coll *coll, int rank, int size)
{
    said s = {.op = (uint8_t)coll->op,
              .dtype = (uint8_t)coll->dtype,
              .reduce = (uint8_t)coll->reduce,
              .ndim = (uint8_t)coll->shape.ndim,
              .root = coll->root,
              .status = coll->status,
              .count = count_of(coll, size)};
    s.digest = ts_call_digest(coll, rank, size, &s.pairs);
    s.gives = coll->op == TS_COLL_GATHER ? coll->tensor.count : total(coll->parts, size);
    s.takes = coll->op == TS_COLL_GATHER    ? total(coll->parts, size)
              : coll->op == TS_COLL_SCATTER ? coll->tensor.count
                                            : total(coll->received, size);
    memcpy(s.dim, coll->shape.dim, (size_t)coll->shape.ndim * sizeof *s.dim);
    if (coll->status != TS_OK)
        snprintf(s.cause, sizeof s.cause, "%s", coll->cause ? coll->cause : "");
    memset(out, 0, sizeof *out);
    memcpy(out, &s, sizeof s);
}

/* ---- wording --------------------------------------------------------------------------------- */

/* Appends to text, which always ends with a NUL. */
static void append(char *text, size_t size, const char *format, ...) TS_PRINTF(3, 4);
static void append(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

/* "all_reduce SUM of float32 (4)" */
static void describe(char *text, size_t size, const said *s)
{
    int fields = ts_collective_agreement((ts_collective)s->op);
    char shape[TS_SHAPE_TEXT];
    snprintf(text, size, "%s", ts_collective_name((ts_collective)s->op));
    if (fields & TS_AGREE_REDUCE)
        append(text, size, " %s", ts_reduce_name((ts_reduce_op)s->reduce));
    if (fields & TS_AGREE_ROOT) append(text, size, " with root %d", s->root);
    if (fields & TS_AGREE_DTYPE) append(text, size, " of %s", ts_dtype_name((ts_dtype)s->dtype));
    if (fields & TS_AGREE_COUNT)
        append(text, size, " %s",
               ts_shape_format(shape, sizeof shape, ts_shape_make(s->ndim, s->dim)));
    if (fields & TS_AGREE_PARTS)
        append(text, size, ", %lld elements over all ranks (sizes #%04x)", (long long)s->count,
               (unsigned)(s->digest & 0xffff));
    if (fields & TS_AGREE_PAIRS)
        append(text, size, ", giving %lld elements and taking %lld", (long long)s->gives,
               (long long)s->takes);
}

static ts_status fail(const ts_coll *coll, const char *group, ts_status status, const char *text)
{
    return ts_fail(status, "%s #%llu of group '%s': %s", coll->name,
                   (unsigned long long)coll->sequence, group, text);
}

static ts_status mismatch(const said *all, const ts_coll *coll, int size, const char *group)
{
    char text[TS_ERROR_MAX - 256] = "ranks disagree:";
    char(*call)[512] = ts_calloc((size_t)size, sizeof *call);
    if (!call) return fail(coll, group, TS_EMISMATCH, "ranks disagree (no memory for details)");
    for (int q = 0; q < size; q++) describe(call[q], sizeof call[q], &all[q]);
    for (int q = 0; q < size; q++) {
        int first = 0;
        while (strcmp(call[first], call[q]) != 0) first++;
        if (first < q) continue;
        append(text, sizeof text, "%s ranks {", q > 0 ? ";" : "");
        for (int r = q; r < size; r++)
            if (strcmp(call[r], call[q]) == 0) append(text, sizeof text, r == q ? "%d" : ",%d", r);
        append(text, sizeof text, "} call %s", call[q]);
    }
    free(call);
    append(text, sizeof text,
           "; all ranks must call the same operations in the same order with "
           "equal dtypes and sizes");
    return fail(coll, group, TS_EMISMATCH, text);
}

static ts_status remote(const said *s, int q, const ts_coll *coll, const char *group)
{
    char text[512];
    snprintf(text, sizeof text, "rank %d came with bad arguments: %s: %.*s", q,
             ts_status_name((ts_status)s->status), (int)sizeof s->cause - 1, s->cause);
    return fail(coll, group, TS_EREMOTE, text);
}

ts_status ts_statements_judge(const ts_statement *statements, const ts_coll *coll, int rank,
                              int size, const char *group, bool *bad)
{
    bool same = true;
    int first_bad = -1;
    uint64_t pairs = 0;
    said *all = ts_calloc((size_t)size, sizeof *all);
    if (!all) return ts_fail_memory((size_t)size * sizeof *all, "comparing calls");
    for (int q = 0; q < size; q++) {
        memcpy(&all[q], &statements[q], sizeof *all);
        same &= all[q].digest == all[0].digest;
        pairs += all[q].pairs;
        if (all[q].status != TS_OK && first_bad < 0) first_bad = q;
    }
    ts_status status = TS_OK;
    *bad = first_bad >= 0;
    if (*bad && all[rank].status == TS_OK)
        status = remote(&all[first_bad], first_bad, coll, group);
    else if (!*bad && (!same || pairs != 0))
        status = mismatch(all, coll, size, group);
    free(all);
    return status;
}

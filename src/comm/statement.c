/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/statement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/shape.h>

#include "base/context.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/site.h"
#include "comm/names.h"
#include "comm/wording.h"

/* A ts_statement from inside.  Fields that an operation does not use are 0. */
typedef struct said {
    uint64_t digest, pairs, parts;
    uint8_t op, dtype, reduce, ndim;
    int32_t rank, root, status;
    int64_t count;        /* elements of all parts, or of the tensor */
    int64_t gives, takes; /* elements, where sizes agree in pairs */
    int64_t dim[TS_MAX_DIMS];
    char text[368]; /* what is bad about its arguments, or where the call is */
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

int64_t ts_call_count(const ts_coll *coll, int size)
{
    return coll->parts ? total(coll->parts, size) : coll->tensor.count;
}

/* FNV-1a. */
uint64_t ts_call_parts(const ts_coll *coll, int size)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (int i = 0; coll->parts && i < size; i++)
        hash = (hash ^ (uint64_t)coll->parts[i].count) * 0x100000001b3u;
    return hash;
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
    if (fields & TS_AGREE_COUNT) hash = add(hash, (uint64_t)ts_call_count(coll, size));
    if (fields & TS_AGREE_PARTS) hash = add(hash, ts_call_parts(coll, size));
    *pairs = fields & TS_AGREE_PAIRS ? ts_call_pairs(coll, rank, size) : 0;
    return hash;
}

void ts_statement_make(ts_statement *out, const ts_coll *coll, int rank, int size)
{
    said s = {.op = (uint8_t)coll->op,
              .dtype = (uint8_t)coll->dtype,
              .reduce = (uint8_t)coll->reduce,
              .ndim = (uint8_t)coll->shape.ndim,
              .rank = coll->global ? coll->global[rank] : rank,
              .root = coll->root,
              .status = coll->status,
              .count = ts_call_count(coll, size),
              .parts = ts_call_parts(coll, size)};
    if (coll->global && coll->root >= 0 && coll->root < size) s.root = coll->global[coll->root];
    s.digest = ts_call_digest(coll, rank, size, &s.pairs);
    s.gives = coll->op == TS_COLL_GATHER ? coll->tensor.count : total(coll->parts, size);
    s.takes = coll->op == TS_COLL_GATHER    ? total(coll->parts, size)
              : coll->op == TS_COLL_SCATTER ? coll->tensor.count
                                            : total(coll->received, size);
    memcpy(s.dim, coll->shape.dim, (size_t)coll->shape.ndim * sizeof *s.dim);
    if (coll->status == TS_OK)
        ts_site_text(s.text, sizeof s.text, coll->site);
    else
        snprintf(s.text, sizeof s.text, "%s", coll->cause ? coll->cause : "");
    memset(out, 0, sizeof *out);
    memcpy(out, &s, sizeof s);
}

/* ---- the verdict ------------------------------------------------------------------------------ */

static ts_said as_said(const said *s, bool in_pairs)
{
    return (ts_said){.rank = s->rank,
                     .root = s->root,
                     .op = (ts_collective)s->op,
                     .dtype = (ts_dtype)s->dtype,
                     .reduce = (ts_reduce_op)s->reduce,
                     .shape = ts_shape_make(s->ndim, s->dim),
                     .count = s->count,
                     .parts = s->parts,
                     .in_pairs = in_pairs,
                     .gives = s->gives,
                     .takes = s->takes,
                     .status = (ts_status)s->status,
                     .text = s->text};
}

static ts_status fail(ts_status status, const said *all, const ts_coll *coll, int size,
                      const char *group, bool in_pairs)
{
    char text[TS_ERROR_MAX - 256];
    ts_said *list = ts_calloc((size_t)size, sizeof *list);
    if (!list) return ts_fail_memory((size_t)size * sizeof *list, "comparing calls");
    for (int q = 0; q < size; q++) list[q] = as_said(&all[q], in_pairs);
    ts_word_verdict(text, sizeof text, list, size);
    free(list);
    return ts_fail(status, "%s #%llu of group '%s': %s", coll->name,
                   (unsigned long long)coll->sequence, group, text);
}

ts_status ts_statements_judge(const ts_statement *statements, const ts_coll *coll, int rank,
                              int size, const char *group, bool *bad)
{
    bool same = true;
    uint64_t pairs = 0;
    said *all = ts_calloc((size_t)size, sizeof *all);
    if (!all) return ts_fail_memory((size_t)size * sizeof *all, "comparing calls");
    *bad = false;
    for (int q = 0; q < size; q++) {
        memcpy(&all[q], &statements[q], sizeof *all);
        same &= all[q].digest == all[0].digest;
        pairs += all[q].pairs;
        *bad |= all[q].status != TS_OK;
    }
    ts_status status = TS_OK;
    if (*bad && all[rank].status == TS_OK)
        status = fail(TS_EREMOTE, all, coll, size, group, false);
    else if (!*bad && (!same || pairs != 0))
        status = fail(TS_EMISMATCH, all, coll, size, group, same);
    free(all);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* All-reduce over virtual shards: the same bits for every number of ranks.
 *
 * Piece by piece: each rank combines its own shards into the largest nodes of the tree that lie in its
 * block, the ranks exchange slices of these nodes, each combines its slice up to the root, and the
 * finished slices are gathered. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "comm/coll/all_reduce_shards/tree.h"
#include "comm/group_impl.h"
#include "kernels/convert.h"

enum { PIECE = 256 * 1024 }; /* elements; the scratch memory of a few nodes stays in the cache */

/* ---- the call -------------------------------------------------------------------------------- */

typedef struct shards {
    int n;
    ts_tensor **shard; /* a reference to each */
} shards;

static void shards_free(void *user)
{
    shards *s = user;
    for (int i = 0; s->shard && i < s->n; i++) ts_release(s->shard[i]);
    free(s->shard);
    free(s);
}

static ts_status run(ts_group *group, ts_call *call, bool background);

static void check_shard(ts_call *call, ts_tensor *shard, int i)
{
    char what[32];
    snprintf(what, sizeof what, "shard %d", i);
    if (!ts_call_part(call, shard, TS_USE_READ, what)) return;
    if (shard->numel != call->tensor->numel || shard->dtype != call->tensor->dtype)
        ts_call_fail(call, TS_ESHAPE,
                     "%s has %" PRId64 " element%s of %s, but the output %" PRId64 " of %s", what,
                     shard->numel, ts_plural(shard->numel), ts_dtype_name((ts_dtype)shard->dtype),
                     call->tensor->numel, ts_dtype_name((ts_dtype)call->tensor->dtype));
}

static shards *keep(ts_call *call, ts_tensor *const *shard, int n)
{
    shards *s = ts_calloc(1, sizeof *s);
    if (s) s->shard = ts_calloc((size_t)n, sizeof(ts_tensor *));
    if (!s || !s->shard) {
        free(s);
        ts_call_fail(call, TS_ENOMEM, "out of memory for %d shards", n);
        return NULL;
    }
    for (s->n = 0; s->n < n; s->n++) s->shard[s->n] = ts_retain(shard[s->n]);
    return s;
}

ts_status ts_all_reduce_shards(ts_group *group, ts_tensor *out, ts_tensor *const *shard, int n,
                               ts_reduce_op op, ts_work **work)
{
    ts_issue issue;
    TS_TRY(ts_issue_begin(&issue, group, TS_COLL_ALL_REDUCE, TS_CALLED, TS_CALL_SITE, work));
    ts_call *call = issue.call;
    ts_call_tensor(call, out, TS_USE_WRITE);
    ts_call_reduce(call, op);
    if (n < 1 || !shard)
        ts_call_fail(call, TS_EINVAL, "%d shards; every rank has at least one", shard ? n : 0);
    for (int i = 0; call->coll.status == TS_OK && i < n; i++) check_shard(call, shard[i], i);
    if (call->coll.status == TS_OK) call->extra = keep(call, shard, n);
    call->extra_free = shards_free;
    call->run = run;
    return ts_issue_end(&issue);
}

/* ---- what it takes to run it ----------------------------------------------------------------- */

enum { WORDS = 3 }; /* number of shards, elements, dtype and operation */

typedef struct job {
    ts_group *group;
    ts_call *call;
    bool background;
    ts_tree tree;
    int64_t count; /* elements, complex numbers as pairs */
    ts_dtype dtype;
    ts_tensor *out, **source;   /* contiguous: the caller's tensors, or copies */
    const void **data;          /* of the sources */
    ts_tensor *mine, *theirs;   /* nodes of this rank, by slices; this rank's slice of all nodes */
    ts_tree_node *node;         /* of all ranks, in order */
    int own, num_own, num_node; /* node[own] is the first one of this rank */
    ts_buffer *give, *take;     /* one per rank */
    const char *kept;           /* nodes of this rank for its own slice */
    const void **value;         /* one per node */
    int64_t *said;              /* by all ranks, in the first exchange */
} job;

static const shards *shards_of(const job *j) { return j->call->extra; }

static void job_free(job *j)
{
    const shards *s = shards_of(j);
    for (int i = 0; j->source && i < s->n; i++) ts_release(j->source[i]);
    ts_release(j->out);
    ts_release(j->mine);
    ts_release(j->theirs);
    free(j->source);
    free(j->data);
    free(j->node);
    free(j->give);
    free(j->take);
    free(j->value);
    free(j->said);
    free(j->tree.scratch);
}

/* The tensor or a contiguous copy; a reference in any case. */
static ts_status contiguous(ts_tensor **out, ts_tensor *t, bool copy_data)
{
    if (t->contiguous) {
        *out = ts_retain(t);
        return TS_OK;
    }
    ts_spec spec = ts_tensor_spec(t);
    *out = ts_tensor_new_owned(&spec, TS_MEMORY_HEAP, TS_CATEGORY_COMMUNICATION);
    TS_TRY(ts_tensor_check(*out, "a contiguous copy"));
    return copy_data ? ts_tensor_copy_data(*out, t) : TS_OK;
}

static ts_status make_contiguous(job *j)
{
    const shards *s = shards_of(j);
    j->source = ts_calloc((size_t)s->n, sizeof *j->source);
    j->data = ts_calloc((size_t)s->n, sizeof *j->data);
    if (!j->source || !j->data) return ts_fail_memory((size_t)s->n * sizeof *j->data, "shards");
    for (int i = 0; i < s->n; i++) {
        TS_TRY(contiguous(&j->source[i], s->shard[i], true));
        j->data[i] = j->count > 0 ? ts_tensor_bytes(j->source[i]) : NULL;
    }
    return contiguous(&j->out, j->call->tensor, false);
}

static ts_status plan_tree(job *j)
{
    int size = j->group->size;
    int64_t n = shards_of(j)->n;
    ts_tree_node cover[TS_TREE_NODES];
    j->tree = (ts_tree){.shards = n * size,
                        .op = j->call->coll.reduce,
                        .dtype = ts_tree_dtype(j->dtype),
                        .from = j->dtype,
                        .shard = j->data,
                        .first = n * j->group->rank};
    for (int q = 0; q < size; q++)
        j->num_node += ts_tree_cover(cover, n * q, n * (q + 1), j->tree.shards);
    size_t block = TS_TREE_BLOCK * ts_element_size(j->tree.dtype);
    j->tree.scratch = ts_calloc((size_t)ts_tree_height(j->tree.shards) + 1, block);
    j->node = ts_calloc((size_t)j->num_node + TS_TREE_NODES, sizeof *j->node);
    j->value = ts_calloc((size_t)j->num_node, sizeof *j->value);
    if (!j->tree.scratch || !j->node || !j->value) return ts_fail_memory(block, "shards");
    for (int q = 0, at = 0; q < size; q++) {
        int nodes = ts_tree_cover(j->node + at, n * q, n * (q + 1), j->tree.shards);
        if (q == j->group->rank) j->own = at, j->num_own = nodes;
        at += nodes;
    }
    return TS_OK;
}

/* In the shared heap where there is one, so that peers read it in place. */
static ts_status make(ts_tensor **out, int64_t count, ts_dtype dtype)
{
    ts_spec spec = {TS_SHAPE(count), dtype, TS_CPU};
    *out = ts_tensor_new_owned(&spec, TS_MEMORY_SHARED, TS_CATEGORY_COMMUNICATION);
    if (!ts_failed(*out)) return TS_OK;
    ts_release(*out);
    *out = ts_tensor_new_owned(&spec, TS_MEMORY_HEAP, TS_CATEGORY_COMMUNICATION);
    return ts_tensor_check(*out, "shards");
}

static ts_status prepare(job *j)
{
    int size = j->group->size;
    int64_t piece = j->count < PIECE ? j->count : PIECE;
    TS_TRY(make_contiguous(j));
    TS_TRY(plan_tree(j));
    j->give = ts_calloc((size_t)size, sizeof *j->give);
    j->take = ts_calloc((size_t)size, sizeof *j->take);
    j->said = ts_calloc((size_t)size, WORDS * sizeof *j->said);
    if (!j->give || !j->take || !j->said)
        return ts_fail_memory((size_t)size * sizeof *j->give, "shards");
    if (size == 1) return TS_OK;
    TS_TRY(make(&j->mine, j->num_own * piece, j->tree.dtype));
    return make(&j->theirs, (j->num_node - j->num_own) * (piece / size + 1), j->tree.dtype);
}

/* ---- do all ranks mean the same? ------------------------------------------------------------- */

static ts_status compare(const job *j)
{
    const int64_t *a = j->said;
    for (int q = 1; q < j->group->size; q++) {
        const int64_t *b = a + WORDS * q;
        if (memcmp(a, b, WORDS * sizeof *a) == 0) continue;
        return ts_fail(
            TS_EMISMATCH,
            "all_reduce_shards: ranks of group '%s' disagree: rank %d has %" PRId64
            " shards of %" PRId64 " elements (%s, %s), rank %d %" PRId64 " of %" PRId64 " (%s, %s)",
            j->group->name, ts_group_global(j->group, 0), a[0], a[1],
            ts_dtype_name((ts_dtype)(a[2] >> 8)), ts_reduce_name((ts_reduce_op)(a[2] & 255)),
            ts_group_global(j->group, q), b[0], b[1], ts_dtype_name((ts_dtype)(b[2] >> 8)),
            ts_reduce_name((ts_reduce_op)(b[2] & 255)));
    }
    return TS_OK;
}

static ts_status agree(job *j)
{
    ts_coll *own = &j->call->coll;
    int64_t words[WORDS] = {0};
    ts_coll coll = {.op = TS_COLL_ALL_GATHER,
                    .name = own->name,
                    .dtype = TS_INT64,
                    .tensor = {NULL, 0, -1},
                    .shape = own->shape,
                    .status = own->status,
                    .cause = own->cause,
                    .background = j->background};
    if (own->status == TS_OK) {
        words[0] = shards_of(j)->n;
        words[1] = j->count;
        words[2] = (int64_t)j->dtype << 8 | own->reduce;
        coll.tensor = (ts_buffer){words, WORDS, -1};
        coll.parts = j->give;
        for (int q = 0; q < j->group->size; q++)
            j->give[q] = (ts_buffer){j->said + WORDS * q, WORDS, -1};
    }
    ts_status status = ts_coll_run(j->group, &coll);
    if (own->status != TS_OK) return ts_fail_again(own->status, own->cause);
    return status == TS_OK ? compare(j) : status;
}

/* ---- one piece ------------------------------------------------------------------------------- */

/* Slices of a piece, by rank. */
static int64_t slice(const job *j, int64_t length, int q) { return length * q / j->group->size; }

static ts_buffer buffer_at(const ts_tensor *t, int64_t skip, int64_t count, ts_dtype dtype)
{
    size_t element = ts_element_size(dtype), at = (size_t)skip * element;
    if (count == 0) return (ts_buffer){NULL, 0, -1};
    return (ts_buffer){ts_tensor_bytes(t) + at, count,
                       ts_storage_place(t->storage,
                                        (size_t)t->offset * ts_element_size(t->dtype) + at,
                                        (size_t)count * element)};
}

/* One shard that needs no conversion is its own node. */
static bool is_bare(const job *j) { return shards_of(j)->n == 1 && j->tree.from == j->tree.dtype; }

/* This rank's nodes for elements [begin, begin + length) of slice to. */
static void fill(const job *j, char *to, int64_t begin, int64_t length)
{
    size_t element = ts_element_size(j->tree.dtype);
    for (int i = 0; i < j->num_own; i++)
        for (int64_t at = 0; at < length; at += TS_TREE_BLOCK) {
            int64_t count = length - at < TS_TREE_BLOCK ? length - at : TS_TREE_BLOCK;
            char *room = to + (size_t)(i * length + at) * element;
            const void *value =
                ts_tree_leaves(&j->tree, j->node[j->own + i], room, begin + at, count);
            if (value != room) memcpy(room, value, (size_t)count * element);
        }
}

/* This rank's nodes for elements [from, from + count) of the piece at begin. */
static ts_buffer own_slice(const job *j, int64_t begin, int64_t from, int64_t count)
{
    if (is_bare(j)) return buffer_at(j->source[0], begin + from, count, j->dtype);
    ts_buffer slice = buffer_at(j->mine, j->num_own * from, j->num_own * count, j->tree.dtype);
    fill(j, slice.data, begin + from, count);
    return slice;
}

/* The slices that the others combine for the slice that this rank combines; what it has itself
 * stays in kept. */
static ts_status exchange(job *j, int64_t begin, int64_t length)
{
    int rank = j->group->rank, at = 0;
    int64_t n = shards_of(j)->n, width = slice(j, length, rank + 1) - slice(j, length, rank);
    for (int q = 0; q < j->group->size; q++) {
        ts_tree_node cover[TS_TREE_NODES];
        int nodes = ts_tree_cover(cover, n * q, n * (q + 1), j->tree.shards);
        int64_t from = slice(j, length, q), count = slice(j, length, q + 1) - from;
        j->give[q] = own_slice(j, begin, from, count);
        j->take[q] = buffer_at(j->theirs, at * width, nodes * width, j->tree.dtype);
        if (q != rank) at += nodes;
    }
    j->kept = j->give[rank].data;
    j->give[rank] = j->take[rank] = (ts_buffer){NULL, 0, -1};
    ts_coll coll = {.op = TS_COLL_ALL_TO_ALL,
                    .name = j->call->coll.name,
                    .dtype = j->tree.dtype,
                    .tensor = {NULL, 0, -1},
                    .parts = j->give,
                    .received = j->take,
                    .shape = j->call->coll.shape,
                    .background = j->background};
    return ts_coll_run(j->group, &coll);
}

/* Value of the root for elements of the output.  A value that is to be converted lies in scratch,
 * and is overwritten. */
static void finish(const job *j, const void *value, int64_t begin, int64_t count)
{
    char *to = ts_tensor_bytes(j->out) + (size_t)begin * ts_element_size(j->dtype);
    bool average = j->tree.op == TS_AVG;
    if (j->dtype == j->tree.dtype) {
        memmove(to, value, (size_t)count * ts_element_size(j->dtype));
        if (average) ts_tree_average(&j->tree, to, count);
        return;
    }
    if (average) ts_tree_average(&j->tree, (void *)(uintptr_t)value, count);
    ts_kernel_convert(j->dtype, j->tree.dtype)(to, value, count);
}

/* Nodes of this rank lie in kept, the others one after the other in theirs. */
static const char *node_value(const job *j, int i, int64_t width)
{
    bool own = i >= j->own && i < j->own + j->num_own;
    const char *from = own ? j->kept : ts_tensor_bytes(j->theirs);
    int64_t at = own ? i - j->own : i < j->own ? i : i - j->num_own;
    return from + (size_t)(at * width) * ts_element_size(j->tree.dtype);
}

static void climb(job *j, int64_t begin, int64_t width)
{
    size_t element = ts_element_size(j->tree.dtype);
    for (int64_t at = 0; at < width; at += TS_TREE_BLOCK) {
        int64_t count = width - at < TS_TREE_BLOCK ? width - at : TS_TREE_BLOCK;
        for (int i = 0; i < j->num_node; i++)
            j->value[i] = node_value(j, i, width) + (size_t)at * element;
        finish(j, ts_tree_root(&j->tree, j->node, j->value, count), begin + at, count);
    }
}

static ts_status gather(job *j, int64_t begin, int64_t length)
{
    for (int q = 0; q < j->group->size; q++) {
        int64_t from = slice(j, length, q), count = slice(j, length, q + 1) - from;
        j->give[q] = buffer_at(j->out, begin + from, count, j->dtype);
    }
    ts_coll coll = {.op = TS_COLL_ALL_GATHER,
                    .name = j->call->coll.name,
                    .dtype = j->dtype,
                    .tensor = j->give[j->group->rank],
                    .parts = j->give,
                    .shape = j->call->coll.shape,
                    .background = j->background};
    return ts_coll_run(j->group, &coll);
}

static ts_status reduce_piece(job *j, int64_t begin, int64_t length)
{
    int rank = j->group->rank;
    int64_t from = slice(j, length, rank);
    TS_TRY(exchange(j, begin, length));
    climb(j, begin + from, slice(j, length, rank + 1) - from);
    return gather(j, begin, length);
}

/* ---- all ------------------------------------------------------------------------------------- */

static void reduce_alone(const job *j)
{
    ts_tree_node root = {ts_tree_height(j->tree.shards), 0};
    char *room =
        j->tree.scratch + (size_t)root.level * TS_TREE_BLOCK * ts_element_size(j->tree.dtype);
    for (int64_t at = 0; at < j->count; at += TS_TREE_BLOCK) {
        int64_t count = j->count - at < TS_TREE_BLOCK ? j->count - at : TS_TREE_BLOCK;
        finish(j, ts_tree_leaves(&j->tree, root, room, at, count), at, count);
    }
}

static ts_status reduce(job *j)
{
    if (j->group->size == 1) {
        reduce_alone(j);
    } else {
        for (int64_t at = 0; at < j->count; at += PIECE)
            TS_TRY(reduce_piece(j, at, j->count - at < PIECE ? j->count - at : PIECE));
    }
    return j->out == j->call->tensor ? TS_OK : ts_tensor_copy_data(j->call->tensor, j->out);
}

static ts_status run(ts_group *group, ts_call *call, bool background)
{
    job j = {.group = group, .call = call, .background = background, .dtype = call->coll.dtype};
    if (call->coll.status == TS_OK) {
        j.count = ts_real_count(call->tensor);
        ts_status ready = prepare(&j);
        if (ready != TS_OK) ts_call_fail(call, ready, "%s", ts_error_last());
    }
    ts_status status = agree(&j);
    if (status == TS_OK) status = reduce(&j);
    job_free(&j);
    return status;
}

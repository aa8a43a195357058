/* SPDX-License-Identifier: Apache-2.0 */
/* Do the tensors of a call, or of several as one, lie apart?  What is written must not share memory with anything else that
 * the call names, but for the part of the own rank, which may be the same memory as the tensor: then
 * the call works in place.  Strided tensors may interleave and are not looked at. */
#include <stdlib.h>

#include "base/memory.h"
#include "comm/group_impl.h"

typedef struct range {
    const char *begin, *end;
    bool written;
} range;

static void add(range *all, int *n, const ts_tensor *t, bool written)
{
    if (!t || t->numel == 0 || !t->contiguous) return;
    const char *data = ts_data(t);
    all[(*n)++] = (range){data, data + ts_nbytes(t), written};
}

static void add_side(range *all, int *n, const ts_side *side, int size, bool written)
{
    add(all, n, side->whole, written);
    for (int i = 0; side->list && i < size; i++) add(all, n, side->list[i], written);
}

static int by_begin(const void *a, const void *b)
{
    const range *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

static bool apart(range *all, int n)
{
    const char *any = NULL, *written = NULL; /* ends so far */
    qsort(all, (size_t)n, sizeof *all, by_begin);
    for (int i = 0; i < n; i++) {
        if (all[i].begin < (all[i].written ? any : written)) return false;
        if (all[i].end > any) any = all[i].end;
        if (all[i].written && all[i].end > written) written = all[i].end;
    }
    return true;
}

/* Is t this rank's part of whole? */
static bool is_part(const ts_tensor *t, const ts_tensor *whole, int rank)
{
    return t->contiguous && whole->contiguous &&
           (const char *)ts_data(whole) + (size_t)rank * ts_nbytes(t) == (const char *)ts_data(t);
}

/* t and its parts; one tensor of them that is reduced and scattered in place is written too. */
static void add_with_parts(range *all, int *n, const ts_tensor *t, const ts_side *parts,
                           const ts_group *group, bool gathers)
{
    bool in_place = t && parts->whole && is_part(t, parts->whole, group->rank);
    if (t && parts->list)
        in_place = t->contiguous && ts_data(parts->list[group->rank]) == ts_data(t);
    add_side(all, n, parts, group->size, gathers || (in_place && parts->whole));
    if (!in_place) add(all, n, t, !gathers);
}

static void add_bunch(range *all, int *n, const ts_bunch *b, const ts_group *group, bool gathers)
{
    for (int k = 0; k < b->n; k++) {
        if (b->whole || !b->parts) {
            ts_side parts = {.whole = b->parts ? b->parts[k] : NULL};
            add_with_parts(all, n, b->tensor[k], &parts, group, gathers);
            continue;
        }
        bool in_place = ts_data(b->parts[group->rank * b->n + k]) == ts_data(b->tensor[k]);
        for (int r = 0; r < group->size; r++) add(all, n, b->parts[r * b->n + k], gathers);
        if (!in_place) add(all, n, b->tensor[k], !gathers);
    }
}

static int most_ranges(const ts_call *call, int size)
{
    int64_t most = 3;
    if (call->parts.list) most += size;
    if (call->received.list) most += size;
    if (call->bunch.n) most += call->bunch.n + ts_bunch_parts(&call->bunch, size);
    return (int)most;
}

void ts_call_apart(ts_call *call, const ts_group *group)
{
    enum { FEW = 20 };
    range few[FEW], *all = few;
    ts_collective op = call->coll.op;
    bool gathers = op == TS_COLL_ALL_GATHER || op == TS_COLL_GATHER;
    int n = 0, most = most_ranges(call, group->size);
    bool several = call->bunch.n || call->parts.whole || call->parts.list;
    if (call->coll.status != TS_OK || !several) return;
    if (most > FEW && !(all = ts_calloc((size_t)most, sizeof *all))) {
        ts_call_fail(call, TS_ENOMEM, "out of memory for a look at %d tensors", most);
        return;
    }
    add_bunch(all, &n, &call->bunch, group, gathers);
    add_with_parts(all, &n, call->tensor, &call->parts, group, gathers);
    add_side(all, &n, &call->received, group->size, true);
    if (!apart(all, n))
        ts_call_fail(call, TS_EINVAL,
                     "tensors that are written share memory with others of the call (only the part "
                     "of this rank may be the same memory, to work in place); give it an output of "
                     "its own");
    if (all != few) free(all);
}

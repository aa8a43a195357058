/* SPDX-License-Identifier: Apache-2.0 */
/* Do the tensors of a call lie apart?  What is written must not share memory with anything else that
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

static bool in_place(const ts_call *call, int rank)
{
    const ts_side *side = &call->parts;
    const ts_tensor *t = call->tensor;
    if (!t || !t->contiguous) return false;
    if (side->list) return ts_data(side->list[rank]) == ts_data(t);
    return side->whole && side->whole->contiguous &&
           (const char *)ts_data(side->whole) + (size_t)rank * ts_nbytes(t) ==
               (const char *)ts_data(t);
}

void ts_call_apart(ts_call *call, const ts_group *group)
{
    enum { FEW = 20 };
    range few[FEW], *all = few;
    const ts_side *side[] = {&call->parts, &call->received};
    ts_collective op = call->coll.op;
    bool gathers = op == TS_COLL_ALL_GATHER || op == TS_COLL_GATHER;
    int n = 0, most = 3;
    if (call->coll.status != TS_OK || !(side[0]->whole || side[0]->list)) return;
    for (int i = 0; i < 2; i++) most += side[i]->list ? group->size : 0;
    if (most > FEW && !(all = ts_calloc((size_t)most, sizeof *all))) {
        ts_call_fail(call, TS_ENOMEM, "out of memory for a look at %d tensors", most);
        return;
    }
    add_side(all, &n, side[0], group->size, gathers);
    add_side(all, &n, side[1], group->size, true);
    if (!in_place(call, group->rank)) add(all, &n, call->tensor, !gathers);
    if (!apart(all, n))
        ts_call_fail(call, TS_EINVAL,
                     "tensors that are written share memory with others of the call (only the part "
                     "of this rank may be the same memory, to work in place); give it an output of "
                     "its own");
    if (all != few) free(all);
}

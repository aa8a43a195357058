/* SPDX-License-Identifier: Apache-2.0 */
/* The shortest nest of loops over strided elements. */
#include "tensor/loop_impl.h"

#include <stdlib.h>

static void insert_sorted(ts_loop *loop, int64_t dim, int64_t to, int64_t from)
{
    int at = loop->ndim++;
    for (; at > 0 && llabs(loop->to[at - 1]) < llabs(to); at--) {
        loop->dim[at] = loop->dim[at - 1];
        loop->to[at] = loop->to[at - 1];
        loop->from[at] = loop->from[at - 1];
    }
    loop->dim[at] = dim;
    loop->to[at] = to;
    loop->from[at] = from;
}

/* Dimension i + 1 continues where dimension i steps: one dimension does. */
static bool mergeable(const ts_loop *loop, int i)
{
    int64_t inner = loop->dim[i + 1];
    return loop->to[i] == loop->to[i + 1] * inner && loop->from[i] == loop->from[i + 1] * inner;
}

static void merge(ts_loop *loop)
{
    int last = 0;
    for (int i = 1; i < loop->ndim; i++) {
        int64_t outer = loop->dim[last];
        loop->dim[last + 1] = loop->dim[i];
        loop->to[last + 1] = loop->to[i];
        loop->from[last + 1] = loop->from[i];
        if (mergeable(loop, last)) {
            loop->dim[last] = outer * loop->dim[i];
            loop->to[last] = loop->to[i];
            loop->from[last] = loop->from[i];
        } else {
            last++;
        }
    }
    loop->ndim = last + 1;
}

static void pad_to_two(ts_loop *loop)
{
    while (loop->ndim < 2) {
        for (int i = loop->ndim; i > 0; i--) {
            loop->dim[i] = loop->dim[i - 1];
            loop->to[i] = loop->to[i - 1];
            loop->from[i] = loop->from[i - 1];
        }
        loop->dim[0] = 1;
        loop->to[0] = loop->from[0] = 0;
        loop->ndim++;
    }
}

void ts_loop_init(ts_loop *loop, const ts_shape *shape, const int64_t *to, const int64_t *from)
{
    loop->ndim = 0;
    for (int i = 0; i < shape->ndim; i++)
        if (shape->dim[i] != 1) insert_sorted(loop, shape->dim[i], to[i], from[i]);
    if (loop->ndim > 1) merge(loop);
    pad_to_two(loop);
}

int64_t ts_loop_planes(const ts_loop *loop)
{
    int64_t planes = 1;
    for (int i = 0; i < loop->ndim - 2; i++) planes *= loop->dim[i];
    return planes;
}

void ts_loop_seek(const ts_loop *loop, ts_loop_at *at, int64_t plane)
{
    at->to = at->from = 0;
    for (int i = loop->ndim - 3; i >= 0; i--) {
        at->index[i] = plane % loop->dim[i];
        plane /= loop->dim[i];
        at->to += at->index[i] * loop->to[i];
        at->from += at->index[i] * loop->from[i];
    }
}

void ts_loop_next(const ts_loop *loop, ts_loop_at *at)
{
    for (int i = loop->ndim - 3; i >= 0; i--) {
        at->to += loop->to[i];
        at->from += loop->from[i];
        if (++at->index[i] < loop->dim[i]) return;
        at->to -= loop->to[i] * loop->dim[i];
        at->from -= loop->from[i] * loop->dim[i];
        at->index[i] = 0;
    }
}

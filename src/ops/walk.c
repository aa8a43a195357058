/* SPDX-License-Identifier: Apache-2.0 */
/* Element loops over several strided operands, line by line, in the order of the output. */
#include "ops/walk.h"

#include <stdlib.h>

#include "base/thread.h"

enum { GRAIN = 1 << 15 };

typedef struct walk {
    int count, ndim;
    int64_t dim[TS_MAX_DIMS]; /* innermost last */
    int64_t step[TS_MAX_DIMS][TS_WALK_MAX];
    char *start[TS_WALK_MAX];
    int64_t size[TS_WALK_MAX]; /* of an element */
    ts_walk_line line;
    const void *user;
} walk;

/* Step of operand t along dimension i of the output. */
static int64_t step_of(const ts_tensor *t, const ts_tensor *out, int i)
{
    int own = i - (out->shape.ndim - t->shape.ndim);
    return own < 0 || t->shape.dim[own] == 1 ? 0 : t->stride[own];
}

/* Keeps the dimensions sorted by the output's steps, so that it is written in order. */
static void insert_dim(walk *w, int64_t dim, const int64_t *step)
{
    int at = w->ndim++;
    for (; at > 0 && llabs(w->step[at - 1][0]) < llabs(step[0]); at--) {
        w->dim[at] = w->dim[at - 1];
        for (int k = 0; k < w->count; k++) w->step[at][k] = w->step[at - 1][k];
    }
    w->dim[at] = dim;
    for (int k = 0; k < w->count; k++) w->step[at][k] = step[k];
}

static bool continues(const walk *w, int outer, int inner)
{
    for (int k = 0; k < w->count; k++)
        if (w->step[outer][k] != w->step[inner][k] * w->dim[inner]) return false;
    return true;
}

static void merge_dims(walk *w)
{
    int last = 0;
    for (int i = 1; i < w->ndim; i++) {
        int64_t dim = w->dim[i];
        if (continues(w, last, i))
            dim *= w->dim[last];
        else
            last++;
        w->dim[last] = dim;
        for (int k = 0; k < w->count; k++) w->step[last][k] = w->step[i][k];
    }
    w->ndim = last + 1;
}

static void plan(walk *w, ts_tensor *const *t)
{
    const ts_tensor *out = t[0];
    for (int i = 0; i < out->shape.ndim; i++) {
        if (out->shape.dim[i] == 1) continue;
        int64_t step[TS_WALK_MAX];
        for (int k = 0; k < w->count; k++) step[k] = step_of(t[k], out, i);
        insert_dim(w, out->shape.dim[i], step);
    }
    if (w->ndim == 0) insert_dim(w, 1, (const int64_t[TS_WALK_MAX]){0});
    merge_dims(w);
}

/* Elements [begin, end) in the order of the walk. */
static void run(int64_t begin, int64_t end, void *user)
{
    const walk *w = user;
    int64_t index[TS_MAX_DIMS], rest = begin, inner = w->dim[w->ndim - 1];
    for (int i = w->ndim - 1; i >= 0; i--) {
        index[i] = rest % w->dim[i];
        rest /= w->dim[i];
    }
    while (begin < end) {
        char *at[TS_WALK_MAX];
        for (int k = 0; k < w->count; k++) {
            int64_t offset = 0;
            for (int i = 0; i < w->ndim; i++) offset += index[i] * w->step[i][k];
            at[k] = w->start[k] + offset * w->size[k];
        }
        int64_t n = inner - index[w->ndim - 1];
        if (n > end - begin) n = end - begin;
        w->line(at, w->step[w->ndim - 1], n, w->user);
        begin += n;
        index[w->ndim - 1] = 0;
        for (int i = w->ndim - 2; i >= 0 && ++index[i] == w->dim[i]; i--) index[i] = 0;
    }
}

static bool flat(ts_tensor *const *t, int count)
{
    for (int k = 0; k < count; k++)
        if (!t[k]->contiguous || t[k]->numel != t[0]->numel || t[k]->shape.ndim > t[0]->shape.ndim)
            return false;
    return true;
}

void ts_walk(ts_tensor *const *t, int count, ts_walk_line line, const void *user)
{
    static const int64_t ones[TS_WALK_MAX] = {1, 1, 1, 1};
    int64_t n = t[0]->numel;
    if (n == 0) return;
    walk w;
    for (int k = 0; k < count; k++) w.start[k] = ts_tensor_bytes(t[k]);
    bool one_line = flat(t, count);
    if (one_line && n <= GRAIN) {
        line(w.start, ones, n, user);
        return;
    }
    w.count = count;
    w.ndim = 0;
    for (int k = 0; k < count; k++) w.size[k] = (int64_t)ts_dtype_size((ts_dtype)t[k]->dtype);
    w.line = line;
    w.user = user;
    if (one_line)
        insert_dim(&w, n, ones);
    else
        plan(&w, t);
    if (n <= GRAIN)
        run(0, n, &w);
    else
        ts_parallel_for(n, GRAIN, run, &w);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/backend/native/team.h"

#include "kernels/combine.h"

enum { FIRST_STEP = 16 }; /* the agreement has those before */

ts_team ts_lane_team(ts_native *n, const ts_coll *coll)
{
    const ts_topology *t = &n->topology;
    return (ts_team){.native = n,
                     .coll = coll,
                     .rank = t->host,
                     .size = t->hosts,
                     .member = t->lane,
                     .step = FIRST_STEP};
}

static ts_buffer part_of(const ts_buffer *whole, size_t element, ts_range range)
{
    size_t skip = (size_t)range.begin * element;
    if (range.begin >= range.end) return (ts_buffer){NULL, 0, 0};
    return (ts_buffer){(char *)whole->data + skip, range.end - range.begin,
                       whole->shared_offset < 0 ? -1 : whole->shared_offset + (int64_t)skip};
}

void ts_cut_for_lanes(ts_native *n, const ts_buffer *whole, size_t element, size_t least)
{
    size_t most = (size_t)whole->count * element / least;
    int lanes = most < (size_t)n->topology.lanes ? (int)most : n->topology.lanes;
    if (lanes < 1) lanes = 1;
    for (int q = 0; q < n->shm.size; q++)
        n->parts[q] = q < lanes
                          ? part_of(whole, element, ts_share_of(whole->count, lanes, q, element))
                          : (ts_buffer){NULL, 0, 0};
}

ts_status ts_team_swap(ts_team *t, int to, const void *out, size_t out_bytes, int from, void *in,
                       size_t in_bytes)
{
    ts_exchange e = ts_exchange_begin(t->native, t->coll);
    ts_team_recv(&e, t, from, in, in_bytes);
    ts_team_send(&e, t, to, out, out_bytes);
    return ts_exchange_wait(&e);
}

void ts_team_combine(const ts_team *t, void *to, const void *first, const void *second,
                     size_t bytes)
{
    const void *sources[2] = {first, second};
    const ts_coll *coll = t->coll;
    ts_combine(to, sources, 2, (int64_t)(bytes / ts_dtype_size(coll->dtype)), coll->dtype,
               ts_partial_op(coll));
}

void ts_team_finish(const ts_team *t, void *data, size_t bytes)
{
    const ts_coll *coll = t->coll;
    if (coll->reduce == TS_AVG)
        ts_combine_divide(data, (int64_t)(bytes / ts_dtype_size(coll->dtype)), coll->dtype,
                          t->native->size);
}

/* ---- folding --------------------------------------------------------------------------------- */

ts_fold ts_fold_of(const ts_team *t)
{
    ts_fold f = {.size = 1};
    while (2 * f.size <= t->size) f.size *= 2;
    f.extra = t->size - f.size;
    if (t->rank >= 2 * f.extra)
        f.place = t->rank - f.extra;
    else
        f.place = t->rank % 2 ? -1 : t->rank / 2;
    return f;
}

int ts_fold_rank(const ts_fold *f, int place)
{
    return place < f->extra ? 2 * place : place + f->extra;
}

ts_status ts_fold_in(ts_team *t, const ts_fold *f, char *data, char *scratch, size_t bytes)
{
    if (t->rank >= 2 * f->extra) return TS_OK;
    if (f->place < 0) return ts_team_swap(t, t->rank - 1, data, bytes, 0, NULL, 0);
    TS_TRY(ts_team_swap(t, 0, NULL, 0, t->rank + 1, scratch, bytes));
    ts_team_combine(t, data, data, scratch, bytes);
    return TS_OK;
}

ts_status ts_fold_out(ts_team *t, const ts_fold *f, char *data, size_t bytes)
{
    if (t->rank >= 2 * f->extra) return TS_OK;
    if (f->place < 0) return ts_team_swap(t, 0, NULL, 0, t->rank - 1, data, bytes);
    return ts_team_swap(t, t->rank + 1, data, bytes, 0, NULL, 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The collectives: agree, then one MPI collective where all parts are equally long, else messages.
 * All ranks choose alike, because what decides comes out of the agreement. */
#include <limits.h>
#include <string.h>

#include "engine.h"

/* A call after its agreement. */
typedef struct run {
    group *g;
    const ts_coll *coll;
    size_t element;
    bool go;
} run;

static ts_status begin(run *r, void *self, const ts_coll *coll)
{
    *r = (run){.g = group_of(self), .coll = coll, .element = mpi.host->dtype_size(coll->dtype)};
    TRY(agree_on(r->g, coll, &r->go));
    r->g->user_memory = true;
    if (r->g->agreed.most == 0) r->go = false; /* no elements anywhere */
    return TS_OK;
}

static ts_status end(run *r, ts_status status)
{
    r->g->user_memory = false;
    r->g->ended_ns = mpi.host->now_ns();
    return status;
}

static size_t bytes_of(const run *r, const ts_buffer *b) { return (size_t)b->count * r->element; }

/* All parts of all ranks are this long and fit one call; 0: they do not.  MPIs count all of them in
 * an int inside, where a rank collects for others. */
static size_t even_bytes(const run *r)
{
    const header *h = &r->g->agreed;
    size_t bytes = (size_t)h->most * r->element;
    bool fit = bytes <= (size_t)mpi.limit && bytes <= (size_t)(INT_MAX / r->g->size);
    return h->least == h->most && fit ? bytes : 0;
}

static void copy(void *to, const void *from, size_t bytes)
{
    if (bytes > 0 && to != from) memmove(to, from, bytes);
}

/* ---- equal parts as one block ---------------------------------------------------------------- */

static bool adjoin(const group *g, const ts_buffer *parts, size_t each)
{
    for (int q = 1; q < g->size; q++)
        if (parts[q].data != (char *)parts[0].data + (size_t)q * each) return false;
    return true;
}

/* The parts themselves if they lie one after the other, else the room given. */
static char *block_of(const group *g, const ts_buffer *parts, size_t each, char *room)
{
    return adjoin(g, parts, each) ? parts[0].data : room;
}

static void pack(const group *g, char *block, const ts_buffer *parts, size_t each)
{
    for (int q = 0; q < g->size; q++) copy(block + (size_t)q * each, parts[q].data, each);
}

static void unpack(const group *g, const ts_buffer *parts, const char *block, size_t each)
{
    for (int q = 0; q < g->size; q++) copy(parts[q].data, block + (size_t)q * each, each);
}

/* Do the two blocks share memory? */
static bool overlap(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    return a < b + b_bytes && b < a + a_bytes;
}

/* ---- barrier, all_reduce, reduce, broadcast --------------------------------------------------- */

ts_status mpi_barrier(void *self, const ts_coll *coll)
{
    group *g = group_of(self);
    bool go;
    ts_status status = agree_on(g, coll, &go);
    g->ended_ns = mpi.host->now_ns();
    return status;
}

/* Sums that fit the header travel in it. */
static bool inline_sum(group *g, const ts_coll *coll)
{
    ts_dtype dtype = reduce_dtype(coll->dtype);
    header *h = &g->mine;
    if (coll->status != TS_OK || coll->tensor.count == 0) return false;
    if (coll->tensor.count > (int64_t)(INLINE_BYTES / mpi.host->dtype_size(dtype))) return false;
    h->inlined = (int32_t)coll->tensor.count;
    h->dtype = (uint8_t)dtype;
    h->reduce = (uint8_t)(coll->reduce == TS_AVG ? TS_SUM : coll->reduce);
    if (dtype != coll->dtype)
        mpi.host->convert(h->payload, dtype, coll->tensor.data, coll->dtype, h->inlined);
    else
        memcpy(h->payload, coll->tensor.data, (size_t)h->inlined * mpi.host->dtype_size(dtype));
    return true;
}

ts_status mpi_all_reduce(void *self, const ts_coll *coll)
{
    run r;
    bool inlined = inline_sum(group_of(self), coll);
    TRY(begin(&r, self, coll));
    if (!r.go) return end(&r, TS_OK);
    if (inlined) {
        reduce_finish(r.g, coll, coll->tensor.data, r.g->agreed.payload, coll->tensor.count);
        return end(&r, TS_OK);
    }
    return end(
        &r, reduce_block(r.g, coll, coll->tensor.data, coll->tensor.data, coll->tensor.count, -1));
}

ts_status mpi_reduce(void *self, const ts_coll *coll)
{
    run r;
    TRY(begin(&r, self, coll));
    if (!r.go) return end(&r, TS_OK);
    return end(&r, reduce_block(r.g, coll, coll->tensor.data, coll->tensor.data, coll->tensor.count,
                                coll->root));
}

/* The root's bytes; the others add nothing to them. */
static bool inline_bytes(group *g, const ts_coll *coll)
{
    header *h = &g->mine;
    size_t bytes = (size_t)coll->tensor.count * mpi.host->dtype_size(coll->dtype);
    if (coll->status != TS_OK || bytes == 0 || bytes > INLINE_BYTES) return false;
    h->inlined = (int32_t)bytes;
    h->dtype = TS_UINT8;
    h->reduce = TS_BOR;
    memset(h->payload, 0, INLINE_BYTES);
    if (coll->root == g->rank) memcpy(h->payload, coll->tensor.data, bytes);
    return true;
}

static ts_status broadcast(const run *r)
{
    group *g = r->g;
    const ts_coll *coll = r->coll;
    size_t bytes = bytes_of(r, &coll->tensor), limit = (size_t)mpi.limit;
    for (size_t at = 0; at < bytes; at += limit) {
        int length = (int)(bytes - at < limit ? bytes - at : limit);
        GO(g, coll,
           MPI_Ibcast((char *)coll->tensor.data + at, length, MPI_BYTE, coll->root, g->collective,
                      &request));
    }
    return TS_OK;
}

ts_status mpi_broadcast(void *self, const ts_coll *coll)
{
    run r;
    bool inlined = inline_bytes(group_of(self), coll);
    TRY(begin(&r, self, coll));
    if (!r.go) return end(&r, TS_OK);
    if (!inlined) return end(&r, broadcast(&r));
    if (coll->root != r.g->rank)
        memcpy(coll->tensor.data, r.g->agreed.payload, bytes_of(&r, &coll->tensor));
    return end(&r, TS_OK);
}

/* ---- all_gather, gather, scatter ------------------------------------------------------------- */

static ts_status all_gather_even(const run *r, size_t each)
{
    group *g = r->g;
    const ts_coll *coll = r->coll;
    char *room = adjoin(g, coll->parts, each) ? NULL : group_scratch(g, each * (size_t)g->size);
    char *block = block_of(g, coll->parts, each, room);
    if (!block) return group_give_up(g, TS_ENOMEM);
    copy(block + (size_t)g->rank * each, coll->tensor.data, each);
    GO(g, coll,
       MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, block, (int)each, MPI_BYTE, g->collective,
                      &request));
    if (block == room) unpack(g, coll->parts, block, each);
    return TS_OK;
}

static ts_status all_gather_uneven(const run *r)
{
    group *g = r->g;
    const ts_coll *coll = r->coll;
    exchange x = exchange_begin(g, coll);
    copy(coll->parts[g->rank].data, coll->tensor.data, bytes_of(r, &coll->tensor));
    for (int i = 1; i < g->size; i++) {
        int to = (g->rank + i) % g->size, from = (g->rank - i + g->size) % g->size;
        exchange_recv(&x, from, coll->parts[from].data, bytes_of(r, &coll->parts[from]));
        exchange_send(&x, to, coll->parts[g->rank].data, bytes_of(r, &coll->tensor));
    }
    return exchange_end(&x);
}

ts_status mpi_all_gather(void *self, const ts_coll *coll)
{
    run r;
    TRY(begin(&r, self, coll));
    if (!r.go) return end(&r, TS_OK);
    size_t each = even_bytes(&r);
    return end(&r, each ? all_gather_even(&r, each) : all_gather_uneven(&r));
}

static ts_status gather_even(const run *r, size_t each)
{
    group *g = r->g;
    const ts_coll *coll = r->coll;
    if (coll->root != g->rank) {
        GO(g, coll,
           MPI_Igather(coll->tensor.data, (int)each, MPI_BYTE, NULL, 0, MPI_DATATYPE_NULL,
                       coll->root, g->collective, &request));
        return TS_OK;
    }
    char *room = adjoin(g, coll->parts, each) ? NULL : group_scratch(g, each * (size_t)g->size);
    char *block = block_of(g, coll->parts, each, room);
    if (!block) return group_give_up(g, TS_ENOMEM);
    copy(block + (size_t)g->rank * each, coll->tensor.data, each);
    GO(g, coll,
       MPI_Igather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, block, (int)each, MPI_BYTE, coll->root,
                   g->collective, &request));
    if (block == room) unpack(g, coll->parts, block, each);
    return TS_OK;
}

static ts_status gather_uneven(const run *r)
{
    group *g = r->g;
    const ts_coll *coll = r->coll;
    exchange x = exchange_begin(g, coll);
    if (coll->root == g->rank)
        copy(coll->parts[g->rank].data, coll->tensor.data, bytes_of(r, &coll->tensor));
    else
        exchange_send(&x, coll->root, coll->tensor.data, bytes_of(r, &coll->tensor));
    for (int q = 0; coll->root == g->rank && q < g->size; q++)
        if (q != g->rank) exchange_recv(&x, q, coll->parts[q].data, bytes_of(r, &coll->parts[q]));
    return exchange_end(&x);
}

ts_status mpi_gather(void *self, const ts_coll *coll)
{
    run r;
    TRY(begin(&r, self, coll));
    if (!r.go) return end(&r, TS_OK);
    size_t each = even_bytes(&r);
    return end(&r, each ? gather_even(&r, each) : gather_uneven(&r));
}

static ts_status scatter_even(const run *r, size_t each)
{
    group *g = r->g;
    const ts_coll *coll = r->coll;
    if (coll->root != g->rank) {
        GO(g, coll,
           MPI_Iscatter(NULL, 0, MPI_DATATYPE_NULL, coll->tensor.data, (int)each, MPI_BYTE,
                        coll->root, g->collective, &request));
        return TS_OK;
    }
    char *room = adjoin(g, coll->parts, each) ? NULL : group_scratch(g, each * (size_t)g->size);
    char *block = block_of(g, coll->parts, each, room);
    if (!block) return group_give_up(g, TS_ENOMEM);
    if (block == room) pack(g, block, coll->parts, each);
    GO(g, coll,
       MPI_Iscatter(block, (int)each, MPI_BYTE, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, coll->root,
                    g->collective, &request));
    copy(coll->tensor.data, coll->parts[g->rank].data, each);
    return TS_OK;
}

static ts_status scatter_uneven(const run *r)
{
    group *g = r->g;
    const ts_coll *coll = r->coll;
    exchange x = exchange_begin(g, coll);
    if (coll->root != g->rank)
        exchange_recv(&x, coll->root, coll->tensor.data, bytes_of(r, &coll->tensor));
    for (int q = 0; coll->root == g->rank && q < g->size; q++)
        if (q != g->rank) exchange_send(&x, q, coll->parts[q].data, bytes_of(r, &coll->parts[q]));
    TRY(exchange_end(&x));
    if (coll->root == g->rank)
        copy(coll->tensor.data, coll->parts[g->rank].data, bytes_of(r, &coll->tensor));
    return TS_OK;
}

ts_status mpi_scatter(void *self, const ts_coll *coll)
{
    run r;
    TRY(begin(&r, self, coll));
    if (!r.go) return end(&r, TS_OK);
    size_t each = even_bytes(&r);
    return end(&r, each ? scatter_even(&r, each) : scatter_uneven(&r));
}

/* ---- all_to_all, reduce_scatter -------------------------------------------------------------- */

static ts_status all_to_all_even(const run *r, size_t each)
{
    group *g = r->g;
    const ts_coll *coll = r->coll;
    size_t bytes = each * (size_t)g->size;
    char *room = group_scratch(g, 2 * bytes);
    if (!room) return group_give_up(g, TS_ENOMEM);
    char *in = block_of(g, coll->parts, each, room);
    char *out = block_of(g, coll->received, each, room + bytes);
    if (in != room && overlap(in, bytes, out, bytes)) in = room;
    if (in == room) pack(g, in, coll->parts, each);
    GO(g, coll,
       MPI_Ialltoall(in, (int)each, MPI_BYTE, out, (int)each, MPI_BYTE, g->collective, &request));
    if (out == room + bytes) unpack(g, coll->received, out, each);
    return TS_OK;
}

static ts_status all_to_all_uneven(const run *r)
{
    group *g = r->g;
    const ts_coll *coll = r->coll;
    exchange x = exchange_begin(g, coll);
    for (int i = 1; i < g->size; i++) {
        int to = (g->rank + i) % g->size, from = (g->rank - i + g->size) % g->size;
        exchange_recv(&x, from, coll->received[from].data, bytes_of(r, &coll->received[from]));
        exchange_send(&x, to, coll->parts[to].data, bytes_of(r, &coll->parts[to]));
    }
    copy(coll->received[g->rank].data, coll->parts[g->rank].data,
         bytes_of(r, &coll->parts[g->rank]));
    return exchange_end(&x);
}

ts_status mpi_all_to_all(void *self, const ts_coll *coll)
{
    run r;
    TRY(begin(&r, self, coll));
    if (!r.go) return end(&r, TS_OK);
    size_t each = even_bytes(&r);
    return end(&r, each ? all_to_all_even(&r, each) : all_to_all_uneven(&r));
}

/* Widened for 16-bit types, packed where the parts do not adjoin. */
static ts_status reduce_scatter_even(const run *r, int64_t count)
{
    group *g = r->g;
    const ts_coll *coll = r->coll;
    ts_dtype dtype = reduce_dtype(coll->dtype);
    size_t each = (size_t)count * mpi.host->dtype_size(dtype);
    char *room = group_scratch(g, each * ((size_t)g->size + 1));
    if (!room) return group_give_up(g, TS_ENOMEM);
    char *in = room, *out = room + each * (size_t)g->size;
    if (dtype != coll->dtype)
        for (int q = 0; q < g->size; q++)
            mpi.host->convert(in + (size_t)q * each, dtype, coll->parts[q].data, coll->dtype,
                              count);
    else if (adjoin(g, coll->parts, each))
        in = coll->parts[0].data;
    else
        pack(g, in, coll->parts, each);
    if (dtype == coll->dtype && !overlap(in, each * (size_t)g->size, coll->tensor.data, each))
        out = coll->tensor.data;
    GO(g, coll,
       MPI_Ireduce_scatter_block(in, out, (int)count, reduce_type(dtype),
                                 reduce_op_for(dtype, coll->reduce), g->collective, &request));
    reduce_finish(g, coll, coll->tensor.data, out, count);
    return TS_OK;
}

/* One reduction per rank. */
static ts_status reduce_scatter_uneven(const run *r)
{
    const ts_coll *coll = r->coll;
    for (int q = 0; q < r->g->size; q++)
        TRY(reduce_block(r->g, coll, coll->parts[q].data,
                         q == r->g->rank ? coll->tensor.data : NULL, coll->parts[q].count, q));
    return TS_OK;
}

ts_status mpi_reduce_scatter(void *self, const ts_coll *coll)
{
    run r;
    TRY(begin(&r, self, coll));
    if (!r.go) return end(&r, TS_OK);
    int64_t most = r.g->agreed.most;
    bool even = even_bytes(&r) && most <= mpi.limit / 16;
    return end(&r, even ? reduce_scatter_even(&r, most) : reduce_scatter_uneven(&r));
}

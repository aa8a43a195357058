/* SPDX-License-Identifier: Apache-2.0 */
/* The agreement at the start of every collective: one all-reduce of one line.  Barriers and small
 * all-reduces and broadcasts are done with it. */
#include <stdlib.h>
#include <string.h>

#include "engine.h"

enum { STALE_NS = 1000000 };

static void merge(const header *in, header *out)
{
    out->differs |= in->differs | (in->digest != out->digest) | (in->inlined != out->inlined);
    out->bad |= in->bad;
    out->pairs += in->pairs;
    if (in->least < out->least) out->least = in->least;
    if (in->most > out->most) out->most = in->most;
    if (out->inlined == 0 || out->differs || out->bad) return;
    const void *from[2] = {in->payload, out->payload};
    mpi.host->combine(out->payload, from, 2, out->inlined, (ts_dtype)out->dtype,
                      (ts_reduce_op)out->reduce);
}

static void merge_all(void *in, void *out, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++) merge((const header *)in + i, (header *)out + i);
}

void agree_make_op(void)
{
    MPI_Type_contiguous(sizeof(header), MPI_BYTE, &mpi.header);
    MPI_Type_commit(&mpi.header);
    MPI_Op_create(merge_all, 1, &mpi.agree);
    reduce_make_ops();
}

void agree_free_op(void)
{
    reduce_free_ops();
    MPI_Op_free(&mpi.agree);
    MPI_Type_free(&mpi.header);
}

static void widen(header *h, int64_t count)
{
    if (count < h->least) h->least = count;
    if (count > h->most) h->most = count;
}

/* All but what is inlined. */
static void fill(const group *g, header *h, const ts_coll *coll)
{
    h->digest = mpi.host->digest(coll, g->rank, g->size, &h->pairs);
    h->differs = 0;
    h->bad = coll->status != TS_OK;
    h->least = INT64_MAX;
    h->most = 0;
    if (!coll->parts || coll->op == TS_COLL_GATHER || coll->op == TS_COLL_SCATTER)
        widen(h, coll->tensor.count);
    for (int q = 0; coll->parts && q < g->size; q++) widen(h, coll->parts[q].count);
    for (int q = 0; coll->received && q < g->size; q++) widen(h, coll->received[q].count);
}

/* Off the fast path: everybody's whole statement. */
static ts_status judge(group *g, const ts_coll *coll)
{
    ts_statement *all = malloc(((size_t)g->size + 1) * sizeof *all);
    if (!all)
        return group_give_up(g, group_fail(g, coll, TS_ENOMEM, "out of memory to compare calls"));
    ts_statement *own = all + g->size;
    mpi.host->state(own, coll, g->rank, g->size);
    MPI_Request request = MPI_REQUEST_NULL;
    if (!process_enter()) return group_health(g, coll);
    int code = MPI_Iallgather(own, sizeof *own, MPI_BYTE, all, sizeof *all, MPI_BYTE, g->collective,
                              &request);
    process_leave();
    if (code != MPI_SUCCESS) return group_give_up(g, process_error(code, "MPI_Iallgather"));
    TRY(wait_all(g, coll, &request, 1)); /* on failure the memory stays, it is in flight */
    bool bad;
    ts_status status = mpi.host->judge(all, coll, g->rank, g->size, g->name, &bad);
    free(all);
    return status;
}

/* What others said while nobody listened, before this rank counts on them.  A notice may need some
 * tests to come in. */
static void catch_up(group *g)
{
    int64_t now = mpi.host->now_ns(), silent = now - g->ended_ns;
    int64_t until = now + (silent > 100 * STALE_NS ? STALE_NS : 0);
    if (silent < STALE_NS) return;
    do {
        if (!process_enter()) return;
        bells_poll(g);
        process_leave();
    } while (mpi.host->now_ns() < until);
}

ts_status agree_on(group *g, const ts_coll *coll, bool *go)
{
    *go = false;
    g->has_all = false;
    g->last = coll->sequence;
    catch_up(g);
    TRY(group_health(g, coll));
    fill(g, &g->mine, coll);
    GO(g, coll,
       MPI_Iallreduce(&g->mine, &g->agreed, 1, mpi.header, mpi.agree, g->collective, &request));
    g->has_all = true;
    g->mine.inlined = 0;
    const header *h = &g->agreed;
    if (h->differs || h->bad || h->pairs) return judge(g, coll);
    *go = true;
    return TS_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/coll/all_to_all/pairs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { WORDING_STEP = (1 << 24) - 1 };

static const ts_buffer nothing = {NULL, 0, -1};

ts_buffer ts_pairs_given(const ts_coll *coll, int rank, int q)
{
    if (coll->op == TS_COLL_GATHER) return q == coll->root ? coll->tensor : nothing;
    if (coll->op == TS_COLL_SCATTER && rank != coll->root) return nothing;
    return coll->parts ? coll->parts[q] : nothing;
}

ts_buffer ts_pairs_taken(const ts_coll *coll, int rank, int q)
{
    if (coll->op == TS_COLL_SCATTER) return q == coll->root ? coll->tensor : nothing;
    if (coll->op == TS_COLL_ALL_TO_ALL) return coll->received ? coll->received[q] : nothing;
    return rank == coll->root && coll->parts ? coll->parts[q] : nothing;
}

int64_t ts_pairs_most(const ts_coll *coll, int rank, int size)
{
    int64_t most = 0;
    for (int q = 0; q < size; q++) {
        int64_t count = ts_pairs_given(coll, rank, q).count;
        if (count > most) most = count;
    }
    return most;
}

/* ---- wording --------------------------------------------------------------------------------- */

/* Everybody's counts: what rank r gives q at table[r * 2 * size + q], what it takes behind that. */
static ts_status exchange_counts(ts_native *n, const ts_coll *coll, int64_t *table)
{
    size_t row = 2 * (size_t)n->size;
    int64_t *own = table + (size_t)n->rank * row;
    ts_exchange exchange = ts_exchange_begin(n, coll);
    for (int q = 0; q < n->size; q++) {
        own[q] = ts_pairs_given(coll, n->rank, q).count;
        own[n->size + q] = ts_pairs_taken(coll, n->rank, q).count;
    }
    for (int q = 0; q < n->size; q++) {
        if (q == n->rank) continue;
        ts_exchange_recv(&exchange, q, WORDING_STEP, table + (size_t)q * row, row * sizeof *own);
        ts_exchange_send(&exchange, q, WORDING_STEP, own, row * sizeof *own);
    }
    return ts_exchange_wait(&exchange);
}

static ts_status word(ts_native *n, const ts_coll *coll, const int64_t *table)
{
    int size = n->size, pairs = 0, from = 0, to = 0;
    int64_t given = 0, taken = 0;
    for (int i = 0; i < size; i++)
        for (int j = 0; j < size; j++) {
            int64_t gives = table[2 * i * size + j], takes = table[2 * j * size + size + i];
            if (gives == takes || pairs++ > 0) continue;
            from = i, to = j, given = gives, taken = takes;
        }
    char others[32] = "";
    if (pairs > 1) snprintf(others, sizeof others, " (and %d more pairs)", pairs - 1);
    return ts_native_fail(n, coll, TS_EMISMATCH,
                          "ranks disagree: rank %d gives rank %d %lld element%s of %s, which takes "
                          "%lld%s; sizes must agree in pairs",
                          ts_native_global(n, from), ts_native_global(n, to), (long long)given,
                          ts_plural(given), ts_dtype_name(coll->dtype), (long long)taken, others);
}

ts_status ts_pairs_mismatch(ts_native *n, const ts_coll *coll)
{
    int64_t *table = ts_calloc(2 * (size_t)n->size * (size_t)n->size, sizeof *table);
    if (!table) {
        ts_fail_memory(2 * (size_t)n->size * (size_t)n->size * sizeof *table, "sizes to compare");
        return ts_native_give_up(n, TS_ENOMEM);
    }
    ts_status status = exchange_counts(n, coll, table);
    if (status == TS_OK) status = word(n, coll, table);
    free(table);
    return status;
}

/* ---- running --------------------------------------------------------------------------------- */

void ts_pairs_keep_own(const ts_coll *coll, int rank)
{
    ts_buffer from = ts_pairs_given(coll, rank, rank), to = ts_pairs_taken(coll, rank, rank);
    if (to.count > 0 && to.data != from.data)
        memmove(to.data, from.data, (size_t)to.count * ts_dtype_size(coll->dtype));
}

static ts_status pick(ts_native *n, const ts_coll *coll)
{
    if (coll->status != TS_OK) return ts_native_agree(n, coll);
    return n->shared ? ts_pairs_shm(&n->shm, coll) : ts_pairs_hosts(n, coll);
}

ts_status ts_pairs_run(ts_native *n, const ts_coll *coll)
{
    return ts_native_over(n, coll, pick(n, coll));
}

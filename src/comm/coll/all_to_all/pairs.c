/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/coll/all_to_all/pairs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/site.h"
#include "comm/wording.h"

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

enum { SITE_BYTES = 200 };

/* What rank r tells: its call site, then what it gives every rank, then what it takes. */
typedef struct table {
    int size;
    size_t row;
    char *rows;
} table;

static char *site_of(const table *t, int r) { return t->rows + (size_t)r * t->row; }
static int64_t *given_by(const table *t, int r)
{
    return (int64_t *)(void *)(site_of(t, r) + SITE_BYTES);
}
static int64_t *taken_by(const table *t, int r) { return given_by(t, r) + t->size; }

static ts_status exchange_rows(ts_native *n, const ts_coll *coll, const table *t)
{
    ts_exchange exchange = ts_exchange_begin(n, coll);
    ts_site_text(site_of(t, n->rank), SITE_BYTES, coll->site);
    for (int q = 0; q < n->size; q++) {
        given_by(t, n->rank)[q] = ts_pairs_given(coll, n->rank, q).count;
        taken_by(t, n->rank)[q] = ts_pairs_taken(coll, n->rank, q).count;
    }
    for (int q = 0; q < n->size; q++) {
        if (q == n->rank) continue;
        ts_exchange_recv(&exchange, q, WORDING_STEP, site_of(t, q), t->row);
        ts_exchange_send(&exchange, q, WORDING_STEP, site_of(t, n->rank), t->row);
    }
    return ts_exchange_wait(&exchange);
}

/* " at train.c:42 in step", or nothing. */
static const char *at_site(char (*text)[SITE_BYTES + 8], const table *t, int r)
{
    const char *site = site_of(t, r);
    snprintf(*text, sizeof *text, "%s%.*s", *site ? " at " : "", SITE_BYTES, site);
    return *text;
}

static ts_status word(ts_native *n, const ts_coll *coll, const table *t)
{
    int pairs = 0, from = 0, to = 0;
    int64_t given = 0, taken = 0;
    for (int i = 0; i < t->size; i++)
        for (int j = 0; j < t->size; j++) {
            int64_t gives = given_by(t, i)[j], takes = taken_by(t, j)[i];
            if (gives == takes || pairs++ > 0) continue;
            from = i, to = j, given = gives, taken = takes;
        }
    char others[32] = "", giver[SITE_BYTES + 8], taker[SITE_BYTES + 8];
    if (pairs > 1) snprintf(others, sizeof others, " (and %d more pairs)", pairs - 1);
    return ts_native_fail(
        n, coll, TS_EMISMATCH,
        "ranks disagree on sizes in pairs: rank %d gives rank %d %lld element%s of %s%s, which "
        "takes %lld%s%s; " TS_WORD_PAIRS,
        ts_native_global(n, from), ts_native_global(n, to), (long long)given, ts_plural(given),
        ts_dtype_name(coll->dtype), at_site(&giver, t, from), (long long)taken,
        at_site(&taker, t, to), others);
}

ts_status ts_pairs_mismatch(ts_native *n, const ts_coll *coll)
{
    table t = {.size = n->size, .row = SITE_BYTES + 2 * (size_t)n->size * sizeof(int64_t)};
    t.rows = ts_calloc((size_t)n->size, t.row);
    if (!t.rows) {
        ts_fail_memory((size_t)n->size * t.row, "sizes to compare");
        return ts_native_give_up(n, TS_ENOMEM);
    }
    ts_status status = exchange_rows(n, coll, &t);
    if (status == TS_OK) status = word(n, coll, &t);
    free(t.rows);
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

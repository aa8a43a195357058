/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks on several hosts: short pieces ride with the agreement; otherwise every rank sends every
 * other what is for it: all at once, or with one after the other. */
#include <string.h>

#include "comm/backend/native/team.h"
#include "comm/coll/all_to_all/pairs.h"

enum { STEP = 16 };

/* ---- short ----------------------------------------------------------------------------------- */

/* In a ride lie the lengths of the pieces, then the pieces, both by the rank that they are for. */
static size_t head_bytes(const ts_native *n) { return (size_t)n->size * sizeof(uint32_t); }

static size_t ride_bytes(const ts_native *n, const ts_coll *coll)
{
    size_t bytes = 0;
    for (int q = 0; q < n->size; q++)
        bytes += (size_t)ts_pairs_given(coll, n->rank, q).count * ts_dtype_size(coll->dtype);
    return bytes == 0 ? 0 : head_bytes(n) + bytes;
}

static void load(ts_native *n, const ts_coll *coll, const ts_ride *r)
{
    char *room = ts_ride_room(n, r), *to = room + head_bytes(n);
    for (int q = 0; q < n->size; q++) {
        ts_buffer piece = ts_pairs_given(coll, n->rank, q);
        uint32_t bytes = (uint32_t)((size_t)piece.count * ts_dtype_size(coll->dtype));
        memcpy(room + (size_t)q * sizeof bytes, &bytes, sizeof bytes);
        if (bytes > 0) memcpy(to, piece.data, bytes);
        to += bytes;
    }
}

/* The piece for this rank in what rank q gave. */
static void take(const ts_native *n, const ts_coll *coll, int q, const char *given)
{
    ts_buffer piece = ts_pairs_taken(coll, n->rank, q);
    const char *from = given + head_bytes(n);
    for (int r = 0; r < n->rank; r++) {
        uint32_t bytes;
        memcpy(&bytes, given + (size_t)r * sizeof bytes, sizeof bytes);
        from += bytes;
    }
    if (piece.count > 0) memcpy(piece.data, from, (size_t)piece.count * ts_dtype_size(coll->dtype));
}

/* Whether all pieces have ridden; each rank knows its own lengths only. */
static ts_status ride(ts_native *n, const ts_coll *coll, size_t most, bool *rode)
{
    ts_ride r = {.bytes = ride_bytes(n, coll)};
    size_t ranks = coll->op == TS_COLL_SCATTER ? 1 : (size_t)n->size;
    if (r.bytes > most || !ts_ride_fits(n, false, r.bytes * ranks))
        r.bytes = SIZE_MAX;
    else if (r.bytes > 0)
        load(n, coll, &r);
    TS_TRY(ts_hosts_agree(n, coll, &r));
    *rode = r.result != NULL;
    for (int i = 0; i < n->size && *rode; i++) {
        int q = n->topology.member[i];
        if (q != n->rank && r.lengths[i] > 0) take(n, coll, q, r.result);
        r.result += r.lengths[i];
    }
    return TS_OK;
}

/* ---- long ------------------------------------------------------------------------------------ */

static void start(ts_exchange *e, const ts_coll *coll, int to, int from)
{
    int rank = e->native->rank;
    size_t element = ts_dtype_size(coll->dtype);
    ts_buffer given = ts_pairs_given(coll, rank, to), taken = ts_pairs_taken(coll, rank, from);
    if (taken.count > 0) ts_exchange_recv(e, from, STEP, taken.data, (size_t)taken.count * element);
    if (given.count > 0) ts_exchange_send(e, to, STEP, given.data, (size_t)given.count * element);
}

static ts_status direct(ts_native *n, const ts_coll *coll)
{
    ts_exchange e = ts_exchange_begin(n, coll);
    for (int i = 1; i < n->size; i++)
        start(&e, coll, (n->rank + i) % n->size, (n->rank + n->size - i) % n->size);
    return ts_exchange_wait(&e);
}

static ts_status pairwise(ts_native *n, const ts_coll *coll)
{
    for (int i = 1; i < n->size; i++) {
        ts_exchange e = ts_exchange_begin(n, coll);
        start(&e, coll, (n->rank + i) % n->size, (n->rank + n->size - i) % n->size);
        TS_TRY(ts_exchange_wait(&e));
    }
    return TS_OK;
}

static ts_status swap(ts_native *n, const ts_coll *coll)
{
    size_t element = ts_dtype_size(coll->dtype);
    ts_buffer given = ts_pairs_given(coll, n->rank, 1 - n->rank);
    ts_buffer taken = ts_pairs_taken(coll, n->rank, 1 - n->rank);
    TS_TRY(ts_hosts_swap(n, coll, given.data, (size_t)given.count * element, taken.data,
                         (size_t)taken.count * element));
    ts_pairs_keep_own(coll, n->rank);
    return TS_OK;
}

ts_status ts_pairs_hosts(ts_native *n, const ts_coll *coll)
{
    const ts_choice *choice = ts_choose(&n->selection, coll->op, 0);
    bool rode = false;
    if (choice->algorithm == TS_ALGORITHM_FLAT && ts_can_swap(n)) return swap(n, coll);
    if (choice->algorithm == TS_ALGORITHM_FLAT)
        TS_TRY(ride(n, coll, choice->max_bytes / (size_t)n->size, &rode));
    else
        TS_TRY(ts_hosts_agree(n, coll, NULL));
    while (choice->algorithm == TS_ALGORITHM_FLAT) choice++;
    ts_pairs_keep_own(coll, n->rank);
    if (rode) return TS_OK;
    return choice->algorithm == TS_ALGORITHM_PAIRWISE ? pairwise(n, coll) : direct(n, coll);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Recursive halving, then doubling.  Pairs at distance p / 2 exchange halves and reduce the one that
 * each keeps; then pairs at p / 4 quarters, and so on, until each has one share reduced.  The same
 * way back brings all shares to all.
 * (Rabenseifner: Optimization of collective reduction operations, ICCS 2004.) */
#include "comm/coll/all_reduce/all_reduce.h"

typedef struct halves {
    ts_team *t;
    ts_fold fold;
    char *data, *scratch;
    size_t bytes;
    int first, count; /* shares that this rank works on */
} halves;

/* Where share i begins. */
static size_t begin_of(const halves *h, int i)
{
    size_t element = ts_dtype_size(h->t->coll->dtype);
    int64_t length = (int64_t)(h->bytes / element);
    if (i == h->fold.size) return h->bytes;
    return (size_t)ts_share_of(length, h->fold.size, i, element).begin * element;
}

static ts_status halve(halves *h)
{
    int half = h->count / 2, place = h->fold.place ^ half;
    int peer = ts_fold_rank(&h->fold, place), low = place > h->fold.place;
    int keep = low ? h->first : h->first + half, give = low ? h->first + half : h->first;
    size_t kept = begin_of(h, keep), kept_bytes = begin_of(h, keep + half) - kept;
    size_t given = begin_of(h, give), given_bytes = begin_of(h, give + half) - given;
    char *mine = h->data + kept;
    TS_TRY(ts_team_swap(h->t, peer, h->data + given, given_bytes, peer, h->scratch, kept_bytes));
    ts_team_combine(h->t, mine, low ? mine : h->scratch, low ? h->scratch : mine, kept_bytes);
    h->first = keep;
    h->count = half;
    return TS_OK;
}

static ts_status double_back(halves *h)
{
    int place = h->fold.place ^ h->count, peer = ts_fold_rank(&h->fold, place);
    int other = place > h->fold.place ? h->first + h->count : h->first - h->count;
    size_t mine = begin_of(h, h->first), theirs = begin_of(h, other);
    TS_TRY(ts_team_swap(h->t, peer, h->data + mine, begin_of(h, h->first + h->count) - mine, peer,
                        h->data + theirs, begin_of(h, other + h->count) - theirs));
    if (other < h->first) h->first = other;
    h->count *= 2;
    return TS_OK;
}

ts_status ts_all_reduce_halving(ts_team *t, char *data, size_t bytes)
{
    halves h = {.t = t, .fold = ts_fold_of(t), .data = data, .bytes = bytes};
    h.count = h.fold.size;
    h.scratch = ts_native_scratch(t->native, bytes);
    if (!h.scratch) return ts_native_give_up(t->native, TS_ENOMEM);
    TS_TRY(ts_fold_in(t, &h.fold, data, h.scratch, bytes));
    while (h.fold.place >= 0 && h.count > 1) TS_TRY(halve(&h));
    if (h.fold.place >= 0) {
        size_t mine = begin_of(&h, h.first);
        ts_team_finish(t, data + mine, begin_of(&h, h.first + 1) - mine);
    }
    while (h.fold.place >= 0 && h.count < h.fold.size) TS_TRY(double_back(&h));
    return ts_fold_out(t, &h.fold, data, bytes);
}

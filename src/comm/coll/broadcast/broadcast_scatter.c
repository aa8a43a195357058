/* SPDX-License-Identifier: Apache-2.0 */
/* The root scatters the data over a binomial tree, each rank ends with a share of it; a ring brings
 * all shares to all.
 * (Barnett, Shuler, van de Geijn and others: Interprocessor collective communication library, 1994.)
 */
#include "comm/coll/broadcast/broadcast.h"

typedef struct scatter {
    ts_team *t;
    int root;
    char *data;
    size_t bytes;
} scatter;

/* Where the share of rank v, counted from the root, begins; v may be the number of ranks. */
static size_t begin_of(const scatter *s, int v)
{
    if (v >= s->t->size) return s->bytes;
    return (size_t)ts_share_of((int64_t)s->bytes, s->t->size, v, 1).begin;
}

/* Rank v holds the shares v .. v + 2^k - 1 of its subtree. */
static ts_status spread(const scatter *s)
{
    ts_team *t = s->t;
    int v = (t->rank - s->root + t->size) % t->size, bit = 1;
    while (bit < t->size && !(v & bit)) bit *= 2;
    size_t first = begin_of(s, v);
    if (v > 0)
        TS_TRY(ts_team_swap(t, 0, NULL, 0, (t->rank - bit + t->size) % t->size, s->data + first,
                            begin_of(s, v + bit) - first));
    ts_exchange e = ts_exchange_begin(t->native, t->coll);
    while ((bit /= 2) > 0) {
        size_t from = begin_of(s, v + bit);
        if (v + bit < t->size)
            ts_team_send(&e, t, (t->rank + bit) % t->size, s->data + from,
                         begin_of(s, v + 2 * bit) - from);
    }
    return ts_exchange_wait(&e);
}

ts_status ts_broadcast_scatter(ts_team *t, int root, char *data, size_t bytes, size_t segment)
{
    scatter s = {t, root, data, bytes};
    TS_TRY(spread(&s));
    return ts_broadcast_chain(t, root, data, bytes, t->size, segment);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The first meeting of a group: who shares memory with whom. */
#include <stdlib.h>

#include "base/memory.h"
#include "comm/backend/native/native.h"

/* The ranks of this host, before it is known whether they can share memory. */
static int list_neighbours(ts_native *n)
{
    int here = 0;
    for (int q = 0; q < n->size; q++)
        if (q == n->rank || ts_port_same_host(n->port, q)) n->member[here++] = q;
    return here;
}

/* Tells the neighbours where the control block is; *good: all reach all. */
static ts_status meet_neighbours(ts_native *n, const ts_coll *opening, bool *good)
{
    ts_shm *s = &n->shm;
    int here = list_neighbours(n), own = 0;
    int64_t *place = ts_calloc((size_t)here, sizeof *place);
    if (!place) return ts_fail_memory((size_t)here * sizeof *place, "a group");
    while (n->member[own] != n->rank) own++;
    place[own] = ts_shm_map(s, here, own, n->member);
    ts_exchange exchange = ts_exchange_begin(n, opening);
    for (int q = 0; q < here; q++) {
        if (q == own) continue;
        ts_exchange_recv(&exchange, n->member[q], 0, &place[q], sizeof place[q]);
        ts_exchange_send(&exchange, n->member[q], 0, &place[own], sizeof place[q]);
    }
    ts_status status = ts_exchange_wait(&exchange);
    *good = status == TS_OK;
    for (int q = 0; q < here; q++) *good = *good && place[q] >= 0;
    if (*good) ts_shm_join(s, place);
    free(place);
    return status;
}

/* Bruck's all-gather of one number per rank: in step k rank r gets 2^k of them from r + 2^k. */
static ts_status gather_numbers(ts_native *n, const ts_coll *opening, int32_t *number)
{
    int size = n->size, rank = n->rank;
    int32_t *turned = ts_calloc((size_t)size, sizeof *turned); /* starts with the own one */
    if (!turned) return ts_fail_memory((size_t)size * sizeof *turned, "a group");
    ts_status status = TS_OK;
    turned[0] = number[rank];
    for (int have = 1; have < size && status == TS_OK; have *= 2) {
        size_t bytes = (size_t)(have < size - have ? have : size - have) * sizeof *turned;
        ts_exchange exchange = ts_exchange_begin(n, opening);
        ts_exchange_recv(&exchange, (rank + have) % size, 1, turned + have, bytes);
        ts_exchange_send(&exchange, (rank - have + size) % size, 1, turned, bytes);
        status = ts_exchange_wait(&exchange);
    }
    for (int i = 0; i < size; i++) number[(rank + i) % size] = turned[i];
    free(turned);
    return status;
}

/* first: by rank, the least rank that it shares memory with. */
static ts_status find_hosts(ts_native *n, int32_t *first)
{
    int hosts = 0;
    int *host = ts_calloc((size_t)n->size, sizeof *host);
    if (!host) return ts_fail_memory((size_t)n->size * sizeof *host, "a group");
    for (int q = 0; q < n->size; q++) host[q] = first[q] == q ? hosts++ : host[first[q]];
    ts_status status = ts_topology_init(&n->topology, n->rank, n->size, host);
    ts_selection_init(&n->selection, n->size, hosts);
    free(host);
    return status == TS_OK ? ts_host_round_new(&n->round, &n->topology) : status;
}

static ts_status meet_hosts(ts_native *n, const ts_coll *opening, bool good)
{
    int32_t *first = ts_calloc((size_t)n->size, sizeof *first);
    if (!first) return ts_fail_memory((size_t)n->size * sizeof *first, "a group");
    first[n->rank] = good ? n->member[0] : n->rank;
    ts_status status = gather_numbers(n, opening, first);
    if (status == TS_OK) status = find_hosts(n, first);
    free(first);
    return status;
}

/* Without shared memory every rank is a host of its own. */
static void leave_alone(ts_native *n)
{
    n->member[0] = n->rank;
    n->shm.rank = 0;
    n->shm.size = 1;
}

ts_status ts_native_meet(ts_native *n, int64_t timeout_ms)
{
    ts_coll opening = {.timeout_ms = timeout_ms, .name = "joining"};
    bool good = false;
    TS_TRY(meet_neighbours(n, &opening, &good));
    n->shared = good && n->shm.size == n->size;
    if (!good) leave_alone(n);
    ts_selection_init(&n->shm.selection, n->shm.size, 1);
    if (!n->shared) TS_TRY(meet_hosts(n, &opening, good));
    n->deadline_of = UINT64_MAX;
    n->met = true;
    return TS_OK;
}

/* ---- over the links of another group --------------------------------------------------------- */

void ts_native_present(ts_native *n, ts_native_record *own)
{
    int here = list_neighbours(n), at = 0;
    while (n->member[at] != n->rank) at++;
    *own = (ts_native_record){.place = ts_shm_map(&n->shm, here, at, n->member),
                              .first = n->member[0],
                              .number = ts_port_number(n->port)};
}

/* A host without shared memory falls apart into its ranks.  first: as in find_hosts. */
static void find_first(int32_t *first, const ts_native_record *all, int size)
{
    for (int q = 0; q < size; q++) first[q] = all[q].first;
    for (int q = 0; q < size; q++)
        if (all[q].place < 0) first[all[q].first] = -1;
    for (int q = 0; q < size; q++) first[q] = first[all[q].first] < 0 ? q : all[q].first;
}

static bool join_neighbours(ts_native *n, const ts_native_record *all)
{
    int64_t *place = ts_calloc((size_t)n->shm.size, sizeof *place);
    if (!place) return false;
    for (int q = 0; q < n->shm.size; q++) place[q] = all[n->member[q]].place;
    ts_shm_join(&n->shm, place);
    free(place);
    return true;
}

ts_status ts_native_settle(ts_native *n, const ts_native_record *all)
{
    int32_t *first = ts_calloc((size_t)n->size, sizeof *first);
    if (!first) return ts_fail_memory((size_t)n->size * sizeof *first, "a group");
    find_first(first, all, n->size);
    bool good = first[n->rank] == all[n->rank].first && all[n->rank].place >= 0;
    ts_status status = TS_OK;
    if (good && !join_neighbours(n, all)) status = ts_fail_memory(sizeof *first, "a group");
    n->shared = good && n->shm.size == n->size;
    if (!good) leave_alone(n);
    ts_selection_init(&n->shm.selection, n->shm.size, 1);
    if (status == TS_OK && !n->shared) status = find_hosts(n, first);
    n->met = status == TS_OK;
    free(first);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks on several hosts.  Each host gathers the parts of its own ranks in shared memory.  Then lane
 * k carries the parts of the ranks k, k + lanes, ... of each host to the others, one round each; and
 * what it got is gathered within each host.  Every part enters a host once. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "comm/coll/all_gather/all_gather.h"

static ts_status ride(ts_native *n, const ts_coll *coll)
{
    ts_ride r = {.bytes = ts_gathered_bytes(coll, n->rank)};
    if (r.bytes > 0) memcpy(ts_ride_room(n, &r), coll->tensor.data, r.bytes);
    TS_TRY(ts_hosts_agree(n, coll, &r));
    if (coll->status != TS_OK || !r.result) return TS_OK;
    for (int i = 0; i < n->size; i++) {
        int q = n->topology.member[i];
        if (q != n->rank && r.lengths[i] > 0) memcpy(coll->parts[q].data, r.result, r.lengths[i]);
        r.result += r.lengths[i];
    }
    ts_all_gather_keep(coll, n->rank);
    return TS_OK;
}

static ts_status swap(ts_native *n, const ts_coll *coll)
{
    int peer = 1 - n->rank;
    TS_TRY(ts_hosts_swap(n, coll, coll->tensor.data, ts_gathered_bytes(coll, n->rank),
                         coll->parts[peer].data, ts_gathered_bytes(coll, peer)));
    ts_all_gather_keep(coll, n->rank);
    return TS_OK;
}

/* The part of rank i of a host; empty where there is none. */
static ts_buffer part_of(const ts_native *n, const ts_coll *coll, int host, int i)
{
    if (i >= ts_host_size(&n->topology, host)) return (ts_buffer){NULL, 0, 0};
    ts_buffer part = coll->parts[ts_host_member(&n->topology, host, i)];
    return part.count > 0 ? part : (ts_buffer){NULL, 0, 0};
}

/* Parts first, first + 1, ... of a host, one from each local rank that has it. */
static ts_status gather_local(ts_native *n, const ts_coll *coll, int host, int first, int count)
{
    int64_t all = 0;
    if (n->shm.size == 1) return TS_OK;
    for (int i = 0; i < n->shm.size; i++) {
        n->parts[i] = i < count ? part_of(n, coll, host, first + i) : (ts_buffer){NULL, 0, 0};
        all += n->parts[i].count;
    }
    if (all == 0) return TS_OK;
    ts_coll part = ts_host_part(n, coll, TS_COLL_ALL_GATHER);
    part.tensor = n->parts[n->shm.rank];
    part.parts = n->parts;
    return ts_all_gather_local(&n->shm, &part);
}

static ts_status own_host(ts_native *n, const ts_coll *coll)
{
    ts_all_gather_keep(coll, n->rank);
    return gather_local(n, coll, n->topology.host, 0, n->shm.size);
}

static ts_status one_lane(ts_native *n, const ts_coll *coll, const ts_choice *choice, int first)
{
    ts_team lane = ts_lane_team(n, coll);
    size_t element = ts_dtype_size(coll->dtype), hosts = (size_t)lane.size;
    char **chunk = ts_calloc(hosts, sizeof *chunk);
    size_t *bytes = ts_calloc(hosts, sizeof *bytes);
    ts_status status = chunk && bytes ? TS_OK : TS_ENOMEM;
    if (status != TS_OK) status = ts_native_give_up(n, ts_fail_memory(hosts * 16, "a gather"));
    for (int h = 0; status == TS_OK && h < lane.size; h++) {
        ts_buffer part = part_of(n, coll, h, first + n->shm.rank);
        chunk[h] = part.data;
        bytes[h] = (size_t)part.count * element;
    }
    ts_ring ring = {chunk, bytes, .gather = true, .segment = choice->segment};
    if (status == TS_OK)
        status = choice->algorithm == TS_ALGORITHM_RING ? ts_ring_run(&lane, &ring)
                                                        : ts_all_gather_direct(&lane, chunk, bytes);
    free(chunk);
    free(bytes);
    return status;
}

static ts_status one_round(ts_native *n, const ts_coll *coll, const ts_choice *choice, int first)
{
    const ts_topology *t = &n->topology;
    if (ts_has_lane(t)) TS_TRY(one_lane(n, coll, choice, first));
    for (int i = 1; i < t->hosts; i++)
        TS_TRY(gather_local(n, coll, (t->host + i) % t->hosts, first, t->lanes));
    return TS_OK;
}

ts_status ts_all_gather_hosts(ts_native *n, const ts_coll *coll)
{
    size_t all = 0;
    int rounds = 1;
    for (int q = 0; q < n->size; q++) all += ts_gathered_bytes(coll, q);
    const ts_choice *choice = ts_choose(&n->selection, TS_COLL_ALL_GATHER, all);
    if (choice->algorithm == TS_ALGORITHM_FLAT && ts_can_swap(n) && all > TS_SWAP_LEAST)
        return swap(n, coll);
    if (choice->algorithm == TS_ALGORITHM_FLAT && ts_ride_fits(n, false, all)) return ride(n, coll);
    while (choice->algorithm == TS_ALGORITHM_FLAT) choice++;
    TS_TRY(ts_hosts_agree(n, coll, NULL));
    TS_TRY(own_host(n, coll));
    for (int h = 0; h < n->topology.hosts; h++)
        if (rounds * n->topology.lanes < ts_host_size(&n->topology, h))
            rounds = (ts_host_size(&n->topology, h) - 1) / n->topology.lanes + 1;
    for (int i = 0; i < rounds; i++) TS_TRY(one_round(n, coll, choice, i * n->topology.lanes));
    return TS_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks on several hosts: the root's host gets the data through shared memory; each lane takes a
 * share of it to the other hosts, which gather the shares.  Every byte enters a host once. */
#include <string.h>

#include "comm/coll/all_gather/all_gather.h"
#include "comm/coll/broadcast/broadcast.h"

enum { LEAST_SHARE = 32 * 1024 };

static ts_status ride(ts_native *n, const ts_coll *coll, size_t bytes)
{
    bool root = n->rank == coll->root;
    ts_ride r = {.bytes = root ? bytes : 0};
    if (root && bytes > 0) memcpy(ts_ride_room(n, &r), coll->tensor.data, bytes);
    TS_TRY(ts_hosts_agree(n, coll, &r));
    if (!root && bytes > 0 && r.result) memcpy(coll->tensor.data, r.result, bytes);
    return TS_OK;
}

static ts_status between_hosts(ts_native *n, const ts_coll *coll, const ts_choice *choice,
                               char *data, size_t bytes)
{
    ts_team lane = ts_lane_team(n, coll);
    int root = n->topology.host_of[coll->root];
    switch (choice->algorithm) {
    case TS_ALGORITHM_SCATTER:
        return ts_broadcast_scatter(&lane, root, data, bytes, choice->segment);
    case TS_ALGORITHM_CHAIN:
        return ts_broadcast_chain(&lane, root, data, bytes, 1, choice->segment);
    default: return ts_broadcast_tree(&lane, root, data, bytes);
    }
}

static ts_status from_root(ts_native *n, const ts_coll *coll)
{
    if (n->shm.size == 1) return TS_OK;
    ts_coll part = ts_host_part(n, coll, TS_COLL_BROADCAST);
    part.root = n->topology.local_of[coll->root];
    part.tensor = coll->tensor;
    return ts_broadcast_local(&n->shm, &part);
}

static ts_status gather_shares(ts_native *n, const ts_coll *coll)
{
    if (n->shm.size == 1) return TS_OK;
    ts_coll part = ts_host_part(n, coll, TS_COLL_ALL_GATHER);
    part.tensor = n->parts[n->shm.rank];
    part.parts = n->parts;
    return ts_all_gather_local(&n->shm, &part);
}

ts_status ts_broadcast_hosts(ts_native *n, const ts_coll *coll)
{
    size_t element = ts_dtype_size(coll->dtype), bytes = ts_tensor_bytes_of(coll);
    const ts_choice *choice = ts_choose(&n->selection, TS_COLL_BROADCAST, bytes);
    if (choice->algorithm == TS_ALGORITHM_FLAT && ts_can_swap(n) && bytes > TS_SWAP_LEAST) {
        bool root = n->rank == coll->root;
        return ts_hosts_swap(n, coll, coll->tensor.data, root ? bytes : 0, coll->tensor.data,
                             root ? 0 : bytes);
    }
    if (choice->algorithm == TS_ALGORITHM_FLAT && ts_ride_fits(n, false, bytes))
        return ride(n, coll, bytes);
    while (choice->algorithm == TS_ALGORITHM_FLAT) choice++;
    TS_TRY(ts_hosts_agree(n, coll, NULL));
    ts_cut_for_lanes(n, &coll->tensor, element, LEAST_SHARE);
    ts_buffer own = n->parts[n->shm.rank];
    bool here = n->topology.host == n->topology.host_of[coll->root];
    if (here) TS_TRY(from_root(n, coll));
    if (own.count > 0)
        TS_TRY(between_hosts(n, coll, choice, own.data, (size_t)own.count * element));
    return here ? TS_OK : gather_shares(n, coll);
}

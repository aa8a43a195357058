/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks on several hosts.  Block by block each host reduces in its shared memory, rank k of it one
 * share per lane; the lanes reduce the shares on the root's host; there the root gathers them.  Only
 * the root's tensor changes, so the shares lie in a room of their own. */
#include <string.h>

#include "comm/coll/all_to_all/pairs.h"
#include "comm/coll/reduce/reduce.h"
#include "comm/coll/reduce_scatter/reduce_scatter.h"

enum { LEAST_SHARE = 16 * 1024, BLOCK_BYTES = 4 * 1024 * 1024, DIRECT_BLOCK_BYTES = 256 * 1024 };

static ts_status ride(ts_native *n, const ts_coll *coll, size_t bytes)
{
    ts_ride r = {.sum = true, .bytes = bytes};
    if (bytes > 0) memcpy(ts_ride_room(n, &r), coll->tensor.data, bytes);
    TS_TRY(ts_hosts_agree(n, coll, &r));
    if (n->rank == coll->root && bytes > 0 && r.result) memcpy(coll->tensor.data, r.result, bytes);
    return TS_OK;
}

/* One rank per host: those who are not the root send their tensors as they lie, block after block,
 * while the root reduces. */
static ts_status direct(ts_native *n, const ts_coll *coll, size_t bytes)
{
    ts_team lane = ts_lane_team(n, coll);
    int root = n->topology.host_of[coll->root];
    for (size_t at = 0; at < bytes; at += DIRECT_BLOCK_BYTES) {
        size_t length = bytes - at < DIRECT_BLOCK_BYTES ? bytes - at : DIRECT_BLOCK_BYTES;
        TS_TRY(ts_reduce_direct(&lane, root, (char *)coll->tensor.data + at, length));
    }
    return TS_OK;
}

static ts_status reduce_local(ts_native *n, const ts_coll *coll, ts_buffer share, char *room)
{
    if (n->shm.size == 1) {
        memcpy(room, share.data, (size_t)share.count * ts_dtype_size(coll->dtype));
        return TS_OK;
    }
    ts_coll part = ts_host_part(n, coll, TS_COLL_REDUCE_SCATTER);
    part.tensor = (ts_buffer){share.count > 0 ? room : NULL, share.count, -1};
    part.parts = n->parts;
    return ts_reduce_scatter_local(&n->shm, &part);
}

static ts_status between_hosts(ts_native *n, const ts_coll *coll, const ts_choice *choice,
                               char *room, size_t bytes)
{
    ts_team lane = ts_lane_team(n, coll);
    int root = n->topology.host_of[coll->root];
    if (choice->algorithm == TS_ALGORITHM_TREE) return ts_reduce_tree(&lane, root, room, bytes);
    return ts_reduce_direct(&lane, root, room, bytes);
}

/* On the root's host. */
static ts_status gather_shares(ts_native *n, const ts_coll *coll, ts_buffer share, char *room)
{
    if (n->shm.size == 1) {
        memcpy(share.data, room, (size_t)share.count * ts_dtype_size(coll->dtype));
        return TS_OK;
    }
    ts_coll part = ts_host_part(n, coll, TS_COLL_GATHER);
    part.root = n->topology.local_of[coll->root];
    part.tensor = (ts_buffer){share.count > 0 ? room : NULL, share.count, -1};
    part.parts = n->rank == coll->root ? n->parts : NULL;
    return ts_pairs_shm(&n->shm, &part);
}

static ts_status one_block(ts_native *n, const ts_coll *coll, const ts_choice *choice,
                           ts_buffer block, char *room)
{
    size_t element = ts_dtype_size(coll->dtype);
    ts_cut_for_lanes(n, &block, element, LEAST_SHARE);
    ts_buffer share = n->parts[n->shm.rank];
    TS_TRY(reduce_local(n, coll, share, room));
    if (share.count > 0)
        TS_TRY(between_hosts(n, coll, choice, room, (size_t)share.count * element));
    if (n->topology.host != n->topology.host_of[coll->root]) return TS_OK;
    return gather_shares(n, coll, share, room);
}

ts_status ts_reduce_hosts(ts_native *n, const ts_coll *coll)
{
    size_t element = ts_dtype_size(coll->dtype), bytes = (size_t)coll->tensor.count * element;
    const ts_choice *choice = ts_choose(&n->selection, TS_COLL_REDUCE, bytes);
    if (choice->algorithm == TS_ALGORITHM_FLAT && ts_can_swap(n) && bytes > TS_SWAP_LEAST) {
        bool root = n->rank == coll->root;
        return ts_hosts_swap_sum(n, coll, coll->tensor.data, root ? 0 : bytes, coll->tensor.data,
                                 coll->tensor.data, root ? bytes : 0);
    }
    if (choice->algorithm == TS_ALGORITHM_FLAT && ts_ride_fits(n, true, bytes))
        return ride(n, coll, bytes);
    while (choice->algorithm == TS_ALGORITHM_FLAT) choice++;
    TS_TRY(ts_hosts_agree(n, coll, NULL));
    if (n->topology.hosts == n->size && choice->algorithm == TS_ALGORITHM_DIRECT)
        return direct(n, coll, bytes);
    char *room = ts_native_room(n, bytes < BLOCK_BYTES ? bytes : BLOCK_BYTES);
    if (!room) return ts_native_give_up(n, TS_ENOMEM);
    ts_buffer block = coll->tensor;
    for (size_t at = 0; at < bytes; at += BLOCK_BYTES) {
        size_t length = bytes - at < BLOCK_BYTES ? bytes - at : BLOCK_BYTES;
        block.data = (char *)coll->tensor.data + at;
        block.count = (int64_t)(length / element);
        if (coll->tensor.shared_offset >= 0)
            block.shared_offset = coll->tensor.shared_offset + (int64_t)at;
        TS_TRY(one_block(n, coll, choice, block, room));
    }
    return TS_OK;
}

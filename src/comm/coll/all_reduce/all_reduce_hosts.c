/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks on several hosts.  Each host reduces in its shared memory, rank k of it one share of the
 * data per lane; each lane reduces its share over the hosts; then each host gathers the shares.  So
 * every byte leaves a host as often as the algorithm between hosts needs it for one rank per host,
 * and all lanes send at the same time. */
#include <string.h>

#include "comm/coll/all_gather/all_gather.h"
#include "comm/coll/all_reduce/all_reduce.h"
#include "comm/coll/reduce_scatter/reduce_scatter.h"

enum { LEAST_SHARE = 16 * 1024 }; /* bytes for which a lane of its own pays */

static ts_status ride(ts_native *n, const ts_coll *coll, size_t bytes)
{
    ts_ride r = {.sum = true, .bytes = bytes};
    if (bytes > 0) memcpy(ts_ride_room(n, &r), coll->tensor.data, bytes);
    TS_TRY(ts_hosts_agree(n, coll, &r));
    if (bytes > 0 && r.result) memcpy(coll->tensor.data, r.result, bytes);
    return TS_OK;
}

static ts_status between_hosts(ts_native *n, const ts_coll *coll, const ts_choice *choice,
                               char *data, size_t bytes)
{
    ts_team lane = ts_lane_team(n, coll);
    switch (choice->algorithm) {
    case TS_ALGORITHM_DOUBLING: return ts_all_reduce_doubling(&lane, data, bytes);
    case TS_ALGORITHM_HALVING: return ts_all_reduce_halving(&lane, data, bytes);
    case TS_ALGORITHM_DIRECT: return ts_all_reduce_direct(&lane, data, bytes, choice->segment);
    default: return ts_all_reduce_ring(&lane, data, bytes, choice->segment);
    }
}

ts_status ts_all_reduce_hosts(ts_native *n, const ts_coll *coll)
{
    size_t element = ts_dtype_size(coll->dtype), bytes = (size_t)coll->tensor.count * element;
    const ts_choice *choice = ts_choose(&n->selection, TS_COLL_ALL_REDUCE, bytes);
    bool fits = ts_ride_fits(n, true, bytes);
    if (choice->algorithm == TS_ALGORITHM_FLAT && ts_can_swap(n) && bytes > TS_SWAP_LEAST)
        return ts_hosts_swap_sum(n, coll, coll->tensor.data, bytes, coll->tensor.data,
                                 coll->tensor.data, bytes);
    if (choice->algorithm == TS_ALGORITHM_FLAT && fits) return ride(n, coll, bytes);
    while (choice->algorithm == TS_ALGORITHM_FLAT) choice++;
    TS_TRY(ts_hosts_agree(n, coll, NULL));
    ts_cut_for_lanes(n, &coll->tensor, element, LEAST_SHARE);
    ts_buffer own = n->parts[n->shm.rank];
    ts_coll sum = ts_host_part(n, coll, TS_COLL_REDUCE_SCATTER);
    sum.tensor = own;
    sum.parts = n->parts;
    if (n->shm.size > 1) TS_TRY(ts_reduce_scatter_local(&n->shm, &sum));
    if (own.count > 0)
        TS_TRY(between_hosts(n, coll, choice, own.data, (size_t)own.count * element));
    ts_coll gather = ts_host_part(n, coll, TS_COLL_ALL_GATHER);
    gather.tensor = own;
    gather.parts = n->parts;
    return n->shm.size > 1 ? ts_all_gather_local(&n->shm, &gather) : TS_OK;
}

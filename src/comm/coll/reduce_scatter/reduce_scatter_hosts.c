/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks on several hosts.  Each host reduces in its shared memory what it has for every rank; lane k
 * gets it for the ranks k, k + lanes, ... of each host, one round each, and the lanes exchange and
 * reduce.  So a host sends another one only as many bytes as the ranks there keep.  Long parts go in
 * steps, which bounds the room. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "comm/coll/reduce_scatter/reduce_scatter.h"

enum { STEP_BYTES = 1024 * 1024 };

typedef struct job {
    ts_native *n;
    const ts_coll *coll;
    const ts_choice *choice;
    size_t element;
    int first;    /* place of lane 0's rank in this round */
    size_t at;    /* bytes of each part that are done */
    char **piece; /* by host: what this host has for the rank of this lane there */
    size_t *bytes;
    char *room, *out;
} job;

static ts_status ride(ts_native *n, const ts_coll *coll, size_t all)
{
    ts_ride r = {.sum = true, .bytes = all};
    char *room = ts_ride_room(n, &r);
    size_t skip = 0;
    for (int q = 0; q < n->size; q++) {
        size_t bytes = ts_part_bytes(coll, q);
        if (q < n->rank) skip += bytes;
        if (bytes > 0) memcpy(room, coll->parts[q].data, bytes);
        room += bytes;
    }
    TS_TRY(ts_hosts_agree(n, coll, &r));
    if (coll->tensor.count > 0 && r.result)
        memcpy(coll->tensor.data, r.result + skip, ts_part_bytes(coll, n->rank));
    return TS_OK;
}

/* The step of the part for rank i of a host; empty where there is none. */
static ts_buffer part_of(const job *j, int host, int i)
{
    const ts_topology *t = &j->n->topology;
    if (i >= ts_host_size(t, host)) return (ts_buffer){NULL, 0, 0};
    ts_buffer part = j->coll->parts[ts_host_member(t, host, i)];
    size_t bytes = (size_t)part.count * j->element;
    if (bytes <= j->at) return (ts_buffer){NULL, 0, 0};
    size_t left = bytes - j->at < STEP_BYTES ? bytes - j->at : STEP_BYTES;
    part.data = (char *)part.data + j->at;
    part.count = (int64_t)(left / j->element);
    if (part.shared_offset >= 0) part.shared_offset += (int64_t)j->at;
    return part;
}

/* What this host has for one host: lane k reduces it for rank first + k there. */
static ts_status reduce_local(job *j, int host)
{
    ts_native *n = j->n;
    ts_shm *s = &n->shm;
    int64_t all = 0;
    for (int q = 0; q < s->size; q++) {
        n->parts[q] =
            q < n->topology.lanes ? part_of(j, host, j->first + q) : (ts_buffer){NULL, 0, 0};
        all += n->parts[q].count;
    }
    ts_buffer own = n->parts[s->rank];
    j->bytes[host] = (size_t)own.count * j->element;
    j->piece[host] = s->size == 1 ? own.data : j->room + (size_t)host * STEP_BYTES;
    if (s->size == 1 || all == 0) return TS_OK;
    ts_coll part = ts_host_part(n, j->coll, TS_COLL_REDUCE_SCATTER);
    part.parts = n->parts;
    part.tensor = (ts_buffer){own.count > 0 ? j->piece[host] : NULL, own.count, -1};
    return ts_reduce_scatter_local(s, &part);
}

static ts_status between_hosts(job *j, char *out)
{
    ts_team lane = ts_lane_team(j->n, j->coll);
    if (j->choice->algorithm == TS_ALGORITHM_PAIRWISE)
        return ts_reduce_scatter_pairwise(&lane, j->piece, j->bytes, out);
    return ts_reduce_scatter_direct(&lane, j->piece, j->bytes, out);
}

/* The lane's result goes to the rank that it is for. */
static ts_status hand_over(job *j, const char *result)
{
    ts_native *n = j->n;
    const ts_topology *t = &n->topology;
    int owner = j->first + t->local, lane = t->local - j->first;
    ts_exchange e = ts_exchange_begin(n, j->coll);
    if (ts_has_lane(t) && owner < n->shm.size && j->bytes[t->host] > 0)
        ts_exchange_send(&e, n->shm.member[owner], 8, result, j->bytes[t->host]);
    ts_buffer own = part_of(j, t->host, t->local);
    if (lane >= 0 && lane < t->lanes && own.count > 0)
        ts_exchange_recv(&e, n->shm.member[lane], 8, (char *)j->coll->tensor.data + j->at,
                         (size_t)own.count * j->element);
    return ts_exchange_wait(&e);
}

static ts_status one_step(job *j)
{
    ts_native *n = j->n;
    const ts_topology *t = &n->topology;
    for (int h = 0; h < t->hosts; h++) TS_TRY(reduce_local(j, h));
    char *out = j->first == 0 ? (char *)j->coll->tensor.data + j->at : j->out;
    if (ts_has_lane(t)) TS_TRY(between_hosts(j, j->bytes[t->host] > 0 ? out : j->out));
    return j->first == 0 ? TS_OK : hand_over(j, j->out);
}

/* Longest part that a round has to do with. */
static size_t longest(const job *j)
{
    const ts_topology *t = &j->n->topology;
    size_t most = 0;
    for (int i = 0; i < j->n->size; i++) {
        int q = t->member[i], place = t->local_of[q] - j->first;
        if (place >= 0 && place < t->lanes && ts_part_bytes(j->coll, q) > most)
            most = ts_part_bytes(j->coll, q);
    }
    return most;
}

static ts_status run(job *j)
{
    const ts_topology *t = &j->n->topology;
    int most = 0;
    for (int h = 0; h < t->hosts; h++)
        if (ts_host_size(t, h) > most) most = ts_host_size(t, h);
    for (j->first = 0; j->first < most; j->first += t->lanes) {
        size_t all = longest(j);
        for (j->at = 0; j->at < all; j->at += STEP_BYTES) TS_TRY(one_step(j));
    }
    return TS_OK;
}

ts_status ts_reduce_scatter_hosts(ts_native *n, const ts_coll *coll)
{
    size_t all = 0, hosts = (size_t)n->topology.hosts;
    for (int q = 0; q < n->size; q++) all += ts_part_bytes(coll, q);
    const ts_choice *choice = ts_choose(&n->selection, TS_COLL_REDUCE_SCATTER, all);
    if (choice->algorithm == TS_ALGORITHM_FLAT && ts_can_swap(n) && all > TS_SWAP_LEAST)
        return ts_hosts_swap_sum(n, coll, coll->parts[1 - n->rank].data,
                                 ts_part_bytes(coll, 1 - n->rank), coll->parts[n->rank].data,
                                 coll->tensor.data, ts_part_bytes(coll, n->rank));
    if (choice->algorithm == TS_ALGORITHM_FLAT && ts_ride_fits(n, true, all))
        return ride(n, coll, all);
    while (choice->algorithm == TS_ALGORITHM_FLAT) choice++;
    TS_TRY(ts_hosts_agree(n, coll, NULL));
    job j = {.n = n, .coll = coll, .choice = choice, .element = ts_dtype_size(coll->dtype)};
    j.piece = ts_calloc(hosts, sizeof *j.piece);
    j.bytes = ts_calloc(hosts, sizeof *j.bytes);
    j.room = malloc((hosts + 1) * STEP_BYTES);
    ts_status status = TS_OK;
    if (j.piece && j.bytes && j.room) {
        j.out = j.room + hosts * STEP_BYTES;
        status = run(&j);
    } else {
        status = ts_native_give_up(n, ts_fail_memory(hosts * STEP_BYTES, "a reduce_scatter"));
    }
    free(j.piece);
    free(j.bytes);
    free(j.room);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Between hosts: who is where, teams, and the agreement of all hosts.
 *
 * A host here is a set of ranks that share memory.  Lanes are as many as the smallest host has
 * ranks: rank k of each host drives lane k to rank k of the others, so that all send at once.  Rank
 * 0 of each host is its leader. */
#ifndef TS_COMM_HOSTS_H
#define TS_COMM_HOSTS_H

#include <tessera/ext/backend.h>

#include "base/error.h"

struct ts_native;
struct ts_host_round;
struct ts_message;

typedef struct ts_topology {
    int hosts, host; /* number; own.  Hosts are counted by their least rank */
    int local;       /* place of this rank within its host */
    int lanes;
    int *host_of, *local_of; /* by rank */
    int *first;              /* by host, and one more: where its ranks are in member */
    int *member;             /* ranks by host, then by place */
    int *lane;               /* by host: its rank in this rank's lane; all 0 beyond the lanes */
    int *leader;             /* by host */
} ts_topology;

/* host: of each rank, as numbers that are equal for ranks of one host and grow with the least rank. */
ts_status ts_topology_init(ts_topology *t, int rank, int size, const int *host);
void ts_topology_fini(ts_topology *t);

static inline int ts_host_size(const ts_topology *t, int host)
{
    return t->first[host + 1] - t->first[host];
}
static inline int ts_host_member(const ts_topology *t, int host, int local)
{
    return t->member[t->first[host] + local];
}
static inline bool ts_has_lane(const ts_topology *t) { return t->local < t->lanes; }

/* Some ranks, one per host, that run an algorithm by message.  Ranks are places in member. */
typedef struct ts_team {
    struct ts_native *native;
    const ts_coll *coll;
    int rank, size;
    const int *member; /* group ranks */
    uint32_t step;     /* of all its messages, which match in the order in which they are sent */
} ts_team;

/* ---- agreement (hosts_agree.c) --------------------------------------------------------------- */

enum { TS_RIDE_MAX = 68 * 1024 }; /* 64 KiB and their lengths */

/* Data that rides with the agreement: all ranks get the reduction of all, or all of it one after
 * another, by host and place (ts_topology.member). */
typedef struct ts_ride {
    bool sum;                /* all give equally many elements of coll.dtype */
    size_t bytes;            /* of this rank; SIZE_MAX: too long, which then all find out */
    const char *result;      /* NULL: some rank's was too long.  Stays until the next agreement */
    const uint32_t *lengths; /* !sum: bytes of each rank, in the order of the data */
} ts_ride;

/* Do so many bytes of result fit?  Of a sum: those of one rank. */
bool ts_ride_fits(const struct ts_native *n, bool sum, size_t bytes);
/* Where this rank's data goes before the agreement. */
void *ts_ride_room(struct ts_native *n, const ts_ride *ride);
/* As ts_shm_agree, for all ranks of all hosts: headers meet in the shared memory of each host, then
 * leaders pass on summaries in log2(hosts) steps, then tell their hosts.  ride may be NULL. */
ts_status ts_hosts_agree(struct ts_native *n, const ts_coll *coll, ts_ride *ride);

/* ---- two hosts of one rank each (hosts_swap.c) ----------------------------------------------- */

/* Shorter data rides with the agreement; longer goes right behind it, in the same system call, and
 * is received where it belongs.  What came behind an agreement that fails is dropped. */
enum { TS_SWAP_LEAST = 4096, TS_SWAP_AHEAD_MAX = 512 * 1024 };
bool ts_can_swap(const struct ts_native *n);
/* Agrees, sends out to the other rank and receives in from it. */
ts_status ts_hosts_swap(struct ts_native *n, const ts_coll *coll, const void *out, size_t out_bytes,
                        void *in, size_t in_bytes);
/* The same, and reduces what comes with own into to. */
ts_status ts_hosts_swap_sum(struct ts_native *n, const ts_coll *coll, const void *out,
                            size_t out_bytes, const void *own, void *to, size_t bytes);
/* ts_hosts_agree with data behind it. */
ts_status ts_hosts_agree_ahead(struct ts_native *n, const ts_coll *coll, const void *data,
                               size_t bytes, struct ts_message **sent);
enum { TS_SWAP_STEP = 16 };

/* Room for an agreement. */
ts_status ts_host_round_new(struct ts_host_round **out, const ts_topology *t);
void ts_host_round_free(struct ts_host_round *round);

/* One operation of the host's ranks as a part of coll; they have no number of their own in the
 * group.  Roots and parts are local. */
ts_coll ts_host_part(struct ts_native *n, const ts_coll *coll, ts_collective op);

#endif

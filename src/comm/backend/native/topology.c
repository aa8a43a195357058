/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/memory.h"
#include "comm/backend/native/hosts.h"

static int *ints(int n) { return ts_calloc((size_t)n, sizeof(int)); }

static void place_ranks(ts_topology *t, int size)
{
    int next = 0;
    for (int h = 0; h < t->hosts; h++) {
        t->first[h] = next;
        for (int q = 0; q < size; q++) {
            if (t->host_of[q] != h) continue;
            t->local_of[q] = next - t->first[h];
            t->member[next++] = q;
        }
    }
    t->first[t->hosts] = next;
}

ts_status ts_topology_init(ts_topology *t, int rank, int size, const int *host)
{
    for (int q = 0; q < size; q++)
        if (host[q] >= t->hosts) t->hosts = host[q] + 1;
    t->host_of = ints(size);
    t->local_of = ints(size);
    t->member = ints(size);
    t->first = ints(t->hosts + 1);
    t->lane = ints(t->hosts);
    t->leader = ints(t->hosts);
    if (!t->host_of || !t->local_of || !t->member || !t->first || !t->lane || !t->leader)
        return ts_fail_memory((size_t)size * sizeof(int), "a group");
    for (int q = 0; q < size; q++) t->host_of[q] = host[q];
    place_ranks(t, size);
    t->host = t->host_of[rank];
    t->local = t->local_of[rank];
    t->lanes = ts_host_size(t, 0);
    for (int h = 0; h < t->hosts; h++) {
        if (ts_host_size(t, h) < t->lanes) t->lanes = ts_host_size(t, h);
        t->leader[h] = ts_host_member(t, h, 0);
    }
    for (int h = 0; h < t->hosts && ts_has_lane(t); h++)
        t->lane[h] = ts_host_member(t, h, t->local);
    return TS_OK;
}

void ts_topology_fini(ts_topology *t)
{
    free(t->host_of);
    free(t->local_of);
    free(t->member);
    free(t->first);
    free(t->lane);
    free(t->leader);
}

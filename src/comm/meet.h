/* SPDX-License-Identifier: Apache-2.0 */
/* How rank 0 and the others get to one store. */
#ifndef TS_COMM_MEET_H
#define TS_COMM_MEET_H

#include "comm/environment.h"
#include "comm/rendezvous.h"

typedef struct ts_meeting {
    char host[256];     /* "": this host */
    int port;           /* 0: agreed on by the name of the run */
    bool serve;         /* rank 0 serves; otherwise the launcher does */
    const char *source; /* of host, for messages: "MASTER_ADDR" */
    const char *run;
    int64_t timeout_ms;
    ts_store *kept; /* a store that this rank served before and still has, with its address; NULL */
    const char *kept_address;
} ts_meeting;

/* Fills store, hosted and address of place, whose rank and size are known. */
ts_status ts_meet(ts_place *place, const ts_meeting *how);

/* The ports at which a run is looked for: 0, 1, ... */
int ts_meet_port(const char *run, int number);

/* Waits for a moment until the host's name resolves, as that of a host that is starting does only
 * after a while. */
ts_status ts_meet_await_name(const char *host, const char *source, int64_t timeout_ms);

#endif

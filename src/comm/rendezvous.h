/* SPDX-License-Identifier: Apache-2.0 */
/* Where ranks meet: from an init method, or the environment, to rank, size and store. */
#ifndef TS_COMM_RENDEZVOUS_H
#define TS_COMM_RENDEZVOUS_H

#include <tessera/group.h>

typedef struct ts_place {
    int rank, size;
    ts_store *store;   /* a reference; NULL: a group of one needs none */
    bool hosted;       /* this process serves it, at address */
    char address[300]; /* "host:port" */
} ts_place;

/* kept: a store that this rank served before and still has, with its address, or NULL. */
ts_status ts_rendezvous(ts_place *out, const ts_init_options *opt, int64_t timeout_ms,
                        ts_store *kept, const char *kept_address);

#endif

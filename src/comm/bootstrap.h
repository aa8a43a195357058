/* SPDX-License-Identifier: Apache-2.0 */
/* Making the links of an engine: listen, introduce oneself through the store, connect. */
#ifndef TS_COMM_BOOTSTRAP_H
#define TS_COMM_BOOTSTRAP_H

#include "comm/engine_impl.h"
#include "comm/handshake.h"

typedef struct ts_bootstrap {
    ts_engine *engine;
    const ts_engine_options *opt;
    ts_deadline deadline;
    const char *run;
    ts_record own, *record; /* record: by rank */
    int local_listener, tcp_listener;
    bool share_heap;
    int most_ranks; /* that some rank expects */
} ts_bootstrap;

/* Fills the links of engine.  Collective; an error is told to the ranks that still wait. */
ts_status ts_bootstrap_links(ts_engine *engine, const ts_engine_options *opt);

/* host.c: text that is equal for ranks that can share memory and UNIX sockets. */
void ts_host_identity(char *out, size_t size, const ts_engine_options *opt);
/* What was given instead of finding out; "" if nothing. */
const char *ts_host_override(const ts_engine_options *opt);
/* Numeric address at which this host can be reached by the others. */
ts_status ts_host_address(char out[128]);

/* join.c: publishes the own record and gets everyone's. */
ts_status ts_join(ts_bootstrap *boot);
/* Tells the last error to the ranks that wait for records or are connecting, and returns it. */
ts_status ts_join_fail(ts_bootstrap *boot, ts_status status);
/* Whether another rank has told one. */
ts_status ts_join_check_failure(ts_bootstrap *boot);

/* mesh.c: a connection to every peer. */
ts_status ts_mesh_connect(ts_bootstrap *boot);

/* mail.c: settles with the ranks of this host which pairs use shared memory. */
ts_status ts_mail_meet(ts_bootstrap *boot);

#endif

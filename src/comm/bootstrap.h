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
    ts_key key, tls;
    ts_record own, *record; /* record: by rank */
    int local_listener, tcp_listener[TS_INTERFACES_MAX];
    ts_interface via[TS_INTERFACES_MAX]; /* by endpoint; without name: chosen by us */
    bool share_heap;
    int most_ranks; /* that some rank expects */
} ts_bootstrap;

/* Fills the links of engine.  Collective; an error is told to the ranks that still wait. */
ts_status ts_bootstrap_links(ts_engine *engine, const ts_engine_options *opt);

/* host.c: text that is equal for ranks that can share memory and UNIX sockets. */
void ts_host_identity(char *out, size_t size, const ts_engine_options *opt);
/* What was given instead of finding out; "" if nothing. */
const char *ts_host_override(const ts_engine_options *opt);
/* Through which the others reach this host; one without name if none was asked for. */
ts_status ts_host_interfaces(ts_interface out[TS_INTERFACES_MAX], int *n);

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

/* greet.c: what both sides say first on a connection.  heap_reserved 0: no heap goes along;
 * connecting: the greeting is of the side that has connected. */
ts_status ts_greet_write(const ts_bootstrap *boot, uint8_t out[TS_GREETING_MAX], int peer,
                         int socket, size_t heap_reserved, ts_nonces *nonces, bool connecting);
/* NULL, or why who greets so does not belong here (a static text). */
const char *ts_greet_read(const ts_bootstrap *boot, ts_hello *hello,
                          const uint8_t in[TS_GREETING_MAX], ts_nonces *nonces, bool connecting);

/* How connection number socket goes to a peer of another host.  The connections of all pairs are
 * spread over the interfaces in turn, and both sides use the interface of the same number. */
typedef struct ts_route {
    char to[TS_ADDRESS_TEXT];
    int port;
    const char *from; /* own address; NULL: any */
} ts_route;
void ts_greet_route(const ts_bootstrap *boot, int peer, int socket, ts_route *out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The TCP store's server: an event loop in a thread of its own. */
#ifndef TS_STORE_SERVER_H
#define TS_STORE_SERVER_H

#include <stdint.h>
#include <tessera/status.h>

typedef struct ts_store_server ts_store_server;

typedef struct ts_store_server_options {
    const char *host; /* of this machine, where clients come from: NULL or "": anywhere.  If it is
                         the loopback, only that is served */
    int port;         /* 0: the system picks one */
    int listen_fd;    /* >= 0: serves on that bound socket, which is taken over */
    bool shared;      /* joins this process's server of the same port that was started shared */
    int64_t patience_ms; /* with a client that has not shown that it is one; 0: 10 s */
} ts_store_server_options;
ts_status ts_store_server_start(ts_store_server **out, const ts_store_server_options *opt);
int ts_store_server_port(const ts_store_server *server);
/* The last user's call closes all connections and ends the thread.  NULL is fine. */
void ts_store_server_release(ts_store_server *server);

#endif

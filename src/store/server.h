/* SPDX-License-Identifier: Apache-2.0 */
/* The TCP store's server: an event loop in a thread of its own. */
#ifndef TS_STORE_SERVER_H
#define TS_STORE_SERVER_H

#include <tessera/status.h>

typedef struct ts_store_server ts_store_server;

/* listen_fd >= 0: serves on that bound socket, which is taken over; else on port of
 * every address (0: the system picks one).  shared: joins this process's server of the same port,
 * if there is one that was started shared. */
ts_status ts_store_server_start(ts_store_server **out, int port, int listen_fd, bool shared);
int ts_store_server_port(const ts_store_server *server);
/* The last user's call closes all connections and ends the thread.  NULL is fine. */
void ts_store_server_release(ts_store_server *server);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The client's side of the TCP store's protocol: connections and single calls. */
#ifndef TS_STORE_TCP_H
#define TS_STORE_TCP_H

#include <pthread.h>
#include <sys/types.h>

#include "base/clock.h"
#include "store/auth.h"

typedef struct ts_tcp_connection {
    int fd;                /* blocking, for one system call less per reply */
    int64_t recv_limit_ms; /* after which such a call gives up */
} ts_tcp_connection;

/* One call at a time has a connection for itself; who finds none idle opens another, so a call that
 * waits holds up nobody. */
typedef struct ts_tcp_client {
    char *host;
    int port;
    int64_t spin_ns; /* for the reply of a call, before going to sleep */
    ts_key key, tls;
    char server[128]; /* for messages: "TCP store 10.0.0.1:29500" */
    pthread_mutex_t lock;
    pid_t pid; /* whose connections the idle ones are */
    ts_tcp_connection idle[8];
    int idle_count;
} ts_tcp_client;

ts_status ts_tcp_client_init(ts_tcp_client *client, const char *host, int port);
void ts_tcp_client_fini(ts_tcp_client *client);

/* The first connection, tried until the deadline. */
ts_status ts_tcp_client_join(ts_tcp_client *client, ts_deadline deadline);

/* A request in the making, its connection, and the limit for the replies. */
typedef struct ts_tcp_call {
    ts_tcp_client *client;
    ts_tcp_connection to;
    ts_buffer request;
    ts_deadline deadline;
} ts_tcp_call;

ts_status ts_tcp_call_open(ts_tcp_call *call, ts_tcp_client *client, int64_t timeout_ms);
/* Returns status.  After a failure the connection is closed, and with it the idle ones, which may
 * belong to a server that is gone. */
ts_status ts_tcp_call_close(ts_tcp_call *call, ts_status status);

/* Begins a request; its fields are put into call->request. */
void ts_tcp_begin(ts_tcp_call *call, ts_wire_command command);
ts_status ts_tcp_send(ts_tcp_call *call);
ts_status ts_tcp_recv(ts_tcp_call *call, void *data, size_t size);
ts_status ts_tcp_recv_value(ts_tcp_call *call, void **value, size_t *size);

/* Sends the request and reads a reply of size bytes. */
ts_status ts_tcp_ask(ts_tcp_call *call, void *reply, size_t size);

/* For commands without a reply: an echo behind them shows that they have been carried out. */
ts_status ts_tcp_ask_echo(ts_tcp_call *call);

/* Sends a WAIT request and waits until the deadline, which is given for this alone: *ready, or the
 * wait has been cancelled and the connection is free again. */
ts_status ts_tcp_ask_wait(ts_tcp_call *call, ts_deadline deadline, bool *ready);

#endif

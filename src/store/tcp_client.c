/* SPDX-License-Identifier: Apache-2.0 */
/* A client's connections to the store server: opening, reusing, giving up. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/settings.h"
#include "net/socket.h"
#include "store/tcp.h"

enum {
    OPEN_AT_LEAST_MS = 2000, /* however short the limit of what a connection is opened for */
    CANCEL_LIMIT_MS = 10000,
    REPLY_LIMIT_MS = 60000 /* for what a server has at hand when a wait ends */
};

ts_status ts_tcp_client_init(ts_tcp_client *client, const char *host, int port, const ts_key *key)
{
    client->host = ts_strdup(host);
    if (!client->host) return ts_fail_memory(strlen(host), "the name of the store's host");
    client->port = port;
    client->key = *key;
    client->pid = getpid();
    snprintf(client->server, sizeof client->server,
             strchr(host, ':') ? "TCP store [%.90s]:%d" : "TCP store %.90s:%d", host, port);
    pthread_mutex_init(&client->lock, NULL);
    return TS_OK;
}

void ts_tcp_client_fini(ts_tcp_client *client)
{
    while (client->idle_count > 0) ts_socket_close(client->idle[--client->idle_count]);
    pthread_mutex_destroy(&client->lock);
    free(client->host);
}

/* ---- connections ----------------------------------------------------------------------------- */

static void give(ts_tcp_client *client, int fd, bool failed)
{
    pthread_mutex_lock(&client->lock);
    while (failed && client->idle_count > 0) ts_socket_close(client->idle[--client->idle_count]);
    bool keep = !failed && client->idle_count < (int)(sizeof client->idle / sizeof *client->idle);
    if (keep) client->idle[client->idle_count++] = fd;
    pthread_mutex_unlock(&client->lock);
    if (!keep) ts_socket_close(fd);
}

static ts_status send_proof(void *user, const void *data, size_t size)
{
    const ts_tcp_call *call = user;
    return ts_send_all(call->fd, data, size, call->client->server, call->deadline);
}

static ts_status recv_proof(void *user, void *data, size_t size)
{
    return ts_tcp_recv(user, data, size);
}

static ts_status of_another_run(const ts_tcp_call *call, const char *theirs, const char *ours)
{
    return ts_fail(TS_ESTORE, "%s: it belongs to another run: '%.200s' there, '%s' here",
                   call->client->server, theirs, ours);
}

/* The first client of a run leaves its name in the store. */
static ts_status compare_run(ts_tcp_call *call, const char *run)
{
    void *theirs = NULL;
    size_t size, length = strlen(run);
    TS_TRY(ts_tcp_recv_value(call, &theirs, &size));
    bool same = size == length && memcmp(theirs, run, size) == 0;
    ts_status status = same ? TS_OK : of_another_run(call, theirs, run);
    free(theirs);
    return status;
}

static ts_status validate(ts_tcp_call *call)
{
    char run[256];
    const char *id = ts_setting_string(TS_SETTING_RUN_ID);
    snprintf(run, sizeof run, "tessera 1 %s", id);
    ts_tcp_begin(call, TS_WIRE_VALIDATE);
    ts_buffer_put_u32(&call->request, TS_WIRE_MAGIC);
    TS_TRY(ts_tcp_ask_echo(call));
    if (!*id) return TS_OK;
    ts_tcp_begin(call, TS_WIRE_COMPARE_SET);
    ts_buffer_put_bytes(&call->request, ts_bytes_of("run/"));
    ts_buffer_put_bytes(&call->request, ts_bytes_of(""));
    ts_buffer_put_bytes(&call->request, ts_bytes_of(run));
    TS_TRY(ts_tcp_send(call));
    return compare_run(call, run);
}

/* Shows that a store answers, and not whatever else listens there, and that it is this job's. */
static ts_status greet(ts_tcp_client *client, int fd, ts_deadline deadline)
{
    ts_tcp_call call = {.client = client, .fd = fd, .deadline = deadline};
    ts_status status = TS_OK;
    if (client->key.given)
        status = ts_auth_connect(&client->key, client->server, send_proof, recv_proof, &call);
    if (status == TS_OK) status = validate(&call);
    ts_buffer_fini(&call.request);
    return status;
}

/* A server of an earlier run that is just going away closes the connection: that is tried again. */
ts_status ts_tcp_client_join(ts_tcp_client *client, ts_deadline deadline)
{
    for (int attempt = 1;; attempt++) {
        int fd;
        TS_TRY(ts_tcp_connect(&fd, client->host, client->port, deadline));
        ts_status status = greet(client, fd, deadline);
        give(client, fd, status != TS_OK);
        if (status != TS_ENETWORK || ts_deadline_passed(deadline)) return status;
        ts_backoff(attempt, deadline);
    }
}

/* The server was there before: no second attempt. */
static ts_status open_another(ts_tcp_client *client, int *fd, ts_deadline deadline)
{
    TS_TRY(ts_tcp_connect_once(fd, client->host, client->port, deadline));
    ts_status status = greet(client, *fd, deadline);
    if (status != TS_OK) ts_socket_close(*fd);
    return status;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* A forked child must not speak on its parent's connections. */
static void forget_inherited(ts_tcp_client *client)
{
    if (client->pid == getpid()) return;
    while (client->idle_count > 0) ts_socket_close(client->idle[--client->idle_count]);
    client->pid = getpid();
}

ts_status ts_tcp_call_open(ts_tcp_call *call, ts_tcp_client *client, int64_t timeout_ms)
{
    *call = (ts_tcp_call){.client = client, .deadline = ts_deadline_in(timeout_ms)};
    pthread_mutex_lock(&client->lock);
    forget_inherited(client);
    call->fd = client->idle_count > 0 ? client->idle[--client->idle_count] : -1;
    pthread_mutex_unlock(&client->lock);
    if (call->fd >= 0) return TS_OK;
    bool is_short = timeout_ms > 0 && timeout_ms < OPEN_AT_LEAST_MS;
    return open_another(client, &call->fd,
                        is_short ? ts_deadline_in(OPEN_AT_LEAST_MS) : call->deadline);
}

ts_status ts_tcp_call_close(ts_tcp_call *call, ts_status status)
{
    ts_buffer_fini(&call->request);
    give(call->client, call->fd, status != TS_OK);
    return status;
}

void ts_tcp_begin(ts_tcp_call *call, ts_wire_command command)
{
    call->request.size = 0;
    ts_buffer_put_byte(&call->request, (int)command);
}

ts_status ts_tcp_send(ts_tcp_call *call)
{
    const ts_buffer *request = &call->request;
    if (request->failed)
        return ts_fail(TS_ENOMEM, "%s: the request is too large", call->client->server);
    return ts_send_all(call->fd, request->data, request->size, call->client->server,
                       call->deadline);
}

ts_status ts_tcp_recv(ts_tcp_call *call, void *data, size_t size)
{
    return ts_recv_all(call->fd, data, size, call->client->server, call->deadline);
}

ts_status ts_tcp_recv_value(ts_tcp_call *call, void **value, size_t *size)
{
    uint64_t length;
    TS_TRY(ts_tcp_recv(call, &length, sizeof length));
    char *data = length < SIZE_MAX / 2 ? malloc((size_t)length + 1) : NULL;
    if (!data) return ts_fail_memory((size_t)length, "a value from the TCP store");
    data[length] = '\0';
    *value = data;
    *size = (size_t)length;
    return ts_tcp_recv(call, data, (size_t)length);
}

ts_status ts_tcp_ask(ts_tcp_call *call, void *reply, size_t size)
{
    TS_TRY(ts_tcp_send(call));
    return ts_tcp_recv(call, reply, size);
}

ts_status ts_tcp_ask_echo(ts_tcp_call *call)
{
    uint32_t nonce = (uint32_t)getpid(), echo = 0;
    ts_buffer_put_byte(&call->request, TS_WIRE_PING);
    ts_buffer_put_u32(&call->request, nonce);
    TS_TRY(ts_tcp_ask(call, &echo, sizeof echo));
    if (echo == nonce) return TS_OK;
    if (echo == TS_AUTH_REQUIRED)
        return ts_fail(TS_ESTORE, "%s requires the secret of its job; set TESSERA_SECRET here too",
                       call->client->server);
    return ts_fail(TS_ENETWORK, "%s: what listens there does not answer like a store",
                   call->client->server);
}

static ts_status out_of_order(const ts_tcp_call *call, int reply)
{
    return ts_fail(TS_ENETWORK, "%s: unexpected reply %d", call->client->server, reply);
}

/* The keys may appear at this very moment: then that reply comes first. */
static ts_status cancel_wait(ts_tcp_call *call, bool *ready)
{
    unsigned char reply;
    ts_tcp_begin(call, TS_WIRE_CANCEL_WAIT);
    TS_TRY(ts_tcp_ask(call, &reply, 1));
    if (reply == TS_WIRE_STOP_WAITING) {
        *ready = true;
        TS_TRY(ts_tcp_recv(call, &reply, 1));
    }
    return reply == TS_WIRE_WAIT_CANCELED ? TS_OK : out_of_order(call, reply);
}

ts_status ts_tcp_ask_wait(ts_tcp_call *call, ts_deadline deadline, bool *ready)
{
    unsigned char reply;
    *ready = false;
    TS_TRY(ts_tcp_send(call));
    bool in_time = ts_socket_wait(call->fd, POLLIN, deadline);
    call->deadline = ts_deadline_in(in_time ? REPLY_LIMIT_MS : CANCEL_LIMIT_MS);
    if (!in_time) return cancel_wait(call, ready);
    TS_TRY(ts_tcp_recv(call, &reply, 1));
    *ready = reply == TS_WIRE_STOP_WAITING;
    return *ready ? TS_OK : out_of_order(call, reply);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A client's connections to the store server: opening, reusing, giving up. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/settings.h"
#include "base/thread.h"
#include "net/socket.h"
#include "net/tls.h"
#include "store/tcp.h"

enum {
    OPEN_AT_LEAST_MS = 2000, /* however short the limit of what a connection is opened for */
    CANCEL_LIMIT_MS = 10000,
    SPIN_US = 50,
    SECRET_ATTEMPTS = 3,   /* a wrong key does not become right */
    REPLY_LIMIT_MS = 60000 /* for what a server has at hand when a wait ends */
};

/* With a core left for the server's thread, a short spin saves going to sleep and being woken. */
static int64_t spin_ns(void)
{
    int64_t us = ts_setting_int(TS_SETTING_SPIN_US);
    const char *local = getenv("LOCAL_WORLD_SIZE");
    int ranks = local && atoi(local) > 0 ? atoi(local) : 1;
    if (us < 0) us = ranks < ts_host_cores() ? SPIN_US : 0;
    return us * 1000;
}

ts_status ts_tcp_client_init(ts_tcp_client *client, const char *host, int port)
{
    TS_TRY(ts_key_load(&client->key, "store"));
    TS_TRY(ts_tls_key(&client->tls));
    client->host = ts_strdup(host);
    if (!client->host) return ts_fail_memory(strlen(host), "the name of the store's host");
    client->port = port;
    client->spin_ns = spin_ns();
    client->pid = getpid();
    snprintf(client->server, sizeof client->server,
             strchr(host, ':') ? "TCP store [%.90s]:%d" : "TCP store %.90s:%d", host, port);
    pthread_mutex_init(&client->lock, NULL);
    return TS_OK;
}

void ts_tcp_client_fini(ts_tcp_client *client)
{
    while (client->idle_count > 0) ts_socket_close(client->idle[--client->idle_count].fd);
    pthread_mutex_destroy(&client->lock);
    free(client->host);
}

/* ---- connections ----------------------------------------------------------------------------- */

static void give(ts_tcp_client *client, ts_tcp_connection to, bool failed)
{
    pthread_mutex_lock(&client->lock);
    while (failed && client->idle_count > 0) ts_socket_close(client->idle[--client->idle_count].fd);
    bool keep = !failed && client->idle_count < (int)(sizeof client->idle / sizeof *client->idle);
    if (keep) client->idle[client->idle_count++] = to;
    pthread_mutex_unlock(&client->lock);
    if (!keep) ts_socket_close(to.fd);
}

static ts_status send_proof(void *user, const void *data, size_t size)
{
    const ts_tcp_call *call = user;
    return ts_send_all(call->to.fd, data, size, call->client->server, call->deadline);
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
static ts_status greet(ts_tcp_client *client, ts_tcp_connection *to, ts_deadline deadline)
{
    ts_tcp_call call = {.client = client, .deadline = deadline};
    ts_status status = ts_tls_wrap(&to->fd, &client->tls, false);
    int flags = fcntl(to->fd, F_GETFL);
    if (flags >= 0) fcntl(to->fd, F_SETFL, flags & ~O_NONBLOCK);
    call.to = *to;
    if (status == TS_OK && client->key.given)
        status = ts_auth_connect(&client->key, client->server, send_proof, recv_proof, &call);
    if (status == TS_OK) status = validate(&call);
    ts_buffer_fini(&call.request);
    to->recv_limit_ms = call.to.recv_limit_ms;
    return status;
}

static ts_status is_secret_right(ts_status status)
{
    char text[400];
    snprintf(text, sizeof text, "%s", ts_error_last());
    return ts_fail(status, "%s; are TESSERA_SECRET and TESSERA_TLS the same there?", text);
}

/* A server of an earlier run that is just going away closes the connection: that is tried again. */
ts_status ts_tcp_client_join(ts_tcp_client *client, ts_deadline deadline)
{
    for (int attempt = 1;; attempt++) {
        ts_tcp_connection to = {.fd = -1};
        TS_TRY(ts_tcp_connect(&to.fd, client->host, client->port, deadline));
        ts_status status = greet(client, &to, deadline);
        give(client, to, status != TS_OK);
        if (status != TS_ENETWORK || ts_deadline_passed(deadline)) return status;
        if (client->key.given && attempt == SECRET_ATTEMPTS) return is_secret_right(status);
        ts_backoff(attempt, deadline);
    }
}

/* The server was there before: no second attempt. */
static ts_status open_another(ts_tcp_client *client, ts_tcp_connection *to, ts_deadline deadline)
{
    *to = (ts_tcp_connection){.fd = -1};
    TS_TRY(ts_tcp_connect_once(&to->fd, client->host, client->port, deadline));
    ts_status status = greet(client, to, deadline);
    if (status != TS_OK) ts_socket_close(to->fd);
    return status;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* A forked child must not speak on its parent's connections. */
static void forget_inherited(ts_tcp_client *client)
{
    if (client->pid == getpid()) return;
    while (client->idle_count > 0) ts_socket_close(client->idle[--client->idle_count].fd);
    client->pid = getpid();
}

ts_status ts_tcp_call_open(ts_tcp_call *call, ts_tcp_client *client, int64_t timeout_ms)
{
    *call = (ts_tcp_call){.client = client, .deadline = ts_deadline_in(timeout_ms)};
    pthread_mutex_lock(&client->lock);
    forget_inherited(client);
    bool idle = client->idle_count > 0;
    if (idle) call->to = client->idle[--client->idle_count];
    pthread_mutex_unlock(&client->lock);
    if (idle) return TS_OK;
    bool is_short = timeout_ms > 0 && timeout_ms < OPEN_AT_LEAST_MS;
    return open_another(client, &call->to,
                        is_short ? ts_deadline_in(OPEN_AT_LEAST_MS) : call->deadline);
}

ts_status ts_tcp_call_close(ts_tcp_call *call, ts_status status)
{
    ts_buffer_fini(&call->request);
    give(call->client, call->to, status != TS_OK);
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
    return ts_send_all(call->to.fd, request->data, request->size, call->client->server,
                       call->deadline);
}

ts_status ts_tcp_recv(ts_tcp_call *call, void *data, size_t size)
{
    return ts_recv_all(call->to.fd, data, size, call->client->server, call->deadline);
}

ts_status ts_tcp_recv_value(ts_tcp_call *call, void **value, size_t *size)
{
    uint64_t length;
    TS_TRY(ts_tcp_recv(call, &length, sizeof length));
    if (length > TS_WIRE_MAX_REQUEST)
        return ts_fail(TS_ENETWORK, "%s: a value of %llu bytes is announced: no store sends that",
                       call->client->server, (unsigned long long)length);
    char *data = malloc((size_t)length + 1);
    if (!data) return ts_fail_memory((size_t)length, "a value from the TCP store");
    data[length] = '\0';
    *value = data;
    *size = (size_t)length;
    return ts_tcp_recv(call, data, (size_t)length);
}

static size_t recv_at_once(ts_tcp_call *call, void *data, size_t size)
{
    if (call->client->spin_ns <= 0) return 0;
    int64_t end = ts_now_ns() + call->client->spin_ns;
    ssize_t n;
    do n = recv(call->to.fd, data, size, MSG_DONTWAIT);
    while (n < 0 && errno == EAGAIN && ts_now_ns() < end);
    return n > 0 ? (size_t)n : 0;
}

/* The first bytes of a reply, which is not there yet, by a call that waits: how many have come.  Errors
 * are left to the next call. */
static size_t recv_first(ts_tcp_call *call, void *data, size_t size)
{
    size_t there = recv_at_once(call, data, size);
    if (there > 0) return there;
    int64_t limit_ms = call->deadline.timeout_ms;
    if (limit_ms != call->to.recv_limit_ms) {
        struct timeval limit = {limit_ms / 1000, limit_ms % 1000 * 1000};
        if (setsockopt(call->to.fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0) return 0;
        call->to.recv_limit_ms = limit_ms;
    }
    ssize_t n = recv(call->to.fd, data, size, 0);
    return n > 0 ? (size_t)n : 0;
}

ts_status ts_tcp_ask(ts_tcp_call *call, void *reply, size_t size)
{
    TS_TRY(ts_tcp_send(call));
    size_t n = recv_first(call, reply, size);
    return n == size ? TS_OK : ts_tcp_recv(call, (char *)reply + n, size - n);
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
    bool in_time = ts_socket_wait(call->to.fd, POLLIN, deadline);
    call->deadline = ts_deadline_in(in_time ? REPLY_LIMIT_MS : CANCEL_LIMIT_MS);
    if (!in_time) return cancel_wait(call, ready);
    TS_TRY(ts_tcp_recv(call, &reply, 1));
    *ready = reply == TS_WIRE_STOP_WAITING;
    return *ready ? TS_OK : out_of_order(call, reply);
}

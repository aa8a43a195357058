/* SPDX-License-Identifier: Apache-2.0 */
/* The store server's thread: sockets on libuv around sessions. */
#include "store/server.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thread.h"
#include "net/address.h"
#include "net/socket.h"
#include "net/tls.h"
#include "store/session.h"

enum {
    READ_CHUNK = 64 * 1024,
    KEEPALIVE_S = 30,
    LISTENERS = 2,
    PATIENCE_MS = 10000,
    PORT_ATTEMPTS = 16,
    SPARE_FDS = 16
};

typedef struct client {
    uv_tcp_t socket;
    uv_write_t write;
    ts_session session;
    ts_buffer sending; /* what the write in progress sends */
    int64_t since_ns;  /* connected */
    bool stranger;     /* has not shown yet that it is a client */
} client;

struct ts_store_server {
    int64_t users; /* guarded by servers_lock */
    ts_store_server *next;
    bool shared, loopback;
    ts_key tls;
    int port;
    pid_t pid; /* a forked child has no such thread */
    pthread_t thread;
    uv_loop_t loop;
    uv_tcp_t listener[LISTENERS];
    uv_async_t stop;
    uv_timer_t patience; /* ticks while there are strangers */
    int64_t patience_ns;
    int strangers;
    int64_t warned_ns;
    ts_hub hub;
    char chunk[READ_CHUNK];
};

static pthread_mutex_t servers_lock = PTHREAD_MUTEX_INITIALIZER;
static ts_store_server *shared_servers;

/* ---- connections (on the server's thread) ---------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
    client *c = handle->data;
    ts_session_fini(&c->session);
    ts_buffer_fini(&c->sending);
    free(c);
}

static void no_stranger(client *c)
{
    ts_store_server *server = c->socket.loop->data;
    if (!c->stranger) return;
    c->stranger = false;
    if (--server->strangers == 0) uv_timer_stop(&server->patience);
}

/* Now and then, lest a flood of strangers floods the log too. */
static bool may_warn(ts_store_server *server)
{
    int64_t now = ts_now_ns();
    if (server->warned_ns && now - server->warned_ns < 1000000000) return false;
    server->warned_ns = now;
    return true;
}

/* Refused for what it said: a warning, for somebody may wonder. */
static void drop(client *c, const char *why, bool refused)
{
    char peer[TS_ADDRESS_TEXT];
    uv_os_fd_t fd = -1;
    if (uv_is_closing((uv_handle_t *)&c->socket)) return;
    uv_fileno((uv_handle_t *)&c->socket, &fd);
    refused = refused && may_warn(c->socket.loop->data);
    TS_LOG(TS_LOG_STORE, refused ? TS_LEVEL_WARNING : TS_LEVEL_DEBUG,
           "the store %s a connection from %s: %s", refused ? "refuses" : "closes",
           ts_socket_peer_text(fd, peer), why);
    no_stranger(c);
    uv_close((uv_handle_t *)&c->socket, on_closed);
}

static void look_at_stranger(uv_handle_t *handle, void *arg)
{
    const ts_store_server *server = arg;
    client *c = handle->data;
    if (handle->type != UV_TCP || !c || !c->stranger) return;
    if (ts_now_ns() - c->since_ns > server->patience_ns)
        drop(c, "it has not said in time that it is a client", true);
}

static void on_patience(uv_timer_t *timer)
{
    uv_walk(timer->loop, look_at_stranger, timer->loop->data);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    ts_store_server *server = handle->loop->data;
    (void)suggested;
    *buf = uv_buf_init(server->chunk, READ_CHUNK);
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buf)
{
    client *c = stream->data;
    const char *why;
    if (size < 0)
        drop(c, uv_strerror((int)size), false);
    else if (!ts_session_feed(&c->session, buf->base, (size_t)size, &why))
        drop(c, why, true);
    else if (c->session.validated)
        no_stranger(c);
}

static void on_written(uv_write_t *write, int error);

/* What the socket does not take at once goes in the background; until then nothing more is read
 * from a client that does not read. */
static void flush(ts_session *session)
{
    client *c = session->user;
    uv_stream_t *stream = (uv_stream_t *)&c->socket;
    if (c->sending.size > 0 || uv_is_closing((uv_handle_t *)stream)) return;
    uv_buf_t out = uv_buf_init(session->out.data, (unsigned)session->out.size);
    int sent = uv_try_write(stream, &out, 1);
    if (sent > 0) ts_buffer_drop(&session->out, (size_t)sent);
    if (sent < 0 && sent != UV_EAGAIN) {
        drop(c, uv_strerror(sent), false);
        return;
    }
    if (session->out.size == 0) return;
    ts_buffer_fini(&c->sending);
    c->sending = session->out;
    session->out = (ts_buffer){0};
    out = uv_buf_init(c->sending.data, (unsigned)c->sending.size);
    uv_read_stop(stream);
    int error = uv_write(&c->write, stream, &out, 1, on_written);
    if (error) drop(c, uv_strerror(error), false);
}

static void on_written(uv_write_t *write, int error)
{
    client *c = write->handle->data;
    ts_buffer_fini(&c->sending);
    if (error) {
        drop(c, uv_strerror(error), false);
        return;
    }
    if (c->session.out.size > 0) flush(&c->session);
    if (c->sending.size == 0 && !uv_is_closing((uv_handle_t *)write->handle))
        uv_read_start(write->handle, on_alloc, on_read);
}

/* Without free descriptors libuv closes new connections without a word. */
static void check_descriptors(ts_store_server *server, const client *c)
{
    struct rlimit limit;
    uv_os_fd_t fd = -1;
    if (uv_fileno((const uv_handle_t *)&c->socket, &fd) != 0 || fd < 0 ||
        getrlimit(RLIMIT_NOFILE, &limit) != 0 || (rlim_t)fd + SPARE_FDS < limit.rlim_cur ||
        !may_warn(server))
        return;
    TS_LOG(
        TS_LOG_STORE, TS_LEVEL_WARNING,
        "the store's process is near its limit of %llu open files (ulimit -n): more clients will "
        "be turned away; raise it",
        (unsigned long long)limit.rlim_cur);
}

static void on_temporary_closed(uv_handle_t *handle) { free(handle); }

/* With TLS the session's socket is the local end of the encrypted connection. */
static int accept_encrypted(ts_store_server *server, uv_stream_t *listener, client *c)
{
    uv_os_fd_t accepted = -1;
    uv_tcp_t *temporary = ts_calloc(1, sizeof *temporary);
    if (!temporary) return UV_ENOMEM;
    uv_tcp_init(&server->loop, temporary);
    int error = uv_accept(listener, (uv_stream_t *)temporary);
    if (!error) error = uv_fileno((uv_handle_t *)temporary, &accepted);
    int fd = error ? -1 : fcntl(accepted, F_DUPFD_CLOEXEC, 0);
    uv_close((uv_handle_t *)temporary, on_temporary_closed);
    if (fd < 0) return error ? error : UV_EMFILE;
    ts_tcp_tune(fd);
    if (ts_tls_wrap(&fd, &server->tls, true) == TS_OK)
        error = uv_tcp_open(&c->socket, fd);
    else
        error = UV_ENOMEM;
    if (error) ts_socket_close(fd);
    return error;
}

static int accept_client(ts_store_server *server, uv_stream_t *listener, client *c)
{
    if (server->tls.given) return accept_encrypted(server, listener, c);
    return uv_accept(listener, (uv_stream_t *)&c->socket);
}

static void on_connection(uv_stream_t *listener, int error)
{
    ts_store_server *server = listener->loop->data;
    client *c = error ? NULL : ts_calloc(1, sizeof *c);
    if (!c) {
        if (may_warn(server))
            TS_LOG(TS_LOG_STORE, TS_LEVEL_WARNING, "the store cannot accept a connection: %s",
                   error ? uv_strerror(error) : "out of memory");
        return;
    }
    c->since_ns = ts_now_ns();
    c->stranger = true;
    if (server->strangers++ == 0) {
        uint64_t tick = (uint64_t)server->patience_ns / 4000000 + 1;
        uv_timer_start(&server->patience, on_patience, tick, tick);
    }
    uv_tcp_init(&server->loop, &c->socket);
    c->socket.data = c;
    ts_session_init(&c->session, &server->hub, c);
    if (accept_client(server, listener, c) != 0 ||
        uv_read_start((uv_stream_t *)&c->socket, on_alloc, on_read) != 0) {
        drop(c, "accept failed", false);
        return;
    }
    check_descriptors(server, c);
    uv_tcp_nodelay(&c->socket, 1);
    uv_tcp_keepalive(&c->socket, 1, KEEPALIVE_S);
}

static void close_handle(uv_handle_t *handle, void *server)
{
    ts_store_server *s = server;
    bool of_client = handle->data && handle->type == UV_TCP &&
                     handle != (uv_handle_t *)&s->listener[0] &&
                     handle != (uv_handle_t *)&s->listener[1];
    if (!uv_is_closing(handle)) uv_close(handle, of_client ? on_closed : NULL);
}

static void on_stop(uv_async_t *stop) { uv_walk(stop->loop, close_handle, stop->loop->data); }

static void serve(void *arg)
{
    ts_store_server *server = arg;
    uv_run(&server->loop, UV_RUN_DEFAULT);
}

/* ---- start and stop -------------------------------------------------------------------------- */

static ts_status uv_failed(const char *what, int error)
{
    return ts_fail(TS_ENETWORK, "TCP store server: %s: %s", what, uv_strerror(error));
}

static ts_status open_loop(ts_store_server *server, int fd[LISTENERS])
{
    int error = uv_loop_init(&server->loop);
    if (error) return uv_failed("event loop", error);
    server->loop.data = server;
    server->hub.flush = flush;
    uv_async_init(&server->loop, &server->stop, on_stop);
    uv_timer_init(&server->loop, &server->patience);
    for (int i = 0; i < LISTENERS && !error && fd[i] >= 0; i++) {
        uv_tcp_t *listener = &server->listener[i];
        uv_tcp_init(&server->loop, listener);
        error = uv_tcp_open(listener, fd[i]);
        if (!error) fd[i] = -1; /* closed with the loop */
        if (!error) error = uv_listen((uv_stream_t *)listener, 4096, on_connection);
    }
    return error ? uv_failed("listening", error) : TS_OK;
}

static void close_loop(ts_store_server *server)
{
    uv_walk(&server->loop, close_handle, server);
    uv_run(&server->loop, UV_RUN_DEFAULT);
    uv_loop_close(&server->loop);
}

static ts_status adopt_socket(int *fd, const ts_store_server_options *opt)
{
    int bound = ts_socket_port(opt->listen_fd);
    if (bound <= 0 || (opt->port != 0 && bound != opt->port))
        return ts_fail(TS_EINVAL,
                       "TCP store server: descriptor %d is bound to port %d, but port is %d",
                       opt->listen_fd, bound, opt->port);
    *fd = opt->listen_fd;
    return ts_tcp_listen_on(opt->listen_fd);
}

static bool is_loopback(const char *host)
{
    return host && (strcmp(host, "localhost") == 0 || strcmp(host, "127.0.0.1") == 0 ||
                    strcmp(host, "::1") == 0);
}

/* Clients may call it by either name, so both families get the same port where there are both. */
static ts_status listen_on_loopback(int fd[LISTENERS], int port)
{
    for (int attempt = 0;; attempt++) {
        ts_status status = ts_tcp_listen(&fd[0], "127.0.0.1", port);
        int same = status == TS_OK ? ts_socket_port(fd[0]) : port;
        ts_status other = ts_tcp_listen(&fd[1], "::1", same);
        bool taken = other != TS_OK && strstr(ts_error_last(), "another program");
        if (status == TS_OK && (!taken || attempt == PORT_ATTEMPTS)) return TS_OK;
        ts_socket_close(fd[0]);
        fd[0] = other == TS_OK ? fd[1] : -1;
        fd[1] = -1;
        if (other == TS_OK) return TS_OK; /* there is IPv6 only */
        if (port != 0 || attempt == PORT_ATTEMPTS) return ts_tcp_listen(&fd[0], "127.0.0.1", port);
    }
}

static ts_status open_sockets(int fd[LISTENERS], const ts_store_server_options *opt)
{
    fd[0] = fd[1] = -1;
    if (opt->listen_fd >= 0) return adopt_socket(&fd[0], opt);
    if (is_loopback(opt->host)) return listen_on_loopback(fd, opt->port);
    return ts_tcp_listen(&fd[0], NULL, opt->port);
}

static ts_status start(ts_store_server *server, const ts_store_server_options *opt)
{
    int fd[LISTENERS];
    TS_TRY(ts_key_load(&server->hub.key, "store"));
    TS_TRY(ts_tls_key(&server->tls));
    TS_TRY(open_sockets(fd, opt));
    server->port = ts_socket_port(fd[0]);
    server->pid = getpid();
    server->loopback = opt->listen_fd < 0 && is_loopback(opt->host);
    server->patience_ns = (opt->patience_ms ? opt->patience_ms : PATIENCE_MS) * 1000000;
    ts_status status = open_loop(server, fd);
    if (status == TS_OK) status = ts_thread_start(&server->thread, "ts-store", serve, server);
    if (status == TS_OK) return TS_OK;
    if (server->loop.data) close_loop(server);
    for (int i = 0; i < LISTENERS; i++) ts_socket_close(fd[i]);
    return status;
}

static ts_store_server *find_shared(const ts_store_server_options *opt)
{
    ts_store_server *s = opt->port > 0 ? shared_servers : NULL;
    bool loopback = is_loopback(opt->host);
    while (s && (s->port != opt->port || s->pid != getpid() || (s->loopback && !loopback)))
        s = s->next;
    return s;
}

static ts_status start_locked(ts_store_server **out, const ts_store_server_options *opt)
{
    *out = opt->shared ? find_shared(opt) : NULL;
    if (*out) return (*out)->users++, TS_OK;
    ts_store_server *server = ts_calloc(1, sizeof *server);
    if (!server) return ts_fail_memory(sizeof *server, "the TCP store's server");
    ts_status status = start(server, opt);
    if (status != TS_OK) {
        free(server);
        return status;
    }
    server->users = 1;
    server->shared = opt->shared;
    if (opt->shared) {
        server->next = shared_servers;
        shared_servers = server;
    }
    *out = server;
    return TS_OK;
}

ts_status ts_store_server_start(ts_store_server **out, const ts_store_server_options *opt)
{
    pthread_mutex_lock(&servers_lock);
    ts_status status = start_locked(out, opt);
    pthread_mutex_unlock(&servers_lock);
    return status;
}

int ts_store_server_port(const ts_store_server *server) { return server->port; }

static bool was_last(ts_store_server *server)
{
    pthread_mutex_lock(&servers_lock);
    bool last = --server->users == 0;
    ts_store_server **link = &shared_servers;
    while (last && server->shared && *link != server) link = &(*link)->next;
    if (last && server->shared) *link = server->next;
    pthread_mutex_unlock(&servers_lock);
    return last;
}

void ts_store_server_release(ts_store_server *server)
{
    if (!server || server->pid != getpid() || !was_last(server)) return;
    uv_async_send(&server->stop);
    pthread_join(server->thread, NULL);
    uv_loop_close(&server->loop);
    ts_hub_fini(&server->hub);
    free(server);
}

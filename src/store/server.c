/* SPDX-License-Identifier: Apache-2.0 */
/* The store server's thread: sockets on libuv around sessions. */
#include "store/server.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thread.h"
#include "net/socket.h"
#include "store/session.h"

enum { READ_CHUNK = 64 * 1024, KEEPALIVE_S = 30 };

typedef struct client {
    uv_tcp_t socket;
    uv_write_t write;
    ts_session session;
    ts_buffer sending; /* what the write in progress sends */
} client;

struct ts_store_server {
    int64_t users; /* guarded by servers_lock */
    ts_store_server *next;
    bool shared;
    int port;
    pid_t pid; /* a forked child has no such thread */
    pthread_t thread;
    uv_loop_t loop;
    uv_tcp_t listener;
    uv_async_t stop;
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

static void drop(client *c, const char *why)
{
    char peer[TS_ADDRESS_TEXT];
    uv_os_fd_t fd = -1;
    if (uv_is_closing((uv_handle_t *)&c->socket)) return;
    uv_fileno((uv_handle_t *)&c->socket, &fd);
    TS_LOG(TS_LOG_STORE, TS_LEVEL_DEBUG, "connection from %s closed: %s",
           ts_socket_peer_text(fd, peer), why);
    uv_close((uv_handle_t *)&c->socket, on_closed);
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
        drop(c, uv_strerror((int)size));
    else if (!ts_session_feed(&c->session, buf->base, (size_t)size, &why))
        drop(c, why);
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
        drop(c, uv_strerror(sent));
        return;
    }
    if (session->out.size == 0) return;
    ts_buffer_fini(&c->sending);
    c->sending = session->out;
    session->out = (ts_buffer){0};
    out = uv_buf_init(c->sending.data, (unsigned)c->sending.size);
    uv_read_stop(stream);
    int error = uv_write(&c->write, stream, &out, 1, on_written);
    if (error) drop(c, uv_strerror(error));
}

static void on_written(uv_write_t *write, int error)
{
    client *c = write->handle->data;
    ts_buffer_fini(&c->sending);
    if (error) {
        drop(c, uv_strerror(error));
        return;
    }
    if (c->session.out.size > 0) flush(&c->session);
    if (c->sending.size == 0 && !uv_is_closing((uv_handle_t *)write->handle))
        uv_read_start(write->handle, on_alloc, on_read);
}

static void on_connection(uv_stream_t *listener, int error)
{
    ts_store_server *server = listener->loop->data;
    client *c = error ? NULL : ts_calloc(1, sizeof *c);
    if (!c) {
        TS_LOG(TS_LOG_STORE, TS_LEVEL_WARNING, "cannot accept a connection: %s",
               error ? uv_strerror(error) : "out of memory");
        return;
    }
    uv_tcp_init(&server->loop, &c->socket);
    c->socket.data = c;
    ts_session_init(&c->session, &server->hub, c);
    if (uv_accept(listener, (uv_stream_t *)&c->socket) != 0 ||
        uv_read_start((uv_stream_t *)&c->socket, on_alloc, on_read) != 0) {
        drop(c, "accept failed");
        return;
    }
    uv_tcp_nodelay(&c->socket, 1);
    uv_tcp_keepalive(&c->socket, 1, KEEPALIVE_S);
}

static void close_handle(uv_handle_t *handle, void *server)
{
    ts_store_server *s = server;
    bool own = handle == (uv_handle_t *)&s->listener || handle == (uv_handle_t *)&s->stop;
    if (!uv_is_closing(handle)) uv_close(handle, own ? NULL : on_closed);
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

static ts_status open_loop(ts_store_server *server, int fd)
{
    int error = uv_loop_init(&server->loop);
    if (error) return uv_failed("event loop", error);
    server->loop.data = server;
    server->hub.flush = flush;
    uv_async_init(&server->loop, &server->stop, on_stop);
    uv_tcp_init(&server->loop, &server->listener);
    error = uv_tcp_open(&server->listener, fd);
    if (!error) error = uv_listen((uv_stream_t *)&server->listener, 4096, on_connection);
    return error ? uv_failed("listening", error) : TS_OK;
}

static void close_loop(ts_store_server *server)
{
    uv_walk(&server->loop, close_handle, server);
    uv_run(&server->loop, UV_RUN_DEFAULT);
    uv_loop_close(&server->loop);
}

static ts_status open_socket(int *fd, int port, int listen_fd)
{
    if (listen_fd < 0) return ts_tcp_listen(fd, NULL, port);
    int bound = ts_socket_port(listen_fd);
    if (bound <= 0 || (port != 0 && bound != port))
        return ts_fail(TS_EINVAL,
                       "TCP store server: descriptor %d is bound to port %d, but port is %d",
                       listen_fd, bound, port);
    *fd = listen_fd;
    return ts_tcp_listen_on(listen_fd);
}

static ts_status start(ts_store_server *server, int port, int listen_fd)
{
    int fd;
    TS_TRY(open_socket(&fd, port, listen_fd));
    server->port = ts_socket_port(fd);
    server->pid = getpid();
    ts_status status = open_loop(server, fd);
    if (status == TS_OK) status = ts_thread_start(&server->thread, "ts-store", serve, server);
    if (status == TS_OK) return TS_OK;
    if (server->loop.data)
        close_loop(server); /* and with it fd */
    else
        ts_socket_close(fd);
    return status;
}

static ts_store_server *find_shared(int port)
{
    ts_store_server *s = port > 0 ? shared_servers : NULL;
    while (s && (s->port != port || s->pid != getpid())) s = s->next;
    return s;
}

static ts_status start_locked(ts_store_server **out, int port, int listen_fd, bool shared)
{
    *out = shared ? find_shared(port) : NULL;
    if (*out) return (*out)->users++, TS_OK;
    ts_store_server *server = ts_calloc(1, sizeof *server);
    if (!server) return ts_fail_memory(sizeof *server, "the TCP store's server");
    ts_status status = start(server, port, listen_fd);
    if (status != TS_OK) {
        free(server);
        return status;
    }
    server->users = 1;
    server->shared = shared;
    if (shared) {
        server->next = shared_servers;
        shared_servers = server;
    }
    *out = server;
    return TS_OK;
}

ts_status ts_store_server_start(ts_store_server **out, int port, int listen_fd, bool shared)
{
    pthread_mutex_lock(&servers_lock);
    ts_status status = start_locked(out, port, listen_fd, shared);
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

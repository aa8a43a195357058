/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to every peer: the higher rank connects and greets, the lower one answers.
 *
 * Nothing here waits for one peer alone, so the order in which ranks arrive does not matter, and
 * whoever connects without belonging here is dropped without holding up the others. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "comm/bootstrap.h"
#include "net/socket.h"
#include "net/tls.h"

#define STRANGERS_MAX 64
#define GREETING_MS 250 /* for the rest of a greeting that has begun */
#define LOOK_AROUND_MS 250
#define LOCAL_CONNECT_MS 1000
#define TCP_CONNECT_MS 10000
#define LISTENERS (1 + TS_INTERFACES_MAX)

typedef struct pending {
    int fd;
    int peer; /* -1: not known yet */
    int socket;
    bool local;
    bool challenged; /* connecting: the peer's nonce has come, or none will */
    ts_nonces nonces;
} pending;

typedef struct mesh {
    ts_bootstrap *boot;
    ts_engine *engine;
    pending *pending;
    struct pollfd *poll;
    int count, room;
    int missing; /* connections */
} mesh;

/* ---- greetings ------------------------------------------------------------------------------- */

static ts_status greet(const mesh *m, pending *p, int peer, int socket)
{
    ts_bootstrap *boot = m->boot;
    bool heap = p->local && boot->share_heap;
    uint8_t bytes[TS_GREETING_MAX];
    size_t size = ts_greeting_bytes(&boot->key);
    TS_TRY(ts_greet_write(boot, bytes, peer, socket, heap ? boot->opt->heap_reserved : 0,
                          &p->nonces, p->peer >= 0));
    if (p->local)
        return ts_unix_send_fd(p->fd, bytes, size, heap ? boot->opt->heap_fd : -1, boot->deadline);
    return ts_send_all(p->fd, bytes, size, "a peer", boot->deadline);
}

static const char *check_expected(const mesh *m, const ts_hello *hello, const pending *p)
{
    bool known = p->peer >= 0;
    if (known ? hello->rank == (uint32_t)p->peer && hello->socket == (uint32_t)p->socket
              : hello->rank > (uint32_t)m->boot->own.rank)
        return NULL;
    return "it is not the rank that was expected";
}

static const char *no_answer(const mesh *m)
{
    return m->boot->key.given ? "it did not answer; is its secret (TESSERA_SECRET) the same?"
                              : "it did not answer";
}

static const char *hear(const mesh *m, pending *p, ts_hello *hello, int *heap)
{
    uint8_t bytes[TS_GREETING_MAX];
    size_t size = ts_greeting_bytes(&m->boot->key);
    ts_deadline soon = ts_deadline_in(GREETING_MS);
    *heap = -1;
    ts_status status = p->local ? ts_unix_recv_fd(p->fd, bytes, size, heap, soon)
                                : ts_recv_all(p->fd, bytes, size, "a peer", soon);
    const char *wrong = status == TS_OK
                            ? ts_greet_read(m->boot, hello, bytes, &p->nonces, p->peer < 0)
                            : no_answer(m);
    if (!wrong) wrong = check_expected(m, hello, p);
    if (!wrong && hello->has_heap != (*heap >= 0)) wrong = "its heap is missing";
    if (!wrong) return NULL;
    ts_socket_close(*heap);
    return wrong;
}

/* ---- links ----------------------------------------------------------------------------------- */

/* Ends of processes are seen even if a forked child keeps the socket open. */
static void watch_process(ts_link *link)
{
    pid_t pid = 0;
    uid_t uid;
    if (!ts_unix_peer(link->fd, &pid, &uid) || pid <= 0 || pid == getpid()) return;
#ifdef SYS_pidfd_open
    link->pidfd = (int)syscall(SYS_pidfd_open, pid, 0); /* closed on exec; -1 on old systems */
#endif
}

static void adopt(mesh *m, const pending *p, const ts_hello *hello, int heap)
{
    ts_link *link = ts_link_socket(m->engine->link[hello->rank], (int)hello->socket);
    link->fd = p->fd;
    link->heap_fd = heap;
    link->heap_reserved = (size_t)hello->heap_reserved;
    if (p->local) watch_process(link);
    m->missing--;
}

static ts_status add_pending(mesh *m, int fd, int peer, int socket, bool local)
{
    if (m->count == m->room) {
        int room = m->room ? 2 * m->room : 16;
        pending *grown = ts_grow(m->pending, (size_t)room, sizeof *grown);
        if (grown) m->pending = grown;
        struct pollfd *polls =
            ts_grow(m->poll, (size_t)(room + LISTENERS + m->engine->size), sizeof *polls);
        if (polls) m->poll = polls;
        if (!grown || !polls) {
            ts_socket_close(fd);
            return ts_fail_memory((size_t)room * sizeof *grown, "connections of a group");
        }
        m->room = room;
    }
    m->pending[m->count++] = (pending){.fd = fd, .peer = peer, .socket = socket, .local = local};
    return TS_OK;
}

static void drop_pending(mesh *m, int i, bool close_it)
{
    if (close_it) ts_socket_close(m->pending[i].fd);
    m->pending[i] = m->pending[--m->count];
}

static ts_status unreachable(const mesh *m, int peer, const char *why)
{
    char who[160], text[300];
    snprintf(text, sizeof text, "%s", why);
    return ts_fail(
        TS_ENETWORK, "group '%s': cannot connect to %s: %s%s", m->engine->name,
        ts_link_describe(m->engine->link[peer], who, sizeof who), text,
        m->engine->link[peer]->same_host
            ? ""
            : "; if that is not an address of its host, set TESSERA_SOCKET_IFNAME there");
}

static ts_status encrypt(const mesh *m, int *fd, bool accepting)
{
    ts_status status = ts_tls_wrap(fd, &m->boot->tls, accepting);
    if (status != TS_OK) ts_socket_close(*fd);
    return status;
}

static ts_status greet_peer(mesh *m, pending *p)
{
    p->challenged = true;
    if (greet(m, p, p->peer, p->socket) == TS_OK) return TS_OK;
    return unreachable(m, p->peer, ts_error_last());
}

/* The side that accepts begins. */
static void challenge(mesh *m, pending *p)
{
    if (!m->boot->key.given) return;
    ts_nonce(p->nonces.accepting);
    struct iovec piece = {p->nonces.accepting, sizeof p->nonces.accepting};
    ts_send_some(p->fd, &piece, 1); /* the socket is still empty */
}

static ts_status take_challenge(mesh *m, int i)
{
    pending *p = &m->pending[i];
    if (ts_recv_all(p->fd, p->nonces.accepting, sizeof p->nonces.accepting, "a peer",
                    ts_deadline_in(GREETING_MS)) == TS_OK)
        return greet_peer(m, p);
    int peer = p->peer;
    drop_pending(m, i, true);
    return unreachable(m, peer, no_answer(m));
}

static ts_status connect_one(mesh *m, int peer, int socket)
{
    const ts_record *r = &m->boot->record[peer];
    bool local = m->engine->link[peer]->same_host;
    ts_deadline deadline = ts_deadline_in(local ? LOCAL_CONNECT_MS : TCP_CONNECT_MS);
    if (m->boot->deadline.at_ns < deadline.at_ns) deadline = m->boot->deadline;
    int fd;
    ts_route route;
    ts_greet_route(m->boot, peer, socket, &route);
    ts_status status = local ? ts_unix_connect(&fd, r->local, deadline)
                             : ts_tcp_connect_from(&fd, route.from, route.to, route.port, deadline);
    if (status != TS_OK) return unreachable(m, peer, ts_error_last());
    if (!local) TS_TRY(encrypt(m, &fd, false));
    TS_TRY(add_pending(m, fd, peer, socket, local));
    return m->boot->key.given ? TS_OK : greet_peer(m, &m->pending[m->count - 1]);
}

/* How many connections to peer are made here and now. */
static int sockets_to(const mesh *m, int peer)
{
    if (peer == m->boot->own.rank) return 0;
    if (m->engine->link[peer]->same_host) return 1;
    return m->boot->own.lazy ? 0 : m->boot->own.sockets;
}

static ts_status connect_to(mesh *m, int peer)
{
    int n = sockets_to(m, peer);
    for (int i = 0; i < n; i++) TS_TRY(connect_one(m, peer, i));
    return TS_OK;
}

static ts_status accept_one(mesh *m, int listener, bool local)
{
    int fd, strangers = 0;
    if (ts_socket_accept(&fd, listener, ts_deadline_in(1)) != TS_OK) return TS_OK; /* gone again */
    if (!local) TS_TRY(encrypt(m, &fd, true));
    for (int i = 0; i < m->count; i++) strangers += m->pending[i].peer < 0;
    if (strangers >= STRANGERS_MAX + m->engine->size) {
        for (int i = 0; i < m->count; i++)
            if (m->pending[i].peer < 0) {
                drop_pending(m, i, true);
                break;
            }
    }
    TS_TRY(add_pending(m, fd, -1, 0, local));
    challenge(m, &m->pending[m->count - 1]);
    return TS_OK;
}

static ts_status on_readable(mesh *m, int i)
{
    if (m->pending[i].peer >= 0 && !m->pending[i].challenged) return take_challenge(m, i);
    pending p = m->pending[i];
    ts_hello hello;
    int heap;
    const char *wrong = hear(m, &p, &hello, &heap);
    if (wrong) {
        drop_pending(m, i, true);
        if (p.peer >= 0) return unreachable(m, p.peer, wrong);
        TS_LOG(TS_LOG_COMM, TS_LEVEL_WARNING, "group '%s': a connection was dropped: %s",
               m->engine->name, wrong);
        return TS_OK;
    }
    drop_pending(m, i, false);
    adopt(m, &p, &hello, heap);
    if (p.peer >= 0) return TS_OK;
    if (greet(m, &p, (int)hello.rank, (int)hello.socket) != TS_OK)
        return unreachable(m, (int)hello.rank, ts_error_last());
    return TS_OK;
}

/* ---- looking around -------------------------------------------------------------------------- */

static ts_status peer_is_gone(const mesh *m, int peer)
{
    char who[160];
    return ts_fail(TS_ENETWORK, "group '%s': %s is gone: it ended while the group was made",
                   m->engine->name, ts_link_describe(m->engine->link[peer], who, sizeof who));
}

/* A peer whose own joining has failed closes without a word. */
static bool is_closed(int fd)
{
    char byte;
    ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

static ts_status look_around(mesh *m)
{
    TS_TRY(ts_join_check_failure(m->boot));
    for (int peer = 0; peer < m->engine->size; peer++) {
        const ts_link *link = m->engine->link[peer];
        const ts_record *r = &m->boot->record[peer];
        if (sockets_to(m, peer) == 0) continue;
        if (link->fd >= 0 ? is_closed(link->fd)
                          : link->same_host && !*ts_host_override(m->boot->opt) &&
                                kill(r->pid, 0) != 0 && errno == ESRCH)
            return peer_is_gone(m, peer);
    }
    return TS_OK;
}

static ts_status timed_out(const mesh *m)
{
    char who[160] = "";
    for (int peer = 0; peer < m->engine->size; peer++)
        if (sockets_to(m, peer) > 0 && m->engine->link[peer]->fd < 0)
            ts_link_describe(m->engine->link[peer], who, sizeof who);
    return ts_fail(TS_ETIMEOUT,
                   "group '%s': %d connections are missing after %lld ms, such as that to %s",
                   m->engine->name, m->missing, (long long)m->boot->opt->timeout_ms, who);
}

/* One turn: waits at most until it is time to look around. */
static ts_status turn(mesh *m)
{
    ts_bootstrap *boot = m->boot;
    int count = m->count;
    m->poll[0] = (struct pollfd){.fd = boot->local_listener, .events = POLLIN};
    for (int i = 0; i < TS_INTERFACES_MAX; i++) /* -1 is passed over */
        m->poll[1 + i] =
            (struct pollfd){.fd = boot->own.lazy ? -1 : boot->tcp_listener[i], .events = POLLIN};
    for (int i = 0; i < count; i++)
        m->poll[LISTENERS + i] = (struct pollfd){.fd = m->pending[i].fd, .events = POLLIN};
    int left = ts_deadline_left_ms(boot->deadline);
    int ms = left >= 0 && left < LOOK_AROUND_MS ? left : LOOK_AROUND_MS;
    int n = poll(m->poll, (nfds_t)(LISTENERS + count), ms);
    if (n < 0 && errno != EINTR)
        return ts_fail(TS_ENETWORK, "group '%s': poll: %s", m->engine->name, strerror(errno));
    if (n <= 0) return ts_deadline_passed(boot->deadline) ? timed_out(m) : look_around(m);
    short listener[LISTENERS];
    for (int i = 0; i < LISTENERS; i++) listener[i] = m->poll[i].revents;
    for (int i = count - 1; i >= 0; i--) /* backwards: a dropped one is replaced by the last */
        if (m->poll[LISTENERS + i].revents) TS_TRY(on_readable(m, i));
    if (listener[0]) TS_TRY(accept_one(m, boot->local_listener, true));
    for (int i = 1; i < LISTENERS; i++)
        if (listener[i]) TS_TRY(accept_one(m, boot->tcp_listener[i - 1], false));
    return m->missing > 0 && ts_deadline_passed(boot->deadline) ? timed_out(m) : TS_OK;
}

ts_status ts_mesh_connect(ts_bootstrap *boot)
{
    mesh m = {.boot = boot, .engine = boot->engine};
    m.poll = ts_calloc(LISTENERS, sizeof *m.poll);
    ts_status status = m.poll ? TS_OK : ts_fail_memory(LISTENERS * sizeof *m.poll, "connecting");
    for (int peer = 0; peer < boot->own.size; peer++) m.missing += sockets_to(&m, peer);
    for (int peer = 0; peer < boot->own.rank && status == TS_OK; peer++)
        status = connect_to(&m, peer);
    while (m.missing > 0 && status == TS_OK) status = turn(&m);
    while (m.count > 0) drop_pending(&m, 0, true);
    free(m.pending);
    free(m.poll);
    return status;
}

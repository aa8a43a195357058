/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that moves bytes between local sockets and encrypted connections. */
#include "net/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/settings.h"
#include "base/thread.h"
#include "net/openssl.h"
#include "net/socket.h"

enum { PIECE = 32 * 1024, EVENTS = 64, DRAIN_MS = 1000 };

/* Bytes on their way in one direction. */
typedef struct stretch {
    size_t begin, end;
    bool over; /* its source has ended */
    char data[PIECE];
} stretch;

typedef struct tunnel {
    struct tunnel *next;
    int net, plain; /* -1: closed, to be freed */
    uint32_t net_events, plain_events;
    SSL *ssl;
    ts_key key;
    bool secured, wants_write;
    stretch in, out; /* from the network, to it */
} tunnel;

/* One per process; a forked child begins anew. */
static struct {
    pthread_mutex_t lock; /* guards the list; what is in a tunnel belongs to the thread */
    tunnel *first;
    bool started;
    int epoll, wake;
    atomic_bool draining;
    SSL_CTX *context;
    const ts_openssl_calls *call;
} pump = {.lock = PTHREAD_MUTEX_INITIALIZER};

ts_status ts_tls_key(ts_key *key)
{
    *key = (ts_key){0};
    if (!ts_setting_bool(TS_SETTING_TLS)) return TS_OK;
    TS_TRY(ts_key_load(key, "tls"));
    if (key->given) return TS_OK;
    return ts_fail(TS_EINVAL, "TESSERA_TLS is on, but there is no secret: set TESSERA_SECRET or "
                              "TESSERA_SECRET_FILE on all ranks");
}

/* ---- moving bytes (on the pump's thread) ----------------------------------------------------- */

static bool is_empty(const stretch *s) { return s->begin == s->end; }

static void filled(stretch *s, size_t n) { s->begin = 0, s->end = n; }

/* Not more often than once a second: strangers may knock as often as they like. */
static void log_failure(const tunnel *t)
{
    static int64_t last_ns;
    if (last_ns && ts_now_ns() - last_ns < 1000000000) return;
    last_ns = ts_now_ns();
    char peer[TS_ADDRESS_TEXT], text[256] = "the connection ended";
    unsigned long error = pump.call->ERR_get_error();
    if (error) pump.call->ERR_error_string_n(error, text, sizeof text);
    TS_LOG(
        TS_LOG_NET, TS_LEVEL_WARNING,
        "no encrypted connection with %s: %s; TESSERA_TLS and TESSERA_SECRET must be the same on "
        "both sides",
        ts_socket_peer_text(t->net, peer), text);
}

/* Whether the call only has to be repeated later. */
static bool again(tunnel *t, int result)
{
    int why = pump.call->SSL_get_error(t->ssl, result);
    if (why == SSL_ERROR_WANT_WRITE) t->wants_write = true;
    return why == SSL_ERROR_WANT_WRITE || why == SSL_ERROR_WANT_READ;
}

/* A server with some certificate could complete a handshake too; only the key of the job counts. */
static void shake_hands(tunnel *t)
{
    pump.call->ERR_clear_error();
    int result = pump.call->SSL_do_handshake(t->ssl);
    t->secured = result == 1 && pump.call->SSL_session_reused(t->ssl);
    if (t->secured || (result != 1 && again(t, result))) return;
    log_failure(t);
    t->in.over = t->out.over = true;
}

static bool read_net(tunnel *t)
{
    if (t->in.over || !is_empty(&t->in)) return false;
    pump.call->ERR_clear_error();
    int n = pump.call->SSL_read(t->ssl, t->in.data, PIECE);
    if (n > 0) return filled(&t->in, (size_t)n), true;
    t->in.over = !again(t, n);
    return false;
}

static bool write_net(tunnel *t)
{
    if (is_empty(&t->out)) return false;
    pump.call->ERR_clear_error();
    int n =
        pump.call->SSL_write(t->ssl, t->out.data + t->out.begin, (int)(t->out.end - t->out.begin));
    if (n > 0) return t->out.begin += (size_t)n, true;
    if (again(t, n)) return false;
    t->out.begin = t->out.end; /* nobody takes it any more */
    t->in.over = t->out.over = true;
    return false;
}

static bool read_plain(tunnel *t)
{
    struct iovec piece = {t->out.data, PIECE};
    if (t->out.over || !is_empty(&t->out)) return false;
    ssize_t n = ts_recv_some(t->plain, &piece, 1);
    if (n > 0) return filled(&t->out, (size_t)n), true;
    t->out.over = n < 0;
    return false;
}

static bool write_plain(tunnel *t)
{
    struct iovec piece = {t->in.data + t->in.begin, t->in.end - t->in.begin};
    if (is_empty(&t->in)) return false;
    ssize_t n = ts_send_some(t->plain, &piece, 1);
    if (n > 0) t->in.begin += (size_t)n;
    if (n < 0) t->in.begin = t->in.end; /* closed here: what still comes is not wanted */
    return n > 0;
}

static void watch(int fd, uint32_t *now, uint32_t events, tunnel *t)
{
    struct epoll_event event = {.events = events, .data.ptr = t};
    if (*now == events) return;
    epoll_ctl(pump.epoll, EPOLL_CTL_MOD, fd, &event);
    *now = events;
}

static void close_tunnel(tunnel *t)
{
    if (t->secured) pump.call->SSL_shutdown(t->ssl);
    ts_socket_close(t->net);
    ts_socket_close(t->plain);
    t->net = t->plain = -1;
}

/* Either side's end ends the other, after what it had sent before. */
static bool is_over(const tunnel *t)
{
    return (t->in.over && is_empty(&t->in)) || (t->out.over && is_empty(&t->out));
}

static void turn(tunnel *t)
{
    t->wants_write = false;
    if (!t->secured && !t->in.over) shake_hands(t);
    bool more = t->secured;
    while (more) {
        more = read_net(t);
        more |= write_plain(t);
        more |= read_plain(t);
        more |= write_net(t);
    }
    if (is_over(t)) {
        close_tunnel(t);
        return;
    }
    bool reads = is_empty(&t->in) && !t->in.over, takes = t->secured && is_empty(&t->out);
    watch(t->net, &t->net_events, (reads ? EPOLLIN : 0) | (t->wants_write ? EPOLLOUT : 0), t);
    watch(t->plain, &t->plain_events,
          (takes && !t->out.over ? EPOLLIN : 0) | (is_empty(&t->in) ? 0 : EPOLLOUT), t);
}

/* Closed ones are freed only when no event of the same batch can name them. */
static bool sweep(void)
{
    bool sending = false;
    pthread_mutex_lock(&pump.lock);
    for (tunnel **link = &pump.first; *link;) {
        tunnel *t = *link;
        sending |= t->plain >= 0 && !is_empty(&t->out);
        if (t->plain >= 0) {
            link = &t->next;
            continue;
        }
        *link = t->next;
        pump.call->SSL_free(t->ssl);
        free(t);
    }
    pthread_mutex_unlock(&pump.lock);
    return sending;
}

static void serve(void *arg)
{
    struct epoll_event events[EVENTS];
    (void)arg;
    for (;;) {
        bool draining = pump.draining;
        int n = epoll_wait(pump.epoll, events, EVENTS, draining ? 1 : -1);
        for (int i = 0; i < n; i++) {
            tunnel *t = events[i].data.ptr;
            uint64_t count;
            if (!t && read(pump.wake, &count, sizeof count) < 0) continue;
            if (t && t->plain >= 0) turn(t);
        }
        if (!sweep() && draining && n == 0) pump.draining = false;
    }
}

void ts_tls_drain(void)
{
    uint64_t one = 1;
    ts_deadline deadline = ts_deadline_in(DRAIN_MS);
    pthread_mutex_lock(&pump.lock);
    bool idle = !pump.started || !pump.first;
    pthread_mutex_unlock(&pump.lock);
    if (idle) return;
    pump.draining = true;
    if (write(pump.wake, &one, sizeof one) < 0) return;
    while (pump.draining && !ts_deadline_passed(deadline)) usleep(200);
}

/* ---- keys ------------------------------------------------------------------------------------ */

static const uint8_t cipher_id[2] = {0x13, 0x01}; /* TLS_AES_128_GCM_SHA256 */
static const char identity[] = "tessera";

/* NULL: out of memory. */
static SSL_SESSION *session_of(SSL *ssl)
{
    const tunnel *t = pump.call->SSL_get_ex_data(ssl, 0);
    const SSL_CIPHER *cipher = pump.call->SSL_CIPHER_find(ssl, cipher_id);
    SSL_SESSION *session = pump.call->SSL_SESSION_new();
    if (session && cipher &&
        pump.call->SSL_SESSION_set1_master_key(session, t->key.bytes, sizeof t->key.bytes) &&
        pump.call->SSL_SESSION_set_cipher(session, cipher) &&
        pump.call->SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
        return session;
    pump.call->SSL_SESSION_free(session);
    return NULL;
}

static int use_key(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *size,
                   SSL_SESSION **session)
{
    (void)md;
    *id = (const unsigned char *)identity;
    *size = sizeof identity - 1;
    *session = session_of(ssl);
    return *session != NULL;
}

static int find_key(SSL *ssl, const unsigned char *id, size_t size, SSL_SESSION **session)
{
    bool known = size == sizeof identity - 1 && memcmp(id, identity, size) == 0;
    *session = known ? session_of(ssl) : NULL;
    return 1;
}

static bool make_context(void)
{
    const ts_openssl_calls *call = pump.call;
    SSL_CTX *c = call->SSL_CTX_new(call->TLS_method());
    if (!c) return false;
    call->SSL_CTX_ctrl(c, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, NULL);
    call->SSL_CTX_ctrl(c, SSL_CTRL_MODE,
                       SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER, NULL);
    call->SSL_CTX_set_num_tickets(c, 0);
    call->SSL_CTX_set_psk_use_session_callback(c, use_key);
    call->SSL_CTX_set_psk_find_session_callback(c, find_key);
    pump.context = c;
    return call->SSL_CTX_set_ciphersuites(c, "TLS_AES_128_GCM_SHA256") == 1;
}

/* ---- starting -------------------------------------------------------------------------------- */

static void before_fork(void) { pthread_mutex_lock(&pump.lock); }
static void after_fork(void) { pthread_mutex_unlock(&pump.lock); }

/* The parent's connections are not the child's. */
static void in_child(void)
{
    for (tunnel *t = pump.first; t; t = t->next) {
        ts_socket_close(t->net);
        ts_socket_close(t->plain);
    }
    if (pump.started) {
        close(pump.epoll);
        close(pump.wake);
    }
    pump.first = NULL;
    pump.started = false;
    pthread_mutex_unlock(&pump.lock);
}

static void register_fork(void) { pthread_atfork(before_fork, after_fork, in_child); }

static ts_status start_locked(void)
{
    static pthread_once_t at_fork = PTHREAD_ONCE_INIT;
    static pthread_t thread;
    struct epoll_event event = {.events = EPOLLIN};
    if (pump.started) return TS_OK;
    TS_TRY(ts_openssl(&pump.call));
    if (!pump.context && !make_context()) return ts_fail_memory(0, "TLS");
    pthread_once(&at_fork, register_fork);
    pump.epoll = epoll_create1(EPOLL_CLOEXEC);
    pump.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (pump.epoll < 0 || pump.wake < 0 ||
        epoll_ctl(pump.epoll, EPOLL_CTL_ADD, pump.wake, &event) != 0) {
        ts_socket_close(pump.epoll);
        ts_socket_close(pump.wake);
        return ts_fail(TS_ENETWORK, "TLS: cannot wait for sockets: %s", strerror(errno));
    }
    TS_TRY(ts_thread_start(&thread, "ts-tls", serve, NULL));
    pthread_detach(thread);
    pump.started = true;
    return TS_OK;
}

static tunnel *tunnel_new(int net, int plain, const ts_key *key, bool accepting)
{
    tunnel *t = ts_calloc(1, sizeof *t);
    if (!t) return NULL;
    t->net = net;
    t->plain = plain;
    t->key = *key;
    t->ssl = pump.call->SSL_new(pump.context);
    if (!t->ssl || !pump.call->SSL_set_fd(t->ssl, net) ||
        !pump.call->SSL_set_ex_data(t->ssl, 0, t)) {
        pump.call->SSL_free(t->ssl);
        free(t);
        return NULL;
    }
    if (accepting)
        pump.call->SSL_set_accept_state(t->ssl);
    else
        pump.call->SSL_set_connect_state(t->ssl);
    return t;
}

/* The first event, that the network can be written to, begins the handshake. */
static bool join(tunnel *t)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT, .data.ptr = t};
    t->net_events = event.events;
    t->next = pump.first;
    pump.first = t;
    struct epoll_event none = {.events = 0, .data.ptr = t};
    if (epoll_ctl(pump.epoll, EPOLL_CTL_ADD, t->plain, &none) == 0 &&
        epoll_ctl(pump.epoll, EPOLL_CTL_ADD, t->net, &event) == 0)
        return true;
    pump.first = t->next;
    epoll_ctl(pump.epoll, EPOLL_CTL_DEL, t->plain, &none);
    return false;
}

static ts_status wrap_locked(int ends[2], int net, const ts_key *key, bool accepting)
{
    TS_TRY(start_locked());
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        return ts_fail(TS_ENETWORK, "TLS: cannot make a pair of sockets: %s", strerror(errno));
    tunnel *t = tunnel_new(net, ends[1], key, accepting);
    if (t && join(t)) return TS_OK;
    if (t) pump.call->SSL_free(t->ssl);
    free(t);
    close(ends[0]);
    close(ends[1]);
    return ts_fail_memory(sizeof *t, "an encrypted connection");
}

ts_status ts_tls_wrap(int *fd, const ts_key *key, bool accepting)
{
    int ends[2];
    if (!key->given) return TS_OK;
    pthread_mutex_lock(&pump.lock);
    ts_status status = wrap_locked(ends, *fd, key, accepting);
    pthread_mutex_unlock(&pump.lock);
    if (status == TS_OK) *fd = ends[0];
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Connections between hosts that are made when two ranks first talk.
 *
 * Sending to a rank or receiving from it opens the connections to it; receiving from any rank opens
 * those to all.  So whoever waits for a rank has a connection to it and learns that it is gone; it
 * then aborts the group, which whoever waits for it learns in turn.
 *
 * Both sides may begin at once.  For each connection the attempt of the higher rank counts: the
 * lower one gives up its own when the other's greeting comes, the higher one closes the lower one's
 * without a word.  An attempt that is closed so is made again after a while, unless the link has
 * come by then; a peer that is gone refuses it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "comm/bootstrap.h"
#include "net/tls.h"

enum {
    TICK_MS = 50,
    ATTEMPT_MS = 10000, /* to reach a host, and for a stranger to say who it is */
    REST_MS = 1000,
    STRANGERS_MAX = 64
};

/* With a secret the peer's nonce is awaited before it is greeted. */
typedef enum dial_state {
    DIAL_CONNECTING,
    DIAL_CONNECTED,
    DIAL_GREETED,
    DIAL_ACCEPTED,
    DIAL_RESTING
} dial_state;

/* A connection that does not stand yet. */
typedef struct dial {
    dial_state state;
    int fd;           /* -1: resting, or this place is free */
    int peer, socket; /* accepted: -1 */
    ts_deadline by;
    size_t heard;
    uint8_t hello[TS_GREETING_MAX];
    ts_nonces nonces;
} dial;

struct ts_dialer {
    ts_bootstrap boot; /* own copy: records, own listeners */
    int timer;
    bool ticking;
    dial **dial; /* by place; NULL: free */
    int room;
};

#define LISTENER_EVENT TS_DIALER_EVENT
#define TIMER_EVENT (TS_DIALER_EVENT + TS_INTERFACES_MAX)
#define DIAL_EVENT (TS_DIALER_EVENT + TS_INTERFACES_MAX + 1)

static bool set_events(ts_engine *engine, int how, int fd, uint32_t events, uint64_t what)
{
    struct epoll_event event = {.events = events, .data.u64 = what};
    return epoll_ctl(engine->epoll, how, fd, &event) == 0;
}

/* Ticks while there is any dial. */
static void set_ticking(ts_dialer *d, bool on)
{
    int64_t ns = on ? TICK_MS * 1000000 : 0;
    struct itimerspec when = {{0, ns}, {0, ns}};
    if (d->ticking != on) timerfd_settime(d->timer, 0, &when, NULL);
    d->ticking = on;
}

/* ---- dials ----------------------------------------------------------------------------------- */

static int place_for(ts_dialer *d)
{
    for (int i = 0; i < d->room; i++)
        if (!d->dial[i]) return i;
    int room = d->room ? 2 * d->room : 16;
    dial **grown = ts_grow(d->dial, (size_t)room, sizeof *grown);
    if (!grown) return -1;
    memset(grown + d->room, 0, (size_t)(room - d->room) * sizeof *grown);
    d->dial = grown;
    int place = d->room;
    d->room = room;
    return place;
}

static dial *dial_new(ts_dialer *d, int peer, int socket, dial_state state, int *place)
{
    *place = place_for(d);
    dial *new = *place >= 0 ? ts_calloc(1, sizeof *new) : NULL;
    if (!new) return NULL;
    *new = (dial){.state = state, .fd = -1, .peer = peer, .socket = socket};
    new->by = ts_deadline_in(ATTEMPT_MS);
    d->dial[*place] = new;
    set_ticking(d, true);
    return new;
}

static void hang_up(ts_engine *engine, int place, bool close_it)
{
    ts_dialer *d = engine->dialer;
    int fd = d->dial[place]->fd;
    if (fd >= 0 && close_it) {
        epoll_ctl(engine->epoll, EPOLL_CTL_DEL, fd, NULL);
        ts_socket_close(fd);
    }
    free(d->dial[place]);
    d->dial[place] = NULL;
}

/* Place of the own attempt; -1: there is none. */
static int find_dial(const ts_dialer *d, int peer, int socket)
{
    for (int i = 0; i < d->room; i++)
        if (d->dial[i] && d->dial[i]->peer == peer && d->dial[i]->socket == socket) return i;
    return -1;
}

static void lose(ts_engine *engine, int peer, const char *why)
{
    ts_dialer *d = engine->dialer;
    for (int i = 0; i < d->room; i++)
        if (d->dial[i] && d->dial[i]->peer == peer) hang_up(engine, i, true);
    ts_link_lose(engine->link[peer], TS_ENETWORK, false,
                 "cannot be reached: %s; it has ended or left the group, or its address is not "
                 "that of its host (see TESSERA_SOCKET_IFNAME)",
                 why);
}

/* Begins, or begins again. */
static void call(ts_engine *engine, int place)
{
    ts_dialer *d = engine->dialer;
    dial *one = d->dial[place];
    ts_route route;
    ts_greet_route(&d->boot, one->peer, one->socket, &route);
    one->state = DIAL_CONNECTING;
    one->heard = 0;
    if (ts_tcp_connect_begin(&one->fd, route.from, route.to, route.port) != TS_OK)
        lose(engine, one->peer, strerror(errno));
    else if (!set_events(engine, EPOLL_CTL_ADD, one->fd, EPOLLOUT, DIAL_EVENT + (uint64_t)place))
        lose(engine, one->peer, strerror(errno));
}

static void want(ts_engine *engine, ts_link *trunk)
{
    ts_link *link = trunk;
    if (trunk->same_host || trunk->opening || trunk->fd >= 0 || trunk->status != TS_OK) return;
    trunk->opening = true;
    for (int i = 0; link && trunk->status == TS_OK; link = ts_link_socket(trunk, ++i)) {
        int place;
        if (link->fd >= 0) continue;
        if (dial_new(engine->dialer, trunk->peer, i, DIAL_CONNECTING, &place))
            call(engine, place);
        else
            lose(engine, trunk->peer, "out of memory");
    }
}

void ts_dialer_want(ts_engine *engine, int peer)
{
    if (engine->dialer && peer != engine->rank) want(engine, engine->link[peer]);
}

/* ---- greetings ------------------------------------------------------------------------------- */

static bool say_hello(ts_engine *engine, dial *one, int peer, int socket)
{
    const ts_bootstrap *boot = &engine->dialer->boot;
    uint8_t bytes[TS_GREETING_MAX];
    struct iovec piece = {bytes, ts_greeting_bytes(&boot->key)};
    bool connecting = one->peer >= 0;
    return ts_greet_write(boot, bytes, peer, socket, 0, &one->nonces, connecting) == TS_OK &&
           ts_send_some(one->fd, &piece, 1) == (ssize_t)piece.iov_len; /* it is still empty */
}

static void adopt(ts_engine *engine, int place, const ts_hello *hello)
{
    ts_link *trunk = engine->link[hello->rank];
    ts_link *link = ts_link_socket(trunk, (int)hello->socket);
    link->fd = engine->dialer->dial[place]->fd;
    hang_up(engine, place, false);
    if (!set_events(engine, EPOLL_CTL_MOD, link->fd, EPOLLIN, ts_link_event(link, link->socket)))
        ts_link_lose(trunk, TS_ENETWORK, false, "cannot be watched: %s", strerror(errno));
    if (link == trunk) trunk->opening = false;
    if (link != trunk && engine->closing) { /* its goodbye has gone by */
        ts_link_part(link);
        return;
    }
    if (link != trunk && trunk->fd < 0) trunk->opening = true; /* who calls opens them all */
    ts_link_flush(link);
}

/* The peer has closed a connection that does not stand yet. */
static void turned_away(ts_engine *engine, int place)
{
    dial *one = engine->dialer->dial[place];
    if (one->peer < 0) {
        hang_up(engine, place, true);
        return;
    }
    epoll_ctl(engine->epoll, EPOLL_CTL_DEL, one->fd, NULL);
    ts_socket_close(one->fd);
    one->fd = -1;
    one->state = DIAL_RESTING;
    if (ts_deadline_passed(one->by)) one->by = ts_deadline_in(REST_MS); /* it was busy for long */
}

static const char *check_caller(ts_engine *engine, const dial *one, const ts_hello *hello)
{
    ts_dialer *d = engine->dialer;
    int peer = (int)hello->rank, socket = (int)hello->socket;
    if (engine->link[peer]->same_host) return "it is of this host";
    if (engine->link[peer]->status != TS_OK) return "its rank is lost already";
    if (one->state == DIAL_GREETED)
        return peer == one->peer && socket == one->socket ? NULL : "it is not who was called";
    int own = find_dial(d, peer, socket);
    if (own >= 0 && peer < engine->rank && d->dial[own]->fd >= 0)
        return ""; /* the own attempt counts */
    if (own >= 0) hang_up(engine, own, true);
    return NULL;
}

static void heard_hello(ts_engine *engine, int place)
{
    dial *one = engine->dialer->dial[place];
    ts_hello hello;
    const char *wrong =
        ts_greet_read(&engine->dialer->boot, &hello, one->hello, &one->nonces, one->peer < 0);
    if (!wrong) wrong = check_caller(engine, one, &hello);
    if (!wrong && one->state == DIAL_ACCEPTED &&
        !say_hello(engine, one, (int)hello.rank, (int)hello.socket))
        wrong = "it cannot be answered";
    if (!wrong) {
        adopt(engine, place, &hello);
        return;
    }
    if (*wrong)
        TS_LOG(TS_LOG_COMM, TS_LEVEL_INFO, "group '%s': a connection was dropped: %s", engine->name,
               wrong);
    turned_away(engine, place);
}

static void greet(ts_engine *engine, int place)
{
    dial *one = engine->dialer->dial[place];
    one->state = DIAL_GREETED;
    one->heard = 0;
    if (!say_hello(engine, one, one->peer, one->socket)) turned_away(engine, place);
}

static void heard_nonce(ts_engine *engine, int place)
{
    dial *one = engine->dialer->dial[place];
    memcpy(one->nonces.accepting, one->hello, TS_NONCE_BYTES);
    greet(engine, place);
}

static void hear(ts_engine *engine, int place)
{
    dial *one = engine->dialer->dial[place];
    bool nonce = one->state == DIAL_CONNECTED;
    size_t whole = nonce ? TS_NONCE_BYTES : ts_greeting_bytes(&engine->dialer->boot.key);
    struct iovec rest = {one->hello + one->heard, whole - one->heard};
    ssize_t n = ts_recv_some(one->fd, &rest, 1);
    if (n < 0) {
        turned_away(engine, place);
        return;
    }
    one->heard += (size_t)n;
    if (one->heard < whole) return;
    if (nonce)
        heard_nonce(engine, place);
    else
        heard_hello(engine, place);
}

static void on_connected(ts_engine *engine, int place)
{
    dial *one = engine->dialer->dial[place];
    if (ts_tcp_connect_end(one->fd) != TS_OK) {
        lose(engine, one->peer, ts_error_last());
        return;
    }
    epoll_ctl(engine->epoll, EPOLL_CTL_DEL, one->fd, NULL);
    if (ts_tls_wrap(&one->fd, &engine->dialer->boot.tls, false) != TS_OK ||
        !set_events(engine, EPOLL_CTL_ADD, one->fd, EPOLLIN, DIAL_EVENT + (uint64_t)place)) {
        lose(engine, one->peer, ts_error_last());
        return;
    }
    one->state = DIAL_CONNECTED;
    if (!engine->dialer->boot.key.given) greet(engine, place);
}

/* ---- events ---------------------------------------------------------------------------------- */

static void drop_a_stranger(ts_engine *engine)
{
    ts_dialer *d = engine->dialer;
    int strangers = 0, first = -1;
    for (int i = 0; i < d->room; i++) {
        if (!d->dial[i] || d->dial[i]->state != DIAL_ACCEPTED) continue;
        strangers++;
        if (first < 0 || d->dial[i]->by.at_ns < d->dial[first]->by.at_ns) first = i;
    }
    if (strangers >= STRANGERS_MAX + engine->size) hang_up(engine, first, true);
}

static void on_caller(ts_engine *engine, int listener)
{
    int fd, place;
    ts_dialer *d = engine->dialer;
    if (ts_socket_accept(&fd, d->boot.tcp_listener[listener], ts_deadline_in(1)) != TS_OK) return;
    drop_a_stranger(engine);
    if (engine->closing || ts_tls_wrap(&fd, &d->boot.tls, true) != TS_OK) {
        ts_socket_close(fd);
        return;
    }
    dial *one = dial_new(d, -1, -1, DIAL_ACCEPTED, &place);
    if (!one) {
        ts_socket_close(fd);
        return;
    }
    one->fd = fd;
    if (d->boot.key.given) {
        ts_nonce(one->nonces.accepting);
        struct iovec piece = {one->nonces.accepting, sizeof one->nonces.accepting};
        ts_send_some(fd, &piece, 1); /* the socket is still empty */
    }
    if (!set_events(engine, EPOLL_CTL_ADD, fd, EPOLLIN, DIAL_EVENT + (uint64_t)place))
        hang_up(engine, place, true);
}

static void check_dial(ts_engine *engine, int place)
{
    dial *one = engine->dialer->dial[place];
    bool late = ts_deadline_passed(one->by);
    bool gone = one->peer >= 0 && engine->link[one->peer]->status != TS_OK;
    if (gone || (one->state == DIAL_ACCEPTED && late))
        hang_up(engine, place, true);
    else if (one->state == DIAL_RESTING && !late)
        call(engine, place);
    else if (late && one->state != DIAL_GREETED &&
             one->state != DIAL_CONNECTED) /* a busy peer answers when it can */
        lose(engine, one->peer, "no answer");
}

static void on_tick(ts_engine *engine)
{
    uint64_t count;
    ts_dialer *d = engine->dialer;
    ssize_t n = read(d->timer, &count, sizeof count);
    (void)n;
    bool any = false;
    for (int i = 0; i < d->room; i++) {
        if (d->dial[i]) check_dial(engine, i);
        any = any || d->dial[i];
    }
    if (!any) set_ticking(d, false);
}

void ts_dialer_event(ts_engine *engine, uint64_t event)
{
    if (event < TIMER_EVENT) {
        on_caller(engine, (int)(event - LISTENER_EVENT));
    } else if (event == TIMER_EVENT) {
        on_tick(engine);
    } else {
        int place = (int)(event - DIAL_EVENT);
        const dial *one = engine->dialer->dial[place];
        if (!one || one->fd < 0) return; /* hung up in the same turn */
        if (one->state == DIAL_CONNECTING)
            on_connected(engine, place);
        else
            hear(engine, place);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static bool watch_all(ts_engine *engine)
{
    ts_dialer *d = engine->dialer;
    bool ok = set_events(engine, EPOLL_CTL_ADD, d->timer, EPOLLIN, TIMER_EVENT);
    for (int i = 0; i < TS_INTERFACES_MAX && ok; i++) {
        int fd = d->boot.tcp_listener[i];
        if (fd >= 0)
            ok = set_events(engine, EPOLL_CTL_ADD, fd, EPOLLIN, LISTENER_EVENT + (uint64_t)i);
    }
    return ok;
}

ts_status ts_dialer_start(ts_engine *engine, ts_bootstrap *boot)
{
    ts_dialer *d = ts_calloc(1, sizeof *d);
    if (!d) return ts_fail_memory(sizeof *d, "connections of a group");
    char *run = ts_strdup(boot->run);
    d->boot = *boot;
    d->boot.opt = NULL; /* the caller's */
    d->boot.run = run;
    d->boot.local_listener = -1;
    boot->record = NULL;
    for (int i = 0; i < TS_INTERFACES_MAX; i++) boot->tcp_listener[i] = -1;
    d->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    engine->dialer = d;
    if (run && d->timer >= 0 && watch_all(engine)) return TS_OK;
    return ts_fail(TS_ENETWORK, "group '%s': cannot wait for connections: %s", engine->name,
                   strerror(errno));
}

void ts_dialer_free(ts_engine *engine)
{
    ts_dialer *d = engine->dialer;
    if (!d) return;
    for (int i = 0; i < d->room; i++)
        if (d->dial[i]) hang_up(engine, i, true);
    for (int i = 0; i < TS_INTERFACES_MAX; i++) ts_socket_close(d->boot.tcp_listener[i]);
    ts_socket_close(d->timer);
    free(d->dial);
    free(d->boot.record);
    free((void *)(uintptr_t)d->boot.run);
    free(d);
    engine->dialer = NULL;
}

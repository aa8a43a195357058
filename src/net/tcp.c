/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "net/address.h"
#include "net/socket.h"

enum {
    LONGEST_ATTEMPT_MS = 10000
}; /* then the next address is tried: packets may be dropped silently */

static ts_status check_port(const char *op, int port, int lowest)
{
    if (port >= lowest && port <= 65535) return TS_OK;
    return ts_fail(TS_EINVAL, "%s: port %d is not in %d .. 65535", op, port, lowest);
}

/* Between addresses of one machine nothing is congested, but a congestion control that paces (BBR)
 * would still delay packets. */
static void stop_pacing(int fd)
{
    static const char plain[] = "reno"; /* every kernel has it */
    char own[TS_ADDRESS_TEXT], other[TS_ADDRESS_TEXT];
    struct sockaddr_storage local, peer;
    socklen_t local_length = sizeof local, peer_length = sizeof peer;
    if (getsockname(fd, (struct sockaddr *)&local, &local_length) == 0 &&
        getpeername(fd, (struct sockaddr *)&peer, &peer_length) == 0 &&
        ts_address_number(own, (struct sockaddr *)&local) &&
        ts_address_number(other, (struct sockaddr *)&peer) && strcmp(own, other) == 0)
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, plain, sizeof plain - 1);
}

void ts_tcp_tune(int fd)
{
    int on = 1, idle_s = 30, interval_s = 10;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    stop_pacing(fd);
}

/* A connect to a free local port may meet itself: the kernel gave the socket the same port. */
static bool is_own_reflection(int fd)
{
    char local[TS_ADDRESS_TEXT], peer[TS_ADDRESS_TEXT];
    return strcmp(ts_socket_local_text(fd, local), ts_socket_peer_text(fd, peer)) == 0;
}

static void close_without_trace(int fd)
{
    struct linger none = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    ts_socket_close(fd);
}

static int finish_connect(int fd, ts_deadline deadline)
{
    ts_deadline attempt = ts_deadline_in(LONGEST_ATTEMPT_MS);
    if (deadline.at_ns < attempt.at_ns) attempt = deadline;
    int error = 0;
    socklen_t length = sizeof error;
    if (!ts_socket_wait(fd, POLLOUT, attempt)) return ETIMEDOUT;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
    return error;
}

static int bind_to(int fd, const struct addrinfo *from, int family)
{
    if (!from || from->ai_family != family) return 0;
#ifdef IP_BIND_ADDRESS_NO_PORT
    int on = 1; /* the port is chosen when the peer is known */
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
#endif
    return bind(fd, from->ai_addr, from->ai_addrlen) == 0 ? 0 : errno;
}

/* A connection under way: 0 or errno. */
static int begin_connect(int *out, const struct addrinfo *a, const struct addrinfo *from)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return errno;
    int error = bind_to(fd, from, a->ai_family);
    if (!error) error = connect(fd, a->ai_addr, a->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS || error == EINTR) error = 0;
    if (error)
        close_without_trace(fd);
    else
        *out = fd;
    return error;
}

/* One attempt with one address: 0 or errno. */
static int try_connect(int *out, const struct addrinfo *a, const struct addrinfo *from,
                       ts_deadline deadline)
{
    int fd = -1, error = begin_connect(&fd, a, from);
    if (error) return error;
    error = finish_connect(fd, deadline);
    if (!error && is_own_reflection(fd)) error = ECONNREFUSED;
    if (error) {
        close_without_trace(fd);
        return error;
    }
    ts_tcp_tune(fd);
    *out = fd;
    return 0;
}

static ts_status unreachable(const char *host, int port, int error, int attempts, int64_t start)
{
    return ts_fail(TS_ENETWORK,
                   "cannot connect to host '%s', port %d: %s (%d attempt%s in %.1f s); "
                   "check that it is started and listens there",
                   host, port, strerror(error), attempts, attempts == 1 ? "" : "s",
                   (double)(ts_now_ns() - start) * 1e-9);
}

static ts_status connect_host(int *out, const char *from, const char *host, int port,
                              ts_deadline deadline, bool retry)
{
    struct addrinfo *list, *source = NULL;
    *out = -1;
    TS_TRY(check_port("connect", port, 1));
    TS_TRY(ts_resolve(&list, host, port, false));
    if (from && ts_resolve(&source, from, 0, false) != TS_OK) source = NULL;
    int64_t start = ts_now_ns();
    int attempts = 0, error = 0;
    for (;;) {
        attempts++;
        for (struct addrinfo *a = list; a; a = a->ai_next) {
            error = try_connect(out, a, source, deadline);
            if (!error) break;
        }
        if (!error || !retry || ts_deadline_passed(deadline)) break;
        ts_backoff(attempts, deadline);
    }
    freeaddrinfo(list);
    if (source) freeaddrinfo(source);
    return error ? unreachable(host, port, error, attempts, start) : TS_OK;
}

ts_status ts_tcp_connect(int *out, const char *host, int port, ts_deadline deadline)
{
    return connect_host(out, NULL, host, port, deadline, true);
}

ts_status ts_tcp_connect_from(int *out, const char *from, const char *host, int port,
                              ts_deadline deadline)
{
    return connect_host(out, from, host, port, deadline, true);
}

ts_status ts_tcp_connect_once(int *out, const char *host, int port, ts_deadline deadline)
{
    return connect_host(out, NULL, host, port, deadline, false);
}

ts_status ts_tcp_connect_begin(int *out, const char *from, const char *host, int port)
{
    struct addrinfo *list, *source = NULL;
    *out = -1;
    TS_TRY(check_port("connect", port, 1));
    TS_TRY(ts_resolve(&list, host, port, false));
    if (from && ts_resolve(&source, from, 0, false) != TS_OK) source = NULL;
    int error = begin_connect(out, list, source);
    freeaddrinfo(list);
    if (source) freeaddrinfo(source);
    return error ? unreachable(host, port, error, 1, ts_now_ns()) : TS_OK;
}

ts_status ts_tcp_connect_end(int fd)
{
    int error = 0;
    socklen_t length = sizeof error;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
    if (!error && is_own_reflection(fd)) error = ECONNREFUSED;
    if (error) return ts_fail(TS_ENETWORK, "%s", strerror(error));
    ts_tcp_tune(fd);
    return TS_OK;
}

ts_status ts_tcp_listen_on(int fd)
{
    char text[TS_ADDRESS_TEXT];
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 || listen(fd, SOMAXCONN) != 0)
        return ts_fail(TS_ENETWORK, "cannot listen on descriptor %d (%s): %s", fd,
                       ts_socket_local_text(fd, text), strerror(errno));
    return TS_OK;
}

/* 0 or errno.  An IPv6 socket takes IPv4 connections too. */
static int try_listen(int *out, const struct addrinfo *a)
{
    int on = 1, off = 0;
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (a->ai_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0) return *out = fd, 0;
    int error = errno;
    ts_socket_close(fd);
    return error;
}

/* All addresses of the list of one family; a port in use ends the search. */
static int listen_family(int *out, const struct addrinfo *list, int family)
{
    int error = EAFNOSUPPORT;
    for (; list && *out < 0; list = list->ai_next) {
        if (list->ai_family != family) continue;
        error = try_listen(out, list);
        if (error == EADDRINUSE) break;
    }
    return error;
}

ts_status ts_tcp_listen(int *out, const char *host, int port)
{
    struct addrinfo *list;
    *out = -1;
    TS_TRY(check_port("listen", port, 0));
    TS_TRY(ts_resolve(&list, host, port, true));
    int error = listen_family(out, list, AF_INET6);
    if (*out < 0 && error != EADDRINUSE) {
        int other = listen_family(out, list, AF_INET);
        if (error == EAFNOSUPPORT || other != EAFNOSUPPORT) error = other;
    }
    freeaddrinfo(list);
    if (*out >= 0) return TS_OK;
    return ts_fail(
        TS_ENETWORK, "cannot listen on address %s, port %d: %s%s", host ? host : "* (all)", port,
        strerror(error),
        error == EADDRINUSE ? "; another program uses it: choose another port, or 0 for any" : "");
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "net/socket.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "net/address.h"

void ts_socket_close(int fd)
{
    int keep = errno;
    if (fd >= 0) close(fd); /* not repeated on EINTR: Linux has closed it already */
    errno = keep;
}

int ts_socket_wait(int fd, short events, ts_deadline deadline)
{
    struct pollfd p = {.fd = fd, .events = events};
    for (;;) {
        int n = poll(&p, 1, ts_deadline_left_ms(deadline));
        if (n > 0 || (n < 0 && errno != EINTR)) return 1;
        if (ts_deadline_passed(deadline)) return 0;
    }
}

static uint32_t jitter(void)
{
    static _Thread_local uint32_t state;
    if (!state) state = (uint32_t)ts_now_ns() * 2654435761u ^ (uint32_t)getpid() ^ 1u;
    if (!state) state = 1;
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

void ts_backoff(int n, ts_deadline deadline)
{
    int64_t ns = n < 7 ? (int64_t)1000000 << (n > 1 ? n - 1 : 0) : 50000000;
    ns = ns * 3 / 4 + (int64_t)(jitter() % 512) * ns / 1024;
    if (deadline.at_ns != INT64_MAX) {
        int64_t left = deadline.at_ns - ts_now_ns();
        if (left < ns) ns = left > 0 ? left : 0;
    }
    struct timespec pause = {.tv_sec = 0, .tv_nsec = ns};
    while (nanosleep(&pause, &pause) != 0 && errno == EINTR) {
    }
}

/* ---- transfers ------------------------------------------------------------------------------- */

static struct msghdr message_of(const struct iovec *pieces, int n)
{
    struct msghdr message = {0};
    message.msg_iov = (struct iovec *)(uintptr_t)pieces;
    message.msg_iovlen = (size_t)n;
    return message;
}

static bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

ssize_t ts_send_some(int fd, const struct iovec *pieces, int n)
{
    struct msghdr message = message_of(pieces, n);
    ssize_t moved;
    do moved = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (moved < 0 && errno == EINTR);
    return moved < 0 && would_block(errno) ? 0 : moved;
}

ssize_t ts_recv_some(int fd, const struct iovec *pieces, int n)
{
    struct msghdr message = message_of(pieces, n);
    ssize_t moved;
    do moved = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (moved < 0 && errno == EINTR);
    if (moved == 0) return errno = ENODATA, -1;
    return moved < 0 && would_block(errno) ? 0 : moved;
}

ssize_t ts_recv_piece(int fd, void *to, size_t bytes)
{
    ssize_t moved;
    do moved = recv(fd, to, bytes, MSG_DONTWAIT);
    while (moved < 0 && errno == EINTR);
    if (moved == 0) return errno = ENODATA, -1;
    return moved < 0 && would_block(errno) ? 0 : moved;
}

static ts_status lost(const char *verb, const char *peer)
{
    if (errno == ENODATA) return ts_fail(TS_ENETWORK, "%s has closed the connection", peer);
    return ts_fail(TS_ENETWORK, "%s %s: %s", verb, peer, strerror(errno));
}

static ts_status late(const char *verb, const char *peer, ts_deadline deadline, size_t done,
                      size_t size)
{
    return ts_fail(TS_ETIMEOUT, "%s %s: %zu of %zu bytes after %lld ms", verb, peer, done, size,
                   (long long)deadline.timeout_ms);
}

ts_status ts_send_all(int fd, const void *data, size_t size, const char *peer, ts_deadline deadline)
{
    for (size_t done = 0; done < size;) {
        struct iovec piece = {(char *)(uintptr_t)data + done, size - done};
        ssize_t moved = ts_send_some(fd, &piece, 1);
        if (moved < 0) return lost("sending to", peer);
        if (moved == 0 && !ts_socket_wait(fd, POLLOUT, deadline))
            return late("sending to", peer, deadline, done, size);
        done += (size_t)moved;
    }
    return TS_OK;
}

ts_status ts_recv_all(int fd, void *data, size_t size, const char *peer, ts_deadline deadline)
{
    for (size_t done = 0; done < size;) {
        struct iovec piece = {(char *)data + done, size - done};
        ssize_t moved = ts_recv_some(fd, &piece, 1);
        if (moved < 0) return lost("receiving from", peer);
        if (moved == 0 && !ts_socket_wait(fd, POLLIN, deadline))
            return late("receiving from", peer, deadline, done, size);
        done += (size_t)moved;
    }
    return TS_OK;
}

ts_status ts_socket_accept(int *out, int listener, ts_deadline deadline)
{
    char text[TS_ADDRESS_TEXT];
    for (;;) {
        *out = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (*out >= 0) return ts_tcp_tune(*out), TS_OK;
        bool again = would_block(errno) || errno == EINTR || errno == ECONNABORTED;
        if (!again)
            return ts_fail(TS_ENETWORK, "accepting a connection on %s: %s",
                           ts_socket_local_text(listener, text), strerror(errno));
        if (!ts_socket_wait(listener, POLLIN, deadline))
            return ts_fail(TS_ETIMEOUT, "no connection to %s within %lld ms",
                           ts_socket_local_text(listener, text), (long long)deadline.timeout_ms);
    }
}

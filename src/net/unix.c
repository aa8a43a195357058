/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "net/socket.h"

static ts_status make_address(struct sockaddr_un *address, socklen_t *length, const char *name)
{
    size_t size = strlen(name);
    if (size == 0 || size >= sizeof address->sun_path)
        return ts_fail(TS_EINVAL, "socket name '%s' has %zu characters, not 1 .. %zu", name, size,
                       sizeof address->sun_path - 1);
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path + 1, name, size);
    *length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + size);
    return TS_OK;
}

static ts_status new_socket(int *out)
{
    *out = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*out < 0) return ts_fail(TS_ENETWORK, "cannot make a UNIX socket: %s", strerror(errno));
    return TS_OK;
}

ts_status ts_unix_listen(int *out, const char *name)
{
    struct sockaddr_un address;
    socklen_t length;
    TS_TRY(make_address(&address, &length, name));
    TS_TRY(new_socket(out));
    if (bind(*out, (struct sockaddr *)&address, length) == 0 && listen(*out, SOMAXCONN) == 0)
        return TS_OK;
    ts_socket_close(*out);
    *out = -1;
    return ts_fail(TS_ENETWORK, "cannot listen on @%s: %s", name, strerror(errno));
}

ts_status ts_unix_connect(int *out, const char *name, ts_deadline deadline)
{
    struct sockaddr_un address;
    socklen_t length;
    TS_TRY(make_address(&address, &length, name));
    TS_TRY(new_socket(out));
    for (int attempt = 1;; attempt++) { /* EAGAIN: the listener's queue is full */
        if (connect(*out, (struct sockaddr *)&address, length) == 0) return TS_OK;
        if (errno == EINTR) continue;
        if (ts_deadline_passed(deadline)) break;
        ts_backoff(attempt, deadline);
    }
    ts_socket_close(*out);
    *out = -1;
    return ts_fail(TS_ENETWORK, "cannot connect to @%s within %lld ms: %s", name,
                   (long long)deadline.timeout_ms, strerror(errno));
}

int ts_unix_peer(int fd, pid_t *pid, uid_t *uid)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return 0;
    *pid = peer.pid;
    *uid = peer.uid;
    return 1;
}

/* Room for one descriptor, aligned as the macros need it. */
typedef union fd_room {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
} fd_room;

static void attach(struct msghdr *message, fd_room *room, int passed)
{
    message->msg_control = room->bytes;
    message->msg_controllen = sizeof room->bytes;
    struct cmsghdr *c = CMSG_FIRSTHDR(message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof passed);
    memcpy(CMSG_DATA(c), &passed, sizeof passed);
}

/* The descriptor travels with the first bytes that go; the rest follows plainly. */
ts_status ts_unix_send_fd(int fd, const void *data, size_t size, int passed, ts_deadline deadline)
{
    char peer[TS_ADDRESS_TEXT];
    fd_room room = {.bytes = {0}};
    struct iovec piece = {(void *)(uintptr_t)data, size};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    if (passed >= 0) attach(&message, &room, passed);
    for (;;) {
        ssize_t moved = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (moved > 0)
            return ts_send_all(fd, (const char *)data + moved, size - (size_t)moved,
                               ts_socket_peer_text(fd, peer), deadline);
        if (errno == EINTR) continue;
        if (errno != EAGAIN)
            return ts_fail(TS_ENETWORK, "passing a descriptor to %s: %s",
                           ts_socket_peer_text(fd, peer), strerror(errno));
        if (!ts_socket_wait(fd, POLLOUT, deadline))
            return ts_fail(TS_ETIMEOUT, "passing a descriptor to %s: not possible within %lld ms",
                           ts_socket_peer_text(fd, peer), (long long)deadline.timeout_ms);
    }
}

static int take_fd(struct msghdr *message)
{
    int passed = -1;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
            memcpy(&passed, CMSG_DATA(c), sizeof passed);
    return passed;
}

static ts_status recv_rest(int fd, char *data, size_t size, int *passed, ts_deadline deadline)
{
    char peer[TS_ADDRESS_TEXT];
    ts_status status = ts_recv_all(fd, data, size, ts_socket_peer_text(fd, peer), deadline);
    if (status == TS_OK) return TS_OK;
    ts_socket_close(*passed);
    *passed = -1;
    return status;
}

ts_status ts_unix_recv_fd(int fd, void *data, size_t size, int *passed, ts_deadline deadline)
{
    char peer[TS_ADDRESS_TEXT];
    fd_room room = {.bytes = {0}};
    struct iovec piece = {data, size};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    *passed = -1;
    for (;;) {
        message.msg_control = room.bytes;
        message.msg_controllen = sizeof room.bytes;
        ssize_t moved = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (moved > 0) {
            *passed = take_fd(&message);
            return recv_rest(fd, (char *)data + moved, size - (size_t)moved, passed, deadline);
        }
        if (moved < 0 && errno == EINTR) continue;
        if (moved == 0 || errno != EAGAIN)
            return ts_fail(TS_ENETWORK, "receiving a descriptor from %s: %s",
                           ts_socket_peer_text(fd, peer),
                           moved == 0 ? "connection closed" : strerror(errno));
        if (!ts_socket_wait(fd, POLLIN, deadline))
            return ts_fail(TS_ETIMEOUT, "receiving a descriptor from %s: nothing within %lld ms",
                           ts_socket_peer_text(fd, peer), (long long)deadline.timeout_ms);
    }
}

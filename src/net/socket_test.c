/* SPDX-License-Identifier: Apache-2.0 */
#include "net/socket.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "test.h"

static double since(int64_t start) { return (double)(ts_now_ns() - start) * 1e-9; }

TS_TEST(tcp_transfer_in_both_directions)
{
    int listener, a, b;
    ts_deadline deadline = ts_deadline_in(5000);
    TS_PASS(ts_tcp_listen(&listener, NULL, 0));
    int port = ts_socket_port(listener);
    TS_EXPECT(port > 0);
    TS_PASS(ts_tcp_connect(&a, "127.0.0.1", port, deadline));
    TS_PASS(ts_socket_accept(&b, listener, deadline));
    TS_EXPECT(fcntl(a, F_GETFD) & FD_CLOEXEC);
    TS_EXPECT(fcntl(b, F_GETFD) & FD_CLOEXEC);
    TS_EXPECT(fcntl(b, F_GETFL) & O_NONBLOCK);
    char text[TS_ADDRESS_TEXT], expected[64], got[8];
    snprintf(expected, sizeof expected, "127.0.0.1:%d", port);
    TS_EXPECT_STR(ts_socket_peer_text(a, text), expected);
    TS_EXPECT_STR(ts_socket_local_text(b, text), expected); /* mapped into IPv6, shown as IPv4 */
    TS_PASS(ts_send_all(a, "abcdefg", 8, "b", deadline));
    TS_PASS(ts_recv_all(b, got, 8, "a", deadline));
    TS_EXPECT_STR(got, "abcdefg");
    int64_t start = ts_now_ns();
    TS_FAIL(ts_recv_all(a, got, 8, "peer b", ts_deadline_in(30)), TS_ETIMEOUT,
            "peer b: 0 of 8 bytes after 30 ms");
    TS_EXPECT(since(start) >= 0.03);
    close(b);
    TS_FAIL(ts_recv_all(a, got, 8, "peer b", deadline), TS_ENETWORK,
            "peer b has closed the connection");
    ts_send_all(a, got, 8, "b", deadline);
    ts_socket_wait(a, POLLIN, ts_deadline_in(10));
    TS_EXPECT(ts_send_all(a, got, 8, "b", deadline) == TS_ENETWORK); /* and no signal */
    close(a);
    close(listener);
}

TS_TEST(tcp_ipv6_loopback)
{
    int listener, a, b;
    ts_deadline deadline = ts_deadline_in(5000);
    if (ts_tcp_listen(&listener, "::1", 0) != TS_OK)
        ts_test_skip(test, "no IPv6: %s", ts_error_last());
    TS_PASS(ts_tcp_connect(&a, "::1", ts_socket_port(listener), deadline));
    TS_PASS(ts_socket_accept(&b, listener, deadline));
    char text[TS_ADDRESS_TEXT];
    TS_EXPECT_TEXT(ts_socket_peer_text(b, text), "[::1]:");
}

TS_TEST(tcp_connect_names_host_port_and_cause)
{
    int listener, fd;
    TS_PASS(ts_tcp_listen(&listener, "127.0.0.1", 0));
    int port = ts_socket_port(listener);
    char port_text[32];
    snprintf(port_text, sizeof port_text, "port %d", port);
    TS_FAIL(ts_tcp_listen(&fd, "127.0.0.1", port), TS_ENETWORK, "127.0.0.1");
    TS_EXPECT_TEXT(ts_error_last(), port_text);
    TS_EXPECT_TEXT(ts_error_last(), "Address already in use");
    close(listener);
    int64_t start = ts_now_ns();
    TS_FAIL(ts_tcp_connect(&fd, "127.0.0.1", port, ts_deadline_in(200)), TS_ENETWORK,
            "'127.0.0.1'");
    TS_EXPECT_TEXT(ts_error_last(), port_text);
    TS_EXPECT_TEXT(ts_error_last(), "refused");
    TS_EXPECT_TEXT(ts_error_last(), "attempts");
    TS_EXPECT(since(start) >= 0.2 && since(start) < 1.5);
    TS_FAIL(ts_tcp_connect(&fd, "127.0.0.1", 0, ts_deadline_in(200)), TS_EINVAL, "port 0");
    TS_FAIL(ts_tcp_connect(&fd, "no-such-host.invalid", 80, ts_deadline_in(200)), TS_ENETWORK,
            "'no-such-host.invalid' does not resolve");
}

static void *listen_later(void *port)
{
    static int listener;
    usleep(100000);
    return ts_tcp_listen(&listener, "127.0.0.1", *(int *)port) == TS_OK ? port : NULL;
}

TS_TEST(tcp_connect_waits_for_a_late_listener)
{
    int listener, fd;
    pthread_t thread;
    void *ok;
    TS_PASS(ts_tcp_listen(&listener, "127.0.0.1", 0));
    int port = ts_socket_port(listener);
    close(listener);
    pthread_create(&thread, NULL, listen_later, &port);
    int64_t start = ts_now_ns();
    TS_PASS(ts_tcp_connect(&fd, "127.0.0.1", port, ts_deadline_in(5000)));
    TS_EXPECT(since(start) >= 0.09 && since(start) < 1.0);
    pthread_join(thread, &ok);
    TS_EXPECT(ok);
}

TS_TEST(unix_socket_passes_a_descriptor)
{
    int listener, a, b, passed, pipe_fd[2];
    char name[64], got[6] = "";
    pid_t pid;
    uid_t uid;
    ts_deadline deadline = ts_deadline_in(5000);
    snprintf(name, sizeof name, "tessera-test-%d", (int)getpid());
    TS_PASS(ts_unix_listen(&listener, name));
    TS_FAIL(ts_unix_listen(&a, name), TS_ENETWORK, name);
    TS_PASS(ts_unix_connect(&a, name, deadline));
    TS_PASS(ts_socket_accept(&b, listener, deadline));
    TS_EXPECT(ts_unix_peer(a, &pid, &uid));
    TS_EXPECT_INT(pid, getpid());
    TS_EXPECT_INT(uid, getuid());
    TS_EXPECT_INT(pipe(pipe_fd), 0);
    TS_PASS(ts_unix_send_fd(a, "hello", 6, pipe_fd[1], deadline));
    TS_PASS(ts_unix_recv_fd(b, got, 6, &passed, deadline));
    TS_EXPECT_STR(got, "hello");
    TS_EXPECT(passed >= 0 && passed != pipe_fd[1]);
    TS_EXPECT(fcntl(passed, F_GETFD) & FD_CLOEXEC);
    TS_EXPECT_INT(write(passed, "x", 1), 1);
    TS_EXPECT_INT(read(pipe_fd[0], got, 1), 1);
    TS_PASS(ts_unix_send_fd(b, "hello", 6, -1, deadline));
    TS_PASS(ts_unix_recv_fd(a, got, 6, &passed, deadline));
    TS_EXPECT_INT(passed, -1);
    TS_FAIL(ts_unix_recv_fd(a, got, 6, &passed, ts_deadline_in(20)), TS_ETIMEOUT, "20 ms");
    close(b);
    TS_FAIL(ts_unix_recv_fd(a, got, 6, &passed, deadline), TS_ENETWORK, "closed");
    close(listener);
    TS_FAIL(ts_unix_connect(&b, name, ts_deadline_in(20)), TS_ENETWORK, name);
}

TS_TEST(own_address_is_found)
{
    char text[TS_ADDRESS_TEXT];
    TS_PASS(ts_own_address(text, "127.0.0.1"));
    TS_EXPECT_STR(text, "127.0.0.1");
    TS_FAIL(ts_own_address(text, "no such host"), TS_ENETWORK, "'no such host'");
}

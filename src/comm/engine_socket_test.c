/* SPDX-License-Identifier: Apache-2.0 */
/* Several connections between two ranks, several interfaces, both families of addresses. */
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/bootstrap.h"
#include "comm/engine_test.h"
#include "net/interface.h"
#include "net/socket.h"

static int64_t bytes_sent(int fd)
{
    struct tcp_info info = {0};
    socklen_t length = sizeof info;
    getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length);
    return (int64_t)info.tcpi_bytes_sent;
}

/* Ranks are threads: returns when all have come.  Until then none leaves. */
static void meet(const peer_rank *me)
{
    static _Atomic int came;
    int ticket = came++, all = (ticket / me->size + 1) * me->size;
    for (int i = 0; i < 20000 && came < all; i++) usleep(500);
}

static int descriptor(peer_rank *me, int peer, int socket)
{
    ts_engine_lock(me->engine);
    int fd = ts_link_socket(me->engine->link[peer], socket)->fd;
    ts_engine_unlock(me->engine);
    return fd;
}

/* ---- pieces over several connections --------------------------------------------------------- */

/* Odd lengths in both directions at once, short messages between them; order per tag holds. */
static void striped(peer_rank *me)
{
    enum { N = 6 };
    static const size_t bytes[N] = {65537, 262145, 1, 1048577, 5 * 262144 - 1, 3000001};
    int other = 1 - me->rank;
    ts_message *m[2 * N];
    char *out[N], *in[N];
    for (int i = 0; i < N; i++) {
        out[i] = filled(bytes[i], 10 * me->rank + i);
        in[i] = filled(bytes[i], 99);
        ME_PASS(ts_port_send(&m[i], ts_engine_port(me->engine), other, TS_CHANNEL_USER, 3, out[i],
                             bytes[i], NULL, NULL));
    }
    for (int i = 0; i < N; i++)
        ME_PASS(ts_port_recv(&m[N + i], ts_engine_port(me->engine), other, TS_CHANNEL_USER, 3,
                             in[i], bytes[i], NULL, NULL));
    for (int i = 2 * N - 1; i >= 0; i--) ME_PASS(ts_message_wait(m[i], soon(), NULL));
    for (int i = 0; i < N; i++) {
        char *expected = filled(bytes[i], 10 * other + i);
        ME_EXPECT(memcmp(in[i], expected, bytes[i]) == 0);
        free(expected);
        free(out[i]);
        free(in[i]);
    }
}

static void striped_over_all(peer_rank *me)
{
    striped(me);
    ts_link *trunk = me->engine->link[1 - me->rank];
    int used = 0;
    meet(me);
    for (int i = 0; i < 4; i++) used += bytes_sent(descriptor(me, 1 - me->rank, i)) > 100000;
    meet(me);
    ME_EXPECT(used == 4 && !ts_link_socket(trunk, 4));
}

static void striped_in_small_bites(peer_rank *me)
{
    int smallest = 1, few = 16384; /* less than a packet of loopback makes TCP crawl */
    ts_link *link, *trunk = me->engine->link[1 - me->rank];
    for (int i = 0; (link = ts_link_socket(trunk, i)); i++) {
        setsockopt(link->fd, SOL_SOCKET, SO_SNDBUF, &smallest, sizeof smallest);
        setsockopt(link->fd, SOL_SOCKET, SO_RCVBUF, &few, sizeof few);
    }
    striped(me);
}

TS_TEST(engine_pieces_go_over_all_sockets)
{
    ts_test_in_the_clear();
    setenv("TESSERA_SOCKETS_PER_PEER", "4", 1);
    run_hosts(test, 2, 2, striped_over_all);
}

TS_TEST(engine_pieces_with_small_socket_buffers)
{
    setenv("TESSERA_SOCKETS_PER_PEER", "3", 1);
    run_hosts(test, 2, 2, striped_in_small_bites);
}

/* What was sent before the goodbye arrives, whatever connection it is on. */
static void leaves_after_sending(peer_rank *me)
{
    enum { BYTES = 3000000 };
    char *buf = filled(BYTES, 0);
    if (me->rank == 0) {
        ME_PASS(send_now(me, 1, 1, buf, BYTES));
    } else {
        char *expected = filled(BYTES, 0);
        memset(buf, 0, BYTES);
        ME_PASS(recv_now(me, 0, 1, buf, BYTES));
        ME_EXPECT(memcmp(buf, expected, BYTES) == 0);
        ME_FAIL(recv_now(me, 0, 1, buf, 1), TS_ENETWORK, "has left the group");
        free(expected);
    }
    free(buf);
}

TS_TEST(engine_pieces_sent_before_the_goodbye)
{
    setenv("TESSERA_SOCKETS_PER_PEER", "5", 1);
    run_hosts(test, 2, 2, leaves_after_sending);
}

static void one_socket_breaks(peer_rank *me)
{
    char byte;
    ME_PASS(send_now(me, 1 - me->rank, 1, NULL, 0));
    ME_PASS(recv_now(me, 1 - me->rank, 1, NULL, 0));
    if (me->rank == 0) shutdown(descriptor(me, 1, 2), SHUT_RDWR);
    ME_FAIL(recv_now(me, 1 - me->rank, 2, &byte, 1), TS_ENETWORK, "is gone: ");
    ME_EXPECT(strstr(ts_error_last(), me->rank ? "rank 0 (pid" : "rank 1 (pid"));
    ME_FAIL(send_now(me, 1 - me->rank, 2, &byte, 1), TS_ENETWORK, "is gone: ");
    for (int i = 0; i < 1000 && !me->lost; i++) usleep(1000);
    ME_EXPECT(me->lost == 1 && !me->graceful);
}

TS_TEST(engine_loss_of_one_socket_is_loss_of_the_peer)
{
    setenv("TESSERA_SOCKETS_PER_PEER", "3", 1);
    run_hosts(test, 2, 2, one_socket_breaks);
}

/* The reason of an abort comes on the first connection, the end of the others may come before. */
static void aborts_and_goes(peer_rank *me)
{
    char byte;
    ME_PASS(send_now(me, 1 - me->rank, 1, NULL, 0));
    ME_PASS(recv_now(me, 1 - me->rank, 1, NULL, 0));
    if (me->rank == 0) {
        ts_port_abort(ts_engine_port(me->engine), TS_EABORTED, "enough of this");
        for (int i = 1; i < 4; i++) shutdown(descriptor(me, 1, i), SHUT_WR);
    } else {
        ME_FAIL(recv_now(me, 0, 2, &byte, 1), TS_EREMOTE, "aborted: enough of this");
    }
}

TS_TEST(engine_abort_over_several_sockets)
{
    setenv("TESSERA_SOCKETS_PER_PEER", "4", 1);
    run_hosts(test, 2, 2, aborts_and_goes);
}

/* ---- settings that ranks must share, or that cannot be ---------------------------------------- */

static void sockets_differ(peer_rank *me)
{
    setenv("TESSERA_SOCKETS_PER_PEER", me->rank == 2 ? "2" : "1", 1);
    ME_FAIL(make_engine(me, me->rank, 3, 20000), TS_EMISMATCH, "sockets per peer");
    ME_EXPECT(strstr(ts_error_last(), "rank 2 (pid") &&
              strstr(ts_error_last(), "TESSERA_SOCKETS_PER_PEER"));
}

TS_TEST(engine_numbers_of_sockets_that_differ, .timeout_s = 10)
{
    run_bare_processes(test, 3, sockets_differ);
}

static void unusable(peer_rank *me)
{
    static const char *const setting[][3] = {
        {"TESSERA_SOCKETS_PER_PEER", "9", "TESSERA_SOCKETS_PER_PEER is '9'"},
        {"TESSERA_LAZY_CONNECT", "maybe", "TESSERA_LAZY_CONNECT is 'maybe'"},
        {"TORCH_GLOO_LAZY_INIT", "2", "TORCH_GLOO_LAZY_INIT is '2'"},
        {"TESSERA_SOCKET_FAMILY", "ipx", "TESSERA_SOCKET_FAMILY is 'ipx'"},
        {"TESSERA_SOCKET_IFNAME", "=l", "TESSERA_SOCKET_IFNAME: network interface 'l'"},
        {"GLOO_SOCKET_IFNAME", "l", "GLOO_SOCKET_IFNAME: network interface 'l'"}};
    for (int i = 0; i < (int)(sizeof setting / sizeof *setting); i++) {
        ts_store *store;
        ME_PASS(ts_hash_store_new(&store));
        ts_store *kept = me->store;
        me->store = store;
        setenv(setting[i][0], setting[i][1], 1);
        ts_status status = make_engine(me, 0, 2, 2000);
        unsetenv(setting[i][0]);
        ME_EXPECT(status == TS_EINVAL || status == TS_ENETWORK);
        ME_EXPECT(strstr(ts_error_last(), setting[i][2]));
        me->store = kept;
        ts_store_free(store);
    }
}

TS_TEST(engine_settings_that_cannot_be_name_their_variable) { run_bare_threads(test, 1, unusable); }

/* ---- interfaces ------------------------------------------------------------------------------ */

static void talk(peer_rank *me)
{
    for (int peer = 0; peer < me->size; peer++) {
        int value = me->rank;
        if (peer == me->rank) continue;
        ts_message *m;
        ME_PASS(ts_port_send(&m, ts_engine_port(me->engine), peer, TS_CHANNEL_USER, 1, &value,
                             sizeof value, NULL, NULL));
        ME_PASS(recv_now(me, peer, 1, &value, sizeof value));
        ME_PASS(ts_message_wait(m, soon(), NULL));
        ME_EXPECT(value == peer);
    }
}

/* Of the two connections of a pair each goes over another interface. */
static void over_both(peer_rank *me)
{
    int one_each = 0;
    talk(me);
    meet(me);
    for (int peer = 0; peer < me->size; peer++) {
        char a[TS_ADDRESS_TEXT], b[TS_ADDRESS_TEXT];
        ts_link *trunk = me->engine->link[peer];
        if (peer == me->rank) continue;
        ts_socket_local_text(descriptor(me, peer, 0), a);
        ts_socket_local_text(descriptor(me, peer, 1), b);
        bool first = strncmp(a, "127.0.0.1:", 10) == 0, second = strncmp(b, "127.0.0.1:", 10) == 0;
        one_each += first != second && !trunk->branch[1];
    }
    meet(me);
    ME_EXPECT(one_each == me->size - 1);
}

static void name_two(ts_test *test, char *out, size_t size)
{
    static ts_interface list[TS_INTERFACES_SEEN];
    int n = 0;
    ts_interfaces_list(list, &n, AF_INET);
    for (int i = 0; i < n; i++) {
        if (list[i].loopback) continue;
        snprintf(out, size, "=lo,=%s", list[i].name);
        return;
    }
    ts_test_skip(test, "this host has no second network interface");
}

TS_TEST(engine_over_two_interfaces)
{
    char list[64];
    ts_test_in_the_clear();
    name_two(test, list, sizeof list);
    setenv("TESSERA_SOCKET_IFNAME", list, 1);
    run_hosts(test, 3, 3, over_both);
}

static void interfaces_differ(peer_rank *me)
{
    if (me->rank == 1) setenv("TESSERA_SOCKET_IFNAME", "lo", 1);
    ME_FAIL(make_engine(me, me->rank, 3, 20000), TS_EMISMATCH, "network interfaces");
    ME_EXPECT(strstr(ts_error_last(), "rank 1 (pid") &&
              strstr(ts_error_last(), "set TESSERA_SOCKET_IFNAME alike"));
}

TS_TEST(engine_numbers_of_interfaces_that_differ, .timeout_s = 10)
{
    char list[64];
    name_two(test, list, sizeof list);
    setenv("GLOO_SOCKET_IFNAME", "lo", 1); /* goes unread */
    setenv("TESSERA_SOCKET_IFNAME", list, 1);
    run_bare_processes(test, 3, interfaces_differ);
}

static void over_ipv6(peer_rank *me)
{
    char text[TS_ADDRESS_TEXT];
    int peer = (me->rank + 1) % me->size;
    talk(me);
    if (me->rank < 2) striped(me);
    meet(me);
    ts_socket_peer_text(descriptor(me, peer, 0), text);
    meet(me);
    ME_EXPECT(strncmp(text, "[::1]:", 6) == 0);
}

TS_TEST(engine_over_ipv6)
{
    int fd;
    ts_test_in_the_clear();
    if (ts_tcp_listen(&fd, "::1", 0) != TS_OK) ts_test_skip(test, "this host has no IPv6");
    close(fd);
    setenv("TESSERA_SOCKET_IFNAME", "lo", 1);
    setenv("TESSERA_SOCKET_FAMILY", "ipv6", 1);
    setenv("TESSERA_SOCKETS_PER_PEER", "2", 1);
    run_hosts(test, 3, 3, over_ipv6);
}

/* ---- without a list -------------------------------------------------------------------------- */

TS_TEST(engine_address_without_a_list)
{
    ts_interface list[TS_INTERFACES_MAX], there[TS_INTERFACES_SEEN];
    int n = 0, count = 0;
    setenv("MASTER_ADDR", "127.0.0.1", 1); /* all ranks are on this host */
    TS_PASS(ts_host_interfaces(list, &n));
    TS_EXPECT(n == 1 && list[0].loopback && !list[0].name[0]);
    TS_EXPECT_STR(list[0].address, "127.0.0.1");
    setenv("TESSERA_SOCKET_FAMILY", "ipv6", 1);
    TS_PASS(ts_host_interfaces(list, &n));
    TS_EXPECT_STR(list[0].address, "::1");
    unsetenv("TESSERA_SOCKET_FAMILY");
    TS_PASS(ts_interfaces_list(there, &count, AF_INET));
    for (int i = 0; i < count; i++) {
        if (there[i].loopback) continue;
        setenv("MASTER_ADDR", there[i].address, 1); /* this host has an address of that network */
        TS_PASS(ts_host_interfaces(list, &n));
        TS_EXPECT(n == 1 && !list[0].loopback && !ts_address_is_loopback(list[0].address));
    }
}

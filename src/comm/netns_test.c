/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks in network namespaces of their own: hosts that can reach each other by their bridge only.
 * Needs root, ip and tc; what it makes is named after the process and removed in any case. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/engine_impl.h"
#include "comm/engine_test.h"
#include "net/interface.h"
#include "net/socket.h"

enum { HOSTS = 3 };

typedef struct lab {
    int id;
    bool v6;
    const char *limit; /* of each interface, for tc; NULL: none */
} lab;

static lab the_lab; /* the child that runs the ranks has its own */

static bool sh(const char *format, ...) TS_PRINTF(1, 2);
static bool sh(const char *format, ...)
{
    char command[400];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(command, sizeof command, format, args);
    va_end(args);
    snprintf(command + n, sizeof command - (size_t)n, " >/dev/null 2>&1");
    return system(command) == 0;
}

static void tear_down(const lab *l)
{
    for (int i = 0; i < HOSTS; i++) sh("ip netns del ts%d-%d", l->id, i);
    sh("ip netns del ts%d-br", l->id);
}

static bool add_host(const lab *l, int i)
{
    char ns[32], name[16];
    snprintf(ns, sizeof ns, "ts%d-%d", l->id, i);
    snprintf(name, sizeof name, "port%d", i);
    bool ok = sh("ip netns add %s", ns) && sh("ip -n %s link set lo up", ns) &&
              sh("ip -n %s link add ts0 type veth peer name %s netns ts%d-br", ns, name, l->id) &&
              sh("ip -n ts%d-br link set %s master br0 up", l->id, name);
    if (l->v6)
        ok = ok && sh("ip -n %s addr add fd77::%d/64 dev ts0 nodad", ns, i + 1);
    else
        ok = ok && sh("ip -n %s addr add 10.77.0.%d/24 dev ts0", ns, i + 1);
    /* an address of the link is of use at once, not after a second of looking for duplicates */
    sh("ip netns exec %s sh -c 'echo 0 > /proc/sys/net/ipv6/conf/ts0/accept_dad'", ns);
    ok = ok && sh("ip -n %s link set ts0 up", ns);
    if (l->limit) ok = ok && sh("ip netns exec %s tc qdisc add dev ts0 root tbf %s", ns, l->limit);
    return ok;
}

static bool set_up(const lab *l)
{
    bool ok = sh("ip netns add ts%d-br", l->id) &&
              sh("ip -n ts%d-br link add br0 type bridge", l->id) &&
              sh("ip -n ts%d-br link set br0 up", l->id);
    for (int i = 0; i < HOSTS && ok; i++) ok = add_host(l, i);
    return ok;
}

static bool enter(int host)
{
    char path[64];
    snprintf(path, sizeof path, "/run/netns/ts%d-%d", the_lab.id, host);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool ok = fd >= 0 && setns(fd, CLONE_NEWNET) == 0;
    if (fd >= 0) close(fd);
    return ok;
}

/* The store of the ranks is a file: the namespaces have no other way to each other's loopback. */
static void rank_main(ts_test *test, int rank, rank_body body)
{
    char path[300];
    peer_rank me = {.test = test, .rank = rank, .size = HOSTS, .heap_fd = -1, .lost_peer = -1};
    snprintf(path, sizeof path, "%s/store", test->dir);
    if (!enter(rank) || ts_file_store_new(&me.store, path, HOSTS) != TS_OK) {
        me_failed(&me, __FILE__, __LINE__, "a rank in a namespace", ts_error_last());
        _exit(1);
    }
    if (make_engine(&me, rank, HOSTS, 15000) == TS_OK) {
        body(&me);
        ts_engine_free(me.engine);
    } else {
        me_failed(&me, __FILE__, __LINE__, "make_engine", ts_error_last());
    }
    fflush(NULL);
    _exit(me.failures ? 1 : 0);
}

/* The test's own process stays outside and removes the namespaces. */
static void run_in_namespaces(ts_test *test, lab what, rank_body body)
{
    pid_t pid[HOSTS];
    int status;
    the_lab = what;
    the_lab.id = (int)getpid();
    if (!set_up(&the_lab)) {
        tear_down(&the_lab);
        ts_test_skip(test, "network namespaces cannot be made here (root, ip and tc are needed)");
    }
    for (int i = 0; i < HOSTS; i++)
        if ((pid[i] = fork()) == 0) {
            alarm(20); /* the namespaces are removed before the harness' limit */
            rank_main(test, i, body);
        }
    for (int i = 0; i < HOSTS; i++) {
        waitpid(pid[i], &status, 0);
        if (WIFSIGNALED(status) ? WTERMSIG(status) != SIGKILL : WEXITSTATUS(status) != 0)
            ts_test_fail(test, __FILE__, __LINE__, "rank %d ended with %d", i, status);
    }
    tear_down(&the_lab);
}

/* ---- bodies ---------------------------------------------------------------------------------- */

static void exchange(peer_rank *me)
{
    enum { LONG = 2000001 };
    char *out = filled(LONG, me->rank), *in = filled(LONG, 99);
    for (int peer = 0; peer < me->size; peer++) {
        size_t bytes = peer + me->rank == 2 ? LONG : 1000;
        if (peer == me->rank) continue;
        ts_message *m;
        ME_EXPECT(!ts_port_same_host(ts_engine_port(me->engine), peer));
        ME_PASS(ts_port_send(&m, ts_engine_port(me->engine), peer, TS_CHANNEL_USER, 1, out, bytes,
                             NULL, NULL));
        ME_PASS(recv_now(me, peer, 1, in, bytes));
        ME_PASS(ts_message_wait(m, soon(), NULL));
        char *expected = filled(bytes, peer);
        ME_EXPECT(memcmp(in, expected, bytes) == 0);
        free(expected);
    }
    free(out);
    free(in);
}

/* Until all have come: whoever leaves closes its connections. */
static void expect_address(peer_rank *me, const char *prefix)
{
    char text[TS_ADDRESS_TEXT];
    int peer = (me->rank + 1) % me->size;
    exchange(me);
    ts_socket_local_text(me->engine->link[peer]->fd, text);
    for (int i = 0; i < me->size; i++)
        if (i != me->rank) ME_PASS(send_now(me, i, 5, NULL, 0));
    for (int i = 0; i < me->size; i++)
        if (i != me->rank) ME_PASS(recv_now(me, i, 5, NULL, 0));
    if (strncmp(text, prefix, strlen(prefix)) != 0) me_failed(me, __FILE__, __LINE__, prefix, text);
}

static void over_ipv4(peer_rank *me) { expect_address(me, "10.77.0."); }
static void over_ipv6(peer_rank *me) { expect_address(me, "[fd77::"); }
static void over_link_local(peer_rank *me) { expect_address(me, "[fe80::"); }

static void one_is_killed(peer_rank *me)
{
    char byte;
    exchange(me);
    if (me->rank == 1) raise(SIGKILL);
    ME_FAIL(recv_now(me, 1, 7, &byte, 1), TS_ENETWORK, "rank 1 (pid");
    ME_PASS(send_now(me, 2 - me->rank, 8, &byte, 1));
    ME_PASS(recv_now(me, 2 - me->rank, 8, &byte, 1));
}

/* ---- tests ----------------------------------------------------------------------------------- */

TS_TEST(netns_ranks_over_ipv4, .skip_unless = "ip")
{
    ts_test_in_the_clear();
    setenv("TESSERA_SOCKET_IFNAME", "ts", 1);
    run_in_namespaces(test, (lab){0}, over_ipv4);
}

TS_TEST(netns_ranks_over_ipv6_only, .skip_unless = "ip")
{
    ts_test_in_the_clear();
    setenv("TESSERA_SOCKET_IFNAME", "^lo", 1);
    setenv("TESSERA_SOCKETS_PER_PEER", "2", 1);
    run_in_namespaces(test, (lab){.v6 = true}, over_ipv6);
}

/* Without addresses of their own the interfaces still have those of their link. */
TS_TEST(netns_ranks_over_link_local_addresses, .skip_unless = "ip")
{
    ts_test_in_the_clear();
    setenv("TESSERA_SOCKET_IFNAME", "ts0", 1);
    setenv("TESSERA_SOCKET_FAMILY", "ipv6", 1);
    run_in_namespaces(test, (lab){0}, over_link_local);
}

TS_TEST(netns_ranks_connect_late, .skip_unless = "ip")
{
    ts_test_in_the_clear();
    setenv("TESSERA_SOCKET_IFNAME", "ts0", 1);
    setenv("TESSERA_LAZY_CONNECT", "1", 1);
    run_in_namespaces(test, (lab){0}, over_ipv4);
}

TS_TEST(netns_killed_rank, .skip_unless = "ip")
{
    setenv("GLOO_SOCKET_IFNAME", "ts0", 1);
    run_in_namespaces(test, (lab){0}, one_is_killed);
}

TS_TEST(netns_slow_network, .skip_unless = "tc")
{
    setenv("TESSERA_SOCKET_IFNAME", "ts0", 1);
    run_in_namespaces(test, (lab){.limit = "rate 200mbit burst 64kb latency 50ms"}, exchange);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that are made when two ranks first talk. */
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "comm/engine_impl.h"
#include "comm/engine_test.h"
#include "net/socket.h"

static int connections(const peer_rank *me)
{
    int n = 0;
    ts_engine_lock(me->engine);
    for (int peer = 0; peer < me->size; peer++) n += me->engine->link[peer]->fd >= 0;
    ts_engine_unlock(me->engine);
    return n;
}

/* Ranks are threads: returns when all have come.  Until then none leaves. */
static void meet(const peer_rank *me)
{
    static _Atomic int came;
    int ticket = came++, all = (ticket / me->size + 1) * me->size;
    for (int i = 0; i < 20000 && came < all; i++) usleep(500);
}

static void be_lazy(void) { setenv("TORCH_GLOO_LAZY_INIT", "yes", 1); }

/* ---- as many as are used --------------------------------------------------------------------- */

static void ring(peer_rank *me)
{
    int right = (me->rank + 1) % me->size, left = (me->rank + me->size - 1) % me->size;
    for (int i = 0; i < 3; i++) {
        int out = 10 * me->rank + i, in = -1;
        ts_message *m;
        ME_PASS(start_send(me, &m, right, 1, &out, sizeof out));
        ME_PASS(recv_now(me, left, 1, &in, sizeof in));
        ME_PASS(ts_message_wait(m, soon(), NULL));
        ME_EXPECT(in == 10 * left + i);
    }
    meet(me);
    int n = connections(me);
    meet(me);
    ME_EXPECT(n == 2);
}

TS_TEST(lazy_ring_makes_two_connections)
{
    be_lazy();
    run_hosts(test, 6, 6, ring);
}

/* All ranks begin with all at the same moment, from both sides. */
static void all_at_once(peer_rank *me)
{
    enum { N = 8, BYTES = 200000 };
    ts_message *m[2 * N];
    char *out[N], *in[N];
    for (int i = 0; i < me->size; i++) {
        int to = (me->rank + i) % me->size, from = (me->rank + me->size - i) % me->size;
        out[i] = filled(BYTES, 16 * me->rank + to);
        in[i] = filled(BYTES, 0);
        ME_PASS(start_send(me, &m[2 * i], to, 8, out[i], BYTES));
        ME_PASS(start_recv(me, &m[2 * i + 1], from, 8, in[i], BYTES));
    }
    for (int i = 0; i < 2 * me->size; i++) ME_PASS(ts_message_wait(m[i], soon(), NULL));
    for (int i = 0; i < me->size; i++) {
        int from = (me->rank + me->size - i) % me->size;
        char *expected = filled(BYTES, 16 * from + me->rank);
        ME_EXPECT(memcmp(expected, in[i], BYTES) == 0);
        free(expected);
        free(out[i]);
        free(in[i]);
    }
    meet(me);
    int n = connections(me);
    meet(me);
    ME_EXPECT(n == me->size - 1);
}

TS_TEST(lazy_connections_from_both_sides_at_once)
{
    be_lazy();
    for (int i = 0; i < 8; i++) run_hosts(test, 8, 8, all_at_once);
}

TS_TEST(lazy_connections_of_several_sockets_at_once)
{
    be_lazy();
    setenv("TESSERA_SOCKETS_PER_PEER", "3", 1);
    for (int i = 0; i < 5; i++) run_hosts(test, 6, 6, all_at_once);
}

/* Within a host links stand from the start. */
static void one_each(peer_rank *me)
{
    int peer = 3 - me->rank, value = me->rank;
    ME_PASS(send_now(me, peer, 1, &value, sizeof value));
    ME_PASS(recv_now(me, peer, 1, &value, sizeof value));
    meet(me);
    int n = connections(me);
    meet(me);
    ME_EXPECT(value == peer && n == 2);
}

TS_TEST(lazy_connections_are_between_hosts_only)
{
    be_lazy();
    run_hosts(test, 4, 2, one_each); /* 0 and 2, 1 and 3 */
}

/* ---- who begins does not matter -------------------------------------------------------------- */

static void patient_receiver(peer_rank *me)
{
    int value = 7;
    if (me->rank == 0) usleep(30000);
    if (me->rank == 0) ME_PASS(send_now(me, 1, 1, &value, sizeof value));
    if (me->rank == 1) ME_PASS(recv_now(me, TS_ENGINE_ANY, 1, &value, sizeof value));
    if (me->rank == 1) ME_PASS(send_now(me, 2, 2, &value, sizeof value));
    if (me->rank == 2) ME_PASS(recv_now(me, 1, 2, &value, sizeof value));
    ME_EXPECT(value == 7);
}

TS_TEST(lazy_receive_that_waits_for_its_sender)
{
    be_lazy();
    run_hosts(test, 3, 3, patient_receiver);
}

static void nobody_talks(peer_rank *me)
{
    int64_t began = ts_now_ns();
    ts_engine_free(me->engine);
    me->engine = NULL;
    ME_EXPECT(ts_now_ns() - began < 500000000);
}

TS_TEST(lazy_group_that_is_left_unused)
{
    be_lazy();
    run_hosts(test, 4, 4, nobody_talks);
}

/* ---- losses ---------------------------------------------------------------------------------- */

/* The process of rank peer has ended, and with it its sockets. */
static void await_end(peer_rank *me, int peer)
{
    int fd = (int)syscall(SYS_pidfd_open, me->engine->link[peer]->pid, 0);
    if (fd < 0) return; /* it is not even a zombie */
    ts_socket_wait(fd, POLLIN, soon());
    close(fd);
}

/* Rank peer has connected to this one, for it waits for a message. */
static void await_connection(peer_rank *me, int peer)
{
    bool there = false;
    for (ts_deadline until = soon(); !there && !ts_deadline_passed(until);) {
        ts_engine_lock(me->engine);
        there = me->engine->link[peer]->fd >= 0;
        ts_engine_unlock(me->engine);
        if (!there) usleep(500);
    }
}

static void dies_unheard(peer_rank *me)
{
    char byte, who[40] = "rank 1 (pid ";
    if (me->rank == 1) raise(SIGKILL);
    await_end(me, 1);
    if (me->rank == 0) ME_FAIL(recv_now(me, 1, 1, &byte, 1), TS_ENETWORK, who);
    if (me->rank == 2) ME_FAIL(send_now(me, 1, 1, &byte, 1), TS_ENETWORK, who);
    ME_EXPECT(strstr(ts_error_last(), "cannot be reached") || strstr(ts_error_last(), "is gone"));
    ME_FAIL(recv_now(me, TS_ENGINE_ANY, 2, &byte, 1), TS_ENETWORK, who);
    for (int i = 0; i < 1000 && !me->lost; i++) usleep(1000);
    ME_EXPECT(me->lost == 1 && me->lost_peer == 1 && !me->graceful);
    ME_PASS(send_now(me, 2 - me->rank, 4, &byte, 1));
    ME_PASS(recv_now(me, 2 - me->rank, 4, &byte, 1));
}

TS_TEST(lazy_peer_that_died_before_anybody_talked_to_it)
{
    be_lazy();
    run_processes(test, 3, 3, dies_unheard);
}

/* A receive from any rank waits for all, also for one that it has no connection to yet. */
static void any_source_loses(peer_rank *me)
{
    char byte;
    if (me->rank == 1) {
        await_connection(me, 0);
        await_connection(me, 2);
        raise(SIGKILL);
    }
    ME_FAIL(recv_now(me, TS_ENGINE_ANY, 2, &byte, 1), TS_ENETWORK, "rank 1 (pid ");
}

TS_TEST(lazy_receive_from_any_rank_learns_of_a_death)
{
    be_lazy();
    run_processes(test, 3, 3, any_source_loses);
}

/* Who waits for someone who waits for the dead learns it, as groups abort after a loss. */
static void chain(peer_rank *me)
{
    char byte;
    if (me->rank == 1) await_connection(me, 0);
    if (me->rank == 2) {
        await_connection(me, 1);
        raise(SIGKILL);
    }
    ts_status status = recv_now(me, me->rank + 1, 1, &byte, 1);
    if (me->rank == 1) {
        ME_EXPECT(status == TS_ENETWORK);
        ts_port_abort(ts_engine_port(me->engine), status, ts_error_last());
        ME_EXPECT(connections(me) <= 1); /* rank 0 may have left */
    } else {
        ME_EXPECT(status == TS_EREMOTE && connections(me) <= 1); /* to rank 1 at most */
        ME_EXPECT(strstr(ts_error_last(), "rank 2 (pid"));
    }
}

TS_TEST(lazy_death_is_passed_along_those_who_wait)
{
    be_lazy();
    run_processes(test, 3, 3, chain);
}

static void frozen(peer_rank *me)
{
    int pid = (int)getpid();
    char *buf = filled(1000000, 0);
    if (me->rank == 1) {
        ME_PASS(send_now(me, 0, 1, &pid, sizeof pid));
        usleep(20000);
        raise(SIGSTOP);
        return;
    }
    if (me->rank == 0) {
        ME_PASS(recv_now(me, 1, 1, &pid, sizeof pid));
        ME_PASS(send_now(me, 2, 1, &pid, sizeof pid));
    } else {
        ME_PASS(recv_now(me, 0, 1, &pid, sizeof pid));
    }
    usleep(100000);
    ME_FAIL(recv_now_within(me, 1, 3, buf, 1, 200), TS_ETIMEOUT, "rank 1 (pid ");
    ts_message *m;
    ME_PASS(start_send(me, &m, 1, 4, buf, 1000000));
    ME_FAIL(ts_message_wait(m, ts_deadline_in(200), NULL), TS_ETIMEOUT, "rank 1 (pid ");
    int64_t began = ts_now_ns();
    if (me->rank == 0) ME_PASS(recv_now(me, 2, 9, NULL, 0));
    if (me->rank == 2) ME_PASS(send_now(me, 0, 9, NULL, 0));
    ts_engine_free(me->engine);
    me->engine = NULL;
    ME_EXPECT(ts_now_ns() - began < INT64_C(3000000000));
    free(buf);
    if (me->rank == 0) kill(pid, SIGKILL);
}

TS_TEST(lazy_frozen_peer) /* rank 2 connects to it only then */
{
    be_lazy();
    run_processes(test, 3, 3, frozen);
}

static void laziness_differs(peer_rank *me)
{
    if (me->rank == 1) setenv("TESSERA_LAZY_CONNECT", "0", 1); /* wins over PyTorch's */
    ME_FAIL(make_engine(me, me->rank, 2, 20000), TS_EMISMATCH, "lazy connections");
    ME_EXPECT(strstr(ts_error_last(), "rank 1 (pid"));
}

TS_TEST(lazy_on_one_rank_only, .timeout_s = 10)
{
    be_lazy();
    run_bare_processes(test, 2, laziness_differs);
}

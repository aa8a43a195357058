/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks as processes: ends that no goodbye announces. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/bootstrap.h"
#include "comm/engine_test.h"

static int64_t ms_since(int64_t began_ns) { return (ts_now_ns() - began_ns) / 1000000; }

static void exchange(peer_rank *me)
{
    for (int i = 0; i < 50; i++)
        for (int peer = 0; peer < me->size; peer++) {
            int out = 100 * me->rank + i, in = -1;
            ts_message *m;
            ME_PASS(ts_port_send(&m, ts_engine_port(me->engine), peer, TS_CHANNEL_USER, 1, &out,
                                 sizeof out, NULL, NULL));
            ME_PASS(recv_now(me, peer, 1, &in, sizeof in));
            ME_PASS(ts_message_wait(m, soon(), NULL));
            ME_EXPECT(in == 100 * peer + i);
        }
}

TS_TEST(engine_processes) { run_processes(test, 3, 0, exchange); }
TS_TEST(engine_processes_on_two_hosts) { run_processes(test, 3, 2, exchange); }

/* ---- killed ---------------------------------------------------------------------------------- */

typedef struct last_words {
    int64_t when_ns;
    int pid, child;
} last_words;

static void say_last_words(peer_rank *me, int child)
{
    for (int peer = 0; peer < me->size; peer++)
        if (peer != me->rank) ME_PASS(recv_now(me, peer, 1, NULL, 0));
    last_words words = {ts_now_ns(), (int)getpid(), child};
    for (int peer = 0; peer < me->size; peer++)
        if (peer != me->rank) ME_PASS(send_now(me, peer, 1, &words, sizeof words));
}

static void expect_death(peer_rank *me)
{
    last_words words;
    ts_message *m, *any;
    char byte, who[64];
    ME_PASS(
        ts_port_recv(&m, ts_engine_port(me->engine), 1, TS_CHANNEL_USER, 2, &byte, 1, NULL, NULL));
    ME_PASS(ts_port_recv(&any, ts_engine_port(me->engine), TS_ENGINE_ANY, TS_CHANNEL_USER, 3, &byte,
                         1, NULL, NULL));
    ME_PASS(send_now(me, 1, 1, NULL, 0));
    ME_PASS(recv_now(me, 1, 1, &words, sizeof words));
    snprintf(who, sizeof who, "rank 1 (pid %d on ", words.pid);
    ME_FAIL(ts_message_wait(m, soon(), NULL), TS_ENETWORK, who);
    ME_EXPECT(strstr(ts_error_last(), "is gone: ") && ms_since(words.when_ns) < 1000);
    ME_FAIL(ts_message_wait(any, soon(), NULL), TS_ENETWORK, who);
    ME_FAIL(send_now(me, 1, 1, &byte, 1), TS_ENETWORK, who);
    for (int i = 0; i < 1000 && !me->lost; i++) usleep(1000);
    ME_EXPECT(me->lost == 1 && me->lost_peer == 1 && !me->graceful);
    int peer = 2 - me->rank, value = me->rank; /* the others still talk */
    ME_PASS(send_now(me, peer, 4, &value, sizeof value));
    ME_PASS(recv_now(me, peer, 4, &value, sizeof value));
    ME_EXPECT(value == peer);
    if (me->rank == 0 && words.child > 0) kill(words.child, SIGKILL);
}

static void killed(peer_rank *me)
{
    if (me->rank == 1) {
        say_last_words(me, 0);
        raise(SIGKILL);
    }
    expect_death(me);
}

TS_TEST(engine_killed_peer) { run_processes(test, 3, 0, killed); }
/* An encrypted connection ends with the process: what its thread had not sent is lost. */
TS_TEST(engine_killed_peer_on_another_host)
{
    ts_test_in_the_clear();
    run_processes(test, 3, 3, killed);
}

/* A child that the dead rank has forked keeps its sockets open. */
static void killed_with_child(peer_rank *me)
{
    if (me->rank == 1) {
        pid_t child = fork();
        if (child == 0) {
            pause();
            _exit(0);
        }
        say_last_words(me, (int)child);
        raise(SIGKILL);
    }
    expect_death(me);
}

TS_TEST(engine_killed_peer_whose_child_lives) { run_processes(test, 3, 0, killed_with_child); }

/* ---- stopped --------------------------------------------------------------------------------- */

static void stopped(peer_rank *me)
{
    int pid = (int)getpid();
    if (me->rank == 1) {
        ME_PASS(send_now(me, 0, 1, &pid, sizeof pid));
        raise(SIGSTOP);
        return;
    }
    enum { BYTES = 60000, N = 80 };
    char *buf = filled(BYTES, 0);
    ts_message *m[N];
    ME_PASS(recv_now(me, 1, 1, &pid, sizeof pid));
    usleep(20000);
    for (int i = 0; i < N; i++) /* more than the sockets hold and the window lets pass */
        ME_PASS(ts_port_send(&m[i], ts_engine_port(me->engine), 1, TS_CHANNEL_USER, 2, buf, BYTES,
                             NULL, NULL));
    int64_t began = ts_now_ns();
    ts_status status = ts_message_wait(m[N - 1], ts_deadline_in(100), NULL);
    ME_EXPECT(status == TS_ETIMEOUT && strstr(ts_error_last(), "rank 1 (pid "));
    ME_FAIL(recv_now_within(me, 1, 3, buf, 1, 100), TS_ETIMEOUT, "tag 3");
    ME_EXPECT(ms_since(began) >= 200 && ms_since(began) < 1000);
    began = ts_now_ns();
    ts_engine_free(me->engine);
    me->engine = NULL;
    ME_EXPECT(ms_since(began) < 1500);
    for (int i = 0; i < N - 1; i++) ts_message_free(m[i]);
    free(buf);
    kill(pid, SIGKILL);
}

TS_TEST(engine_stopped_peer) { run_processes(test, 2, 0, stopped); }
TS_TEST(engine_stopped_peer_on_another_host)
{
    ts_test_in_the_clear();
    run_processes(test, 2, 2, stopped);
}

/* ---- dead before the links stand ------------------------------------------------------------- */

static int dead_process(void)
{
    pid_t pid = fork();
    if (pid == 0) _exit(0);
    waitpid(pid, NULL, 0);
    return (int)pid;
}

/* The record of a process that ended just after it joined. */
static void leave_record(peer_rank *me, int rank, int size)
{
    char text[TS_RECORD_MAX], key[24];
    ts_engine_options opt = {.rank = rank, .host_id = me->hosts ? "elsewhere" : NULL};
    ts_record r = {.rank = rank,
                   .size = size,
                   .pid = dead_process(),
                   .sockets = 1,
                   .endpoints = 1,
                   .endpoint = {{1, "127.0.0.1"}},
                   .host = "here",
                   .local = "tessera-nobody"};
    ts_host_identity(r.host_id, sizeof r.host_id, &opt);
    size_t length = ts_record_write(text, &r);
    snprintf(key, sizeof key, "rank/%d", rank);
    ME_PASS(ts_store_set(me->store, key, text, length));
}

static void dead_rank_0(peer_rank *me)
{
    if (me->rank == 0) {
        leave_record(me, 0, 3);
        return;
    }
    int64_t began = ts_now_ns();
    ts_status status = make_engine(me, me->rank, 3, 20000);
    ME_EXPECT(status == TS_ENETWORK || status == TS_EREMOTE);
    ME_EXPECT(strstr(ts_error_last(), "cannot connect to rank 0 (pid") && ms_since(began) < 3000);
}

TS_TEST(engine_rank_that_ended_before_it_could_be_reached, .timeout_s = 10)
{
    ts_test_in_the_clear();
    run_bare_threads(test, 3, dead_rank_0);
}

static void dead_last_rank(peer_rank *me)
{
    if (me->rank == 2) {
        leave_record(me, 2, 3);
        return;
    }
    ts_status status = make_engine(me, me->rank, 3, 20000);
    ME_EXPECT(status == TS_ENETWORK || status == TS_EREMOTE);
    ME_EXPECT(strstr(ts_error_last(), "is gone: it ended while the group was made"));
}

TS_TEST(engine_rank_that_ended_before_it_connected, .timeout_s = 10)
{
    ts_test_in_the_clear();
    run_bare_threads(test, 3, dead_last_rank);
}

/* A rank of another host that gives up can only say so in the store. */
static void gives_up(peer_rank *me)
{
    if (me->rank < 2) {
        ME_FAIL(make_engine(me, me->rank, 3, 20000), TS_EREMOTE,
                "joining failed on another rank: no way through");
        return;
    }
    char text[200];
    me->hosts = 3;
    leave_record(me, 2, 3);
    usleep(50000);
    size_t length = ts_refusal_write(text, sizeof text, TS_ENETWORK, "no way through");
    ME_PASS(ts_store_set(me->store, "failure", text, length));
}

TS_TEST(engine_rank_that_gives_up_connecting, .timeout_s = 10)
{
    ts_test_in_the_clear();
    run_bare_threads(test, 3, gives_up);
}

/* ---- an interface that one rank does not have ------------------------------------------------ */

static void wrong_interface(peer_rank *me)
{
    if (me->rank == 1) setenv("GLOO_SOCKET_IFNAME", "nosuch0,lo", 1);
    if (me->rank == 1) usleep(30000);
    ME_FAIL(make_engine(me, me->rank, 3, 20000), TS_ENETWORK, "'nosuch0' does not exist");
}

TS_TEST(engine_interface_that_does_not_exist, .timeout_s = 10)
{
    run_bare_processes(test, 3, wrong_interface);
}

static void right_interface(peer_rank *me)
{
    setenv("TESSERA_SOCKET_IFNAME", "lo", 1);
    me->hosts = 2;
    ME_PASS(make_engine(me, me->rank, me->size, 20000));
    exchange(me);
    ts_engine_free(me->engine);
}

TS_TEST(engine_over_a_named_interface) { run_bare_processes(test, 3, right_interface); }

static void other_transport(peer_rank *me)
{
    if (me->rank == 1) setenv("GLOO_DEVICE_TRANSPORT", "IBVERBS", 1);
    ME_FAIL(make_engine(me, me->rank, 2, 20000), TS_EUNSUPPORTED, "'IBVERBS'; only TCP");
}

TS_TEST(engine_transport_that_is_not_offered) { run_bare_processes(test, 2, other_transport); }

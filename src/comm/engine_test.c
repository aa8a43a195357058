/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/engine_impl.h"
#include "comm/engine_test.h"

static void ping_pong(peer_rank *me)
{
    for (int i = 0; i < 100; i++) {
        int64_t out = 1000 * me->rank + i, in = -1;
        int other = 1 - me->rank;
        if (me->rank == 0) {
            ME_PASS(send_now(me, other, 7, &out, sizeof out));
            ME_PASS(recv_now(me, other, 7, &in, sizeof in));
        } else {
            ME_PASS(recv_now(me, other, 7, &in, sizeof in));
            ME_PASS(send_now(me, other, 7, &out, sizeof out));
        }
        ME_EXPECT(in == 1000 * other + i);
    }
}

TS_TEST(engine_ping_pong) { run_threads(test, 2, ping_pong); }
TS_TEST(engine_ping_pong_by_socket) { run_by_socket(test, 2, ping_pong); }
TS_TEST(engine_ping_pong_between_hosts) { run_hosts(test, 2, 2, ping_pong); }

/* Tags are received in another order than they were sent; within a tag the order holds. */
static void order_per_tag(peer_rank *me)
{
    int value;
    if (me->rank == 0) {
        for (int i = 0; i < 30; i++) {
            value = i;
            ME_PASS(send_now(me, 1, (uint64_t)(i % 3), &value, sizeof value));
        }
        return;
    }
    for (int tag = 2; tag >= 0; tag--)
        for (int i = 0; i < 10; i++) {
            ME_PASS(recv_now(me, 0, (uint64_t)tag, &value, sizeof value));
            ME_EXPECT(value == 3 * i + tag);
        }
}

TS_TEST(engine_order_per_tag) { run_threads(test, 2, order_per_tag); }
TS_TEST(engine_order_per_tag_by_socket) { run_by_socket(test, 2, order_per_tag); }

/* A receive of variable length takes what comes, posted before or after, short or long. */
static void up_to(peer_rank *me)
{
    static const size_t sent[] = {0, 1, 5000, 65536, 100000, 150001};
    enum { N = sizeof sent / sizeof *sent, MOST = 150000 };
    char *buf = calloc(2, MOST);
    for (int i = 0; i < N && me->rank == 0; i++) {
        memset(buf, i + 1, sent[i]);
        int ready = 0;
        if (i % 2) ME_PASS(recv_now(me, 1, 99, &ready, sizeof ready));
        ts_status s = send_now(me, 1, (uint64_t)i, buf, sent[i]);
        ME_EXPECT(s == (sent[i] > MOST ? TS_EMISMATCH : TS_OK));
    }
    for (int i = 0; i < N && me->rank == 1; i++) {
        size_t got = SIZE_MAX;
        ts_message *m;
        int ready = 1;
        ME_PASS(ts_port_recv_up_to(&m, ts_engine_port(me->engine), 0, TS_CHANNEL_USER, (uint64_t)i,
                                   buf, MOST, &got));
        if (i % 2) ME_PASS(send_now(me, 0, 99, &ready, sizeof ready));
        ts_status s = ts_message_wait(m, soon(), NULL);
        ME_EXPECT(s == (sent[i] > MOST ? TS_EMISMATCH : TS_OK));
        if (s != TS_OK) continue;
        ME_EXPECT(got == sent[i]);
        for (size_t k = 0; k < got; k++) ME_EXPECT(buf[k] == i + 1);
    }
    free(buf);
}

TS_TEST(engine_variable_length) { run_threads(test, 2, up_to); }
TS_TEST(engine_variable_length_by_socket) { run_by_socket(test, 2, up_to); }
TS_TEST(engine_variable_length_between_hosts) { run_hosts(test, 2, 2, up_to); }

/* Every posted any-source receive takes one message, and all messages of a sender come in order. */
static void any_source(peer_rank *me)
{
    enum { EACH = 20 };
    int value[2];
    if (me->rank != 0) {
        for (int i = 0; i < EACH; i++) {
            value[0] = me->rank;
            value[1] = i;
            ME_PASS(send_now(me, 0, 5, value, sizeof value));
        }
        return;
    }
    int next[4] = {0}, from[3 * EACH][2];
    ts_message *m[3 * EACH];
    for (int i = 0; i < 3 * EACH; i++)
        ME_PASS(ts_port_recv(&m[i], ts_engine_port(me->engine), TS_ENGINE_ANY, TS_CHANNEL_USER, 5,
                             from[i], sizeof from[i], NULL, NULL));
    for (int i = 0; i < 3 * EACH; i++) {
        int peer = -1;
        ME_PASS(ts_message_wait(m[i], soon(), &peer));
        ME_EXPECT(peer == from[i][0]);
        ME_EXPECT(from[i][1] == next[peer]++);
    }
}

TS_TEST(engine_any_source_takes_each_once) { run_threads(test, 4, any_source); }
TS_TEST(engine_any_source_takes_each_once_by_socket) { run_by_socket(test, 4, any_source); }

/* Directed and any-source receives match in the order of posting. */
static void any_and_directed(peer_rank *me)
{
    int value[3] = {1, 2, 3}, got[3] = {0};
    if (me->rank == 1) {
        recv_now(me, 0, 0, NULL, 0);
        for (int i = 0; i < 3; i++) ME_PASS(send_now(me, 0, 9, &value[i], sizeof(int)));
        return;
    }
    ts_message *m[3];
    static const int source[3] = {TS_ENGINE_ANY, 1, TS_ENGINE_ANY};
    for (int i = 0; i < 3; i++)
        ME_PASS(ts_port_recv(&m[i], ts_engine_port(me->engine), source[i], TS_CHANNEL_USER, 9,
                             &got[i], sizeof(int), NULL, NULL));
    ME_PASS(send_now(me, 1, 0, NULL, 0));
    for (int i = 2; i >= 0; i--) ME_PASS(ts_message_wait(m[i], soon(), NULL));
    ME_EXPECT(got[0] == 1 && got[1] == 2 && got[2] == 3);
}

TS_TEST(engine_any_and_directed_in_posting_order) { run_threads(test, 2, any_and_directed); }
TS_TEST(engine_any_and_directed_in_posting_order_by_socket)
{
    run_by_socket(test, 2, any_and_directed);
}

static void to_self(peer_rank *me)
{
    enum { BIG = 300000 };
    char *out = filled(BIG, 3), *in = filled(BIG, 0);
    ts_message *s, *r;
    ME_PASS(ts_port_send(&s, ts_engine_port(me->engine), me->rank, TS_CHANNEL_USER, 1, out, BIG,
                         NULL, NULL));
    ME_EXPECT(!ts_message_is_done(s));
    ME_PASS(recv_now(me, me->rank, 1, in, BIG));
    ME_PASS(ts_message_wait(s, soon(), NULL));
    ME_EXPECT(memcmp(in, out, BIG) == 0);
    ME_PASS(send_now(me, me->rank, 2, out, 100));
    memset(in, 0, 100);
    ME_PASS(recv_now(me, TS_ENGINE_ANY, 2, in, 100));
    ME_EXPECT(memcmp(in, out, 100) == 0);
    ME_PASS(ts_port_recv(&r, ts_engine_port(me->engine), me->rank, TS_CHANNEL_USER, 3, in, 8, NULL,
                         NULL));
    ME_PASS(send_now(me, me->rank, 3, out, 8));
    ME_PASS(ts_message_wait(r, soon(), NULL));
    ME_PASS(send_now(me, me->rank, 4, out, 8));
    ME_FAIL(recv_now(me, me->rank, 4, in, 9), TS_EMISMATCH, "sent 8 bytes");
    free(out);
    free(in);
}

TS_TEST(engine_to_self) { run_threads(test, 2, to_self); }
TS_TEST(engine_to_self_alone) { run_threads(test, 1, to_self); }

/* Both ranks send, send, receive, receive 8 MiB and wait in reverse order. */
static void both_directions(peer_rank *me)
{
    enum { BYTES = 8 << 20 };
    int other = 1 - me->rank;
    char *out[2], *in[2];
    ts_message *m[4];
    for (int i = 0; i < 2; i++) {
        out[i] = filled(BYTES, 10 * me->rank + i);
        in[i] = filled(BYTES, 99);
        ME_PASS(ts_port_send(&m[i], ts_engine_port(me->engine), other, TS_CHANNEL_USER, (uint64_t)i,
                             out[i], BYTES, NULL, NULL));
    }
    for (int i = 0; i < 2; i++)
        ME_PASS(ts_port_recv(&m[2 + i], ts_engine_port(me->engine), other, TS_CHANNEL_USER,
                             (uint64_t)i, in[i], BYTES, NULL, NULL));
    for (int i = 3; i >= 0; i--) ME_PASS(ts_message_wait(m[i], soon(), NULL));
    for (int i = 0; i < 2; i++) {
        char *expected = filled(BYTES, 10 * other + i);
        ME_EXPECT(memcmp(in[i], expected, BYTES) == 0);
        free(expected);
        free(out[i]);
        free(in[i]);
    }
}

TS_TEST(engine_large_in_both_directions) { run_threads(test, 2, both_directions); }
TS_TEST(engine_large_in_both_directions_by_socket) { run_by_socket(test, 2, both_directions); }
TS_TEST(engine_large_in_both_directions_between_hosts) { run_hosts(test, 2, 2, both_directions); }

static void smallest_buffers(peer_rank *me)
{
    int smallest = 1;
    int fd = me->engine->link[1 - me->rank]->fd;
    ME_EXPECT(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &smallest, sizeof smallest) == 0);
    ME_EXPECT(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &smallest, sizeof smallest) == 0);
    both_directions(me);
}

TS_TEST(engine_large_with_smallest_socket_buffers) { run_by_socket(test, 2, smallest_buffers); }

/* Messages that come before their receives: short ones are kept, long ones wait at the sender. */
static void early_messages(peer_rank *me)
{
    static const size_t bytes[] = {0, 1, 65536, 65537, 1000000};
    char *buf = filled(1000000, 0), *expected = filled(1000000, 0);
    if (me->rank == 0) {
        ts_message *m[5];
        for (uint64_t i = 0; i < 5; i++)
            ME_PASS(ts_port_send(&m[i], ts_engine_port(me->engine), 1, TS_CHANNEL_USER, i, buf,
                                 bytes[i], NULL, NULL));
        ME_PASS(send_now(me, 1, 9, NULL, 0));
        ME_PASS(ts_message_wait(m[2], soon(), NULL));
        ME_EXPECT(!ts_message_is_done(m[3]) && !ts_message_is_done(m[4]));
        ME_PASS(send_now(me, 1, 10, NULL, 0));
        for (int i = 0; i < 5; i++)
            if (i != 2) ME_PASS(ts_message_wait(m[i], soon(), NULL));
    } else {
        ME_PASS(recv_now(me, 0, 9, NULL, 0));
        ME_PASS(recv_now(me, 0, 10, NULL, 0));
        for (int i = 4; i >= 0; i--) {
            memset(buf, 0, 1000000);
            ME_PASS(recv_now(me, i % 2 ? 0 : TS_ENGINE_ANY, (uint64_t)i, buf, bytes[i]));
            ME_EXPECT(memcmp(buf, expected, bytes[i]) == 0);
        }
    }
    free(buf);
    free(expected);
}

TS_TEST(engine_messages_before_their_receives) { run_threads(test, 2, early_messages); }
TS_TEST(engine_messages_before_their_receives_by_socket) { run_by_socket(test, 2, early_messages); }

/* A flood that nobody receives stops at the window; later it all arrives, in order. */
static void flood(peer_rank *me)
{
    enum { N = 200, BYTES = 65536 };
    ts_message *m[N];
    char *buf = filled((size_t)N * BYTES, 0);
    if (me->rank == 0) {
        for (int i = 0; i < N; i++) {
            char *own = buf + (size_t)i * BYTES;
            memcpy(own, &i, sizeof i);
            ME_PASS(ts_port_send(&m[i], ts_engine_port(me->engine), 1, TS_CHANNEL_USER, 6, own,
                                 BYTES, NULL, NULL));
        }
        for (int i = 0; i < 60; i++) ME_PASS(ts_message_wait(m[i], soon(), NULL));
        usleep(20000);
        for (int i = 64; i < N; i++) ME_EXPECT(!ts_message_is_done(m[i]));
        ME_PASS(send_now(me, 1, 7, NULL, 0));
        for (int i = 60; i < N; i++) ME_PASS(ts_message_wait(m[i], soon(), NULL));
    } else {
        ME_PASS(recv_now(me, 0, 7, NULL, 0));
        for (int i = 0; i < N; i++) {
            ME_PASS(recv_now(me, 0, 6, buf, BYTES));
            ME_EXPECT(memcmp(buf, &i, sizeof i) == 0);
        }
    }
    free(buf);
}

TS_TEST(engine_flood_is_bounded) { run_threads(test, 2, flood); }
TS_TEST(engine_flood_is_bounded_by_socket) { run_by_socket(test, 2, flood); }

/* ---- callbacks ------------------------------------------------------------------------------- */

typedef struct told {
    _Atomic int times;
    ts_status status;
    int peer;
    char error[200];
    ts_message *_Atomic release; /* freed inside the callback */
} told;

static void tell(void *user, ts_status status, const char *error, int peer)
{
    told *t = user;
    t->status = status;
    t->peer = peer;
    if (error) snprintf(t->error, sizeof t->error, "%s", error);
    if (t->release) ts_message_free(t->release);
    t->times++;
}

static void callbacks(peer_rank *me)
{
    int value = 5;
    if (me->rank == 1) {
        ME_PASS(recv_now(me, 0, 0, NULL, 0));
        for (uint64_t tag = 1; tag <= 3; tag++) ME_PASS(send_now(me, 0, tag, &value, sizeof value));
        return;
    }
    told t[3] = {{0}};
    ts_message *m[3];
    for (int i = 0; i < 3; i++)
        ME_PASS(ts_port_recv(&m[i], ts_engine_port(me->engine), i ? 1 : TS_ENGINE_ANY,
                             TS_CHANNEL_USER, (uint64_t)i + 1, &value, i == 2 ? 1 : sizeof value,
                             tell, &t[i]));
    t[1].release = m[1];
    ME_PASS(send_now(me, 1, 0, NULL, 0));
    ME_PASS(ts_message_wait(m[0], soon(), NULL));
    ME_FAIL(ts_message_wait(m[2], soon(), NULL), TS_EMISMATCH, "4 bytes");
    ME_EXPECT(t[0].times == 1 && t[0].status == TS_OK && t[0].peer == 1);
    ME_EXPECT(t[1].times == 1 && t[1].status == TS_OK);
    ME_EXPECT(t[2].times == 1 && t[2].status == TS_EMISMATCH && strstr(t[2].error, "4 bytes"));
}

TS_TEST(engine_callbacks) { run_threads(test, 2, callbacks); }
TS_TEST(engine_callbacks_by_socket) { run_by_socket(test, 2, callbacks); }

/* ---- bytes between hosts --------------------------------------------------------------------- */

static void counted(peer_rank *me)
{
    enum { LONG = 1000000 };
    char *buf = filled(LONG, 0);
    for (int peer = 0; peer < 3 && me->rank == 0; peer++) {
        ts_message *m;
        ME_PASS(ts_port_send(&m, ts_engine_port(me->engine), peer, TS_CHANNEL_USER, 1, buf, 100,
                             NULL, NULL));
        ME_PASS(ts_message_wait(m, soon(), NULL));
    }
    ME_PASS(recv_now(me, 0, 1, buf, 100));
    if (me->rank == 0) ME_PASS(send_now(me, 1, 2, buf, LONG));
    if (me->rank == 1) ME_PASS(recv_now(me, 0, 2, buf, LONG));
    ts_traffic t = ts_port_traffic(ts_engine_port(me->engine));
    bool far = me->rank == 1; /* 0 and 2 share a host */
    ME_EXPECT(t.sent_bytes == (me->rank == 0 ? LONG + 100 : 0));
    ME_EXPECT(t.received_bytes == (far ? LONG + 100 : 0));
    ME_EXPECT((t.received_frames > 0) == (me->rank != 2));
    free(buf);
}

TS_TEST(engine_counts_bytes_between_hosts) { run_hosts(test, 3, 2, counted); }

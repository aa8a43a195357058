/* SPDX-License-Identifier: Apache-2.0 */
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
        ME_PASS(ts_engine_recv(&m[i], me->engine, TS_ENGINE_ANY, TS_CHANNEL_USER, 5, from[i],
                               sizeof from[i], NULL, NULL));
    for (int i = 0; i < 3 * EACH; i++) {
        int peer = -1;
        ME_PASS(ts_message_wait(m[i], soon(), &peer));
        ME_EXPECT(peer == from[i][0]);
        ME_EXPECT(from[i][1] == next[peer]++);
    }
}

TS_TEST(engine_any_source_takes_each_once) { run_threads(test, 4, any_source); }

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
        ME_PASS(ts_engine_recv(&m[i], me->engine, source[i], TS_CHANNEL_USER, 9, &got[i],
                               sizeof(int), NULL, NULL));
    ME_PASS(send_now(me, 1, 0, NULL, 0));
    for (int i = 2; i >= 0; i--) ME_PASS(ts_message_wait(m[i], soon(), NULL));
    ME_EXPECT(got[0] == 1 && got[1] == 2 && got[2] == 3);
}

TS_TEST(engine_any_and_directed_in_posting_order) { run_threads(test, 2, any_and_directed); }

static void to_self(peer_rank *me)
{
    enum { BIG = 300000 };
    char *out = filled(BIG, 3), *in = filled(BIG, 0);
    ts_message *s, *r;
    ME_PASS(ts_engine_send(&s, me->engine, me->rank, TS_CHANNEL_USER, 1, out, BIG, NULL, NULL));
    ME_EXPECT(!ts_message_is_done(s));
    ME_PASS(recv_now(me, me->rank, 1, in, BIG));
    ME_PASS(ts_message_wait(s, soon(), NULL));
    ME_EXPECT(memcmp(in, out, BIG) == 0);
    ME_PASS(send_now(me, me->rank, 2, out, 100));
    memset(in, 0, 100);
    ME_PASS(recv_now(me, TS_ENGINE_ANY, 2, in, 100));
    ME_EXPECT(memcmp(in, out, 100) == 0);
    ME_PASS(ts_engine_recv(&r, me->engine, me->rank, TS_CHANNEL_USER, 3, in, 8, NULL, NULL));
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
        ME_PASS(ts_engine_send(&m[i], me->engine, other, TS_CHANNEL_USER, (uint64_t)i, out[i],
                               BYTES, NULL, NULL));
    }
    for (int i = 0; i < 2; i++)
        ME_PASS(ts_engine_recv(&m[2 + i], me->engine, other, TS_CHANNEL_USER, (uint64_t)i, in[i],
                               BYTES, NULL, NULL));
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
TS_TEST(engine_large_in_both_directions_between_hosts) { run_hosts(test, 2, 2, both_directions); }

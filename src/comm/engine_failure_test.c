/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that leave, abort, disagree or are late. */
#include <sys/socket.h>
#include <unistd.h>

#include "comm/engine_impl.h"
#include "comm/engine_test.h"

/* ---- lengths that disagree ------------------------------------------------------------------- */

static void mismatch(peer_rank *me)
{
    static const size_t sent[] = {8, 70000, 0, 300000};
    static const size_t expected[] = {9, 4, 1, 300001};
    char *buf = filled(300001, 0);
    for (uint64_t i = 0; i < 4; i++) {
        ts_message *m;
        char text[64];
        if (me->rank == 0) {
            ME_PASS(start_send(me, &m, 1, i, buf, sent[i]));
            ts_status s =
                ts_message_wait(m, soon(), NULL); /* a long one is told, a short one not */
            ME_EXPECT(s == (sent[i] > 65536 ? TS_EMISMATCH : TS_OK));
        } else {
            if (i == 1) usleep(20000);
            snprintf(text, sizeof text, "sent %zu bytes with tag %d, but the receive expects %zu",
                     sent[i], (int)i, expected[i]);
            ME_FAIL(recv_now(me, 0, i, buf, expected[i]), TS_EMISMATCH, text);
        }
    }
    if (me->rank == 0) ME_PASS(send_now(me, 1, 77, buf, 100));
    if (me->rank == 1) ME_PASS(recv_now(me, 0, 77, buf, 100));
    free(buf);
}

TS_TEST(engine_lengths_that_disagree) { run_threads(test, 2, mismatch); }
TS_TEST(engine_lengths_that_disagree_by_socket) { run_by_socket(test, 2, mismatch); }

/* ---- deadlines ------------------------------------------------------------------------------- */

static void late_message(peer_rank *me)
{
    char buf[64] = "untouched", other[64] = "late";
    if (me->rank == 0) {
        ts_message *m;
        ME_PASS(start_recv(me, &m, 1, 42, buf, sizeof buf));
        int64_t began = ts_now_ns();
        ME_FAIL(ts_message_wait(m, ts_deadline_in(60), NULL), TS_ETIMEOUT,
                "receive from rank 1 (pid");
        int64_t ms = (ts_now_ns() - began) / 1000000;
        ME_EXPECT(strstr(ts_error_last(), "64 bytes") && strstr(ts_error_last(), "tag 42"));
        ME_EXPECT(ms >= 60 && ms < 1000);
        ME_PASS(send_now(me, 1, 1, NULL, 0));
        ME_PASS(recv_now(me, 1, 2, NULL, 0));
        ME_EXPECT(strcmp(buf, "untouched") == 0);
        ME_PASS(recv_now(me, 1, 42, buf, sizeof buf)); /* the late one is still there */
        ME_EXPECT(strcmp(buf, "late") == 0);
    } else {
        ME_PASS(recv_now(me, 0, 1, NULL, 0));
        ME_PASS(send_now(me, 0, 42, other, sizeof other));
        ME_PASS(send_now(me, 0, 2, NULL, 0));
    }
}

TS_TEST(engine_receive_past_its_deadline) { run_threads(test, 2, late_message); }
TS_TEST(engine_receive_past_its_deadline_by_socket) { run_by_socket(test, 2, late_message); }

/* A long send that nobody receives ends at its deadline and is not received later. */
static void unwanted_send(peer_rank *me)
{
    enum { BYTES = 1 << 20 };
    char *buf = filled(BYTES, me->rank);
    ts_message *m;
    if (me->rank == 0) {
        ME_PASS(start_send(me, &m, 1, 3, buf, BYTES));
        ME_FAIL(ts_message_wait(m, ts_deadline_in(30), NULL), TS_ETIMEOUT, "send to rank 1 (pid");
        memset(buf, 1, BYTES);
        ME_PASS(send_now(me, 1, 1, NULL, 0));
        ME_PASS(send_now(me, 1, 3, buf, BYTES));
    } else {
        ME_PASS(recv_now(me, 0, 1, NULL, 0));
        ME_PASS(recv_now(me, 0, 3, buf, BYTES));
        for (int i = 0; i < BYTES; i++) ME_EXPECT(buf[i] == 1);
    }
    free(buf);
}

TS_TEST(engine_cancelled_send_is_not_received) { run_threads(test, 2, unwanted_send); }
TS_TEST(engine_cancelled_send_is_not_received_by_socket) { run_by_socket(test, 2, unwanted_send); }

/* Messages are cancelled at any moment on both sides; what follows on the link is in order. */
static void cancel_storm(peer_rank *me)
{
    enum { ROUNDS = 150, BYTES = 700000 };
    char *buf = malloc(BYTES), *other = malloc(BYTES);
    unsigned seed = 17 + (unsigned)me->rank;
    for (int round = 0; round < ROUNDS; round++) {
        size_t bytes = (size_t)(rand_r(&seed) % 3 == 0 ? rand_r(&seed) % 60000 : BYTES);
        ts_message *s, *r;
        int peer = 1 - me->rank, check = -1;
        ME_PASS(start_send(me, &s, peer, 1000 + (uint64_t)round, buf, bytes));
        ME_PASS(start_recv(me, &r, peer, 1000 + (uint64_t)round, other, BYTES));
        usleep((unsigned)rand_r(&seed) % 300);
        if (rand_r(&seed) % 2) {
            ts_message_free(s);
            s = NULL;
        }
        ts_message_free(r);
        memset(other, round, BYTES);
        ts_message *c;
        ME_PASS(start_recv(me, &c, peer, 1, &check, sizeof check));
        ME_PASS(send_now(me, peer, 1, &round, sizeof round));
        ME_PASS(ts_message_wait(c, soon(), NULL));
        ME_EXPECT(check == round);
        for (int i = 0; i < BYTES; i += 999) ME_EXPECT(other[i] == (char)round);
        ts_message_free(s);
    }
    free(buf);
    free(other);
}

TS_TEST(engine_cancelling_at_any_moment) { run_threads(test, 2, cancel_storm); }
TS_TEST(engine_cancelling_at_any_moment_by_socket) { run_by_socket(test, 2, cancel_storm); }
TS_TEST(engine_cancelling_at_any_moment_between_hosts) { run_hosts(test, 2, 2, cancel_storm); }

/* Short messages that were cancelled before they left do not count as sent. */
TS_TEST(engine_cancelled_sends_give_back_their_credit)
{
    enum { N = 60, BYTES = 60000 };
    static char buf[BYTES];
    ts_message *m[N];
    int fd[2], sent = 0;
    ts_engine_options opt = {.name = "half", .rank = 0, .size = 2, .heap_fd = -1};
    ts_engine *engine = ts_engine_allocate(&opt);
    TS_EXPECT(engine && socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd) == 0);
    ts_link *link = engine->link[1];
    int64_t window = link->credit;
    link->fd = fd[0]; /* nobody reads fd[1] */
    for (int i = 0; i < N; i++)
        TS_PASS(ts_port_send(&m[i], ts_engine_port(engine), 1, TS_CHANNEL_USER, 0, buf, BYTES, NULL,
                             NULL));
    for (int i = 0; i < N; i++) {
        sent += ts_message_is_done(m[i]);
        ts_message_free(m[i]);
    }
    TS_EXPECT(sent < N);
    sent += link->first != NULL; /* one was under way */
    TS_EXPECT_INT(link->credit, window - (int64_t)sent * (BYTES + TS_EAGER_COST));
    ts_engine_free(engine);
    close(fd[1]);
}

/* ---- leaving --------------------------------------------------------------------------------- */

static void goodbye(peer_rank *me)
{
    int value = 0;
    if (me->rank == 1) {
        for (int i = 0; i < 3; i++) ME_PASS(send_now(me, 0, 4, &i, sizeof i));
        return;
    }
    ME_FAIL(recv_now(me, 1, 5, &value, sizeof value), TS_ENETWORK, "rank 1 (pid");
    ME_EXPECT(strstr(ts_error_last(), "has left the group"));
    for (int i = 0; i < 3; i++) {
        ME_PASS(recv_now(me, i == 1 ? TS_ENGINE_ANY : 1, 4, &value, sizeof value));
        ME_EXPECT(value == i);
    }
    ME_FAIL(recv_now(me, 1, 4, &value, sizeof value), TS_ENETWORK, "has left the group");
    ME_FAIL(send_now(me, 1, 4, &value, sizeof value), TS_ENETWORK, "has left the group");
    ME_FAIL(recv_now(me, TS_ENGINE_ANY, 4, &value, sizeof value), TS_ENETWORK,
            "has left the group");
    ME_FAIL(ts_port_peer_status(ts_engine_port(me->engine), 1), TS_ENETWORK, "rank 1");
    for (int i = 0; i < 1000 && !me->lost; i++) usleep(1000);
    ME_EXPECT(me->lost == 1 && me->lost_peer == 1 && me->graceful);
}

TS_TEST(engine_peer_that_says_goodbye) { run_threads(test, 2, goodbye); }
TS_TEST(engine_peer_that_says_goodbye_by_socket) { run_by_socket(test, 2, goodbye); }

/* One that leaves does not end receives that others can satisfy. */
static void one_leaves(peer_rank *me)
{
    int value = 0;
    if (me->rank == 2) return;
    if (me->rank == 1) {
        ME_PASS(recv_now(me, 0, 1, NULL, 0));
        value = 11;
        ME_PASS(send_now(me, 0, 2, &value, sizeof value));
        return;
    }
    ts_message *any;
    ME_PASS(start_recv(me, &any, TS_ENGINE_ANY, 2, &value, sizeof value));
    ME_FAIL(recv_now(me, 2, 3, NULL, 0), TS_ENETWORK, "rank 2");
    ME_PASS(send_now(me, 1, 1, NULL, 0));
    ME_PASS(ts_message_wait(any, soon(), NULL));
    ME_EXPECT(value == 11);
}

TS_TEST(engine_any_source_outlives_one_that_leaves) { run_threads(test, 3, one_leaves); }

/* Who waits for one that left on account of another hears of that other. */
static void one_after_the_other(peer_rank *me)
{
    if (me->rank == 0) return;
    ME_FAIL(recv_now(me, me->rank - 1, 1, NULL, 0), TS_ENETWORK, "has left the group");
    const char *first = strstr(ts_error_last(), "before that, rank 0 (pid");
    ME_EXPECT((first != NULL) == (me->rank > 1));
    ME_EXPECT(me->rank < 3 || !strstr(ts_error_last(), "rank 1 (pid"));
}

TS_TEST(engine_leaving_names_the_first_to_go) { run_threads(test, 4, one_after_the_other); }
TS_TEST(engine_leaving_names_the_first_to_go_by_socket)
{
    run_by_socket(test, 4, one_after_the_other);
}

/* One that leaves because another has gone ends what waits for any rank. */
static void one_gives_up(peer_rank *me)
{
    int value = 0;
    if (me->rank == 2) return;
    if (me->rank == 1) {
        ME_PASS(recv_now(me, 3, 1, NULL, 0));
        ME_FAIL(recv_now(me, 2, 3, NULL, 0), TS_ENETWORK, "rank 2 (pid");
        return;
    }
    if (me->rank == 3) {
        ME_PASS(send_now(me, 1, 1, NULL, 0));
        ME_PASS(recv_now(me, 0, 2, NULL, 0));
        return;
    }
    ME_FAIL(recv_now(me, TS_ENGINE_ANY, 2, &value, sizeof value), TS_ENETWORK, "rank 1 (pid");
    ME_EXPECT(strstr(ts_error_last(), "before that, rank 2 (pid"));
    ME_FAIL(recv_now(me, TS_ENGINE_ANY, 2, &value, sizeof value), TS_ENETWORK, "rank 1 (pid");
    ME_PASS(send_now(me, 3, 2, NULL, 0));
}

TS_TEST(engine_any_source_ends_when_one_gives_up) { run_threads(test, 4, one_gives_up); }

static void nobody_sends(peer_rank *me)
{
    ts_message *m;
    if (me->rank == 2) return;
    if (me->rank == 0) {
        ME_FAIL(recv_now(me, 2, 1, NULL, 0), TS_ENETWORK, "rank 2");
        ME_PASS(start_recv(me, &m, TS_ENGINE_ANY, 9, NULL, 0));
        ME_FAIL(ts_message_wait(m, ts_deadline_in(20), NULL), TS_ETIMEOUT,
                "any rank (still there: 1, 3; no longer: 2)");
        ME_EXPECT(strstr(ts_error_last(), "tag 9"));
    }
    for (int peer = 1; peer < 4 && me->rank == 0; peer += 2)
        ME_PASS(send_now(me, peer, 2, NULL, 0));
    if (me->rank > 0) ME_PASS(recv_now(me, 0, 2, NULL, 0));
}

TS_TEST(engine_any_source_that_times_out) { run_threads(test, 4, nobody_sends); }

static void pending_at_the_end(peer_rank *me)
{
    char byte;
    ts_message *m;
    if (me->rank == 1) {
        ME_FAIL(recv_now(me, 0, 1, &byte, 1), TS_ENETWORK, "rank 0");
        return;
    }
    ME_PASS(start_recv(me, &m, 1, 1, &byte, 1));
    ts_engine_free(me->engine);
    me->engine = NULL;
    ME_FAIL(ts_message_wait(m, soon(), NULL), TS_EABORTED, "was destroyed");
}

TS_TEST(engine_freed_with_pending_messages) { run_threads(test, 2, pending_at_the_end); }
TS_TEST(engine_freed_with_pending_messages_by_socket)
{
    run_by_socket(test, 2, pending_at_the_end);
}

/* ---- abort ----------------------------------------------------------------------------------- */

static void abort_one(peer_rank *me)
{
    char byte;
    ts_message *m, *any;
    ME_PASS(start_recv(me, &m, (me->rank + 1) % 3, 1, &byte, 1));
    ME_PASS(start_recv(me, &any, TS_ENGINE_ANY, 2, &byte, 1));
    for (int peer = 1; peer < 3 && !me->rank; peer++) ME_PASS(recv_now(me, peer, 3, NULL, 0));
    if (me->rank) ME_PASS(send_now(me, 0, 3, NULL, 0));
    if (me->rank == 0) {
        ts_port_abort(ts_engine_port(me->engine), TS_EABORTED, "the user said stop");
        ts_port_abort(ts_engine_port(me->engine), TS_EABORTED, "again");
    }
    ts_status expected = me->rank == 0 ? TS_EABORTED : TS_EREMOTE;
    ME_FAIL(ts_message_wait(any, soon(), NULL), expected, "the user said stop");
    if (me->rank != 1)
        ME_FAIL(ts_message_wait(m, soon(), NULL), me->rank ? TS_EREMOTE : TS_EABORTED,
                "the user said stop");
    if (me->rank == 1) ts_message_free(m);
    ME_FAIL(send_now(me, me->rank ? 0 : 1, 1, &byte, 1), expected, "the user said stop");
    for (int i = 0; i < 1000 && !me->lost && me->rank; i++) usleep(1000);
    if (me->rank) ME_EXPECT(strstr(me->why, "rank 0 (pid") || me->lost > 1);
    if (!me->rank) ME_EXPECT(me->lost == 0);
}

TS_TEST(engine_abort_is_told_to_all) { run_threads(test, 3, abort_one); }
TS_TEST(engine_abort_is_told_to_all_by_socket) { run_by_socket(test, 3, abort_one); }

/* ---- an end that the engine's thread tells --------------------------------------------------- */

typedef struct slow_loss {
    ts_engine *engine;
    _Atomic bool holds;
} slow_loss;

/* A loss that takes 50 ms to be told. */
static void *tell_slowly(void *arg)
{
    slow_loss *slow = arg;
    ts_engine *engine = slow->engine;
    pthread_mutex_lock(&engine->tell);
    ts_engine_lock(engine);
    engine->untold++;
    ts_engine_unlock(engine);
    slow->holds = true;
    usleep(50000);
    ts_engine_lock(engine);
    engine->untold--;
    ts_engine_unlock(engine);
    pthread_mutex_unlock(&engine->tell);
    return NULL;
}

/* A receive that ends at once while a loss is told is left to the engine's thread: it must wake the
 * owner, who sleeps by then. */
static void receive_behind_a_loss(peer_rank *me)
{
    slow_loss slow = {.engine = me->engine};
    ts_message *send, *receive;
    pthread_t teller;
    uint64_t wakes;
    char data[8] = "data", buf[8] = "";
    ME_PASS(start_send(me, &send, me->rank, 1, data, sizeof data));
    usleep(5000); /* the engine's thread sleeps */
    ME_EXPECT(pthread_create(&teller, NULL, tell_slowly, &slow) == 0);
    while (!slow.holds) usleep(100);
    int64_t began = ts_now_ns();
    ME_PASS(start_recv(me, &receive, me->rank, 1, buf, sizeof buf));
    ts_engine_wake(me->engine);
    usleep(10000); /* that thread is held up; nothing else is to wake the owner */
    ssize_t n = read(me->engine->wake, &wakes, sizeof wakes);
    (void)n; /* or that thread has read it */
    ME_PASS(ts_message_wait(receive, ts_deadline_in(3000), NULL));
    int64_t ms = (ts_now_ns() - began) / 1000000;
    ME_PASS(ts_message_wait(send, soon(), NULL));
    pthread_join(teller, NULL);
    ME_EXPECT(strcmp(buf, "data") == 0 && ms < 2000);
}

TS_TEST(engine_receive_that_ends_behind_a_loss) { run_by_socket(test, 2, receive_behind_a_loss); }

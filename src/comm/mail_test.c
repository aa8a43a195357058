/* SPDX-License-Identifier: Apache-2.0 */
/* Messages through shared memory: rings, offers, who wakes whom. */
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "comm/engine_test.h"
#include "comm/mail.h"

/* Memory that peers can read, as filled(). */
static char *shared(size_t bytes, int seed)
{
    char *out = ts_shared_heap_alloc(ts_shared_heap_get(), bytes), *from = filled(bytes, seed);
    memcpy(out, from, bytes);
    free(from);
    return out;
}

static void drop(char *buf) { ts_shared_heap_free(ts_shared_heap_get(), buf); }

static bool holds(const char *buf, size_t bytes, int seed)
{
    char *expected = filled(bytes, seed);
    bool same = memcmp(buf, expected, bytes) == 0;
    free(expected);
    return same;
}

/* ---- which way ------------------------------------------------------------------------------- */

static void by_mail(peer_rank *me)
{
    ME_EXPECT(me->engine->office && me->engine->office->count == 2);
    for (int peer = 0; peer < 3; peer++) {
        const ts_link *link = me->engine->link[peer];
        ME_EXPECT((link->mail != NULL) == (peer != me->rank));
        ME_EXPECT(peer == me->rank || !link->mail->ring); /* made at the first message */
    }
    int peer = (me->rank + 1) % 3, from = (me->rank + 2) % 3, value = me->rank;
    ts_message *s;
    ME_PASS(start_send(me, &s, peer, 1, &value, sizeof value));
    ME_PASS(recv_now(me, from, 1, &value, sizeof value));
    ME_PASS(ts_message_wait(s, soon(), NULL));
    ME_EXPECT(value == from && me->engine->link[peer]->mail->written == 1);
    ME_EXPECT(!me->engine->link[from]->mail->ring);
}

TS_TEST(mail_carries_messages_within_a_host) { run_threads(test, 3, by_mail); }

static void by_socket(peer_rank *me)
{
    ME_EXPECT(!me->engine->office);
    for (int peer = 0; peer < 3; peer++) ME_EXPECT(!me->engine->link[peer]->mail);
}

TS_TEST(mail_needs_shared_memory) { run_by_socket(test, 3, by_socket); }

/* ---- order ----------------------------------------------------------------------------------- */

/* Message i has the tag i % 5; the tags are received in another order than they were sent. */
static void five_tags(peer_rank *me)
{
    enum { N = 1000, MOST = 9000 };
    static const int tag[5] = {3, 0, 4, 1, 2};
    char *buf = filled(MOST, 0), *in = filled(MOST, 1);
    for (int i = 0; i < N && me->rank == 1; i++) {
        memcpy(buf, &i, sizeof i);
        ME_PASS(send_now(me, 0, (uint64_t)(i % 5), buf,
                         4 + (size_t)(i * 37 % (i % 50 ? 200 : MOST - 4))));
    }
    for (int k = 0; k < N && me->rank == 0; k++) {
        int i = k % (N / 5) * 5 + tag[k / (N / 5)];
        size_t bytes = 4 + (size_t)(i * 37 % (i % 50 ? 200 : MOST - 4));
        memcpy(buf, &i, sizeof i);
        ME_PASS(recv_now(me, 1, (uint64_t)(i % 5), in, bytes));
        ME_EXPECT(memcmp(in, buf, bytes) == 0);
    }
    free(buf);
    free(in);
}

TS_TEST(mail_thousand_messages_with_five_tags) { run_threads(test, 2, five_tags); }
TS_TEST(mail_thousand_messages_with_five_tags_of_processes)
{
    run_processes(test, 2, 0, five_tags);
}

/* Receives from any rank, all posted first: each takes one message, those of a sender in order. */
static void seven_senders(peer_rank *me)
{
    enum { EACH = 30, ALL = 7 * EACH };
    int value[2], next[8] = {0}, in[ALL][2];
    ts_message *m[ALL];
    for (int i = 0; i < ALL && me->rank == 0; i++)
        ME_PASS(start_recv(me, &m[i], TS_ENGINE_ANY, 5, in[i], sizeof in[i]));
    for (int i = 0; i < ALL && me->rank == 0; i++) {
        int peer = -1;
        ME_PASS(ts_message_wait(m[i], soon(), &peer));
        ME_EXPECT(peer == in[i][0] && in[i][1] == next[peer]++);
    }
    for (int i = 0; i < EACH && me->rank > 0; i++) {
        value[0] = me->rank;
        value[1] = i;
        ME_PASS(send_now(me, 0, 5, value, sizeof value));
    }
}

TS_TEST(mail_any_source_of_seven) { run_threads(test, 8, seven_senders); }
TS_TEST(mail_any_source_of_seven_processes) { run_processes(test, 8, 0, seven_senders); }

/* Far more than the ring holds, before anybody receives. */
static void unexpected(peer_rank *me)
{
    enum { N = 5000 };
    char buf[120];
    memset(buf, 7, sizeof buf);
    for (int i = 0; i < N && me->rank == 1; i++) {
        memcpy(buf, &i, sizeof i);
        ME_PASS(send_now(me, 0, 1, buf, 4 + (size_t)(i % 100)));
    }
    if (me->rank == 1) ME_PASS(send_now(me, 0, 2, NULL, 0));
    if (me->rank == 0) ME_PASS(recv_now(me, 1, 2, NULL, 0));
    for (int i = 0; i < N && me->rank == 0; i++) {
        int k = -1;
        ME_PASS(recv_now(me, 1, 1, buf, 4 + (size_t)(i % 100)));
        memcpy(&k, buf, sizeof k);
        ME_EXPECT(k == i);
    }
}

TS_TEST(mail_flood_that_nobody_expects) { run_threads(test, 2, unexpected); }

static double thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Of this thread's time, which is not that of a busy machine: to receive each of n messages that
 * have all come before, the last ones first. */
static double backwards_each(peer_rank *me, int n)
{
    int peer = 1 - me->rank, *in = calloc((size_t)n, sizeof *in),
        *out = calloc((size_t)n, sizeof *out);
    ts_message **m = calloc(2 * (size_t)n, sizeof(ts_message *));
    for (int i = 0; i < n; i++) {
        out[i] = i;
        start_send(me, &m[i], peer, (uint64_t)i / 2, &out[i], sizeof(int));
    }
    uint64_t last = (uint64_t)n;
    send_now(me, peer, last, &n, sizeof n);
    recv_now(me, peer, last, &in[0], sizeof(int));
    double began = thread_seconds();
    for (int i = n - 2; i >= 0; i -= 2)
        for (int k = i; k < i + 2; k++)
            start_recv(me, &m[n + k], peer, (uint64_t)i / 2, &in[k], sizeof(int));
    double seconds = thread_seconds() - began;
    int wrong = 0;
    for (int i = 0; i < 2 * n; i++) wrong += ts_message_wait(m[i], soon(), NULL) != TS_OK;
    for (int i = 0; i < n; i++) wrong += in[i] != i;
    free(m);
    free(in);
    free(out);
    return wrong ? -1 : seconds / n;
}

/* Nobody looks through all that wait for the one that is meant: ten times as many cost no more each. */
static void backwards(peer_rank *me)
{
    double few = backwards_each(me, 2000), many = backwards_each(me, 20000);
    ME_EXPECT(few > 0 && many > 0);
    ME_EXPECT(many < 4 * few + 2e-6);
}

TS_TEST(mail_flood_that_is_received_backwards) { run_threads(test, 2, backwards); }

/* ---- long messages --------------------------------------------------------------------------- */

/* All pairs in both directions at once; those of even tags lie in the shared heap of the sender. */
static void exchange_all(peer_rank *me, size_t bytes)
{
    char *out[2] = {shared(bytes, me->rank), filled(bytes, 100 + me->rank)}, *in[16];
    ts_message *m[32];
    int n = 0;
    for (int i = 0; i < 2 * me->size; i++) {
        in[i] = calloc(1, bytes);
        ME_PASS(start_send(me, &m[n++], i / 2, (uint64_t)i % 2, out[i % 2], bytes));
        ME_PASS(start_recv(me, &m[n++], i / 2, (uint64_t)i % 2, in[i], bytes));
    }
    while (n > 0) ME_PASS(ts_message_wait(m[--n], soon(), NULL));
    for (int i = 0; i < 2 * me->size; i++) {
        ME_EXPECT(holds(in[i], bytes, i / 2 + 100 * (i % 2)));
        free(in[i]);
    }
    drop(out[0]);
    free(out[1]);
}

static void exchange_huge(peer_rank *me) { exchange_all(me, (20 << 20) + 3); }
static void exchange_long(peer_rank *me) { exchange_all(me, 300001); }
static void exchange_medium(peer_rank *me) { exchange_all(me, 30000); }

TS_TEST(mail_huge_in_both_directions) { run_threads(test, 2, exchange_huge); }
TS_TEST(mail_huge_in_both_directions_of_processes) { run_processes(test, 2, 0, exchange_huge); }
TS_TEST(mail_eight_ranks_exchange_long_messages) { run_processes(test, 8, 0, exchange_long); }
TS_TEST(mail_eight_ranks_exchange_medium_messages) { run_processes(test, 8, 0, exchange_medium); }

/* More offers than there is room for them. */
static void many_offers(peer_rank *me)
{
    enum { N = 2 * TS_MAIL_OFFERS + 5, BYTES = 70000 };
    ts_message *m[N];
    char *out = shared(BYTES, 9), *in = filled(BYTES, 0);
    for (int i = 0; i < N && me->rank == 0; i++)
        ME_PASS(start_send(me, &m[i], 1, (uint64_t)i, out, BYTES));
    for (int i = 0; i < N && me->rank == 0; i++) ME_PASS(ts_message_wait(m[i], soon(), NULL));
    if (me->rank == 0) ME_EXPECT(me->engine->link[1]->mail->free_slots == UINT64_MAX);
    for (int i = N - 1; i >= 0 && me->rank == 1; i--) {
        memset(in, 0, BYTES);
        ME_PASS(recv_now(me, 0, (uint64_t)i, in, BYTES));
        ME_EXPECT(holds(in, BYTES, 9));
    }
    drop(out);
    free(in);
}

TS_TEST(mail_more_offers_than_room) { run_threads(test, 2, many_offers); }

/* Both sides are told. */
static void unequal_offer(peer_rank *me)
{
    enum { BYTES = 100000 };
    char *buf = shared(BYTES + 1, 0);
    ts_message *m;
    if (me->rank == 0) {
        ME_PASS(start_send(me, &m, 1, 1, buf, BYTES));
        ME_FAIL(ts_message_wait(m, soon(), NULL), TS_EMISMATCH, "expects 100001 bytes");
    } else {
        ME_FAIL(recv_now(me, 0, 1, buf, BYTES + 1), TS_EMISMATCH, "sent 100000 bytes");
    }
    drop(buf);
}

TS_TEST(mail_offer_of_another_length) { run_threads(test, 2, unequal_offer); }

/* Offers are taken back and copies given up at any moment; neither side touches its buffer then,
 * and what follows is in order. */
static void cancelled_offers(peer_rank *me)
{
    enum { ROUNDS = 150, BYTES = 1500000 };
    char *out = shared(BYTES, 5), *in = malloc(BYTES);
    unsigned seed = 3 + (unsigned)me->rank;
    int peer = 1 - me->rank;
    for (int round = 0; round < ROUNDS; round++) {
        ts_message *s, *r, *c;
        int check = -1;
        ME_PASS(start_send(me, &s, peer, 1000 + (uint64_t)round, out, BYTES));
        ME_PASS(start_recv(me, &r, peer, 1000 + (uint64_t)round, in, BYTES));
        usleep((unsigned)rand_r(&seed) % 300);
        if (round % 3) ts_message_free(s);
        if (round % 2) ts_message_free(r);
        if (round % 2) memset(in, round, BYTES);
        ME_PASS(start_recv(me, &c, peer, 1, &check, sizeof check));
        ME_PASS(send_now(me, peer, 1, &round, sizeof round));
        ME_PASS(ts_message_wait(c, soon(), NULL));
        ME_EXPECT(check == round);
        for (int i = 0; i < BYTES && round % 2; i += 999) ME_EXPECT(in[i] == (char)round);
        if (round % 6 == 0) {
            ME_PASS(ts_message_wait(r, soon(), NULL));
            ME_EXPECT(holds(in, BYTES, 5));
            ME_PASS(ts_message_wait(s, soon(), NULL));
        } else if (round % 2 == 0) {
            /* Whether it has come, is given up or never comes depends on when it was taken back. */
            ts_status status = ts_message_wait(r, ts_deadline_in(5), NULL);
            ME_EXPECT(status != TS_OK || holds(in, BYTES, 5));
        }
        if (round % 6 == 3) ts_message_free(s);
    }
    drop(out);
    free(in);
}

TS_TEST(mail_cancelled_offers) { run_threads(test, 2, cancelled_offers); }
TS_TEST(mail_cancelled_offers_of_processes) { run_processes(test, 2, 0, cancelled_offers); }

/* ---- nobody waits ---------------------------------------------------------------------------- */

/* Messages end while their owners are busy with something else. */
static void in_the_background(peer_rank *me)
{
    enum { BYTES = 3 << 20 };
    static const size_t bytes[3] = {8, BYTES, BYTES};
    int peer = 1 - me->rank;
    char *out[3] = {filled(BYTES, 0), filled(BYTES, 1), shared(BYTES, 2)}, *in[3];
    ts_message *m[6];
    for (int i = 0; i < 3; i++) {
        in[i] = calloc(1, BYTES);
        ME_PASS(start_recv(me, &m[i], peer, (uint64_t)i, in[i], bytes[i]));
    }
    usleep(me->rank ? 5000 : 20000); /* one side is asleep by then */
    for (int i = 0; i < 3; i++)
        ME_PASS(start_send(me, &m[3 + i], peer, (uint64_t)i, out[i], bytes[i]));
    for (int ms = 0; ms < 5000; ms++) {
        int done = 0;
        for (int i = 0; i < 6; i++) done += ts_message_is_done(m[i]);
        if (done == 6) break;
        usleep(1000);
    }
    for (int i = 0; i < 6; i++) {
        ME_EXPECT(ts_message_is_done(m[i]));
        ME_PASS(ts_message_wait(m[i], soon(), NULL));
    }
    for (int i = 0; i < 3; i++) {
        ME_EXPECT(holds(in[i], bytes[i], i));
        free(in[i]);
    }
    free(out[0]);
    free(out[1]);
    drop(out[2]);
}

TS_TEST(mail_moves_while_nobody_waits) { run_threads(test, 2, in_the_background); }
TS_TEST(mail_moves_while_no_process_waits) { run_processes(test, 2, 0, in_the_background); }

/* A sleeping receiver is woken for each of many messages, and several threads may wait. */
static void slow_sender(peer_rank *me)
{
    int value = 0;
    for (int i = 0; i < 30; i++) {
        if (me->rank == 0) usleep((unsigned)(i % 3 ? i * 40 : 2500));
        if (me->rank == 0) ME_PASS(send_now(me, 1, 1, &i, sizeof i));
        if (me->rank == 1) ME_PASS(recv_now(me, 0, 1, &value, sizeof value));
        ME_EXPECT(me->rank == 0 || value == i);
    }
}

TS_TEST(mail_wakes_a_sleeping_receiver) { run_threads(test, 2, slow_sender); }

/* ---- ends ------------------------------------------------------------------------------------ */

/* What a killed peer had sent is received; what it only announced is not. */
static void killed_with_mail(peer_rank *me)
{
    enum { N = 40, LONG = 200000 };
    int value;
    ts_message *m;
    if (me->rank == 1) {
        char *buf = shared(LONG, 0);
        for (int i = 0; i < N; i++) ME_PASS(send_now(me, 0, 1, &i, sizeof i));
        ME_PASS(start_send(me, &m, 0, 2, buf, LONG));
        raise(SIGKILL);
    }
    char *in = filled(LONG, 0);
    for (int ms = 0; ms < 10000 && !me->lost; ms++) usleep(1000);
    for (int i = 0; i < N; i++) {
        ME_PASS(recv_now(me, 1, 1, &value, sizeof value));
        ME_EXPECT(value == i);
    }
    ME_FAIL(recv_now(me, 1, 2, in, LONG), TS_ENETWORK, "is gone: ");
    ME_FAIL(recv_now(me, 1, 1, &value, sizeof value), TS_ENETWORK, "rank 1 (pid ");
    ME_EXPECT(!me->graceful);
    free(in);
}

TS_TEST(mail_of_a_killed_peer) { run_processes(test, 2, 0, killed_with_mail); }

/* The receiver is stopped while it copies; the sender gives up and uses the memory for something else.
 * What the receiver then goes on reading does not count as the message. */
enum { STOPPED_BYTES = TS_MAIL_PULL_BYTES }; /* one piece */
static char *stopping;                       /* whoever writes to its second half stops first */

static void stop_here(int number)
{
    (void)number;
    kill(getpid(), SIGSTOP);
    mprotect(stopping, STOPPED_BYTES, PROT_READ | PROT_WRITE);
}

static void send_to_stopped(peer_rank *me, int pid)
{
    for (int i = 0; i < 3; i++) {
        ts_message *m;
        char *buf = shared(STOPPED_BYTES, i);
        ME_PASS(recv_now(me, 1, 1, NULL, 0));
        ME_PASS(start_send(me, &m, 1, 2, buf, STOPPED_BYTES));
        ME_FAIL(ts_message_wait(m, ts_deadline_in(60), NULL), TS_ETIMEOUT, "rank 1 (pid ");
        memset(buf, 'x', STOPPED_BYTES);
        drop(buf);
        kill(pid, SIGCONT);
    }
}

static void stopped_while_copying(peer_rank *me)
{
    int pid = (int)getpid();
    struct sigaction action = {.sa_handler = stop_here};
    if (me->rank == 0) {
        ME_PASS(recv_now(me, 1, 3, &pid, sizeof pid));
        send_to_stopped(me, pid);
        return;
    }
    ME_PASS(send_now(me, 0, 3, &pid, sizeof pid));
    stopping =
        mmap(NULL, STOPPED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaction(SIGSEGV, &action, NULL);
    for (int i = 0; i < 3; i++) {
        ts_message *m;
        mprotect(stopping + STOPPED_BYTES / 2, STOPPED_BYTES / 2, PROT_NONE);
        ME_PASS(start_recv(me, &m, 0, 2, stopping, STOPPED_BYTES));
        ME_PASS(send_now(me, 0, 1, NULL, 0));
        ME_FAIL(ts_message_wait(m, soon(), NULL), TS_EREMOTE, "gave up sending");
    }
    munmap(stopping, STOPPED_BYTES);
}

TS_TEST(mail_receiver_stopped_while_it_copies) { run_processes(test, 2, 0, stopped_while_copying); }

/* Rings go back to the heap. */
static void meet_again(peer_rank *me)
{
    int64_t place[3];
    for (int i = 0; i < 3; i++) {
        int value = i;
        ts_message *s;
        ts_store *shared_store = me->store;
        ME_PASS(ts_prefix_store_new(&me->store, i == 0 ? "a" : i == 1 ? "b" : "c", shared_store));
        ME_PASS(make_engine(me, me->rank, 2, 20000));
        ME_PASS(start_send(me, &s, 1 - me->rank, 1, &value, sizeof value));
        ME_PASS(recv_now(me, 1 - me->rank, 1, &value, sizeof value));
        ME_PASS(ts_message_wait(s, soon(), NULL));
        place[i] = me->engine->office->box->to[1 - me->rank].ring;
        ts_engine_free(me->engine);
        ts_store_free(me->store);
        me->store = shared_store;
    }
    ME_EXPECT(place[1] == place[0] && place[2] == place[0]);
}

TS_TEST(mail_rings_are_given_back) { run_bare_processes(test, 2, meet_again); }

/* SPDX-License-Identifier: Apache-2.0 */
/* Making the links: what is shared, who is refused. */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "comm/engine_impl.h"
#include "comm/engine_test.h"
#include "comm/handshake.h"
#include "net/socket.h"

/* ---- disagreement ---------------------------------------------------------------------------- */

static void sizes_differ(peer_rank *me)
{
    int size = me->rank == 2 ? 4 : 3;
    if (me->rank == 2) usleep(30000);
    ME_FAIL(make_engine(me, me->rank, size, 20000), TS_EMISMATCH, "world sizes differ");
    ME_EXPECT(strstr(ts_error_last(), "has 4") && strstr(ts_error_last(), "has 3"));
}

TS_TEST(engine_world_sizes_that_differ, .timeout_s = 10)
{
    run_bare_threads(test, 3, sizes_differ);
}

static void too_few(peer_rank *me)
{
    int size = me->rank == 0 ? 2 : 5; /* rank 1 waits for ranks that never come */
    if (me->rank == 0) usleep(30000);
    ME_FAIL(make_engine(me, me->rank, size, 20000), TS_EMISMATCH, "world sizes differ");
}

TS_TEST(engine_world_size_too_large, .timeout_s = 10) { run_bare_threads(test, 2, too_few); }

static void started_twice(peer_rank *me)
{
    int rank = me->rank == 2 ? 1 : me->rank; /* 0, 1, 1 */
    if (me->rank == 2) usleep(30000);
    ME_FAIL(make_engine(me, rank, 3, 20000), TS_EMISMATCH, "rank 1 was started twice: pid ");
}

TS_TEST(engine_rank_started_twice, .timeout_s = 10) { run_bare_threads(test, 3, started_twice); }

static void nobody_comes(peer_rank *me)
{
    ME_FAIL(make_engine(me, 1, 4, 100), TS_ETIMEOUT,
            "3 of 4 ranks have not joined within 100 ms: 0, 2, 3");
}

TS_TEST(engine_ranks_that_never_join, .timeout_s = 10) { run_bare_threads(test, 1, nobody_comes); }

static void bad_arguments(peer_rank *me)
{
    ME_FAIL(make_engine(me, 2, 2, 100), TS_EINVAL, "rank 2 is not in 0 .. 1");
    ME_PASS(make_engine(me, 0, 1, 100));
    char byte = 0;
    ME_FAIL(send_now(me, 1, 0, &byte, 1), TS_EINVAL, "send to rank 1");
    ME_FAIL(recv_now(me, -2, 0, &byte, 1), TS_EINVAL, "receive from rank -2");
    ts_engine_free(me->engine);
    ts_engine_free(NULL);
}

TS_TEST(engine_arguments) { run_bare_threads(test, 1, bad_arguments); }

/* ---- strangers ------------------------------------------------------------------------------- */

/* Connections that say nothing, nonsense, or greet for another run, before the peer comes. */
static void bother(const ts_record *r)
{
    uint8_t bytes[TS_HELLO_BYTES];
    ts_hello hello = {.rank = 1, .size = 2, .incarnation = 1, .to_incarnation = r->incarnation};
    for (int i = 0; i < 8; i++) {
        int fd = -1;
        ts_status s =
            i % 2 ? ts_unix_connect(&fd, r->local, soon())
                  : ts_tcp_connect(&fd, r->endpoint[0].address, r->endpoint[0].port, soon());
        if (s != TS_OK) continue;
        ts_hello_write(bytes, &hello, "", i < 4 ? "test" : "another");
        if (i < 6) ts_send_all(fd, bytes, i < 2 ? 7 : sizeof bytes, "rank 0", soon());
        if (i != 6) close(fd); /* one stays until the end of the process */
    }
}

static void strangers(peer_rank *me)
{
    if (me->rank == 1) {
        void *value;
        size_t size;
        ts_record r;
        ME_PASS(ts_store_get(me->store, "rank/0", &value, &size));
        ME_EXPECT(!ts_record_read(&r, value, size));
        free(value);
        bother(&r);
    }
    ME_PASS(make_engine(me, me->rank, 2, 20000));
    int out = me->rank, in = -1;
    ME_PASS(send_now(me, 1 - me->rank, 0, &out, sizeof out));
    ME_PASS(recv_now(me, 1 - me->rank, 0, &in, sizeof in));
    ME_EXPECT(in == 1 - me->rank);
    ts_engine_free(me->engine);
}

TS_TEST(engine_strangers_are_dropped) { run_bare_threads(test, 2, strangers); }

/* ---- hosts and heaps ------------------------------------------------------------------------- */

static void heaps(peer_rank *me)
{
    me->heap_fd = memfd_create("heap", MFD_CLOEXEC);
    char own = (char)(100 + me->rank);
    ME_EXPECT(ftruncate(me->heap_fd, 4096) == 0 && pwrite(me->heap_fd, &own, 1, 0) == 1);
    ME_PASS(make_engine(me, me->rank, me->size, 20000));
    for (int peer = 0; peer < me->size; peer++) {
        bool same = me->hosts == 0 || peer % me->hosts == me->rank % me->hosts;
        ts_peer_heap heap = ts_port_peer_heap(ts_engine_port(me->engine), peer);
        ME_EXPECT(ts_port_same_host(ts_engine_port(me->engine), peer) == same);
        bool shared = same && peer != me->rank && !getenv("TESSERA_SHARED_MEMORY");
        ME_EXPECT(heap.reserved == (shared ? 4096 : 0));
        ME_EXPECT(!heap.data == !shared && !heap.store == !shared);
        if (!shared) continue;
        ME_EXPECT(heap.data[0] == 100 + peer);
        heap.store[1 + me->rank] = own;
        ME_EXPECT(heap.data[1 + me->rank] == own);
        ts_peer_heap again = ts_port_peer_heap(ts_engine_port(me->engine), peer);
        ME_EXPECT(again.data == heap.data && again.store == heap.store);
    }
    ts_engine_free(me->engine);
    close(me->heap_fd);
}

TS_TEST(engine_heaps_within_a_host) { run_bare_threads(test, 4, heaps); }
TS_TEST(engine_heaps_stay_within_hosts) { run_bare_hosts(test, 4, 2, heaps); }
TS_TEST(engine_without_shared_memory)
{
    setenv("TESSERA_SHARED_MEMORY", "0", 1);
    run_bare_threads(test, 3, heaps);
}

/* ---- many ranks, nothing left behind --------------------------------------------------------- */

static void all_to_all(peer_rank *me)
{
    enum { N = 16, BYTES = 3000 };
    ts_message *m[2 * N];
    char *out[N], *in[N];
    for (int peer = 0; peer < me->size; peer++) {
        out[peer] = filled(BYTES, 16 * me->rank + peer);
        in[peer] = filled(BYTES, 0);
        ME_PASS(ts_port_recv(&m[peer], ts_engine_port(me->engine), peer, TS_CHANNEL_COLLECTIVE, 8,
                             in[peer], BYTES, NULL, NULL));
    }
    for (int peer = 0; peer < me->size; peer++)
        ME_PASS(ts_port_send(&m[N + peer], ts_engine_port(me->engine), peer, TS_CHANNEL_COLLECTIVE,
                             8, out[peer], BYTES, NULL, NULL));
    for (int peer = 0; peer < me->size; peer++) {
        ME_PASS(ts_message_wait(m[N + peer], soon(), NULL));
        ME_PASS(ts_message_wait(m[peer], soon(), NULL));
        char *expected = filled(BYTES, 16 * peer + me->rank);
        ME_EXPECT(memcmp(expected, in[peer], BYTES) == 0);
        free(expected);
    }
    for (int peer = 0; peer < me->size; peer++) {
        free(out[peer]);
        free(in[peer]);
    }
}

TS_TEST(engine_sixteen_ranks) { run_threads(test, 16, all_to_all); }
TS_TEST(engine_sixteen_ranks_on_three_hosts) { run_hosts(test, 16, 3, all_to_all); }

TS_TEST(engine_leaves_nothing_behind)
{
    run_hosts(test, 2, 2, all_to_all); /* sanitizers start threads of their own */
    run_threads(test, 2, all_to_all);  /* makes the shared heap, which stays */
    int descriptors = count_descriptors(), threads = count_threads();
    run_hosts(test, 6, 2, all_to_all);
    run_bare_threads(test, 3, started_twice);
    TS_EXPECT_INT(count_descriptors(), descriptors);
    TS_EXPECT_INT(count_threads(), threads);
}

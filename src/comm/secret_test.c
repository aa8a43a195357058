/* SPDX-License-Identifier: Apache-2.0 */
/* Links of a job with a secret: they work as always, and only for who knows it. */
#include <unistd.h>

#include "comm/engine_impl.h"
#include "comm/engine_test.h"
#include "comm/handshake.h"
#include "net/socket.h"

static void exchange(peer_rank *me)
{
    enum { BYTES = 200000 };
    int to = (me->rank + 1) % me->size, from = (me->rank + me->size - 1) % me->size;
    char *out = filled(BYTES, me->rank), *right = filled(BYTES, from), *in = filled(BYTES, -1);
    ts_message *m;
    ME_PASS(start_send(me, &m, to, 5, out, BYTES));
    ME_PASS(recv_now(me, from, 5, in, BYTES));
    ME_EXPECT(memcmp(in, right, BYTES) == 0);
    ME_PASS(ts_message_wait(m, soon(), NULL));
    free(out);
    free(right);
    free(in);
}

TS_TEST(secret_links_carry_messages)
{
    setenv("TESSERA_SECRET", "correct horse battery staple", 1);
    run_threads(test, 3, exchange);
    run_by_socket(test, 3, exchange);
    run_hosts(test, 4, 2, exchange);
    setenv("TESSERA_SOCKETS_PER_PEER", "3", 1);
    run_hosts(test, 4, 4, exchange);
    setenv("TORCH_GLOO_LAZY_INIT", "yes", 1);
    for (int i = 0; i < 3; i++) run_hosts(test, 5, 5, exchange);
}

TS_TEST(secret_links_between_processes)
{
    setenv("TESSERA_SECRET", "correct horse battery staple", 1);
    run_processes(test, 3, 0, exchange);
}

TS_TEST(encrypted_links_carry_messages)
{
    setenv("TESSERA_SECRET", "correct horse battery staple", 1);
    setenv("TESSERA_TLS", "1", 1);
    run_hosts(test, 4, 2, exchange);
    setenv("TESSERA_SOCKETS_PER_PEER", "3", 1);
    run_hosts(test, 4, 4, exchange);
    setenv("TORCH_GLOO_LAZY_INIT", "yes", 1);
    for (int i = 0; i < 3; i++) run_hosts(test, 5, 5, exchange);
}

TS_TEST(encrypted_links_between_processes)
{
    setenv("TESSERA_SECRET", "correct horse battery staple", 1);
    setenv("TESSERA_TLS", "1", 1);
    run_processes(test, 4, 2, exchange);
}

static void secrets_differ(peer_rank *me)
{
    setenv("TESSERA_SECRET", me->rank == 1 ? "the wrong one, sadly" : "correct horse battery", 1);
    ts_status status = make_engine(me, me->rank, me->size, 5000);
    ME_EXPECT(status == TS_ENETWORK || status == TS_EREMOTE);
    ME_EXPECT(strstr(ts_error_last(), "is its secret (TESSERA_SECRET) the same?"));
}

TS_TEST(secrets_that_differ, .timeout_s = 10) { run_bare_processes(test, 2, secrets_differ); }

static void one_has_none(peer_rank *me)
{
    if (me->rank == 0) setenv("TESSERA_SECRET", "correct horse battery", 1);
    ME_FAIL(make_engine(me, me->rank, me->size, 5000), TS_EMISMATCH, "has no secret");
    ME_EXPECT(strstr(ts_error_last(), "has a secret"));
}

TS_TEST(secret_that_one_rank_lacks, .timeout_s = 10)
{
    ts_test_in_the_clear();
    run_bare_processes(test, 2, one_has_none);
}

/* ---- byte for byte --------------------------------------------------------------------------- */

TS_TEST(secret_greetings_cannot_be_replayed)
{
    ts_key key, other, none = {.given = false};
    ts_nonces ours = {.accepting = {1}}, theirs = ours;
    uint8_t bytes[TS_GREETING_MAX] = "hello";
    setenv("TESSERA_SECRET", "correct horse battery", 1);
    TS_PASS(ts_key_load(&key, "link"));
    TS_PASS(ts_key_load(&other, "store")); /* the key of another purpose is another */
    TS_EXPECT_INT(ts_greeting_bytes(&key), TS_GREETING_MAX);
    TS_EXPECT_INT(ts_greeting_bytes(&none), TS_HELLO_BYTES);
    TS_PASS(ts_greeting_prove(bytes, &key, &ours, true));
    TS_EXPECT(!ts_greeting_check(bytes, &key, &theirs, true));
    TS_EXPECT(memcmp(&ours, &theirs, sizeof ours) == 0);
    TS_EXPECT(ts_greeting_check(bytes, &other, &theirs, true));
    TS_EXPECT(ts_greeting_check(bytes, &key, &theirs, false)); /* nor sent back */
    theirs.accepting[0]++;
    TS_EXPECT(ts_greeting_check(bytes, &key, &theirs, true)); /* nor on another connection */
    theirs.accepting[0]--;
    bytes[3]++;
    TS_EXPECT(ts_greeting_check(bytes, &key, &theirs, true)); /* nor altered */
    TS_EXPECT(!ts_greeting_check(bytes, &none, &theirs, true));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Who may use a store that has a secret, and that strangers do not hold up others. */
#include "store/auth.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "net/socket.h"
#include "store/server.h"
#include "store/session.h"
#include "store/store_test.h"

static const char secret[] = "correct horse battery staple";
static const char other_secret[] = "incorrect horse battery staple";

static ts_status open_store(ts_store **out, int port, bool master, const char *with)
{
    ts_tcp_store_options opt = TS_TCP_STORE_OPTIONS_INIT;
    opt.port = port;
    opt.is_master = master;
    opt.timeout_ms = 2000;
    if (with)
        setenv("TESSERA_SECRET", with, 1);
    else
        unsetenv("TESSERA_SECRET");
    ts_status status = ts_tcp_store_new(out, &opt);
    unsetenv("TESSERA_SECRET");
    return status;
}

TS_TEST(secret_store_serves_who_knows_it)
{
    ts_store *master, *client;
    char path[256];
    TS_PASS(open_store(&master, 0, true, secret));
    int port = ts_tcp_store_port(master);
    TS_PASS(open_store(&client, port, false, secret));
    TS_PASS(ts_store_set(client, "k", "v", 1));
    HOLDS(master, "k", "v", 1);
    TS_FAIL(ts_store_wait(client, (const char *const[]){"absent"}, 1, 20), TS_ETIMEOUT, "absent");
    HOLDS(client, "k", "v", 1);
    ts_store_free(client);

    FILE *file = fopen(test_path(test, path, "secret"), "w");
    fprintf(file, "%s\r\n", secret);
    fclose(file);
    chmod(path, 0600);
    setenv("TESSERA_SECRET_FILE", path, 1);
    TS_PASS(open_store(&client, port, false, NULL));
    HOLDS(client, "k", "v", 1);
    ts_store_free(client);
    TS_FAIL(open_store(&client, port, false, secret), TS_EINVAL, "both set");
    setenv("TESSERA_SECRET_FILE", "/no/such/file", 1);
    TS_FAIL(open_store(&client, port, false, NULL), TS_EINVAL, "/no/such/file");
    unsetenv("TESSERA_SECRET_FILE");
    TS_FAIL(open_store(&client, port, false, "too short"), TS_EINVAL, "9 bytes");
    ts_store_free(master);
}

/* Each is told at once and by name. */
TS_TEST(secret_store_refuses_the_others)
{
    ts_store *with, *without, *client;
    ts_test_in_the_clear();
    TS_PASS(open_store(&with, 0, true, secret));
    TS_PASS(open_store(&without, 0, true, NULL));
    int64_t start = ts_now_ns();
    TS_FAIL(open_store(&client, ts_tcp_store_port(with), false, other_secret), TS_ESTORE,
            "the client's secret is not the server's");
    TS_EXPECT_TEXT(ts_error_last(), "TCP store 127.0.0.1:");
    TS_FAIL(open_store(&client, ts_tcp_store_port(with), false, NULL), TS_ESTORE,
            "set TESSERA_SECRET here too");
    TS_FAIL(open_store(&client, ts_tcp_store_port(without), false, secret), TS_ESTORE,
            "the server has none");
    TS_EXPECT(seconds_since(start) < 1);
    TS_PASS(ts_store_set(with, "k", "v", 1));
    ts_store_free(with);
    ts_store_free(without);
}

TS_TEST(encrypted_store_serves_who_has_the_key)
{
    ts_store *master, *client;
    char *large = malloc(3 << 20);
    memset(large, 'x', 3 << 20);
    setenv("TESSERA_TLS", "1", 1);
    TS_FAIL(open_store(&master, 0, true, NULL), TS_EINVAL, "there is no secret");
    TS_PASS(open_store(&master, 0, true, secret));
    TS_PASS(open_store(&client, ts_tcp_store_port(master), false, secret));
    TS_PASS(ts_store_set(client, "k", large, 3 << 20));
    HOLDS(master, "k", large, 3 << 20);
    TS_FAIL(ts_store_wait(client, (const char *const[]){"absent"}, 1, 20), TS_ETIMEOUT, "absent");
    TS_FAIL(ts_store_clone(&client, client), TS_EINVAL, "there is no secret"); /* unset by now */
    ts_store_free(client);
    int64_t start = ts_now_ns();
    TS_FAIL(open_store(&client, ts_tcp_store_port(master), false, other_secret), TS_ENETWORK,
            "TESSERA_TLS the same");
    TS_EXPECT(seconds_since(start) < 5);
    unsetenv("TESSERA_TLS");
    TS_FAIL(open_store(&client, ts_tcp_store_port(master), false, secret), TS_ENETWORK,
            "TESSERA_TLS the same");
    HOLDS(master, "k", large, 3 << 20);
    ts_store_free(master);
    free(large);
}

TS_TEST(store_of_another_run_is_refused)
{
    ts_store *master, *client;
    int64_t keys;
    ts_test_in_the_clear();
    setenv("TESSERA_RUN_ID", "first", 1);
    TS_PASS(open_store(&master, 0, true, NULL));
    TS_PASS(open_store(&client, ts_tcp_store_port(master), false, NULL));
    ts_store_free(client);
    setenv("TESSERA_RUN_ID", "second", 1);
    TS_FAIL(open_store(&client, ts_tcp_store_port(master), false, NULL), TS_ESTORE, "another run");
    TS_EXPECT_TEXT(ts_error_last(), "first");
    TS_EXPECT_TEXT(ts_error_last(), "second");
    unsetenv("TESSERA_RUN_ID");
    TS_PASS(open_store(&client, ts_tcp_store_port(master), false, NULL));
    TS_PASS(ts_store_num_keys(client, &keys));
    TS_EXPECT_INT(keys, 1);
    ts_store_free(client);
    ts_store_free(master);
}

/* ---- byte for byte --------------------------------------------------------------------------- */

static void keep(ts_session *session) { (void)session; }

typedef struct wire {
    ts_session session;
    ts_buffer sent; /* by the client */
    bool open;
} wire;

static ts_status to_server(void *user, const void *data, size_t size)
{
    wire *w = user;
    const char *why;
    ts_buffer_put(&w->sent, data, size);
    w->open = w->open && ts_session_feed(&w->session, data, size, &why);
    return TS_OK;
}

static ts_status from_server(void *user, void *data, size_t size)
{
    wire *w = user;
    if (w->session.out.size < size) return ts_fail(TS_ENETWORK, "closed");
    memcpy(data, w->session.out.data, size);
    ts_buffer_drop(&w->session.out, size);
    return TS_OK;
}

static void wire_init(wire *w, ts_hub *hub)
{
    *w = (wire){.open = true};
    ts_session_init(&w->session, hub, NULL);
}

static void wire_fini(wire *w)
{
    ts_session_fini(&w->session);
    ts_buffer_fini(&w->sent);
}

static ts_key key_of(const char *text)
{
    ts_key key;
    setenv("TESSERA_SECRET", text, 1);
    if (ts_key_load(&key, "store") != TS_OK) key.given = false;
    unsetenv("TESSERA_SECRET");
    return key;
}

TS_TEST(secret_proof_cannot_be_replayed)
{
    ts_hub hub = {.key = key_of(secret), .flush = keep};
    ts_key key = hub.key, wrong = key_of(other_secret);
    wire good, again, bad, fake;
    uint8_t seen[4 + 32];
    const char *why = "";
    TS_EXPECT(key.given && memcmp(key.bytes, wrong.bytes, sizeof key.bytes) != 0);
    wire_init(&good, &hub);
    TS_PASS(ts_auth_connect(&key, "server", to_server, from_server, &good));
    TS_EXPECT(good.session.auth.stage == TS_AUTH_DONE);

    wire_init(&again, &hub); /* the same bytes on another connection */
    TS_PASS(to_server(&again, good.sent.data, good.sent.size));
    TS_EXPECT(!again.open);

    wire_init(&bad, &hub);
    TS_FAIL(ts_auth_connect(&wrong, "server", to_server, from_server, &bad), TS_ESTORE, "secret");
    TS_EXPECT(!bad.open);

    wire_init(&fake, &hub); /* who sends back the client's own proof is no server */
    TS_EXPECT(ts_session_feed(&fake.session, good.sent.data, TS_AUTH_HELLO, &why));
    TS_PASS(from_server(&fake, seen, sizeof seen));
    TS_EXPECT(!ts_session_feed(&fake.session, (const char *)seen + 4, 32, &why));
    TS_EXPECT_TEXT(why, "not the server's");
    wire_fini(&good);
    wire_fini(&again);
    wire_fini(&bad);
    wire_fini(&fake);
    ts_hub_fini(&hub);
}

static ts_status wrong_proof(void *user, void *data, size_t size)
{
    TS_TRY(from_server(user, data, size));
    wire *w = user;
    if (w->session.auth.stage == TS_AUTH_DONE && size == TS_PROOF_BYTES) *(uint8_t *)data ^= 1;
    return TS_OK;
}

TS_TEST(secret_server_must_prove_itself_too)
{
    ts_hub hub = {.key = key_of(secret), .flush = keep};
    wire w;
    wire_init(&w, &hub);
    TS_FAIL(ts_auth_connect(&hub.key, "server", to_server, wrong_proof, &w), TS_ESTORE,
            "does not know this job's secret");
    wire_fini(&w);
    ts_hub_fini(&hub);
}

/* Nothing of the protocol is done before the proof. */
TS_TEST(secret_comes_before_every_command)
{
    ts_hub hub = {.key = key_of(secret), .flush = keep};
    const char *why = "";
    for (int command = 0; command < 256; command++) {
        ts_session s;
        char bytes[64] = {(char)command};
        ts_session_init(&s, &hub, NULL);
        bool open = ts_session_feed(&s, bytes, sizeof bytes, &why);
        TS_EXPECT(!open || command == TS_AUTH_FIRST_BYTE);
        TS_EXPECT(!s.validated && hub.table.entries == 0);
        ts_session_fini(&s);
    }
    ts_hub_fini(&hub);
}

/* ---- strangers ------------------------------------------------------------------------------- */

TS_TEST(store_server_is_patient_for_a_while_only)
{
    ts_store_server *server;
    ts_store_server_options opt = {.listen_fd = -1, .host = "localhost", .patience_ms = 60};
    ts_store *client;
    int fd;
    char byte;
    ts_test_in_the_clear();
    TS_PASS(ts_store_server_start(&server, &opt));
    int port = ts_store_server_port(server);
    TS_PASS(open_store(&client, port, false, NULL));
    TS_PASS(ts_tcp_connect(&fd, "127.0.0.1", port, ts_deadline_in(1000)));
    TS_PASS(ts_send_all(fd, "\0\xce", 2, "server", ts_deadline_in(1000)));
    int64_t start = ts_now_ns();
    TS_FAIL(ts_recv_all(fd, &byte, 1, "server", ts_deadline_in(2000)), TS_ENETWORK, "closed");
    TS_EXPECT(seconds_since(start) > 0.05 && seconds_since(start) < 1);
    TS_PASS(ts_store_set(client, "k", "v", 1)); /* who is known may be silent */
    close(fd);
    ts_store_free(client);
    ts_store_server_release(server);
}

static bool reaches(const char *host, int port)
{
    int fd;
    if (ts_tcp_connect_once(&fd, host, port, ts_deadline_in(500)) != TS_OK) return false;
    close(fd);
    return true;
}

TS_TEST(store_server_is_exposed_as_little_as_can_be)
{
    ts_store_server *server;
    ts_store_server_options opt = {.listen_fd = -1, .host = "127.0.0.1"};
    TS_PASS(ts_store_server_start(&server, &opt));
    int port = ts_store_server_port(server), fd;
    TS_EXPECT(reaches("127.0.0.1", port));
    TS_EXPECT(!reaches("127.0.0.2", port)); /* not every address */
    if (ts_tcp_listen(&fd, "::1", 0) == TS_OK) {
        close(fd);
        TS_EXPECT(reaches("::1", port));
    }
    ts_store_server_release(server);
    opt.host = "";
    TS_PASS(ts_store_server_start(&server, &opt));
    TS_EXPECT(reaches("127.0.0.2", ts_store_server_port(server)));
    ts_store_server_release(server);
}

/* With too few descriptors new clients are turned away, with a word about it, and the others served. */
TS_TEST(store_server_tells_of_too_few_descriptors)
{
    ts_store *master, *client;
    struct rlimit limit;
    char text[2000];
    ts_test_in_the_clear();
    int fds[64], n = 0, former = dup(2);
    FILE *file = tmpfile();
    TS_PASS(open_store(&master, 0, true, NULL));
    TS_PASS(open_store(&client, ts_tcp_store_port(master), false, NULL));
    TS_EXPECT_INT(getrlimit(RLIMIT_NOFILE, &limit), 0);
    dup2(fileno(file), 2);
    int next = dup(0);
    limit.rlim_cur = (rlim_t)next + 21;
    setrlimit(RLIMIT_NOFILE, &limit);
    close(next);
    while (n < 64 && ts_tcp_connect_once(&fds[n], "127.0.0.1", ts_tcp_store_port(master),
                                         ts_deadline_in(500)) == TS_OK) {
        n++;
        usleep(1000); /* so that each is accepted before the next takes a descriptor here */
    }
    usleep(50000);
    ts_status status = ts_store_set(client, "k", "v", 1);
    while (n > 0) close(fds[--n]);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    dup2(former, 2);
    close(former);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    TS_PASS(status);
    TS_EXPECT_TEXT(text, "open files");
    TS_EXPECT_TEXT(text, "ulimit -n");
    ts_store_free(client);
    ts_store_free(master);
}

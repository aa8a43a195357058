/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <pthread.h>

#include "net/socket.h"
#include "store/store_test.h"
#include "store/wire.h"

static ts_status open_master(ts_store **out, int port, int world_size, int64_t timeout_ms)
{
    ts_tcp_store_options opt = TS_TCP_STORE_OPTIONS_INIT;
    opt.port = port;
    opt.is_master = true;
    opt.world_size = world_size;
    opt.timeout_ms = timeout_ms;
    return ts_tcp_store_new(out, &opt);
}

static ts_status open_client(ts_store **out, const char *host, int port, int world_size,
                             int64_t timeout_ms)
{
    ts_tcp_store_options opt = TS_TCP_STORE_OPTIONS_INIT;
    opt.host = host;
    opt.port = port;
    opt.world_size = world_size;
    opt.timeout_ms = timeout_ms;
    return ts_tcp_store_new(out, &opt);
}

/* ---- several processes ----------------------------------------------------------------------- */

typedef struct job {
    int port, users;
    int leave[2]; /* a pipe: the master leaves when its write end is closed */
} job;

static ts_status use_store(int index, void *arg)
{
    const job *j = arg;
    ts_store *store;
    char key[32], gone;
    int64_t total;
    void *value;
    close(j->leave[1]);
    if (index == 0)
        TS_TRY(open_master(&store, j->port, j->users, 10000));
    else
        TS_TRY(open_client(&store, "127.0.0.1", j->port, j->users, 10000));
    for (int i = 0; i < 50; i++) {
        TS_TRY(ts_store_add(store, "count", 1, &total));
        TS_TRY(ts_store_append(store, "log", "x", 1));
        snprintf(key, sizeof key, "%d/%d", index, i);
        TS_TRY(ts_store_set(store, key, key, strlen(key)));
        snprintf(key, sizeof key, "%d/%d", (index + i) % j->users, i);
        TS_TRY(ts_store_get(store, key, &value, NULL));
        if (strcmp(value, key) != 0)
            return ts_fail(TS_EMISMATCH, "%s holds %s", key, (char *)value);
        free(value);
    }
    TS_TRY(ts_store_add(store, "end", 1, &total));
    if (total == j->users) TS_TRY(ts_store_set(store, "all", "", 0));
    TS_TRY(ts_store_wait(store, (const char *const[]){"all"}, 1, -1));
    TS_TRY(ts_store_add(store, "count", 0, &total));
    if (total != 50 * j->users) return ts_fail(TS_EMISMATCH, "count is %d", (int)total);
    TS_TRY(ts_store_num_keys(store, &total));
    if (total != 50 * j->users + 5) return ts_fail(TS_EMISMATCH, "%d keys", (int)total);
    if (index == 0 && read(j->leave[0], &gone, 1) != 0) return TS_EIO; /* the server goes last */
    ts_store_free(store);
    return TS_OK;
}

TS_TEST(tcp_store_sixteen_processes)
{
    children c;
    job j = {ts_test_port(), 16, {-1, -1}};
    TS_EXPECT_INT(pipe(j.leave), 0);
    start_children(&c, 16, use_store, &j);
    int good = 0;
    for (int i = 1; i < 16; i++) good += join_child(&c, i) == TS_OK;
    TS_EXPECT_INT(good, 15);
    close(j.leave[1]);
    TS_EXPECT_INT(join_child(&c, 0), TS_OK);
}

static ts_status use_inherited(int index, void *arg)
{
    char key[32];
    void *value;
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "%d/%d", index, i);
        TS_TRY(ts_store_set(arg, key, key, strlen(key)));
        TS_TRY(ts_store_get(arg, key, &value, NULL));
        if (strcmp(value, key) != 0)
            return ts_fail(TS_EMISMATCH, "%s holds %s", key, (char *)value);
        free(value);
    }
    ts_store_free(arg);
    return TS_OK;
}

TS_TEST(tcp_store_handle_may_be_used_after_fork)
{
    ts_store *master;
    children c;
    TS_PASS(open_master(&master, 0, 0, 5000));
    start_children(&c, 4, use_inherited, master);
    for (int i = 0; i < 100; i++) TS_PASS(ts_store_set(master, "own", "x", 1));
    TS_EXPECT_INT(join_children(&c, TS_OK), 4);
    TS_PASS(ts_store_set(master, "own", "x", 1)); /* the server is still there */
    ts_store_free(master);
}

static ts_status wait_forever(int index, void *arg)
{
    const job *j = arg;
    ts_store *store;
    (void)index;
    TS_TRY(open_client(&store, "127.0.0.1", j->port, 0, 10000));
    TS_TRY(ts_store_set(store, "ready", "", 0));
    return ts_store_wait(store, (const char *const[]){"never"}, 1, 0);
}

TS_TEST(tcp_store_client_death_frees_its_wait)
{
    ts_store *master;
    children c;
    TS_PASS(open_master(&master, 0, 0, 5000));
    job j = {.port = ts_tcp_store_port(master)};
    start_children(&c, 1, wait_forever, &j);
    TS_PASS(ts_store_wait(master, (const char *const[]){"ready"}, 1, 5000));
    usleep(20000);
    kill(c.pid[0], SIGKILL);
    TS_EXPECT_INT(join_child(&c, 0), -1);
    TS_PASS(ts_store_set(master, "never", "now", 3)); /* nobody is there to be told */
    TS_PASS(ts_store_set(master, "k", "v", 1));
    ts_store_free(master);
}

typedef struct waiting {
    ts_store *store;
    ts_status status;
    int64_t ended_ns;
    char text[256];
} waiting;

static void *wait_in_thread(void *arg)
{
    waiting *w = arg;
    w->status = ts_store_wait(w->store, (const char *const[]){"never"}, 1, 0);
    w->ended_ns = ts_now_ns();
    snprintf(w->text, sizeof w->text, "%s", ts_error_last());
    return NULL;
}

TS_TEST(tcp_store_server_death_ends_waits)
{
    ts_store *master, *client;
    pthread_t thread;
    TS_PASS(open_master(&master, 0, 0, 60000));
    TS_PASS(open_client(&client, "127.0.0.1", ts_tcp_store_port(master), 0, 60000));
    waiting w = {.store = client};
    pthread_create(&thread, NULL, wait_in_thread, &w);
    usleep(30000);
    int64_t start = ts_now_ns();
    ts_store_free(master);
    pthread_join(thread, NULL);
    TS_EXPECT_INT(w.status, TS_ENETWORK);
    TS_EXPECT_TEXT(w.text, "has closed the connection");
    TS_EXPECT_TEXT(w.text, "TCP store 127.0.0.1:");
    for (int i = 0; i < 3; i++)
        TS_FAIL(ts_store_set(client, "k", "v", 1), TS_ENETWORK, "127.0.0.1");
    TS_EXPECT(seconds_since(start) < 1);
    ts_store_free(client);
}

/* ---- joining --------------------------------------------------------------------------------- */

TS_TEST(tcp_store_client_gives_up_by_name)
{
    ts_store *store;
    char port[32];
    int number = ts_test_port();
    snprintf(port, sizeof port, "port %d", number);
    int64_t start = ts_now_ns();
    TS_FAIL(open_client(&store, "127.0.0.1", number, 0, 300), TS_ENETWORK,
            "cannot connect to host '127.0.0.1'");
    TS_EXPECT(seconds_since(start) >= 0.3 && seconds_since(start) < 1.0);
    TS_EXPECT_TEXT(ts_error_last(), port);
    TS_EXPECT_TEXT(ts_error_last(), "refused");
    TS_EXPECT_TEXT(ts_error_last(), " attempts in 0.");
    TS_EXPECT(!store);
    TS_FAIL(open_client(&store, "no.such.host.invalid", 29500, 0, 300), TS_ENETWORK,
            "no.such.host.invalid");
    TS_FAIL(open_client(&store, "127.0.0.1", 0, 0, 300), TS_EINVAL, "port 0");
    TS_FAIL(open_client(&store, "127.0.0.1", 70000, 0, 300), TS_EINVAL, "70000");
    TS_FAIL(open_client(&store, "127.0.0.1", 29500, 0, -5), TS_EINVAL, "negative");
    TS_FAIL(ts_tcp_store_new(NULL, NULL), TS_EINVAL, "out");
    TS_FAIL(ts_tcp_store_new(&store, &(ts_tcp_store_options){.port = 29500}), TS_EINVAL, "_INIT");
}

typedef struct late_master {
    int port;
    ts_store *store;
    ts_status status;
} late_master;

static void *start_late(void *arg)
{
    late_master *m = arg;
    usleep(150000);
    m->status = open_master(&m->store, m->port, 0, 5000);
    return NULL;
}

TS_TEST(tcp_store_client_may_start_first)
{
    ts_store *client;
    pthread_t thread;
    late_master m = {.port = ts_test_port()};
    pthread_create(&thread, NULL, start_late, &m);
    int64_t start = ts_now_ns();
    ts_status status = open_client(&client, "127.0.0.1", m.port, 0, 5000);
    double seconds = seconds_since(start);
    pthread_join(thread, NULL);
    TS_PASS(m.status);
    TS_PASS(status);
    TS_EXPECT(seconds > 0.1 && seconds < 0.5);
    ts_store_free(client);
    ts_store_free(m.store);
}

TS_TEST(tcp_store_port_taken_is_told_at_once)
{
    ts_store *first, *second;
    char port[32];
    TS_PASS(open_master(&first, 0, 0, 5000));
    snprintf(port, sizeof port, "port %d", ts_tcp_store_port(first));
    int64_t start = ts_now_ns();
    TS_FAIL(open_master(&second, ts_tcp_store_port(first), 0, 5000), TS_ENETWORK,
            "Address already in use");
    TS_EXPECT_TEXT(ts_error_last(), port);
    TS_EXPECT(seconds_since(start) < 0.5);
    TS_EXPECT(!second);
    ts_store_free(first);
}

/* Below torchrun the agent serves on the master's port: rank 0 becomes its client. */
TS_TEST(tcp_store_of_the_agent_is_used)
{
    ts_store *agent, *rank0;
    char port[16];
    void *value;
    TS_PASS(open_master(&agent, 0, 0, 5000));
    snprintf(port, sizeof port, "%d", ts_tcp_store_port(agent));
    setenv("MASTER_PORT", port, 1);
    TS_FAIL(open_master(&rank0, atoi(port), 0, 5000), TS_ENETWORK, "already in use");
    setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
    TS_PASS(open_master(&rank0, atoi(port), 0, 5000));
    TS_PASS(ts_store_set(rank0, "k", "v", 1));
    TS_PASS(ts_store_get(agent, "k", &value, NULL));
    TS_EXPECT_STR((char *)value, "v");
    free(value);
    ts_store_free(rank0);
    ts_store_free(agent);
}

TS_TEST(tcp_store_warns_of_a_short_backlog)
{
    char text[1000];
    ts_tcp_store_options opt = TS_TCP_STORE_OPTIONS_INIT;
    ts_store *store;
    int former = dup(2);
    FILE *file = tmpfile();
    opt.port = 0;
    opt.is_master = true;
    opt.world_size = 1234567890;
    opt.wait_for_workers = false;
    dup2(fileno(file), 2);
    ts_status status = ts_tcp_store_new(&store, &opt);
    dup2(former, 2);
    close(former);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    TS_PASS(status);
    ts_store_free(store);
    TS_EXPECT_TEXT(text, "1234567890 workers");
    TS_EXPECT_TEXT(text, "somaxconn is ");
}

TS_TEST(tcp_store_port_of_a_finished_run_is_free_again)
{
    int port = ts_test_port();
    for (int i = 0; i < 10; i++) {
        ts_store *master, *client;
        TS_PASS(open_master(&master, port, 0, 5000));
        TS_EXPECT_INT(ts_tcp_store_port(master), port);
        TS_PASS(open_client(&client, "localhost", port, 0, 5000));
        TS_PASS(ts_store_set(client, "k", "v", 1));
        ts_store_free(master); /* the server closes first, so the port waits in the kernel */
        ts_store_free(client);
    }
}

TS_TEST(tcp_store_waits_for_workers)
{
    ts_store *store;
    int64_t start = ts_now_ns();
    TS_FAIL(open_master(&store, 0, 3, 200), TS_ETIMEOUT,
            "1 of 3 workers have joined within 200 ms");
    TS_EXPECT(seconds_since(start) >= 0.2 && seconds_since(start) < 1.0);
    TS_PASS(open_master(&store, 0, 1, 200));
    int64_t keys;
    TS_PASS(ts_store_num_keys(store, &keys));
    TS_EXPECT_INT(keys, 1); /* "init/" */
    ts_store_free(store);
}

TS_TEST(tcp_store_listens_on_a_given_socket)
{
    ts_tcp_store_options opt = TS_TCP_STORE_OPTIONS_INIT;
    ts_store *store;
    opt.is_master = true;
    TS_PASS(ts_tcp_listen(&opt.master_listen_fd, "127.0.0.1", 0));
    int port = ts_socket_port(opt.master_listen_fd);
    char text[32];
    snprintf(text, sizeof text, "port %d", port);
    TS_FAIL(ts_tcp_store_new(&store, &opt), TS_EINVAL, text);
    TS_EXPECT_TEXT(ts_error_last(), "29500");
    opt.port = port;
    TS_PASS(ts_tcp_store_new(&store, &opt));
    TS_EXPECT_INT(ts_tcp_store_port(store), port);
    TS_PASS(ts_store_set(store, "k", "v", 1));
    ts_store_free(store);
    TS_EXPECT(fcntl(opt.master_listen_fd, F_GETFD) < 0); /* closed */
    opt.port = 0;
    TS_FAIL(ts_tcp_store_new(&store, &opt), TS_EINVAL, "descriptor");
}

TS_TEST(tcp_store_masters_share_a_server)
{
    ts_tcp_store_options opt = TS_TCP_STORE_OPTIONS_INIT;
    ts_store *a, *b, *prefix;
    void *value;
    opt.is_master = opt.multi_tenant = true;
    opt.port = 0;
    TS_PASS(ts_tcp_store_new(&a, &opt));
    opt.port = ts_tcp_store_port(a);
    TS_PASS(ts_tcp_store_new(&b, &opt));
    TS_PASS(ts_store_set(a, "k", "v", 1));
    ts_store_free(a);
    TS_PASS(ts_store_get(b, "k", &value, NULL));
    TS_EXPECT_STR((char *)value, "v");
    free(value);
    TS_PASS(ts_prefix_store_new(&prefix, "p", b));
    TS_EXPECT_INT(ts_tcp_store_port(prefix), opt.port);
    ts_store_free(b);
    ts_store_free(prefix);
    TS_PASS(ts_hash_store_new(&a));
    TS_EXPECT_INT(ts_tcp_store_port(a), -1);
    TS_EXPECT_INT(ts_tcp_store_port(NULL), -1);
    ts_store_free(a);
    opt.multi_tenant = false;
    TS_PASS(ts_tcp_store_new(&b, &opt)); /* the port is free again */
    ts_store_free(b);
}

TS_TEST(tcp_store_ipv6_loopback)
{
    ts_store *master, *client;
    int fd;
    if (ts_tcp_listen(&fd, "::1", 0) != TS_OK) ts_test_skip(test, "no IPv6: %s", ts_error_last());
    TS_PASS(open_master(&master, 0, 0, 5000));
    TS_PASS(open_client(&client, "::1", ts_tcp_store_port(master), 0, 5000));
    TS_PASS(ts_store_set(client, "k", "v", 1));
    TS_FAIL(ts_store_wait(client, (const char *const[]){"absent"}, 1, 20), TS_ETIMEOUT,
            "TCP store [::1]:");
    ts_store_free(client);
    ts_store_free(master);
}

/* ---- strangers ------------------------------------------------------------------------------- */

/* Sends bytes on a connection of their own; true: the server closes it. */
static bool is_dropped(int port, const void *bytes, size_t size)
{
    int fd;
    char byte;
    ts_deadline deadline = ts_deadline_in(2000);
    if (ts_tcp_connect(&fd, "127.0.0.1", port, deadline) != TS_OK) return false;
    ts_send_all(fd, bytes, size, "server", deadline);
    ts_status status = TS_OK;
    while (status == TS_OK) status = ts_recv_all(fd, &byte, 1, "server", deadline);
    close(fd);
    return status == TS_ENETWORK;
}

TS_TEST(tcp_store_drops_strangers_only)
{
    ts_store *master, *client;
    ts_test_in_the_clear();
    TS_PASS(open_master(&master, 0, 0, 5000));
    int port = ts_tcp_store_port(master);
    TS_PASS(open_client(&client, "127.0.0.1", port, 0, 5000));
    static const char http[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    static const unsigned char wrong_magic[] = {0, 1, 2, 3, 4};
    static const unsigned char no_command[] = {0, 0xce, 0xf7, 0x85, 0x3c, 99};
    static const unsigned char long_key[] = {0,    0xce, 0xf7, 0x85, 0x3c, 3, 1,
                                             0x20, 0,    0,    0,    0,    0, 0};
    static const unsigned char long_value[] = {0,   0xce, 0xf7, 0x85, 0x3c, 1,   1,   0,
                                               0,   0,    0,    0,    0,    0,   'k', 0xff,
                                               255, 255,  255,  255,  255,  255, 127};
    static const unsigned char many_keys[] = {0, 0xce, 0xf7, 0x85, 0x3c, 6, 1, 0, 2, 0, 0, 0, 0, 0};
    TS_EXPECT(is_dropped(port, http, sizeof http));
    TS_EXPECT(is_dropped(port, wrong_magic, sizeof wrong_magic));
    TS_EXPECT(is_dropped(port, no_command, sizeof no_command));
    TS_EXPECT(is_dropped(port, long_key, sizeof long_key));
    TS_EXPECT(is_dropped(port, long_value, sizeof long_value));
    TS_EXPECT(is_dropped(port, many_keys, sizeof many_keys));
    TS_PASS(ts_store_set(client, "k", "v", 1));
    TS_PASS(ts_store_set(master, "k", "v", 1));
    ts_store_free(client);
    ts_store_free(master);
}

/* Something that is no store listens on the port. */
static void *answer_nonsense(void *listener)
{
    for (int i = 0, fd; i < 1; i++) {
        char got[10];
        if (ts_socket_accept(&fd, *(int *)listener, ts_deadline_in(5000)) != TS_OK) return NULL;
        ts_recv_all(fd, got, sizeof got, "client", ts_deadline_in(2000));
        ts_send_all(fd, "220 smtp ready", 14, "client", ts_deadline_in(2000));
        usleep(300000);
        close(fd);
    }
    return NULL;
}

TS_TEST(tcp_store_client_meets_something_else)
{
    int listener;
    ts_store *store;
    pthread_t thread;
    ts_test_in_the_clear();
    TS_PASS(ts_tcp_listen(&listener, "127.0.0.1", 0));
    pthread_create(&thread, NULL, answer_nonsense, &listener);
    TS_FAIL(open_client(&store, "127.0.0.1", ts_socket_port(listener), 0, 100), TS_ETIMEOUT,
            "TCP store 127.0.0.1:");
    pthread_join(thread, NULL);
}

/* A request that comes byte by byte, and two in one piece. */
TS_TEST(tcp_store_requests_in_pieces)
{
    ts_store *master;
    int fd;
    unsigned char reply[13];
    ts_deadline deadline = ts_deadline_in(5000);
    ts_test_in_the_clear();
    TS_PASS(open_master(&master, 0, 0, 5000));
    TS_PASS(ts_store_set(master, "k", "abc", 3));
    TS_PASS(ts_tcp_connect(&fd, "127.0.0.1", ts_tcp_store_port(master), deadline));
    static const unsigned char bytes[] = {0, 0xce, 0xf7, 0x85, 0x3c, 13, 1, 2, 3,   4,  3,
                                          2, 0,    0,    0,    0,    0,  0, 0, '/', 'k'};
    for (size_t i = 0; i < sizeof bytes; i++)
        TS_PASS(ts_send_all(fd, bytes + i, 1, "server", deadline));
    static const unsigned char expected[] = {1, 2, 3, 4, 3, 0, 0, 0, 0, 0, 0, 0, 'a'};
    TS_PASS(ts_recv_all(fd, reply, 13, "server", deadline));
    TS_EXPECT(memcmp(reply, expected, 13) == 0);
    close(fd);
    ts_store_free(master);
}

TS_TEST(tcp_store_leaves_nothing_behind)
{
    int first = -1;
    for (int i = 0; i < 5; i++) {
        ts_store *master, *client;
        TS_PASS(open_master(&master, 0, 0, 5000));
        TS_PASS(open_client(&client, "127.0.0.1", ts_tcp_store_port(master), 0, 5000));
        TS_PASS(ts_store_set(client, "k", "v", 1));
        ts_store_free(client);
        ts_store_free(master);
        int fd = dup(0);
        if (i == 1) first = fd;
        if (i > 1) TS_EXPECT_INT(fd, first);
        close(fd);
    }
}

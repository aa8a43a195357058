/* SPDX-License-Identifier: Apache-2.0 */
/* What users of other systems have reported about their stores. */
#include <pthread.h>

#include "net/socket.h"
#include "store/store_test.h"

static ts_status open_client(ts_store **out, int port, int64_t timeout_ms)
{
    ts_tcp_store_options opt = TS_TCP_STORE_OPTIONS_INIT;
    opt.port = port;
    opt.timeout_ms = timeout_ms;
    return ts_tcp_store_new(out, &opt);
}

static ts_status open_master(ts_store **out, int port)
{
    ts_tcp_store_options opt = TS_TCP_STORE_OPTIONS_INIT;
    opt.port = port;
    opt.is_master = true;
    return ts_tcp_store_new(out, &opt);
}

/* ---- waiting for several keys, one of which is there already ---------------------------------- */

enum { PLAIN, PREFIXED, PREFIXED_FILE, KINDS };

typedef struct place {
    int kind, port;
    const char *path;
} place;

static ts_status open_kind(ts_store **out, const place *p)
{
    ts_store *inner;
    if (p->kind == PREFIXED_FILE)
        TS_TRY(ts_file_store_new(&inner, p->path, 2));
    else
        TS_TRY(open_client(&inner, p->port, 10000));
    if (p->kind == PLAIN) return *out = inner, TS_OK;
    ts_status status = ts_prefix_store_new(out, "p", inner);
    ts_store_free(inner);
    return status;
}

static ts_status set_or_wait(int index, void *arg)
{
    static const char *const orders[2][2] = {{"k1", "k2"}, {"k2", "k1"}};
    ts_store *store;
    TS_TRY(open_kind(&store, arg));
    if (index == 0) {
        TS_TRY(ts_store_set(store, "k1", "1", 1));
        TS_TRY(ts_store_wait(store, (const char *const[]){"ready"}, 1, 5000));
        usleep(300000);
        TS_TRY(ts_store_set(store, "k2", "1", 1));
        TS_TRY(ts_store_wait(store, (const char *const[]){"end"}, 1, 5000));
    } else {
        TS_TRY(ts_store_wait(store, orders[0], 1, 5000));
        int64_t start = ts_now_ns();
        TS_TRY(ts_store_set(store, "ready", "1", 1));
        for (int i = 0; i < 2; i++) TS_TRY(ts_store_wait(store, orders[i], 2, 5000));
        double seconds = seconds_since(start);
        if (seconds < 0.29 || seconds > 1.5) return ts_fail(TS_ETIMEOUT, "after %g s", seconds);
        TS_TRY(ts_store_set(store, "end", "1", 1));
    }
    ts_store_free(store);
    return TS_OK;
}

TS_TEST(reported_wait_for_keys_of_which_one_is_there)
{
    for (int kind = 0; kind < KINDS; kind++) {
        char path[256];
        int listener;
        children c;
        ts_store *master;
        ts_tcp_store_options opt = TS_TCP_STORE_OPTIONS_INIT;
        TS_PASS(ts_tcp_listen(&listener, "127.0.0.1", 0));
        place p = {kind, ts_socket_port(listener), test_path(test, path, "store")};
        start_children(&c, 2, set_or_wait, &p);
        opt.port = p.port;
        opt.is_master = true;
        opt.master_listen_fd = listener;
        TS_PASS(ts_tcp_store_new(&master, &opt));
        TS_EXPECT_INT(join_children(&c, TS_OK), 2);
        ts_store_free(master);
    }
}

/* ---- a time-out that names what was waited for ------------------------------------------------ */

TS_TEST(reported_time_out_says_what_is_missing)
{
    ts_store *master, *client;
    char where[64];
    TS_PASS(open_master(&master, 0));
    TS_PASS(open_client(&client, ts_tcp_store_port(master), 5000));
    snprintf(where, sizeof where, "127.0.0.1:%d", ts_tcp_store_port(master));
    int64_t start = ts_now_ns();
    TS_FAIL(ts_store_wait(client, (const char *const[]){"absent"}, 1, 1000), TS_ETIMEOUT,
            "missing: 'absent'");
    double seconds = seconds_since(start);
    TS_EXPECT(seconds >= 1.0 && seconds < 1.5);
    TS_EXPECT_TEXT(ts_error_last(), "1000 ms");
    TS_EXPECT_TEXT(ts_error_last(), where);
    TS_PASS(ts_store_set(client, "k", "v", 1));
    HOLDS(client, "k", "v", 1);
    ts_store_free(client);
    ts_store_free(master);
}

/* ---- the limit counts while connecting -------------------------------------------------------- */

typedef struct late {
    int port;
    ts_store *store;
    ts_status status;
} late;

static void *start_late(void *arg)
{
    late *l = arg;
    usleep(1500000);
    l->status = open_master(&l->store, l->port);
    return NULL;
}

TS_TEST(reported_limit_holds_while_connecting)
{
    ts_store *client;
    char port[32];
    int number = ts_test_port();
    snprintf(port, sizeof port, "port %d", number);
    int64_t start = ts_now_ns();
    TS_FAIL(open_client(&client, number, 3000), TS_ENETWORK, "cannot connect to host '127.0.0.1'");
    double seconds = seconds_since(start);
    TS_EXPECT(seconds >= 3.0 && seconds < 4.0);
    TS_EXPECT_TEXT(ts_error_last(), port);
}

TS_TEST(reported_server_may_come_within_the_limit)
{
    ts_store *client;
    pthread_t thread;
    late l = {.port = ts_test_port()};
    pthread_create(&thread, NULL, start_late, &l);
    int64_t start = ts_now_ns();
    ts_status status = open_client(&client, l.port, 3000);
    double seconds = seconds_since(start);
    pthread_join(thread, NULL);
    TS_PASS(l.status);
    TS_PASS(status);
    TS_EXPECT(seconds >= 1.4 && seconds < 3);
    ts_store_free(client);
    ts_store_free(l.store);
}

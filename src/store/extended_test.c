/* SPDX-License-Identifier: Apache-2.0 */
/* Queues, lists of keys, barriers, clones and time limits, on every kind of store. */
#include <pthread.h>

#include "store/store_test.h"

/* The store of the least class offers no queues. */
static bool is_plain(ts_store *store)
{
    int64_t n;
    return ts_store_queue_len(store, "q", &n) == TS_EUNSUPPORTED &&
           ts_store_queue_push(store, "q", "x", 1) == TS_EUNSUPPORTED &&
           strstr(ts_error_last(), "does not offer");
}

static void check_queue(ts_test *test, ts_store *store)
{
    const char *key = "q";
    void *value;
    size_t size;
    int64_t n;
    bool there;
    if (is_plain(store)) return;
    TS_PASS(ts_store_queue_len(store, "q", &n));
    TS_EXPECT_INT(n, 0);
    TS_FAIL(ts_store_queue_pop(store, "q", false, &value, &size), TS_EEMPTY, "q' of ");
    TS_EXPECT(!value && ts_status_is(TS_EEMPTY, TS_ESTORE));
    TS_PASS(ts_store_check(store, &key, 1, &there));
    TS_EXPECT(!there);
    TS_PASS(ts_store_queue_push(store, "q", "a\0b", 3));
    TS_PASS(ts_store_queue_push(store, "q", NULL, 0));
    TS_PASS(ts_store_queue_push(store, "q", "last", 4));
    TS_PASS(ts_store_queue_len(store, "q", &n));
    TS_EXPECT_INT(n, 3);
    TS_PASS(ts_store_check(store, &key, 1, &there));
    TS_EXPECT(there);
    TS_PASS(ts_store_wait(store, &key, 1, 1000));
    TS_PASS(ts_store_queue_pop(store, "q", true, &value, &size));
    TS_EXPECT(size == 3 && memcmp(value, "a\0b", 4) == 0);
    free(value);
    TS_PASS(ts_store_queue_pop(store, "q", false, &value, &size));
    TS_EXPECT(size == 0 && value);
    free(value);
    TS_PASS(ts_store_queue_pop(store, "q", true, &value, NULL));
    TS_EXPECT_STR((char *)value, "last");
    free(value);
    TS_PASS(ts_store_set_timeout(store, 40));
    TS_FAIL(ts_store_queue_pop(store, "q", true, &value, &size), TS_ETIMEOUT, "q'");
    TS_PASS(ts_store_check(store, &key, 1, &there));
    TS_EXPECT(!there);
    TS_FAIL(ts_store_queue_pop(store, "q", true, NULL, &size), TS_EINVAL, "place");
    TS_FAIL(ts_store_queue_push(store, NULL, "", 0), TS_EINVAL, "NULL");
    TS_FAIL(ts_store_queue_push(store, "q", NULL, 1), TS_EINVAL, "size is 1");
}
TS_TEST(stores_queue_in_order) { on_every_kind(test, check_queue); }

typedef struct popper {
    ts_store *store;
    int number; /* what came; -1: nothing */
} popper;

static void *pop_one(void *arg)
{
    popper *p = arg;
    void *value;
    p->number = -1;
    if (ts_store_queue_pop(p->store, "jobs", true, &value, NULL) == TS_OK) {
        p->number = atoi(value);
        free(value);
    }
    return NULL;
}

static void check_poppers(ts_test *test, ts_store *store)
{
    enum { N = 4 };
    pthread_t thread[N];
    popper p[N];
    char text[8];
    int64_t left;
    unsigned seen = 0;
    if (is_plain(store)) return;
    for (int i = 0; i < N; i++) {
        p[i] = (popper){store, -1};
        pthread_create(&thread[i], NULL, pop_one, &p[i]);
    }
    usleep(20000);
    for (int i = 0; i < N; i++) {
        snprintf(text, sizeof text, "%d", i);
        TS_PASS(ts_store_queue_push(store, "jobs", text, strlen(text)));
    }
    for (int i = 0; i < N; i++) {
        pthread_join(thread[i], NULL);
        if (p[i].number >= 0) seen |= 1u << p[i].number;
    }
    TS_EXPECT_INT(seen, 15);
    TS_PASS(ts_store_queue_len(store, "jobs", &left));
    TS_EXPECT_INT(left, 0);
}
TS_TEST(stores_queue_wakes_one_per_push) { on_every_kind(test, check_poppers); }

static int index_of(char **keys, int64_t n, const char *key)
{
    for (int i = 0; i < n; i++)
        if (strcmp(keys[i], key) == 0) return i;
    return -1;
}

static void check_list(ts_test *test, ts_store *store)
{
    ts_store *prefix;
    char **keys;
    int64_t n;
    if (is_plain(store)) {
        TS_FAIL(ts_store_list_keys(store, &keys, &n), TS_EUNSUPPORTED, "store_list_keys");
        return;
    }
    TS_PASS(ts_store_list_keys(store, &keys, &n));
    TS_EXPECT(n == 0 && keys && !keys[0]);
    free(keys);
    TS_PASS(ts_prefix_store_new(&prefix, "p", store));
    TS_PASS(ts_store_set(store, "a", "1", 1));
    TS_PASS(ts_store_set(store, "", "1", 1));
    TS_PASS(ts_store_set(store, "pp", "1", 1));
    TS_PASS(ts_store_set(prefix, "b", "1", 1));
    TS_PASS(ts_store_queue_push(store, "queue", "1", 1));
    TS_PASS(ts_store_list_keys(store, &keys, &n));
    TS_EXPECT_INT(n, 4);
    TS_EXPECT(index_of(keys, n, "a") >= 0 && index_of(keys, n, "p/b") >= 0);
    TS_EXPECT(index_of(keys, n, "") >= 0 && index_of(keys, n, "pp") >= 0);
    free(keys);
    TS_PASS(ts_store_list_keys(prefix, &keys, &n));
    TS_EXPECT_INT(n, 1);
    TS_EXPECT_STR(keys[0], "b");
    free(keys);
    ts_store_free(prefix);
    TS_FAIL(ts_store_list_keys(store, NULL, &n), TS_EINVAL, "NULL");
}
TS_TEST(stores_list_keys_of_users) { on_every_kind(test, check_list); }

static void check_mixed(ts_test *test, ts_store *store)
{
    const char *keys[] = {"other", "q"};
    const void *values[] = {"1", "2"};
    const size_t sizes[] = {1, 1};
    void *value;
    size_t size;
    int64_t n;
    if (is_plain(store)) return;
    TS_PASS(ts_store_queue_push(store, "q", "first", 5));
    TS_FAIL(ts_store_set(store, "q", "1", 1), TS_ESTORE, "q' is a queue");
    TS_FAIL(ts_store_append(store, "q", "1", 1), TS_ESTORE, "q' is a queue");
    TS_FAIL(ts_store_add(store, "q", 1, &n), TS_ESTORE, "q' is a queue");
    TS_FAIL(ts_store_compare_set(store, "q", "", 0, "1", 1, &value, &size), TS_ESTORE,
            "q' is a queue");
    TS_FAIL(ts_store_multi_set(store, keys, 2, values, sizes), TS_ESTORE, "q' is a queue");
    TS_PASS(ts_store_queue_pop(store, "q", false, &value, &size));
    TS_EXPECT(size == 5 && memcmp(value, "first", 5) == 0);
    free(value);
    TS_PASS(ts_store_set(store, "q", "1", 1)); /* an empty queue is none */
    TS_FAIL(ts_store_queue_push(store, "q", "x", 1), TS_ESTORE, "q' has a value");
    TS_PASS(ts_store_queue_len(store, "q", &n));
    TS_EXPECT_INT(n, 0);
    TS_PASS(ts_store_add(store, "q", 1, &n));
    TS_EXPECT_INT(n, 2);
}
TS_TEST(stores_keep_queues_and_values_apart) { on_every_kind(test, check_mixed); }

typedef struct comer {
    ts_store *store;
    ts_status status;
    int64_t at_ns;
} comer;

static void *come(void *arg)
{
    comer *c = arg;
    c->status = ts_store_barrier(c->store, "b", 3, 5000);
    c->at_ns = ts_now_ns();
    return NULL;
}

static void check_barrier(ts_test *test, ts_store *store)
{
    pthread_t thread[2];
    comer c[2] = {{store, TS_EIO, 0}, {store, TS_EIO, 0}};
    for (int i = 0; i < 2; i++) pthread_create(&thread[i], NULL, come, &c[i]);
    usleep(30000);
    int64_t last_ns = ts_now_ns();
    ts_status status = ts_store_barrier(store, "b", 3, 5000);
    for (int i = 0; i < 2; i++) {
        pthread_join(thread[i], NULL);
        TS_EXPECT_INT(c[i].status, TS_OK);
        TS_EXPECT(c[i].at_ns >= last_ns);
    }
    TS_PASS(status);
    TS_FAIL(ts_store_barrier(store, "b2", 2, 40), TS_ETIMEOUT, "1 of 2 have come to barrier '");
    TS_FAIL(ts_store_barrier(store, "b3", 0, 40), TS_EINVAL, "at least 1");
    TS_PASS(ts_store_barrier(store, "b4", 1, 40));
    TS_PASS(ts_store_set(store, "k", "v", 1)); /* the handle goes on */
    HOLDS(store, "k", "v", 1);
}
TS_TEST(stores_barrier) { on_every_kind(test, check_barrier); }

static void *get_late(void *arg)
{
    void *value = NULL;
    ts_status status = ts_store_get(arg, "late", &value, NULL);
    free(value);
    return status == TS_OK ? arg : NULL;
}

static void check_clone(ts_test *test, ts_store *store)
{
    ts_store *clone;
    pthread_t thread;
    void *ok;
    TS_PASS(ts_store_set_timeout(store, 0)); /* no limit */
    TS_PASS(ts_store_clone(&clone, store));
    TS_EXPECT_INT(ts_store_timeout(clone), 0);
    pthread_create(&thread, NULL, get_late, clone);
    usleep(30000);
    TS_PASS(ts_store_set(store, "late", "v", 1));
    pthread_join(thread, &ok);
    TS_EXPECT(ok);
    TS_PASS(ts_store_set(clone, "k", "v", 1));
    HOLDS(store, "k", "v", 1);
    ts_store_free(clone);
    HOLDS(store, "k", "v", 1);
    TS_FAIL(ts_store_clone(&clone, NULL), TS_EINVAL, "NULL");
}
TS_TEST(stores_clone_and_wait_without_limit) { on_every_kind(test, check_clone); }

TS_TEST(stores_tell_what_they_are)
{
    ts_store *hash, *file, *tcp, *prefix;
    char path[256];
    ts_tcp_store_options opt = TS_TCP_STORE_OPTIONS_INIT;
    opt.port = 0;
    opt.is_master = true;
    TS_PASS(ts_hash_store_new(&hash));
    TS_PASS(ts_file_store_new(&file, test_path(test, path, "f"), 1));
    TS_PASS(ts_tcp_store_new(&tcp, &opt));
    TS_PASS(ts_prefix_store_new(&prefix, "p", tcp));
    TS_EXPECT(ts_store_has_extended_api(hash) && ts_store_has_extended_api(prefix));
    TS_EXPECT(!ts_store_has_extended_api(file) && !ts_store_has_extended_api(NULL));
    TS_EXPECT_STR(ts_file_store_path(file), path);
    TS_EXPECT(!ts_file_store_path(hash) && !ts_file_store_path(NULL));
    TS_EXPECT_STR(ts_tcp_store_host(prefix), "127.0.0.1");
    TS_EXPECT(ts_tcp_store_port(prefix) > 0 && !ts_tcp_store_host(file));
    TS_EXPECT_INT(ts_store_timeout(hash), 300000);
    ts_store_free(prefix);
    ts_store_free(tcp);
    ts_store_free(file);
    ts_store_free(hash);
}

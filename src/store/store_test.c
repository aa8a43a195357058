/* SPDX-License-Identifier: Apache-2.0 */
/* What every store must do, as one table of kinds and one list of checks. */
#include "store/store.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "store/store_test.h"

/* ---- kinds ----------------------------------------------------------------------------------- */

static ts_status open_hash(ts_store **out, const char *path)
{
    (void)path;
    return ts_hash_store_new(out);
}

static ts_status wrap(ts_status status, ts_store **out, const char *prefix)
{
    ts_store *inner = *out;
    if (status == TS_OK) status = ts_prefix_store_new(out, prefix, inner);
    ts_store_free(inner);
    return status;
}

static ts_status open_prefix(ts_store **out, const char *path)
{
    return wrap(wrap(open_hash(out, path), out, "inner"), out, "outer/more");
}

/* A store from outside that offers the least. */
static ts_status plain_change(ts_store *store, ts_store_change *c)
{
    ts_store *inner = ts_store_state(store);
    if (c->op == TS_STORE_APPEND) return ts_store_append(inner, c->key, c->value, c->size);
    if (c->op == TS_STORE_SET) return ts_store_set(inner, c->key, c->value, c->size);
    if (c->op == TS_STORE_ADD) return ts_store_add(inner, c->key, c->n, &c->total);
    if (c->op == TS_STORE_DELETE) return ts_store_delete_key(inner, c->key, &c->existed);
    return ts_store_compare_set(inner, c->key, c->expected, c->expected_size, c->value, c->size,
                                &c->result, &c->result_size);
}

static ts_status plain_fetch(ts_store *store, const char *const *keys, int n, int64_t timeout_ms,
                             void **values, size_t *sizes)
{
    if (!values) return ts_store_wait(ts_store_state(store), keys, n, timeout_ms);
    return ts_store_fetch(ts_store_state(store), keys, n, timeout_ms, values, sizes);
}

static ts_status plain_check(ts_store *store, const char *const *keys, int n, bool *all)
{
    return ts_store_check(ts_store_state(store), keys, n, all);
}

static ts_status plain_num_keys(ts_store *store, int64_t *count)
{
    return ts_store_num_keys(ts_store_state(store), count);
}

static void plain_free(ts_store *store) { ts_store_free(ts_store_state(store)); }

static ts_store *plain_inner(const ts_store *store) { return ts_store_state(store); }

static const ts_store_class plain_class = {
    .struct_size = sizeof plain_class,
    .name = "plain store",
    .change = plain_change,
    .fetch = plain_fetch,
    .check = plain_check,
    .num_keys = plain_num_keys,
    .free = plain_free,
    .inner = plain_inner,
};

static ts_status open_plain(ts_store **out, const char *path)
{
    ts_store *inner;
    ts_status status = open_hash(&inner, path);
    return status == TS_OK ? ts_store_new(out, &plain_class, inner) : status;
}

static ts_status open_file(ts_store **out, const char *path)
{
    return ts_file_store_new(out, path, 1);
}

/* The master is also the only client. */
static ts_status open_tcp(ts_store **out, const char *path)
{
    ts_tcp_store_options opt = TS_TCP_STORE_OPTIONS_INIT;
    (void)path;
    opt.port = 0;
    opt.is_master = true;
    return ts_tcp_store_new(out, &opt);
}

static ts_status open_tcp_prefix(ts_store **out, const char *path)
{
    return wrap(open_tcp(out, path), out, "p");
}

static const struct kind {
    const char *name;
    ts_status (*open)(ts_store **out, const char *path); /* path: a file of this test's own */
} kinds[] = {
    {"hash", open_hash}, {"prefix", open_prefix}, {"plain", open_plain},
    {"file", open_file}, {"tcp", open_tcp},       {"tcp-prefix", open_tcp_prefix},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

void on_every_kind(ts_test *test, void (*check)(ts_test *test, ts_store *store))
{
    for (int k = 0; k < KINDS; k++) {
        ts_store *store = NULL;
        char path[256];
        test_path(test, path, kinds[k].name);
        if (kinds[k].open(&store, path) != TS_OK)
            TS_FAIL_TEST("%s: %s", kinds[k].name, ts_error_last());
        int failures = test->failures;
        ts_store_set_timeout(store, 5000);
        check(test, store);
        ts_store_free(store);
        TS_EXPECT(access(path, F_OK) != 0); /* the last user removes the file */
        if (test->failures > failures) TS_FAIL_TEST("... on a %s store", kinds[k].name);
    }
}

static void check_values(ts_test *test, ts_store *store)
{
    bool there = true;
    int64_t count, first;
    const char *key = "k";
    TS_PASS(ts_store_num_keys(store, &first));
    TS_PASS(ts_store_check(store, &key, 1, &there));
    TS_EXPECT(!there);
    TS_PASS(ts_store_set(store, "k", "a\0b\xff", 4));
    HOLDS(store, "k", "a\0b\xff", 4);
    TS_PASS(ts_store_set(store, "k", NULL, 0));
    HOLDS(store, "k", "", 0);
    TS_PASS(ts_store_check(store, &key, 1, &there));
    TS_EXPECT(there);
    TS_PASS(ts_store_set(store, "", "empty key", 9));
    HOLDS(store, "", "empty key", 9);
    TS_PASS(ts_store_num_keys(store, &count));
    TS_EXPECT_INT(count - first, 2);
    TS_PASS(ts_store_delete_key(store, "k", &there));
    TS_EXPECT(there);
    TS_PASS(ts_store_delete_key(store, "k", &there));
    TS_EXPECT(!there);
    TS_PASS(ts_store_check(store, &key, 1, &there));
    TS_EXPECT(!there);
    TS_PASS(ts_store_num_keys(store, &count));
    TS_EXPECT_INT(count - first, 1);

    size_t size = 3 << 20; /* larger than any buffer on the way */
    char *large = malloc(size);
    for (size_t i = 0; i < size; i++) large[i] = (char)(i * 2654435761u >> 24);
    TS_PASS(ts_store_set(store, "large", large, size));
    HOLDS(store, "large", large, size);
    free(large);
}
TS_TEST(stores_hold_values) { on_every_kind(test, check_values); }

static void check_add(ts_test *test, ts_store *store)
{
    int64_t total;
    TS_PASS(ts_store_add(store, "n", 1, &total));
    TS_EXPECT_INT(total, 1);
    TS_PASS(ts_store_add(store, "n", 6, &total));
    TS_EXPECT_INT(total, 7);
    HOLDS(store, "n", "7", 1);
    TS_PASS(ts_store_add(store, "n", -10, &total));
    TS_EXPECT_INT(total, -3);
    TS_PASS(ts_store_add(store, "n", 0, &total));
    TS_EXPECT_INT(total, -3);
    TS_PASS(ts_store_add(store, "n", 1, NULL));
    const char *bad[] = {"hello", "", "12x", " 1", "1e3", "99999999999999999999"};
    for (int i = 0; i < 6; i++) {
        TS_PASS(ts_store_set(store, "text", bad[i], strlen(bad[i])));
        TS_FAIL(ts_store_add(store, "text", 1, &total), i == 5 ? TS_ESTORE : TS_ESTORE, "text'");
        HOLDS(store, "text", bad[i], strlen(bad[i]));
    }
    TS_PASS(ts_store_add(store, "max", INT64_MAX, &total));
    TS_FAIL(ts_store_add(store, "max", 1, &total), TS_ESTORE, "64 bits");
    HOLDS(store, "max", "9223372036854775807", 19);
}
TS_TEST(stores_add) { on_every_kind(test, check_add); }

/* compare_set(expected, desired) returns result. */
#define COMPARE_SET(store, key, expected, desired, expected_result)                                \
    do {                                                                                           \
        void *v_ = NULL;                                                                           \
        size_t n_ = 99999;                                                                         \
        TS_PASS(ts_store_compare_set(store, key, expected, strlen(expected), desired,              \
                                     strlen(desired), &v_, &n_));                                  \
        TS_EXPECT_INT(n_, strlen(expected_result));                                                \
        TS_EXPECT_STR((char *)v_, expected_result);                                                \
        free(v_);                                                                                  \
    } while (0)

static void check_compare_set(ts_test *test, ts_store *store)
{
    bool there;
    const char *key = "c";
    COMPARE_SET(store, "c", "other", "x", "other");
    TS_PASS(ts_store_check(store, &key, 1, &there));
    TS_EXPECT(!there);
    COMPARE_SET(store, "c", "", "one", "one");
    COMPARE_SET(store, "c", "", "two", "one");
    COMPARE_SET(store, "c", "wrong", "two", "one");
    COMPARE_SET(store, "c", "one", "two", "two");
    HOLDS(store, "c", "two", 3);
    COMPARE_SET(store, "c", "two", "", "");
    COMPARE_SET(store, "c", "", "three", "three");
}
TS_TEST(stores_compare_set) { on_every_kind(test, check_compare_set); }

static void check_append(ts_test *test, ts_store *store)
{
    TS_PASS(ts_store_append(store, "p", "po", 2));
    TS_PASS(ts_store_append(store, "p", NULL, 0));
    TS_PASS(ts_store_append(store, "p", "ta\0to", 5));
    HOLDS(store, "p", "pota\0to", 7);
    TS_PASS(ts_store_append(store, "e", NULL, 0));
    HOLDS(store, "e", "", 0);
}
TS_TEST(stores_append) { on_every_kind(test, check_append); }

static void check_multi(ts_test *test, ts_store *store)
{
    const char *keys[] = {"m1", "m2", "m3"};
    const void *values[] = {"one", "", "th\0ree"};
    size_t sizes[] = {3, 0, 6}, got_sizes[3];
    void *got[3];
    bool there;
    TS_PASS(ts_store_multi_set(store, keys, 3, values, sizes));
    TS_PASS(ts_store_multi_get(store, keys, 3, got, got_sizes));
    for (int i = 0; i < 3; i++) {
        TS_EXPECT_INT(got_sizes[i], sizes[i]);
        TS_EXPECT(memcmp(got[i], values[i], sizes[i]) == 0);
        TS_EXPECT_INT(((char *)got[i])[sizes[i]], 0);
        free(got[i]);
    }
    const char *two[] = {"m1", "absent"};
    TS_PASS(ts_store_check(store, two, 2, &there));
    TS_EXPECT(!there);
    TS_PASS(ts_store_check(store, keys, 3, &there));
    TS_EXPECT(there);
    TS_PASS(ts_store_multi_set(store, NULL, 0, NULL, NULL));
    TS_PASS(ts_store_multi_get(store, NULL, 0, NULL, NULL));
    TS_PASS(ts_store_wait(store, NULL, 0, 10));
    TS_PASS(ts_store_check(store, NULL, 0, &there));
    TS_EXPECT(there);
    TS_PASS(ts_store_set_timeout(store, 30));
    TS_FAIL(ts_store_multi_get(store, two, 2, got, got_sizes), TS_ETIMEOUT, "absent'");
    TS_EXPECT(!got[0] && !got[1]);
}
TS_TEST(stores_multi) { on_every_kind(test, check_multi); }

static void check_time_out(ts_test *test, ts_store *store)
{
    const char *keys[] = {"there", "absent", "gone"};
    void *value = &value;
    char where[128];
    TS_PASS(ts_store_set(store, "there", "1", 1));
    for (int round = 0; round < 3; round++) {
        int64_t start = ts_now_ns();
        TS_FAIL(ts_store_wait(store, keys, 3, 60), TS_ETIMEOUT, "absent'");
        double seconds = (double)(ts_now_ns() - start) * 1e-9;
        TS_EXPECT(seconds >= 0.06 && seconds < 0.5);
        TS_EXPECT_TEXT(ts_error_last(), "gone'");
        TS_EXPECT_TEXT(ts_error_last(), "60 ms");
        TS_EXPECT(!strstr(ts_error_last(), "there'"));
        TS_EXPECT_TEXT(ts_error_last(),
                       ts_store_describe(ts_store_innermost(store), where, sizeof where));
        HOLDS(store, "there", "1", 1); /* the handle still works */
        TS_PASS(ts_store_set(store, "there", "1", 1));
    }
    TS_PASS(ts_store_set_timeout(store, 40));
    TS_EXPECT_INT(ts_store_timeout(store), 40);
    TS_FAIL(ts_store_get(store, "absent", &value, NULL), TS_ETIMEOUT, "40 ms");
    TS_EXPECT(!value);
    TS_FAIL(ts_store_wait(store, keys + 1, 1, -1), TS_ETIMEOUT, "40 ms");
}
TS_TEST(stores_time_out_by_name) { on_every_kind(test, check_time_out); }

static void check_arguments(ts_test *test, ts_store *store)
{
    char long_key[TS_STORE_MAX_KEY + 2];
    const char *null_key = NULL;
    bool there;
    memset(long_key, 'x', sizeof long_key);
    long_key[sizeof long_key - 1] = '\0';
    TS_FAIL(ts_store_set(store, long_key, "", 0), TS_EINVAL, "longer than");
    TS_FAIL(ts_store_set(store, NULL, "", 0), TS_EINVAL, "NULL");
    TS_FAIL(ts_store_set(NULL, "k", "", 0), TS_EINVAL, "NULL");
    TS_FAIL(ts_store_set(store, "k", NULL, 3), TS_EINVAL, "size is 3");
    TS_FAIL(ts_store_set(store, "k", long_key, TS_STORE_MAX_VALUE + 1), TS_EINVAL, "split");
    TS_FAIL(ts_store_wait(store, &null_key, 1, 10), TS_EINVAL, "NULL");
    TS_FAIL(ts_store_wait(store, NULL, -1, 10), TS_EINVAL, "-1");
    TS_FAIL(ts_store_wait(store, NULL, 2, 10), TS_EINVAL, "keys");
    TS_FAIL(ts_store_wait(store, &null_key, 0, -2), TS_EINVAL, "-2");
    TS_FAIL(ts_store_check(store, &null_key, 1, &there), TS_EINVAL, "NULL");
    TS_FAIL(ts_store_set_timeout(store, -1), TS_EINVAL, "negative");
    TS_FAIL(ts_store_num_keys(store, NULL), TS_EINVAL, "count");
    long_key[100] = '\0';
    for (int i = 0; i < 300; i++) { /* all lengths around the sizes of buffers */
        long_key[100 + i] = 'x';
        long_key[101 + i] = '\0';
        TS_PASS(ts_store_set(store, long_key, &i, sizeof i));
        HOLDS(store, long_key, &i, sizeof i);
    }
}
TS_TEST(stores_check_arguments) { on_every_kind(test, check_arguments); }

/* ---- several users --------------------------------------------------------------------------- */

typedef struct later {
    ts_store *store;
    const char *key;
    int delay_ms;
    int64_t at_ns;
} later;

static void *set_later(void *arg)
{
    later *l = arg;
    usleep((useconds_t)l->delay_ms * 1000);
    l->at_ns = ts_now_ns();
    return ts_store_set(l->store, l->key, "late", 4) == TS_OK ? l : NULL;
}

/* The same handle waits in one thread and sets in another; one of the keys is there already, before
 * or behind the missing one. */
static void check_wait(ts_test *test, ts_store *store)
{
    const char *orders[2][2] = {{"k1", "k2"}, {"k4", "k3"}};
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        void *ok;
        later l = {store, i == 0 ? "k2" : "k4", 60, 0};
        TS_PASS(ts_store_set(store, i == 0 ? "k1" : "k3", "1", 1));
        pthread_create(&thread, NULL, set_later, &l);
        ts_status status = ts_store_wait(store, orders[i], 2, 5000);
        double seconds = (double)(ts_now_ns() - l.at_ns) * 1e-9;
        pthread_join(thread, &ok);
        TS_EXPECT(ok);
        TS_PASS(status);
        TS_EXPECT(l.at_ns > 0 && seconds < 0.5);
        HOLDS(store, l.key, "late", 4);
    }
    const char *twice[] = {"k1", "k1", "k4"};
    TS_PASS(ts_store_wait(store, twice, 3, 1000));
}
TS_TEST(stores_wait_for_keys) { on_every_kind(test, check_wait); }

static ts_status change_key(ts_store *store, int how, const char *key)
{
    int64_t total;
    if (how == 0) return ts_store_add(store, key, 4, &total);
    if (how == 1) return ts_store_append(store, key, "4", 1);
    if (how == 2) return ts_store_compare_set(store, key, "", 0, "4", 1, NULL, NULL);
    return ts_store_multi_set(store, &key, 1, (const void *const[]){"4"}, (const size_t[]){1});
}

typedef struct change_later {
    ts_store *store;
    int how;
    const char *key;
} change_later;

static void *change_after_a_while(void *arg)
{
    const change_later *c = arg;
    usleep(30000);
    return change_key(c->store, c->how, c->key) == TS_OK ? arg : NULL;
}

static void check_waking(ts_test *test, ts_store *store)
{
    static const char *const keys[] = {"by add", "by append", "by compare_set", "by multi_set"};
    for (int how = 0; how < 4; how++) {
        pthread_t thread;
        void *ok;
        change_later c = {store, how, keys[how]};
        int64_t start = ts_now_ns();
        pthread_create(&thread, NULL, change_after_a_while, &c);
        ts_status status = ts_store_wait(store, &keys[how], 1, 5000);
        TS_EXPECT(seconds_since(start) < 2);
        pthread_join(thread, &ok);
        TS_EXPECT(ok);
        TS_PASS(status);
        HOLDS(store, keys[how], "4", 1);
    }
}
TS_TEST(stores_wake_waiters_by_every_change) { on_every_kind(test, check_waking); }

typedef struct worker {
    ts_store *store;
    int id, users, rounds;
} worker;

/* Every user counts, appends, and reads what the others have set. */
static ts_status work(const worker *w)
{
    char key[64];
    int64_t total;
    for (int i = 0; i < w->rounds; i++) {
        TS_TRY(ts_store_add(w->store, "count", 1, &total));
        TS_TRY(ts_store_append(w->store, "log", "x", 1));
        snprintf(key, sizeof key, "%d/%d", w->id, i);
        TS_TRY(ts_store_set(w->store, key, &i, sizeof i));
        int other = (w->id + i) % w->users;
        void *value;
        size_t size;
        snprintf(key, sizeof key, "%d/%d", other, i);
        TS_TRY(ts_store_get(w->store, key, &value, &size));
        bool good = size == sizeof i && memcmp(value, &i, sizeof i) == 0;
        free(value);
        if (!good) return ts_fail(TS_ESTORE, "key %s holds something else", key);
    }
    return TS_OK;
}

static void *work_in_thread(void *arg)
{
    ts_status status = work(arg);
    if (status != TS_OK) fprintf(stderr, "%s\n", ts_error_last());
    return status == TS_OK ? arg : NULL;
}

static void check_threads(ts_test *test, ts_store *store)
{
    enum { USERS = 6, ROUNDS = 20 };
    pthread_t thread[USERS];
    worker workers[USERS];
    void *ok;
    for (int i = 0; i < USERS; i++) {
        workers[i] = (worker){store, i, USERS, ROUNDS};
        pthread_create(&thread[i], NULL, work_in_thread, &workers[i]);
    }
    for (int i = 0; i < USERS; i++) {
        pthread_join(thread[i], &ok);
        TS_EXPECT(ok);
    }
    HOLDS(store, "count", "120", 3);
    void *value;
    size_t size;
    TS_PASS(ts_store_get(store, "log", &value, &size));
    TS_EXPECT_INT(size, USERS * ROUNDS);
    free(value);
}
TS_TEST(stores_serve_threads) { on_every_kind(test, check_threads); }

/* ---- prefix stores --------------------------------------------------------------------------- */

TS_TEST(prefix_store_nests)
{
    ts_store *hash, *b, *a;
    int64_t count;
    TS_PASS(ts_hash_store_new(&hash));
    TS_PASS(ts_prefix_store_new(&b, "b", hash));
    TS_PASS(ts_prefix_store_new(&a, "a", b));
    TS_FAIL(ts_prefix_store_new(&b, "b", NULL), TS_EINVAL, "NULL");
    TS_PASS(ts_store_set(a, "k", "v", 1));
    HOLDS(hash, "b/a/k", "v", 1);
    HOLDS(b, "a/k", "v", 1);
    TS_EXPECT(ts_store_inner(a) == b);
    TS_EXPECT(ts_store_innermost(a) == hash);
    TS_EXPECT(!ts_store_inner(hash));
    TS_PASS(ts_store_set(hash, "other", "v", 1));
    TS_PASS(ts_store_num_keys(a, &count));
    TS_EXPECT_INT(count, 2);
    TS_PASS(ts_store_set_timeout(a, 1234));
    TS_EXPECT_INT(ts_store_timeout(hash), 1234);
    TS_EXPECT_INT(ts_store_timeout(b), 1234);
    ts_store_free(hash); /* the prefix stores keep it */
    ts_store_free(b);
    HOLDS(a, "k", "v", 1);
    ts_store_free(a);
    ts_store_free(NULL);
}

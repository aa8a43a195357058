/* SPDX-License-Identifier: Apache-2.0 */
/* Our TCP store and PyTorch's speak the same protocol, in both roles.  The interpreter is
 * $TESSERA_TEST_PYTHON or python3. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/socket.h"
#include "store/store.h"
#include "test.h"

typedef struct python {
    pid_t pid;
    FILE *from;
    int to;
} python;

static bool start_python(python *p, int port, int guarded_port)
{
    int in[2], out[2];
    char text[16], guarded[16], script[4096];
    const char *interpreter = getenv("TESSERA_TEST_PYTHON");
    if (!interpreter) interpreter = "python3";
    snprintf(text, sizeof text, "%d", port);
    snprintf(guarded, sizeof guarded, "%d", guarded_port);
    snprintf(script, sizeof script, "%s", ts_test_path("tests/interop/torch_store.py"));
    if (pipe(in) != 0 || pipe(out) != 0) return false;
    p->pid = fork();
    if (p->pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        for (int i = 0; i < 2; i++) close(in[i]), close(out[i]);
        execlp(interpreter, interpreter, script, text, guarded, (char *)NULL);
        _exit(77);
    }
    close(in[0]);
    close(out[1]);
    p->to = in[1];
    p->from = fdopen(out[0], "r");
    return p->pid > 0 && p->from;
}

/* The next line that it prints; empty at the end. */
static const char *line_of(python *p)
{
    static char line[512];
    if (!fgets(line, sizeof line, p->from)) line[0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    return line;
}

static int end_python(python *p)
{
    int status = 0;
    close(p->to);
    fclose(p->from);
    while (waitpid(p->pid, &status, 0) < 0) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#define HOLDS(store, key, bytes, count)                                                            \
    do {                                                                                           \
        void *v_ = NULL;                                                                           \
        size_t n_ = 99999;                                                                         \
        TS_PASS(ts_store_get(store, key, &v_, &n_));                                               \
        TS_EXPECT_INT(n_, count);                                                                  \
        TS_EXPECT(memcmp(v_, bytes, n_) == 0);                                                     \
        free(v_);                                                                                  \
    } while (0)

static void check_newer(ts_test *test, ts_store *store)
{
    void *value;
    size_t size;
    int64_t n;
    char **keys;
    if (ts_store_queue_len(store, "c/q", &n) == TS_ENETWORK) return; /* PyTorch's older server */
    TS_EXPECT_INT(n, 0);
    TS_FAIL(ts_store_queue_pop(store, "c/q", false, &value, &size), TS_EEMPTY, "c/q");
    TS_PASS(ts_store_queue_push(store, "c/q", "one", 3));
    TS_PASS(ts_store_queue_push(store, "c/q", "t\0wo", 4));
    TS_PASS(ts_store_queue_len(store, "c/q", &n));
    TS_EXPECT_INT(n, 2);
    TS_PASS(ts_store_queue_pop(store, "c/q", true, &value, &size));
    TS_EXPECT_STR((char *)value, "one");
    free(value);
    TS_PASS(ts_store_queue_pop(store, "c/q", false, &value, &size));
    TS_EXPECT(size == 4 && memcmp(value, "t\0wo", 4) == 0);
    free(value);
    if (ts_store_list_keys(store, &keys, &n) == TS_OK) {
        bool found = false;
        for (int64_t i = 0; i < n; i++) found = found || strcmp(keys[i], "c/n") == 0;
        TS_EXPECT(found);
        free(keys);
        TS_PASS(ts_store_barrier(store, "c/b", 1, 5000));
        TS_FAIL(ts_store_barrier(store, "c/b2", 2, 50), TS_ETIMEOUT, "c/b2");
    }
    TS_PASS(ts_store_check(store, (const char *const[]){"c/n"}, 1, &(bool){false}));
}

/* As client of PyTorch's server. */
static void check_client(ts_test *test, int port, bool queues_and_empty_values)
{
    ts_tcp_store_options opt = TS_TCP_STORE_OPTIONS_INIT;
    ts_store *store;
    int64_t total, before, after;
    bool there;
    void *value, *values[2];
    size_t size, sizes[2];
    const char *keys[] = {"c/m1", "c/m2"}, *absent[] = {"c/m1", "absent"};
    const void *const set[] = {"one", "t\0wo"};
    opt.port = port;
    opt.timeout_ms = 10000;
    TS_PASS(ts_tcp_store_new(&store, &opt));
    TS_PASS(ts_store_num_keys(store, &before));
    TS_PASS(ts_store_set(store, "c/k", "a\0b", 3));
    HOLDS(store, "c/k", "a\0b", 3);
    if (queues_and_empty_values) {
        TS_PASS(ts_store_set(store, "c/empty", NULL, 0));
        HOLDS(store, "c/empty", "", 0);
        TS_PASS(ts_store_delete_key(store, "c/empty", &there));
    }
    TS_PASS(ts_store_add(store, "c/n", 40, &total));
    TS_PASS(ts_store_add(store, "c/n", 2, &total));
    TS_EXPECT_INT(total, 42);
    TS_PASS(ts_store_num_keys(store, &after));
    TS_EXPECT_INT(after - before, 2);
    TS_FAIL(ts_store_add(store, "c/k", 1, &total), TS_ESTORE, "not a number");
    TS_PASS(ts_store_compare_set(store, "c/c", "", 0, "x", 1, &value, &size));
    TS_EXPECT_STR((char *)value, "x");
    free(value);
    TS_PASS(ts_store_append(store, "c/c", "yz", 2));
    HOLDS(store, "c/c", "xyz", 3);
    TS_PASS(ts_store_delete_key(store, "c/c", &there));
    TS_EXPECT(there);
    TS_PASS(ts_store_delete_key(store, "c/c", &there));
    TS_EXPECT(!there);
    TS_PASS(ts_store_multi_set(store, keys, 2, set, (const size_t[]){3, 4}));
    TS_PASS(ts_store_multi_get(store, keys, 2, values, sizes));
    TS_EXPECT(sizes[0] == 3 && sizes[1] == 4 && memcmp(values[1], "t\0wo", 4) == 0);
    free(values[0]);
    free(values[1]);
    TS_PASS(ts_store_check(store, keys, 2, &there));
    TS_EXPECT(there);
    TS_FAIL(ts_store_wait(store, absent, 2, 50), TS_ETIMEOUT, "missing: 'absent'");
    HOLDS(store, "c/n", "42", 2);
    check_newer(test, store);
    TS_PASS(ts_store_set(store, "init/", "x", 1));
    TS_PASS(ts_store_set(store, "c/done", "\0done", 5));
    ts_store_free(store);
}

/* With a secret, which PyTorch's client cannot show. */
static ts_status open_guarded(ts_store **out, int listener)
{
    ts_tcp_store_options opt = TS_TCP_STORE_OPTIONS_INIT;
    opt.port = 0;
    opt.master_listen_fd = listener;
    opt.is_master = true;
    setenv("TESSERA_SECRET", "correct horse battery staple", 1);
    ts_status status = ts_tcp_store_new(out, &opt);
    unsetenv("TESSERA_SECRET");
    return status;
}

TS_TEST(torch_store_speaks_with_ours, .timeout_s = 120)
{
    python p;
    ts_store *store, *guarded;
    int listener, guarded_listener, ports[2];
    ts_tcp_store_options opt = TS_TCP_STORE_OPTIONS_INIT;
    TS_PASS(ts_tcp_listen(&listener, NULL, 0));
    TS_PASS(ts_tcp_listen(&guarded_listener, NULL, 0));
    TS_EXPECT(start_python(&p, ts_socket_port(listener), ts_socket_port(guarded_listener)));
    char first[512];
    snprintf(first, sizeof first, "%s", line_of(&p));
    if (strcmp(first, "ready") != 0) {
        int status = end_python(&p);
        if (status == 77) ts_test_skip(test, "no PyTorch (see TESSERA_TEST_PYTHON): %s", first);
        TS_FAIL_TEST("the script ends with status %d: %s", status, first);
    }
    opt.port = 0;
    opt.master_listen_fd = listener;
    opt.is_master = true;
    opt.world_size = 2; /* PyTorch's client is the second */
    opt.timeout_ms = 20000;
    TS_PASS(ts_tcp_store_new(&store, &opt));
    TS_PASS(open_guarded(&guarded, guarded_listener));
    TS_PASS(ts_store_set(store, "c/bytes", "a\0b\xff", 4));
    TS_EXPECT_INT(sscanf(line_of(&p), "%d %d", &ports[0], &ports[1]), 2);
    HOLDS(store, "py/text", "from python", 11);
    HOLDS(store, "py/a", "potato", 6);
    check_client(test, ports[0], true);
    check_client(test, ports[1], true);
    TS_EXPECT_STR(line_of(&p), "good");
    TS_EXPECT_INT(end_python(&p), 0);
    ts_store_free(store);
    ts_store_free(guarded);
}

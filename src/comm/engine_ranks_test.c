/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/engine_test.h"
#include "net/socket.h"
#include "tensor/tensor.h"

enum { LIMIT_MS = 20000 };

void me_failed(peer_rank *me, const char *file, int line, const char *what, const char *detail)
{
    fprintf(stderr, "[rank%d] %s:%d: %s: %s\n", me->rank, file, line, what, detail);
    me->failures++;
}

ts_deadline soon(void) { return ts_deadline_in(LIMIT_MS); }

char *filled(size_t bytes, int seed)
{
    char *out = malloc(bytes);
    for (size_t i = 0; out && i < bytes; i++) out[i] = (char)(i * 7 + (i >> 9) + (size_t)seed);
    return out;
}

static int count_entries(const char *path)
{
    int n = 0;
    DIR *dir = opendir(path);
    while (dir && readdir(dir)) n++;
    if (dir) closedir(dir);
    return n;
}

int count_descriptors(void) { return count_entries("/proc/self/fd"); }
int count_threads(void) { return count_entries("/proc/self/task"); }

ts_status start_recv(peer_rank *me, ts_message **m, int peer, uint64_t tag, void *buf, size_t n)
{
    return ts_port_recv(m, ts_engine_port(me->engine), peer, TS_CHANNEL_USER, tag, buf, n, NULL,
                        NULL);
}

ts_status start_send(peer_rank *me, ts_message **m, int peer, uint64_t tag, const void *buf,
                     size_t n)
{
    return ts_port_send(m, ts_engine_port(me->engine), peer, TS_CHANNEL_USER, tag, buf, n, NULL,
                        NULL);
}

ts_status send_now(peer_rank *me, int peer, uint64_t tag, const void *buf, size_t bytes)
{
    ts_message *m;
    ts_status s = start_send(me, &m, peer, tag, buf, bytes);
    return s == TS_OK ? ts_message_wait(m, soon(), NULL) : s;
}

ts_status recv_now_within(peer_rank *me, int peer, uint64_t tag, void *buf, size_t bytes,
                          int64_t timeout_ms)
{
    ts_message *m;
    ts_status s = ts_port_recv(&m, ts_engine_port(me->engine), peer, TS_CHANNEL_USER, tag, buf,
                               bytes, NULL, NULL);
    return s == TS_OK ? ts_message_wait(m, ts_deadline_in(timeout_ms), NULL) : s;
}

ts_status recv_now(peer_rank *me, int peer, uint64_t tag, void *buf, size_t bytes)
{
    return recv_now_within(me, peer, tag, buf, bytes, LIMIT_MS);
}

static void note_loss(void *user, int peer, bool graceful, const char *why)
{
    peer_rank *me = user;
    snprintf(me->why, sizeof me->why, "%s", why);
    me->lost_peer = peer;
    me->graceful = graceful;
    me->lost++;
}

ts_status make_engine(peer_rank *me, int rank, int size, int64_t timeout_ms)
{
    char host[32];
    snprintf(host, sizeof host, "pretend %d", me->hosts ? rank % me->hosts : 0);
    ts_engine_options opt = {.store = me->store,
                             .name = "test",
                             .rank = rank,
                             .size = size,
                             .timeout_ms = timeout_ms,
                             .heap_fd = me->heap_fd,
                             .heap_reserved = me->heap_fd >= 0 ? 4096 : 0,
                             .on_lost = note_loss,
                             .user = me,
                             .host_id = me->hosts ? host : NULL};
    if (!me->hosts && !me->by_socket && me->heap_fd < 0 && (opt.heap = ts_shared_heap_get())) {
        opt.heap_fd = opt.heap->fd;
        opt.heap_reserved = opt.heap->reserved;
    }
    return ts_engine_new(&me->engine, &opt);
}

static void run_rank(peer_rank *me)
{
    ME_PASS(make_engine(me, me->rank, me->size, LIMIT_MS));
    me->body(me);
    ts_engine_free(me->engine);
}

static void *thread_main(void *arg)
{
    run_rank(arg);
    return NULL;
}

static void *bare_main(void *arg)
{
    peer_rank *me = arg;
    me->body(me);
    return NULL;
}

static void run(ts_test *test, int size, int hosts, rank_body body, void *(*start)(void *))
{
    ts_store *store;
    pthread_t thread[16];
    peer_rank *rank = calloc((size_t)size, sizeof *rank);
    TS_PASS(ts_hash_store_new(&store));
    for (int i = 0; i < size; i++) {
        rank[i] = (peer_rank){.test = test,
                              .rank = i,
                              .size = size,
                              .hosts = hosts < 0 ? 0 : hosts,
                              .by_socket = hosts < 0,
                              .store = store,
                              .body = body,
                              .heap_fd = -1,
                              .lost_peer = -1};
        if (pthread_create(&thread[i], NULL, start, &rank[i]) != 0) TS_FAIL_TEST("no thread");
    }
    for (int i = 0; i < size; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < size; i++) test->failures += rank[i].failures;
    ts_store_free(store);
    free(rank);
}

void run_threads(ts_test *test, int size, rank_body body) { run(test, size, 0, body, thread_main); }
void run_by_socket(ts_test *test, int size, rank_body body)
{
    run(test, size, -1, body, thread_main);
}
void run_hosts(ts_test *test, int size, int hosts, rank_body body)
{
    run(test, size, hosts, body, thread_main);
}
void run_bare_threads(ts_test *test, int size, rank_body body)
{
    run(test, size, 0, body, bare_main);
}
void run_bare_hosts(ts_test *test, int size, int hosts, rank_body body)
{
    run(test, size, hosts, body, bare_main);
}

/* ---- processes ------------------------------------------------------------------------------- */

static void child_main(ts_test *test, int rank, int size, int hosts, int port, rank_body body,
                       bool bare)
{
    peer_rank me = {.test = test,
                    .rank = rank,
                    .size = size,
                    .hosts = hosts,
                    .body = body,
                    .heap_fd = -1,
                    .lost_peer = -1};
    ts_tcp_store_options opt = TS_TCP_STORE_OPTIONS_INIT;
    opt.port = port;
    opt.wait_for_workers = false;
    if (ts_tcp_store_new(&me.store, &opt) != TS_OK) {
        me_failed(&me, __FILE__, __LINE__, "ts_tcp_store_new", ts_error_last());
        _exit(1);
    }
    if (bare)
        body(&me);
    else
        run_rank(&me);
    ts_store_free(me.store);
    fflush(NULL);
    _exit(me.failures ? 1 : 0);
}

static ts_status serve(ts_store **out, int listener)
{
    ts_tcp_store_options opt = TS_TCP_STORE_OPTIONS_INIT;
    opt.port = ts_socket_port(listener);
    opt.is_master = true;
    opt.wait_for_workers = false;
    opt.master_listen_fd = listener;
    return ts_tcp_store_new(out, &opt);
}

/* The server starts after the forks, so that the children have one thread. */
static void run_children(ts_test *test, int size, int hosts, rank_body body, bool bare)
{
    pid_t pid[16];
    int listener, status;
    ts_store *store;
    TS_PASS(ts_tcp_listen(&listener, "127.0.0.1", 0));
    for (int i = 0; i < size; i++)
        if ((pid[i] = fork()) == 0)
            child_main(test, i, size, hosts, ts_socket_port(listener), body, bare);
    TS_PASS(serve(&store, listener));
    for (int i = 0; i < size; i++) {
        waitpid(pid[i], &status, 0);
        if (WIFSIGNALED(status) ? WTERMSIG(status) != SIGKILL : WEXITSTATUS(status) != 0)
            ts_test_fail(test, __FILE__, __LINE__, "rank %d ended with %d", i, status);
    }
    ts_store_free(store);
}

void run_processes(ts_test *test, int size, int hosts, rank_body body)
{
    run_children(test, size, hosts, body, false);
}

void run_bare_processes(ts_test *test, int size, rank_body body)
{
    run_children(test, size, 0, body, true);
}

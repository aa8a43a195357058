/* SPDX-License-Identifier: Apache-2.0 */
/* tessera bench store: requests a second, processor time a request, round trip, idle clients. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <tessera/store.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "bench/bench.h"
#include "bench/store_load.h"
#include "commands.h"
#include "json.h"
#include "net/socket.h"

enum { TRIPS = 400, BLOCKS = 16, ECHO_REQUEST = 29, ECHO_REPLY = 8, LIMIT_MS = 30000 };

typedef struct store_values {
    int64_t clients, depth, idle, server_pid;
    double seconds;
    const char *connect;
    bool json;
} store_values;

#define AT(field) offsetof(store_values, field)
static const ts_opt store_options[] = {
    {"clients", 'n', TS_OPT_INT, AT(clients), "N", "16", "Clients that send requests.", 1, 64,
     NULL},
    {"depth", 0, TS_OPT_INT, AT(depth), "N", "64",
     "Requests (set, get, add, check in turn) under way per client.", 4, 4096, NULL},
    {"seconds", 0, TS_OPT_REAL, AT(seconds), "S", "1", "Time of the measurement.", 0.01, 3600,
     NULL},
    {"idle", 0, TS_OPT_INT, AT(idle), "N", "0", "Clients that are connected and do nothing.", 0,
     100000, NULL},
    {"connect", 0, TS_OPT_TEXT, AT(connect), "HOST:PORT", NULL,
     "Measure this server, PyTorch's or ours. [one of its own]", 0, 0, NULL},
    {"server-pid", 0, TS_OPT_INT, AT(server_pid), "PID", "0",
     "With --connect: its process, for processor time and memory.", 0, 1e9, NULL},
    {"json", 0, TS_OPT_FLAG, AT(json), NULL, NULL, "One JSON object.", 0, 0, NULL},
    {NULL, 0, TS_OPT_FLAG, 0, NULL, NULL, NULL, 0, 0, NULL}};

typedef struct result {
    double ops_per_s, cpu_us, rtt_us, echo_us, rtt_ratio, idle_mb, loaded_mb;
} result;

/* ---- processes ------------------------------------------------------------------------------- */

/* Runs serve in a child that ends with this process; it tells its port through the pipe. */
static int start_child(int (*serve)(void), pid_t *pid)
{
    int ends[2], port = -1;
    if (pipe(ends) != 0) return -1;
    fflush(NULL);
    *pid = fork();
    if (*pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        port = serve();
        if (write(ends[1], &port, sizeof port) != (ssize_t)sizeof port) _exit(1);
        for (;;) pause();
    }
    close(ends[1]);
    if (*pid > 0 && read(ends[0], &port, sizeof port) != (ssize_t)sizeof port) port = -1;
    close(ends[0]);
    return port;
}

static void end_child(pid_t pid)
{
    if (pid <= 0) return;
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }
}

static int serve_store(void)
{
    static ts_store *store;
    ts_tcp_store_options opt = TS_TCP_STORE_OPTIONS_INIT;
    opt.port = 0;
    opt.is_master = true;
    return ts_tcp_store_new(&store, &opt) == TS_OK ? ts_tcp_store_port(store) : -1;
}

static void *echo(void *arg)
{
    char bytes[ECHO_REQUEST];
    int listener = *(int *)arg, fd;
    if (ts_socket_accept(&fd, listener, ts_deadline_in(0)) != TS_OK) return NULL;
    fcntl(fd, F_SETFL, 0);
    while (recv(fd, bytes, sizeof bytes, MSG_WAITALL) == (ssize_t)sizeof bytes &&
           send(fd, bytes, ECHO_REPLY, MSG_NOSIGNAL) == ECHO_REPLY) {
    }
    return NULL;
}

static int serve_echo(void)
{
    static int listener;
    pthread_t thread;
    if (ts_tcp_listen(&listener, "127.0.0.1", 0) != TS_OK) return -1;
    return pthread_create(&thread, NULL, echo, &listener) == 0 ? ts_socket_port(listener) : -1;
}

/* ---- round trips ----------------------------------------------------------------------------- */

static bool echo_trips(int fd)
{
    char bytes[ECHO_REQUEST] = {0};
    for (int i = 0; i < TRIPS; i++)
        if (send(fd, bytes, sizeof bytes, MSG_NOSIGNAL) != (ssize_t)sizeof bytes ||
            recv(fd, bytes, ECHO_REPLY, MSG_WAITALL) != ECHO_REPLY)
            return false;
    return true;
}

static bool store_trips(ts_store *store)
{
    int64_t total;
    for (int i = 0; i < TRIPS; i++)
        if (ts_store_add(store, "bench-count", 1, &total) != TS_OK) return false;
    return true;
}

/* Blocks of both in turn; the ratio is the median over the pairs. */
static bool measure_trips(result *r, ts_store *store, int fd)
{
    double ours[BLOCKS], bare[BLOCKS], ratio[BLOCKS];
    for (int i = -2; i < BLOCKS; i++) {
        int64_t start = ts_now_ns();
        if (!echo_trips(fd)) return false;
        int64_t middle = ts_now_ns();
        if (!store_trips(store)) return false;
        if (i < 0) continue; /* to warm up */
        bare[i] = (double)(middle - start) * 1e-3 / TRIPS;
        ours[i] = (double)(ts_now_ns() - middle) * 1e-3 / TRIPS;
        ratio[i] = ours[i] / bare[i];
    }
    r->rtt_us = bench_stats_of(ours, BLOCKS).median;
    r->echo_us = bench_stats_of(bare, BLOCKS).median;
    r->rtt_ratio = bench_stats_of(ratio, BLOCKS).median;
    return true;
}

static bool round_trips(result *r, const char *host, int port)
{
    ts_tcp_store_options opt = TS_TCP_STORE_OPTIONS_INIT;
    ts_store *store = NULL;
    pid_t echo_pid = 0;
    int fd = -1, echo_port = start_child(serve_echo, &echo_pid);
    opt.host = host;
    opt.port = port;
    bool good = ts_tcp_store_new(&store, &opt) == TS_OK &&
                ts_tcp_connect(&fd, "127.0.0.1", echo_port, ts_deadline_in(LIMIT_MS)) == TS_OK;
    if (good) fcntl(fd, F_SETFL, 0);
    good = good && measure_trips(r, store, fd);
    ts_store_free(store);
    ts_socket_close(fd);
    end_child(echo_pid);
    return good;
}

/* ---- the measurement ------------------------------------------------------------------------- */

static bool pipelined(result *r, const store_values *v, const int *fd, int pid)
{
    double seconds = 0.1;
    if (store_load_run(fd, (int)v->clients, (int)v->depth, &seconds) < 0) return false;
    seconds = v->seconds;
    int64_t before = store_load_cpu_ns(pid);
    double done = store_load_run(fd, (int)v->clients, (int)v->depth, &seconds);
    r->ops_per_s = done / seconds;
    r->cpu_us = pid > 0 ? (double)(store_load_cpu_ns(pid) - before) * 1e-3 / done : NAN;
    return done > 0;
}

static bool measure(result *r, const store_values *v, const char *host, int port, int pid)
{
    int n = (int)(v->idle > v->clients ? v->idle : v->clients);
    int *fd = calloc((size_t)n, sizeof *fd);
    if (!fd || !store_load_connect(fd, n, host, port)) return free(fd), false;
    r->idle_mb = pid > 0 ? (double)store_load_memory(pid) * 1e-6 : NAN;
    bool good = pipelined(r, v, fd, pid) && round_trips(r, host, port);
    r->loaded_mb = pid > 0 ? (double)store_load_memory(pid) * 1e-6 : NAN;
    for (int i = 0; i < n; i++) ts_socket_close(fd[i]);
    free(fd);
    return good;
}

static void print(const store_values *v, const result *r)
{
    if (!v->json) {
        printf("%lld clients: %.0f requests/s, %.2f us of the server's processor time each\n"
               "round trip %.1f us (a bare echo: %.1f us)\n",
               (long long)v->clients, r->ops_per_s, r->cpu_us, r->rtt_us, r->echo_us);
        if (v->idle) printf("%lld clients connected: %.1f MB\n", (long long)v->idle, r->idle_mb);
        return;
    }
    ts_json json = ts_json_begin(stdout);
    ts_json_text(&json, "server", v->connect ? v->connect : "own");
    ts_json_int(&json, "clients", v->clients);
    ts_json_int(&json, "depth", v->depth);
    ts_json_real(&json, "ops_per_s", r->ops_per_s);
    ts_json_real(&json, "cpu_us_per_op", r->cpu_us);
    ts_json_real(&json, "rtt_us", r->rtt_us);
    ts_json_real(&json, "echo_us", r->echo_us);
    ts_json_real(&json, "rtt_over_echo", r->rtt_ratio);
    ts_json_int(&json, "idle_clients", v->idle);
    ts_json_real(&json, "idle_mb", r->idle_mb);
    ts_json_real(&json, "loaded_mb", r->loaded_mb);
    ts_json_end(&json);
}

static void raise_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

const ts_command ts_command_bench_store;

static int store_run(void *values, int argc, char **argv)
{
    const store_values *v = values;
    result r = {0};
    char host[256] = "127.0.0.1";
    pid_t pid = (pid_t)v->server_pid;
    int port;
    (void)argc, (void)argv;
    raise_limit();
    if (v->connect) {
        const char *colon = strrchr(v->connect, ':');
        if (!colon || colon - v->connect >= (ptrdiff_t)sizeof host)
            return ts_usage_error(&ts_command_bench_store, "--connect is HOST:PORT");
        snprintf(host, sizeof host, "%.*s", (int)(colon - v->connect), v->connect);
        port = atoi(colon + 1);
    } else {
        port = start_child(serve_store, &pid);
    }
    bool good = port > 0 && measure(&r, v, host, port, (int)pid);
    if (!v->connect) end_child(pid);
    if (!good) {
        fprintf(stderr, "tessera bench store: %s\n", ts_error_last());
        return TS_EXIT_FAILURE;
    }
    print(v, &r);
    return TS_EXIT_OK;
}

const ts_command ts_command_bench_store = {
    .name = "bench store",
    .summary = "Measure a TCP store's server: requests, processor time, round trip, idle clients.",
    .options = store_options,
    .values_size = sizeof(store_values),
    .run = store_run,
};

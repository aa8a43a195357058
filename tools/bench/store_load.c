/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/store_load.h"

#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/socket.h"
#include "store/wire.h"

enum { LIMIT_MS = 30000, VALUE_BYTES = 32, MAX_CLIENTS = 64 };

/* ---- connections ----------------------------------------------------------------------------- */

static bool greet(int fd)
{
    ts_buffer b = {0};
    uint32_t echo = 0, nonce = 77;
    ts_deadline limit = ts_deadline_in(LIMIT_MS);
    ts_buffer_put_byte(&b, TS_WIRE_VALIDATE);
    ts_buffer_put_u32(&b, TS_WIRE_MAGIC);
    ts_buffer_put_byte(&b, TS_WIRE_PING);
    ts_buffer_put_u32(&b, nonce);
    bool good = ts_send_all(fd, b.data, b.size, "the store", limit) == TS_OK &&
                ts_recv_all(fd, &echo, sizeof echo, "the store", limit) == TS_OK && echo == nonce;
    ts_buffer_fini(&b);
    return good;
}

bool store_load_connect(int *fd, int n, const char *host, int port)
{
    for (int i = 0; i < n; i++)
        if (ts_tcp_connect(&fd[i], host, port, ts_deadline_in(LIMIT_MS)) != TS_OK || !greet(fd[i]))
            return false;
    return true;
}

/* ---- pipelined requests ---------------------------------------------------------------------- */

typedef struct load {
    ts_buffer batch; /* requests */
    size_t replies;  /* bytes that answer a batch */
    int depth;
} load;

static void put_request(load *l, int kind, int client)
{
    char key[32], value[VALUE_BYTES];
    memset(value, 'v', sizeof value);
    snprintf(key, sizeof key, "/client%d/%s", client, kind == 2 ? "count" : "value");
    static const ts_wire_command commands[] = {TS_WIRE_SET, TS_WIRE_GET, TS_WIRE_ADD,
                                               TS_WIRE_CHECK};
    static const size_t replies[] = {0, 8 + VALUE_BYTES, 8, 1};
    ts_buffer_put_byte(&l->batch, (int)commands[kind]);
    if (kind == 3) ts_buffer_put_i64(&l->batch, 1);
    ts_buffer_put_bytes(&l->batch, ts_bytes_of(key));
    if (kind == 0) ts_buffer_put_bytes(&l->batch, (ts_bytes){value, sizeof value});
    if (kind == 2) ts_buffer_put_i64(&l->batch, 1);
    l->replies += replies[kind];
}

static bool send_batch(const load *l, int fd)
{
    return ts_send_all(fd, l->batch.data, l->batch.size, "the store", ts_deadline_in(LIMIT_MS)) ==
           TS_OK;
}

/* Takes what has come; the next batch goes when this one is answered.  Batches answered, or -1. */
static int serve(const load *l, int fd, size_t *left)
{
    static char bytes[256 * 1024];
    struct iovec room = {bytes, *left < sizeof bytes ? *left : sizeof bytes};
    ssize_t n = ts_recv_some(fd, &room, 1);
    if (n < 0) return -1;
    *left -= (size_t)n;
    if (*left > 0) return 0;
    *left = l->replies;
    return send_batch(l, fd) ? 1 : -1;
}

static int64_t run_until(const load *l, const int *fd, int n, int64_t end_ns)
{
    struct pollfd polls[MAX_CLIENTS];
    size_t left[MAX_CLIENTS];
    int64_t batches = 0;
    for (int i = 0; i < n; i++) {
        polls[i] = (struct pollfd){fd[i], POLLIN, 0};
        left[i] = l[i].replies;
        if (!send_batch(&l[i], fd[i])) return -1;
    }
    while (ts_now_ns() < end_ns) {
        if (poll(polls, (nfds_t)n, LIMIT_MS) <= 0) return -1;
        for (int i = 0; i < n; i++) {
            int done = polls[i].revents ? serve(&l[i], fd[i], &left[i]) : 0;
            if (done < 0) return -1;
            batches += done;
        }
    }
    for (int i = 0; i < n; i++) /* the last batches, uncounted */
        while (left[i] > 0) {
            char bytes[4096];
            size_t part = left[i] < sizeof bytes ? left[i] : sizeof bytes;
            if (ts_recv_all(fd[i], bytes, part, "the store", ts_deadline_in(LIMIT_MS)) != TS_OK)
                return -1;
            left[i] -= part;
        }
    return batches;
}

double store_load_run(const int *fd, int n, int depth, double *seconds)
{
    load l[MAX_CLIENTS] = {{{0}, 0, 0}};
    for (int i = 0; i < n; i++)
        for (int k = 0; k < depth; k++) put_request(&l[i], k % 4, i);
    int64_t start = ts_now_ns();
    int64_t batches = run_until(l, fd, n, start + (int64_t)(*seconds * 1e9));
    *seconds = (double)(ts_now_ns() - start) * 1e-9;
    for (int i = 0; i < n; i++) ts_buffer_fini(&l[i].batch);
    return batches < 0 ? -1 : (double)(batches * depth);
}

/* ---- the server's process -------------------------------------------------------------------- */

static int64_t cpu_of_thread(const char *folder, const char *thread)
{
    char path[400];
    long long ns = 0;
    snprintf(path, sizeof path, "%s/%s/schedstat", folder, thread);
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    if (fscanf(file, "%lld", &ns) != 1) ns = 0;
    fclose(file);
    return ns;
}

int64_t store_load_cpu_ns(int pid)
{
    char folder[64];
    int64_t total = 0;
    snprintf(folder, sizeof folder, "/proc/%d/task", pid);
    DIR *threads = opendir(folder);
    for (struct dirent *e; threads && (e = readdir(threads));)
        if (e->d_name[0] != '.') total += cpu_of_thread(folder, e->d_name);
    if (threads) closedir(threads);
    return total;
}

int64_t store_load_memory(int pid)
{
    char path[64], line[256];
    long long kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmRSS: %lld", &kib) == 1) break;
    if (file) fclose(file);
    return kib * 1024;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The store of a TCP client: each operation as requests in PyTorch's protocol. */
#include "store/tcp.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/options.h"
#include "net/socket.h"
#include "net/tls.h"
#include "store/server.h"
#include "store/store.h"

typedef struct tcp_store {
    ts_tcp_client client;
    ts_store_server *server; /* NULL: client only */
} tcp_store;

/* ---- requests -------------------------------------------------------------------------------- */

/* User keys are kept apart from internal ones by a leading '/', as PyTorch's clients do. */
static void put_key(ts_buffer *request, const char *key)
{
    size_t size = strlen(key);
    ts_buffer_put_i64(request, (int64_t)size + 1);
    ts_buffer_put_byte(request, '/');
    ts_buffer_put(request, key, size);
}

static void put_keys(ts_buffer *request, const char *const *keys, int n)
{
    ts_buffer_put_i64(request, n);
    for (int i = 0; i < n; i++) put_key(request, keys[i]);
}

/* ---- changes --------------------------------------------------------------------------------- */

static void put_change(ts_buffer *request, const ts_store_change *c)
{
    static const ts_wire_command commands[] = {
        [TS_STORE_SET] = TS_WIRE_SET,           [TS_STORE_APPEND] = TS_WIRE_APPEND,
        [TS_STORE_ADD] = TS_WIRE_ADD,           [TS_STORE_COMPARE_SET] = TS_WIRE_COMPARE_SET,
        [TS_STORE_DELETE] = TS_WIRE_DELETE_KEY,
    };
    ts_buffer_put_byte(request, (int)commands[c->op]);
    put_key(request, c->key);
    if (c->op == TS_STORE_ADD) ts_buffer_put_i64(request, c->n);
    if (c->op == TS_STORE_COMPARE_SET)
        ts_buffer_put_bytes(request, (ts_bytes){c->expected, c->expected_size});
    if (c->op == TS_STORE_ADD || c->op == TS_STORE_DELETE) return;
    ts_buffer_put_bytes(request, (ts_bytes){c->value, c->size});
}

static ts_status send_change(ts_tcp_call *call, ts_store_change *c)
{
    int64_t deleted = 0;
    switch (c->op) {
    case TS_STORE_ADD: return ts_tcp_ask(call, &c->total, sizeof c->total);
    case TS_STORE_DELETE:
        TS_TRY(ts_tcp_ask(call, &deleted, sizeof deleted));
        c->existed = deleted > 0;
        return TS_OK;
    case TS_STORE_COMPARE_SET:
        TS_TRY(ts_tcp_send(call));
        return ts_tcp_recv_value(call, &c->result, &c->result_size);
    default: return ts_tcp_ask_echo(call);
    }
}

static ts_status open_call(ts_tcp_call *call, ts_store *store)
{
    tcp_store *t = ts_store_state(store);
    return ts_tcp_call_open(call, &t->client, ts_store_timeout(store));
}

/* ---- waiting and reading --------------------------------------------------------------------- */

static ts_status check_keys(ts_tcp_call *call, const char *const *keys, int n, bool *all)
{
    unsigned char reply;
    ts_tcp_begin(call, TS_WIRE_CHECK);
    put_keys(&call->request, keys, n);
    TS_TRY(ts_tcp_ask(call, &reply, 1));
    *all = reply == TS_WIRE_READY;
    return TS_OK;
}

/* A key that is gone again reads as an empty value: *gone, and nothing has been read. */
static ts_status read_values(ts_tcp_call *call, const char *const *keys, int n, void **values,
                             size_t *sizes, bool *gone)
{
    bool all = true, empty = false;
    ts_tcp_begin(call, TS_WIRE_MULTI_GET);
    put_keys(&call->request, keys, n);
    TS_TRY(ts_tcp_send(call));
    for (int i = 0; i < n; i++) {
        size_t size;
        TS_TRY(ts_tcp_recv_value(call, &values[i], &size));
        if (sizes) sizes[i] = size;
        empty = empty || size == 0;
    }
    if (empty) TS_TRY(check_keys(call, keys, n, &all));
    *gone = !all;
    for (int i = 0; !all && i < n; i++) {
        free(values[i]);
        values[i] = NULL;
    }
    return TS_OK;
}

static ts_status wait_and_read(ts_tcp_call *call, const char *const *keys, int n, void **values,
                               size_t *sizes, bool *ready)
{
    ts_deadline deadline = call->deadline;
    bool gone;
    do {
        gone = false;
        ts_tcp_begin(call, TS_WIRE_WAIT);
        put_keys(&call->request, keys, n);
        TS_TRY(ts_tcp_ask_wait(call, deadline, ready));
        if (*ready && values) TS_TRY(read_values(call, keys, n, values, sizes, &gone));
    } while (gone);
    return TS_OK;
}

static ts_status tcp_fetch(ts_store *store, const char *const *keys, int n, int64_t timeout_ms,
                           void **values, size_t *sizes)
{
    tcp_store *t = ts_store_state(store);
    ts_tcp_call call;
    bool ready = false;
    TS_TRY(ts_tcp_call_open(&call, &t->client, timeout_ms));
    TS_TRY(ts_tcp_call_close(&call, wait_and_read(&call, keys, n, values, sizes, &ready)));
    return ready ? TS_OK : ts_store_fail_missing(store, keys, n, timeout_ms);
}

static ts_status tcp_check(ts_store *store, const char *const *keys, int n, bool *all_exist)
{
    ts_tcp_call call;
    TS_TRY(open_call(&call, store));
    return ts_tcp_call_close(&call, check_keys(&call, keys, n, all_exist));
}

/* ---- the class ------------------------------------------------------------------------------- */

static ts_status tcp_queue_len(ts_store *store, const char *key, int64_t *length)
{
    ts_tcp_call call;
    TS_TRY(open_call(&call, store));
    ts_tcp_begin(&call, TS_WIRE_QUEUE_LEN);
    put_key(&call.request, key);
    return ts_tcp_call_close(&call, ts_tcp_ask(&call, length, sizeof *length));
}

/* TS_OK: it is not the value that the key has. */
static ts_status explain_addition(ts_store *store, const char *key, int64_t n)
{
    bool there = false;
    void *value = NULL;
    size_t size = 0;
    int64_t total;
    if (tcp_check(store, &key, 1, &there) != TS_OK || !there ||
        tcp_fetch(store, &key, 1, ts_store_timeout(store), &value, &size) != TS_OK)
        return free(value), TS_OK;
    ts_status why = ts_add_number(&total, ts_bytes_of(key), (ts_bytes){value, size}, n);
    free(value);
    return why;
}

/* A server can refuse a change only by closing the connection.  If what the keys hold explains it,
 * says so; else the error stays. */
static ts_status explain_refusal(ts_store *store, const char *const *keys, int n, bool pushes,
                                 const ts_store_change *change, ts_status status)
{
    char former[1024];
    ts_status why = TS_OK;
    if (status != TS_ENETWORK) return status;
    snprintf(former, sizeof former, "%s", ts_error_last());
    for (int i = 0; i < n && why == TS_OK; i++) {
        int64_t queued = 0;
        bool there = false;
        if (tcp_queue_len(store, keys[i], &queued) != TS_OK) break;
        if (pushes && queued == 0 && tcp_check(store, &keys[i], 1, &there) != TS_OK) break;
        if (there || (queued > 0 && !pushes)) why = ts_fail_mixed(ts_bytes_of(keys[i]), !there);
    }
    if (why == TS_OK && change && change->op == TS_STORE_ADD)
        why = explain_addition(store, change->key, change->n);
    return why == TS_OK ? ts_fail_again(status, former) : why;
}

static ts_status tcp_change(ts_store *store, ts_store_change *change)
{
    ts_tcp_call call;
    TS_TRY(open_call(&call, store));
    put_change(&call.request, change);
    ts_status status = ts_tcp_call_close(&call, send_change(&call, change));
    if (status == TS_OK) return TS_OK;
    free(change->result);
    change->result = NULL;
    return explain_refusal(store, &change->key, 1, false, change, status);
}

static ts_status tcp_multi_set(ts_store *store, const char *const *keys, int n,
                               const void *const *values, const size_t *sizes)
{
    ts_tcp_call call;
    TS_TRY(open_call(&call, store));
    ts_tcp_begin(&call, TS_WIRE_MULTI_SET);
    ts_buffer_put_i64(&call.request, n);
    for (int i = 0; i < n; i++) {
        put_key(&call.request, keys[i]);
        ts_buffer_put_bytes(&call.request, (ts_bytes){values[i], sizes[i]});
    }
    ts_status status = ts_tcp_call_close(&call, ts_tcp_ask_echo(&call));
    return explain_refusal(store, keys, n, false, NULL, status);
}

static ts_status tcp_num_keys(ts_store *store, int64_t *count)
{
    ts_tcp_call call;
    TS_TRY(open_call(&call, store));
    ts_tcp_begin(&call, TS_WIRE_GETNUMKEYS);
    return ts_tcp_call_close(&call, ts_tcp_ask(&call, count, sizeof *count));
}

/* ---- queues, keys, barriers ------------------------------------------------------------------ */

static ts_status tcp_queue_push(ts_store *store, const char *key, const void *value, size_t size)
{
    ts_tcp_call call;
    TS_TRY(open_call(&call, store));
    ts_tcp_begin(&call, TS_WIRE_QUEUE_PUSH);
    put_key(&call.request, key);
    ts_buffer_put_bytes(&call.request, (ts_bytes){value, size});
    ts_status status = ts_tcp_call_close(&call, ts_tcp_ask_echo(&call));
    return explain_refusal(store, &key, 1, true, NULL, status);
}

/* *value stays NULL if there is none. */
static ts_status pop_once(ts_tcp_call *call, const char *key, void **value, size_t *size)
{
    int64_t queued = 0;
    ts_tcp_begin(call, TS_WIRE_QUEUE_POP);
    put_key(&call->request, key);
    TS_TRY(ts_tcp_ask(call, &queued, sizeof queued));
    return queued > 0 ? ts_tcp_recv_value(call, value, size) : TS_OK;
}

/* Another may take the value between the end of the wait and the pop. */
static ts_status wait_and_pop(ts_tcp_call *call, const char *key, void **value, size_t *size)
{
    ts_deadline limit = call->deadline;
    bool ready = true;
    while (ready && !*value) {
        ts_tcp_begin(call, TS_WIRE_WAIT);
        put_keys(&call->request, &key, 1);
        TS_TRY(ts_tcp_ask_wait(call, limit, &ready));
        if (ready) TS_TRY(pop_once(call, key, value, size));
    }
    return TS_OK;
}

static ts_status tcp_queue_pop(ts_store *store, const char *key, bool block, int64_t timeout_ms,
                               void **value, size_t *size)
{
    tcp_store *t = ts_store_state(store);
    ts_tcp_call call;
    TS_TRY(ts_tcp_call_open(&call, &t->client, timeout_ms));
    ts_status status = ts_tcp_call_close(&call, block ? wait_and_pop(&call, key, value, size)
                                                      : pop_once(&call, key, value, size));
    if (status == TS_OK && block && !*value)
        return ts_store_fail_missing(store, &key, 1, timeout_ms);
    if (status == TS_OK) return TS_OK;
    free(*value);
    *value = NULL;
    return status;
}

/* Internal keys, which do not begin with '/', are passed over. */
static ts_status read_keys(ts_tcp_call *call, ts_store_key_fn *take, void *user)
{
    int64_t count = 0;
    ts_tcp_begin(call, TS_WIRE_LIST_KEYS);
    TS_TRY(ts_tcp_ask(call, &count, sizeof count));
    for (ts_status status = TS_OK; count > 0; count--) {
        void *key = NULL;
        size_t size;
        status = ts_tcp_recv_value(call, &key, &size);
        const char *text = key;
        if (status == TS_OK && size > 0 && text[0] == '/') status = take(user, text + 1, size - 1);
        free(key);
        TS_TRY(status);
    }
    return TS_OK;
}

static ts_status tcp_list_keys(ts_store *store, ts_store_key_fn *take, void *user)
{
    ts_tcp_call call;
    TS_TRY(open_call(&call, store));
    return ts_tcp_call_close(&call, read_keys(&call, take, user));
}

static ts_status tcp_barrier(ts_store *store, const char *key, int n, int64_t timeout_ms)
{
    tcp_store *t = ts_store_state(store);
    ts_tcp_call call;
    bool complete = false;
    TS_TRY(ts_tcp_call_open(&call, &t->client, timeout_ms));
    ts_tcp_begin(&call, TS_WIRE_BARRIER);
    put_key(&call.request, key);
    ts_buffer_put_i64(&call.request, n);
    TS_TRY(ts_tcp_call_close(&call, ts_tcp_ask_wait(&call, call.deadline, &complete)));
    return complete ? TS_OK
                    : ts_fail(TS_ETIMEOUT, "%s: a barrier is not complete", t->client.server);
}

static ts_status tcp_clone(ts_store **out, ts_store *store)
{
    const tcp_store *t = ts_store_state(store);
    ts_tcp_store_options opt = TS_TCP_STORE_OPTIONS_INIT;
    opt.host = t->client.host;
    opt.port = t->client.port;
    opt.wait_for_workers = false;
    opt.timeout_ms = ts_store_timeout(store);
    return ts_tcp_store_new(out, &opt);
}

static void tcp_describe(const ts_store *store, char *text, size_t size)
{
    snprintf(text, size, "%s", ((tcp_store *)ts_store_state(store))->client.server);
}

static void close_store(tcp_store *t)
{
    if (t->client.host) ts_tcp_client_fini(&t->client);
    ts_store_server_release(t->server);
    free(t);
    ts_tls_drain();
}

static void tcp_free(ts_store *store) { close_store(ts_store_state(store)); }

static const ts_store_class tcp_class = {
    .struct_size = sizeof tcp_class,
    .name = "TCP store",
    .change = tcp_change,
    .fetch = tcp_fetch,
    .check = tcp_check,
    .num_keys = tcp_num_keys,
    .free = tcp_free,
    .multi_set = tcp_multi_set,
    .describe = tcp_describe,
    .queue_push = tcp_queue_push,
    .queue_pop = tcp_queue_pop,
    .queue_len = tcp_queue_len,
    .list_keys = tcp_list_keys,
    .barrier = tcp_barrier,
    .clone = tcp_clone,
};

/* ---- joining --------------------------------------------------------------------------------- */

static ts_status count_workers(ts_tcp_call *call, int64_t n, int64_t *total)
{
    ts_tcp_begin(call, TS_WIRE_ADD);
    ts_buffer_put_bytes(&call->request, ts_bytes_of("init/"));
    ts_buffer_put_i64(&call->request, n);
    return ts_tcp_ask(call, total, sizeof *total);
}

/* Everybody counts himself; the master also waits for the others. */
static ts_status join_workers(ts_tcp_call *call, const ts_tcp_store_options *opt)
{
    int64_t joined;
    TS_TRY(count_workers(call, 1, &joined));
    ts_deadline deadline = call->deadline;
    for (int attempt = 1; opt->is_master && joined < opt->world_size; attempt++) {
        if (ts_deadline_passed(deadline))
            return ts_fail(TS_ETIMEOUT,
                           "%s: %" PRId64 " of %d workers have joined within %" PRId64 " ms",
                           call->client->server, joined, opt->world_size, opt->timeout_ms);
        ts_backoff(attempt < 3 ? attempt : 3, deadline);
        call->deadline = ts_deadline_in(1000); /* the server is in this process */
        TS_TRY(count_workers(call, 0, &joined));
    }
    return TS_OK;
}

static ts_status join(tcp_store *t, const ts_tcp_store_options *opt)
{
    ts_tcp_call call;
    TS_TRY(ts_tcp_client_join(&t->client, ts_deadline_in(opt->timeout_ms)));
    if (opt->world_size < 1 || !opt->wait_for_workers) return TS_OK;
    TS_TRY(ts_tcp_call_open(&call, &t->client, opt->timeout_ms));
    return ts_tcp_call_close(&call, join_workers(&call, opt));
}

static void warn_of_backlog(int world_size)
{
    int longest = 0;
    FILE *file = fopen("/proc/sys/net/core/somaxconn", "re");
    if (!file) return;
    if (fscanf(file, "%d", &longest) == 1 && longest < world_size)
        TS_LOG(TS_LOG_STORE, TS_LEVEL_WARNING,
               "%d workers will join, but net.core.somaxconn is %d: some may need several attempts",
               world_size, longest);
    fclose(file);
}

/* torchrun's agent may serve on the master's port already; then the master is a client like others.
 */
static bool agent_serves(const ts_tcp_store_options *opt)
{
    const char *agent = getenv("TORCHELASTIC_USE_AGENT_STORE"), *port = getenv("MASTER_PORT");
    return agent && (strcmp(agent, "True") == 0 || strcmp(agent, "1") == 0) && port &&
           atoi(port) == opt->port;
}

static ts_status start_server(tcp_store *t, const ts_tcp_store_options *opt)
{
    ts_store_server_options server = {.host = opt->host,
                                      .port = opt->port,
                                      .listen_fd = opt->master_listen_fd,
                                      .shared = opt->multi_tenant};
    ts_status status = ts_store_server_start(&t->server, &server);
    if (status == TS_OK) {
        warn_of_backlog(opt->world_size);
        return TS_OK;
    }
    if (status != TS_ENETWORK || !agent_serves(opt)) return status;
    TS_LOG(TS_LOG_STORE, TS_LEVEL_INFO, "using the store of the launcher's agent: %s",
           ts_error_last());
    return TS_OK;
}

static ts_status open_store(tcp_store *t, const ts_tcp_store_options *opt)
{
    if (opt->is_master) TS_TRY(start_server(t, opt));
    int port = t->server ? ts_store_server_port(t->server) : opt->port;
    TS_TRY(ts_tcp_client_init(&t->client, opt->host && *opt->host ? opt->host : "127.0.0.1", port));
    return join(t, opt);
}

ts_status ts_tcp_store_new(ts_store **out, const ts_tcp_store_options *options)
{
    ts_tcp_store_options opt = TS_TCP_STORE_OPTIONS_INIT;
    if (!out) return ts_fail(TS_EINVAL, "tcp_store: out is NULL");
    *out = NULL;
    TS_TRY(ts_options_read(&opt, sizeof opt, options, "tcp_store"));
    if (opt.port < (opt.is_master ? 0 : 1) || opt.port > 65535)
        return ts_fail(TS_EINVAL,
                       "tcp_store: port %d; only the master may have 0, none more than 65535",
                       opt.port);
    if (opt.timeout_ms < 0) return ts_fail(TS_EINVAL, "tcp_store: the time limit is negative");
    tcp_store *t = ts_calloc(1, sizeof *t);
    if (!t) return ts_fail_memory(sizeof *t, "a TCP store");
    ts_status status = open_store(t, &opt);
    if (status == TS_OK) status = ts_store_new(out, &tcp_class, t);
    if (status != TS_OK) {
        close_store(t);
        return status;
    }
    return ts_store_set_timeout(*out, opt.timeout_ms);
}

static const ts_tcp_client *client_of(const ts_store *store)
{
    const ts_store *inside = ts_store_innermost(store);
    if (!inside || !ts_store_is(inside, &tcp_class)) return NULL;
    return &((tcp_store *)ts_store_state(inside))->client;
}

int ts_tcp_store_port(const ts_store *store)
{
    const ts_tcp_client *client = client_of(store);
    return client ? client->port : -1;
}

const char *ts_tcp_store_host(const ts_store *store)
{
    const ts_tcp_client *client = client_of(store);
    return client ? client->host : NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: the bytes are what a TCP store's server, or whatever listens there, sends.  The first
 * byte chooses what the client has asked. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/socket.h"
#include "store/tcp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct tape {
    const uint8_t *at;
    size_t left;
} tape;

static ts_status play(void *user, void *data, size_t size)
{
    tape *t = user;
    if (t->left < size) return ts_fail(TS_ENETWORK, "the end");
    memcpy(data, t->at, size);
    t->at += size;
    t->left -= size;
    return TS_OK;
}

static ts_status forget(void *user, const void *data, size_t size)
{
    (void)user, (void)data, (void)size;
    return TS_OK;
}

static void authenticate(const uint8_t *data, size_t size)
{
    ts_key key = {.given = true};
    tape t = {data, size};
    if (ts_auth_connect(&key, "server", forget, play, &t) == TS_OK) abort(); /* it cannot know */
}

static void ask(int what, ts_tcp_call *call)
{
    bool ready;
    void *value = NULL;
    size_t length;
    int64_t number;
    switch (what % 4) {
    case 0: ts_tcp_ask_echo(call); break;
    case 1: ts_tcp_ask_wait(call, call->deadline, &ready); break;
    case 2: ts_tcp_ask(call, &number, sizeof number); break;
    default:
        while (ts_tcp_recv_value(call, &value, &length) == TS_OK) free(value), value = NULL;
        free(value);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd[2];
    if (size == 0 || size > 60000) return 0;
    if (data[0] % 5 == 4) {
        authenticate(data + 1, size - 1);
        return 0;
    }
    ts_tcp_client client = {.host = (char *)"host", .port = 1, .server = "TCP store"};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) != 0) return 0;
    ts_tcp_call call = {.client = &client, .to.fd = fd[0], .deadline = ts_deadline_in(50)};
    ts_send_all(fd[1], data + 1, size - 1, "the client", ts_deadline_in(50));
    shutdown(fd[1], SHUT_WR);
    ask(data[0] % 5, &call);
    ts_buffer_fini(&call.request);
    close(fd[0]);
    close(fd[1]);
    return 0;
}

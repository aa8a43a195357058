/* SPDX-License-Identifier: Apache-2.0 */
/* The proof of knowing the job's secret that comes before the store's protocol:
 *
 *   client  hello: mark with version, nonce
 *   server  challenge: nonce, or a refusal
 *   client  proof over hello and challenge
 *   server  its own proof over the same, or a refusal
 *
 * Replies begin with a kind and a length, so that a refusal can say why.  The client proves itself
 * first: strangers get nothing to try secrets on. */
#ifndef TS_STORE_AUTH_H
#define TS_STORE_AUTH_H

#include "net/secret.h"
#include "store/wire.h"

enum {
    TS_AUTH_FIRST_BYTE = 0xA7, /* no command of the store's protocol */
    TS_AUTH_HELLO = 8 + TS_NONCE_BYTES,
    TS_AUTH_REPLY = 4, /* kind, zero, length */
    TS_AUTH_TEXT_MAX = 512
};

typedef struct ts_auth {
    uint8_t hello[TS_AUTH_HELLO], challenge[TS_NONCE_BYTES];
} ts_auth;

/* ---- server: bytes in, bytes out ------------------------------------------------------------- */

typedef enum ts_auth_stage {
    TS_AUTH_NEW = 0, /* nothing has come */
    TS_AUTH_CHALLENGED,
    TS_AUTH_DONE /* or not needed */
} ts_auth_stage;

typedef struct ts_auth_server {
    ts_auth_stage stage;
    ts_auth auth;
} ts_auth_server;

/* Takes what it can from the size bytes at data: > 0: so many; 0: more are needed; -1: the
 * connection is to be closed after what was put into out has been sent, *why is a static text. */
int64_t ts_auth_serve(ts_auth_server *server, const ts_key *key, const char *data, size_t size,
                      ts_buffer *out, const char **why);

/* ---- client ---------------------------------------------------------------------------------- */

/* Reads size bytes of the server's. */
typedef ts_status ts_auth_recv(void *user, void *data, size_t size);
typedef ts_status ts_auth_send(void *user, const void *data, size_t size);
/* TS_ESTORE: refused, by whichever side; name is the server's, for messages. */
ts_status ts_auth_connect(const ts_key *key, const char *name, ts_auth_send *send,
                          ts_auth_recv *recv, void *user);

/* What a server with a secret answers, in the place of an echo, to a client that begins with
 * PyTorch's protocol. */
#define TS_AUTH_REQUIRED UINT32_C(0x52435354)

#endif

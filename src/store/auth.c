/* SPDX-License-Identifier: Apache-2.0 */
#include "store/auth.h"

#include <stdio.h>
#include <string.h>

static const uint8_t mark[8] = {TS_AUTH_FIRST_BYTE, 't', 's', 'a', 'u', 't', 'h', 1 /* version */};
static const char client_label[] = "store client", server_label[] = "store server";

enum { KIND_REFUSAL = 0, KIND_GO_ON = 1 };

static void put_reply(ts_buffer *out, int kind, const void *body, size_t size)
{
    uint8_t head[TS_AUTH_REPLY] = {(uint8_t)kind, 0, (uint8_t)size, (uint8_t)(size >> 8)};
    ts_buffer_put(out, head, sizeof head);
    ts_buffer_put(out, body, size);
}

static int64_t refuse(ts_buffer *out, const char **why, const char *text)
{
    put_reply(out, KIND_REFUSAL, text, strlen(text));
    *why = text;
    return -1;
}

/* ---- server ---------------------------------------------------------------------------------- */

static int64_t take_hello(ts_auth_server *server, const ts_key *key, const char *data, size_t size,
                          ts_buffer *out, const char **why)
{
    size_t seen = size < sizeof mark ? size : sizeof mark;
    if (memcmp(data, mark, seen) != 0) {
        bool other_version = seen == sizeof mark && memcmp(data, mark, sizeof mark - 1) == 0;
        return refuse(out, why,
                      other_version ? "its version of the handshake is another"
                                    : "it does not begin with a known message");
    }
    if (!key->given)
        return refuse(out, why,
                      "the client has a secret, the server has none: unset "
                      "TESSERA_SECRET on one side or set it on the other");
    if (size < TS_AUTH_HELLO) return 0;
    memcpy(server->auth.hello, data, TS_AUTH_HELLO);
    ts_nonce(server->auth.challenge);
    put_reply(out, KIND_GO_ON, server->auth.challenge, sizeof server->auth.challenge);
    server->stage = TS_AUTH_CHALLENGED;
    return TS_AUTH_HELLO;
}

static int64_t take_proof(ts_auth_server *server, const ts_key *key, const char *data, size_t size,
                          ts_buffer *out, const char **why)
{
    ts_part seen = {&server->auth, sizeof server->auth};
    uint8_t proof[TS_PROOF_BYTES];
    if (size < TS_PROOF_BYTES) return 0;
    if (!ts_proof_holds((const uint8_t *)data, key, client_label, &seen, 1))
        return refuse(out, why, "the client's secret is not the server's");
    if (ts_proof(proof, key, server_label, &seen, 1) != TS_OK)
        return refuse(out, why, "out of memory");
    put_reply(out, KIND_GO_ON, proof, sizeof proof);
    server->stage = TS_AUTH_DONE;
    return TS_PROOF_BYTES;
}

int64_t ts_auth_serve(ts_auth_server *server, const ts_key *key, const char *data, size_t size,
                      ts_buffer *out, const char **why)
{
    if (size == 0) return 0;
    if (server->stage == TS_AUTH_CHALLENGED) return take_proof(server, key, data, size, out, why);
    bool plain = data[0] == TS_WIRE_VALIDATE;
    if (plain && key->given) {
        ts_buffer_put_u32(out, TS_AUTH_REQUIRED);
        *why = "it does not show the job's secret (TESSERA_SECRET); a client of PyTorch cannot";
        return -1;
    }
    return take_hello(server, key, data, size, out, why);
}

/* ---- client ---------------------------------------------------------------------------------- */

static ts_status refused(const char *name, const char *text, size_t size)
{
    char clean[TS_AUTH_TEXT_MAX];
    if (size >= sizeof clean) size = sizeof clean - 1;
    for (size_t i = 0; i < size; i++) clean[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    clean[size] = '\0';
    return ts_fail(TS_ESTORE, "%s refuses this process: %s", name, clean);
}

/* A reply that must have exactly size bytes. */
static ts_status recv_reply(const char *name, ts_auth_recv *recv, void *user, void *body,
                            size_t size)
{
    uint8_t head[TS_AUTH_REPLY];
    char text[TS_AUTH_TEXT_MAX];
    TS_TRY(recv(user, head, sizeof head));
    size_t length = head[2] | (size_t)head[3] << 8;
    if (head[0] == KIND_REFUSAL && head[1] == 0 && length < sizeof text) {
        TS_TRY(recv(user, text, length));
        return refused(name, text, length);
    }
    if (head[0] == KIND_GO_ON && head[1] == 0 && length == size) return recv(user, body, size);
    return ts_fail(TS_ESTORE, "%s: what listens there does not answer like a store with a secret",
                   name);
}

ts_status ts_auth_connect(const ts_key *key, const char *name, ts_auth_send *send,
                          ts_auth_recv *recv, void *user)
{
    ts_auth auth;
    ts_part seen = {&auth, sizeof auth};
    uint8_t proof[TS_PROOF_BYTES];
    memcpy(auth.hello, mark, sizeof mark);
    ts_nonce(auth.hello + sizeof mark);
    TS_TRY(send(user, auth.hello, sizeof auth.hello));
    TS_TRY(recv_reply(name, recv, user, auth.challenge, sizeof auth.challenge));
    TS_TRY(ts_proof(proof, key, client_label, &seen, 1));
    TS_TRY(send(user, proof, sizeof proof));
    TS_TRY(recv_reply(name, recv, user, proof, sizeof proof));
    if (ts_proof_holds(proof, key, server_label, &seen, 1)) return TS_OK;
    return ts_fail(TS_ESTORE, "%s does not know this job's secret; something else may listen there",
                   name);
}

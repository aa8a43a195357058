/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/handshake.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/frame.h"

/* ---- records: one value a line --------------------------------------------------------------- */

static const char record_mark[] = "tessera rank 3";
enum { SECRET_WORDS = 2 }; /* none, a secret, and TLS with it */
static const char refusal_mark[] = "tessera refusal 1";

size_t ts_record_write(char out[TS_RECORD_MAX], const ts_record *r)
{
    int n = snprintf(out, TS_RECORD_MAX,
                     "%s\n%d\n%d\n%d\n%" PRIu64 "\n%s\n%s\n%s\n%s\n%d\n%d\n%d\n%d\n", record_mark,
                     r->rank, r->size, r->pid, r->incarnation, r->run, r->host_id, r->host,
                     r->local, r->sockets, r->lazy, r->secret, r->endpoints);
    for (int i = 0; i < r->endpoints && n < TS_RECORD_MAX; i++)
        n += snprintf(out + n, TS_RECORD_MAX - (size_t)n, "%d\n%s\n", r->endpoint[i].port,
                      r->endpoint[i].address);
    return n < TS_RECORD_MAX ? (size_t)n : TS_RECORD_MAX - 1;
}

typedef struct reader {
    const char *at, *end;
    int bad;
} reader;

static void read_text(reader *in, char *out, size_t room)
{
    const char *stop = memchr(in->at, '\n', (size_t)(in->end - in->at));
    size_t n = stop ? (size_t)(stop - in->at) : 0;
    if (!stop || n >= room || memchr(in->at, '\0', n)) {
        in->bad = 1;
        out[0] = '\0';
        return;
    }
    memcpy(out, in->at, n);
    out[n] = '\0';
    in->at = stop + 1;
}

static uint64_t read_number(reader *in, uint64_t max)
{
    char text[24], *end;
    read_text(in, text, sizeof text);
    if (in->bad) return 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (end == text || *end || text[0] == '-' || value > max) in->bad = 1;
    return in->bad ? 0 : value;
}

const char *ts_record_read(ts_record *record, const char *text, size_t size)
{
    ts_record r = {0};
    reader in = {text, text + size, 0};
    char mark[32];
    read_text(&in, mark, sizeof mark);
    if (in.bad || strcmp(mark, record_mark) != 0) return "it is not of this version of the library";
    r.rank = (int)read_number(&in, INT32_MAX);
    r.size = (int)read_number(&in, INT32_MAX);
    r.pid = (int)read_number(&in, INT32_MAX);
    r.incarnation = read_number(&in, UINT64_MAX);
    read_text(&in, r.run, sizeof r.run);
    read_text(&in, r.host_id, sizeof r.host_id);
    read_text(&in, r.host, sizeof r.host);
    read_text(&in, r.local, sizeof r.local);
    r.sockets = (int)read_number(&in, TS_SOCKETS_MAX);
    r.lazy = (int)read_number(&in, 1);
    r.secret = (int)read_number(&in, SECRET_WORDS);
    r.endpoints = (int)read_number(&in, TS_INTERFACES_MAX);
    for (int i = 0; i < r.endpoints && !in.bad; i++) {
        r.endpoint[i].port = (int)read_number(&in, UINT16_MAX);
        read_text(&in, r.endpoint[i].address, sizeof r.endpoint[i].address);
    }
    if (in.bad || in.at != in.end) return "it is damaged";
    if (r.size > 1 && (r.sockets < 1 || r.endpoints < 1)) return "it has no address";
    if (r.rank >= r.size) return "its rank is not below its size";
    *record = r;
    return NULL;
}

size_t ts_refusal_write(char *out, size_t room, ts_status status, const char *reason)
{
    int n = snprintf(out, room, "%s\n%d\n%s", refusal_mark, (int)status, reason);
    return (size_t)n < room ? (size_t)n : room - 1;
}

const char *ts_refusal_read(ts_status *status, const char *text, size_t size)
{
    reader in = {text, text + size, 0};
    char mark[32];
    read_text(&in, mark, sizeof mark);
    if (in.bad || strcmp(mark, refusal_mark) != 0) return NULL;
    *status = (ts_status)read_number(&in, TS_EEMPTY);
    if (in.bad || *status == TS_OK) *status = TS_EREMOTE;
    return in.at;
}

/* ---- greetings ------------------------------------------------------------------------------- */

static const uint8_t hello_mark[8] = {'t', 'e', 's', 's', 'e', 'r', 'a', '\n'};

static uint64_t hash_text(const char *text)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (; *text; text++) hash = (hash ^ (uint8_t)*text) * UINT64_C(1099511628211);
    return hash;
}

/* 0 mark, 8 version, 12 rank, 16 size, 20 to rank, 24 incarnation, 32 to incarnation, 40 heap,
 * 48 has heap, 52 socket, 56 hash of run, 64 hash of group, 72 run, 120 group, 184 zero. */
void ts_hello_write(uint8_t out[TS_HELLO_BYTES], const ts_hello *hello, const char *run,
                    const char *group)
{
    memset(out, 0, TS_HELLO_BYTES);
    memcpy(out, hello_mark, sizeof hello_mark);
    ts_put_u32(out + 8, TS_HANDSHAKE_VERSION);
    ts_put_u32(out + 12, hello->rank);
    ts_put_u32(out + 16, hello->size);
    ts_put_u32(out + 20, hello->to_rank);
    ts_put_u64(out + 24, hello->incarnation);
    ts_put_u64(out + 32, hello->to_incarnation);
    ts_put_u64(out + 40, hello->heap_reserved);
    ts_put_u32(out + 48, hello->has_heap ? 1 : 0);
    ts_put_u32(out + 52, hello->socket);
    ts_put_u64(out + 56, hash_text(run));
    ts_put_u64(out + 64, hash_text(group));
    snprintf((char *)out + 72, 48, "%s", run);
    snprintf((char *)out + 120, 64, "%s", group);
}

const char *ts_hello_read(ts_hello *hello, const uint8_t in[TS_HELLO_BYTES], const char *run,
                          const char *group)
{
    if (memcmp(in, hello_mark, sizeof hello_mark) != 0) return "it is not a rank";
    if (ts_get_u32(in + 8) != TS_HANDSHAKE_VERSION) return "it is of another version";
    ts_hello h = {.rank = ts_get_u32(in + 12),
                  .size = ts_get_u32(in + 16),
                  .to_rank = ts_get_u32(in + 20),
                  .incarnation = ts_get_u64(in + 24),
                  .to_incarnation = ts_get_u64(in + 32),
                  .heap_reserved = ts_get_u64(in + 40),
                  .has_heap = ts_get_u32(in + 48) == 1,
                  .socket = ts_get_u32(in + 52)};
    memcpy(h.run, in + 72, sizeof h.run - 1);
    memcpy(h.group, in + 120, sizeof h.group - 1);
    *hello = h;
    if (ts_get_u64(in + 56) != hash_text(run)) return "it is of another run";
    if (ts_get_u64(in + 64) != hash_text(group)) return "it is of another group";
    if (h.rank >= h.size || h.size > INT32_MAX) return "its rank is not below its size";
    return NULL;
}

/* ---- proofs ---------------------------------------------------------------------------------- */

size_t ts_greeting_bytes(const ts_key *key)
{
    return key->given ? TS_GREETING_MAX : TS_HELLO_BYTES;
}

static const char *label(bool connecting) { return connecting ? "link connects" : "link accepts"; }

ts_status ts_greeting_prove(uint8_t greeting[TS_GREETING_MAX], const ts_key *key, ts_nonces *nonces,
                            bool connecting)
{
    if (!key->given) return TS_OK;
    if (connecting) ts_nonce(nonces->connecting);
    memcpy(greeting + TS_HELLO_BYTES, connecting ? nonces->connecting : nonces->accepting,
           TS_NONCE_BYTES);
    const ts_part parts[] = {{nonces, sizeof *nonces}, {greeting, TS_HELLO_BYTES}};
    return ts_proof(greeting + TS_HELLO_BYTES + TS_NONCE_BYTES, key, label(connecting), parts, 2);
}

const char *ts_greeting_check(const uint8_t greeting[TS_GREETING_MAX], const ts_key *key,
                              ts_nonces *nonces, bool connecting)
{
    if (!key->given) return NULL;
    if (connecting) memcpy(nonces->connecting, greeting + TS_HELLO_BYTES, TS_NONCE_BYTES);
    const ts_part parts[] = {{nonces, sizeof *nonces}, {greeting, TS_HELLO_BYTES}};
    bool holds = ts_proof_holds(greeting + TS_HELLO_BYTES + TS_NONCE_BYTES, key, label(connecting),
                                parts, 2);
    return holds ? NULL : "it does not know the job's secret";
}

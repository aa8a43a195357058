/* SPDX-License-Identifier: Apache-2.0 */
/* How ranks introduce themselves: a record in the store, and a greeting that opens each connection.
 * Pure functions on bytes. */
#ifndef TS_COMM_HANDSHAKE_H
#define TS_COMM_HANDSHAKE_H

#include <stddef.h>
#include <stdint.h>
#include <tessera/status.h>

#include "net/interface.h"
#include "net/secret.h"

#define TS_HANDSHAKE_VERSION 3
#define TS_SOCKETS_MAX 8 /* between two ranks */

typedef struct ts_endpoint {
    int port;
    char address[TS_ADDRESS_TEXT];
} ts_endpoint;

/* A rank's entry in the store. */
typedef struct ts_record {
    int rank, size, pid;
    uint64_t incarnation; /* random; tells a process from its successors */
    char run[64], host_id[192], host[64], local[48];
    int sockets; /* to every rank of another host */
    int lazy;    /* these are opened when two ranks first talk */
    int secret;  /* every connection begins with proofs of knowing it */
    int endpoints;
    ts_endpoint endpoint[TS_INTERFACES_MAX];
} ts_record;

#define TS_RECORD_MAX 2048
/* Length of the text. */
size_t ts_record_write(char out[TS_RECORD_MAX], const ts_record *record);
/* NULL, or what is wrong with it (a static text). */
const char *ts_record_read(ts_record *record, const char *text, size_t size);

/* What lies in the place of a record when joining has failed for a known reason. */
size_t ts_refusal_write(char *out, size_t room, ts_status status, const char *reason);
/* The reason, NUL-terminated inside text (which has a NUL behind size); NULL: it is none. */
const char *ts_refusal_read(ts_status *status, const char *text, size_t size);

#define TS_HELLO_BYTES 192
typedef struct ts_hello {
    uint32_t rank, size, to_rank;
    uint64_t incarnation, to_incarnation;
    uint64_t heap_reserved;
    uint32_t socket; /* number of the connection between the two, from 0 on */
    int has_heap;    /* a descriptor travels with it */
    char run[48], group[64];
} ts_hello;

/* Longer names of runs and groups are cut; a hash of the whole name goes along. */
void ts_hello_write(uint8_t out[TS_HELLO_BYTES], const ts_hello *hello, const char *run,
                    const char *group);
/* NULL, or why the sender of in does not belong to the group (a static text). */
const char *ts_hello_read(ts_hello *hello, const uint8_t in[TS_HELLO_BYTES], const char *run,
                          const char *group);

/* With a secret the accepting side begins with a nonce, and each greeting carries a nonce of its
 * sender and a proof over both nonces and the greeting. */
#define TS_GREETING_MAX (TS_HELLO_BYTES + TS_NONCE_BYTES + TS_PROOF_BYTES)
typedef struct ts_nonces {
    uint8_t accepting[TS_NONCE_BYTES], connecting[TS_NONCE_BYTES];
} ts_nonces;
size_t ts_greeting_bytes(const ts_key *key);
/* Completes a greeting whose hello stands at its beginning. */
ts_status ts_greeting_prove(uint8_t greeting[TS_GREETING_MAX], const ts_key *key, ts_nonces *nonces,
                            bool connecting);
/* NULL, or why it is not to be trusted.  connecting: its sender is; the nonce is taken from it. */
const char *ts_greeting_check(const uint8_t greeting[TS_GREETING_MAX], const ts_key *key,
                              ts_nonces *nonces, bool connecting);

#endif

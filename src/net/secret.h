/* SPDX-License-Identifier: Apache-2.0 */
/* The job's shared secret (TESSERA_SECRET, TESSERA_SECRET_FILE): keys and proofs made from it.
 *
 * Who proves that he knows the secret sends an HMAC over a random number that the other side has
 * just chosen, so what was seen on the wire before proves nothing. */
#ifndef TS_NET_SECRET_H
#define TS_NET_SECRET_H

#include <stddef.h>
#include <stdint.h>
#include <tessera/status.h>

enum { TS_NONCE_BYTES = 32, TS_PROOF_BYTES = 32 };

typedef struct ts_key {
    bool given; /* false: the job has no secret */
    uint8_t bytes[32];
} ts_key;

/* The key for one purpose ("store", "link", "tls"): keys of different purposes tell nothing about
 * each other. */
ts_status ts_key_load(ts_key *key, const char *purpose);

void ts_nonce(uint8_t out[TS_NONCE_BYTES]);

typedef struct ts_part {
    const void *data;
    size_t size;
} ts_part;
/* HMAC-SHA256 of the parts, which have a fixed total size for every label. */
ts_status ts_proof(uint8_t out[TS_PROOF_BYTES], const ts_key *key, const char *label,
                   const ts_part *parts, int n);
/* Whether it is the right one, in constant time. */
bool ts_proof_holds(const uint8_t proof[TS_PROOF_BYTES], const ts_key *key, const char *label,
                    const ts_part *parts, int n);

#endif

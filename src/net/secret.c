/* SPDX-License-Identifier: Apache-2.0 */
#include "net/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/settings.h"
#include "net/openssl.h"

enum { SECRET_MAX = 4096, SECRET_MIN = 16, LABEL_MAX = 32, MESSAGE_MAX = 1024 };

/* ---- the secret ------------------------------------------------------------------------------ */

static ssize_t read_whole(int fd, char *text, size_t room)
{
    size_t done = 0;
    while (done < room) {
        ssize_t n = read(fd, text + done, room - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -1;
        if (n == 0) break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

/* Line ends at its end do not belong to it. */
static ts_status from_file(char text[SECRET_MAX], size_t *size, const char *path)
{
    struct stat info = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read_whole(fd, text, SECRET_MAX) : -1;
    int cause = errno;
    if (fd >= 0 && fstat(fd, &info) == 0 && (info.st_mode & (S_IRWXG | S_IRWXO)))
        TS_LOG(TS_LOG_NET, TS_LEVEL_WARNING,
               "other users may have access to TESSERA_SECRET_FILE '%s': chmod 600 it", path);
    if (fd >= 0) close(fd);
    if (n < 0)
        return ts_fail(TS_EINVAL, "TESSERA_SECRET_FILE '%s' cannot be read: %s", path,
                       strerror(cause));
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r')) n--;
    *size = (size_t)n;
    return TS_OK;
}

static ts_status read_secret(char text[SECRET_MAX], size_t *size, bool *given)
{
    const char *secret = ts_setting_string(TS_SETTING_SECRET);
    const char *path = ts_setting_string(TS_SETTING_SECRET_FILE);
    *given = *secret || *path;
    *size = 0;
    if (!*given) return TS_OK;
    if (*secret && *path)
        return ts_fail(TS_EINVAL, "TESSERA_SECRET and TESSERA_SECRET_FILE are both set; unset one");
    if (*path)
        TS_TRY(from_file(text, size, path));
    else
        *size = strnlen(secret, SECRET_MAX);
    if (*secret) memcpy(text, secret, *size);
    if (*size >= SECRET_MIN && *size < SECRET_MAX) return TS_OK;
    return ts_fail(TS_EINVAL,
                   "the secret of %s has %zu bytes, not %d .. %d: openssl rand -hex 32 "
                   "makes a good one",
                   *path ? path : "TESSERA_SECRET", *size, SECRET_MIN, SECRET_MAX - 1);
}

static ts_status hmac(uint8_t out[32], const void *key, size_t key_size, const void *data,
                      size_t size)
{
    const ts_openssl_calls *ssl;
    unsigned length = 32;
    TS_TRY(ts_openssl(&ssl));
    if (ssl->HMAC(ssl->EVP_sha256(), key, (int)key_size, data, size, out, &length)) return TS_OK;
    return ts_fail_memory(size, "an HMAC");
}

ts_status ts_key_load(ts_key *key, const char *purpose)
{
    const ts_openssl_calls *ssl;
    char secret[SECRET_MAX], text[64];
    size_t size;
    *key = (ts_key){0};
    TS_TRY(read_secret(secret, &size, &key->given));
    if (!key->given) return TS_OK;
    int n = snprintf(text, sizeof text, "tessera key 1 %s", purpose);
    TS_TRY(hmac(key->bytes, secret, size, text, (size_t)n));
    TS_TRY(ts_openssl(&ssl));
    ssl->OPENSSL_cleanse(secret, sizeof secret);
    return TS_OK;
}

/* ---- proofs ---------------------------------------------------------------------------------- */

void ts_nonce(uint8_t out[TS_NONCE_BYTES])
{
    size_t done = 0;
    while (done < TS_NONCE_BYTES) { /* it fails only before the system has any randomness */
        ssize_t n = getrandom(out + done, TS_NONCE_BYTES - done, 0);
        if (n > 0) done += (size_t)n;
    }
}

ts_status ts_proof(uint8_t out[TS_PROOF_BYTES], const ts_key *key, const char *label,
                   const ts_part *parts, int n)
{
    uint8_t message[MESSAGE_MAX] = {0};
    size_t size = LABEL_MAX;
    snprintf((char *)message, LABEL_MAX, "%s", label);
    for (int i = 0; i < n; i++) {
        TS_ASSERT(parts[i].size <= sizeof message - size);
        memcpy(message + size, parts[i].data, parts[i].size);
        size += parts[i].size;
    }
    return hmac(out, key->bytes, sizeof key->bytes, message, size);
}

bool ts_proof_holds(const uint8_t proof[TS_PROOF_BYTES], const ts_key *key, const char *label,
                    const ts_part *parts, int n)
{
    const ts_openssl_calls *ssl;
    uint8_t right[TS_PROOF_BYTES];
    return ts_proof(right, key, label, parts, n) == TS_OK && ts_openssl(&ssl) == TS_OK &&
           ssl->CRYPTO_memcmp(proof, right, sizeof right) == 0;
}

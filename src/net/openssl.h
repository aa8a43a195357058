/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSSL, loaded when a secret is first used: programs without one do not pay for it when they
 * start. */
#ifndef TS_NET_OPENSSL_H
#define TS_NET_OPENSSL_H

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <tessera/status.h>

#define TS_OPENSSL_CALLS(X)                                                                        \
    X(EVP_sha256)                                                                                  \
    X(HMAC)                                                                                        \
    X(CRYPTO_memcmp)                                                                               \
    X(OPENSSL_cleanse)                                                                             \
    X(ERR_clear_error)                                                                             \
    X(ERR_get_error)                                                                               \
    X(ERR_error_string_n)                                                                          \
    X(TLS_method)                                                                                  \
    X(SSL_CTX_new)                                                                                 \
    X(SSL_CTX_free)                                                                                \
    X(SSL_CTX_ctrl)                                                                                \
    X(SSL_CTX_set_ciphersuites)                                                                    \
    X(SSL_CTX_set_psk_use_session_callback)                                                        \
    X(SSL_CTX_set_psk_find_session_callback)                                                       \
    X(SSL_CIPHER_find)                                                                             \
    X(SSL_SESSION_new)                                                                             \
    X(SSL_SESSION_free)                                                                            \
    X(SSL_SESSION_set1_master_key)                                                                 \
    X(SSL_SESSION_set_cipher)                                                                      \
    X(SSL_SESSION_set_protocol_version)                                                            \
    X(SSL_new)                                                                                     \
    X(SSL_free)                                                                                    \
    X(SSL_set_fd)                                                                                  \
    X(SSL_set_connect_state)                                                                       \
    X(SSL_set_accept_state)                                                                        \
    X(SSL_do_handshake)                                                                            \
    X(SSL_read)                                                                                    \
    X(SSL_write)                                                                                   \
    X(SSL_shutdown)                                                                                \
    X(SSL_get_error)                                                                               \
    X(SSL_CTX_set_num_tickets)                                                                     \
    X(SSL_set_ex_data)                                                                             \
    X(SSL_get_ex_data)                                                                             \
    X(SSL_session_reused)

typedef struct ts_openssl_calls {
#define X(name) __typeof__(name) *name;
    TS_OPENSSL_CALLS(X)
#undef X
} ts_openssl_calls;

/* TS_EUNSUPPORTED: it is not installed. */
ts_status ts_openssl(const ts_openssl_calls **out);

#endif

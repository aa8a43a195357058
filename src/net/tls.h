/* SPDX-License-Identifier: Apache-2.0 */
/* Encrypted connections (TESSERA_TLS): TLS 1.3 with a key made from the job's secret, so there are no
 * certificates, and who does not know the secret cannot complete the handshake.
 *
 * Whoever uses a connection gets a local socket in its place; a thread moves the bytes between that
 * and the network.  So all code that reads and writes sockets works unchanged. */
#ifndef TS_NET_TLS_H
#define TS_NET_TLS_H

#include "net/secret.h"

/* given is false: TLS is off.  TS_EINVAL: it is on and there is no secret. */
ts_status ts_tls_key(ts_key *key);

/* Puts a local socket (non-blocking, closed on exec) in the place of *fd, a connected TCP socket, which
 * is taken over; with a key that is not given nothing happens.  The handshake goes on in the background; if it fails, the connection ends and the
 * log says why.  On failure *fd stays as it is. */
ts_status ts_tls_wrap(int *fd, const ts_key *key, bool accepting);

/* Waits until what was written to sockets that are closed now is on its way, for a second at most. */
void ts_tls_drain(void);

#endif

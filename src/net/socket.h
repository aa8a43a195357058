/* SPDX-License-Identifier: Apache-2.0 */
/* Stream sockets: TCP between hosts, UNIX sockets within one.
 *
 * Every descriptor made here is non-blocking and closed on exec; TCP sends small messages at once.
 * Nothing raises SIGPIPE, and interrupted calls go on.  Errors are TS_ENETWORK naming the address
 * and the cause, TS_ETIMEOUT when a transfer misses its deadline. */
#ifndef TS_NET_SOCKET_H
#define TS_NET_SOCKET_H

#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "base/error.h"

enum { TS_ADDRESS_TEXT = 128 }; /* holds any address text with its port and NUL */

/* ---- TCP ------------------------------------------------------------------------------------- */

/* Connects to host (a name or a numeric address) and port.  Whoever is to listen may start later:
 * attempts go on until the deadline, first after 1 ms, then ever more rarely.  The error tells
 * host, port, number of attempts and last cause.  A name that does not resolve fails at once. */
ts_status ts_tcp_connect(int *out, const char *host, int port, ts_deadline deadline);

/* One attempt, for what is known to listen: refused is an error at once. */
ts_status ts_tcp_connect_once(int *out, const char *host, int port, ts_deadline deadline);

/* The same from a numeric address of this host (NULL: any; one of another family is not used). */
ts_status ts_tcp_connect_from(int *out, const char *from, const char *host, int port,
                              ts_deadline deadline);

/* Begins to connect to a numeric address; writable means done or failed: ts_tcp_connect_end tells.
 */
ts_status ts_tcp_connect_begin(int *out, const char *from, const char *host, int port);
ts_status ts_tcp_connect_end(int fd);

/* Listens on port (0: the system picks one) of host; host NULL: every address, IPv6 and IPv4 if the
 * system has both.  A port of a finished run can be taken again; one in use is an error at once. */
ts_status ts_tcp_listen(int *out, const char *host, int port);

/* Makes a socket that was bound elsewhere listen, non-blocking. */
ts_status ts_tcp_listen_on(int fd);

/* Port that a socket is bound to; -1: none. */
int ts_socket_port(int fd);

/* Waits for a connection to a TCP or UNIX listener. */
ts_status ts_socket_accept(int *out, int listener, ts_deadline deadline);

/* "10.0.0.7:29500", "[::1]:29500", "@name"; "?" if there is none.  Returns text. */
const char *ts_socket_peer_text(int fd, char text[TS_ADDRESS_TEXT]);
const char *ts_socket_local_text(int fd, char text[TS_ADDRESS_TEXT]);

/* The numeric address (without port) from which packets to toward leave. */
ts_status ts_own_address(char text[TS_ADDRESS_TEXT], const char *toward);

/* ---- UNIX sockets (abstract names: nothing in the file system) ------------------------------- */

ts_status ts_unix_listen(int *out, const char *name);
ts_status ts_unix_connect(int *out, const char *name, ts_deadline deadline);

/* Process and user at the other end; 0 if not known. */
int ts_unix_peer(int fd, pid_t *pid, uid_t *uid);

/* Sends size (> 0) bytes and with them a descriptor (-1: none).  The receiver asks for the same
 * size; *passed is a new descriptor of its own or -1. */
ts_status ts_unix_send_fd(int fd, const void *data, size_t size, int passed, ts_deadline deadline);
ts_status ts_unix_recv_fd(int fd, void *data, size_t size, int *passed, ts_deadline deadline);

/* ---- transfers ------------------------------------------------------------------------------- */

/* All bytes, or an error that names peer (text for messages: "store server 10.0.0.1:29500"). */
ts_status ts_send_all(int fd, const void *data, size_t size, const char *peer,
                      ts_deadline deadline);
ts_status ts_recv_all(int fd, void *data, size_t size, const char *peer, ts_deadline deadline);

/* As much as goes without waiting: bytes moved; 0 nothing now; -1 failed, errno says why (ENODATA:
 * the peer has closed the connection in order). */
ssize_t ts_send_some(int fd, const struct iovec *pieces, int n);
ssize_t ts_recv_some(int fd, const struct iovec *pieces, int n);
ssize_t ts_recv_piece(int fd, void *to, size_t bytes); /* ts_recv_some of one piece, for less */

/* Waits until the descriptor is readable (POLLIN) or writable (POLLOUT), or has failed: 1.  0: the
 * deadline has passed. */
int ts_socket_wait(int fd, short events, ts_deadline deadline);

/* Sleeps before attempt number n (1, 2, ...) of something that is tried again and again: 1 ms,
 * doubling up to 50 ms, with jitter, and never past the deadline. */
void ts_backoff(int n, ts_deadline deadline);

/* Closes; -1 is fine.  errno is kept. */
void ts_socket_close(int fd);

#endif

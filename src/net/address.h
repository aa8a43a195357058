/* SPDX-License-Identifier: Apache-2.0 */
/* Internet addresses: resolving names, writing them as text. */
#ifndef TS_NET_ADDRESS_H
#define TS_NET_ADDRESS_H

#include <netdb.h>
#include <sys/socket.h>

#include "net/socket.h"

/* All addresses of host and port, for freeaddrinfo.  Numeric hosts need no name service; passive:
 * for listening.  A name that does not resolve: TS_ENETWORK with name and cause. */
ts_status ts_resolve(struct addrinfo **out, const char *host, int port, bool passive);

const char *ts_address_text(const struct sockaddr *address, socklen_t length,
                            char text[TS_ADDRESS_TEXT]);

/* Numeric text without the port; a link-local address keeps its scope.  false: it has none. */
bool ts_address_number(char text[TS_ADDRESS_TEXT], const struct sockaddr *address);

/* Small messages go at once; a peer whose host is gone is noticed.  Of no effect on UNIX sockets. */
void ts_tcp_tune(int fd);

#endif

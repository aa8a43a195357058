/* SPDX-License-Identifier: Apache-2.0 */
/* Network interfaces of this host, and which of them a list asks for. */
#ifndef TS_NET_INTERFACE_H
#define TS_NET_INTERFACE_H

#include "net/socket.h"

enum { TS_INTERFACES_MAX = 8, TS_INTERFACES_SEEN = 64 };

typedef struct ts_interface {
    char name[16];
    char address[TS_ADDRESS_TEXT]; /* numeric; a link-local one with its scope: "fe80::1%eth0" */
    bool loopback;
} ts_interface;

/* Those that are up and have an address, in the system's order, one entry each: IPv4 rather than
 * IPv6, global rather than link-local.  family: 0, or AF_INET or AF_INET6 alone. */
ts_status ts_interfaces_list(ts_interface out[TS_INTERFACES_SEEN], int *n, int family);

/* What list, the text of variable, asks for, in its order and at most TS_INTERFACES_MAX:
 *
 *   eth0,ib      eth0, and all whose names begin with ib (one with just that name goes alone)
 *   =eth0        eth0 alone
 *   ^docker,lo   the first of those whose names begin with none of these; loopback only if
 *                nothing else is left
 *
 * exact: names are whole in any form.  An item that matches nothing: TS_ENETWORK naming it, and
 * what there is. */
ts_status ts_interfaces_select(ts_interface out[TS_INTERFACES_MAX], int *n, const char *variable,
                               const char *list, bool exact, const ts_interface *there, int count);

/* The address at which a peer is reached through the interface called via: a link-local address
 * gets via as its scope, for scopes mean something on their own host only. */
void ts_address_through(char out[TS_ADDRESS_TEXT], const char *address, const char *via);

/* Whether a numeric address is of this host alone. */
bool ts_address_is_loopback(const char *address);

/* 127.0.0.1; on a host without IPv4, ::1. */
const char *ts_loopback(void);

/* A numeric address of this host that its own name stands for and a socket can be bound to, other
 * than loopback.  family as above.  false: there is none. */
bool ts_address_of_host_name(char out[TS_ADDRESS_TEXT], int family);

#endif

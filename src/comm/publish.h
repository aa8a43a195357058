/* SPDX-License-Identifier: Apache-2.0 */
/* Where others reach this process, when that is not where it listens: behind a translation of
 * addresses, as of a container, or a firewall that lets some ports through. */
#ifndef TS_COMM_PUBLISH_H
#define TS_COMM_PUBLISH_H

#include "comm/handshake.h"

/* Listens at address, on a port of TESSERA_LISTEN_PORTS if they are set, and fills in what is
 * published for connection number index: by TESSERA_PUBLISH_ADDRESS, or address itself. */
ts_status ts_publish_listen(int *fd, ts_endpoint *out, const char *address, int index);

#endif

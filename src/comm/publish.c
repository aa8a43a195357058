/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/publish.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/settings.h"
#include "net/socket.h"

/* "5000-5099" or "5000"; 0 .. 0: any port. */
static ts_status read_ports(int *first, int *last)
{
    char end;
    const char *text = ts_setting_string(TS_SETTING_LISTEN_PORTS);
    *first = *last = 0;
    if (!*text) return TS_OK;
    int n = sscanf(text, "%d-%d%c", first, last, &end);
    if (n == 1 && !strchr(text, '-')) *last = *first, n = 2;
    if (n == 2 && *first > 0 && *first <= *last && *last <= 65535) return TS_OK;
    return ts_fail(TS_EINVAL,
                   "TESSERA_LISTEN_PORTS is '%s'; it is a range of ports such as 5000-5099", text);
}

static ts_status listen_in_range(int *fd, const char *address, int first, int last)
{
    for (int port = first; port <= last; port++)
        if (ts_tcp_listen(fd, address, port) == TS_OK) return TS_OK;
    char why[TS_ADDRESS_TEXT + 200];
    snprintf(why, sizeof why, "%s", ts_error_last());
    return ts_fail(
        TS_ENETWORK,
        "all ports of TESSERA_LISTEN_PORTS (%d-%d) are in use; every group of every rank "
        "needs one: %s",
        first, last, why);
}

/* Item number index of the list, or the last one. */
static size_t find_item(const char **item, const char *list, int index)
{
    for (*item = list; index > 0 && strchr(*item, ','); index--) *item = strchr(*item, ',') + 1;
    return strcspn(*item, ",");
}

/* "host", "host:port", "[::1]:port", "::1"; *port -1: none.  false: malformed. */
static bool split(char host[TS_ADDRESS_TEXT], int *port, const char *item, size_t length)
{
    char text[2 * TS_ADDRESS_TEXT], rest;
    if (length == 0 || length >= TS_ADDRESS_TEXT) return false;
    snprintf(text, sizeof text, "%.*s", (int)length, item);
    *port = -1;
    char *colon = strrchr(text, ':'), *bracket = strrchr(text, ']');
    bool has_port = colon && (bracket ? colon > bracket : strchr(text, ':') == colon);
    if (has_port) {
        *colon = '\0';
        if (sscanf(colon + 1, "%d%c", port, &rest) != 1 || *port < 1 || *port > 65535) return false;
    }
    size_t begin = text[0] == '[', end = strlen(text);
    if (begin && (end < 3 || text[--end] != ']')) return false;
    snprintf(host, TS_ADDRESS_TEXT, "%.*s", (int)(end - begin), text + begin);
    return *host != '\0';
}

ts_status ts_publish_listen(int *fd, ts_endpoint *out, const char *address, int index)
{
    int first, last, port;
    const char *item, *list = ts_setting_string(TS_SETTING_PUBLISH_ADDRESS);
    TS_TRY(read_ports(&first, &last));
    TS_TRY(first ? listen_in_range(fd, address, first, last) : ts_tcp_listen(fd, address, 0));
    snprintf(out->address, sizeof out->address, "%s", address);
    out->port = ts_socket_port(*fd);
    if (!*list) return TS_OK;
    size_t length = find_item(&item, list, index);
    if (!split(out->address, &port, item, length))
        return ts_fail(
            TS_EINVAL,
            "TESSERA_PUBLISH_ADDRESS is '%s'; it is an address, or address:port, for each "
            "interface",
            list);
    if (port < 0) return TS_OK;
    if (!first)
        return ts_fail(TS_EINVAL,
                       "TESSERA_PUBLISH_ADDRESS has a port, so TESSERA_LISTEN_PORTS must "
                       "say which ports of this process lie behind it");
    out->port += port - first;
    return TS_OK;
}

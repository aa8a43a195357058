/* SPDX-License-Identifier: Apache-2.0 */
#include "net/interface.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "net/address.h"

/* ---- what there is --------------------------------------------------------------------------- */

/* 3: IPv4, 2: IPv6, 1: IPv6 of one link, 0: of no use. */
static int worth(const struct sockaddr *address, int family)
{
    if (!address || (family && address->sa_family != family)) return 0;
    if (address->sa_family == AF_INET) return 3;
    if (address->sa_family != AF_INET6) return 0;
    const struct sockaddr_in6 *v6 = (const void *)address;
    return IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr) ? 1 : 2;
}

static int find_name(const ts_interface *list, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(list[i].name, name) == 0) return i;
    return n;
}

static void consider(ts_interface *out, int *n, int *best, const struct ifaddrs *a, int family)
{
    int value = a->ifa_flags & IFF_UP ? worth(a->ifa_addr, family) : 0;
    int i = find_name(out, *n, a->ifa_name);
    if (value == 0 || i == TS_INTERFACES_SEEN || (i < *n && best[i] >= value)) return;
    char text[TS_ADDRESS_TEXT];
    if (!ts_address_number(text, a->ifa_addr)) return;
    if (i == *n) (*n)++;
    best[i] = value;
    snprintf(out[i].name, sizeof out[i].name, "%s", a->ifa_name);
    snprintf(out[i].address, sizeof out[i].address, "%s", text);
    out[i].loopback = (a->ifa_flags & IFF_LOOPBACK) != 0;
}

ts_status ts_interfaces_list(ts_interface out[TS_INTERFACES_SEEN], int *n, int family)
{
    struct ifaddrs *all;
    int best[TS_INTERFACES_SEEN] = {0};
    *n = 0;
    if (getifaddrs(&all) != 0)
        return ts_fail(TS_ENETWORK, "cannot list network interfaces: %s", strerror(errno));
    for (const struct ifaddrs *a = all; a; a = a->ifa_next) consider(out, n, best, a, family);
    freeifaddrs(all);
    return TS_OK;
}

/* ---- what is asked for ----------------------------------------------------------------------- */

typedef struct item {
    char name[64];
    bool exact;
} item;

/* The next item of the list; false at its end. */
static bool next_item(item *out, const char **list, bool exact)
{
    *list += strspn(*list, ", ");
    size_t length = strcspn(*list, ", ");
    if (length == 0) return false;
    bool whole = **list == '=';
    snprintf(out->name, sizeof out->name, "%.*s", (int)length - whole, *list + whole);
    out->exact = exact || whole;
    *list += length;
    return true;
}

static bool matches(const item *wanted, const char *name)
{
    return wanted->exact ? strcmp(name, wanted->name) == 0
                         : strncmp(name, wanted->name, strlen(wanted->name)) == 0;
}

static ts_status nothing(const char *variable, const char *what, const char *wrong,
                         const ts_interface *there, int count)
{
    char list[512] = "none";
    size_t used = 0;
    for (int i = 0; i < count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s (%s)", i ? ", " : "",
                                 there[i].name, there[i].address);
    return ts_fail(TS_ENETWORK,
                   "%s: network interface '%s' %s; those that are up with an address: %s", variable,
                   what, wrong, list);
}

static void add(ts_interface *out, int *n, const ts_interface *one)
{
    if (*n < TS_INTERFACES_MAX && find_name(out, *n, one->name) == *n) out[(*n)++] = *one;
}

static ts_status include(ts_interface *out, int *n, const char *variable, const char *list,
                         bool exact, const ts_interface *there, int count)
{
    item wanted;
    while (next_item(&wanted, &list, exact)) {
        bool found = false;
        if (find_name(there, count, wanted.name) < count) wanted.exact = true;
        for (int i = 0; i < count; i++) {
            if (!matches(&wanted, there[i].name)) continue;
            add(out, n, &there[i]);
            found = true;
        }
        if (!found)
            return nothing(variable, wanted.name, "does not exist or has no address", there, count);
    }
    return *n > 0 ? TS_OK : nothing(variable, list, "is no name", there, count);
}

static bool excluded(const char *list, bool exact, const char *name)
{
    item unwanted;
    while (next_item(&unwanted, &list, exact))
        if (matches(&unwanted, name)) return true;
    return false;
}

ts_status ts_interfaces_select(ts_interface out[TS_INTERFACES_MAX], int *n, const char *variable,
                               const char *list, bool exact, const ts_interface *there, int count)
{
    *n = 0;
    if (*list != '^') return include(out, n, variable, list, exact, there, count);
    for (int loopback = 0; loopback < 2; loopback++)
        for (int i = 0; i < count; i++) {
            if (there[i].loopback != loopback || excluded(list + 1, exact, there[i].name)) continue;
            add(out, n, &there[i]);
            return TS_OK;
        }
    return nothing(variable, list, "leaves none", there, count);
}

/* ---- addresses ------------------------------------------------------------------------------- */

void ts_address_through(char out[TS_ADDRESS_TEXT], const char *address, const char *via)
{
    struct in6_addr v6;
    char plain[TS_ADDRESS_TEXT];
    snprintf(plain, sizeof plain, "%.*s", (int)strcspn(address, "%"), address);
    bool scoped = inet_pton(AF_INET6, plain, &v6) == 1 && IN6_IS_ADDR_LINKLOCAL(&v6) && *via;
    if (scoped)
        snprintf(out, TS_ADDRESS_TEXT, "%.100s%%%.16s", plain, via);
    else
        snprintf(out, TS_ADDRESS_TEXT, "%s", address);
}

bool ts_address_is_loopback(const char *address)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, address, &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, address, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

static bool can_bind(const struct addrinfo *a)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return false;
    bool ok = bind(fd, a->ai_addr, a->ai_addrlen) == 0;
    ts_socket_close(fd);
    return ok;
}

const char *ts_loopback(void)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct addrinfo a = {
        .ai_family = AF_INET, .ai_addr = (struct sockaddr *)&v4, .ai_addrlen = sizeof v4};
    return can_bind(&a) ? "127.0.0.1" : "::1";
}

bool ts_address_of_host_name(char out[TS_ADDRESS_TEXT], int family)
{
    char name[256] = "";
    struct addrinfo *list, hints = {.ai_family = family, .ai_socktype = SOCK_STREAM};
    bool found = false;
    if (gethostname(name, sizeof name - 1) != 0 || !*name) return false;
    if (getaddrinfo(name, NULL, &hints, &list) != 0) return false;
    for (const struct addrinfo *a = list; a && !found; a = a->ai_next)
        found = can_bind(a) && ts_address_number(out, a->ai_addr) && !ts_address_is_loopback(out);
    freeaddrinfo(list);
    return found;
}

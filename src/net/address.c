/* SPDX-License-Identifier: Apache-2.0 */
#include "net/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

/* "[::1]" is the address that brackets keep apart from a port. */
static const char *without_brackets(char text[TS_ADDRESS_TEXT], const char *host)
{
    size_t length = host ? strlen(host) : 0;
    if (length < 3 || length > TS_ADDRESS_TEXT || host[0] != '[' || host[length - 1] != ']')
        return host;
    snprintf(text, TS_ADDRESS_TEXT, "%.*s", (int)length - 2, host + 1);
    return text;
}

ts_status ts_resolve(struct addrinfo **out, const char *host, int port, bool passive)
{
    char plain[TS_ADDRESS_TEXT];
    char service[16];
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    snprintf(service, sizeof service, "%d", port);
    host = without_brackets(plain, host);
    hints.ai_flags = AI_NUMERICSERV | AI_NUMERICHOST | (passive ? AI_PASSIVE : 0);
    int error = getaddrinfo(host, service, &hints, out);
    if (error == EAI_NONAME) {
        hints.ai_flags &= ~AI_NUMERICHOST;
        error = getaddrinfo(host, service, &hints, out);
    }
    if (error)
        return ts_fail(
            TS_ENETWORK,
            "host name '%s' does not resolve: %s; check its spelling and the name service", host,
            error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error));
    return TS_OK;
}

static const char *unix_text(const struct sockaddr_un *address, socklen_t length, char *text)
{
    size_t named = length > sizeof(sa_family_t) ? length - sizeof(sa_family_t) : 0;
    if (named > 1 && address->sun_path[0] == '\0')
        snprintf(text, TS_ADDRESS_TEXT, "@%.*s", (int)named - 1, address->sun_path + 1);
    else
        snprintf(text, TS_ADDRESS_TEXT, "%.*s", named ? (int)named : 1,
                 named ? address->sun_path : "?");
    return text;
}

const char *ts_address_text(const struct sockaddr *address, socklen_t length,
                            char text[TS_ADDRESS_TEXT])
{
    char number[INET6_ADDRSTRLEN] = "?";
    if (address->sa_family == AF_UNIX) return unix_text((const void *)address, length, text);
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const void *)address;
        inet_ntop(AF_INET, &v4->sin_addr, number, sizeof number);
        snprintf(text, TS_ADDRESS_TEXT, "%s:%d", number, ntohs(v4->sin_port));
    } else if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const void *)address;
        bool mapped = IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr);
        if (mapped)
            inet_ntop(AF_INET, &v6->sin6_addr.s6_addr[12], number, sizeof number);
        else
            inet_ntop(AF_INET6, &v6->sin6_addr, number, sizeof number);
        snprintf(text, TS_ADDRESS_TEXT, mapped ? "%s:%d" : "[%s]:%d", number, ntohs(v6->sin6_port));
    } else {
        snprintf(text, TS_ADDRESS_TEXT, "?");
    }
    return text;
}

const char *ts_socket_peer_text(int fd, char text[TS_ADDRESS_TEXT])
{
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    if (getpeername(fd, (struct sockaddr *)&address, &length) != 0) return strcpy(text, "?");
    return ts_address_text((struct sockaddr *)&address, length, text);
}

const char *ts_socket_local_text(int fd, char text[TS_ADDRESS_TEXT])
{
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &length) != 0) return strcpy(text, "?");
    return ts_address_text((struct sockaddr *)&address, length, text);
}

int ts_socket_port(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &length) != 0) return -1;
    if (address.ss_family == AF_INET) return ntohs(((struct sockaddr_in *)&address)->sin_port);
    if (address.ss_family == AF_INET6) return ntohs(((struct sockaddr_in6 *)&address)->sin6_port);
    return -1;
}

bool ts_address_number(char text[TS_ADDRESS_TEXT], const struct sockaddr *address)
{
    socklen_t length =
        address->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    return getnameinfo(address, length, text, TS_ADDRESS_TEXT, NULL, 0, NI_NUMERICHOST) == 0;
}

/* A connected datagram socket sends nothing, but the kernel has chosen its source address. */
static int source_address(struct sockaddr_storage *source, const struct addrinfo *toward)
{
    socklen_t length = sizeof *source;
    int fd = socket(toward->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return 0;
    int ok = connect(fd, toward->ai_addr, toward->ai_addrlen) == 0 &&
             getsockname(fd, (struct sockaddr *)source, &length) == 0;
    ts_socket_close(fd);
    return ok;
}

ts_status ts_own_address(char text[TS_ADDRESS_TEXT], const char *toward)
{
    struct addrinfo *list;
    struct sockaddr_storage source;
    TS_TRY(ts_resolve(&list, toward, 9, false));
    int ok = 0;
    for (struct addrinfo *a = list; a && !ok; a = a->ai_next) ok = source_address(&source, a);
    int cause = errno;
    freeaddrinfo(list);
    if (ok && ts_address_number(text, (struct sockaddr *)&source)) return TS_OK;
    return ts_fail(TS_ENETWORK, "no route to host '%s': %s", toward, strerror(cause));
}

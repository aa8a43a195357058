/* SPDX-License-Identifier: Apache-2.0 */
/* The greeting that opens each connection, seen by a rank that knows the records of all. */
#include "comm/bootstrap.h"

ts_status ts_greet_write(const ts_bootstrap *boot, uint8_t out[TS_GREETING_MAX], int peer,
                         int socket, size_t heap_reserved, ts_nonces *nonces, bool connecting)
{
    ts_hello hello = {.rank = (uint32_t)boot->own.rank,
                      .size = (uint32_t)boot->own.size,
                      .to_rank = (uint32_t)peer,
                      .incarnation = boot->own.incarnation,
                      .to_incarnation = boot->record[peer].incarnation,
                      .heap_reserved = heap_reserved,
                      .socket = (uint32_t)socket,
                      .has_heap = heap_reserved > 0};
    ts_hello_write(out, &hello, boot->run, boot->engine->name);
    return ts_greeting_prove(out, &boot->key, nonces, connecting);
}

static const char *check(const ts_bootstrap *boot, const ts_hello *hello)
{
    if (hello->size != (uint32_t)boot->own.size) return "it has another world size";
    if (hello->rank == (uint32_t)boot->own.rank) return "it has this rank's number";
    if (hello->incarnation != boot->record[hello->rank].incarnation)
        return "it is not the process that joined as its rank";
    if (hello->to_rank != (uint32_t)boot->own.rank ||
        hello->to_incarnation != boot->own.incarnation)
        return "it looks for another process";
    const ts_link *link = ts_link_socket(boot->engine->link[hello->rank], (int)hello->socket);
    if (!link || hello->socket >= TS_SOCKETS_MAX) return "it has more connections than agreed";
    return link->fd >= 0 ? "its rank is connected already" : NULL;
}

const char *ts_greet_read(const ts_bootstrap *boot, ts_hello *hello,
                          const uint8_t in[TS_GREETING_MAX], ts_nonces *nonces, bool connecting)
{
    const char *wrong = ts_greeting_check(in, &boot->key, nonces, connecting);
    if (!wrong) wrong = ts_hello_read(hello, in, boot->run, boot->engine->name);
    return wrong ? wrong : check(boot, hello);
}

void ts_greet_route(const ts_bootstrap *boot, int peer, int socket, ts_route *out)
{
    int at = (boot->own.rank + peer + socket) % boot->own.endpoints;
    const ts_endpoint *there = &boot->record[peer].endpoint[at];
    out->port = there->port;
    ts_address_through(out->to, there->address, boot->via[at].name);
    out->from = boot->via[at].name[0] ? boot->via[at].address : NULL;
}

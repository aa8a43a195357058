/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0 serves a store, and the others find it.
 *
 * With a port they are told where it is.  Without one the name of the run leads to it: on one host
 * through a socket whose name contains it, which no other job can have; between hosts through a
 * few ports that are computed from it, of which rank 0 takes the first free one.  The others look
 * through these ports until they find the store in which rank 0 has put the name of the run. */
#include "comm/meet.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/context.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/settings.h"
#include "net/address.h"
#include "net/interface.h"

#define RUN_KEY "tessera/run"

enum {
    FIRST_PORT = 15000, /* below those that the system gives away */
    NUM_PORTS = 15000,
    CANDIDATES = 8,
    NAME_MS = 10000,
    SLOW_NAME_US = 400000, /* pause after which a warning is due */
    CANDIDATE_MS = 2000,
    INTRODUCTION_MS = 1000
};

/* ---- names ----------------------------------------------------------------------------------- */

static bool resolves(const char *host)
{
    struct addrinfo *list;
    if (ts_resolve(&list, host, 9, false) != TS_OK) return false;
    freeaddrinfo(list);
    return true;
}

ts_status ts_meet_await_name(const char *host, const char *source, int64_t timeout_ms)
{
    char cause[TS_ERROR_MAX];
    int64_t limit = timeout_ms > 0 && timeout_ms < NAME_MS ? timeout_ms : NAME_MS;
    ts_deadline deadline = ts_deadline_in(limit);
    useconds_t pause = 50000;
    bool said = false;
    while (!resolves(host)) {
        if (ts_deadline_passed(deadline)) {
            snprintf(cause, sizeof cause, "%s", ts_error_last());
            return ts_fail(TS_ENETWORK,
                           "init_process_group: the host of rank 0, from %s, is not known (tried "
                           "for %lld ms): %s, or set MASTER_ADDR to an address of that host",
                           source, (long long)limit, cause);
        }
        if (!said && pause >= SLOW_NAME_US) {
            said = true;
            TS_LOG(TS_LOG_COMM, TS_LEVEL_WARNING, "%s; trying again for %lld ms", ts_error_last(),
                   (long long)limit);
        }
        usleep(pause);
        pause *= pause < 800000 ? 2 : 1;
    }
    return TS_OK;
}

/* ---- a store at an address ------------------------------------------------------------------- */

static void address_of(ts_place *p, const ts_meeting *how, int port)
{
    snprintf(p->address, sizeof p->address, "%s:%d", how->host, port);
}

static bool still_served(ts_place *p, const ts_meeting *how)
{
    if (!p->hosted || !how->kept || !how->kept_address) return false;
    if (strcmp(how->kept_address, p->address) != 0) return false;
    p->store = ts_store_retain(how->kept);
    return true;
}

/* fd: a socket to serve on, which is taken over; -1: none. */
static ts_status open_store(ts_place *p, const ts_meeting *how, const char *host, int port, int fd,
                            int64_t timeout_ms)
{
    ts_tcp_store_options opt = TS_TCP_STORE_OPTIONS_INIT;
    opt.host = host;
    opt.port = port;
    opt.is_master = p->hosted;
    opt.world_size = p->size;
    opt.timeout_ms = timeout_ms;
    opt.wait_for_workers = false;
    opt.multi_tenant = fd < 0;
    opt.master_listen_fd = fd;
    TS_TRY(ts_tcp_store_new(&p->store, &opt));
    return ts_store_set_timeout(p->store, how->timeout_ms);
}

static bool is_multicast(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, host, &v4) == 1) return IN_MULTICAST(ntohl(v4.s_addr));
    return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_MULTICAST(&v6);
}

static ts_status meet_at_address(ts_place *p, const ts_meeting *how)
{
    const char *host = how->host;
    if (is_multicast(host))
        return ts_fail(
            TS_EINVAL,
            "init_process_group: %s, from %s, is a multicast address; give an address of "
            "the host of rank 0",
            host, how->source);
    address_of(p, how, how->port);
    if (still_served(p, how)) return TS_OK;
    if (!p->hosted) {
        TS_TRY(ts_meet_await_name(host, how->source, how->timeout_ms));
    } else if (*host && !resolves(host)) {
        TS_LOG(TS_LOG_COMM, TS_LEVEL_WARNING,
               "%s; rank 0 serves on all addresses of this host, port %d", ts_error_last(),
               how->port);
        host = "";
    }
    return open_store(p, how, host, how->port, -1, how->timeout_ms);
}

/* ---- one host -------------------------------------------------------------------------------- */

static ts_status door_name(char name[100], const ts_meeting *how)
{
    if (!*how->run)
        return ts_fail(
            TS_EINVAL,
            "init_process_group: MASTER_PORT is not set and the launcher has given no "
            "name of the run; set MASTER_PORT, or TESSERA_RUN_ID to a name that no other "
            "job has");
    snprintf(name, 100, "tessera-meet-%u-%.64s", (unsigned)getuid(), how->run);
    return TS_OK;
}

/* Tells one rank the port: its number, or -1 for who does not belong here. */
static int tell(int listener, int size, int32_t port, ts_deadline deadline)
{
    int fd;
    int32_t rank = -1;
    pid_t pid;
    uid_t uid;
    if (ts_socket_accept(&fd, listener, deadline) != TS_OK) return -1;
    if (ts_unix_peer(fd, &pid, &uid) && uid == getuid()) {
        ts_deadline soon = ts_deadline_in(INTRODUCTION_MS);
        if (ts_recv_all(fd, &rank, sizeof rank, "a rank", soon) != TS_OK ||
            ts_send_all(fd, &port, sizeof port, "a rank", soon) != TS_OK)
            rank = -1;
    }
    ts_socket_close(fd);
    return rank > 0 && rank < size ? (int)rank : -1;
}

static ts_status tell_all(int listener, const ts_place *p, const ts_meeting *how, int port)
{
    bool *told = ts_calloc((size_t)p->size, sizeof *told);
    ts_deadline deadline = ts_deadline_in(how->timeout_ms);
    int missing = p->size - 1;
    if (!told) return ts_fail_memory((size_t)p->size, "the ranks of a run");
    while (missing > 0 && !ts_deadline_passed(deadline)) {
        int rank = tell(listener, p->size, port, deadline);
        if (rank > 0 && !told[rank]) missing--, told[rank] = true;
    }
    free(told);
    if (missing == 0) return TS_OK;
    return ts_fail(TS_ETIMEOUT,
                   "init_process_group: %d of %d ranks of run '%s' have not come to this host "
                   "within %lld ms",
                   missing, p->size, how->run, (long long)how->timeout_ms);
}

static ts_status open_door(ts_place *p, const ts_meeting *how, const char *name)
{
    int listener, fd;
    if (ts_unix_listen(&listener, name) != TS_OK)
        return ts_fail(
            TS_ENETWORK,
            "init_process_group: another job with the name '%s' starts on this host; give "
            "each its own TESSERA_RUN_ID",
            how->run);
    snprintf(p->address, sizeof p->address, "@%s", name);
    ts_status status = TS_OK;
    if (!still_served(p, how)) {
        status = ts_tcp_listen(&fd, ts_loopback(), 0);
        if (status == TS_OK)
            status = open_store(p, how, ts_loopback(), ts_socket_port(fd), fd, how->timeout_ms);
    }
    if (status == TS_OK) status = tell_all(listener, p, how, ts_tcp_store_port(p->store));
    ts_socket_close(listener);
    return status;
}

static ts_status ask_at_door(int *port, const ts_place *p, const ts_meeting *how, const char *name)
{
    int fd;
    int32_t rank = p->rank, answer = 0;
    pid_t pid;
    uid_t uid;
    ts_deadline deadline = ts_deadline_in(how->timeout_ms);
    if (ts_unix_connect(&fd, name, deadline) != TS_OK)
        return ts_fail(TS_ETIMEOUT,
                       "init_process_group: rank 0 of run '%s' has not come to this host within "
                       "%lld ms",
                       how->run, (long long)how->timeout_ms);
    ts_status status =
        ts_unix_peer(fd, &pid, &uid) && uid == getuid()
            ? ts_send_all(fd, &rank, sizeof rank, "rank 0", deadline)
            : ts_fail(TS_ENETWORK, "init_process_group: the name of run '%s' is used by user %u",
                      how->run, (unsigned)uid);
    if (status == TS_OK) status = ts_recv_all(fd, &answer, sizeof answer, "rank 0", deadline);
    ts_socket_close(fd);
    *port = (int)answer;
    return status;
}

static ts_status meet_on_host(ts_place *p, const ts_meeting *how)
{
    char name[100];
    int port = 0;
    TS_TRY(door_name(name, how));
    if (p->hosted) return open_door(p, how, name);
    TS_TRY(ask_at_door(&port, p, how, name));
    return open_store(p, how, ts_loopback(), port, -1, how->timeout_ms);
}

/* ---- between hosts --------------------------------------------------------------------------- */

int ts_meet_port(const char *run, int number)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325) + (uint64_t)number;
    for (; *run; run++) hash = (hash ^ (unsigned char)*run) * UINT64_C(0x100000001b3);
    hash ^= hash >> 29;
    return FIRST_PORT + (int)(hash * UINT64_C(0x9e3779b97f4a7c15) >> 32) % NUM_PORTS;
}

static ts_status serve_on_candidate(ts_place *p, const ts_meeting *how)
{
    int fd = -1, port = 0;
    snprintf(p->address, sizeof p->address, "%s@%s", how->host, how->run);
    if (still_served(p, how)) return TS_OK;
    for (int i = 0; i < CANDIDATES && fd < 0; i++) {
        port = ts_meet_port(how->run, i);
        if (ts_tcp_listen(&fd, NULL, port) != TS_OK) fd = -1;
    }
    if (fd < 0)
        return ts_fail(TS_ENETWORK,
                       "init_process_group: the ports of run '%s' (%d and %d others) are all taken "
                       "on this host; set MASTER_PORT to a free one",
                       how->run, ts_meet_port(how->run, 0), CANDIDATES - 1);
    TS_TRY(open_store(p, how, "", port, fd, how->timeout_ms));
    return ts_store_set(p->store, RUN_KEY, how->run, strlen(how->run));
}

static bool is_of_run(ts_store *store, const char *run)
{
    const char *key = RUN_KEY;
    void *value = NULL;
    size_t size;
    bool own = ts_store_wait(store, &key, 1, CANDIDATE_MS) == TS_OK &&
               ts_store_get(store, key, &value, &size) == TS_OK && size == strlen(run) &&
               memcmp(value, run, size) == 0;
    free(value);
    return own;
}

static bool try_candidate(ts_place *p, const ts_meeting *how, int port)
{
    int fd;
    if (ts_tcp_connect_once(&fd, how->host, port, ts_deadline_in(CANDIDATE_MS)) != TS_OK)
        return false;
    ts_socket_close(fd);
    if (open_store(p, how, how->host, port, -1, CANDIDATE_MS) != TS_OK) return false;
    if (is_of_run(p->store, how->run)) return true;
    ts_store_free(p->store);
    p->store = NULL;
    return false;
}

static ts_status find_candidate(ts_place *p, const ts_meeting *how)
{
    ts_deadline deadline = ts_deadline_in(how->timeout_ms);
    TS_TRY(ts_meet_await_name(how->host, how->source, how->timeout_ms));
    for (int turn = 1; !ts_deadline_passed(deadline); turn++) {
        for (int i = 0; i < CANDIDATES; i++)
            if (try_candidate(p, how, ts_meet_port(how->run, i))) return TS_OK;
        ts_backoff(turn, deadline);
    }
    return ts_fail(TS_ETIMEOUT,
                   "init_process_group: rank 0 of run '%s' was not found on host '%s' (from %s) "
                   "within %lld ms: tried port %d and %d others; if rank 0 is on another host, set "
                   "MASTER_ADDR",
                   how->run, how->host, how->source, (long long)how->timeout_ms,
                   ts_meet_port(how->run, 0), CANDIDATES - 1);
}

static ts_status meet_by_run(ts_place *p, const ts_meeting *how)
{
    char name[100];
    TS_TRY(door_name(name, how)); /* there must be a name */
    return p->hosted ? serve_on_candidate(p, how) : find_candidate(p, how);
}

ts_status ts_meet(ts_place *place, const ts_meeting *how)
{
    place->hosted = how->serve && place->rank == 0;
    if (how->port) return meet_at_address(place, how);
    ts_status status = *how->host ? meet_by_run(place, how) : meet_on_host(place, how);
    return status;
}

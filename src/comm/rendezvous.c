/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/rendezvous.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/settings.h"

/* Ours and torchrun's first, then Slurm, Open MPI, MPICH. */
const char *const ts_rank_variables[] = {"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                         NULL};
const char *const ts_size_variables[] = {"WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE",
                                         "PMI_SIZE", NULL};

typedef struct url {
    char *text; /* owned; the parts point into it */
    const char *scheme;
    char *rest;     /* host:port or path */
    int rank, size; /* -1: not given */
} url;

static ts_status number(int *out, const char *text, const char *what, int least, int most)
{
    int64_t value;
    if (ts_parse_int(&value, text) != TS_OK || value < least || value > most)
        return ts_fail(TS_EINVAL, "init_process_group: %s is '%s', not a number in %d .. %d", what,
                       text, least, most);
    *out = (int)value;
    return TS_OK;
}

ts_status ts_env_int(int *out, bool *found, const char *const *names)
{
    *found = false;
    for (int i = 0; names[i]; i++) {
        const char *text = getenv(names[i]);
        if (!text || !*text) continue;
        *found = true;
        return number(out, text, names[i], 0, 1 << 24);
    }
    return TS_OK;
}

/* ---- the URL --------------------------------------------------------------------------------- */

static ts_status parse_query(url *u, char *query)
{
    char *state = NULL;
    for (char *item = strtok_r(query, "&", &state); item; item = strtok_r(NULL, "&", &state)) {
        if (strncmp(item, "rank=", 5) == 0)
            TS_TRY(number(&u->rank, item + 5, "rank in the init method", 0, 1 << 24));
        else if (strncmp(item, "world_size=", 11) == 0)
            TS_TRY(number(&u->size, item + 11, "world_size in the init method", 1, 1 << 24));
        else if (strncmp(item, "use_libuv=", 10) != 0)
            return ts_fail(TS_EINVAL,
                           "init_process_group: '%s' in the init method is not known; "
                           "rank= and world_size= are",
                           item);
    }
    return TS_OK;
}

/* u->text is to be freed in every case. */
static ts_status parse_url(url *u, const char *method)
{
    *u = (url){.text = ts_strdup(method), .rank = -1, .size = -1};
    if (!u->text) return ts_fail_memory(strlen(method), "the init method");
    char *colon = strstr(u->text, "://");
    if (!colon)
        return ts_fail(TS_EINVAL,
                       "init_process_group: init method '%s' is not of the form env://, "
                       "tcp://host:port or file:///path",
                       method);
    *colon = '\0';
    u->scheme = u->text;
    u->rest = colon + 3;
    char *query = strchr(u->rest, '?');
    if (!query) return TS_OK;
    *query = '\0';
    return parse_query(u, query + 1);
}

/* An argument, or the URL, but not both. */
static ts_status choose(int *out, int argument, int in_url, const char *what)
{
    if (argument >= 0 && in_url >= 0)
        return ts_fail(TS_EINVAL,
                       "init_process_group: %s is given twice, as an option and in the "
                       "init method",
                       what);
    *out = argument >= 0 ? argument : in_url;
    return TS_OK;
}

static ts_status check_place(const ts_place *p)
{
    if (p->size < 1)
        return ts_fail(TS_EINVAL, "init_process_group: world size %d is not positive", p->size);
    if (p->rank < 0 || p->rank >= p->size)
        return ts_fail(TS_EINVAL, "init_process_group: rank %d is not in 0 .. %d (world size %d)",
                       p->rank, p->size - 1, p->size);
    return TS_OK;
}

/* ---- stores ---------------------------------------------------------------------------------- */

typedef struct address {
    char host[256];
    int port;
    bool serve; /* rank 0 serves; otherwise the launcher does */
} address;

static ts_status meet_tcp(ts_place *p, const address *at, int64_t timeout_ms, ts_store *kept,
                          const char *kept_address)
{
    ts_tcp_store_options opt = TS_TCP_STORE_OPTIONS_INIT;
    snprintf(p->address, sizeof p->address, "%s:%d", at->host, at->port);
    p->hosted = at->serve && p->rank == 0;
    if (p->hosted && kept && kept_address && strcmp(kept_address, p->address) == 0) {
        p->store = ts_store_retain(kept);
        return TS_OK;
    }
    opt.host = at->host;
    opt.port = at->port;
    opt.is_master = p->hosted;
    opt.world_size = p->size;
    opt.timeout_ms = timeout_ms;
    opt.wait_for_workers = false;
    opt.multi_tenant = true;
    return ts_tcp_store_new(&p->store, &opt);
}

static ts_status split_address(address *out, const char *text)
{
    const char *colon = strrchr(text, ':');
    if (!colon || colon == text || !colon[1])
        return ts_fail(TS_EINVAL, "init_process_group: '%s' has no %s; tcp://host:port is needed",
                       text, colon && colon[1] ? "host" : "port");
    size_t length = (size_t)(colon - text);
    if (text[0] == '[' && text[length - 1] == ']') { /* an IPv6 address */
        text++;
        length -= 2;
    }
    if (length >= sizeof out->host)
        return ts_fail(TS_EINVAL, "init_process_group: the host in '%s' is too long", text);
    memcpy(out->host, text, length);
    out->host[length] = '\0';
    return number(&out->port, colon + 1, "port in the init method", 1, 65535);
}

static ts_status env_address(address *out, const ts_place *p)
{
    const char *host = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");
    const char *agent = getenv("TORCHELASTIC_USE_AGENT_STORE");
    out->serve = !(agent && strcmp(agent, "True") == 0);
    if ((!host || !*host) && (p->rank != 0 || !out->serve))
        return ts_fail(TS_EINVAL,
                       "init_process_group: MASTER_ADDR is not set; it names the host of "
                       "rank 0: start the program with tessera run -n N PROGRAM, or set it");
    if (!port || !*port)
        return ts_fail(TS_EINVAL,
                       "init_process_group: MASTER_PORT is not set; it is the port on which rank 0 "
                       "is met: start the program with tessera run -n N PROGRAM, or set it");
    snprintf(out->host, sizeof out->host, "%s", host ? host : ""); /* "": of rank 0, everywhere */
    return number(&out->port, port, "MASTER_PORT", 1, 65535);
}

static ts_status from_env(int *value, const char *const *variables, const char *meaning)
{
    bool found = false;
    if (*value >= 0) return TS_OK;
    TS_TRY(ts_env_int(value, &found, variables));
    if (found) return TS_OK;
    return ts_fail(TS_EINVAL,
                   "init_process_group: %s is not set; it is %s: start the program with tessera "
                   "run -n N PROGRAM, or set it",
                   variables[0], meaning);
}

static ts_status complete(ts_place *out, const url *u, int64_t timeout_ms, ts_store *kept,
                          const char *kept_address)
{
    address at = {.serve = true};
    bool env = strcmp(u->scheme, "env") == 0, tcp = strcmp(u->scheme, "tcp") == 0;
    if (!env && !tcp && strcmp(u->scheme, "file") != 0)
        return ts_fail(TS_EINVAL,
                       "init_process_group: no init method '%s://'; there are env://, "
                       "tcp://host:port and file:///path",
                       u->scheme);
    if (env) {
        TS_TRY(from_env(&out->rank, ts_rank_variables, "the number of this process"));
        TS_TRY(from_env(&out->size, ts_size_variables, "the number of processes"));
    }
    if (out->rank < 0 || out->size < 0)
        return ts_fail(TS_EINVAL,
                       "init_process_group: %s is missing; %s:// needs it as an option or "
                       "as ?%s=",
                       out->rank < 0 ? "rank" : "world_size", u->scheme,
                       out->rank < 0 ? "rank" : "world_size");
    TS_TRY(check_place(out));
    if (tcp) TS_TRY(split_address(&at, u->rest));
    if (!env && !tcp && !*u->rest)
        return ts_fail(TS_EINVAL, "init_process_group: file:// has no path");
    if (out->size == 1) return TS_OK;
    if (env) TS_TRY(env_address(&at, out));
    if (env || tcp) return meet_tcp(out, &at, timeout_ms, kept, kept_address);
    TS_TRY(ts_file_store_new(&out->store, u->rest, out->size));
    return ts_store_set_timeout(out->store, timeout_ms);
}

static ts_status given_store(ts_place *out, const ts_init_options *opt)
{
    if (opt->init_method)
        return ts_fail(TS_EINVAL, "init_process_group: store and init_method exclude each other");
    out->rank = opt->rank;
    out->size = opt->world_size;
    TS_TRY(check_place(out));
    out->store = out->size > 1 ? ts_store_retain(opt->store) : NULL;
    return TS_OK;
}

ts_status ts_rendezvous(ts_place *out, const ts_init_options *opt, int64_t timeout_ms,
                        ts_store *kept, const char *kept_address)
{
    url u;
    ts_place place = {.rank = -1, .size = -1};
    if (opt->store) {
        TS_TRY(given_store(&place, opt));
        *out = place;
        return TS_OK;
    }
    ts_status status = parse_url(&u, opt->init_method ? opt->init_method : "env://");
    if (status == TS_OK) status = choose(&place.rank, opt->rank, u.rank, "rank");
    if (status == TS_OK) status = choose(&place.size, opt->world_size, u.size, "world_size");
    if (status == TS_OK) status = complete(&place, &u, timeout_ms, kept, kept_address);
    free(u.text);
    if (status == TS_OK)
        *out = place;
    else
        ts_store_free(place.store);
    return status;
}

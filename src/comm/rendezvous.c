/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/rendezvous.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/settings.h"
#include "comm/handlers.h"
#include "comm/meet.h"
#include "net/interface.h"

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

/* "host:port" */
static ts_status split_address(ts_meeting *out, const char *text)
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

/* ---- env:// ---------------------------------------------------------------------------------- */

static const char *text_of(const char *variable)
{
    const char *text = getenv(variable);
    return text && *text ? text : NULL;
}

static ts_status not_set(const char *variable, const char *meaning)
{
    return ts_fail(TS_EINVAL,
                   "init_process_group: %s is not set; it is %s: start the program with tessera "
                   "run -n N PROGRAM%s, or set it",
                   variable, meaning,
                   ts_env_is_batch_script() ? " (in a batch script of Slurm with srun PROGRAM)"
                                            : "");
}

/* A launcher other than ours and torchrun names the ranks only.  The host of rank 0 follows from its
 * list of hosts, or there is only one; the port from the name of the run. */
static ts_status env_host(ts_meeting *how, const ts_place *p, const ts_env_place *env)
{
    const char *host = text_of("MASTER_ADDR");
    how->source = host ? "MASTER_ADDR" : "SLURM_NODELIST";
    if (host)
        snprintf(how->host, sizeof how->host, "%s", host);
    else if (!env->one_host)
        ts_env_first_host(how->host, sizeof how->host, env);
    if (*how->host || (how->serve && (env->one_host || p->rank == 0))) return TS_OK;
    return not_set("MASTER_ADDR", "the host of rank 0");
}

static ts_status env_address(ts_meeting *how, const ts_place *p, const ts_env_place *env)
{
    const char *port = text_of("MASTER_PORT"), *agent = getenv("TORCHELASTIC_USE_AGENT_STORE");
    how->serve = !(agent && strcmp(agent, "True") == 0);
    TS_TRY(env_host(how, p, env));
    if (port) {
        if (env->one_host && !*how->host) /* else rank 0 serves every address */
            snprintf(how->host, sizeof how->host, "%s", ts_loopback());
        return number(&how->port, port, "MASTER_PORT", 1, 65535);
    }
    if (!env->launcher && !text_of("TESSERA_RUN_ID"))
        return not_set("MASTER_PORT", "the port on which rank 0 is met");
    if (env->one_host) *how->host = '\0';
    if (*how->host || env->one_host) return TS_OK;
    return not_set("MASTER_ADDR", "the host of rank 0");
}

static ts_status complete_by_env(ts_place *p, ts_meeting *how)
{
    ts_env_place env;
    TS_TRY(ts_env_place_read(&env));
    if (p->rank < 0) p->rank = env.rank;
    if (p->size < 0) p->size = env.size;
    if (p->rank < 0) return not_set("RANK", "the number of this process");
    if (p->size < 0) return not_set("WORLD_SIZE", "the number of processes");
    TS_TRY(check_place(p));
    return p->size == 1 ? TS_OK : env_address(how, p, &env);
}

/* ---- the init methods ------------------------------------------------------------------------ */

static ts_status check_given(const ts_place *p, const url *u)
{
    const char *missing = p->rank < 0 ? "rank" : "world_size";
    if (p->rank >= 0 && p->size >= 0) return check_place(p);
    return ts_fail(TS_EINVAL,
                   "init_process_group: %s is missing; %s:// needs it as an option or as ?%s=",
                   missing, u->scheme, missing);
}

static ts_status meet_at_file(ts_place *p, const url *u, int64_t timeout_ms)
{
    if (!*u->rest) return ts_fail(TS_EINVAL, "init_process_group: file:// has no path");
    if (p->size == 1) return TS_OK;
    TS_TRY(ts_file_store_new(&p->store, u->rest, p->size));
    return ts_store_set_timeout(p->store, timeout_ms);
}

static ts_status meet_by_url(ts_place *p, const url *u, ts_meeting *how)
{
    if (strcmp(u->scheme, "env") == 0) {
        TS_TRY(complete_by_env(p, how));
        return p->size == 1 ? TS_OK : ts_meet(p, how);
    }
    bool tcp = strcmp(u->scheme, "tcp") == 0;
    if (!tcp && strcmp(u->scheme, "file") != 0) return ts_handler_missing(u->scheme);
    TS_TRY(check_given(p, u));
    if (!tcp) return meet_at_file(p, u, how->timeout_ms);
    TS_TRY(split_address(how, u->rest));
    how->source = "the init method";
    return p->size == 1 ? TS_OK : ts_meet(p, how);
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

static ts_status by_handler(ts_place *out, const char *method, const ts_init_options *opt,
                            int64_t timeout_ms)
{
    out->rank = opt->rank;
    out->size = opt->world_size;
    TS_TRY(ts_handler_call(out, method, timeout_ms));
    return check_place(out);
}

static ts_status by_method(ts_place *out, const char *method, const ts_init_options *opt,
                           ts_meeting *how)
{
    url u;
    ts_status status = parse_url(&u, method);
    if (status == TS_OK) status = choose(&out->rank, opt->rank, u.rank, "rank");
    if (status == TS_OK) status = choose(&out->size, opt->world_size, u.size, "world_size");
    if (status == TS_OK) status = meet_by_url(out, &u, how);
    free(u.text);
    return status;
}

ts_status ts_rendezvous(ts_place *out, const ts_init_options *opt, int64_t timeout_ms,
                        ts_store *kept, const char *kept_address)
{
    char run[TS_RUN_ID_MAX];
    const char *method = opt->init_method ? opt->init_method : "env://";
    ts_place place = {.rank = -1, .size = -1};
    ts_meeting how = {.serve = true,
                      .run = run,
                      .timeout_ms = timeout_ms,
                      .kept = kept,
                      .kept_address = kept_address};
    ts_env_run_id(run);
    ts_status status = opt->store                  ? given_store(&place, opt)
                       : ts_handler_exists(method) ? by_handler(&place, method, opt, timeout_ms)
                                                   : by_method(&place, method, opt, &how);
    if (status == TS_OK)
        *out = place;
    else
        ts_store_free(place.store);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Introductions through the store: rank r puts its record at "rank/r" and reads everyone's.
 *
 * Who finds out that the group cannot be (a rank started twice, different sizes) puts a refusal in
 * the place of the records that are still missing: those who wait for them learn the reason. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "comm/bootstrap.h"

#define REFUSALS_MAX 4096

typedef struct keys {
    char (*text)[24];
    const char **list;
    void **value;
    size_t *size;
    int n;
} keys;

static void keys_fini(keys *k)
{
    for (int i = 0; k->value && i < k->n; i++) free(k->value[i]);
    free(k->text);
    free(k->list);
    free(k->value);
    free(k->size);
}

static ts_status keys_init(keys *k, int n)
{
    size_t count = (size_t)n;
    *k = (keys){ts_calloc(count, sizeof *k->text), ts_calloc(count, sizeof *k->list),
                ts_calloc(count, sizeof *k->value), ts_calloc(count, sizeof *k->size), n};
    if (!k->text || !k->list || !k->value || !k->size) {
        keys_fini(k);
        return ts_fail_memory(count * sizeof *k->text, "the records of the ranks");
    }
    for (int i = 0; i < n; i++) {
        snprintf(k->text[i], sizeof k->text[i], "rank/%d", i);
        k->list[i] = k->text[i];
    }
    return TS_OK;
}

/* Puts a refusal in the place of every record that is still missing. */
static void refuse_missing(ts_bootstrap *boot, const char *text, size_t length)
{
    char key[24];
    for (int i = 0; i < boot->most_ranks && i < REFUSALS_MAX; i++) {
        void *value = NULL;
        size_t size;
        snprintf(key, sizeof key, "rank/%d", i);
        ts_store *store = boot->opt->store;
        if (ts_store_compare_set(store, key, "", 0, text, length, &value, &size) != TS_OK) return;
        free(value);
    }
}

ts_status ts_join_fail(ts_bootstrap *boot, ts_status status)
{
    char reason[900], text[1024];
    snprintf(reason, sizeof reason, "%s", ts_error_last());
    size_t length = ts_refusal_write(text, sizeof text, status, reason);
    if (ts_store_set(boot->opt->store, "failure", text, length) == TS_OK)
        refuse_missing(boot, text, length);
    return ts_fail_again(status, reason);
}

ts_status ts_join_check_failure(ts_bootstrap *boot)
{
    const char *key = "failure";
    bool exists = false;
    void *value;
    size_t size;
    if (ts_store_check(boot->opt->store, &key, 1, &exists) != TS_OK || !exists) return TS_OK;
    TS_TRY(ts_store_get(boot->opt->store, key, &value, &size));
    ts_status status;
    const char *reason = ts_refusal_read(&status, value, size);
    status = reason ? ts_fail(TS_EREMOTE, "joining failed on another rank: %s", reason) : TS_OK;
    free(value);
    return status;
}

/* ---- the own record -------------------------------------------------------------------------- */

static ts_status place_is_taken(ts_bootstrap *boot, const char *text, size_t size)
{
    ts_status status;
    ts_record other;
    const char *reason = ts_refusal_read(&status, text, size);
    if (reason) return ts_fail(status, "%s", reason);
    const char *wrong = ts_record_read(&other, text, size);
    if (wrong)
        return ts_fail(TS_EMISMATCH, "group '%s': the store holds another record for rank %d: %s",
                       boot->engine->name, boot->own.rank, wrong);
    return ts_fail(
        TS_EMISMATCH,
        "group '%s': rank %d was started twice: pid %d on %s and pid %d on %s; give every "
        "process its own rank",
        boot->engine->name, boot->own.rank, other.pid, other.host, boot->own.pid, boot->own.host);
}

static ts_status publish(ts_bootstrap *boot)
{
    char text[TS_RECORD_MAX], key[24];
    size_t length = ts_record_write(text, &boot->own), size = 0;
    void *value = NULL;
    snprintf(key, sizeof key, "rank/%d", boot->own.rank);
    TS_TRY(ts_store_compare_set(boot->opt->store, key, "", 0, text, length, &value, &size));
    bool own = size == length && memcmp(value, text, size) == 0;
    ts_status status = own ? TS_OK : place_is_taken(boot, value, size);
    free(value);
    return status;
}

/* ---- the others' records --------------------------------------------------------------------- */

/* Both ends of a connection must know of it. */
static ts_status check_number(const ts_bootstrap *boot, const ts_record *r, int own, int other,
                              const char *what, const char *variable)
{
    if (own == other) return TS_OK;
    return ts_fail(TS_EMISMATCH,
                   "group '%s': rank %d (pid %d on %s) has %d %s, rank %d (pid %d on %s) has %d; "
                   "set %s alike on all ranks",
                   boot->engine->name, boot->own.rank, boot->own.pid, boot->own.host, own, what,
                   r->rank, r->pid, r->host, other, variable);
}

/* That two secrets differ shows only when the ranks connect. */
static ts_status check_secret(const ts_bootstrap *boot, const ts_record *r)
{
    static const char *const words[] = {"no secret", "a secret", "a secret and TLS"};
    if (boot->own.secret == r->secret) return TS_OK;
    return ts_fail(TS_EMISMATCH,
                   "group '%s': rank %d (pid %d on %s) has %s, rank %d (pid %d on %s) has %s; set "
                   "TESSERA_SECRET and TESSERA_TLS alike on all ranks",
                   boot->engine->name, boot->own.rank, boot->own.pid, boot->own.host,
                   words[boot->own.secret], r->rank, r->pid, r->host, words[r->secret]);
}

static ts_status check_network(const ts_bootstrap *boot, const ts_record *r)
{
    TS_TRY(check_secret(boot, r));
    TS_TRY(check_number(boot, r, boot->own.endpoints, r->endpoints, "network interfaces",
                        "TESSERA_SOCKET_IFNAME"));
    TS_TRY(check_number(boot, r, boot->own.sockets, r->sockets, "sockets per peer",
                        "TESSERA_SOCKETS_PER_PEER"));
    return check_number(boot, r, boot->own.lazy, r->lazy, "(0 no, 1 yes) for lazy connections",
                        "TESSERA_LAZY_CONNECT");
}

static ts_status check_record(ts_bootstrap *boot, int rank, const char *text, size_t size)
{
    const char *name = boot->engine->name;
    ts_record *r = &boot->record[rank];
    ts_status status;
    const char *reason = ts_refusal_read(&status, text, size);
    if (reason) return ts_fail(status, "%s", reason);
    const char *wrong = ts_record_read(r, text, size);
    if (wrong) return ts_fail(TS_EMISMATCH, "group '%s': record of rank %d: %s", name, rank, wrong);
    if (r->size != boot->own.size) {
        if (r->size > boot->most_ranks) boot->most_ranks = r->size;
        return ts_fail(
            TS_EMISMATCH,
            "group '%s': world sizes differ: rank %d (pid %d on %s) has %d, rank %d (pid %d on "
            "%s) has %d",
            name, boot->own.rank, boot->own.pid, boot->own.host, boot->own.size, rank, r->pid,
            r->host, r->size);
    }
    if (r->rank != rank || strcmp(r->run, boot->own.run) != 0)
        return ts_fail(TS_EMISMATCH,
                       "group '%s': the store holds rank %d of run '%s' in the place of rank %d of "
                       "run '%s'; do not share a store between runs",
                       name, r->rank, r->run, rank, boot->own.run);
    return check_network(boot, r);
}

/* A time-out that says which ranks are missing. */
static ts_status who_is_missing(ts_bootstrap *boot, const keys *k)
{
    char list[200] = "";
    size_t used = 0;
    int missing = 0;
    for (int i = 0; i < k->n; i++) {
        bool exists = true;
        if (ts_store_check(boot->opt->store, &k->list[i], 1, &exists) != TS_OK || exists) continue;
        missing++;
        if (used + 16 < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%d", used ? ", " : "", i);
    }
    return ts_fail(TS_ETIMEOUT, "group '%s': %d of %d ranks have not joined within %lld ms: %s",
                   boot->engine->name, missing, k->n, (long long)boot->opt->timeout_ms, list);
}

static ts_status get_all(ts_bootstrap *boot, keys *k)
{
    ts_store *store = boot->opt->store;
    int64_t timeout = boot->opt->timeout_ms;
    ts_status status = TS_OK;
    if (ts_store_timeout(store) != timeout) status = ts_store_wait(store, k->list, k->n, timeout);
    if (status == TS_OK) status = ts_store_multi_get(store, k->list, k->n, k->value, k->size);
    return status == TS_ETIMEOUT ? who_is_missing(boot, k) : status;
}

ts_status ts_join(ts_bootstrap *boot)
{
    keys k;
    TS_TRY(publish(boot));
    TS_TRY(keys_init(&k, boot->own.size));
    ts_status status = get_all(boot, &k);
    for (int i = 0; i < k.n && status == TS_OK; i++)
        status = check_record(boot, i, k.value[i], k.size[i]);
    keys_fini(&k);
    return status;
}

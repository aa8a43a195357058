/* SPDX-License-Identifier: Apache-2.0 */
/* The default group of a rank: made, found, destroyed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/spawn.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/settings.h"
#include "comm/backends.h"
#include "comm/dump.h"
#include "comm/environment.h"
#include "comm/group_impl.h"
#include "comm/nccl_variables.h"
#include "comm/rendezvous.h"
#include "comm/timing.h"
#include "net/secret.h"

#define GENERATION "tessera/generation"

typedef struct again {
    uint64_t hash;
    int64_t count;
} again;

/* What a rank keeps. */
typedef struct comm {
    pthread_mutex_t busy; /* held while a group is made or destroyed */
    ts_group *_Atomic group;
    pthread_mutex_t lock; /* guards more */
    ts_group *more;       /* all others, the newest first */
    int made;             /* all groups since init */
    again *again;         /* see ts_groups_again */
    int num_again;
    ts_store *root;       /* what the group was made over, before prefixes */
    int64_t generation;   /* how many groups were made and left over this store before */
    int64_t used;         /* a generation that broke and is still to be marked; -1: none */
    char mark[20];        /* of the store that both are about, for the next one may be another */
    ts_store *served;     /* a store that this process serves; stays, so that others that are */
    char *served_address; /*   still to leave, or already come again, find it */
    ts_rank_ctx *former;  /* ts_rank_enter: the rank that the thread had before */
    pid_t pid;            /* of the process; another one is a fork of it */
} comm;

/* Takes group (NULL: the newest one, but of those beside the default group only if all) out of the
 * list. */
static ts_group *take_out(comm *c, const ts_group *group, bool all)
{
    pthread_mutex_lock(&c->lock);
    ts_group **at = &c->more;
    while (*at && (group ? *at != group : (*at)->detached && !all)) at = &(*at)->next;
    ts_group *found = *at;
    if (found) *at = found->next;
    pthread_mutex_unlock(&c->lock);
    return found;
}

static void close_more(comm *c, bool all)
{
    ts_group *group;
    while ((group = take_out(c, NULL, all))) ts_group_close(group);
}

static void *comm_new(ts_rank_ctx *rank)
{
    (void)rank;
    comm *c = ts_calloc(1, sizeof *c);
    if (!c) return NULL;
    pthread_mutex_init(&c->busy, NULL);
    pthread_mutex_init(&c->lock, NULL);
    c->used = -1;
    c->pid = getpid();
    return c;
}

static void comm_free(void *value)
{
    comm *c = value;
    close_more(c, true);
    if (c->group) ts_group_close(c->group);
    ts_store_free(c->root);
    ts_store_free(c->served);
    free(c->served_address);
    pthread_mutex_destroy(&c->busy);
    pthread_mutex_destroy(&c->lock);
    free(c->again);
    free(c);
}

static comm *comm_get(void)
{
    comm *c = ts_rank_slot_get(ts_rank_current(), TS_SLOT_COMM, comm_new, comm_free);
    if (!c) ts_fail_memory(sizeof *c, "process groups");
    return c;
}

/* ---- generations ----------------------------------------------------------------------------- */

/* Groups that are made one after the other over the same store must not read each other's keys:
 * each gets the number of its generation as a prefix.  The first rank that leaves a generation
 * marks it as used.  The value is that number and a random mark of the store. */
static ts_status mark_used(const comm *c, ts_store *store, int64_t generation)
{
    char from[48], to[48];
    void *value;
    size_t size;
    snprintf(from, sizeof from, "%lld %s", (long long)generation, c->mark);
    snprintf(to, sizeof to, "%lld %s", (long long)generation + 1, c->mark);
    TS_TRY(
        ts_store_compare_set(store, GENERATION, from, strlen(from), to, strlen(to), &value, &size));
    free(value);
    return TS_OK;
}

static ts_status read_generation(comm *c, ts_store *store)
{
    char first[24] = "0 ";
    uint64_t random[TS_NONCE_BYTES / 8];
    void *value;
    size_t size;
    if (c->used >= 0) mark_used(c, store, c->used);
    c->used = -1;
    ts_nonce((uint8_t *)random);
    snprintf(first + 2, sizeof first - 2, "%016llx", (unsigned long long)random[0]);
    TS_TRY(ts_store_compare_set(store, GENERATION, "", 0, first, strlen(first), &value, &size));
    const char *mark = strchr(value, ' ');
    c->generation = atoll(value);
    snprintf(c->mark, sizeof c->mark, "%s", mark ? mark + 1 : "");
    free(value);
    return TS_OK;
}

/* A store server that hangs would hold up leaving a broken group: that is left to the next start.
 */
static void leave_generation(comm *c, bool broken)
{
    if (broken && ts_tcp_store_port(c->root) >= 0)
        c->used = c->generation;
    else
        mark_used(c, c->root, c->generation);
}

/* ---- making ---------------------------------------------------------------------------------- */

static ts_status check_backend(const ts_backend_ops *ops, const ts_init_options *opt)
{
    bool is_thread = ts_rank_current() != ts_rank_ctx_of_process();
    if (is_thread && !(ops->capabilities & TS_CAN_USE_THREADS))
        return ts_fail(TS_EUNSUPPORTED,
                       "init_process_group: backend '%s' serves one rank per process, but this "
                       "rank is a thread (ts_rank_enter)",
                       ops->name);
    const char *meant = opt->backend_options ? opt->backend_options->backend : NULL;
    if (meant && strcmp(meant, ops->name) != 0)
        return ts_fail(TS_EINVAL,
                       "init_process_group: the backend options are for '%s', but the backend is "
                       "'%s'",
                       meant, ops->name);
    return TS_OK;
}

static ts_status check_options(const ts_init_options *opt, const ts_backend_ops **ops)
{
    if (opt->struct_size != sizeof *opt)
        return ts_fail(TS_EINVAL, "init_process_group: the options were not set up; begin with "
                                  "TS_INIT_OPTIONS_INIT");
    if (opt->timeout_ms < 0)
        return ts_fail(TS_EINVAL, "init_process_group: the time limit %lld ms is negative",
                       (long long)opt->timeout_ms);
    TS_TRY(ts_backend_find(ops, opt->backend));
    return check_backend(*ops, opt);
}

static void warn_ignored(const char *what, int given, int holds, const char *backend)
{
    if (given >= 0 && given != holds)
        TS_LOG(TS_LOG_COMM, TS_LEVEL_WARNING,
               "init_process_group: %s %d is ignored; backend '%s' says %d", what, given, backend,
               holds);
}

/* A backend that knows the ranks without a store. */
static ts_status place_by_backend(ts_place *out, const ts_init_options *opt,
                                  const ts_backend_ops *ops)
{
    ts_env_place env;
    ts_place place = {.rank = opt->rank, .size = opt->world_size};
    TS_TRY(ts_env_place_read(&env));
    if (place.rank < 0) place.rank = env.rank;
    if (place.size < 0) place.size = env.size;
    TS_TRY(ops->place(&place.rank, &place.size));
    warn_ignored("rank", opt->rank, place.rank, ops->name);
    warn_ignored("world_size", opt->world_size, place.size, ops->name);
    *out = place;
    return TS_OK;
}

static ts_status make_over_store(ts_group **out, comm *c, const ts_place *place,
                                 const ts_backend_ops *ops, int64_t timeout_ms,
                                 const struct ts_backend_options *options)
{
    char prefix[64];
    ts_store *own;
    TS_TRY(read_generation(c, place->store));
    snprintf(prefix, sizeof prefix, "tessera/%lld/default", (long long)c->generation);
    TS_TRY(ts_prefix_store_new(&own, prefix, place->store));
    ts_status status =
        ts_group_new(out, "default", ops, place->rank, place->size, own, timeout_ms, options);
    ts_store_free(own);
    return status;
}

static void keep_served(comm *c, const ts_place *place)
{
    if (!place->hosted || c->served == place->store) return;
    ts_store_free(c->served);
    free(c->served_address);
    c->served = ts_store_retain(place->store);
    c->served_address = ts_strdup(place->address);
}

static ts_status make_default(comm *c, const ts_init_options *opt)
{
    const ts_backend_ops *ops;
    ts_place place;
    ts_group *group;
    TS_TRY(check_options(opt, &ops));
    int local;
    if (ts_node_local_rank(&local, 0) != TS_OK || local == 0) ts_settings_check_names();
    TS_TRY(ts_settings_check());
    TS_TRY(ts_env_check());
    TS_TRY(ts_debug_level_check());
    int64_t timeout_ms = opt->timeout_ms ? opt->timeout_ms : ts_setting_int(TS_SETTING_TIMEOUT);
    TS_TRY(ops->place ? place_by_backend(&place, opt, ops)
                      : ts_rendezvous(&place, opt, timeout_ms, c->served, c->served_address));
    ts_timing_mark(TS_MARK_STORE);
    keep_served(c, &place);
    ts_status status =
        place.store ? make_over_store(&group, c, &place, ops, timeout_ms, opt->backend_options)
                    : ts_group_new(&group, "default", ops, place.rank, place.size, NULL, timeout_ms,
                                   opt->backend_options);
    if (status != TS_OK) {
        if (place.store) c->used = c->generation;
        ts_store_free(place.store);
        return status;
    }
    c->root = place.store;
    ts_rank_current()->rank = place.rank;
    ts_rank_current()->size = place.size;
    ts_recorder_set_place(ts_recorder_of_rank(), place.rank, place.size);
    ts_group_begin_record(group, "default_pg");
    if (ts_dump_watch(place.rank) != TS_OK)
        TS_LOG(TS_LOG_COMM, TS_LEVEL_WARNING, "%s", ts_error_last());
    atomic_store(&c->group, group);
    c->made = 1;
    c->num_again = 0;
    ts_timing_mark(TS_MARK_READY);
    return TS_OK;
}

ts_status ts_init_process_group(const ts_init_options *opt)
{
    ts_init_options defaults = TS_INIT_OPTIONS_INIT;
    ts_timing_mark(TS_MARK_INIT);
    comm *c = comm_get();
    if (!c) return TS_ENOMEM;
    if (pthread_mutex_trylock(&c->busy) != 0)
        return ts_fail(TS_ESTATE,
                       "init_process_group: another thread makes or destroys the default "
                       "group now");
    ts_status status = c->group
                           ? ts_fail(TS_ESTATE, "init_process_group: the default group exists; "
                                                "destroy it first")
                           : make_default(c, opt ? opt : &defaults);
    pthread_mutex_unlock(&c->busy);
    return status;
}

/* ---- finding --------------------------------------------------------------------------------- */

ts_group *ts_default_group(void)
{
    const comm *c = ts_rank_current()->slot[TS_SLOT_COMM];
    return c ? atomic_load_explicit(&c->group, memory_order_acquire) : NULL;
}

bool ts_is_initialized(void) { return ts_default_group() != NULL; }

ts_status ts_group_find(ts_group **out, ts_group *group, const char *what)
{
    if (!group) group = ts_default_group();
    if (!group)
        return ts_fail(TS_ESTATE, "%s: there is no default group; call ts_init_process_group first",
                       what);
    TS_TRY(ts_group_check(group, what));
    *out = group;
    return TS_OK;
}

int ts_rank(void)
{
    ts_env_place env;
    int rank = ts_rank_current()->rank;
    if (rank >= 0) return rank;
    return ts_env_place_read(&env) == TS_OK && env.rank >= 0 ? env.rank : 0;
}

int ts_world_size(void)
{
    ts_env_place env;
    int size = ts_rank_current()->size;
    if (size >= 0) return size;
    return ts_env_place_read(&env) == TS_OK && env.size > 0 ? env.size : 1;
}

ts_status ts_node_local_rank(int *out, int fallback)
{
    ts_env_place env;
    TS_TRY(ts_env_place_read(&env));
    if (env.local_rank < 0 && fallback < 0)
        return ts_fail(TS_EINVAL,
                       "node_local_rank: LOCAL_RANK is not set and there is no fallback; start the "
                       "program with tessera run, or give a fallback");
    *out = env.local_rank >= 0 ? env.local_rank : fallback;
    return TS_OK;
}

bool ts_is_torchelastic_launched(void) { return getenv("TORCHELASTIC_RUN_ID") != NULL; }

/* ---- ending ---------------------------------------------------------------------------------- */

static void destroy_default(comm *c)
{
    ts_group *group = c->group;
    bool broken = group->size > 1 && group->ops->is_broken(group->state);
    close_more(c, false);
    if (c->root) leave_generation(c, broken);
    atomic_store(&c->group, NULL);
    ts_group_close(group);
    ts_store_free(c->root);
    c->root = NULL;
    ts_rank_current()->rank = ts_rank_current()->size = -1;
}

ts_status ts_destroy_process_group(ts_group *group)
{
    comm *c = comm_get();
    if (!c) return TS_ENOMEM;
    if (group == ts_group_not_member()) return TS_OK;
    if (!group) TS_TRY(ts_group_find(&group, NULL, "destroy_process_group"));
    pthread_mutex_lock(&c->busy);
    ts_status status = TS_OK;
    ts_group *one = group == c->group ? NULL : take_out(c, group, true);
    if (one)
        ts_group_close(one);
    else if (group == c->group)
        destroy_default(c);
    else
        status = ts_fail(TS_EINVAL, "destroy_process_group: not a group of this rank, or destroyed "
                                    "before");
    pthread_mutex_unlock(&c->busy);
    return status;
}

static void abort_one(ts_group *group, const char *text)
{
    if (group->size > 1) group->ops->abort(group->state, TS_EABORTED, text);
}

ts_status ts_abort_process_group(ts_group *group)
{
    TS_TRY(ts_group_find(&group, group, "abort_process_group"));
    comm *c = comm_get();
    char text[128];
    if (!c) return TS_ENOMEM;
    snprintf(text, sizeof text, "rank %d aborted the group", ts_group_global(group, group->rank));
    abort_one(group, text);
    if (group != c->group) return TS_OK;
    pthread_mutex_lock(&c->lock);
    for (ts_group *one = c->more; one; one = one->next)
        if (!one->detached) abort_one(one, text);
    pthread_mutex_unlock(&c->lock);
    return TS_OK;
}

/* ---- forks ----------------------------------------------------------------------------------- */

/* Nothing is freed: the threads that own it are not here. */
void ts_after_fork(void)
{
    ts_rank_ctx *rank = ts_rank_current();
    const comm *c = rank->slot[TS_SLOT_COMM];
    if (!c || c->pid == getpid()) return;
    rank->slot[TS_SLOT_COMM] = NULL;
    rank->slot[TS_SLOT_SHARED] = NULL;
    rank->rank = rank->size = -1;
    pthread_mutex_init(&rank->lock, NULL);
}

/* ---- more groups ----------------------------------------------------------------------------- */

ts_status ts_groups_rendezvous(ts_place *out, const ts_init_options *opt, int64_t timeout_ms)
{
    comm *c = comm_get();
    TS_TRY(ts_rendezvous(out, opt, timeout_ms, c->served, c->served_address));
    keep_served(c, out);
    return TS_OK;
}

ts_status ts_groups_begin(const char *what)
{
    comm *c = comm_get();
    if (!c) return TS_ENOMEM;
    if (pthread_mutex_trylock(&c->busy) == 0) return TS_OK;
    return ts_fail(TS_ESTATE, "%s: another thread makes or destroys a group now", what);
}

void ts_groups_end(void) { pthread_mutex_unlock(&comm_get()->busy); }

bool ts_groups_has(const char *name)
{
    const comm *c = comm_get();
    if (c->group && strcmp(c->group->name, name) == 0) return true;
    for (const ts_group *one = c->more; one; one = one->next)
        if (strcmp(one->name, name) == 0) return true;
    return false;
}

void ts_groups_add(ts_group *group)
{
    comm *c = comm_get();
    pthread_mutex_lock(&c->lock);
    group->next = c->more;
    c->more = group;
    pthread_mutex_unlock(&c->lock);
}

void ts_groups_count(int n) { comm_get()->made += n; }

int ts_group_count(void)
{
    const comm *c = ts_rank_current()->slot[TS_SLOT_COMM];
    return c && c->group ? c->made : 0;
}

void ts_groups_close(ts_group *group)
{
    ts_group *found = take_out(comm_get(), group, true);
    if (found) ts_group_close(found);
}

void ts_groups_replace_default(ts_group *group)
{
    comm *c = comm_get();
    ts_group *former = c->group;
    take_out(c, group, true);
    close_more(c, false);
    atomic_store(&c->group, group);
    ts_group_close(former);
    c->made = 1;
    c->num_again = 0;
    ts_rank_current()->rank = group->rank;
    ts_rank_current()->size = group->size;
    ts_recorder_set_place(ts_recorder_of_rank(), group->rank, group->size);
}

int64_t ts_groups_again(uint64_t hash)
{
    comm *c = comm_get();
    for (int i = 0; i < c->num_again; i++)
        if (c->again[i].hash == hash) return ++c->again[i].count;
    again *grown = ts_grow(c->again, (size_t)c->num_again + 1, sizeof *grown);
    if (!grown) return 0;
    c->again = grown;
    grown[c->num_again++] = (again){.hash = hash};
    return 0;
}

/* ---- ranks as threads ------------------------------------------------------------------------ */

static ts_status enter(ts_rank_ctx *former, int rank, int size, ts_store *store)
{
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    comm *c = comm_get();
    if (!c) return TS_ENOMEM;
    opt.rank = rank;
    opt.world_size = size;
    opt.store = store;
    c->former = former;
    return ts_init_process_group(&opt);
}

ts_status ts_rank_enter(int rank, int size, ts_store *store)
{
    ts_rank_ctx *former = ts_rank_current(), *own = ts_rank_ctx_new();
    if (!own) return ts_fail_memory(sizeof *own, "a rank");
    if (!store && size != 1) {
        ts_rank_ctx_release(own);
        return ts_fail(TS_EINVAL, "rank_enter: the store is missing (NULL)");
    }
    ts_rank_ctx_retain(former);
    ts_thread_set_rank(own);
    ts_rank_ctx_release(own);
    ts_status status = enter(former, rank, size, store);
    if (status == TS_OK) return TS_OK;
    ts_thread_set_rank(former);
    ts_rank_ctx_release(former);
    return status;
}

void ts_rank_leave(void)
{
    comm *c = ts_rank_current()->slot[TS_SLOT_COMM];
    if (!c || !c->former) return;
    ts_rank_ctx *former = c->former;
    if (c->group) ts_destroy_process_group(NULL);
    c->former = NULL;
    ts_thread_set_rank(former);
    ts_rank_ctx_release(former);
}

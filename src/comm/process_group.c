/* SPDX-License-Identifier: Apache-2.0 */
/* Groups that need no default group, and the one that a thread uses now. */
#include <tessera/process_group.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "comm/group_plan.h"
#include "comm/rendezvous.h"

/* ---- where they meet ------------------------------------------------------------------------- */

static ts_status place_by_backend(ts_place *place, const ts_plan *plan)
{
    int rank = place->rank, size = place->size;
    TS_TRY(plan->ops->place(&place->rank, &place->size));
    if ((rank >= 0 && rank != place->rank) || (size >= 0 && size != place->size))
        TS_LOG(TS_LOG_COMM, TS_LEVEL_WARNING,
               "%s: rank %d of %d is ignored; backend '%s' says rank %d of %d", plan->what, rank,
               size, plan->ops->name, place->rank, place->size);
    return TS_OK;
}

static ts_status find_place(ts_place *place, const ts_plan *plan, ts_store *store)
{
    if (plan->ops->place && plan->status == TS_OK) return place_by_backend(place, plan);
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    opt.store = store;
    opt.rank = place->rank;
    opt.world_size = place->size;
    return ts_groups_rendezvous(place, &opt, plan->timeout_ms);
}

/* A number that no other store has in all probability, the same for all who ask. */
static ts_status id_of(char *out, size_t size, ts_store *store)
{
    char own[24];
    void *value;
    size_t bytes;
    uint64_t seed =
        ((uint64_t)ts_now_ns() ^ (uint64_t)getpid() << 40) * UINT64_C(0x9e3779b97f4a7c15);
    snprintf(own, sizeof own, "%08llx", (unsigned long long)(seed >> 32));
    TS_TRY(
        ts_store_compare_set(store, "tessera/group/id", "", 0, own, strlen(own), &value, &bytes));
    snprintf(out, size, "%.*s", (int)bytes, (const char *)value);
    free(value);
    return TS_OK;
}

/* Every rank counts the groups that it has made over this store, so all get the same number. */
static ts_status name_by_store(ts_plan *plan, const ts_place *place)
{
    char id[24], key[64];
    int64_t number;
    snprintf(key, sizeof key, "tessera/group/made/%d", place->rank);
    TS_TRY(id_of(id, sizeof id, place->store));
    TS_TRY(ts_store_add(place->store, key, 1, &number));
    snprintf(plan->room, sizeof plan->room, "tessera/group/%lld", (long long)number);
    snprintf(plan->name, sizeof plan->name, "%s.%lld", id, (long long)number);
    return TS_OK;
}

static ts_status name_it(ts_plan *plan, const ts_place *place)
{
    static _Atomic int64_t without_store;
    if (place->store)
        TS_TRY(name_by_store(plan, place));
    else
        snprintf(plan->name, sizeof plan->name, "%s.%lld", plan->ops->name,
                 (long long)atomic_fetch_add(&without_store, 1) + 1);
    if (plan->status != TS_OK || !plan->opt.name) return TS_OK;
    snprintf(plan->name, sizeof plan->name, "%s", plan->opt.name);
    if (!ts_groups_has(plan->name)) return TS_OK;
    ts_plan_fail(plan, ts_fail(TS_EINVAL, "there is a group '%s' already", plan->name));
    return TS_OK;
}

/* ---- making ---------------------------------------------------------------------------------- */

static ts_status list_all(ts_plan *plan, const ts_place *place)
{
    int *ranks = ts_calloc((size_t)place->size, sizeof *ranks);
    plan->lists = ts_calloc(1, sizeof *plan->lists);
    if (!ranks || !plan->lists) {
        free(ranks);
        return ts_fail_memory((size_t)place->size * sizeof *ranks, "a group");
    }
    for (int q = 0; q < place->size; q++) ranks[q] = q;
    plan->lists[0] = (ts_rank_list){ranks, place->size};
    plan->count = 1;
    plan->own = 0;
    plan->place = place->rank;
    return TS_OK;
}

static ts_status make(ts_group **out, ts_plan *plan, const ts_place *place)
{
    plan->base = place->store;
    TS_TRY(list_all(plan, place));
    TS_TRY(name_it(plan, place));
    return ts_plan_meet(out, plan);
}

/* A rank whose options are no good comes all the same, so that the others do not wait for it. */
ts_status ts_process_group_new(ts_group **out, ts_store *store, int rank, int size,
                               const ts_group_options *opt)
{
    ts_group *group;
    ts_place place = {.rank = rank, .size = size};
    ts_plan plan = {.what = ts_called(TS_CALLED),
                    .site = ts_called_at(TS_CALL_SITE),
                    .own = -1,
                    .place = -1,
                    .detached = true};
    TS_TRY(ts_groups_begin(plan.what));
    ts_status status = ts_plan_options(&plan, opt);
    if (status != TS_OK) ts_plan_fail(&plan, status);
    if (!out) ts_plan_fail(&plan, ts_fail(TS_EINVAL, "the place for the group is missing (NULL)"));
    status = find_place(&place, &plan, store);
    if (status == TS_OK) status = make(&group, &plan, &place);
    if (status == TS_OK) *out = group;
    ts_store_free(place.store);
    ts_plan_free(&plan);
    ts_groups_end();
    return status;
}

/* ---- the current one ------------------------------------------------------------------------- */

/* What a thread has pushed, with a reference, for another thread may destroy the group. */
typedef struct pushed {
    ts_group *group;
    struct pushed *before;
} pushed;

static pthread_key_t stack;
static bool has_stack;

static pushed *take_off(pushed *top)
{
    pushed *before = top->before;
    if (top->group && top->group != ts_group_not_member()) ts_group_release(top->group);
    free(top);
    return before;
}

static void clear(void *top)
{
    for (pushed *p = top; p;) p = take_off(p);
}

static void make_key(void) { has_stack = pthread_key_create(&stack, clear) == 0; }

static pushed *top_of_stack(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_key);
    return has_stack ? pthread_getspecific(stack) : NULL;
}

ts_group *ts_current_process_group(void)
{
    const pushed *top = top_of_stack();
    return top ? top->group : NULL;
}

ts_status ts_process_group_push(ts_group *group)
{
    pushed *before = top_of_stack(), *top = ts_calloc(1, sizeof *top);
    if (!top || !has_stack || pthread_setspecific(stack, top) != 0) {
        free(top);
        return ts_fail_memory(sizeof *top, "the current group");
    }
    *top = (pushed){group, before};
    if (group && group != ts_group_not_member()) ts_group_retain(group);
    return TS_OK;
}

void ts_process_group_pop(void)
{
    pushed *top = top_of_stack();
    if (top) pthread_setspecific(stack, take_off(top));
}

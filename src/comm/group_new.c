/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of some ranks.
 *
 * One exchange among all who call makes them: each rank says a hash of what it asks for and, as a
 * member, what the others need to know of its half of the new group.  So ranks that disagree, or
 * whose arguments are bad, are known to all before anything has been made. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/settings.h"
#include "comm/backends.h"
#include "comm/group_plan.h"
#include "comm/init_barrier.h"

enum { TEXT_BYTES = TS_MEET_TEXT };

/* What a rank says. */
typedef struct said {
    uint64_t digest;
    ts_split_record record;
} said;

/* ---- wording --------------------------------------------------------------------------------- */

ts_status ts_plan_fail(ts_plan *plan, ts_status status)
{
    if (plan->status != TS_OK) return status;
    plan->status = status;
    plan->cause = ts_strdup(ts_error_last());
    return status;
}

/* "{0, 1, 5}", cut at the end of the room. */
static void list_ranks(char *out, size_t size, const int *ranks, int n)
{
    size_t used = (size_t)snprintf(out, size, "{");
    for (int i = 0; i < n && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%d", i ? ", " : "", ranks[i]);
    if (used < size) snprintf(out + used, size - used, "}");
}

static void hash_bytes(uint64_t *hash, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++) *hash = (*hash ^ at[i]) * UINT64_C(0x100000001b3);
}

static void hash_text(uint64_t *hash, const char *text)
{
    hash_bytes(hash, text ? text : "", text ? strlen(text) + 1 : 1);
}

static uint64_t digest_of(const ts_plan *plan)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    hash_text(&hash, plan->what);
    hash_text(&hash, plan->opt.name);
    hash_text(&hash, plan->opt.description);
    hash_text(&hash, plan->ops->name);
    hash_bytes(&hash, &plan->timeout_ms, sizeof plan->timeout_ms);
    hash_bytes(&hash, &plan->first, sizeof plan->first);
    for (int i = 0; i < plan->count; i++) {
        const ts_rank_list *list = &plan->lists[i];
        hash_bytes(&hash, &list->n, sizeof list->n);
        hash_bytes(&hash, list->ranks, (size_t)list->n * sizeof *list->ranks);
    }
    return hash;
}

/* What this rank asks for, for those who ask for something else. */
static void describe(char *out, const ts_plan *plan)
{
    char ranks[TEXT_BYTES / 2];
    size_t used = (size_t)snprintf(out, TEXT_BYTES, "%s:", plan->what);
    for (int i = 0; i < plan->count && used < TEXT_BYTES; i++) {
        list_ranks(ranks, sizeof ranks, plan->lists[i].ranks, plan->lists[i].n);
        used += (size_t)snprintf(out + used, TEXT_BYTES - used, " %s", ranks);
    }
    if (used < TEXT_BYTES)
        snprintf(out + used, TEXT_BYTES - used, ", backend %s, %lld ms%s%s%s%s", plan->ops->name,
                 (long long)plan->timeout_ms, plan->opt.name ? ", name " : "",
                 plan->opt.name ? plan->opt.name : "",
                 plan->opt.description ? ", description " : "",
                 plan->opt.description ? plan->opt.description : "");
}

/* ---- agreement ------------------------------------------------------------------------------- */

/* All know that somebody differs: they tell each other how. */
static ts_status word_difference(const ts_plan *plan, int other)
{
    char own[TEXT_BYTES] = "";
    int size = plan->parent->size;
    char *all = ts_calloc((size_t)size, TEXT_BYTES);
    if (!all) return ts_fail_memory((size_t)size * TEXT_BYTES, "a group");
    describe(own, plan);
    ts_parcel parcel = {own, all, TEXT_BYTES, plan->site};
    ts_status status = ts_group_exchange(plan->parent, plan->what, &parcel, TS_OK, NULL);
    if (status == TS_OK)
        status = ts_fail(TS_EMISMATCH,
                         "%s: ranks disagree: rank %d asks for \"%s\", rank %d for "
                         "\"%s\"; no group was made",
                         plan->what, ts_group_global(plan->parent, 0), all,
                         ts_group_global(plan->parent, other), all + (size_t)other * TEXT_BYTES);
    free(all);
    return status;
}

static ts_status agree(const ts_plan *plan, const said *all)
{
    for (int q = 1; q < plan->parent->size; q++)
        if (all[q].digest != all[0].digest) return word_difference(plan, q);
    return TS_OK;
}

static ts_status exchange(const ts_plan *plan, const said *own, said **all)
{
    ts_group *parent = plan->parent;
    *all = ts_calloc((size_t)parent->size, sizeof **all);
    ts_status status = plan->status;
    const char *cause = plan->cause;
    if (!*all && status == TS_OK) {
        status = ts_fail_memory((size_t)parent->size * sizeof **all, "a group");
        cause = "out of memory";
    }
    ts_parcel parcel = {own, *all, sizeof *own, plan->site};
    TS_TRY(ts_group_exchange(parent, plan->what, &parcel, status, cause));
    return agree(plan, *all);
}

/* ---- making ---------------------------------------------------------------------------------- */

/* The members' global ranks and their store; nobody is asked yet. */
static ts_status prepare(ts_group **out, const ts_plan *plan)
{
    const ts_group *parent = plan->parent;
    const ts_rank_list *own = &plan->lists[plan->own];
    ts_store *store = NULL, *base = plan->base || !parent ? plan->base : parent->store;
    if (base) TS_TRY(ts_prefix_store_new(&store, plan->room, base));
    ts_status status =
        ts_group_allocate(out, plan->name, plan->ops, plan->place, own->n, store, plan->timeout_ms);
    ts_store_free(store);
    if (status != TS_OK) return status;
    ts_group *group = *out;
    group->detached = parent ? parent->detached : plan->detached;
    const char *description = plan->opt.description ? plan->opt.description : "undefined";
    if (parent) group->ranks = ts_calloc((size_t)own->n, sizeof *group->ranks);
    group->description = ts_strdup(description);
    group->device = plan->opt.device ? ts_strdup(plan->opt.device) : NULL;
    if ((group->ranks || !parent) && group->description && (group->device || !plan->opt.device)) {
        for (int i = 0; parent && i < own->n; i++)
            group->ranks[i] = ts_group_global(parent, own->ranks[i]);
        return TS_OK;
    }
    ts_group_free_unstarted(group);
    *out = NULL;
    return ts_fail_memory((size_t)own->n * sizeof(int), "a group");
}

static bool splits(const ts_plan *plan)
{
    const ts_group *parent = plan->parent;
    return parent && plan->ops->split && plan->ops == parent->ops && parent->size > 1;
}

/* The group's own half. */
static ts_status begin(ts_group **out, ts_plan *plan, ts_split_record *record)
{
    *out = NULL;
    if (plan->own < 0) return plan->status;
    TS_TRY(prepare(out, plan));
    if (plan->status != TS_OK) return plan->status;
    ts_group *group = *out;
    if (group->size == 1 || !splits(plan)) return TS_OK;
    plan->has_split = true;
    ts_backend_context context = {.group_name = group->name,
                                  .rank = group->rank,
                                  .size = group->size,
                                  .store = group->store,
                                  .timeout_ms = plan->timeout_ms,
                                  .options = plan->opt.backend_options};
    return plan->ops->split(group->state, &context, plan->parent->state,
                            plan->lists[plan->own].ranks, record);
}

/* all: by rank in the new group if members is set, else in the parent. */
static ts_status join(const ts_plan *plan, ts_group *group, const said *all, bool members)
{
    if (group->size == 1) return ts_group_start_backend(group, NULL);
    if (!splits(plan)) return ts_group_start_backend(group, plan->opt.backend_options);
    ts_split_record *record = ts_calloc((size_t)group->size, sizeof *record);
    if (!record) return ts_fail_memory((size_t)group->size * sizeof *record, "a group");
    for (int q = 0; q < group->size; q++) {
        int at = members ? q : plan->lists[plan->own].ranks[q];
        record[q] = all[at].record;
    }
    ts_status status = plan->ops->join(group->state, record);
    free(record);
    return status;
}

/* One that has split or joined is ended by its backend. */
static ts_status give_up(const ts_plan *plan, ts_group *group, ts_status status)
{
    if (!group) return status;
    char *why = ts_strdup(ts_error_last());
    if (plan->has_split) plan->ops->fini(group->state);
    ts_group_free_unstarted(group);
    ts_fail_again(status, why ? why : ts_status_text(status));
    free(why);
    return status;
}

static ts_status hand_out(ts_group **out, ts_group *group)
{
    ts_status status = ts_init_barrier(group);
    if (status != TS_OK) {
        char *why = ts_strdup(ts_error_last());
        ts_group_close(group);
        ts_fail_again(status, why ? why : ts_status_text(status));
        free(why);
        return status;
    }
    ts_group_begin_record(group, group->description);
    ts_groups_add(group);
    *out = group;
    return TS_OK;
}

ts_status ts_plan_make(ts_group **out, ts_plan *plan)
{
    said own = {.digest = plan->status == TS_OK ? digest_of(plan) : 0}, *all = NULL;
    ts_group *group;
    ts_status status = begin(&group, plan, &own.record);
    if (status != TS_OK) ts_plan_fail(plan, status);
    status = exchange(plan, &own, &all);
    if (status == TS_OK) plan->parent->made += (uint64_t)plan->count;
    bool meets = status == TS_OK && group && !splits(plan);
    if (status == TS_OK && group) status = join(plan, group, all, false);
    free(all);
    if (status != TS_OK && meets) { /* the backend has been ended */
        ts_group_free_unstarted(group);
        return status;
    }
    if (status != TS_OK) return give_up(plan, group, status);
    ts_groups_count(plan->count);
    *out = ts_group_not_member();
    return group ? hand_out(out, group) : TS_OK;
}

/* ---- by the members alone -------------------------------------------------------------------- */

void ts_plan_name_by_members(ts_plan *plan)
{
    const ts_rank_list *list = &plan->lists[0];
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    hash_bytes(&hash, list->ranks, (size_t)list->n * sizeof *list->ranks);
    if (plan->opt.name) hash_text(&hash, plan->opt.name);
    char own[40];
    snprintf(own, sizeof own, "%016llx.%lld", (unsigned long long)hash,
             (long long)ts_groups_again(hash));
    snprintf(plan->room, sizeof plan->room, "by/%s", own);
    snprintf(plan->name, sizeof plan->name, "%s", plan->opt.name ? plan->opt.name : own);
}

static ts_status meet(const ts_plan *plan, ts_group *group, const ts_meet_record *own)
{
    int size = group->size;
    ts_meet_record *all = ts_calloc((size_t)size, sizeof *all);
    said *records = ts_calloc((size_t)size, sizeof *records);
    ts_status status =
        all && records ? TS_OK : ts_fail_memory((size_t)size * sizeof *all, "a group");
    bool alone = !plan->parent && plan->ops->place && own->status == TS_OK;
    if (status == TS_OK && !alone)
        status = ts_group_meet(group, plan->what, group->store, own, all, plan->timeout_ms);
    for (int q = 0; status == TS_OK && q < size; q++) records[q].record = all[q].split;
    if (status == TS_OK) status = join(plan, group, records, true);
    free(records);
    free(all);
    return status;
}

ts_status ts_plan_meet(ts_group **out, ts_plan *plan)
{
    ts_group *group;
    ts_meet_record own = {.rank = plan->place};
    *out = ts_group_not_member();
    if (plan->own < 0) return TS_OK;
    ts_status status = begin(&group, plan, &own.split);
    if (status != TS_OK) ts_plan_fail(plan, status);
    if (!group) return ts_fail_again(status, plan->cause ? plan->cause : ts_status_text(status));
    own.status = plan->status;
    own.digest = digest_of(plan);
    if (own.status == TS_OK)
        describe(own.text, plan);
    else
        snprintf(own.text, sizeof own.text, "%s", plan->cause ? plan->cause : "out of memory");
    status = meet(plan, group, &own);
    if (status != TS_OK) return give_up(plan, group, status);
    ts_groups_count(group->detached ? 0 : 1);
    return hand_out(out, group);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A group goes on without some of its ranks.
 *
 * Those that stay cannot meet over the group, which may be broken, so they meet in its store.  A group
 * of some ranks keeps its links: they are the default group's, which outlive the loss of a rank.  The
 * default group gets new ones, so that its ranks are 0, 1, 2 ... everywhere. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "comm/group_plan.h"

typedef struct shrinking {
    ts_plan plan;
    ts_group *group;
    bool of_default;
    bool leaves; /* this rank is to go itself */
} shrinking;

/* Marks who goes. */
static ts_status mark(bool *goes, const ts_group *group, const int *exclude, int n)
{
    if (n < 1 || !exclude) return ts_fail(TS_EINVAL, "there are no ranks to exclude");
    for (int i = 0; i < n; i++) {
        int q = ts_group_local(group, exclude[i]);
        if (q < 0)
            return ts_fail(TS_EINVAL, "rank %d is not in group '%s' of %d ranks", exclude[i],
                           group->name, group->size);
        if (goes[q]) return ts_fail(TS_EINVAL, "rank %d is named twice", exclude[i]);
        goes[q] = true;
    }
    return TS_OK;
}

static ts_status list_rest(shrinking *s, const bool *goes)
{
    int stay = 0, *ranks = ts_calloc((size_t)s->group->size, sizeof *ranks);
    if (!ranks) return ts_fail_memory((size_t)s->group->size * sizeof *ranks, "a group");
    for (int q = 0; q < s->group->size; q++)
        if (!goes[q]) ranks[stay++] = q;
    s->leaves = goes[s->group->rank];
    ts_status status = TS_OK;
    if (stay == 0)
        status = ts_fail(TS_EINVAL, "all %d ranks are excluded; one must stay", s->group->size);
    else if (s->leaves)
        status = ts_fail(TS_EINVAL, "rank %d is excluded and must not call it",
                         ts_group_global(s->group, s->group->rank));
    const ts_rank_list list = {ranks, stay};
    if (status == TS_OK) status = ts_plan_lists(&s->plan, &list, 1);
    free(ranks);
    return status;
}

static ts_status choose(shrinking *s, const int *exclude, int n)
{
    bool *goes = ts_calloc((size_t)s->group->size, sizeof *goes);
    if (!goes) return ts_fail_memory((size_t)s->group->size, "a group");
    ts_status status = mark(goes, s->group, exclude, n);
    if (status == TS_OK) status = list_rest(s, goes);
    free(goes);
    return status;
}

static ts_status check(shrinking *s, ts_group **out, unsigned flags, const ts_group_options *opt)
{
    ts_plan *plan = &s->plan;
    TS_TRY(ts_plan_options(plan, opt));
    if (!plan->opt.timeout_ms) plan->timeout_ms = atomic_load(&s->group->timeout_ms);
    if (!plan->opt.description) plan->opt.description = ts_group_description(s->group);
    if (!out) return ts_fail(TS_EINVAL, "the place for the group is missing (NULL)");
    if (flags & ~(unsigned)TS_SHRINK_ABORT)
        return ts_fail(TS_EINVAL, "flags %#x: TS_SHRINK_DEFAULT or TS_SHRINK_ABORT", flags);
    if (plan->opt.use_local_synchronization || (s->of_default && plan->opt.name))
        return ts_fail(TS_EINVAL, "use_local_synchronization, and a name for the default group, "
                                  "are not for it");
    if (plan->opt.name && ts_groups_has(plan->opt.name))
        return ts_fail(TS_EINVAL, "there is a group '%s' already", plan->opt.name);
    return TS_OK;
}

static void name_it(shrinking *s)
{
    ts_plan *plan = &s->plan;
    int number = ++s->group->shrunk;
    snprintf(plan->room, sizeof plan->room, "shrink/%d", number);
    if (plan->opt.name)
        snprintf(plan->name, sizeof plan->name, "%s", plan->opt.name);
    else if (s->of_default)
        snprintf(plan->name, sizeof plan->name, "%s", s->group->name);
    else
        snprintf(plan->name, sizeof plan->name, "%.100s.shrunk%d", s->group->name, number);
}

/* Those that wait for this rank learn why it makes no group. */
static ts_status refuse(const shrinking *s)
{
    const ts_plan *plan = &s->plan;
    const char *cause = plan->cause ? plan->cause : "out of memory";
    char text[TS_ERROR_MAX];
    ts_store *room;
    if (!s->leaves && ts_prefix_store_new(&room, plan->room, s->group->store) == TS_OK) {
        snprintf(text, sizeof text, "%s: rank %d came with bad arguments: %s; no group was made",
                 plan->what, ts_group_global(s->group, s->group->rank), cause);
        ts_verdict_post(room, "wrong", TS_EREMOTE, text);
        ts_store_free(room);
    }
    return ts_fail(plan->status, "%s: %s", plan->what, cause);
}

static ts_status make(ts_group **out, shrinking *s, unsigned flags)
{
    ts_plan *plan = &s->plan;
    if (!plan->lists || plan->own < 0) return refuse(s);
    if (flags & TS_SHRINK_ABORT && plan->status == TS_OK) ts_abort_process_group(s->group);
    if (s->of_default) {
        plan->parent = NULL;
        plan->base = s->group->store;
    }
    TS_TRY(ts_plan_meet(out, plan));
    if (s->of_default)
        ts_groups_replace_default(*out);
    else
        ts_groups_close(s->group);
    return TS_OK;
}

ts_status ts_shrink_group(ts_group **out, ts_group *group, const int *exclude, int n,
                          unsigned flags, const ts_group_options *opt)
{
    shrinking s = {.plan = {.what = TS_CALLED, .site = TS_CALL_SITE, .own = -1, .place = -1}};
    ts_group *made;
    TS_TRY(ts_group_find(&s.group, group, s.plan.what));
    if (!(s.group->ops->capabilities & TS_CAN_SHRINK) || !s.group->store)
        return ts_fail(TS_EUNSUPPORTED, "%s: backend '%s' cannot go on without lost ranks%s",
                       s.plan.what, s.group->ops->name, s.group->store ? "" : " (no store)");
    TS_TRY(ts_groups_begin(s.plan.what));
    s.of_default = s.group == ts_default_group();
    s.plan.parent = s.group;
    name_it(&s);
    ts_status status = check(&s, out, flags, opt);
    if (status != TS_OK) ts_plan_fail(&s.plan, status);
    status = choose(&s, exclude, n);
    if (status != TS_OK) ts_plan_fail(&s.plan, status);
    status = make(&made, &s, flags);
    if (status == TS_OK) *out = made;
    ts_plan_free(&s.plan);
    ts_groups_end();
    return status;
}

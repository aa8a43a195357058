/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of the functions that make groups. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/settings.h"
#include "comm/backends.h"
#include "comm/group_plan.h"

/* ---- options --------------------------------------------------------------------------------- */

static ts_status check_backend(ts_plan *plan)
{
    const ts_group *parent = plan->parent;
    if (plan->opt.backend) TS_TRY(ts_backend_find(&plan->ops, plan->opt.backend));
    if (ts_rank_current() != ts_rank_ctx_of_process() &&
        !(plan->ops->capabilities & TS_CAN_USE_THREADS))
        return ts_fail(TS_EUNSUPPORTED,
                       "backend '%s' serves one rank per process, but this rank is a thread "
                       "(ts_rank_enter)",
                       plan->ops->name);
    if (parent && plan->ops->place && !(plan->ops->split && plan->ops == parent->ops))
        return ts_fail(TS_EUNSUPPORTED, "backend '%s' cannot make groups beside those of '%s'",
                       plan->ops->name, parent->ops->name);
    const char *meant = plan->opt.backend_options ? plan->opt.backend_options->backend : NULL;
    if (meant && strcmp(meant, plan->ops->name) != 0)
        return ts_fail(TS_EINVAL, "the backend options are for '%s', but the backend is '%s'",
                       meant, plan->ops->name);
    return TS_OK;
}

ts_status ts_device_check(const char *device)
{
    if (!device || strcmp(device, "cpu") == 0) return TS_OK;
    return ts_fail(TS_EINVAL, "device '%s': this build knows 'cpu' only (0 accelerators)", device);
}

ts_status ts_plan_options(ts_plan *plan, const ts_group_options *opt)
{
    plan->timeout_ms = ts_setting_int(TS_SETTING_TIMEOUT);
    plan->ops = plan->parent ? plan->parent->ops : ts_backend_native();
    if (!opt) return TS_OK;
    if (opt->struct_size != sizeof *opt)
        return ts_fail(TS_EINVAL, "the options were not set up; begin with TS_GROUP_OPTIONS_INIT");
    plan->opt = *opt;
    if (opt->timeout_ms < 0)
        return ts_fail(TS_EINVAL, "the time limit of %lld ms is negative",
                       (long long)opt->timeout_ms);
    if (opt->timeout_ms) plan->timeout_ms = opt->timeout_ms;
    if (opt->name && (!*opt->name || strlen(opt->name) > 100 || strchr(opt->name, '/')))
        return ts_fail(TS_EINVAL, "the name '%.120s': 1 to 100 letters, and no '/'", opt->name);
    TS_TRY(ts_device_check(opt->device));
    return check_backend(plan);
}

/* ---- lists ----------------------------------------------------------------------------------- */

static int by_rank(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* A sorted copy. */
static ts_status take_list(ts_rank_list *to, const ts_rank_list *from, int size)
{
    if (from->n < 1 || !from->ranks) return ts_fail(TS_EINVAL, "a list of ranks is empty");
    for (int i = 0; i < from->n; i++)
        if (from->ranks[i] < 0 || from->ranks[i] >= size)
            return ts_fail(TS_EINVAL, "rank %d is not in 0 .. %d", from->ranks[i], size - 1);
    int *ranks = ts_calloc((size_t)from->n, sizeof *ranks);
    if (!ranks) return ts_fail_memory((size_t)from->n * sizeof *ranks, "a group");
    memcpy(ranks, from->ranks, (size_t)from->n * sizeof *ranks);
    qsort(ranks, (size_t)from->n, sizeof *ranks, by_rank);
    *to = (ts_rank_list){ranks, from->n};
    for (int i = 1; i < from->n; i++)
        if (ranks[i] == ranks[i - 1]) return ts_fail(TS_EINVAL, "rank %d is named twice", ranks[i]);
    return TS_OK;
}

static ts_status check_disjoint(const ts_plan *plan)
{
    int size = plan->parent->size;
    bool *seen = ts_calloc((size_t)size, sizeof *seen);
    ts_status status = seen ? TS_OK : ts_fail_memory((size_t)size, "a group");
    for (int i = 0; i < plan->count && status == TS_OK; i++)
        for (int k = 0; k < plan->lists[i].n && status == TS_OK; k++) {
            int rank = plan->lists[i].ranks[k];
            if (seen[rank]) status = ts_fail(TS_EINVAL, "rank %d is in two groups", rank);
            seen[rank] = true;
        }
    free(seen);
    return status;
}

static void find_own(ts_plan *plan)
{
    for (int i = 0; i < plan->count; i++)
        for (int k = 0; k < plan->lists[i].n; k++)
            if (plan->lists[i].ranks[k] == plan->parent->rank) {
                plan->own = i;
                plan->place = k;
            }
}

ts_status ts_plan_lists(ts_plan *plan, const ts_rank_list *lists, int n)
{
    if (n < 1 || !lists) return ts_fail(TS_EINVAL, "there is no list of ranks");
    plan->lists = ts_calloc((size_t)n, sizeof *plan->lists);
    if (!plan->lists) return ts_fail_memory((size_t)n * sizeof *plan->lists, "a group");
    plan->count = n;
    for (int i = 0; i < n; i++) TS_TRY(take_list(&plan->lists[i], &lists[i], plan->parent->size));
    TS_TRY(check_disjoint(plan));
    find_own(plan);
    return TS_OK;
}

static ts_status block_lists(ts_plan *plan, int size)
{
    int all = plan->parent->size;
    if (size < 1 || size > all || all % size != 0)
        return ts_fail(TS_EINVAL,
                       "blocks of %d ranks do not divide the %d of group '%s' into groups", size,
                       all, plan->parent->name);
    int n = all / size, *ranks = ts_calloc((size_t)all, sizeof *ranks);
    ts_rank_list *lists = ts_calloc((size_t)n, sizeof *lists);
    ts_status status = ranks && lists ? TS_OK : ts_fail_memory((size_t)all, "a group");
    for (int r = 0; status == TS_OK && r < all; r++) ranks[r] = r;
    for (int i = 0; status == TS_OK && i < n; i++)
        lists[i] = (ts_rank_list){ranks + (size_t)i * (size_t)size, size};
    if (status == TS_OK) status = ts_plan_lists(plan, lists, n);
    free(lists);
    free(ranks);
    return status;
}

/* ---- plans ----------------------------------------------------------------------------------- */

static ts_status begin(ts_plan *plan, const char *what, const void *site, ts_group *parent,
                       const ts_group_options *opt)
{
    *plan = (ts_plan){.what = what, .site = site, .own = -1, .place = -1};
    TS_TRY(ts_group_find(&plan->parent, parent, what));
    TS_TRY(ts_groups_begin(what));
    ts_status status = ts_plan_options(plan, opt);
    if (status != TS_OK) ts_plan_fail(plan, status);
    return TS_OK;
}

/* All ranks count alike: each call, and the groups of those calls that all have agreed on. */
static ts_status name_it(ts_plan *plan)
{
    ts_group *parent = plan->parent;
    plan->first = (int64_t)parent->made + 1;
    int64_t number = plan->first + plan->own;
    snprintf(plan->room, sizeof plan->room, "sub/%llu.%d", (unsigned long long)++parent->asked,
             plan->own);
    if (plan->opt.name && plan->count == 1)
        snprintf(plan->name, sizeof plan->name, "%s", plan->opt.name);
    else if (plan->opt.name)
        snprintf(plan->name, sizeof plan->name, "%s.%d", plan->opt.name, plan->own);
    else if (parent == ts_default_group())
        snprintf(plan->name, sizeof plan->name, "%lld", (long long)number);
    else
        snprintf(plan->name, sizeof plan->name, "%.100s.%lld", parent->name, (long long)number);
    if (plan->own >= 0 && ts_groups_has(plan->name))
        return ts_fail(TS_EINVAL, "there is a group '%s' already", plan->name);
    return TS_OK;
}

void ts_plan_free(ts_plan *plan)
{
    for (int i = 0; plan->lists && i < plan->count; i++)
        free((void *)(uintptr_t)plan->lists[i].ranks);
    free(plan->lists);
    free(plan->cause);
}

static void end(ts_plan *plan)
{
    ts_plan_free(plan);
    ts_groups_end();
}

/* status: of the lists. */
static ts_status finish(ts_group **own, ts_group **all, ts_plan *plan, ts_status status)
{
    ts_group *group = NULL;
    if (status != TS_OK) ts_plan_fail(plan, status);
    if (!own) ts_plan_fail(plan, ts_fail(TS_EINVAL, "the place for the group is missing (NULL)"));
    if (plan->opt.use_local_synchronization && strcmp(plan->what, "new_group") != 0)
        ts_plan_fail(plan, ts_fail(TS_EINVAL, "use_local_synchronization is for ts_new_group"));
    status = name_it(plan);
    if (status != TS_OK) ts_plan_fail(plan, status);
    status = ts_plan_make(&group, plan);
    for (int i = 0; status == TS_OK && all && i < plan->count; i++)
        all[i] = i == plan->own ? group : ts_group_not_member();
    if (status == TS_OK) *own = group;
    end(plan);
    return status;
}

static ts_status list_all(ts_plan *plan) { return block_lists(plan, plan->parent->size); }

/* By the members alone. */
static ts_status meet(ts_group **out, ts_plan *plan)
{
    ts_group *group;
    ts_plan_name_by_members(plan);
    if (plan->parent->ops->place || plan->ops->place)
        ts_plan_fail(plan, ts_fail(TS_EINVAL,
                                   "backend '%s' makes groups with all ranks only; leave out "
                                   "use_local_synchronization",
                                   plan->ops->name));
    if (plan->own >= 0 && ts_groups_has(plan->name))
        ts_plan_fail(plan, ts_fail(TS_EINVAL, "there is a group '%s' already", plan->name));
    ts_status status = ts_plan_meet(&group, plan);
    if (status == TS_OK) *out = group;
    return status;
}

ts_status ts_new_group(ts_group **out, const int *ranks, int n, const ts_group_options *opt)
{
    ts_plan plan;
    TS_TRY(begin(&plan, TS_CALLED, TS_CALL_SITE, NULL, opt));
    ts_rank_list list = {ranks, n};
    ts_status status = ranks ? ts_plan_lists(&plan, &list, 1) : list_all(&plan);
    if (status != TS_OK) ts_plan_fail(&plan, status);
    if (!out) ts_plan_fail(&plan, ts_fail(TS_EINVAL, "the place for the group is missing (NULL)"));
    if (!plan.opt.use_local_synchronization) return finish(out, NULL, &plan, status);
    if (plan.lists && plan.own >= 0)
        status = meet(out, &plan);
    else if (plan.status != TS_OK)
        status = ts_fail(plan.status, "new_group: %s", plan.cause ? plan.cause : "out of memory");
    else
        *out = ts_group_not_member();
    end(&plan);
    return status;
}

ts_status ts_split_group(ts_group **out, ts_group *parent, const ts_rank_list *lists, int n,
                         const ts_group_options *opt)
{
    ts_plan plan;
    TS_TRY(begin(&plan, TS_CALLED, TS_CALL_SITE, parent, opt));
    return finish(out, NULL, &plan, ts_plan_lists(&plan, lists, n));
}

ts_status ts_new_subgroups(ts_group **own, ts_group **all, int size, ts_group *parent,
                           const ts_group_options *opt)
{
    ts_plan plan;
    TS_TRY(begin(&plan, TS_CALLED, TS_CALL_SITE, parent, opt));
    return finish(own, all, &plan, block_lists(&plan, size));
}

ts_status ts_new_subgroups_by_enumeration(ts_group **own, ts_group **all, const ts_rank_list *lists,
                                          int n, const ts_group_options *opt)
{
    ts_plan plan;
    TS_TRY(begin(&plan, TS_CALLED, TS_CALL_SITE, NULL, opt));
    return finish(own, all, &plan, ts_plan_lists(&plan, lists, n));
}

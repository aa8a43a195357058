/* SPDX-License-Identifier: Apache-2.0 */
/* Life, step and state of schedules; several in one. */
#include "optim/schedule_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/options.h"

double ts_lr_warmup_cosine(int64_t step, int64_t warmup, int64_t total, double peak, double floor)
{
    if (step < 0) step = 0;
    if (step < warmup) return peak * (double)step / (double)warmup;
    if (step >= total) return floor;
    double progress = (double)(step - warmup) / (double)(total - warmup);
    return floor + 0.5 * (peak - floor) * (1.0 + cos(3.14159265358979323846 * progress));
}

/* ---- life ------------------------------------------------------------------------------------ */

ts_status ts_schedule_check(const char *rule, const char *what, double value, double low,
                            double high)
{
    if (value >= low && value <= high) return TS_OK;
    if (isinf(high))
        return ts_fail(TS_EINVAL, "%s: %s is %g; it must be at least %g", rule, what, value, low);
    return ts_fail(TS_EINVAL, "%s: %s is %g; it must be in [%g, %g]", rule, what, value, low, high);
}

ts_status ts_schedule_new(ts_lr_scheduler **out, const ts_schedule_rule *rule, ts_optim *optim)
{
    if (!optim) return ts_fail(TS_EINVAL, "%s: the optimizer is missing (NULL)", rule->name);
    ts_lr_scheduler *s = ts_calloc(1, sizeof *s);
    if (!s) return ts_fail_memory(sizeof *s, "a schedule");
    s->rule = rule;
    s->optim = optim;
    s->groups = optim->groups;
    s->base = ts_calloc((size_t)s->groups, sizeof *s->base);
    if (!s->base) {
        free(s);
        return ts_fail_memory((size_t)optim->groups * sizeof *s->base, "a schedule");
    }
    for (int g = 0; g < s->groups; g++) {
        double *initial = &optim->initial_lr[g];
        if (isnan(*initial)) *initial = ts_optim_group_lr(optim, g);
        s->base[g] = *initial;
    }
    *out = s;
    return TS_OK;
}

ts_status ts_schedule_finish(ts_lr_scheduler **out, ts_lr_scheduler *s)
{
    ts_status status = ts_schedule_begin(s);
    if (status == TS_OK)
        *out = s;
    else
        ts_lr_scheduler_free(s);
    return status;
}

void ts_lr_scheduler_free(ts_lr_scheduler *scheduler)
{
    if (!scheduler) return;
    for (int i = 0; i < scheduler->children; i++) ts_lr_scheduler_free(scheduler->child[i]);
    free(scheduler->child);
    free(scheduler->milestone);
    free(scheduler->base);
    free(scheduler);
}

ts_status ts_schedule_copy_milestones(ts_lr_scheduler *s, const int64_t *milestones, int n)
{
    if (n < 0 || (n > 0 && !milestones))
        return ts_fail(TS_EINVAL, "%s: %d milestones at %s", s->rule->name, n,
                       milestones ? "an address" : "no address");
    s->milestone = ts_calloc((size_t)n + 1, sizeof *s->milestone);
    if (!s->milestone) return ts_fail_memory((size_t)n * sizeof *milestones, "milestones");
    if (n > 0) memcpy(s->milestone, milestones, (size_t)n * sizeof *milestones);
    s->milestones = n;
    return TS_OK;
}

/* ---- the step -------------------------------------------------------------------------------- */

/* Sets what the formula gives at the present epoch. */
static ts_status apply(ts_lr_scheduler *s)
{
    for (int g = 0; g < s->groups; g++) {
        double lr = s->rule->next(s, g, ts_optim_group_lr(s->optim, g));
        TS_TRY(ts_optim_set_option(s->optim, g, "lr", lr));
        if (s->cycled) TS_TRY(ts_optim_set_option(s->optim, g, s->cycled, s->rule->momentum(s)));
    }
    return TS_OK;
}

ts_status ts_schedule_begin(ts_lr_scheduler *s)
{
    s->epoch = 0;
    s->in_period = 0;
    s->this_period = s->period;
    if (s->rule->begin) return s->rule->begin(s);
    return s->rule->next ? apply(s) : TS_OK;
}

ts_status ts_schedule_restart(ts_lr_scheduler *s)
{
    for (int g = 0; g < s->groups; g++) TS_TRY(ts_optim_set_option(s->optim, g, "lr", s->base[g]));
    return ts_schedule_begin(s);
}

static ts_status check_groups(const ts_lr_scheduler *s)
{
    if (s->groups == s->optim->groups) return TS_OK;
    return ts_fail(TS_ESTATE,
                   "%s: the optimizer has %d parameter groups, the schedule was made for %d; make "
                   "it after the last group",
                   s->rule->name, s->optim->groups, s->groups);
}

static ts_status step(ts_lr_scheduler *s)
{
    if (s->last > 0 && s->epoch >= s->last)
        return ts_fail(TS_EINVAL, "%s: step %lld is beyond total_steps, %lld", s->rule->name,
                       (long long)s->epoch + 1, (long long)s->last);
    s->epoch++;
    if (++s->in_period >= s->this_period && s->multiple > 0) {
        s->in_period = 0;
        s->this_period *= s->multiple;
    }
    return s->rule->step ? s->rule->step(s) : apply(s);
}

ts_status ts_lr_scheduler_step(ts_lr_scheduler *scheduler)
{
    if (!scheduler) return ts_fail(TS_EINVAL, "lr_scheduler_step: the schedule is missing (NULL)");
    if (!scheduler->rule->step && !scheduler->rule->next)
        return ts_fail(TS_EINVAL, "%s: a step needs a value; use ts_lr_scheduler_step_metric",
                       scheduler->rule->name);
    TS_TRY(check_groups(scheduler));
    return step(scheduler);
}

int64_t ts_lr_scheduler_last_step(const ts_lr_scheduler *scheduler)
{
    return scheduler ? scheduler->epoch : 0;
}

/* ---- reduction on a plateau ------------------------------------------------------------------ */

static const ts_schedule_rule plateau_rule = {.name = "reduce_lr_on_plateau"};

ts_status ts_reduce_lr_on_plateau_new(ts_lr_scheduler **out, ts_optim *optim,
                                      const ts_reduce_lr_on_plateau_options *opt)
{
    const char *name = plateau_rule.name;
    ts_reduce_lr_on_plateau_options o = TS_REDUCE_LR_ON_PLATEAU_OPTIONS_INIT;
    ts_lr_scheduler *s;
    TS_TRY(ts_options_read(&o, sizeof o, opt, name));
    TS_TRY(ts_schedule_check(name, "factor", o.factor, 0, nextafter(1, 0)));
    TS_TRY(ts_schedule_check(name, "patience", (double)o.patience, 0, INFINITY));
    TS_TRY(ts_schedule_check(name, "cooldown", (double)o.cooldown, 0, INFINITY));
    TS_TRY(ts_schedule_check(name, "min_lr", o.min_lr, 0, INFINITY));
    TS_TRY(ts_schedule_new(&s, &plateau_rule, optim));
    s->plateau = o;
    s->best = o.maximize ? -INFINITY : INFINITY;
    return ts_schedule_finish(out, s);
}

static bool is_better(const ts_lr_scheduler *s, double value)
{
    const ts_reduce_lr_on_plateau_options *o = &s->plateau;
    double sign = o->maximize ? 1 : -1;
    double margin = sign * o->threshold;
    double bound = o->threshold_is_absolute ? s->best + margin : s->best * (1 + margin);
    return sign * value > sign * bound;
}

static ts_status reduce(const ts_lr_scheduler *s)
{
    for (int g = 0; g < s->groups; g++) {
        double former = ts_optim_group_lr(s->optim, g);
        double lr = fmax(former * s->plateau.factor, s->plateau.min_lr);
        if (former - lr > s->plateau.eps) TS_TRY(ts_optim_set_option(s->optim, g, "lr", lr));
    }
    return TS_OK;
}

ts_status ts_lr_scheduler_step_metric(ts_lr_scheduler *scheduler, double metric)
{
    ts_lr_scheduler *s = scheduler;
    if (!s || s->rule != &plateau_rule)
        return ts_fail(TS_EINVAL, "lr_scheduler_step_metric: the schedule is %s, not %s",
                       s ? s->rule->name : "missing (NULL)", plateau_rule.name);
    TS_TRY(check_groups(s));
    s->epoch++;
    bool better = is_better(s, metric);
    if (better) s->best = metric;
    s->num_bad = better ? 0 : s->num_bad + 1;
    if (s->cooldown_left > 0) {
        s->cooldown_left--;
        s->num_bad = 0;
    }
    if (s->num_bad <= s->plateau.patience) return TS_OK;
    s->cooldown_left = s->plateau.cooldown;
    s->num_bad = 0;
    return reduce(s);
}

/* ---- several schedules ----------------------------------------------------------------------- */

static ts_status sequential_begin(ts_lr_scheduler *s) { return ts_schedule_restart(s->child[0]); }

static ts_status sequential_step(ts_lr_scheduler *s)
{
    int i = 0;
    while (i < s->milestones && s->milestone[i] <= s->epoch) i++;
    if (i > 0 && s->milestone[i - 1] == s->epoch) return ts_schedule_restart(s->child[i]);
    return step(s->child[i]);
}

static ts_status chained_begin(ts_lr_scheduler *s)
{
    for (int i = 0; i < s->children; i++) TS_TRY(ts_schedule_begin(s->child[i]));
    return TS_OK;
}

static ts_status chained_step(ts_lr_scheduler *s)
{
    for (int i = 0; i < s->children; i++) TS_TRY(step(s->child[i]));
    return TS_OK;
}

static const ts_schedule_rule sequential_rule = {
    .name = "sequential_lr", .begin = sequential_begin, .step = sequential_step};
static const ts_schedule_rule chained_rule = {
    .name = "chained_scheduler", .begin = chained_begin, .step = chained_step};

static ts_status check_children(const char *name, ts_lr_scheduler *const *child, int n)
{
    if (!child || n < 1) return ts_fail(TS_EINVAL, "%s: there are no schedules", name);
    for (int i = 0; i < n; i++) {
        if (!child[i]) return ts_fail(TS_EINVAL, "%s: schedule %d is missing (NULL)", name, i);
        if (child[i]->rule == &plateau_rule)
            return ts_fail(TS_EINVAL, "%s: schedule %d is %s, whose steps need a value", name, i,
                           plateau_rule.name);
        if (child[i]->optim != child[0]->optim)
            return ts_fail(TS_EINVAL, "%s: schedule %d is of another optimizer than schedule 0",
                           name, i);
    }
    return TS_OK;
}

static ts_status combine(ts_lr_scheduler **out, const ts_schedule_rule *rule,
                         ts_lr_scheduler *const *child, int n)
{
    ts_lr_scheduler *s;
    TS_TRY(check_children(rule->name, child, n));
    TS_TRY(ts_schedule_new(&s, rule, child[0]->optim));
    s->child = ts_calloc((size_t)n, sizeof(ts_lr_scheduler *));
    if (!s->child) {
        ts_lr_scheduler_free(s);
        return ts_fail_memory((size_t)n * sizeof(ts_lr_scheduler *), "schedules");
    }
    *out = s;
    return TS_OK;
}

/* From here on s has the children. */
static void adopt(ts_lr_scheduler *s, ts_lr_scheduler *const *child, int n)
{
    for (int i = 0; i < n; i++) s->child[i] = child[i];
    s->children = n;
}

static void free_all(ts_lr_scheduler *const *child, int n)
{
    for (int i = 0; child && i < n; i++) ts_lr_scheduler_free(child[i]);
}

static ts_status check_ascending(const int64_t *milestone, int n)
{
    for (int i = 0; i < n; i++)
        if (milestone[i] <= (i ? milestone[i - 1] : 0))
            return ts_fail(TS_EINVAL,
                           "sequential_lr: milestone %d is %lld; they must ascend from 1 on", i,
                           (long long)milestone[i]);
    return TS_OK;
}

ts_status ts_sequential_lr_new(ts_lr_scheduler **out, ts_lr_scheduler *const *schedulers, int n,
                               const int64_t *milestones)
{
    ts_lr_scheduler *s = NULL;
    ts_status status = combine(&s, &sequential_rule, schedulers, n);
    if (status == TS_OK) status = ts_schedule_copy_milestones(s, milestones, n - 1);
    if (status == TS_OK) status = check_ascending(milestones, n - 1);
    if (status != TS_OK) {
        ts_lr_scheduler_free(s);
        free_all(schedulers, n);
        return status;
    }
    adopt(s, schedulers, n);
    return ts_schedule_finish(out, s);
}

/* The children have begun when they were made. */
ts_status ts_chained_scheduler_new(ts_lr_scheduler **out, ts_lr_scheduler *const *schedulers, int n)
{
    ts_lr_scheduler *s;
    ts_status status = combine(&s, &chained_rule, schedulers, n);
    if (status != TS_OK) {
        free_all(schedulers, n);
        return status;
    }
    adopt(s, schedulers, n);
    *out = s;
    return TS_OK;
}

/* ---- state ----------------------------------------------------------------------------------- */

ts_object *ts_lr_scheduler_state_dict(const ts_lr_scheduler *scheduler)
{
    const ts_lr_scheduler *s = scheduler;
    if (!s) return ts_object_null();
    ts_object *state = ts_object_map(), *base = ts_object_list(), *children = ts_object_list();
    for (int g = 0; g < s->groups; g++) ts_object_append(base, ts_object_double(s->base[g]));
    for (int i = 0; i < s->children; i++)
        ts_object_append(children, ts_lr_scheduler_state_dict(s->child[i]));
    ts_object_set(state, "kind", ts_object_text(s->rule->name));
    ts_object_set(state, "last_epoch", ts_object_int(s->epoch));
    ts_object_set(state, "base_lrs", base);
    ts_object_set(state, "T_cur", ts_object_int(s->in_period));
    ts_object_set(state, "T_i", ts_object_int(s->this_period));
    ts_object_set(state, "best", ts_object_double(s->best));
    ts_object_set(state, "num_bad_epochs", ts_object_int(s->num_bad));
    ts_object_set(state, "cooldown_counter", ts_object_int(s->cooldown_left));
    ts_object_set(state, "schedulers", children);
    return state;
}

static ts_status check_kind(const ts_lr_scheduler *s, const ts_object *state)
{
    const char *kind;
    TS_TRY(ts_object_as_text(ts_object_get(state, "kind"), &kind));
    if (strcmp(kind, s->rule->name) != 0)
        return ts_fail(TS_EINVAL, "%s: the state is of %s", s->rule->name, kind);
    int64_t groups = ts_object_count(ts_object_get(state, "base_lrs"));
    int64_t children = ts_object_count(ts_object_get(state, "schedulers"));
    if (groups == s->groups && children == s->children) return TS_OK;
    return ts_fail(TS_EINVAL,
                   "%s: the state is of %lld groups and %lld schedules in it, this one has %d and "
                   "%d",
                   s->rule->name, (long long)groups, (long long)children, s->groups, s->children);
}

static ts_status read_numbers(ts_lr_scheduler *s, const ts_object *state)
{
    const ts_object *base = ts_object_get(state, "base_lrs");
    for (int g = 0; g < s->groups; g++)
        TS_TRY(ts_object_as_double(ts_object_at(base, g), &s->base[g]));
    TS_TRY(ts_object_as_int(ts_object_get(state, "last_epoch"), &s->epoch));
    TS_TRY(ts_object_as_int(ts_object_get(state, "T_cur"), &s->in_period));
    TS_TRY(ts_object_as_int(ts_object_get(state, "T_i"), &s->this_period));
    TS_TRY(ts_object_as_double(ts_object_get(state, "best"), &s->best));
    TS_TRY(ts_object_as_int(ts_object_get(state, "num_bad_epochs"), &s->num_bad));
    return ts_object_as_int(ts_object_get(state, "cooldown_counter"), &s->cooldown_left);
}

static ts_status load(ts_lr_scheduler *s, const ts_object *state)
{
    TS_TRY(check_kind(s, state));
    TS_TRY(read_numbers(s, state));
    const ts_object *children = ts_object_get(state, "schedulers");
    for (int i = 0; i < s->children; i++) TS_TRY(load(s->child[i], ts_object_at(children, i)));
    return TS_OK;
}

ts_status ts_lr_scheduler_load_state_dict(ts_lr_scheduler *scheduler, const ts_object *state)
{
    if (!scheduler || !state)
        return ts_fail(TS_EINVAL,
                       "lr_scheduler_load_state_dict: a schedule and a state are needed");
    TS_TRY(ts_object_status(state));
    ts_object *former = ts_lr_scheduler_state_dict(scheduler);
    TS_TRY(ts_object_status(former));
    ts_status status = load(scheduler, state);
    if (status != TS_OK) (void)load(scheduler, former); /* it is its own: cannot fail */
    ts_object_free(former);
    return status;
}

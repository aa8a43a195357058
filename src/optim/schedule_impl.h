/* SPDX-License-Identifier: Apache-2.0 */
/* A schedule is a rule, which has a formula or children, and where it is. */
#ifndef TS_OPTIM_SCHEDULE_IMPL_H
#define TS_OPTIM_SCHEDULE_IMPL_H

#include <tessera/schedule.h>

#include "optim/optim_impl.h"

typedef struct ts_schedule_rule {
    const char *name; /* "step_lr" */
    /* The rate of a group at s->epoch, from its present one.  At epoch 0 that is initial_lr unless
     * another schedule has changed it. */
    double (*next)(const ts_lr_scheduler *s, int group, double lr);
    double (*momentum)(const ts_lr_scheduler *s); /* optional */
    /* Optional, for rules of several schedules: s->epoch has become 0, or one more. */
    ts_status (*begin)(ts_lr_scheduler *s);
    ts_status (*step)(ts_lr_scheduler *s);
} ts_schedule_rule;

struct ts_lr_scheduler {
    const ts_schedule_rule *rule;
    ts_optim *optim;
    int64_t epoch, last; /* last: no step after it; 0: none */
    int groups;
    double *base; /* initial_lr of the groups */

    double factor, end_factor; /* factors, gamma, power, eta_min: each rule says which */
    int64_t period, multiple;
    int64_t *milestone;
    int milestones;
    ts_lr_lambda lambda;
    void *user;
    ts_one_cycle_lr_options cycle;
    const char *cycled; /* the option that one_cycle_lr moves, or NULL */
    ts_reduce_lr_on_plateau_options plateau;

    int64_t in_period, this_period; /* warm restarts */
    double best;                    /* plateau */
    int64_t num_bad, cooldown_left;
    ts_lr_scheduler **child;
    int children;
};

/* A schedule of optim with its initial rates noted, not begun.  TS_EINVAL without an optimizer. */
ts_status ts_schedule_new(ts_lr_scheduler **out, const ts_schedule_rule *rule, ts_optim *optim);
/* Begins s and gives it to the caller; frees it on error. */
ts_status ts_schedule_finish(ts_lr_scheduler **out, ts_lr_scheduler *s);
ts_status ts_schedule_begin(ts_lr_scheduler *s);   /* epoch 0, from the present rates */
ts_status ts_schedule_restart(ts_lr_scheduler *s); /* the same from the initial ones */
ts_status ts_schedule_copy_milestones(ts_lr_scheduler *s, const int64_t *milestones, int n);
/* TS_EINVAL: "<rule>: <what> is <value>; it must be in [low, high]". */
ts_status ts_schedule_check(const char *rule, const char *what, double value, double low,
                            double high);

#endif

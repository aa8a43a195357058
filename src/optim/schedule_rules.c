/* SPDX-License-Identifier: Apache-2.0 */
/* The formulas.  Those that multiply the present rate let schedules be chained. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/options.h"
#include "optim/schedule_impl.h"

static const double pi = 3.14159265358979323846;

static ts_status check_steps(const char *rule, const char *what, int64_t value)
{
    return ts_schedule_check(rule, what, (double)value, 1, INFINITY);
}

/* ---- constant, step, multistep, exponential -------------------------------------------------- */

static double constant_next(const ts_lr_scheduler *s, int group, double lr)
{
    (void)group;
    if (s->epoch == 0) return lr * s->factor;
    return s->epoch == s->period ? lr * (1.0 / s->factor) : lr;
}
static const ts_schedule_rule constant_rule = {.name = "constant_lr", .next = constant_next};

ts_status ts_constant_lr_new(ts_lr_scheduler **out, ts_optim *optim, double factor,
                             int64_t total_iters)
{
    ts_lr_scheduler *s;
    TS_TRY(ts_schedule_check("constant_lr", "factor", factor, nextafter(0, 1), 1));
    TS_TRY(check_steps("constant_lr", "total_iters", total_iters));
    TS_TRY(ts_schedule_new(&s, &constant_rule, optim));
    s->factor = factor;
    s->period = total_iters;
    return ts_schedule_finish(out, s);
}

static double step_next(const ts_lr_scheduler *s, int group, double lr)
{
    (void)group;
    return s->epoch == 0 || s->epoch % s->period != 0 ? lr : lr * s->factor;
}
static const ts_schedule_rule step_rule = {.name = "step_lr", .next = step_next};

ts_status ts_step_lr_new(ts_lr_scheduler **out, ts_optim *optim, int64_t step_size, double gamma)
{
    ts_lr_scheduler *s;
    TS_TRY(check_steps("step_lr", "step_size", step_size));
    TS_TRY(ts_schedule_check("step_lr", "gamma", gamma, 0, INFINITY));
    TS_TRY(ts_schedule_new(&s, &step_rule, optim));
    s->factor = gamma;
    s->period = step_size;
    return ts_schedule_finish(out, s);
}

static double multi_step_next(const ts_lr_scheduler *s, int group, double lr)
{
    int times = 0;
    (void)group;
    for (int i = 0; i < s->milestones; i++) times += s->milestone[i] == s->epoch;
    return times ? lr * pow(s->factor, times) : lr;
}
static const ts_schedule_rule multi_step_rule = {.name = "multi_step_lr", .next = multi_step_next};

ts_status ts_multi_step_lr_new(ts_lr_scheduler **out, ts_optim *optim, const int64_t *milestones,
                               int n, double gamma)
{
    ts_lr_scheduler *s;
    TS_TRY(ts_schedule_check("multi_step_lr", "gamma", gamma, 0, INFINITY));
    TS_TRY(ts_schedule_new(&s, &multi_step_rule, optim));
    s->factor = gamma;
    ts_status status = ts_schedule_copy_milestones(s, milestones, n);
    if (status == TS_OK) return ts_schedule_finish(out, s);
    ts_lr_scheduler_free(s);
    return status;
}

static double exponential_next(const ts_lr_scheduler *s, int group, double lr)
{
    (void)group;
    return s->epoch == 0 ? lr : lr * s->factor;
}
static const ts_schedule_rule exponential_rule = {.name = "exponential_lr",
                                                  .next = exponential_next};

ts_status ts_exponential_lr_new(ts_lr_scheduler **out, ts_optim *optim, double gamma)
{
    ts_lr_scheduler *s;
    TS_TRY(ts_schedule_check("exponential_lr", "gamma", gamma, 0, INFINITY));
    TS_TRY(ts_schedule_new(&s, &exponential_rule, optim));
    s->factor = gamma;
    return ts_schedule_finish(out, s);
}

/* ---- linear, polynomial ---------------------------------------------------------------------- */

/* The ratio of f(t) to f(t - 1), f(t) = start + (end - start) t / total. */
static double linear_next(const ts_lr_scheduler *s, int group, double lr)
{
    double rise = s->end_factor - s->factor;
    (void)group;
    if (s->epoch == 0) return lr * s->factor;
    if (s->epoch > s->period) return lr;
    double before = (double)s->period * s->factor + (double)(s->epoch - 1) * rise;
    return lr * (1.0 + rise / before);
}
static const ts_schedule_rule linear_rule = {.name = "linear_lr", .next = linear_next};

ts_status ts_linear_lr_new(ts_lr_scheduler **out, ts_optim *optim, double start_factor,
                           double end_factor, int64_t total_iters)
{
    ts_lr_scheduler *s;
    TS_TRY(ts_schedule_check("linear_lr", "start_factor", start_factor, nextafter(0, 1), 1));
    TS_TRY(ts_schedule_check("linear_lr", "end_factor", end_factor, 0, 1));
    TS_TRY(check_steps("linear_lr", "total_iters", total_iters));
    TS_TRY(ts_schedule_new(&s, &linear_rule, optim));
    s->factor = start_factor;
    s->end_factor = end_factor;
    s->period = total_iters;
    return ts_schedule_finish(out, s);
}

static double polynomial_next(const ts_lr_scheduler *s, int group, double lr)
{
    double total = (double)s->period, t = (double)s->epoch;
    (void)group;
    if (s->epoch == 0 || s->epoch > s->period) return lr;
    return lr * pow((1.0 - t / total) / (1.0 - (t - 1) / total), s->factor);
}
static const ts_schedule_rule polynomial_rule = {.name = "polynomial_lr", .next = polynomial_next};

ts_status ts_polynomial_lr_new(ts_lr_scheduler **out, ts_optim *optim, int64_t total_iters,
                               double power)
{
    ts_lr_scheduler *s;
    TS_TRY(check_steps("polynomial_lr", "total_iters", total_iters));
    TS_TRY(ts_schedule_check("polynomial_lr", "power", power, 0, INFINITY));
    TS_TRY(ts_schedule_new(&s, &polynomial_rule, optim));
    s->factor = power;
    s->period = total_iters;
    return ts_schedule_finish(out, s);
}

/* ---- cosines --------------------------------------------------------------------------------- */

/* The ratio of (1 + cos(pi t / T)) to its value at t - 1, of what lies above eta_min; where that is
 * 0, the first step up again. */
static double cosine_next(const ts_lr_scheduler *s, int group, double lr)
{
    double width = (double)s->period, t = (double)s->epoch, eta_min = s->factor;
    if (s->epoch == 0) return lr;
    if ((s->epoch - 1 - s->period) % (2 * s->period) == 0)
        return lr + (s->base[group] - eta_min) * (1 - cos(pi / width)) / 2;
    return (1 + cos(pi * t / width)) / (1 + cos(pi * (t - 1) / width)) * (lr - eta_min) + eta_min;
}
static const ts_schedule_rule cosine_rule = {.name = "cosine_annealing_lr", .next = cosine_next};

ts_status ts_cosine_annealing_lr_new(ts_lr_scheduler **out, ts_optim *optim, int64_t t_max,
                                     double eta_min)
{
    ts_lr_scheduler *s;
    TS_TRY(check_steps("cosine_annealing_lr", "t_max", t_max));
    TS_TRY(ts_schedule_check("cosine_annealing_lr", "eta_min", eta_min, 0, INFINITY));
    TS_TRY(ts_schedule_new(&s, &cosine_rule, optim));
    s->period = t_max;
    s->factor = eta_min;
    return ts_schedule_finish(out, s);
}

static double restarts_next(const ts_lr_scheduler *s, int group, double lr)
{
    double progress = pi * (double)s->in_period / (double)s->this_period;
    (void)lr;
    return s->factor + (s->base[group] - s->factor) * (1 + cos(progress)) / 2;
}
static const ts_schedule_rule restarts_rule = {.name = "cosine_annealing_warm_restarts",
                                               .next = restarts_next};

ts_status ts_cosine_annealing_warm_restarts_new(ts_lr_scheduler **out, ts_optim *optim, int64_t t_0,
                                                int64_t t_mult, double eta_min)
{
    ts_lr_scheduler *s;
    TS_TRY(check_steps(restarts_rule.name, "t_0", t_0));
    TS_TRY(check_steps(restarts_rule.name, "t_mult", t_mult));
    TS_TRY(ts_schedule_check(restarts_rule.name, "eta_min", eta_min, 0, INFINITY));
    TS_TRY(ts_schedule_new(&s, &restarts_rule, optim));
    s->period = t_0;
    s->multiple = t_mult;
    s->factor = eta_min;
    return ts_schedule_finish(out, s);
}

/* ---- lambda ---------------------------------------------------------------------------------- */

static double lambda_next(const ts_lr_scheduler *s, int group, double lr)
{
    (void)lr;
    return s->base[group] * s->lambda(s->epoch, group, s->user);
}
static const ts_schedule_rule lambda_rule = {.name = "lambda_lr", .next = lambda_next};

ts_status ts_lambda_lr_new(ts_lr_scheduler **out, ts_optim *optim, ts_lr_lambda factor, void *user)
{
    ts_lr_scheduler *s;
    if (!factor) return ts_fail(TS_EINVAL, "lambda_lr: the function is missing (NULL)");
    TS_TRY(ts_schedule_new(&s, &lambda_rule, optim));
    s->lambda = factor;
    s->user = user;
    return ts_schedule_finish(out, s);
}

/* ---- one cycle ------------------------------------------------------------------------------- */

typedef enum cycle_level { START, TOP, FLOOR } cycle_level;

/* A part of the cycle: from the end of the one before to its own. */
typedef struct cycle_phase {
    double end;
    cycle_level from, to;
    bool low_from, low_to; /* is the momentum the base one? */
} cycle_phase;

static int cycle_phases(cycle_phase phase[3], const ts_one_cycle_lr_options *o)
{
    double total = (double)o->total_steps, last = total - 1, up = o->pct_start * total;
    phase[0] = (cycle_phase){up - 1, START, TOP, false, true};
    phase[1] = (cycle_phase){o->three_phase ? 2 * up - 2 : last, TOP,
                             o->three_phase ? START : FLOOR, true, false};
    phase[2] = (cycle_phase){last, START, FLOOR, false, false};
    return o->three_phase ? 3 : 2;
}

/* The phase of the present step, and how much of it is done. */
static cycle_phase cycle_now(const ts_lr_scheduler *s, double *done)
{
    cycle_phase phase[3];
    double step = (double)s->epoch, begin = 0;
    int n = cycle_phases(phase, &s->cycle), i = 0;
    for (; i < n - 1 && step > phase[i].end; i++) begin = phase[i].end;
    *done = phase[i].end == begin ? 1 : (step - begin) / (phase[i].end - begin);
    return phase[i];
}

static double between(const ts_lr_scheduler *s, double from, double to, double done)
{
    if (s->cycle.linear) return (to - from) * done + from;
    return to + (from - to) / 2.0 * (cos(pi * done) + 1);
}

static double cycle_lr(const ts_one_cycle_lr_options *o, cycle_level level)
{
    double start = o->max_lr / o->div_factor;
    return level == TOP ? o->max_lr : level == START ? start : start / o->final_div_factor;
}

static double one_cycle_next(const ts_lr_scheduler *s, int group, double lr)
{
    double done;
    cycle_phase phase = cycle_now(s, &done);
    (void)group, (void)lr;
    return between(s, cycle_lr(&s->cycle, phase.from), cycle_lr(&s->cycle, phase.to), done);
}

static double one_cycle_momentum(const ts_lr_scheduler *s)
{
    const ts_one_cycle_lr_options *o = &s->cycle;
    double done;
    cycle_phase phase = cycle_now(s, &done);
    return between(s, phase.low_from ? o->base_momentum : o->max_momentum,
                   phase.low_to ? o->base_momentum : o->max_momentum, done);
}

static const ts_schedule_rule one_cycle_rule = {
    .name = "one_cycle_lr", .next = one_cycle_next, .momentum = one_cycle_momentum};

static ts_status check_cycle(const ts_one_cycle_lr_options *o)
{
    const char *name = one_cycle_rule.name;
    double least = nextafter(0, 1);
    TS_TRY(ts_schedule_check(name, "max_lr", o->max_lr, least, INFINITY));
    TS_TRY(check_steps(name, "total_steps", o->total_steps));
    TS_TRY(ts_schedule_check(name, "pct_start", o->pct_start, 0, 1));
    TS_TRY(ts_schedule_check(name, "div_factor", o->div_factor, least, INFINITY));
    return ts_schedule_check(name, "final_div_factor", o->final_div_factor, least, INFINITY);
}

/* The option that stands for momentum. */
static ts_status find_momentum(const char **out, const ts_optim *optim)
{
    static const char *const names[] = {"beta1", "momentum"};
    for (int i = 0; i < 2; i++)
        for (const ts_option_row *o = optim->rule->option; o->name; o++)
            if (strcmp(o->name, names[i]) == 0) {
                *out = names[i];
                return TS_OK;
            }
    return ts_fail(TS_EINVAL,
                   "one_cycle_lr: %s has neither momentum nor beta1; set cycle_momentum to false",
                   optim->rule->name);
}

ts_status ts_one_cycle_lr_new(ts_lr_scheduler **out, ts_optim *optim,
                              const ts_one_cycle_lr_options *opt)
{
    ts_one_cycle_lr_options o = TS_ONE_CYCLE_LR_OPTIONS_INIT;
    const char *cycled = NULL;
    ts_lr_scheduler *s;
    TS_TRY(ts_options_read(&o, sizeof o, opt, one_cycle_rule.name));
    TS_TRY(check_cycle(&o));
    if (optim && o.cycle_momentum) TS_TRY(find_momentum(&cycled, optim));
    TS_TRY(ts_schedule_new(&s, &one_cycle_rule, optim));
    s->cycle = o;
    s->cycled = cycled;
    s->last = o.total_steps;
    for (int g = 0; g < s->groups; g++) s->base[g] = optim->initial_lr[g] = cycle_lr(&o, START);
    return ts_schedule_finish(out, s);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Learning-rate schedules.  Formulas, names and defaults are PyTorch's.
 *
 * A schedule sets the learning rates of an optimizer's groups when it is made and at each step
 * after: call ts_lr_scheduler_step behind ts_optim_step.  Each group's rate starts from the one
 * that it had when the first schedule was made for it (initial_lr).  The optimizer must outlive its
 * schedules, and may get no group after them.  Local; not to be used by two threads at once.
 *
 * Every _new leaves *out alone on error; TS_EINVAL says which number is out of range. */
#ifndef TESSERA_SCHEDULE_H
#define TESSERA_SCHEDULE_H

#include <tessera/object.h>
#include <tessera/optim.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ts_lr_scheduler ts_lr_scheduler;

/* ---- one formula ----------------------------------------------------------------------------- */

/* initial_lr times factor (in (0, 1]) for total_iters steps, then initial_lr.  ConstantLR. */
TS_API ts_status ts_constant_lr_new(ts_lr_scheduler **out, ts_optim *optim, double factor,
                                    int64_t total_iters);
/* Times gamma every step_size steps.  StepLR. */
TS_API ts_status ts_step_lr_new(ts_lr_scheduler **out, ts_optim *optim, int64_t step_size,
                                double gamma);
/* Times gamma at each of n milestones, in any order; twice at one that is given twice.
 * MultiStepLR. */
TS_API ts_status ts_multi_step_lr_new(ts_lr_scheduler **out, ts_optim *optim,
                                      const int64_t *milestones, int n, double gamma);
/* Times gamma at each step.  ExponentialLR. */
TS_API ts_status ts_exponential_lr_new(ts_lr_scheduler **out, ts_optim *optim, double gamma);
/* initial_lr times a factor that goes from start_factor (in (0, 1]) to end_factor (in [0, 1])
 * within total_iters steps: a warm-up.  LinearLR. */
TS_API ts_status ts_linear_lr_new(ts_lr_scheduler **out, ts_optim *optim, double start_factor,
                                  double end_factor, int64_t total_iters);
/* initial_lr times (1 - step / total_iters)^power, then 0.  PolynomialLR. */
TS_API ts_status ts_polynomial_lr_new(ts_lr_scheduler **out, ts_optim *optim, int64_t total_iters,
                                      double power);
/* Half a cosine from initial_lr to eta_min in t_max steps, and back in as many.
 * CosineAnnealingLR. */
TS_API ts_status ts_cosine_annealing_lr_new(ts_lr_scheduler **out, ts_optim *optim, int64_t t_max,
                                            double eta_min);
/* Half a cosine in t_0 steps, then again from initial_lr in t_mult times as many, and so on.
 * CosineAnnealingWarmRestarts. */
TS_API ts_status ts_cosine_annealing_warm_restarts_new(ts_lr_scheduler **out, ts_optim *optim,
                                                       int64_t t_0, int64_t t_mult, double eta_min);
/* initial_lr times what factor returns for the step (from 0 on) and the group.  LambdaLR. */
typedef double (*ts_lr_lambda)(int64_t step, int group, void *user);
TS_API ts_status ts_lambda_lr_new(ts_lr_scheduler **out, ts_optim *optim, ts_lr_lambda factor,
                                  void *user);

/* From max_lr / div_factor up to max_lr, and down to that start / final_div_factor, within
 * total_steps; the momentum (option momentum, or beta1) goes the other way.  It sets initial_lr.
 * OneCycleLR. */
typedef struct ts_one_cycle_lr_options {
    size_t struct_size;
    double max_lr;           /* needed: > 0 */
    int64_t total_steps;     /* needed: >= 1 */
    double pct_start;        /* 0.3: part of the steps that goes up */
    double base_momentum;    /* 0.85 */
    double max_momentum;     /* 0.95 */
    double div_factor;       /* 25 */
    double final_div_factor; /* 1e4 */
    bool linear;             /* false: along cosines */
    bool cycle_momentum;     /* true */
    bool three_phase;        /* false; true: down to the start first, as long as up */
} ts_one_cycle_lr_options;
#define TS_ONE_CYCLE_LR_OPTIONS_INIT                                                               \
    {                                                                                              \
        sizeof(ts_one_cycle_lr_options), 0.0, 0, 0.3, 0.85, 0.95, 25.0, 1e4, false, true, false    \
    }
TS_API ts_status ts_one_cycle_lr_new(ts_lr_scheduler **out, ts_optim *optim,
                                     const ts_one_cycle_lr_options *opt);

/* Times factor when the value given to ts_lr_scheduler_step_metric has not become better for more
 * than patience steps.  ReduceLROnPlateau. */
typedef struct ts_reduce_lr_on_plateau_options {
    size_t struct_size;
    double factor;              /* 0.1: in (0, 1) */
    int64_t patience;           /* 10 */
    double threshold;           /* 1e-4: what counts as better */
    int64_t cooldown;           /* 0: steps after a reduction that do not count */
    double min_lr;              /* 0 */
    double eps;                 /* 1e-8: smaller changes are not made */
    bool maximize;              /* false: smaller is better (PyTorch: mode "min") */
    bool threshold_is_absolute; /* false: relative to the best (threshold_mode "rel") */
} ts_reduce_lr_on_plateau_options;
#define TS_REDUCE_LR_ON_PLATEAU_OPTIONS_INIT                                                       \
    {                                                                                              \
        sizeof(ts_reduce_lr_on_plateau_options), 0.1, 10, 1e-4, 0, 0.0, 1e-8, false, false         \
    }
TS_API ts_status ts_reduce_lr_on_plateau_new(ts_lr_scheduler **out, ts_optim *optim,
                                             const ts_reduce_lr_on_plateau_options *opt);

/* ---- several --------------------------------------------------------------------------------- */

/* One schedule after the other: the next one begins anew, from initial_lr, at each of the n - 1
 * ascending milestones.  The schedules are taken over, also on error, and must be of one optimizer;
 * not ReduceLROnPlateau.  SequentialLR. */
TS_API ts_status ts_sequential_lr_new(ts_lr_scheduler **out, ts_lr_scheduler *const *schedulers,
                                      int n, const int64_t *milestones);
/* All schedules at each step, each from what the one before has set.  Taken over as above.
 * ChainedScheduler. */
TS_API ts_status ts_chained_scheduler_new(ts_lr_scheduler **out, ts_lr_scheduler *const *schedulers,
                                          int n);

/* ---- use ------------------------------------------------------------------------------------- */

TS_API ts_status ts_lr_scheduler_step(ts_lr_scheduler *scheduler);
/* For ReduceLROnPlateau only; metric: such as the held-out loss. */
TS_API ts_status ts_lr_scheduler_step_metric(ts_lr_scheduler *scheduler, double metric);
TS_API int64_t ts_lr_scheduler_last_step(const ts_lr_scheduler *scheduler); /* last_epoch */
TS_API void ts_lr_scheduler_free(ts_lr_scheduler *scheduler);               /* NULL is fine */

/* Where the schedule is, as a map (ts_object_free).  The rates themselves are in the optimizer's
 * state, which must be loaded too. */
TS_API ts_object *ts_lr_scheduler_state_dict(const ts_lr_scheduler *scheduler);
/* Into a schedule made in the same way; TS_EINVAL or TS_EPROTO for the state of another one.
 * Nothing is changed on error. */
TS_API ts_status ts_lr_scheduler_load_state_dict(ts_lr_scheduler *scheduler,
                                                 const ts_object *state);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* An optimizer is a rule over chunks; everything else is shared. */
#ifndef TS_OPTIM_IMPL_H
#define TS_OPTIM_IMPL_H

#include <tessera/optim.h>

#include "kernels/optim.h"
#include "optim/chunks.h"

enum { TS_OPTIM_MAX_STATES = 2 };

typedef struct ts_optim_param {
    ts_tensor *state[TS_OPTIM_MAX_STATES]; /* row-major, of the parameter's shape and dtype */
    bool live;                             /* the states hold something */
    bool fresh;                            /* they were set to zero for the step that runs now */
    union {
        ts_sgd_step sgd;
        ts_adamw_step adamw;
    } now; /* constants of the step that runs now */
} ts_optim_param;

typedef struct ts_optim_rule {
    const char *name;                            /* "adamw" */
    const char *state_name[TS_OPTIM_MAX_STATES]; /* PyTorch's; NULL: no more */
    bool counts_steps;
    bool (*needs_state)(const ts_optim *o);
    /* Sets p->now; step counts from 1. */
    void (*prepare)(const ts_optim *o, ts_optim_param *p, int64_t step);
    /* Updates n elements; state pointers are NULL without state.  Any thread. */
    void (*update)(const ts_optim_param *p, const ts_optim_kernels *kernels, void *param,
                   const void *grad, void *const *state, int64_t n);
} ts_optim_rule;

struct ts_optim {
    const ts_optim_rule *rule;
    ts_tensor_list *parameters;
    ts_optim_param *param; /* one per parameter */
    float *step;           /* of steps */
    ts_tensor *steps;      /* float32 (parameters): steps taken, as PyTorch's "step" */
    ts_chunks chunks;
    double lr;
    union {
        ts_sgd_options sgd;
        ts_adamw_options adamw;
    } opt;
};

/* Takes parameters over, also on error. */
ts_status ts_optim_new(ts_optim **out, const ts_optim_rule *rule, ts_tensor_list *parameters,
                       double lr);
/* TS_EINVAL "<rule>: <name> is <value>; ..." unless low <= value < high. */
ts_status ts_optim_range(const char *rule, const char *name, double value, double low, double high);
/* Memory for the states of parameter i; those that are new are zero. */
ts_status ts_optim_make_state(ts_optim *o, int64_t i);
void ts_optim_drop_state(ts_optim *o, int64_t i);

#endif

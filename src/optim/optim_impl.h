/* SPDX-License-Identifier: Apache-2.0 */
/* An optimizer is a rule: its options, its states, and a kernel for a chunk of elements.  Everything
 * else is shared. */
#ifndef TS_OPTIM_IMPL_H
#define TS_OPTIM_IMPL_H

#include <tessera/optim.h>

#include "kernels/optim.h"
#include "optim/chunks.h"

enum {
    TS_OPTIM_MAX_STATES = 3,
    TS_OPTIM_MAX_SCALARS = 2,
    TS_OPTIM_KINDS = TS_OPTIM_MAX_STATES + TS_OPTIM_MAX_SCALARS
};

/* What every options struct begins with. */
typedef struct ts_optim_head {
    size_t struct_size;
    double lr;
} ts_optim_head;

typedef enum ts_option_type { TS_OPTION_REAL, TS_OPTION_INT, TS_OPTION_FLAG } ts_option_type;

/* A number of an options struct: low <= value < high. */
typedef struct ts_option_row {
    const char *name;
    size_t offset;
    ts_option_type type; /* double, int64_t, bool */
    double low, high;
} ts_option_row;
#define TS_REAL(type, field, low, high)                                                            \
    {                                                                                              \
#field, offsetof(type, field), TS_OPTION_REAL, low, high                                   \
    }
#define TS_FLAG(type, field)                                                                       \
    {                                                                                              \
#field, offsetof(type, field), TS_OPTION_FLAG, 0, 2                                        \
    }

typedef struct ts_optim_param {
    /* States, row-major, of the parameter's shape and dtype; from TS_OPTIM_MAX_STATES on scalars,
     * float32. */
    ts_tensor *state[TS_OPTIM_KINDS];
    int group;
    bool live;  /* the states hold something */
    bool fresh; /* they were made for the step that runs now */
    union {
        ts_sgd_step sgd;
        ts_adam_step adam;
        ts_adagrad_step adagrad;
        ts_rmsprop_step rmsprop;
        ts_adadelta_step adadelta;
        ts_adamax_step adamax;
        ts_nadam_step nadam;
        ts_radam_step radam;
        ts_rprop_step rprop;
        ts_lion_step lion;
    } now; /* constants of the step that runs now */
} ts_optim_param;

typedef struct ts_optim_rule {
    const char *name;                              /* "adamw" */
    const char *state_name[TS_OPTIM_MAX_STATES];   /* PyTorch's; NULL: no more */
    const char *scalar_name[TS_OPTIM_MAX_SCALARS]; /* "step" begins at 0, a second one at 1 */
    const ts_option_row *option;                   /* ends with a NULL name */
    const void *defaults;                          /* an options struct */
    size_t options_size;
    ts_optim_kernel_id kernel;
    /* Optional: what the ranges of single options cannot say. */
    ts_status (*check)(const void *opt);
    /* Optional, default all: bit k for each state that these options need. */
    unsigned (*states)(const void *opt);
    /* Optional, default 0: what fills state k at first. */
    double (*initial)(const void *opt, int k);
    /* Sets p->now; step counts from 1 (0 for rules without "step"). */
    void (*prepare)(const void *opt, ts_optim_param *p, int64_t step);
    /* Optional: updates a whole parameter with operations, instead of prepare and kernel. */
    ts_status (*whole)(const void *opt, ts_optim_param *p, ts_tensor *param, ts_tensor *grad);
} ts_optim_rule;

struct ts_optim {
    const ts_optim_rule *rule;
    ts_tensor_list *parameters; /* of all groups */
    ts_optim_param *param;      /* one per parameter */
    void **group;               /* options */
    double *initial_lr;         /* of the groups, when their first schedule was made; else NaN */
    int groups;
    ts_chunks chunks;
};

/* Takes parameters over, also on error.  opt: NULL or the rule's options struct. */
ts_status ts_optim_new(ts_optim **out, const ts_optim_rule *rule, ts_tensor_list *parameters,
                       const void *opt);

/* ---- options (group.c) ----------------------------------------------------------------------- */

/* A checked copy of opt over the defaults; *out is freed with free. */
ts_status ts_optim_read_options(void **out, const ts_optim_rule *rule, const void *opt);
double ts_option_get(const void *opt, const ts_option_row *option);
/* Writes value and checks all; the former value stays on error. */
ts_status ts_option_set(void *opt, const ts_optim_rule *rule, const ts_option_row *option,
                        double value);

/* ---- states (state.c) ------------------------------------------------------------------------ */

/* The name of a kind of state that parameter i has with its options, else NULL. */
const char *ts_optim_kind(const ts_optim *o, int64_t i, int kind);
/* Memory for the states of parameter i that are not there yet, filled as the rule says. */
ts_status ts_optim_make_state(ts_optim *o, int64_t i);
void ts_optim_drop_state(ts_optim *o, int64_t i);

#endif

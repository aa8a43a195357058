/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers and gradient clipping.  Formulas and defaults are PyTorch's. */
#ifndef TESSERA_OPTIM_H
#define TESSERA_OPTIM_H

#include <tessera/module.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ts_optim ts_optim;

/* ---- options: every struct begins with its size and the learning rate ------------------------ */

typedef struct ts_sgd_options {
    size_t struct_size;
    double lr;           /* 1e-3 */
    double momentum;     /* 0 */
    double dampening;    /* 0 */
    double weight_decay; /* 0 */
    bool nesterov;       /* false */
    bool maximize;       /* false */
} ts_sgd_options;
#define TS_SGD_OPTIONS_INIT                                                                        \
    {                                                                                              \
        sizeof(ts_sgd_options), 1e-3, 0.0, 0.0, 0.0, false, false                                  \
    }

/* Adam adds weight_decay times the parameter to the gradient; AdamW shrinks the parameter. */
typedef struct ts_adam_options {
    size_t struct_size;
    double lr;           /* 1e-3 */
    double beta1, beta2; /* 0.9, 0.999 */
    double eps;          /* 1e-8 */
    double weight_decay; /* Adam 0, AdamW 1e-2 */
    bool amsgrad;        /* false */
    bool maximize;       /* false */
} ts_adam_options, ts_adamw_options;
#define TS_ADAM_OPTIONS_INIT                                                                       \
    {                                                                                              \
        sizeof(ts_adam_options), 1e-3, 0.9, 0.999, 1e-8, 0.0, false, false                         \
    }
#define TS_ADAMW_OPTIONS_INIT                                                                      \
    {                                                                                              \
        sizeof(ts_adamw_options), 1e-3, 0.9, 0.999, 1e-8, 1e-2, false, false                       \
    }

typedef struct ts_adagrad_options {
    size_t struct_size;
    double lr;                        /* 1e-2 */
    double lr_decay;                  /* 0 */
    double weight_decay;              /* 0 */
    double initial_accumulator_value; /* 0 */
    double eps;                       /* 1e-10 */
    bool maximize;                    /* false */
} ts_adagrad_options;
#define TS_ADAGRAD_OPTIONS_INIT                                                                    \
    {                                                                                              \
        sizeof(ts_adagrad_options), 1e-2, 0.0, 0.0, 0.0, 1e-10, false                              \
    }

typedef struct ts_rmsprop_options {
    size_t struct_size;
    double lr;           /* 1e-2 */
    double alpha;        /* 0.99 */
    double eps;          /* 1e-8 */
    double weight_decay; /* 0 */
    double momentum;     /* 0 */
    bool centered;       /* false */
    bool maximize;       /* false */
} ts_rmsprop_options;
#define TS_RMSPROP_OPTIONS_INIT                                                                    \
    {                                                                                              \
        sizeof(ts_rmsprop_options), 1e-2, 0.99, 1e-8, 0.0, 0.0, false, false                       \
    }

typedef struct ts_adadelta_options {
    size_t struct_size;
    double lr;           /* 1 */
    double rho;          /* 0.9 */
    double eps;          /* 1e-6 */
    double weight_decay; /* 0 */
    bool maximize;       /* false */
} ts_adadelta_options;
#define TS_ADADELTA_OPTIONS_INIT                                                                   \
    {                                                                                              \
        sizeof(ts_adadelta_options), 1.0, 0.9, 1e-6, 0.0, false                                    \
    }

typedef struct ts_adamax_options {
    size_t struct_size;
    double lr;           /* 2e-3 */
    double beta1, beta2; /* 0.9, 0.999 */
    double eps;          /* 1e-8 */
    double weight_decay; /* 0 */
    bool maximize;       /* false */
} ts_adamax_options;
#define TS_ADAMAX_OPTIONS_INIT                                                                     \
    {                                                                                              \
        sizeof(ts_adamax_options), 2e-3, 0.9, 0.999, 1e-8, 0.0, false                              \
    }

typedef struct ts_nadam_options {
    size_t struct_size;
    double lr;                   /* 2e-3 */
    double beta1, beta2;         /* 0.9, 0.999 */
    double eps;                  /* 1e-8 */
    double weight_decay;         /* 0 */
    double momentum_decay;       /* 4e-3 */
    bool decoupled_weight_decay; /* false; true: as AdamW */
    bool maximize;               /* false */
} ts_nadam_options;
#define TS_NADAM_OPTIONS_INIT                                                                      \
    {                                                                                              \
        sizeof(ts_nadam_options), 2e-3, 0.9, 0.999, 1e-8, 0.0, 4e-3, false, false                  \
    }

typedef struct ts_radam_options {
    size_t struct_size;
    double lr;                   /* 1e-3 */
    double beta1, beta2;         /* 0.9, 0.999 */
    double eps;                  /* 1e-8 */
    double weight_decay;         /* 0 */
    bool decoupled_weight_decay; /* false; true: as AdamW */
    bool maximize;               /* false */
} ts_radam_options;
#define TS_RADAM_OPTIONS_INIT                                                                      \
    {                                                                                              \
        sizeof(ts_radam_options), 1e-3, 0.9, 0.999, 1e-8, 0.0, false, false                        \
    }

typedef struct ts_rprop_options {
    size_t struct_size;
    double lr;                 /* 1e-2: the first step size */
    double etaminus, etaplus;  /* 0.5, 1.2 */
    double step_min, step_max; /* 1e-6, 50 */
    bool maximize;             /* false */
} ts_rprop_options;
#define TS_RPROP_OPTIONS_INIT                                                                      \
    {                                                                                              \
        sizeof(ts_rprop_options), 1e-2, 0.5, 1.2, 1e-6, 50.0, false                                \
    }

/* Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023. */
typedef struct ts_lion_options {
    size_t struct_size;
    double lr;           /* 1e-4 */
    double beta1, beta2; /* 0.9, 0.99 */
    double weight_decay; /* 0 */
    bool maximize;       /* false */
} ts_lion_options;
#define TS_LION_OPTIONS_INIT                                                                       \
    {                                                                                              \
        sizeof(ts_lion_options), 1e-4, 0.9, 0.99, 0.0, false                                       \
    }

/* For matrices only.  The momentum is brought near an orthogonal matrix by Newton-Schulz steps
 * X <- a X + (b X X' + c (X X')^2) X, in the dtype of the parameter (PyTorch: in bfloat16). */
typedef enum ts_muon_lr {
    TS_MUON_LR_ORIGINAL = 0,   /* lr sqrt(max(1, rows / columns)) */
    TS_MUON_LR_MATCH_ADAMW = 1 /* lr 0.2 sqrt(max(rows, columns)) */
} ts_muon_lr;
typedef struct ts_muon_options {
    size_t struct_size;
    double lr;           /* 1e-3 */
    double weight_decay; /* 0.1 */
    double momentum;     /* 0.95 */
    double a, b, c;      /* 3.4445, -4.775, 2.0315 */
    double eps;          /* 1e-7 */
    int64_t ns_steps;    /* 5 */
    int64_t adjust_lr;   /* TS_MUON_LR_ORIGINAL */
    bool nesterov;       /* true */
} ts_muon_options;
#define TS_MUON_OPTIONS_INIT                                                                       \
    {                                                                                              \
        sizeof(ts_muon_options), 1e-3, 0.1, 0.95, 3.4445, -4.775, 2.0315, 1e-7, 5,                 \
            TS_MUON_LR_ORIGINAL, true                                                              \
    }

/* ---- making one ------------------------------------------------------------------------------ */

/* parameters is taken over (freed by the optimizer, also on error); float32 or float64, CPU.
 * TS_EINVAL for an empty list or options out of range, naming them.  opt NULL: the defaults. */
TS_API ts_status ts_sgd_new(ts_optim **out, ts_tensor_list *parameters, const ts_sgd_options *opt);
TS_API ts_status ts_adam_new(ts_optim **out, ts_tensor_list *parameters,
                             const ts_adam_options *opt);
TS_API ts_status ts_adamw_new(ts_optim **out, ts_tensor_list *parameters,
                              const ts_adamw_options *opt);
TS_API ts_status ts_adagrad_new(ts_optim **out, ts_tensor_list *parameters,
                                const ts_adagrad_options *opt);
TS_API ts_status ts_rmsprop_new(ts_optim **out, ts_tensor_list *parameters,
                                const ts_rmsprop_options *opt);
TS_API ts_status ts_adadelta_new(ts_optim **out, ts_tensor_list *parameters,
                                 const ts_adadelta_options *opt);
TS_API ts_status ts_adamax_new(ts_optim **out, ts_tensor_list *parameters,
                               const ts_adamax_options *opt);
TS_API ts_status ts_nadam_new(ts_optim **out, ts_tensor_list *parameters,
                              const ts_nadam_options *opt);
TS_API ts_status ts_radam_new(ts_optim **out, ts_tensor_list *parameters,
                              const ts_radam_options *opt);
TS_API ts_status ts_rprop_new(ts_optim **out, ts_tensor_list *parameters,
                              const ts_rprop_options *opt);
TS_API ts_status ts_lion_new(ts_optim **out, ts_tensor_list *parameters,
                             const ts_lion_options *opt);
TS_API ts_status ts_muon_new(ts_optim **out, ts_tensor_list *parameters,
                             const ts_muon_options *opt);
TS_API void ts_optim_free(ts_optim *optim);

/* ---- the step -------------------------------------------------------------------------------- */

/* Parameters whose gradient is none are skipped.  One fused pass over all parameters. */
TS_API ts_status ts_optim_step(ts_optim *optim);
/* Calls closure, which clears the gradients, computes the loss, runs backward and returns the loss,
 * then steps.  *loss (may be NULL) gets the loss.  A failed loss is returned as its status, and
 * nothing is changed. */
typedef ts_tensor *(*ts_optim_closure)(void *user);
TS_API ts_status ts_optim_step_closure(ts_optim *optim, ts_optim_closure closure, void *user,
                                       double *loss);
/* Steps n of the optimizer's parameters with the given gradients (NULL: skipped), whatever their
 * own are: for updates that begin while backward still runs (call it in a hook). */
TS_API ts_status ts_optim_step_with(ts_optim *optim, ts_tensor *const *parameters,
                                    ts_tensor *const *gradients, int n);
TS_API void ts_optim_zero_grad(ts_optim *optim); /* gradients become none */

/* ---- parameter groups: each has its own options ---------------------------------------------- */

/* parameters is taken over, also on error; names must be new.  opt: the struct of this optimizer's
 * _new; NULL: the defaults.  Groups count from 0, the one that _new made. */
TS_API ts_status ts_optim_add_param_group(ts_optim *optim, ts_tensor_list *parameters,
                                          const void *opt);
TS_API int ts_optim_num_groups(const ts_optim *optim);
/* One option of a group by its name, such as "momentum"; true is 1.  TS_EINVAL for unknown names
 * and values out of range. */
TS_API ts_status ts_optim_option(const ts_optim *optim, int group, const char *name, double *value);
TS_API ts_status ts_optim_set_option(ts_optim *optim, int group, const char *name, double value);
TS_API double ts_optim_lr(const ts_optim *optim);                  /* of group 0 */
TS_API void ts_optim_set_lr(ts_optim *optim, double lr);           /* of all groups */
TS_API double ts_optim_group_lr(const ts_optim *optim, int group); /* NaN: no such group */

/* ---- state ----------------------------------------------------------------------------------- */

/* State tensors by name ("exp_avg.<parameter>", "step.<parameter>"), sharing storage, and the
 * options of the groups ("param_groups.0.lr", float64). */
TS_API ts_tensor_list *ts_optim_state_dict(const ts_optim *optim);
/* Options that state does not name stay as they are.  Nothing is changed on error. */
TS_API ts_status ts_optim_load_state_dict(ts_optim *optim, const ts_tensor_list *state);

/* Linear warm-up from 0 to peak over warmup steps, then half a cosine to floor at step total.
 * step counts from 0. */
TS_API double ts_lr_warmup_cosine(int64_t step, int64_t warmup, int64_t total, double peak,
                                  double floor);

/* ---- clipping -------------------------------------------------------------------------------- */

/* Scales the gradients so that their joint p-norm is at most max_norm; *norm (may be NULL) gets the
 * norm before.  p may be INFINITY. */
TS_API ts_status ts_clip_grad_norm(double *norm, const ts_tensor_list *parameters, double max_norm,
                                   double p);
/* The joint p-norm of the gradients.  error_if_nonfinite: TS_EINVAL for a norm that is not finite
 * (*norm is set all the same). */
TS_API ts_status ts_grad_norm(double *norm, const ts_tensor_list *parameters, double p,
                              bool error_if_nonfinite);
/* The second half of ts_clip_grad_norm, with a norm that may come from several ranks. */
TS_API ts_status ts_clip_grads_with_norm(const ts_tensor_list *parameters, double max_norm,
                                         double norm);
/* Clamps every element of the gradients to [-value, value]; NaN stays. */
TS_API ts_status ts_clip_grad_value(const ts_tensor_list *parameters, double value);

#ifdef __cplusplus
}
#endif
#endif

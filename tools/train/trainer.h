/* SPDX-License-Identifier: Apache-2.0 */
/* A model under training, with the strategy around it and its optimizer: what `train` and
 * `bench train` share. */
#ifndef TS_TOOLS_TRAINER_H
#define TS_TOOLS_TRAINER_H

#include <tessera/tessera.h>

typedef struct trainer_options {
    ts_gpt_options gpt;
    bool ddp;
    double weight_decay, clip; /* clip 0: none */
    uint64_t seed;
} trainer_options;

typedef struct trainer {
    ts_module *gpt;   /* part of model */
    ts_module *model; /* what is called: gpt, or DDP around it */
    ts_tensor_list *parameters;
    ts_optim *optim;
    double clip;
} trainer;

typedef struct trainer_result {
    double loss;      /* of this rank's batch */
    double grad_norm; /* before clipping; NaN without */
} trainer_result;

/* Collective with ddp.  trainer_free undoes it, also after an error. */
ts_status trainer_new(trainer *t, const trainer_options *opt);
void trainer_free(trainer *t);
/* Forward, backward, clip, optimizer step. */
ts_status trainer_step(trainer_result *out, trainer *t, ts_tensor *tokens, ts_tensor *targets,
                       double lr);
/* Loss without gradients. */
ts_status trainer_loss(double *out, trainer *t, ts_tensor *tokens, ts_tensor *targets);

/* Mean over the ranks of the default group; without one nothing changes. */
ts_status trainer_mean(double *value);
/* Collective: are all ranks' parameters equal bit for bit?  If not, name gets the first that
 * differs. */
ts_status trainer_replicas_equal(bool *equal, char *name, size_t size, const trainer *t);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of a training run: DIR/step-000000100.pt, in torch.save's format, with all that the run
 * needs to go on as if it had never stopped. */
#ifndef TS_TOOLS_CHECKPOINT_H
#define TS_TOOLS_CHECKPOINT_H

#include "trainer.h"

typedef struct checkpoint {
    int64_t step; /* steps done */
    double loss;  /* of the last one */
    ts_loader_state loader;
} checkpoint;

/* Makes the folder if it is missing. */
ts_status checkpoint_prepare(const char *dir);
ts_status checkpoint_save(const char *dir, const trainer *t, const checkpoint *at);
/* The newest one in dir into model, optimizer and generator.  *found false: there is none. */
ts_status checkpoint_load(bool *found, checkpoint *at, trainer *t, const char *dir);

#endif

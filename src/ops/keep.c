/* SPDX-License-Identifier: Apache-2.0 */
/* The layer that gives a checkpoint's function, when it runs again, the outputs that were kept. */
#include "autograd/checkpoint.h"
#include "ops/dispatch.h"

ts_status ts_layer_keep(ts_op_call *call, uint32_t below)
{
    const ts_op_def *def = call->def;
    if (def->flags & (TS_OP_VIEW | TS_OP_INPLACE)) return ts_dispatch_below(call, below);
    bool there;
    TS_TRY(ts_checkpoint_take(&there, call->out, def->num_out, def->name));
    if (there) return TS_OK;
    TS_TRY(ts_dispatch_below(call, below));
    return ts_checkpoint_keep(call->out, def->num_out, def->name);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The layer for calls that cannot be made: a failed input is the result, as it is. */
#include "ops/dispatch.h"

ts_status ts_layer_inert(ts_op_call *call, uint32_t bits)
{
    (void)bits;
    for (int i = 0; i < call->num_in; i++) {
        if (!ts_failed(call->in[i])) continue;
        for (int k = 0; k < TS_OP_MAX_OUTPUTS; k++) call->out[k] = call->in[i];
        return TS_OK;
    }
    for (int i = 0; i < call->num_in; i++)
        if (!call->in[i] && !(i < 32 && (call->def->optional_in >> i & 1)))
            return ts_fail(TS_EINVAL, "%s: input %d is missing (NULL)", call->def->name, i);
    return TS_OK;
}

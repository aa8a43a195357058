/* SPDX-License-Identifier: Apache-2.0 */
/* The one path that every operation takes. */
#include "ops/dispatch.h"

/* Outermost first.  A call enters a layer if one of its bits is set, in the keys of a tensor or in
 * the mode of the thread; without any bit it goes straight to the kernel.
 *
 *   layer     bits                what it does
 *   inert     FAILED, MISSING     passes a failed input on, refuses a missing one
 *   autocast  TS_MODE_AUTOCAST    (reserved) casts inputs
 *   capture   TS_MODE_CAPTURE     (reserved) records the graph of operations
 *   autograd  TS_KEY_AUTOGRAD     records a node, saves tensors
 *   keep      TS_MODE_KEEP        outputs that a checkpoint keeps
 *   dtensor   TS_KEY_DTENSOR      (reserved) layouts: redistribute, compute locally, wrap
 *   wait      TS_KEY_PENDING      (reserved) waits for asynchronous results
 *   profile   TS_MODE_PROFILE     (reserved) times and counts the kernel
 *   kernel                        allocates outputs and computes
 */
static const struct {
    uint32_t bits;
    ts_status (*run)(ts_op_call *call, uint32_t below);
} layers[] = {
    {TS_KEY_FAILED | TS_KEY_MISSING, ts_layer_inert},
    {TS_KEY_AUTOGRAD, ts_layer_autograd},
    {TS_MODE_KEEP, ts_layer_keep},
};
enum { NUM_LAYERS = sizeof layers / sizeof *layers };

ts_status ts_dispatch_below(ts_op_call *call, uint32_t bits)
{
    for (int i = 0; i < NUM_LAYERS; i++)
        if (bits & layers[i].bits) return layers[i].run(call, bits & ~layers[i].bits);
    return ts_layer_kernel(call);
}

static uint32_t bits_of(const ts_op_call *call)
{
    uint32_t bits = 0;
    for (int i = 0; i < call->num_in; i++) {
        const ts_tensor *t = call->in[i];
        if (!t) {
            bool optional = i < 32 && (call->def->optional_in >> i & 1);
            if (!optional) bits |= TS_KEY_MISSING;
            continue;
        }
        bits |= t->keys;
        /* A view follows its base, which may have got its history by a change in place. */
        if (t->base) bits |= t->base->keys & TS_KEY_AUTOGRAD;
    }
    return bits;
}

static ts_tensor *fail_all(ts_op_call *call, ts_status status)
{
    ts_tensor *failed = ts_fail_tensor_last(status);
    for (int i = 0; i < TS_OP_MAX_OUTPUTS; i++) call->out[i] = failed;
    return failed;
}

static ts_status dispatch(ts_op_call *call)
{
    uint32_t mode = ts_thread()->mode, bits = bits_of(call);
    /* Unrecorded views are marked, everything else needs nothing from autograd. */
    if ((mode & TS_MODE_NO_GRAD) && !(call->def->flags & TS_OP_VIEW))
        bits &= ~(uint32_t)TS_KEY_AUTOGRAD;
    bits |= mode & (uint32_t)TS_MODE_LAYERS;
    return bits == 0 ? ts_layer_kernel(call) : ts_dispatch_below(call, bits);
}

ts_tensor *ts_dispatch(ts_op_call *call)
{
    ts_status status = dispatch(call);
    return status == TS_OK ? call->out[0] : fail_all(call, status);
}

/* The functions of a program's row may fail without words. */
ts_tensor *ts_op_run(ts_op_call *call)
{
    ts_status status = ts_op_check(call);
    ts_thread()->error_status = status;
    if (status == TS_OK) status = dispatch(call);
    if (status == TS_OK) return call->out[0];
    if (ts_thread()->error_status != status)
        ts_fail(status, "%s: it returned %s", call->def->name, ts_status_name(status));
    return fail_all(call, status);
}

static ts_tensor *dispatch_n(const ts_op_def *def, ts_tensor *const *in, int n)
{
    ts_op_call call; /* attributes are left alone: there are none */
    call.def = def;
    call.in = in;
    call.num_in = n;
    call.num_attrs = 0;
    for (int i = 0; i < TS_OP_MAX_OUTPUTS; i++) call.out[i] = NULL;
    return ts_dispatch(&call);
}

ts_tensor *ts_dispatch1(const ts_op_def *def, ts_tensor *a) { return dispatch_n(def, &a, 1); }

ts_tensor *ts_dispatch2(const ts_op_def *def, ts_tensor *a, ts_tensor *b)
{
    ts_tensor *const in[] = {a, b};
    return dispatch_n(def, in, 2);
}

ts_tensor *ts_dispatch3(const ts_op_def *def, ts_tensor *a, ts_tensor *b, ts_tensor *c)
{
    ts_tensor *const in[] = {a, b, c};
    return dispatch_n(def, in, 3);
}

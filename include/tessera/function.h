/* SPDX-License-Identifier: Apache-2.0 */
/* Functions with a gradient of their own: a pair of forward and backward.
 *
 * forward runs without recording, so what it computes inside leaves no trace in the graph; backward
 * gives the gradients of its inputs.  Both get the call, which carries the program's data and what
 * forward saved.  Local; any thread. */
#ifndef TESSERA_FUNCTION_H
#define TESSERA_FUNCTION_H

#include <tessera/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ts_function_call ts_function_call;

#define TS_FUNCTION_MAX_OUTPUTS 32

typedef struct ts_function_class {
    const char *name; /* in errors: "backward of <name>: ..." */
    int num_out;      /* 1 .. TS_FUNCTION_MAX_OUTPUTS */
    /* Fills out[num_out], all NULL at first.  in[i] may be NULL ("none").  An output that is an
     * input, or a view of one, stays a view of it. */
    ts_status (*forward)(ts_function_call *call, ts_tensor *const *in, int num_in, ts_tensor **out);
    /* grad_out[i] is NULL where it is zero; at least one is there.  Fills grad_in, all NULL at
     * first; NULL means zero.  A gradient has shape and dtype of its input.  Written with
     * operations it can be differentiated again.  NULL: no gradient; outputs never require grad. */
    ts_status (*backward)(ts_function_call *call, ts_tensor *const *grad_out, ts_tensor **grad_in);
    /* Optional.  Once per call (a failed one too), on the thread that lets the last of it go: after
     * backward, if the graph is not retained, or with the last output. */
    void (*fini)(void *user);
} ts_function_class;

/* Returns output 0; out, unless NULL, gets all of them (on failure each is the failed tensor).
 * klass must outlive the outputs' graph. */
TS_API ts_tensor *ts_function_apply(const ts_function_class *klass, ts_tensor *const *in,
                                    int num_in, void *user, ts_tensor **out);

TS_API void *ts_function_user(const ts_function_call *call);
/* Is the gradient of input i wanted? */
TS_API bool ts_function_needs(const ts_function_call *call, int i);

/* In forward: keeps t for backward, as number 0, 1, ...  An input or output keeps its place in the
 * graph; changing it in place afterwards is an error in backward, as it is for operations.  NULL is
 * kept as NULL. */
TS_API ts_status ts_function_save(ts_function_call *call, ts_tensor *t);
/* In backward: number i of what was saved; it belongs to the current scope. */
TS_API ts_tensor *ts_function_saved(ts_function_call *call, int i);
/* In forward: output i never requires grad. */
TS_API void ts_function_mark_non_differentiable(ts_function_call *call, int i);

#ifdef __cplusplus
}
#endif
#endif

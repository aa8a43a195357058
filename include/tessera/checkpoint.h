/* SPDX-License-Identifier: Apache-2.0 */
/* Less memory for activations: hooks on what operations save for backward, and functions that run
 * again in backward instead of saving. */
#ifndef TESSERA_CHECKPOINT_H
#define TESSERA_CHECKPOINT_H

#include <tessera/module.h>
#include <tessera/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- saved-tensor hooks ---------------------------------------------------------------------- */

/* Run without recording and without hooks.  Leaves that require grad are not packed: they live
 * anyway.  A packed tensor is no longer guarded against changes in place. */
typedef struct ts_saved_hooks {
    /* Called when an operation saves t, which has no history; ts_retain keeps it.  Sets *packed.  A
     * status that is not TS_OK fails the operation. */
    ts_status (*pack)(void **packed, ts_tensor *t, void *user);
    /* Called in backward, as often as the graph runs: a tensor of the same shape and dtype. */
    ts_tensor *(*unpack)(void *packed, void *user);
    /* Once per packed value, on the thread that lets the graph go. */
    void (*drop)(void *packed, void *user);
} ts_saved_hooks;

typedef struct ts_saved_hooks_scope { /* yours, between begin and end; the fields are not */
    const ts_saved_hooks *hooks;
    void *user;
    struct ts_saved_hooks_scope *outer;
} ts_saved_hooks_scope;

/* Per thread, nest; the innermost hooks are used.  hooks (NULL: none inside this scope) and user
 * must live until what was packed has been dropped. */
TS_API void ts_saved_hooks_begin(ts_saved_hooks_scope *scope, const ts_saved_hooks *hooks,
                                 void *user);
TS_API void ts_saved_hooks_end(ts_saved_hooks_scope *scope);

/* ---- activation checkpointing ---------------------------------------------------------------- */

typedef struct ts_checkpoint_options {
    size_t struct_size;
    bool preserve_rng_state; /* true: random numbers are the same when it runs again */
    bool early_stop; /* true: running again ends with the last tensor that backward needs: what
                      * comes later is given failed tensors */
    const char *const *keep; /* names of operations whose outputs are kept, not computed again;  */
    int num_keep;            /* must live until backward has run.  Not views, not in place. */
} ts_checkpoint_options;
#define TS_CHECKPOINT_OPTIONS_INIT                                                                 \
    {                                                                                              \
        sizeof(ts_checkpoint_options), true, true, NULL, 0                                         \
    }

/* Fills out[num_out].  Must compute the same whenever it runs. */
typedef ts_status (*ts_checkpoint_fn)(ts_tensor *const *in, int num_in, ts_tensor **out,
                                      int num_out, void *user);

#define TS_CHECKPOINT_MAX_OUTPUTS 32

/* Runs fn; what its operations save for backward is dropped, and comes from running fn again in
 * backward, once per pass, with the inputs of now.  Inputs may be NULL, need not require grad, and
 * must not be changed in place; parameters may come through user, which must live until backward
 * has run.  Nests: the inputs of an inner checkpoint are dropped too.  Returns output 0; out, unless
 * NULL, gets all (failed tensors on failure).  Local. */
TS_API ts_tensor *ts_checkpoint(ts_checkpoint_fn fn, ts_tensor *const *in, int num_in,
                                ts_tensor **out, int num_out, void *user,
                                const ts_checkpoint_options *opt);
/* ts_forward(m, x), run again in backward. */
TS_API ts_tensor *ts_checkpoint_forward(ts_module *m, ts_tensor *x,
                                        const ts_checkpoint_options *opt);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Reverse-mode differentiation over the operations that were recorded. */
#ifndef TESSERA_AUTOGRAD_H
#define TESSERA_AUTOGRAD_H

#include <tessera/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Leaves with requires_grad collect gradients.  TS_EDTYPE for non-floating tensors; TS_ESTATE when
 * clearing it on a tensor that an operation made. */
TS_API ts_status ts_set_requires_grad(ts_tensor *t, bool requires_grad);
TS_API bool ts_requires_grad(const ts_tensor *t);
TS_API bool ts_is_leaf(const ts_tensor *t);
TS_API ts_tensor *ts_detach(ts_tensor *t); /* shares storage, has no history */

/* The gradient of a leaf (or of a tensor with ts_retain_grad); NULL if none.  Never freed by you;
 * valid until it is replaced. */
TS_API ts_tensor *ts_grad(const ts_tensor *t);
/* Replaces the gradient; NULL clears it.  TS_ESHAPE/TS_EDTYPE unless it fits t. */
TS_API ts_status ts_set_grad(ts_tensor *t, ts_tensor *grad);
TS_API ts_status ts_retain_grad(ts_tensor *t); /* keep the gradient of a non-leaf too */

/* Accumulates d(root)/d(leaf) into the leaves.  root must have one element unless gradient is given
 * (ts_backward_ex).  A failed root returns its own status.  Frees what the graph saved.  Blocks;
 * nodes run in the calling thread, later-made nodes first. */
TS_API ts_status ts_backward(ts_tensor *root);

typedef struct ts_backward_options {
    size_t struct_size;
    bool retain_graph; /* false: what the graph saved is freed; needing it again is TS_ESTATE */
    bool create_graph; /* false: gradients are not themselves recorded */
} ts_backward_options;
#define TS_BACKWARD_OPTIONS_INIT                                                                   \
    {                                                                                              \
        sizeof(ts_backward_options), false, false                                                  \
    }

/* gradients: NULL, or one per root (an entry may be NULL for one-element roots). */
TS_API ts_status ts_backward_ex(ts_tensor *const *roots, ts_tensor *const *gradients, int n,
                                const ts_backward_options *opt);
/* d(outputs)/d(inputs) into out[num_inputs], without touching .grad; out[i] is NULL for an input
 * that the outputs do not depend on; the others belong to the current scope. */
TS_API ts_status ts_grad_of(ts_tensor **out, ts_tensor *const *outputs,
                            ts_tensor *const *grad_outputs, int num_outputs,
                            ts_tensor *const *inputs, int num_inputs,
                            const ts_backward_options *opt);

/* Split backward, as zero-bubble pipelines use it: the gradients of the inputs now, those of the
 * parameters later.  Both together give the same bits as one backward.
 *
 * ts_backward_input gives d(roots)/d(inputs) in grad_in, as ts_grad_of does, and in *split what is
 * left: operations that have other gradients to give, with what they saved; the rest of the graph's
 * memory is freed.  Hooks of tensors on the way run now.  ts_backward_weight does the rest - adds
 * to the .grad of all other leaves, runs their hooks and the callbacks - once, and lets all go.
 * Several splits may wait, and run in any order.  An operation on the way runs its backward in both
 * halves, for its part of the inputs each; a function (function.h) should ask ts_function_needs.
 * create_graph is not offered.  ts_backward_split_free (NULL is fine) at the end, also of one
 * that has not run. */
typedef struct ts_backward_split ts_backward_split;
TS_API ts_status ts_backward_input(ts_backward_split **split, ts_tensor **grad_in,
                                   ts_tensor *const *roots, ts_tensor *const *gradients, int n,
                                   ts_tensor *const *inputs, int num_inputs,
                                   const ts_backward_options *opt);
TS_API ts_status ts_backward_weight(ts_backward_split *split);
TS_API void ts_backward_split_free(ts_backward_split *split);

/* Per thread, nest.  begin returns the former state for end. */
TS_API bool ts_no_grad_begin(void);
TS_API void ts_no_grad_end(bool former);
TS_API bool ts_enable_grad_begin(void);
TS_API void ts_enable_grad_end(bool former);
TS_API bool ts_grad_enabled(void);

/* Inference mode: nothing is recorded, not even under ts_enable_grad_begin, and tensors made inside
 * have no version counter.  Outside, they can be read and used where backward does not need them:
 * saving them for backward, changing them in place and making them require grad is TS_ESTATE; clone
 * them.  Views of other tensors are as those.  on = false ends the mode for a while.  Per thread,
 * nests; begin returns the former state for end. */
TS_API uint32_t ts_inference_mode_begin(bool on);
TS_API void ts_inference_mode_end(uint32_t former);
TS_API bool ts_inference_mode_enabled(void);
TS_API bool ts_is_inference(const ts_tensor *t);

/* Hooks.  Each returns a handle > 0 for removal, or 0 when t failed or memory ran out. */

/* Runs with the gradient of t when it is complete, before it flows on; returns the replacement or
 * NULL for "unchanged"; a failed tensor stops backward with its status. */
typedef ts_tensor *(*ts_tensor_hook)(ts_tensor *grad, void *user);
TS_API int64_t ts_tensor_register_hook(ts_tensor *t, ts_tensor_hook hook, void *user);

/* Runs after the gradient of leaf t has been added to .grad.  Several run in order of registration.
 * A non-zero status stops backward with it. */
typedef ts_status (*ts_accumulate_hook)(ts_tensor *leaf, void *user);
TS_API int64_t ts_register_post_accumulate_hook(ts_tensor *leaf, ts_accumulate_hook hook,
                                                void *user);
TS_API void ts_hook_remove(ts_tensor *t, int64_t handle);

/* Called from inside backward (a hook): runs once when this backward pass has ended, on the same
 * thread, in order of queueing.  backward is how the pass ended so far: a callback runs after a
 * failure too, so that it can tell the peers; its text is ts_error_last.  The pass returns the
 * first status that is not TS_OK.  TS_ESTATE outside backward. */
typedef ts_status (*ts_backward_callback)(ts_status backward, void *user);
TS_API ts_status ts_queue_backward_callback(ts_backward_callback callback, void *user);

/* Number of in-place changes of t's storage that autograd has seen; 0 for inference tensors. */
TS_API uint64_t ts_tensor_version(const ts_tensor *t);
/* Leaf t gets the storage, shape and strides of data (torch.Tensor.data = ...), which lives on; no
 * change in place: what saved t for backward finds the new data there.  So parameters are gathered
 * for their use and freed after it.  Views of t made before keep the old data.  TS_ESTATE for a
 * non-leaf or a view, TS_EDTYPE unless dtype and device agree. */
TS_API ts_status ts_set_data(ts_tensor *t, ts_tensor *data);

/* Anomaly mode: operations remember where they were called, and an error in their backward says so.
 * check_nan: a backward that gives a gradient with NaN or an infinity is such an error (TS_ESTATE).
 * Slow.  Per thread, nests; begin returns the former state for end.  ts_set_detect_anomaly is for
 * the rest of the thread, TESSERA_DETECT_ANOMALY=1 for every thread of the process. */
TS_API uint32_t ts_detect_anomaly_begin(bool check_nan);
TS_API void ts_detect_anomaly_end(uint32_t former);
TS_API void ts_set_detect_anomaly(bool on, bool check_nan);
TS_API bool ts_is_anomaly_enabled(void);

/* Compares the gradients of fn(inputs) with central differences.  Inputs: float64 leaves with
 * requires_grad; others are passed through.  TS_EUSER with input, index and both numbers on a
 * difference above atol + rtol * |numeric|. */
typedef ts_tensor *(*ts_gradcheck_fn)(ts_tensor *const *inputs, int n, void *user);
TS_API ts_status ts_gradcheck(ts_gradcheck_fn fn, ts_tensor *const *inputs, int n, void *user,
                              double eps, double atol, double rtol);

#ifdef __cplusplus
}
#endif
#endif

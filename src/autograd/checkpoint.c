/* SPDX-License-Identifier: Apache-2.0 */
/* Activation checkpointing by saved-tensor hooks.
 *
 * While the function runs for the first time, each tensor that is saved becomes a holder: its
 * number in the order of saving, no tensor.  When backward asks for the first of them the function
 * runs again on the saved inputs, and what is saved then, in the same order, fills the holders.
 * The inputs are saved by the hooks around the checkpoint, so that an outer checkpoint drops them;
 * asking for them runs the outer function again. */
#include "autograd/checkpoint.h"

#include <stdlib.h>
#include <string.h>
#include <tessera/checkpoint.h>
#include <tessera/random.h>

#include "autograd/autograd_impl.h"
#include "base/memory.h"

typedef struct holder {
    int64_t index;
    ts_tensor *value; /* while a pass runs */
} holder;

typedef struct kept {
    const char *op;
    ts_saved out;
} kept;

typedef struct frame {
    int64_t refs; /* of holders and of calls that run; one thread at a time */
    ts_checkpoint_fn fn;
    void *user;
    ts_checkpoint_options opt;
    int num_in, num_out;
    ts_saved *in;
    bool *needs; /* input i has a history */
    uint32_t mode;
    ts_generator_state random;
    ts_vec holders; /* NULL: dropped */
    int64_t replayed, missing;
    bool again, stopped, running;
    kept *kept;
    int64_t num_kept, kept_capacity, kept_next;
} frame;

static _Thread_local frame *active; /* whose function runs on this thread */

/* ---- frames ---------------------------------------------------------------------------------- */

static void frame_release(frame *f)
{
    if (--f->refs > 0) return;
    for (int i = 0; f->in && i < f->num_in; i++) ts_saved_drop(&f->in[i]);
    for (int64_t i = 0; i < f->num_kept; i++) ts_saved_drop(&f->kept[i].out);
    ts_vec_fini(&f->holders);
    free(f->kept);
    free(f->in);
    free(f->needs);
    free(f);
}

static ts_status save_input(frame *f, int i, ts_tensor *t)
{
    ts_edge edge;
    if (!t) return TS_OK;
    TS_TRY(ts_autograd_edge(&edge, t));
    f->needs[i] = edge.node && !ts_node_is_accumulator(edge.node);
    return ts_saved_set(&f->in[i], t, false);
}

/* NULL after ts_fail. */
static frame *frame_new(ts_tensor *const *in, int num_in)
{
    frame *f = ts_calloc(1, sizeof *f);
    if (!f) {
        ts_fail_memory(sizeof *f, "a checkpoint");
        return NULL;
    }
    f->refs = 1;
    f->num_in = num_in;
    f->in = ts_calloc((size_t)num_in + 1, sizeof *f->in);
    f->needs = ts_calloc((size_t)num_in + 1, sizeof *f->needs);
    ts_status status =
        f->in && f->needs ? TS_OK : ts_fail_memory((size_t)num_in * sizeof *f->in, "a checkpoint");
    for (int i = 0; i < num_in && status == TS_OK; i++) status = save_input(f, i, in[i]);
    if (status == TS_OK) return f;
    frame_release(f);
    return NULL;
}

/* ---- the function runs ----------------------------------------------------------------------- */

static ts_status run_function(frame *f, const ts_saved_hooks *hooks, ts_tensor *const *in,
                              ts_tensor **out)
{
    ts_thread_ctx *thread = ts_thread();
    frame *outer = active;
    uint32_t mode = thread->mode;
    int depth = thread->backward_depth;
    ts_saved_hooks_scope scope;
    ts_saved_hooks_begin(&scope, hooks, f);
    active = f;
    f->running = true;
    thread->mode = (f->mode & ~(uint32_t)TS_MODE_KEEP) | (f->opt.num_keep ? TS_MODE_KEEP : 0);
    thread->backward_depth = 0;
    thread->error_status = TS_OK;
    ts_status status = f->fn(in, f->num_in, out, f->num_out, f->user);
    thread->backward_depth = depth;
    thread->mode = mode;
    f->running = false;
    active = outer;
    ts_saved_hooks_end(&scope);
    return ts_hook_worded(status, "the checkpointed function");
}

/* ---- again ----------------------------------------------------------------------------------- */

/* An operation fails with this instead of running, and all that depends on it is inert. */
static ts_status stop_here(frame *f)
{
    f->stopped = true;
    return ts_fail_again(TS_EABORTED, "checkpoint: backward has what it needs");
}

static ts_status pack_again(void **packed, ts_tensor *t, void *user)
{
    frame *f = user;
    *packed = NULL;
    if (f->stopped) return stop_here(f);
    int64_t i = f->replayed++;
    holder *h = i < f->holders.count ? f->holders.item[i] : NULL;
    if (!h || h->value) return TS_OK;
    h->value = ts_retain(t);
    return --f->missing == 0 && f->opt.early_stop ? stop_here(f) : TS_OK;
}

static ts_tensor *no_unpack(void *packed, void *user)
{
    (void)packed, (void)user;
    return ts_fail_tensor(TS_ESTATE, "checkpoint: the function differentiates what it computes; "
                                     "do that outside");
}

static const ts_saved_hooks again_hooks = {pack_again, no_unpack, NULL};

/* Stands for the history that an input had, so that the same tensors are saved. */
static ts_status no_backward(ts_node *node, ts_tensor *const *grad_out, ts_tensor **grad_in)
{
    (void)node, (void)grad_out, (void)grad_in;
    return TS_OK;
}
static const ts_node_class input_class = {no_backward, NULL};

static ts_status input_again(ts_tensor **out, const frame *f, int i)
{
    TS_TRY(ts_saved_get(out, &f->in[i], "checkpoint", (ts_edge){NULL, 0}));
    if (!*out || ((*out)->autograd && !f->needs[i])) return TS_OK;
    ts_tensor *alias = ts_autograd_alias(*out);
    if (!alias) return TS_ENOMEM;
    *out = ts_scope_give(alias);
    if (!f->needs[i]) return TS_OK;
    ts_node *node = ts_node_new(&input_class, "checkpoint input", sizeof *node, 1, 0);
    return node ? ts_autograd_give_node(alias, node, 0) : TS_ENOMEM;
}

static ts_status run_again_on(frame *f, ts_tensor **in, ts_tensor **out)
{
    for (int i = 0; i < f->num_in; i++) TS_TRY(input_again(&in[i], f, i));
    ts_generator_state random = ts_generator_get_state();
    if (f->opt.preserve_rng_state) ts_generator_set_state(f->random);
    f->again = true;
    ts_status status = run_function(f, &again_hooks, in, out);
    f->again = false;
    if (f->opt.preserve_rng_state) ts_generator_set_state(random);
    if (f->stopped) return TS_OK;
    for (int i = 0; i < f->num_out && status == TS_OK; i++)
        if (ts_failed(out[i])) status = ts_tensor_check(out[i], "checkpoint");
    return status;
}

/* The values that a pass did not ask for end with it. */
static ts_status end_of_pass(ts_status backward, void *user)
{
    (void)backward;
    frame *f = user;
    for (int64_t i = 0; i < f->holders.count; i++) {
        holder *h = f->holders.item[i];
        if (!h) continue;
        ts_release(h->value);
        h->value = NULL;
    }
    frame_release(f);
    return TS_OK;
}

static ts_status run_again(frame *f)
{
    ts_tensor *out[TS_CHECKPOINT_MAX_OUTPUTS] = {0};
    ts_tensor **in = ts_calloc((size_t)f->num_in + 1, sizeof *in);
    if (!in) return ts_fail_memory((size_t)f->num_in * sizeof *in, "a checkpoint");
    f->replayed = f->missing = f->kept_next = 0;
    f->stopped = false;
    for (int64_t i = 0; i < f->holders.count; i++) {
        const holder *h = f->holders.item[i];
        f->missing += h && !h->value;
    }
    f->refs++; /* handed to the end of the pass */
    ts_scope scope = ts_scope_begin();
    ts_status status = run_again_on(f, in, out);
    if (f->stopped)
        ts_scope_end(scope); /* the failures in it were made to stop */
    else
        ts_scope_end_keep(scope, NULL);
    free(in);
    if (ts_thread()->graph_task && status == TS_OK)
        status = ts_queue_backward_callback(end_of_pass, f);
    else
        frame_release(f);
    if (status != TS_OK || f->missing == 0) return status;
    return ts_fail(
        TS_ESTATE,
        "checkpoint: the function saved %lld tensors for backward at first and %lld when "
        "it ran again; it must do the same each time",
        (long long)f->holders.count, (long long)f->replayed);
}

/* ---- the first time -------------------------------------------------------------------------- */

static ts_status pack_first(void **packed, ts_tensor *t, void *user)
{
    (void)t;
    frame *f = user;
    holder *h = ts_small_new(sizeof *h);
    if (!h || !ts_vec_push(&f->holders, h)) {
        if (h) ts_small_free(h, sizeof *h);
        return ts_fail_memory(sizeof *h, "a checkpoint");
    }
    h->index = f->holders.count - 1;
    f->refs++;
    *packed = h;
    return TS_OK;
}

static ts_tensor *unpack_first(void *packed, void *user)
{
    frame *f = user;
    holder *h = packed;
    if (!h->value && f->running) return no_unpack(packed, user);
    ts_status status = h->value ? TS_OK : run_again(f);
    if (status != TS_OK) return ts_fail_tensor_last(status);
    ts_tensor *t = h->value;
    h->value = NULL;
    return ts_scope_give(t);
}

static void drop_first(void *packed, void *user)
{
    frame *f = user;
    holder *h = packed;
    f->holders.item[h->index] = NULL;
    ts_release(h->value);
    ts_small_free(h, sizeof *h);
    frame_release(f);
}

static const ts_saved_hooks first_hooks = {pack_first, unpack_first, drop_first};

static ts_status run_first(ts_checkpoint_fn fn, ts_tensor *const *in, int num_in, ts_tensor **out,
                           int num_out, void *user, const ts_checkpoint_options *opt)
{
    ts_thread()->error_status = TS_ENOMEM;
    frame *f = frame_new(in, num_in);
    if (!f) return ts_thread()->error_status;
    f->fn = fn;
    f->user = user;
    f->opt = *opt;
    f->num_out = num_out;
    f->mode = ts_thread()->mode;
    f->random = ts_generator_get_state();
    ts_status status = run_function(f, &first_hooks, in, out);
    for (int i = 0; i < num_out && status == TS_OK; i++)
        if (!out[i]) status = ts_fail(TS_EINVAL, "checkpoint: the function gave no output %d", i);
    frame_release(f);
    return status;
}

static ts_status check_call(ts_checkpoint_fn fn, ts_tensor *const *in, int num_in, int num_out,
                            const ts_checkpoint_options *opt)
{
    if (opt->struct_size == 0)
        return ts_fail(TS_EINVAL, "checkpoint: options must start from TS_CHECKPOINT_OPTIONS_INIT");
    if (!fn || num_in < 0 || (num_in > 0 && !in) || num_out < 1 ||
        num_out > TS_CHECKPOINT_MAX_OUTPUTS || opt->num_keep < 0 || (opt->num_keep && !opt->keep))
        return ts_fail(TS_EINVAL, "checkpoint: needs a function, its inputs and 1 to %d outputs",
                       TS_CHECKPOINT_MAX_OUTPUTS);
    for (int i = 0; i < num_in; i++)
        if (in[i]) TS_TRY(ts_tensor_check(in[i], "checkpoint: input"));
    return TS_OK;
}

ts_tensor *ts_checkpoint(ts_checkpoint_fn fn, ts_tensor *const *in, int num_in, ts_tensor **out,
                         int num_out, void *user, const ts_checkpoint_options *opt)
{
    static const ts_checkpoint_options standard = TS_CHECKPOINT_OPTIONS_INIT;
    ts_tensor *own[TS_CHECKPOINT_MAX_OUTPUTS] = {0};
    if (!opt) opt = &standard;
    ts_status status = check_call(fn, in, num_in, num_out, opt);
    if (status == TS_OK) status = run_first(fn, in, num_in, own, num_out, user, opt);
    ts_tensor *failed = status == TS_OK ? NULL : ts_fail_tensor_last(status);
    int count = num_out < TS_CHECKPOINT_MAX_OUTPUTS ? num_out : TS_CHECKPOINT_MAX_OUTPUTS;
    for (int i = 0; out && i < count; i++) out[i] = failed ? failed : own[i];
    return failed ? failed : own[0];
}

/* ---- outputs that are kept ------------------------------------------------------------------- */

static bool is_named(const frame *f, const char *op)
{
    for (int i = 0; i < f->opt.num_keep; i++)
        if (strcmp(f->opt.keep[i], op) == 0) return true;
    return false;
}

ts_status ts_checkpoint_take(bool *there, ts_tensor **out, int n, const char *op)
{
    frame *f = active;
    *there = f && f->again && is_named(f, op);
    for (int i = 0; *there && i < n; i++) {
        if (f->kept_next == f->num_kept || strcmp(f->kept[f->kept_next].op, op) != 0)
            return ts_fail(TS_ESTATE,
                           "checkpoint: %s ran in another place when the function ran "
                           "again; it must do the same each time",
                           op);
        ts_tensor *t;
        TS_TRY(ts_saved_get(&t, &f->kept[f->kept_next++].out, op, (ts_edge){NULL, 0}));
        out[i] = ts_autograd_alias(t);
        if (!out[i]) return TS_ENOMEM;
        ts_scope_give(out[i]);
    }
    return TS_OK;
}

ts_status ts_checkpoint_keep(ts_tensor *const *out, int n, const char *op)
{
    frame *f = active;
    if (!f || f->again || !is_named(f, op)) return TS_OK;
    for (int i = 0; i < n; i++) {
        if (f->num_kept == f->kept_capacity) {
            int64_t capacity = f->kept_capacity ? 2 * f->kept_capacity : 8;
            kept *grown = ts_grow(f->kept, (size_t)capacity, sizeof *grown);
            if (!grown) return ts_fail_memory((size_t)capacity * sizeof *grown, "a checkpoint");
            f->kept = grown;
            f->kept_capacity = capacity;
        }
        ts_saved_hooks_scope plain;
        kept *k = &f->kept[f->num_kept];
        *k = (kept){.op = op};
        ts_saved_hooks_begin(&plain, NULL, NULL);
        ts_status status = ts_saved_set(&k->out, out[i], true);
        ts_saved_hooks_end(&plain);
        TS_TRY(status);
        f->num_kept++;
    }
    return TS_OK;
}

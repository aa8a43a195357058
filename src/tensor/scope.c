/* SPDX-License-Identifier: Apache-2.0 */
/* A thread's scopes are marks in one stack of tensors: begin pushes a mark, a new tensor goes on
 * top, end lets go what lies above the mark. */
#include "tensor/scope_impl.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "tensor/allocator.h"

typedef struct mark {
    uint64_t id;
    int64_t start; /* index of the scope's first tensor */
} mark;

struct ts_scope_stack {
    ts_tensor **item;
    int64_t count, capacity;
    mark *mark;
    int64_t depth, max_depth;
    uint64_t next_id;
};

/* Ids differ between threads, so that a scope of another thread is noticed. */
static uint64_t first_id(void)
{
    static _Atomic uint64_t threads;
    return ((atomic_fetch_add(&threads, 1) + 1) << 40) + 1;
}

static ts_scope_stack *make_stack(ts_thread_ctx *thread)
{
    ts_scope_stack *stack = ts_calloc(1, sizeof *stack);
    if (!stack) return NULL;
    stack->next_id = first_id();
    return thread->scopes = stack;
}

static inline ts_scope_stack *own_stack(void)
{
    ts_thread_ctx *thread = ts_thread();
    return thread->scopes ? thread->scopes : make_stack(thread);
}

static bool grow_items(ts_scope_stack *stack)
{
    int64_t capacity = stack->capacity ? 2 * stack->capacity : 256;
    ts_tensor **grown = ts_grow(stack->item, (size_t)capacity, sizeof *grown);
    if (!grown) return false;
    stack->item = grown;
    stack->capacity = capacity;
    return true;
}

static bool grow_marks(ts_scope_stack *stack)
{
    int64_t depth = stack->max_depth ? 2 * stack->max_depth : 32;
    mark *grown = ts_grow(stack->mark, (size_t)depth, sizeof *grown);
    if (!grown) return false;
    stack->mark = grown;
    stack->max_depth = depth;
    return true;
}

ts_tensor *ts_scope_give(ts_tensor *t)
{
    if (!t) return NULL;
    ts_scope_stack *stack = own_stack();
    if (!stack || (stack->count == stack->capacity && !grow_items(stack))) {
        ts_release(t);
        ts_fail(TS_ENOMEM, "out of memory: no room in the scope for a tensor");
        return &ts_no_memory_value;
    }
    return stack->item[stack->count++] = t;
}

void ts_scope_forget(const ts_tensor *t)
{
    ts_scope_stack *stack = ts_thread()->scopes;
    for (int64_t i = 0; stack && i < stack->count; i++)
        if (stack->item[i] == t) stack->item[i] = NULL;
}

/* Id 0: out of memory; ending it says so. */
ts_scope ts_scope_begin(void)
{
    ts_scope_stack *stack = own_stack();
    if (!stack || (stack->depth == stack->max_depth && !grow_marks(stack))) return (ts_scope){0};
    ts_scope scope = {stack->next_id++};
    stack->mark[stack->depth++] = (mark){scope.id, stack->count};
    return scope;
}

/* ---- ending ---------------------------------------------------------------------------------- */

/* Index of the scope's mark; -1: not open here. */
static int64_t find(const ts_scope_stack *stack, ts_scope scope)
{
    for (int64_t i = stack ? stack->depth - 1 : -1; i >= 0; i--)
        if (stack->mark[i].id == scope.id) return i;
    return -1;
}

/* Lets go the tensors above start, newest first; what their release makes goes too.  Returns the
 * oldest failure that nobody has reported, with a reference, or NULL. */
static ts_tensor *drop(ts_scope_stack *stack, int64_t start)
{
    ts_tensor *unseen = NULL;
    while (stack->count > start) {
        ts_tensor *t = stack->item[--stack->count];
        if (!t) continue;
        if (t->status != TS_OK && !atomic_load_explicit(&t->reported, memory_order_relaxed)) {
            ts_release(unseen);
            unseen = t;
        } else {
            ts_release(t);
        }
    }
    return unseen;
}

static ts_status end_unknown(ts_scope scope)
{
    if (scope.id == 0) return ts_fail(TS_ENOMEM, "scope_end: out of memory when the scope began");
    return ts_fail(TS_EINVAL, "scope_end: this scope is not open on the calling thread; it has "
                              "ended already or belongs to another thread");
}

ts_status ts_scope_end(ts_scope scope)
{
    ts_scope_stack *stack = ts_thread()->scopes;
    int64_t at = find(stack, scope);
    if (at < 0) return end_unknown(scope);
    int64_t start = stack->mark[at].start;
    ts_tensor *unseen = drop(stack, start);
    stack->depth = at;
    if (!unseen) return TS_OK;
    ts_status status = ts_tensor_check(unseen, "value");
    ts_release(unseen);
    return status;
}

/* An unseen failure moves to the scope around, so that it is reported there. */
ts_tensor *ts_scope_end_keep(ts_scope scope, ts_tensor *keep)
{
    ts_scope_stack *stack = ts_thread()->scopes;
    int64_t at = find(stack, scope);
    if (at < 0) {
        end_unknown(scope);
        return keep;
    }
    int64_t start = stack->mark[at].start;
    if (keep && stack->count > start && stack->item[stack->count - 1] == keep)
        stack->count--;
    else
        ts_retain(keep);
    ts_tensor *unseen = drop(stack, start);
    stack->depth = at;
    if (unseen == keep)
        ts_release(unseen);
    else
        ts_scope_give(unseen);
    return ts_scope_give(keep);
}

static void warn_unseen(ts_tensor *unseen)
{
    if (!unseen) return;
    TS_LOG(TS_LOG_TENSOR, TS_LEVEL_WARNING,
           "a thread ended with a failed value that nobody looked at: %s", ts_tensor_error(unseen));
    ts_release(unseen);
}

static void thread_ends(ts_thread_ctx *thread)
{
    ts_scope_stack *stack = thread->scopes;
    if (stack) {
        warn_unseen(drop(stack, 0));
        free(stack->item);
        free(stack->mark);
        free(stack);
        thread->scopes = NULL;
    }
    ts_heap_thread_ends();
}

__attribute__((constructor)) static void install(void) { ts_thread_exit_hook = thread_ends; }

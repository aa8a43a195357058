/* SPDX-License-Identifier: Apache-2.0 */
/* Failed values: inert tensors that keep their first cause. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "tensor/scope_impl.h"

static char no_memory_text[] = "out of memory, even for the description of this failure";
ts_tensor ts_no_memory_value = {
    .refs = 1, .keys = TS_KEY_FAILED, .status = TS_ENOMEM, .error = no_memory_text};

ts_tensor *ts_fail_tensor_last(ts_status status)
{
    ts_tensor *t = ts_small_new(sizeof *t);
    if (!t) return ts_scope_give(&ts_no_memory_value);
    t->error = ts_strdup(ts_error_last());
    if (!t->error) {
        ts_small_free(t, sizeof *t);
        return ts_scope_give(&ts_no_memory_value);
    }
    atomic_init(&t->refs, 1);
    t->keys = TS_KEY_FAILED;
    t->status = status;
    return ts_scope_give(t);
}

ts_tensor *ts_fail_tensor(ts_status status, const char *format, ...)
{
    char text[TS_ERROR_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return ts_fail_tensor_last(ts_fail(status, "%s", text));
}

/* The shared value cannot carry the mark of one thread: it leaves the thread's scopes instead. */
static void mark_reported(ts_tensor *t)
{
    if (t == &ts_no_memory_value)
        ts_scope_forget(t);
    else
        atomic_store_explicit(&t->reported, true, memory_order_relaxed);
}

ts_status ts_tensor_check(const ts_tensor *t, const char *what)
{
    if (!t) return ts_fail(TS_EINVAL, "%s is missing (NULL)", what);
    if (t->status == TS_OK) return TS_OK;
    mark_reported((ts_tensor *)t);
    return ts_fail_again(t->status, t->error);
}

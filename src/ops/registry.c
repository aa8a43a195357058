/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that programs make. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/memory.h"
#include "ops/dispatch.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ts_map registered; /* name -> row */

static ts_status check_row(const ts_op_def *def)
{
    if (!def || !def->name || !*def->name)
        return ts_fail(TS_EINVAL, "operation: the row has no name");
    if (def->num_out < 1 || def->num_out > TS_OP_MAX_OUTPUTS)
        return ts_fail(TS_EINVAL, "%s: the row has %d outputs; 1 to %d are possible", def->name,
                       def->num_out, TS_OP_MAX_OUTPUTS);
    if (!def->infer) return ts_fail(TS_EINVAL, "%s: the row has no infer function", def->name);
    if (def->flags & TS_OP_VIEW)
        return ts_fail(TS_EUNSUPPORTED, "%s: views are made of the library's view operations",
                       def->name);
    if ((def->flags & TS_OP_INPLACE) && def->num_out != 1)
        return ts_fail(TS_EINVAL, "%s: in place means one output, input 0", def->name);
    return TS_OK;
}

ts_status ts_op_check(const ts_op_call *call)
{
    TS_TRY(check_row(call->def));
    if (call->num_in < 1 || !call->in)
        return ts_fail(TS_EINVAL, "%s: inputs are missing", call->def->name);
    if (call->num_attrs < 0 || call->num_attrs > TS_OP_MAX_ATTRS)
        return ts_fail(TS_EINVAL, "%s: %d attributes; %d are possible", call->def->name,
                       call->num_attrs, TS_OP_MAX_ATTRS);
    return TS_OK;
}

ts_status ts_op_register(const ts_op_def *def)
{
    TS_TRY(check_row(def));
    pthread_mutex_lock(&lock);
    ts_status status = TS_OK;
    const ts_op_def *former = ts_map_get(&registered, def->name);
    if (former && former != def)
        status = ts_fail(TS_EINVAL, "%s: another operation is registered by this name", def->name);
    else if (!former && !ts_map_set(&registered, def->name, (void *)(uintptr_t)def))
        status = ts_fail_memory(sizeof *def, "an operation's name");
    pthread_mutex_unlock(&lock);
    return status;
}

const ts_op_def *ts_op_find(const char *name)
{
    pthread_mutex_lock(&lock);
    const ts_op_def *def = name ? ts_map_get(&registered, name) : NULL;
    pthread_mutex_unlock(&lock);
    return def;
}

ts_status ts_op_fail(ts_status status, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return ts_fail(status, "%s", text);
}

ts_spec ts_spec_of(const ts_tensor *t)
{
    return t && !ts_failed(t) ? ts_tensor_spec(t) : (ts_spec){.shape = ts_shape_scalar()};
}

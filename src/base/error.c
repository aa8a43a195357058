/* SPDX-License-Identifier: Apache-2.0 */
/* Where errors are made. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/settings.h"

static const struct {
    ts_status parent;
    const char *name, *text;
} statuses[] = {
#define X(name, number, parent, text) [number] = {TS_##parent, "TS_" #name, text},
    TS_STATUSES(X)
#undef X
};
#define NUM_STATUSES ((int)(sizeof statuses / sizeof *statuses))

static int known(ts_status status) { return (int)status >= 0 && (int)status < NUM_STATUSES; }

const char *ts_status_name(ts_status status)
{
    return known(status) ? statuses[status].name : "TS_?";
}
const char *ts_status_text(ts_status status)
{
    return known(status) ? statuses[status].text : "unknown status";
}

int ts_status_is(ts_status status, ts_status klass)
{
    while (known(status)) {
        if (status == klass) return 1;
        if (statuses[status].parent == status) return 0;
        status = statuses[status].parent;
    }
    return 0;
}

const char *ts_error_last(void)
{
    ts_thread_ctx *thread = ts_thread();
    return thread->error_status == TS_OK ? "no error" : thread->error;
}

static void maybe_abort(ts_thread_ctx *thread)
{
    if (!ts_setting_bool(TS_SETTING_ABORT_ON_ERROR)) return;
    fprintf(stderr, "tessera: TESSERA_ABORT_ON_ERROR: %s\n", thread->error);
    abort();
}

ts_status ts_fail(ts_status status, const char *format, ...)
{
    ts_thread_ctx *thread = ts_thread();
    char text[TS_ERROR_MAX]; /* the arguments may point into thread->error */
    int used = 0;
    if (thread->where_length > 0) used = snprintf(text, sizeof text, "%s: ", thread->where);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, sizeof text - (size_t)used, format, args);
    va_end(args);
    memcpy(thread->error, text, sizeof text);
    thread->error_status = status;
    maybe_abort(thread);
    return status;
}

ts_status ts_fail_again(ts_status status, const char *text)
{
    ts_thread_ctx *thread = ts_thread();
    if (text != thread->error) snprintf(thread->error, TS_ERROR_MAX, "%s", text);
    thread->error_status = status;
    return status;
}

ts_status ts_fail_memory(size_t bytes, const char *what)
{
    return ts_fail(TS_ENOMEM, "out of memory: %zu bytes for %s", bytes, what);
}

_Noreturn void ts_assert_failed(const char *condition, const char *file, int line)
{
    fprintf(stderr, "tessera: internal error: %s does not hold (%s:%d)\n", condition, file, line);
    abort();
}

void ts_must_at(ts_status status, const char *expr, const char *file, int line)
{
    if (status == TS_OK) return;
    char rank[24] = ""; /* stays empty until the rank is known */
    if (ts_rank_current()->rank >= 0)
        snprintf(rank, sizeof rank, "[rank%d] ", ts_rank_current()->rank);
    char text[TS_ERROR_MAX + 512], *state = NULL;
    snprintf(text, sizeof text, "%s:%d: %s: %s (%s)", file, line, expr, ts_error_last(),
             ts_status_name(status));
    for (char *at = strtok_r(text, "\n", &state); at; at = strtok_r(NULL, "\n", &state))
        fprintf(stderr, "%s%s\n", rank, at);
    exit(1);
}

int ts_where_push(const char *name)
{
    ts_thread_ctx *thread = ts_thread();
    int mark = thread->where_length;
    if (!name || !*name) return mark;
    int dot = mark > 0, room = TS_WHERE_MAX - 1 - mark - dot;
    size_t length = strlen(name);
    if (room <= 0) return mark;
    if (length > (size_t)room) length = (size_t)room;
    char *to = thread->where + mark;
    if (dot) *to++ = '.';
    memcpy(to, name, length);
    to[length] = '\0';
    thread->where_length = mark + dot + (int)length;
    return mark;
}

void ts_where_pop(int mark)
{
    ts_thread_ctx *thread = ts_thread();
    thread->where_length = mark;
    thread->where[mark] = '\0';
}

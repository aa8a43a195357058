/* SPDX-License-Identifier: Apache-2.0 */
/* The one place that creates errors.
 *
 * Whoever detects an error words it with ts_fail and returns its status; everyone above passes the
 * status on with TS_TRY and adds nothing.  The text says what, where and what to do; ts_fail puts
 * the module path (see ts_where_push) in front. */
#ifndef TS_BASE_ERROR_H
#define TS_BASE_ERROR_H

#include <stdint.h>
#include <tessera/status.h>

/* Records the text for ts_error_last and returns status.  With TESSERA_ABORT_ON_ERROR=1 it aborts
 * here, for a backtrace.  Needs no memory. */
ts_status ts_fail(ts_status status, const char *format, ...) TS_PRINTF(2, 3);

/* Makes an error met earlier or elsewhere (kept text, another thread, a peer) the last one of this
 * thread, unchanged. */
ts_status ts_fail_again(ts_status status, const char *text);

/* TS_ENOMEM with the number of bytes and what they were for. */
ts_status ts_fail_memory(size_t bytes, const char *what);

/* "s" for all numbers but 1: "%lld element%s". */
static inline const char *ts_plural(int64_t n) { return n == 1 ? "" : "s"; }

/* Returns from the calling function if e is not TS_OK. */
#define TS_TRY(e)                                                                                  \
    do {                                                                                           \
        ts_status ts_try_status_ = (e);                                                            \
        if (ts_try_status_ != TS_OK) return ts_try_status_;                                        \
    } while (0)

/* For broken internal invariants only, never for what a user or a peer did. */
#define TS_ASSERT(condition)                                                                       \
    ((condition) ? (void)0 : ts_assert_failed(#condition, __FILE__, __LINE__))
_Noreturn void ts_assert_failed(const char *condition, const char *file, int line);

/* Path of the module whose forward runs now ("gpt.h.0.attn"), kept per thread and put in front of
 * error texts.  push returns a mark for pop. */
int ts_where_push(const char *name);
void ts_where_pop(int mark);

#endif

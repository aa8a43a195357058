/* SPDX-License-Identifier: Apache-2.0 */
/* Works and futures: what an asynchronous operation leaves behind. */
#ifndef TESSERA_WORK_H
#define TESSERA_WORK_H

#include <tessera/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- works -----------------------------------------------------------------------------------
 *
 * A work keeps its tensors alive.  Any thread may ask; freeing is for the owner. */

typedef struct ts_work ts_work;

/* Blocks until done; timeout_ms 0: the group's limit.  Returns the operation's status; again and
 * again the same.  A wait that ends by its own limit is TS_ETIMEOUT; the operation goes on. */
TS_API ts_status ts_work_wait(ts_work *work, int64_t timeout_ms);
TS_API bool ts_work_is_completed(const ts_work *work);
TS_API bool ts_work_is_success(const ts_work *work);
/* The operation's status with its text in ts_error_last; TS_ESTATE while it is under way. */
TS_API ts_status ts_work_status(const ts_work *work);
/* The tensors with the result, which the work owns: *out has *n of them.  TS_ESTATE before the
 * operation is done, its own status if it failed. */
TS_API ts_status ts_work_result(const ts_work *work, ts_tensor *const **out, int *n);
TS_API int ts_work_source_rank(const ts_work *work);     /* of a completed receive; -1 otherwise */
TS_API const char *ts_work_name(const ts_work *work);    /* "all_reduce", "recv" */
TS_API uint64_t ts_work_sequence(const ts_work *work);   /* among the group's collectives; 0: p2p */
TS_API int64_t ts_work_duration_ns(const ts_work *work); /* -1 until it is done */
/* Cancels a message in flight: the work ends with TS_EABORTED and its buffer is free.  TS_EUNSUPPORTED
 * for collectives: other ranks take part in those; see ts_abort_process_group. */
TS_API ts_status ts_work_abort(ts_work *work);
TS_API void ts_work_free(ts_work *work); /* lets go; an operation in flight goes on */

/* ---- futures ---------------------------------------------------------------------------------
 *
 * A future ends once, with a list of tensors or an error.  Callbacks run once, on the thread that
 * ends it, or at once if it has ended; they must not block: a wait there for a collective that can
 * only run after it is TS_ESTATE.  Handles are counted: every function that returns one gives a
 * reference, ts_future_free lets go of it. */

typedef struct ts_future ts_future;
/* done has ended.  What the callback does not set in next is taken from done.  next is NULL for
 * ts_future_on_done. */
typedef void (*ts_future_fn)(ts_future *done, ts_future *next, void *user);

TS_API ts_status ts_future_new(ts_future **out);
/* Ends with the result of the work.  TS_EUNSUPPORTED for messages. */
TS_API ts_status ts_work_future(ts_future **out, ts_work *work);
/* References of its own are taken.  TS_ESTATE if it has ended. */
TS_API ts_status ts_future_set(ts_future *future, ts_tensor *const *value, int n);
TS_API ts_status ts_future_set_error(ts_future *future, ts_status status, const char *text);
TS_API ts_status ts_future_then(ts_future **next, ts_future *future, ts_future_fn fn, void *user);
TS_API ts_status ts_future_on_done(ts_future *future, ts_future_fn fn, void *user);
/* Ends when all have: with the first error, or with the values one after the other. */
TS_API ts_status ts_future_all(ts_future **out, ts_future *const *futures, int n);
TS_API bool ts_future_is_done(const ts_future *future);
/* timeout_ms 0: no limit but that of the operation behind it. */
TS_API ts_status ts_future_wait(ts_future *future, int64_t timeout_ms);
/* The value, which the future owns; its error; TS_ESTATE before it has ended. */
TS_API ts_status ts_future_value(const ts_future *future, ts_tensor *const **out, int *n);
TS_API void ts_future_free(ts_future *future);

#ifdef __cplusplus
}
#endif
#endif

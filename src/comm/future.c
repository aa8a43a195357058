/* SPDX-License-Identifier: Apache-2.0 */
/* Futures: a result that comes later, and what is to be done then. */
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "comm/group_impl.h"

typedef struct callback {
    struct callback *next;
    ts_future_fn fn;
    void *user;
    ts_future *result; /* of ts_future_then, or NULL */
} callback;

struct ts_future {
    _Atomic int64_t refs;
    ts_flag done;
    pthread_mutex_t lock; /* guards first, last and the raising of done */
    callback *first, **last;
    /* Fixed when done is raised. */
    ts_status status;
    char *error;
    ts_tensor **value;
    int n;
};

/* ---- life ------------------------------------------------------------------------------------ */

ts_status ts_future_new(ts_future **out)
{
    if (!out) return ts_fail(TS_EINVAL, "future_new: the output is missing (NULL)");
    ts_future *future = ts_small_new(sizeof *future);
    if (!future) return ts_fail_memory(sizeof *future, "a future");
    atomic_init(&future->refs, 1);
    pthread_mutex_init(&future->lock, NULL);
    future->last = &future->first;
    *out = future;
    return TS_OK;
}

void ts_future_retain(ts_future *future) { ts_ref_retain(&future->refs); }

static bool is_done(const ts_future *future) { return ts_flag_raised(&future->done); }

void ts_future_free(ts_future *future)
{
    if (!future || !ts_ref_release(&future->refs)) return;
    if (!is_done(future)) {
        /* Nobody is left who could end it. */
        atomic_store(&future->refs, 1);
        ts_future_set_error(future, TS_EABORTED, "the future was let go before it ended");
        ts_future_free(future);
        return;
    }
    for (int i = 0; i < future->n; i++) ts_release(future->value[i]);
    free(future->value);
    free(future->error);
    pthread_mutex_destroy(&future->lock);
    ts_small_free(future, sizeof *future);
}

/* ---- ending ---------------------------------------------------------------------------------- */

static const char *error_of(const ts_future *future)
{
    return future->error ? future->error : ts_status_text(future->status);
}

/* next ends as done has, unless the callback has ended it. */
static void pass_on(ts_future *next, const ts_future *done)
{
    if (is_done(next)) return;
    if (done->status == TS_OK)
        ts_future_set(next, done->value, done->n);
    else
        ts_future_set_error(next, done->status, error_of(done));
}

static void run(callback *c, ts_future *done)
{
    c->fn(done, c->result, c->user);
    if (c->result) pass_on(c->result, done);
    ts_future_free(c->result);
    free(c);
}

/* The value's references are taken over, if the future has not ended. */
static ts_status end(ts_future *future, ts_status status, char *error, ts_tensor **value, int n)
{
    pthread_mutex_lock(&future->lock);
    if (is_done(future)) {
        pthread_mutex_unlock(&future->lock);
        return ts_fail(TS_ESTATE, "future_set: the future has ended already");
    }
    future->status = status;
    future->error = error;
    future->value = value;
    future->n = n;
    callback *first = future->first;
    future->first = NULL;
    ts_flag_raise(&future->done);
    pthread_mutex_unlock(&future->lock);
    ts_future_retain(future);
    while (first) {
        callback *c = first;
        first = c->next;
        run(c, future);
    }
    ts_future_free(future);
    return TS_OK;
}

static void release_all(ts_tensor **value, int n)
{
    for (int i = 0; i < n; i++) ts_release(value[i]);
    free(value);
}

ts_status ts_future_set(ts_future *future, ts_tensor *const *value, int n)
{
    if (!future || n < 0 || (n > 0 && !value))
        return ts_fail(TS_EINVAL, "future_set: future or value is missing (NULL)");
    ts_tensor **own = n > 0 ? ts_calloc((size_t)n, sizeof *own) : NULL;
    if (n > 0 && !own)
        return ts_future_set_error(future, TS_ENOMEM, "out of memory for the value of a future");
    for (int i = 0; i < n; i++) own[i] = ts_retain(value[i]);
    ts_status status = end(future, TS_OK, NULL, own, n);
    if (status != TS_OK) release_all(own, n);
    return status;
}

ts_status ts_future_set_error(ts_future *future, ts_status status, const char *text)
{
    if (!future) return ts_fail(TS_EINVAL, "future_set_error: future is missing (NULL)");
    if (status == TS_OK) return ts_fail(TS_EINVAL, "future_set_error: TS_OK is no error");
    char *error = text ? ts_strdup(text) : NULL;
    ts_status ended = end(future, status, error, NULL, 0);
    if (ended != TS_OK) free(error);
    return ended;
}

/* ---- callbacks ------------------------------------------------------------------------------- */

static ts_status add(ts_future *future, ts_future_fn fn, void *user, ts_future *result)
{
    callback *c = ts_calloc(1, sizeof *c);
    if (!c) return ts_fail_memory(sizeof *c, "a callback");
    *c = (callback){.fn = fn, .user = user, .result = result};
    pthread_mutex_lock(&future->lock);
    bool done = is_done(future);
    if (!done) {
        *future->last = c;
        future->last = &c->next;
    }
    pthread_mutex_unlock(&future->lock);
    if (done) run(c, future);
    return TS_OK;
}

ts_status ts_future_on_done(ts_future *future, ts_future_fn fn, void *user)
{
    if (!future || !fn)
        return ts_fail(TS_EINVAL, "future_on_done: future or callback is missing (NULL)");
    return add(future, fn, user, NULL);
}

ts_status ts_future_then(ts_future **next, ts_future *future, ts_future_fn fn, void *user)
{
    ts_future *result;
    if (!next || !future || !fn)
        return ts_fail(TS_EINVAL, "future_then: an argument is missing (NULL)");
    TS_TRY(ts_future_new(&result));
    ts_future_retain(result);
    ts_status status = add(future, fn, user, result);
    if (status != TS_OK) ts_future_free(result);
    if (status == TS_OK)
        *next = result;
    else
        ts_future_free(result);
    return status;
}

/* ---- several --------------------------------------------------------------------------------- */

typedef struct all {
    ts_future *out;
    _Atomic int left;
    int n;
    ts_future *future[];
} all;

static ts_status join(ts_future *out, ts_future *const *futures, int n)
{
    int count = 0, at = 0;
    for (int i = 0; i < n; i++) {
        if (futures[i]->status != TS_OK)
            return ts_future_set_error(out, futures[i]->status, error_of(futures[i]));
        count += futures[i]->n;
    }
    ts_tensor **value = ts_calloc((size_t)count + 1, sizeof *value);
    if (!value) return ts_future_set_error(out, TS_ENOMEM, "out of memory for joined futures");
    for (int i = 0; i < n; i++)
        for (int k = 0; k < futures[i]->n; k++) value[at++] = futures[i]->value[k];
    ts_status status = ts_future_set(out, value, count);
    free(value);
    return status;
}

static void one_done(ts_future *done, ts_future *next, void *user)
{
    all *a = user;
    (void)done, (void)next;
    if (atomic_fetch_sub(&a->left, 1) > 1) return;
    join(a->out, a->future, a->n);
    for (int i = 0; i < a->n; i++) ts_future_free(a->future[i]);
    ts_future_free(a->out);
    free(a);
}

ts_status ts_future_all(ts_future **out, ts_future *const *futures, int n)
{
    if (!out || n < 0 || (n > 0 && !futures))
        return ts_fail(TS_EINVAL, "future_all: an argument is missing (NULL)");
    for (int i = 0; i < n; i++)
        if (!futures[i]) return ts_fail(TS_EINVAL, "future_all: future %d is missing (NULL)", i);
    ts_future *joined;
    all *a = ts_calloc(1, sizeof *a + (size_t)n * sizeof *a->future);
    if (!a) return ts_fail_memory(sizeof *a, "joined futures");
    ts_status status = ts_future_new(&joined);
    if (status != TS_OK) {
        free(a);
        return status;
    }
    ts_future_retain(joined);
    a->out = joined;
    a->n = n;
    atomic_init(&a->left, n + 1);
    for (int i = 0; i < n; i++) {
        a->future[i] = futures[i];
        ts_future_retain(futures[i]);
    }
    /* A callback that cannot be added counts as one that has run: the error is in its place. */
    for (int i = 0; i < n; i++) {
        status = ts_future_on_done(futures[i], one_done, a);
        if (status == TS_OK) continue;
        ts_future_set_error(joined, status, ts_error_last());
        one_done(NULL, NULL, a);
    }
    one_done(NULL, NULL, a);
    *out = joined;
    return TS_OK;
}

/* ---- asking ---------------------------------------------------------------------------------- */

bool ts_future_is_done(const ts_future *future) { return future && is_done(future); }

static ts_status status_of(const ts_future *future)
{
    return future->status == TS_OK ? TS_OK : ts_fail_again(future->status, error_of(future));
}

ts_status ts_future_wait(ts_future *future, int64_t timeout_ms)
{
    if (!future) return ts_fail(TS_EINVAL, "future_wait: future is missing (NULL)");
    if (timeout_ms < 0) return ts_fail(TS_EINVAL, "future_wait: the limit is negative");
    if (!ts_flag_wait(&future->done, ts_deadline_in(timeout_ms)))
        return ts_fail(TS_ETIMEOUT, "future_wait: not done after %lld ms", (long long)timeout_ms);
    return status_of(future);
}

ts_status ts_future_value(const ts_future *future, ts_tensor *const **out, int *n)
{
    if (!future || !out || !n)
        return ts_fail(TS_EINVAL, "future_value: an argument is missing (NULL)");
    if (!is_done(future)) return ts_fail(TS_ESTATE, "future_value: it has not ended; wait for it");
    TS_TRY(status_of(future));
    *out = future->value;
    *n = future->n;
    return TS_OK;
}

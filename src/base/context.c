/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks, and the threads that belong to them. */
#include "base/context.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/settings.h"

_Thread_local ts_thread_ctx *ts_thread_current;
static _Thread_local ts_thread_ctx this_thread;

void (*ts_thread_exit_hook)(ts_thread_ctx *thread);

/* The rank that threads start in.  Lives as long as the process. */
static ts_rank_ctx process_rank = {
    .refs = 1, .lock = PTHREAD_MUTEX_INITIALIZER, .rank = -1, .size = -1};

static char spare_texts[TS_WHERE_MAX + TS_ERROR_MAX];

static pthread_key_t exit_key;
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;

static void thread_ends(void *value)
{
    ts_thread_ctx *thread = value;
    if (ts_thread_exit_hook) ts_thread_exit_hook(thread);
    ts_rank_ctx_release(thread->rank);
    if (thread->where != spare_texts) free(thread->where);
    *thread = (ts_thread_ctx){0};
    ts_thread_current = NULL;
}

static void make_exit_key(void) { pthread_key_create(&exit_key, thread_ends); }

ts_thread_ctx *ts_thread_attach(void)
{
    ts_thread_ctx *thread = &this_thread;
    ts_rank_ctx_retain(&process_rank);
    thread->rank = &process_rank;
    thread->where = calloc(1, sizeof spare_texts);
    if (!thread->where) thread->where = spare_texts;
    thread->error = thread->where + TS_WHERE_MAX;
    ts_thread_current = thread;
    if (ts_setting_bool(TS_SETTING_DETECT_ANOMALY))
        thread->mode |= TS_MODE_ANOMALY | TS_MODE_CHECK_NAN;
    pthread_once(&exit_once, make_exit_key);
    pthread_setspecific(exit_key, thread);
    return thread;
}

ts_rank_ctx *ts_rank_ctx_new(void)
{
    ts_rank_ctx *rank = ts_calloc(1, sizeof *rank);
    if (!rank) return NULL;
    rank->refs = 1;
    rank->rank = rank->size = -1;
    pthread_mutex_init(&rank->lock, NULL);
    return rank;
}

ts_rank_ctx *ts_rank_ctx_of_process(void) { return &process_rank; }

void ts_rank_ctx_retain(ts_rank_ctx *rank) { ts_ref_retain(&rank->refs); }

void ts_rank_ctx_release(ts_rank_ctx *rank)
{
    if (!ts_ref_release(&rank->refs)) return;
    for (int i = TS_NUM_SLOTS - 1; i >= 0; i--) {
        void *value = rank->slot[i];
        if (value && rank->slot_free[i]) rank->slot_free[i](value);
    }
    pthread_mutex_destroy(&rank->lock);
    free(rank);
}

void ts_thread_set_rank(ts_rank_ctx *rank)
{
    ts_thread_ctx *thread = ts_thread();
    ts_rank_ctx *former = thread->rank;
    ts_rank_ctx_retain(rank);
    thread->rank = rank;
    ts_rank_ctx_release(former);
}

void *ts_rank_slot_get(ts_rank_ctx *rank, ts_rank_slot slot, void *(*create)(ts_rank_ctx *rank),
                       void (*destroy)(void *value))
{
    void *value = atomic_load_explicit(&rank->slot[slot], memory_order_acquire);
    if (value) return value;
    pthread_mutex_lock(&rank->lock);
    value = rank->slot[slot];
    if (!value && (value = create(rank))) {
        rank->slot_free[slot] = destroy;
        atomic_store_explicit(&rank->slot[slot], value, memory_order_release);
    }
    pthread_mutex_unlock(&rank->lock);
    return value;
}

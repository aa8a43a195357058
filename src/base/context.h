/* SPDX-License-Identifier: Apache-2.0 */
/* State that hangs on a thread and on a rank.
 *
 * There is no mutable global state besides registries.  A thread belongs to a rank; the library's
 * own threads inherit the rank of the thread that started them.  A process has an implicit rank
 * that every thread starts in; ts_rank_enter gives a thread a rank of its own, so several ranks can
 * be threads of one process. */
#ifndef TS_BASE_CONTEXT_H
#define TS_BASE_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>
#include <tessera/status.h>

/* What higher layers keep per rank.  The layer sets the pointer and the function that frees it;
 * slots are freed in reverse order when the rank ends. */
typedef enum ts_rank_slot {
    TS_SLOT_LEDGER,    /* tensor: bytes by category */
    TS_SLOT_POOL,      /* tensor: pooled heap */
    TS_SLOT_SHARED,    /* tensor: shared rank heap */
    TS_SLOT_GENERATOR, /* tensor: default random generator */
    TS_SLOT_RECORDER,  /* comm: flight recorder */
    TS_SLOT_COMM,      /* comm: default group, group table */
    TS_NUM_SLOTS
} ts_rank_slot;

typedef struct ts_rank_ctx {
    _Atomic int64_t refs;
    pthread_mutex_t lock; /* guards slot creation */
    _Atomic int rank;     /* -1 until the default group exists; messages of any thread show it */
    _Atomic int size;
    void *_Atomic slot[TS_NUM_SLOTS];
    void (*slot_free[TS_NUM_SLOTS])(void *);
} ts_rank_ctx;

/* Bits of ts_thread_ctx.mode, read by the dispatcher. */
enum {
    TS_MODE_NO_GRAD = 1 << 0,  /* set: operations are not recorded */
    TS_MODE_AUTOCAST = 1 << 1, /* reserved for the casting layer */
    TS_MODE_CAPTURE = 1 << 2,  /* reserved for graph recording */
    TS_MODE_PROFILE = 1 << 3,  /* reserved for the profiler */
    TS_MODE_KEEP = 1 << 4,     /* a checkpoint keeps outputs of some operations */
    TS_MODE_LAYERS = TS_MODE_AUTOCAST | TS_MODE_CAPTURE | TS_MODE_PROFILE | TS_MODE_KEEP,
    TS_MODE_INFERENCE = 1 << 5, /* with TS_MODE_NO_GRAD: new storages are for inference only */
    TS_MODE_ANOMALY = 1 << 6,   /* nodes remember where they were made */
    TS_MODE_CHECK_NAN = 1 << 7  /* with TS_MODE_ANOMALY: gradients must be finite */
};

#define TS_ERROR_MAX 2048
#define TS_WHERE_MAX 256

typedef struct ts_thread_ctx {
    ts_rank_ctx *rank;
    struct ts_scope_stack *scopes; /* open scopes and what they own; tensor layer */
    uint32_t mode;                 /* TS_MODE_ bits */
    int backward_depth;            /* > 0 inside the autograd engine */
    void *graph_task;              /* autograd: the backward pass that runs on this thread */
    int where_length;
    ts_status error_status;
    uint64_t recorder,
        record_next;       /* comm: whose numbers of records this thread gives, and the last */
    const void *called_at; /* where it did */
    const char *called;  /* the function that the program called, where it calls others; or NULL */
    const char *host_id; /* instead of TESSERA_HOST_ID, for ranks as threads; NULL: not set */
    char *where;         /* TS_WHERE_MAX bytes */
    char *error;         /* TS_ERROR_MAX bytes */
} ts_thread_ctx;

extern _Thread_local ts_thread_ctx *ts_thread_current;
ts_thread_ctx *ts_thread_attach(void);

/* The calling thread's state; made at the first call.  Never NULL: it lies in the thread's static
 * storage, of which the library takes little, so that it can be loaded into a running program.
 * Texts are on the heap; threads that get no memory for them share a spare one. */
static inline ts_thread_ctx *ts_thread(void)
{
    ts_thread_ctx *thread = ts_thread_current;
    return thread ? thread : ts_thread_attach();
}

/* Called when a thread that used the library ends, before its rank is let go; the tensor layer
 * installs it to end the thread's scopes. */
extern void (*ts_thread_exit_hook)(ts_thread_ctx *thread);

static inline ts_rank_ctx *ts_rank_current(void) { return ts_thread()->rank; }

ts_rank_ctx *ts_rank_ctx_new(void);        /* NULL: out of memory */
ts_rank_ctx *ts_rank_ctx_of_process(void); /* the implicit rank; no reference is taken */
void ts_rank_ctx_retain(ts_rank_ctx *rank);
void ts_rank_ctx_release(ts_rank_ctx *rank); /* the last one frees the slots */

/* Makes the calling thread part of rank and lets its former rank go. */
void ts_thread_set_rank(ts_rank_ctx *rank);

/* Value of a slot, made by create(rank) at the first use.  NULL if create gave NULL. */
void *ts_rank_slot_get(ts_rank_ctx *rank, ts_rank_slot slot, void *(*create)(ts_rank_ctx *rank),
                       void (*destroy)(void *value));

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of groups, calls and works. */
#ifndef TS_COMM_GROUP_IMPL_H
#define TS_COMM_GROUP_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <tessera/debug.h>
#include <tessera/ext/backend.h>

#include "base/context.h"
#include "base/error.h"
#include "comm/futex.h"
#include "comm/names.h"
#include "comm/recorder.h"
#include "tensor/tensor.h"

/* ---- calls: a collective on its way ---------------------------------------------------------- */

/* Parts, by rank: as one tensor or one by one.  The arrays are the caller's, or a work's own. */
typedef struct ts_side {
    ts_tensor *whole;
    const int64_t *splits;  /* how whole is cut along dimension 0; NULL: equal blocks */
    ts_tensor *const *list; /* instead of whole */
} ts_side;

/* Several calls of one kind as one. */
typedef struct ts_bunch {
    int n;                    /* 0: an ordinary call */
    ts_tensor *const *tensor; /* what each of them has as tensor */
    ts_tensor *const *parts;  /* parts of each: one tensor, or rank r's at r * n + k; or NULL */
    bool whole;               /* the former */
} ts_bunch;
static inline int64_t ts_bunch_parts(const ts_bunch *bunch, int size)
{
    return bunch->whole ? bunch->n : (int64_t)bunch->n * size;
}

/* The tensors that a call names.  In a work each holds a reference. */
typedef struct ts_call {
    ts_coll coll;            /* complex numbers are pairs of reals there: twice the count */
    ts_tensor *tensor;       /* as ts_coll.tensor */
    ts_side parts, received; /* as ts_coll.parts and received */
    ts_bunch bunch;          /* instead of these */
    bool complex;            /* some tensor is */
    bool scaled;             /* TS_PREMUL_SUM: */
    double factor;           /*   inputs are multiplied by it */
    char *cause;             /* owned text of coll.cause, or NULL */
    uint64_t record;         /* in the flight recorder; 0: none */
    uint64_t sequence;       /* as it was issued */
    int64_t began_ns;        /* where somebody listens */

    /* Instead of one operation of the backend: several, one after the other, in the place of this
     * call.  extra is what they need beside the tensors, owned by the call. */
    ts_status (*run)(struct ts_group *group, struct ts_call *call, bool background);
    void *extra;
    void (*extra_free)(void *extra);
} ts_call;

static inline bool ts_is_complex(unsigned dtype)
{
    return dtype == TS_COMPLEX64 || dtype == TS_COMPLEX128;
}
/* Elements as backends count them. */
static inline int64_t ts_real_count(const ts_tensor *t)
{
    return ts_is_complex(t->dtype) ? 2 * t->numel : t->numel;
}

/* What is noted of a message until it is over. */
typedef struct ts_noted {
    uint64_t record; /* as ts_call.record */
    uint64_t number; /* among the group's messages */
    int64_t began_ns;
    const char *name;
    const ts_tensor *tensor;
    int peer, tag; /* as in ts_p2p */
    bool sending;
} ts_noted;

typedef struct ts_alone ts_alone; /* messages of a group of one */

/* ---- groups ---------------------------------------------------------------------------------- */

struct ts_group {
    _Atomic int64_t refs;
    int rank, size;
    int *ranks; /* global ranks of the members, ascending; NULL: the same */
    char *name, *description;
    char *device;    /* or NULL */
    char config[48]; /* "cpu:native" */
    ts_store *users; /* for keys of the program; NULL: not asked for yet */
    ts_group *next;  /* of those of this rank */
    int shrunk;      /* how often it was tried, as for made */
    uint64_t made;   /* groups that were made of this one; only who makes groups touches it */
    uint64_t asked;  /* how often, the failures included; as for made */
    const ts_backend_ops *ops;
    void *state;     /* the backend's; NULL for a group of one */
    ts_store *store; /* what the group was built over; NULL for a group of one */
    _Atomic int64_t timeout_ms;
    _Atomic uint64_t issued;

    /* Collectives run one at a time, in the order of issue.  active counts those issued and not
     * done, plus TS_INLINE while a caller runs one itself. */
    _Atomic int64_t active;
    uint64_t sequence; /* of the last one that started; only its runner touches it */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    ts_work *first, *last; /* waiting for the group's thread */
    bool has_thread;
    _Atomic bool closing;
    bool detached;  /* it lives beside the default group, not in it */
    unsigned forks; /* when it was made */
    pthread_t thread;
    _Atomic(struct ts_coalescing *) coalescing; /* NULL, or where calls are noted */
    _Atomic uint64_t monitored;                 /* monitored barriers so far */
    _Atomic uint64_t messages;                  /* of users, so far */
    ts_alone *alone;                            /* a group of one: messages to oneself */
    ts_recorder *recorder;                      /* NULL: off */
    ts_recorder_group *recorded;
    _Atomic(ts_operation_hook) hook; /* of completions, or NULL */
    _Atomic(void *) hook_user;
    bool checks_nan;
    _Atomic int breakpoints; /* that were called */
};

enum { TS_INLINE = 1 << 30 };

/* NULL: the default group of the calling thread's rank; TS_ESTATE when there is none,
 * TS_ENOTMEMBER. */
ts_status ts_group_find(ts_group **out, ts_group *group, const char *what);
/* TS_ESTATE for a group that is destroyed, or whose links and threads stayed with the parent of this
 * process. */
ts_status ts_group_check(ts_group *group, const char *what);
/* Over store, whose reference is taken; NULL store: a group of one. Collective. */
ts_status ts_group_new(ts_group **out, const char *name, const ts_backend_ops *ops, int rank,
                       int size, ts_store *store, int64_t timeout_ms,
                       const struct ts_backend_options *options);
/* When its members are set: from now on the flight recorder notes what it does. */
void ts_group_begin_record(ts_group *group, const char *desc);
/* Two halves of the same.  Nothing is started; group_free ends one that was not. */
ts_status ts_group_allocate(ts_group **out, const char *name, const ts_backend_ops *ops, int rank,
                            int size, ts_store *store, int64_t timeout_ms);
ts_status ts_group_start_backend(ts_group *group, const struct ts_backend_options *options);
void ts_group_free_unstarted(ts_group *group);
void ts_group_retain(ts_group *group);
void ts_group_release(ts_group *group);
/* Drains what is issued, ends thread and backend.  The structure lives on while works name it. */
void ts_group_close(ts_group *group);

/* Rank within the group of what a caller names: a global rank or TS_GROUP_RANK(r).  -1: no member.
 */
int ts_group_local(const ts_group *group, int rank);
int ts_group_global(const ts_group *group, int rank);

/* ---- groups of a rank (init.c) --------------------------------------------------------------- */

/* Between these two no other thread of the rank makes or destroys groups. */
ts_status ts_groups_begin(const char *what);
void ts_groups_end(void);
/* Between them: */
bool ts_groups_has(const char *name);
void ts_groups_add(ts_group *group);
void ts_groups_count(int n); /* so many were made */
void ts_groups_close(ts_group *group);
/* All others that are not detached end. */
void ts_groups_replace_default(ts_group *group);
/* Where those that opt names meet; a store that this rank serves already is used again. */
struct ts_place;
ts_status ts_groups_rendezvous(struct ts_place *out, const ts_init_options *opt,
                               int64_t timeout_ms);
/* How often it was called with this number before. */
int64_t ts_groups_again(uint64_t hash);

/* Every rank of parent calls it: gives all of them what each says, or the status of one. */
typedef struct ts_parcel {
    const void *own;
    void *all; /* by rank */
    size_t bytes;
    const void *site; /* TS_CALL_SITE */
} ts_parcel;
ts_status ts_group_exchange(ts_group *parent, const char *what, ts_parcel *parcel, ts_status status,
                            const char *cause);

/* ---- issuing (issue.c) ----------------------------------------------------------------------- */

typedef struct ts_issue {
    ts_group *group;
    ts_call *call; /* &own, or the work's */
    ts_work **out; /* where an asynchronous call's work goes; NULL: synchronous */
    ts_work *work;
    ts_call own;
} ts_issue;

/* What messages call the function of the interface that this stands in: without "ts_". */
#define TS_CALLED (__func__ + 3)
/* Where one function of the interface calls others on this thread, messages name the outer one:
 * from begin, which gives what to hand to end, to end. */
const char *ts_called_begin(const char *name, const void *site);
void ts_called_end(const char *before);
const char *ts_called(const char *name); /* the outer one, or name */
const void *ts_called_at(const void *site);

/* Where the function that this stands in was called. */
#define TS_CALL_SITE __builtin_return_address(0)

/* Finds the group and readies issue->call; on failure nothing is left to undo.  name: TS_CALLED,
 * site: TS_CALL_SITE. */
ts_status ts_issue_begin(ts_issue *issue, ts_group *group, ts_collective op, const char *name,
                         const void *site, ts_work **work);
/* Runs the call, or hands it to the group's thread.  A call whose arguments were found bad still
 * takes its place in the order. */
ts_status ts_issue_end(ts_issue *issue);
/* This is the group's own thread, which runs what is issued: as in the callbacks of futures. */
bool ts_group_served_here(const ts_group *group);
void ts_call_fini(ts_call *call); /* frees the cause and what is extra */
/* The group's thread: runs what is queued until the group closes. */
void ts_group_main(void *group);

/* Argument checks (check.c); each records the first failure in the call and does nothing after
 * one. */
typedef enum ts_use { TS_USE_READ, TS_USE_WRITE } ts_use;
void ts_call_fail(ts_call *call, ts_status status, const char *format, ...) TS_PRINTF(3, 4);
void ts_call_fail_last(ts_call *call, ts_status status); /* the thread's last error is the cause */
/* The first tensor says what all are. */
void ts_call_adopt(ts_call *call, ts_dtype dtype, ts_shape shape);
bool ts_call_usable(ts_call *call, ts_tensor *t, ts_use use, const char *what);
/* The root comes first, for the use of tensors may depend on it. */
void ts_call_root(ts_call *call, const ts_group *group, int root);
void ts_call_tensor(ts_call *call, ts_tensor *tensor, ts_use use);
/* Another one of the same dtype; false: no good. */
bool ts_call_part(ts_call *call, ts_tensor *part, ts_use use, const char *what);
/* size times the elements of the tensor, which comes before. */
void ts_call_whole(ts_issue *issue, ts_tensor *whole, ts_use use);
/* Cut along dimension 0 by splits (NULL: equally). */
void ts_call_split(ts_issue *issue, ts_side *side, ts_tensor *whole, const int64_t *splits,
                   ts_use use);
/* One per rank; this rank's agrees with the tensor, if there is one. */
void ts_call_list(ts_issue *issue, ts_side *side, ts_tensor *const *list, int n, ts_use use);
/* No list, where only the root has one. */
void ts_call_no_list(ts_call *call, ts_tensor *const *list, int n);
/* apart.c: refuses outputs that share memory with what they must not. */
void ts_call_apart(ts_call *call, const ts_group *group);
/* After all tensors. */
void ts_call_reduce(ts_call *call, ts_reduce_op op);
void ts_call_premul(ts_call *call, double factor);
/* TS_OK if t's elements can be read, or written. */
ts_status ts_tensor_usable(const ts_tensor *t, ts_use use, const char *op, const char *what);

/* Packs, runs on the backend, unpacks (run.c). */
ts_status ts_call_run(ts_group *group, ts_call *call, bool background);
/* Runs one operation of the backend on buffers, as the group's next one. */
ts_status ts_coll_run(ts_group *group, ts_coll *coll);

/* nan_check.c: the call fails if an input holds NaN, where that is asked for. */
void ts_call_check_nan(const ts_group *group, ts_call *call);
ts_status ts_tensor_check_nan(const ts_group *group, ts_tensor *tensor, const char *op);

/* ---- the flight recorder (record.c) ---------------------------------------------------------- */

/* Notes a collective that was issued with this number; started: it runs at once. */
void ts_call_record(ts_group *group, ts_call *call, uint64_t sequence, bool started);
void ts_call_started(ts_group *group, ts_call *call, int64_t now_ns);
/* It is over; ended_ns 0: not measured.  Returns status. */
ts_status ts_call_recorded(ts_group *group, const ts_call *call, ts_status status,
                           int64_t ended_ns);
/* A message of users. */
void ts_message_record(ts_noted *noted, ts_group *group, const ts_p2p *p2p, const ts_tensor *tensor,
                       const char *name, const void *site);
ts_status ts_message_recorded(ts_group *group, const ts_noted *noted, ts_status status);

/* ---- coalescing (coalesce.c) ----------------------------------------------------------------- */

/* Notes a call instead of running it. */
ts_status ts_coalescing_note(ts_issue *issue);
void ts_coalescing_free(ts_group *group); /* an open scope, if there is one */

/* ---- messages (p2p.c, alone.c) --------------------------------------------------------------- */

/* Negative tags belong to the library. */
enum { TS_TAG_ARRIVED = -1, TS_TAG_RELEASED = -2 };

/* As in ts_backend_ops. */
ts_status ts_group_start(ts_group *group, void **request, const ts_p2p *message);
ts_status ts_group_wait(ts_group *group, void *request, int64_t timeout_ms, int *peer);
void ts_group_let_go(ts_group *group, void *request);

/* A group of one. */
ts_status ts_alone_new(ts_alone **out);
/* Ends what is still in flight. */
void ts_alone_close(ts_alone *alone);
void ts_alone_free(ts_alone *alone);
ts_status ts_alone_start(ts_alone *alone, void **request, const ts_p2p *message);
ts_status ts_alone_wait(ts_alone *alone, void *request, int64_t timeout_ms);
void ts_alone_let_go(ts_alone *alone, void *request);

/* ---- works ----------------------------------------------------------------------------------- */

struct ts_work {
    _Atomic int64_t refs;
    ts_flag done;
    ts_status status;
    char *error;
    ts_group *group;
    ts_work *next;
    ts_call call;
    _Atomic(void *) request; /* of a message */
    ts_tensor *packed;       /* contiguous copy of a message's strided tensor, or NULL */
    ts_noted noted;          /* of a message */
    int source;              /* of a completed receive, else -1 */
    atomic_bool helped;      /* a thread that waits moves its bytes */
    bool message;            /* point-to-point */
    bool receiving;
    int peer; /* of a message, in the group; negative: any */
    uint64_t sequence;
    int64_t began_ns, ended_ns;  /* 0: not yet */
    _Atomic(ts_future *) future; /* ends with it, or NULL */
};

ts_work *ts_work_new(ts_group *group); /* one reference; NULL: out of memory */
void ts_work_retain(ts_work *work);
/* Sets the result, wakes the waiters and ends the future.  error NULL: none. */
void ts_work_finish(ts_work *work, ts_status status, const char *error);
/* p2p.c: ends a message in flight with TS_EABORTED. */
void ts_message_cancel(ts_work *work);

void ts_future_retain(ts_future *future);

/* pack.c: a contiguous tensor for data on its way, in shared memory if there is room.  NULL after
 * ts_fail. */
ts_tensor *ts_pack_room(const ts_spec *spec);

#endif

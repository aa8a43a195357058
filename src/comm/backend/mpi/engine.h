/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the MPI plug-in.  Compiled once against each MPI; sees nothing of the library but
 * ext/backend.h.
 *
 * Every MPI call is made with the process lock held, so MPI_THREAD_SERIALIZED is enough, and every
 * call that could wait for a peer is a non-blocking one followed by tests, so that waits have a
 * limit and see an abort.  A request that was given up cannot be taken back; when it reads or writes
 * memory of the program, no MPI call is made any more in this process ("dead"). */
#ifndef TS_COMM_MPI_ENGINE_H
#define TS_COMM_MPI_ENGINE_H

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <tessera/ext/backend.h>

#define TRY(e)                                                                                     \
    do {                                                                                           \
        ts_status try_status_ = (e);                                                               \
        if (try_status_ != TS_OK) return try_status_;                                              \
    } while (0)

typedef struct group group;

/* ---- the process (process.c) ----------------------------------------------------------------- */

typedef struct process {
    const ts_host_api *host;
    pthread_mutex_t lock; /* around every MPI call */
    bool ready;           /* MPI is initialised and usable */
    bool ours;            /* we initialised it, and so finalise it at exit */
    bool dead, finalized;
    pid_t pid;
    int64_t most_tag;
    int64_t limit;       /* bytes of one MPI operation; longer ones are cut */
    int spins;           /* tests before a wait yields */
    MPI_Datatype header; /* of the agreement */
    MPI_Op agree;
    group *groups;
} process;
extern process mpi;

/* Initialises MPI unless it is. */
ts_status process_start(void);
/* Locks for MPI calls; false, unlocked, when none may be made any more. */
bool process_enter(void);
void process_leave(void);
/* TS_ENETWORK with MPI's own words. */
ts_status process_error(int code, const char *what);

/* ---- groups ---------------------------------------------------------------------------------- */

/* What a rank tells the others outside the order of operations. */
typedef enum ring { RING_ARRIVED, RING_ABORT, RING_LEFT } ring;
typedef struct bell {
    int32_t kind, rank, status, reserved;
    uint64_t sequence; /* ARRIVED: of the operation it waits in; LEFT: of its last one */
    char text[488];
} bell;
_Static_assert(sizeof(bell) == 512, "a bell is short enough to be sent at once");

/* One line that an all-reduce carries through all ranks: contract check, and a small payload. */
enum { INLINE_BYTES = 24 };
typedef struct header {
    uint64_t digest, pairs;
    int64_t least, most; /* elements of the parts */
    uint8_t differs, bad, dtype, reduce;
    int32_t inlined; /* elements of the payload */
    unsigned char payload[INLINE_BYTES];
} header;
_Static_assert(sizeof(header) == 64, "a header is one cache line");

typedef struct message message;
typedef struct sent_bells sent_bells;

/* On the heap by itself: what is still in flight when a group is given up keeps it. */
struct group {
    group *next; /* of the process */
    int rank, size;
    char *name;
    int64_t timeout_ms;
    int *world;        /* global ranks of the members, for messages; NULL: the same */
    MPI_Group members; /* of a group of some ranks, until it has joined; else MPI_GROUP_NULL */
    MPI_Comm collective, user, library; /* library: messages with negative tags */
    header mine, agreed;

    bell heard; /* where the next bell goes */
    MPI_Request hearing;
    sent_bells *bells;
    uint64_t *arrived; /* by rank: the operation that it last said to wait in */
    uint64_t *left_at; /* by rank: its last operation, plus 1; 0: it is there */
    uint64_t told;     /* the operation for which this rank said that it has arrived */
    uint64_t last;     /* the last operation that this rank took part in */
    int64_t ended_ns;  /* of it */
    bool has_all;      /* all ranks have arrived in the operation that runs */
    bool stuck;        /* something in flight was given up; the group is never freed */
    bool user_memory;  /* what is in flight now touches memory of the program */

    char *scratch;
    size_t scratch_bytes;

    atomic_bool broken;
    pthread_mutex_t state_lock; /* guards what follows */
    ts_status status;
    char *text;
    int64_t broken_ns;

    /* Messages with a callback, under the process lock; their thread. */
    message *messages;
    pthread_mutex_t delivering; /* recursive; held while callbacks run */
    pthread_cond_t wake;        /* with the process lock */
    pthread_t thread;
    bool has_thread, closing;
};

/* Life (group.c). */
ts_status group_open(group **out, const ts_backend_context *context);
/* A group of some ranks of parent, in two steps: join is called when all members have split. */
ts_status group_split(group **out, const ts_backend_context *context, const group *parent,
                      const int *ranks);
ts_status group_join(group *g);
int group_global(const group *g, int rank);
void group_close(group *g);
/* Ranks leave together if they can; who comes early tells those who may still count on it. */
bool group_goodbye(group *g);
/* Breaks the group with the thread's last error, and tells the others; returns status. */
ts_status group_give_up(group *g, ts_status status);
void group_break(group *g, ts_status status, const char *text);
/* TS_OK, or why the group is broken. */
ts_status group_health(group *g, const ts_coll *coll);
/* Words an error of an operation (coll NULL: of a message, or of the group). */
ts_status group_fail(group *g, const ts_coll *coll, ts_status status, const char *format, ...)
    TS_PRINTF(4, 5);
/* Room that lasts until the next call; NULL after fail. */
char *group_scratch(group *g, size_t bytes);

/* Bells (bells.c), with the process lock held. */
void bells_listen(group *g);
void bells_ring(group *g, const bell *b);
void bells_poll(group *g);
void bells_end(group *g);

/* ---- waiting (wait.c) ------------------------------------------------------------------------ */

typedef struct pause {
    int tests;
    int64_t started_ns, deadline_ns;
} pause_state;

/* After a test that found nothing done: yields, listens, looks at the clock.  Not TS_OK: the wait is
 * over. */
ts_status wait_pause(group *g, pause_state *p, const ts_coll *coll, int64_t timeout_ms);
/* Tests until all requests are done.  On failure the group is broken. */
ts_status wait_all(group *g, const ts_coll *coll, MPI_Request *requests, int n);

/* Issues one MPI call and waits: GO(g, coll, MPI_Ibarrier(comm, &request)). */
#define GO(g, coll, call)                                                                          \
    do {                                                                                           \
        MPI_Request request = MPI_REQUEST_NULL;                                                    \
        if (!process_enter()) return group_health(g, coll);                                        \
        int code_ = call;                                                                          \
        process_leave();                                                                           \
        if (code_ != MPI_SUCCESS) return group_give_up(g, process_error(code_, #call));            \
        TRY(wait_all(g, coll, &request, 1));                                                       \
    } while (0)

/* ---- collectives ----------------------------------------------------------------------------- */

/* Announces the operation with an inline payload in g->mine, and waits for all ranks; the verdict is
 * the same on all.  *go: it is TS_OK and nobody's arguments are bad.  (agree.c) */
ts_status agree_on(group *g, const ts_coll *coll, bool *go);
void agree_make_op(void);
void agree_free_op(void);

/* Reduces count elements to root (-1: to all), where out gets the result; out may be in. (reduce.c) */
ts_status reduce_block(group *g, const ts_coll *coll, const void *in, void *out, int64_t count,
                       int root);
/* The dtype that sums are made in, and what becomes of a sum: divided, rounded, in its place. */
ts_dtype reduce_dtype(ts_dtype dtype);
MPI_Datatype reduce_type(ts_dtype dtype); /* MPI_DATATYPE_NULL: not reduced as such */
MPI_Op reduce_op_for(ts_dtype dtype, ts_reduce_op op);
void reduce_make_ops(void);
void reduce_free_ops(void);
void reduce_finish(const group *g, const ts_coll *coll, void *out, void *sum, int64_t count);

/* Messages of one collective, in any number (exchange.c). */
typedef struct exchange {
    group *g;
    const ts_coll *coll;
    MPI_Request *request;
    int count, room;
    ts_status status;
} exchange;
exchange exchange_begin(group *g, const ts_coll *coll);
void exchange_send(exchange *x, int peer, const void *data, size_t bytes);
void exchange_recv(exchange *x, int peer, void *data, size_t bytes);
ts_status exchange_end(exchange *x);

ts_status mpi_barrier(void *self, const ts_coll *coll);
ts_status mpi_all_reduce(void *self, const ts_coll *coll);
ts_status mpi_reduce(void *self, const ts_coll *coll);
ts_status mpi_reduce_scatter(void *self, const ts_coll *coll);
ts_status mpi_broadcast(void *self, const ts_coll *coll);
ts_status mpi_all_gather(void *self, const ts_coll *coll);
ts_status mpi_gather(void *self, const ts_coll *coll);
ts_status mpi_scatter(void *self, const ts_coll *coll);
ts_status mpi_all_to_all(void *self, const ts_coll *coll);

/* ---- messages of users (messages.c) ---------------------------------------------------------- */

ts_status mpi_start(void **request, void *self, const ts_p2p *p2p);
ts_status mpi_message_wait(void *self, void *request, int64_t timeout_ms, int *peer);
void mpi_release(void *self, void *request);
/* Ends all that are under way. */
void messages_close(group *g);

/* The state that the library keeps. */
typedef struct handle {
    group *g;
} handle;
static inline group *group_of(void *self) { return ((handle *)self)->g; }

#endif

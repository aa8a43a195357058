/* SPDX-License-Identifier: Apache-2.0 */
/* What a communication backend provides, and what it may use.
 *
 * A backend is one const table.  The group checks arguments, packs strided tensors, keeps the order
 * of issue and runs the collectives of a group one after the other; a backend sees contiguous
 * buffers and blocks until the operation is done.  Members of a table that are NULL give
 * TS_EUNSUPPORTED naming the operation and the backend.
 *
 * A program brings its own with ts_register_backend; examples/05_own_backend.c is one.  A plug-in is
 * a shared object that links nothing of ours: see ts_backend_entry. */
#ifndef TESSERA_EXT_BACKEND_H
#define TESSERA_EXT_BACKEND_H

#include <pthread.h>
#include <tessera/collectives.h>
#include <tessera/p2p.h>
#include <tessera/store.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ts_collective {
    TS_COLL_BARRIER = 0,
    TS_COLL_ALL_REDUCE = 1,
    TS_COLL_BROADCAST = 2,
    TS_COLL_ALL_GATHER = 3,
    TS_COLL_REDUCE_SCATTER = 4,
    TS_COLL_REDUCE = 5,
    TS_COLL_GATHER = 6,
    TS_COLL_SCATTER = 7,
    TS_COLL_ALL_TO_ALL = 8
} ts_collective;
#define TS_NUM_COLLECTIVES 9

/* Contiguous elements, never complex: those come as pairs of reals.  shared_offset: where data lies
 * in this rank's shared heap; -1 elsewhere. */
typedef struct ts_buffer {
    void *data;
    int64_t count;
    int64_t shared_offset;
} ts_buffer;

/* One collective as one rank calls it.  Which buffers are what:
 *
 *                    tensor                      parts, by rank         received, by rank
 *   all_reduce       in and out
 *   reduce           in; out on the root
 *   broadcast        out; in on the root
 *   all_gather       in                          out
 *   reduce_scatter   out                         in
 *   gather           in                          out on the root
 *   scatter          out                         in on the root
 *   all_to_all                                   in                     out
 *
 * Inputs are read only.  reduce is never TS_PREMUL_SUM: the group scales, then asks for a sum. */
typedef struct ts_coll {
    ts_collective op;
    ts_dtype dtype;
    ts_reduce_op reduce;
    int root;
    uint64_t sequence;  /* 1 for the group's first collective, the same on every rank */
    int64_t timeout_ms; /* 0: no limit */
    ts_buffer tensor;
    const ts_buffer *parts, *received; /* NULL where the table has none */
    ts_shape shape;                    /* of the caller's tensor, for messages */
    ts_status status;  /* not TS_OK: this rank's arguments are no good (tensor and parts are */
    const char *cause; /*   empty then); it only tells the others why, and returns TS_OK */
    bool background;   /* runs on the group's thread while the caller goes on computing */
    const char *name;  /* of the function that was called, for messages: "all_to_all_single" */
    const void *site;  /* where the program called it; NULL: not known */
    const int *global; /* global ranks of the members, for messages; NULL: the same */
} ts_coll;

/* A message between two ranks. */
typedef struct ts_p2p {
    bool sending;
    int peer; /* TS_ANY_SOURCE: any (receiving only); also the rank itself */
    int tag; /* of users >= 0; the library has some from -16 on, which users' receives never match */
    void *data;
    size_t bytes;
    int64_t shared_offset; /* as in ts_buffer */
    /* Runs once when the message is done, perhaps inside start, on any thread; must not block. */
    void (*done)(void *user, ts_status status, const char *error, int peer);
    void *user;
} ts_p2p;

/* What a program passes to the backend in ts_init_options; the first member of a backend's own
 * structure. */
struct ts_backend_options {
    const char *backend; /* whose options these are; another one refuses them */
};

typedef struct ts_backend_context {
    const char *group_name;
    int rank, size;
    ts_store *store; /* of this group alone; NULL if the table has place */
    int64_t timeout_ms;
    const struct ts_backend_options *options; /* or NULL; valid until init returns */
} ts_backend_context;

/* What a member says to the others while a group is split off. */
typedef struct ts_split_record {
    uint64_t word[4];
} ts_split_record;

#define TS_BACKEND_VERSION 5

typedef struct ts_backend_ops {
    uint32_t version;      /* TS_BACKEND_VERSION */
    const char *name;      /* in small letters */
    unsigned capabilities; /* of ts_capability */
    size_t state_size;     /* zeroed memory, given to each function as self */

    /* Optional, for a backend that needs no store because it knows the ranks itself, or has none.
     * Given what the program or its environment says (-1: nothing), sets what holds. */
    ts_status (*place)(int *rank, int *size);

    /* Collective.  On failure fini is called too. */
    ts_status (*init)(void *self, const ts_backend_context *context);
    /* Optional, with TS_CAN_SPLIT: instead of init, a group of some ranks of parent, which is of the
     * same backend and stays until this one has gone or join has returned.  split gets ready without
     * waiting for anybody and sets *own; join is called when all members have split, and knows what
     * they have set, by rank.  ranks: the members in parent.  On failure fini is called too. */
    ts_status (*split)(void *self, const ts_backend_context *context, void *parent,
                       const int *ranks, ts_split_record *own);
    ts_status (*join)(void *self, const ts_split_record *all);

    /* No operation runs any more. Lets peers finish what they still read from this rank. */
    void (*fini)(void *self);
    /* Ends what runs and all that comes later with status and text, and tells the peers.  Any
     * thread, any number of times; only the first counts. */
    void (*abort)(void *self, ts_status status, const char *text);

    /* Has an operation ended in a way that leaves ranks out of step? */
    bool (*is_broken)(void *self);

    /* Block until done; one at a time, in the same order on all ranks. */
    ts_status (*collective[TS_NUM_COLLECTIVES])(void *self, const ts_coll *coll);

    /* Starts a message and returns at once; *request is for wait or release.  On failure done does
     * not run. */
    ts_status (*start)(void **request, void *self, const ts_p2p *message);
    /* Blocks until the message is done, and releases it; *peer: who sent it. */
    ts_status (*wait)(void *self, void *request, int64_t timeout_ms, int *peer);
    /* Lets go of a message; one in flight is cancelled, its done will not run afterwards. */
    void (*release)(void *self, void *request);
    /* Optional: the calling thread helps until the message is done: true, or the time is over:
     * false.  timeout_ms 0: no limit; -1: it only looks.  done has run when this returns true. */
    bool (*help)(void *self, void *request, int64_t timeout_ms);
} ts_backend_ops;

/* Makes a backend known to ts_init_process_group and ts_is_backend_available, for the rest of the
 * process.  devices: the types of device whose tensors it takes, "cpu" or "cpu,cuda"; one that has
 * no default backend yet gets this one.  NULL: cpu and cuda, with a warning.  TS_EINVAL for a name
 * that is taken or a table of another version. */
TS_API ts_status ts_register_backend(const ts_backend_ops *ops, const char *devices);

/* ---- what a backend may use ------------------------------------------------------------------ */

/* What a rank says about its call: bytes that can be sent as they are. */
typedef struct ts_statement {
    uint64_t word[64];
} ts_statement;

#define TS_HOST_API_VERSION 1

/* Functions of the library for backends.  New members come at the end. */
typedef struct ts_host_api {
    uint32_t version; /* TS_HOST_API_VERSION */
    uint32_t backend_version;

    /* Whoever detects an error words it with fail and returns its status; whoever passes one on
     * adds nothing.  fail_again: a text met earlier or elsewhere, unchanged. */
    ts_status (*fail)(ts_status status, const char *format, ...) TS_PRINTF(2, 3);
    ts_status (*fail_again)(ts_status status, const char *text);
    const char *(*error_last)(void);
    void (*warn)(const char *format, ...) TS_PRINTF(1, 2); /* to the log, under "comm" */
    void (*inform)(const char *format, ...) TS_PRINTF(1, 2);
    int64_t (*now_ns)(void); /* monotonic */
    /* A number among the settings that `tessera info --settings` lists; -1: not one of them. */
    int64_t (*setting)(const char *variable);

    const char *(*collective_name)(ts_collective op);
    const char *(*dtype_name)(ts_dtype dtype);
    const char *(*reduce_name)(ts_reduce_op op);
    size_t (*dtype_size)(ts_dtype dtype);

    /* to[i] = from[0][i] op ... op from[n - 1][i]; to may be one of the sources. */
    void (*combine)(void *to, const void *const *from, int n, int64_t count, ts_dtype dtype,
                    ts_reduce_op op);
    /* Divides every element by n as TS_AVG does. */
    void (*divide)(void *data, int64_t count, ts_dtype dtype, int n);
    void (*convert)(void *to, ts_dtype to_dtype, const void *from, ts_dtype from_dtype,
                    int64_t count);

    /* The contract check.  All ranks exchange their statements by the backend's own means, and judge
     * gives the same verdict on all of them: TS_OK, TS_EMISMATCH or, where another rank's arguments
     * were bad, TS_EREMOTE (TS_OK on that one itself; bad says if there is one).
     *
     * Those who can only reduce: the calls agree if the digests are all equal, no status is bad, and
     * the sum of the pairs is 0.  A statement costs about a millisecond, for it names the line of the
     * call: take it only when digests differ, if you are in a hurry. */
    void (*state)(ts_statement *out, const ts_coll *coll, int rank, int size);
    ts_status (*judge)(const ts_statement *all, const ts_coll *coll, int rank, int size,
                       const char *group_name, bool *bad);
    uint64_t (*digest)(const ts_coll *coll, int rank, int size, uint64_t *pairs);

    /* A thread that belongs to the calling thread's rank; pthread_join ends it. */
    ts_status (*thread_start)(pthread_t *out, const char *name, void (*run)(void *arg), void *arg);

    ts_status (*store_set)(ts_store *store, const char *key, const void *value, size_t size);
    ts_status (*store_get)(ts_store *store, const char *key, void **value, size_t *size);
    ts_status (*store_add)(ts_store *store, const char *key, int64_t n, int64_t *total);
    ts_status (*store_wait)(ts_store *store, const char *const *keys, int n, int64_t timeout_ms);
    ts_status (*store_check)(ts_store *store, const char *const *keys, int n, bool *all_exist);
    ts_status (*store_delete_key)(ts_store *store, const char *key, bool *existed);
    ts_store *(*store_retain)(ts_store *store);
    void (*store_free)(ts_store *store);
} ts_host_api;

/* For backends that are part of the program. */
TS_API const ts_host_api *ts_host(void);

/* What a plug-in exports under this name.  Called once, when its backend is first asked for.  It
 * must look at host->version before anything else, and may return NULL after host->fail. */
typedef const ts_backend_ops *ts_backend_entry_fn(const ts_host_api *host);
#define TS_BACKEND_ENTRY "ts_backend_entry"

#ifdef __cplusplus
}
#endif
#endif

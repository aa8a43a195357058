/* SPDX-License-Identifier: Apache-2.0 */
/* Process groups, collectives and point-to-point.
 *
 * A group is the members, a store and a backend.  Where a function takes a group, NULL is the
 * default group of the calling thread's rank.  Collectives must be called by all members in the
 * same order.  With work NULL a call is synchronous: it returns when the result is there.
 * Otherwise it returns at once, *work is yours, and the tensors (which the work keeps alive) must
 * not be touched before ts_work_wait.
 *
 * Errors reach every rank concerned: TS_EMISMATCH when members disagree (both sides and the rank
 * sets are named), TS_EREMOTE when a member failed or entered with a failed tensor, TS_ENETWORK
 * when a peer is gone, TS_ETIMEOUT naming who has not arrived, TS_EABORTED.  After TS_EMISMATCH and
 * after a failed tensor the group stays usable; after the others it is broken until it is
 * destroyed.  Strided tensors are packed and unpacked; memory outside the view is not touched. */
#ifndef TESSERA_GROUP_H
#define TESSERA_GROUP_H

#include <tessera/store.h>
#include <tessera/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ts_group ts_group;
typedef struct ts_work ts_work;

/* ---- initialisation -------------------------------------------------------------------------- */

typedef struct ts_init_options {
    size_t struct_size;
    const char *backend; /* NULL: "native"; "gloo" is another name of it */
    /* NULL: "env://"; or "tcp://host:port" or "file:///path", with ?rank=R&world_size=N behind it
     * unless the fields below are set */
    const char *init_method;
    int64_t timeout_ms; /* 0: unset (TESSERA_TIMEOUT) */
    int world_size;     /* -1: from the init method */
    int rank;           /* -1: from the init method */
    ts_store *store; /* instead of init_method; needs rank and world_size; a reference is taken */
} ts_init_options;
#define TS_INIT_OPTIONS_INIT                                                                       \
    {                                                                                              \
        sizeof(ts_init_options), NULL, NULL, 0, -1, -1, NULL                                       \
    }

/* Makes the default group of the calling thread's rank.  Collective: blocks until all members have
 * joined.  env:// reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT (set by tessera run and
 * torchrun).  opt NULL: env://. */
TS_API ts_status ts_init_process_group(const ts_init_options *opt);
TS_API bool ts_is_initialized(void);
/* NULL: the default group, with everything that hangs on it.  Drains pending works first.  Peers
 * that still wait for this rank get an error that says it has left. */
TS_API ts_status ts_destroy_process_group(ts_group *group);
/* Cancels what is in flight; any thread.  Pending works end with TS_EABORTED, peers get
 * TS_EREMOTE. */
TS_API ts_status ts_abort_process_group(ts_group *group);

/* Rank and size of the default group.  Before it exists: RANK and WORLD_SIZE of the environment if
 * they are set, else 0 and 1. */
TS_API int ts_rank(void);
TS_API int ts_world_size(void);

/* Makes the calling thread a rank of its own (so several ranks can be threads of one process) and
 * its default group over store.  Undone by ts_destroy_process_group(NULL) and ts_rank_leave. */
TS_API ts_status ts_rank_enter(int rank, int size, ts_store *store);
TS_API void ts_rank_leave(void);

/* ---- queries --------------------------------------------------------------------------------- */

TS_API ts_group *ts_default_group(void);         /* NULL before init */
TS_API int ts_group_rank(const ts_group *group); /* -1 before init */
TS_API int ts_group_size(const ts_group *group); /* -1 before init */
TS_API const char *ts_group_backend(const ts_group *group);
TS_API const char *ts_group_name(const ts_group *group);
TS_API int64_t ts_group_timeout(const ts_group *group);
TS_API ts_status ts_group_set_timeout(ts_group *group, int64_t timeout_ms); /* later operations */
TS_API uint64_t ts_group_sequence(const ts_group *group); /* collectives issued so far */
TS_API bool ts_is_backend_available(const char *name);

/* ---- collectives ----------------------------------------------------------------------------- */

typedef enum ts_reduce_op {
    TS_SUM = 0,
    TS_AVG = 1, /* sum, divided by the number of ranks; integers truncate; not bool */
    TS_PRODUCT = 2,
    TS_MIN = 3,
    TS_MAX = 4,
    TS_BAND = 5, /* integers and bool */
    TS_BOR = 6,
    TS_BXOR = 7
} ts_reduce_op;

/* In place; the same bits on every rank.  float16 and bfloat16 accumulate in float32. */
TS_API ts_status ts_all_reduce(ts_group *group, ts_tensor *tensor, ts_reduce_op op, ts_work **work);
TS_API ts_status ts_broadcast(ts_group *group, ts_tensor *tensor, int src, ts_work **work);
/* out has size times the elements of in, as (W * d0, ...) or (W, d0, ...): only counts decide. */
TS_API ts_status ts_all_gather_into_tensor(ts_group *group, ts_tensor *out, ts_tensor *in,
                                           ts_work **work);
/* out[i] gets rank i's tensor; sizes may differ between ranks. */
TS_API ts_status ts_all_gather(ts_group *group, ts_tensor *const *out, int n, ts_tensor *in,
                               ts_work **work);
/* out gets block `rank` of the reduction of in, which has size times its elements. */
TS_API ts_status ts_reduce_scatter_tensor(ts_group *group, ts_tensor *out, ts_tensor *in,
                                          ts_reduce_op op, ts_work **work);
/* out gets the reduction of every rank's in[rank]; pieces may differ in size. */
TS_API ts_status ts_reduce_scatter(ts_group *group, ts_tensor *out, ts_tensor *const *in, int n,
                                   ts_reduce_op op, ts_work **work);
TS_API ts_status ts_barrier(ts_group *group, ts_work **work);

/* ---- point-to-point -------------------------------------------------------------------------- */

#define TS_ANY_SOURCE (-1)

/* Blocking; ends when the buffer may be reused.  Tags >= 0 match per (sender, tag) in order.  To
 * oneself: TS_EINVAL.  Byte lengths of both sides must agree: TS_EMISMATCH on the receiver. */
TS_API ts_status ts_send(ts_group *group, ts_tensor *tensor, int dst, int tag);
TS_API ts_status ts_recv(ts_group *group, ts_tensor *tensor, int src, int tag,
                         int *from); /* from may be NULL */
TS_API ts_status ts_isend(ts_group *group, ts_tensor *tensor, int dst, int tag, ts_work **work);
TS_API ts_status ts_irecv(ts_group *group, ts_tensor *tensor, int src, int tag, ts_work **work);

/* ---- works ----------------------------------------------------------------------------------- */

/* Blocks until done; timeout_ms 0: the group's limit.  Returns the operation's status; again and
 * again the same.  A wait that ends by its own limit is TS_ETIMEOUT; the operation goes on. */
TS_API ts_status ts_work_wait(ts_work *work, int64_t timeout_ms);
TS_API bool ts_work_is_completed(const ts_work *work);
TS_API bool ts_work_is_success(const ts_work *work);
TS_API int ts_work_source_rank(const ts_work *work); /* of a completed receive; -1 otherwise */
TS_API void ts_work_free(ts_work *work);             /* lets go; an operation in flight goes on */

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Process groups: who communicates, and over which backend.
 *
 * A group is the members, a store and a backend.  Where a function takes a group, NULL is the
 * default group of the calling thread's rank.  What groups do is in collectives.h, p2p.h and
 * objects.h; what asynchronous calls leave behind in work.h. */
#ifndef TESSERA_GROUP_H
#define TESSERA_GROUP_H

#include <tessera/store.h>
#include <tessera/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ts_group ts_group;

/* Ranks as arguments.  Where a call names a member - the root of a collective, the peer of a
 * message - a number is the global rank, the one in the default group.  TS_GROUP_RANK(r) says rank
 * r within the group instead. */
#define TS_GROUP_RANK(r) (-2 - (r))
#define TS_ANY_SOURCE (-1)

/* ---- initialisation -------------------------------------------------------------------------- */

typedef struct ts_init_options {
    size_t struct_size;
    const char *backend; /* NULL: "native"; see "backends" below */
    /* NULL: "env://"; or "tcp://host:port" or "file:///path", with ?rank=R&world_size=N behind it
     * unless the fields below are set */
    const char *init_method;
    int64_t timeout_ms; /* 0: unset (TESSERA_TIMEOUT) */
    int world_size;     /* -1: from the init method */
    int rank;           /* -1: from the init method */
    ts_store *store; /* instead of init_method; needs rank and world_size; a reference is taken */
    const struct ts_backend_options *backend_options; /* NULL: none; see ext/backend.h */
} ts_init_options;
#define TS_INIT_OPTIONS_INIT                                                                       \
    {                                                                                              \
        sizeof(ts_init_options), NULL, NULL, 0, -1, -1, NULL, NULL                                 \
    }

/* Makes the default group of the calling thread's rank.  Collective: blocks until all members have
 * joined.  env:// reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT (set by tessera run and
 * torchrun); what is absent is taken from the variables of srun and the mpirun of Open MPI or MPICH.
 * ext/rendezvous.h adds other init methods.  opt NULL: env://. */
TS_API ts_status ts_init_process_group(const ts_init_options *opt);
TS_API bool ts_is_initialized(void);
/* NULL: the default group, with everything that hangs on it.  Drains pending works first.  Peers
 * that still wait for this rank get an error that says it has left. */
TS_API ts_status ts_destroy_process_group(ts_group *group);
/* Cancels what is in flight; any thread.  Pending works end with TS_EABORTED, peers get
 * TS_EREMOTE. */
TS_API ts_status ts_abort_process_group(ts_group *group);

/* Rank and size of the default group.  Before it exists: what the launcher has said (RANK and
 * WORLD_SIZE, or the variables of Slurm, Open MPI, MPICH), else 0 and 1. */
TS_API int ts_rank(void);
TS_API int ts_world_size(void);
/* The number of this process on its host, from LOCAL_RANK or what other launchers say; otherwise
 * fallback; TS_EINVAL if that is negative. */
TS_API ts_status ts_node_local_rank(int *out, int fallback);
/* Whether torchrun, or tessera run in its place, has started this process. */
TS_API bool ts_is_torchelastic_launched(void);

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

/* ---- backends --------------------------------------------------------------------------------
 *
 * "native" (CPU, shared memory and TCP; also called "gloo"), "mpi" (a plug-in for Open MPI or MPICH;
 * rank and size come from it), "fake" (rank and world_size are given; nothing is sent), those that
 * ts_register_backend made known, and the names of what plug-ins may bring: "nccl", "ucc", "xccl".
 * Any letter case.  "cpu:gloo,cuda:nccl" names one per type of device. */

/* A list is available if every part is.  A plug-in must be there and load. */
TS_API bool ts_is_backend_available(const char *name);
TS_API bool ts_is_available(void); /* this build can communicate: true */
TS_API bool ts_is_gloo_available(void);
TS_API bool ts_is_mpi_available(void);
TS_API bool ts_is_nccl_available(void);
TS_API bool ts_is_ucc_available(void);
TS_API bool ts_is_xccl_available(void);
/* "cpu" or "cuda:1" -> the backend that serves that type of device by default; NULL after ts_fail
 * for an unknown one. */
TS_API const char *ts_default_backend_for_device(const char *device);

/* What a group's backend guarantees or offers. */
typedef enum ts_capability {
    TS_CAN_SPLIT = 1,         /* subgroups without a new meeting of the ranks */
    TS_CAN_COALESCE = 2,      /* several operations in one by its own means */
    TS_CAN_ESTIMATE_TIME = 4, /* of an operation before it runs */
    TS_CAN_SHRINK = 8,        /* go on without ranks that were lost */
    TS_CAN_SEE_LOSS = 16,     /* a lost rank ends what waits for it at once, not at its limit */
    TS_CAN_RESTART = 32,      /* after a loss or a time-out, destroy and init again work */
    TS_CAN_REPEAT_BITS = 64,  /* reductions give the same bits on all ranks and in every run */
    TS_CAN_USE_THREADS = 128  /* ranks may be threads of one process */
} ts_capability;
TS_API unsigned ts_group_capabilities(const ts_group *group); /* a sum; 0 before init */

#ifdef __cplusplus
}
#endif
#endif

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

/* ---- more groups -----------------------------------------------------------------------------
 *
 * Groups of some ranks use the links and the memory of the group that they come from, so they cost
 * little (docs/scaling.md), and work independently of each other: from several threads, in different
 * orders, and one that breaks disturbs no other.  Ranks of a new group are ordered as in the group
 * that they come from, whatever the order of the list.  A rank that is no member gets
 * ts_group_not_member(). */

typedef struct ts_group_options {
    size_t struct_size;
    int64_t timeout_ms;  /* of operations; 0: unset (TESSERA_TIMEOUT), whatever the parent's is */
    const char *backend; /* NULL: that of the parent */
    const char *name;    /* NULL: one that no other group has */
    const char *description; /* NULL: "undefined" */
    const char *device;      /* that the group is bound to; "cpu" or NULL: none */
    /* ts_new_group: only the members call it, and wait for nobody else */
    bool use_local_synchronization;
    const struct ts_backend_options *backend_options; /* NULL: none */
} ts_group_options;
#define TS_GROUP_OPTIONS_INIT                                                                      \
    {                                                                                              \
        sizeof(ts_group_options), 0, NULL, NULL, NULL, NULL, false, NULL                           \
    }

/* A group of n global ranks (ranks NULL: of all).  Every rank of the default group calls it, in the
 * same order as its other collectives on the default group, and says the same: TS_EMISMATCH on all
 * ranks says who differs, and what is wrong on one rank only is TS_EREMOTE on the others. */
TS_API ts_status ts_new_group(ts_group **out, const int *ranks, int n, const ts_group_options *opt);

typedef struct ts_rank_list {
    const int *ranks;
    int n;
} ts_rank_list;
/* Cuts parent (NULL: the default group) into groups without common ranks: lists of ranks within
 * parent, every one of which calls it; some may be in no list.  One exchange makes them all. */
TS_API ts_status ts_split_group(ts_group **out, ts_group *parent, const ts_rank_list *lists, int n,
                                const ts_group_options *opt);
/* The same for blocks of size ranks of parent, which size must divide. all: room for the handles of
 * all groups, those of the others being ts_group_not_member(); or NULL. */
TS_API ts_status ts_new_subgroups(ts_group **own, ts_group **all, int size, ts_group *parent,
                                  const ts_group_options *opt);
/* The same for lists of global ranks. */
TS_API ts_status ts_new_subgroups_by_enumeration(ts_group **own, ts_group **all,
                                                 const ts_rank_list *lists, int n,
                                                 const ts_group_options *opt);

typedef enum ts_shrink_flags {
    TS_SHRINK_DEFAULT = 0, /* what is in flight is drained */
    TS_SHRINK_ABORT = 1    /* or cancelled */
} ts_shrink_flags;
/* Goes on without the ranks in exclude (n > 0 of them), which may be lost, when the group may be broken:
 * all others call it, and say the same.  *out takes the place of group, which is destroyed; opt NULL: its
 * limit and description stay.  Of the default group (NULL) all other groups are destroyed too, the new
 * one is the default group, and ranks are numbered anew from 0.  The ranks meet in the store of the
 * group: if the rank that serves it is lost, it is TS_ENETWORK or TS_ESTORE (the store of tessera run
 * on one host outlives its ranks).  TS_EUNSUPPORTED without TS_CAN_SHRINK. */
TS_API ts_status ts_shrink_group(ts_group **out, ts_group *group, const int *exclude, int n,
                                 unsigned flags, const ts_group_options *opt);

/* A constant that stands for groups of which this rank is no member.  Its rank and size are -1, to
 * destroy it does nothing, and operations on it are TS_ENOTMEMBER. */
TS_API ts_group *ts_group_not_member(void);
TS_API bool ts_is_member(const ts_group *group); /* of the default group: before init, false */

/* ---- queries --------------------------------------------------------------------------------- */

TS_API ts_group *ts_default_group(void);         /* NULL before init */
TS_API int ts_group_rank(const ts_group *group); /* -1 before init */
TS_API int ts_group_size(const ts_group *group); /* -1 before init */
TS_API const char *ts_group_backend(const ts_group *group);
TS_API const char *ts_group_name(const ts_group *group);
TS_API int64_t ts_group_timeout(const ts_group *group);
TS_API ts_status ts_group_set_timeout(ts_group *group, int64_t timeout_ms); /* later operations */
TS_API uint64_t ts_group_sequence(const ts_group *group); /* collectives issued so far */
TS_API const char *
ts_group_description(const ts_group *group); /* "default_pg": the default group */
TS_API const char *ts_group_backend_config(const ts_group *group);         /* "cpu:native" */
TS_API const char *ts_group_device(const ts_group *group);                 /* "": bound to none */
TS_API ts_status ts_group_set_device(ts_group *group, const char *device); /* NULL: none */
/* Global ranks by rank in the group, as many as there is room for; returns the group's size. */
TS_API int ts_group_ranks(const ts_group *group, int *ranks, int room);
/* The rank within group of a global rank, and the other way round; TS_EINVAL outside. */
TS_API ts_status ts_group_rank_of(int *out, ts_group *group, int global_rank);
TS_API ts_status ts_global_rank_of(int *out, ts_group *group, int group_rank);
/* For keys of the program's own, which are the group's alone.  Lives as long as the group. */
TS_API ts_status ts_group_store(ts_store **out, ts_group *group);
/* Groups that this rank has taken part in making since init, the default group included. */
TS_API int ts_group_count(void);

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

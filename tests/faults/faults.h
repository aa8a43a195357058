/* SPDX-License-Identifier: Apache-2.0 */
/* The fault campaign: fault-campaign [--runs N] [--seconds S] [--jobs J] [--seed SEED] [-v].
 *
 * A run is made from its seed alone.  2 to 6 ranks, processes or threads, on one to three hosts, do
 * random operations in the same order; at a random point one fault befalls one of them, the victim.
 * Ranks note on a board, which lies in shared memory, what they met; when all have ended, or the
 * watchdog has ended them, the supervisor of the run judges the board. */
#ifndef TS_FAULTS_H
#define TS_FAULTS_H

#include <stdatomic.h>
#include <sys/types.h>
#include <tessera/tessera.h>

enum {
    MOST_RANKS = 6,
    MOST_HOSTS = 3,
    MONITORED_GRACE_MS = 2000 /* what the others give rank 0 in a monitored barrier */
};

/* ---- the plan -------------------------------------------------------------------------------- */

/* X(id, name, where it makes sense).  FATAL: all get an error. */
#define FAULTS(X)                                                                                  \
    X(NONE, "none", EVERYWHERE)                                                                    \
    X(KILL, "kill", PROCESSES | FATAL)                                                             \
    X(EXIT, "exit", PROCESSES | FATAL)                                                             \
    X(LEAVE, "leave", EVERYWHERE | FATAL)                                                          \
    X(ABORT, "abort", EVERYWHERE | FATAL)                                                          \
    X(LATE, "late", EVERYWHERE | FATAL)                                                            \
    X(SHUT, "shut-socket", EVERYWHERE)                                                             \
    X(FREEZE, "freeze", PROCESSES | FATAL)                                                         \
    X(THAW, "freeze-and-thaw-late", PROCESSES | FATAL)                                             \
    X(PAUSE, "freeze-and-thaw-in-time", PROCESSES)                                                 \
    X(CUT, "cut-network", PROCESSES | NETWORK | FATAL)                                             \
    X(GAP, "cut-network-for-a-while", PROCESSES | NETWORK)                                         \
    X(SLOW, "slow-network", PROCESSES | NETWORK)
enum { EVERYWHERE = 0, PROCESSES = 1, NETWORK = 2, FATAL = 4 };
typedef enum fault {
#define X(id, name, flags) FAULT_##id,
    FAULTS(X)
#undef X
        NUM_FAULTS
} fault;

typedef struct plan {
    uint64_t seed;
    fault fault;
    int ranks, victim;
    int host[MOST_RANKS];
    bool threads;
    bool tcp_store;
    bool join_again;    /* those that live make a new group afterwards */
    int operations;     /* unless the fault ends them; those before the fault are less */
    int at_operation;   /* when the fault comes */
    int delay_us;       /* after the beginning of that operation */
    int pause_ms;       /* of PAUSE and GAP */
    int64_t timeout_ms; /* of operations */
} plan;

plan plan_of(uint64_t seed, bool with_network, int most_hosts);
const char *fault_name(fault f);
unsigned fault_flags(fault f);
void plan_print(const plan *p);

/* Numbers from a seed. */
typedef struct dice {
    uint64_t state;
} dice;
uint64_t dice_next(dice *d);
int64_t dice_below(dice *d, int64_t n);
bool dice_chance(dice *d, int percent);

/* ---- the board ------------------------------------------------------------------------------- */

typedef enum progress {
    SEAT_STARTING,
    SEAT_RUNNING,
    SEAT_FINISHED, /* met an error, or did all operations */
    SEAT_DONE,     /* has left the groups and counted what is left */
} progress;

typedef struct seat {
    pid_t pid;
    _Atomic int progress;
    _Atomic int operation;
    char name[40]; /* of the operation */
    _Atomic int64_t began_ns, ended_ns;
    ts_status status;
    char text[1600];
    char complaint[1000]; /* what was not as it should be, apart from the error above; or "" */
    bool ended_well;      /* its process */
} seat;

typedef struct board {
    _Atomic int64_t fault_ns;    /* when it came; 0: not yet */
    _Atomic bool network_is_due; /* the supervisor is asked for the fault */
    _Atomic int store_port;      /* of the TCP store, once it serves */
    _Atomic int64_t thawed_ns;
    seat seat[MOST_RANKS];
} board;

void complain(seat *s, const char *format, ...) TS_PRINTF(2, 3);

/* ---- its parts ------------------------------------------------------------------------------- */

/* operations.c: does operation number `index` of the plan on all ranks; checks the data of what
 * succeeds. */
typedef struct member {
    ts_group *group;
    int rank, size; /* in the group */
    dice dice;      /* the same on all ranks */
    uint64_t salt;  /* of the data of this operation */
    seat *seat;
} member;
ts_status operation(member *m, uint64_t seed, int index);

/* A collective or a pattern of messages, for groups of some ranks too. */
ts_status some_plain_operation(member *m);

/* larger.c: operations that are made of others */
ts_status op_new_group(member *m);
ts_status op_split_group(member *m);
ts_status op_coalesced_scope(member *m);
ts_status op_train(member *m);

/* messages.c: operations that are made of messages, and of objects */
ts_status op_ring(member *m);
ts_status op_pairs(member *m);
ts_status op_from_any(member *m);
ts_status op_batch(member *m);
ts_status op_objects(member *m);

/* data.c: tensors whose contents follow from who made them. */
int64_t some_count(member *m);
ts_dtype some_dtype(member *m);
ts_tensor *bytes_of(member *m, int rank, int64_t count, ts_dtype dtype);
ts_tensor *blank(int64_t count, ts_dtype dtype);
void expect_bytes(member *m, const char *what, ts_tensor *t, int64_t first, int rank,
                  int64_t count);

/* rank.c: run in the processes of the ranks. */
_Noreturn void run_process(const plan *p, board *b, int rank, const char *folder);
_Noreturn void run_threads(const plan *p, board *b);
void strike(const plan *p, board *b, ts_group *group);

/* leaks.c: what the process holds; complains of what was not there before. */
typedef struct holdings {
    int files, threads;
    int64_t tensor_bytes; /* of the calling rank */
} holdings;
holdings holdings_now(void);
void holdings_compare(seat *s, holdings before);

/* lab.c: hosts with a network between them. */
bool lab_available(void);
bool lab_set_up(int id);
bool lab_enter(int id, int host);
bool lab_cut(int id, int host, bool cut);
bool lab_slow_down(int id, int host);
void lab_tear_down(int id);

/* supervise.c: one run, in a process of its own; the exit code.  judge.c: the number of faults found. */
int supervise(const plan *p);
int judge(const plan *p, const board *b);

#endif

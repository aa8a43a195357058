/* SPDX-License-Identifier: Apache-2.0 */
/* The native backend: shared memory within a host (shm.h), the engine's messages between hosts. */
#ifndef TS_COMM_NATIVE_H
#define TS_COMM_NATIVE_H

#include <pthread.h>

#include "comm/backend/native/hosts.h"
#include "comm/backend/native/select.h"
#include "comm/backend/native/shm.h"
#include "comm/engine.h"
#include "comm/names.h"

typedef struct ts_native {
    int rank, size;
    char *name;
    ts_port *port;
    _Atomic(ts_port *) port_for_loss; /* the same, for on_lost, which may run before it is set */
    uint32_t *number;                 /* of the members' ports, by rank; NULL: the first ones */
    int *global;                      /* see ts_native_global; NULL: the same */
    bool met;                         /* the ranks of this host know each other */
    atomic_bool shared;               /* all ranks share memory: shm is the whole group */
    ts_shm shm;                       /* the ranks of this host */
    int *member;                      /* of shm */
    ts_topology topology;             /* of hosts; empty if shared */
    ts_selection selection;           /* of algorithms between hosts */
    struct ts_host_round *round;      /* room for their agreement */
    ts_buffer *parts;                 /* room for one buffer per rank */
    const ts_notice **notice;         /* by rank, for verdicts */
    bool sites;                       /* their causes are call sites */
    const char *last_name; /* of the last operation that all took part in, and its number */
    uint64_t last_sequence;
    ts_notice *notices;    /* by rank, what came by message */
    ts_message **messages; /* room for 2 * size per exchange */
    const void **sources;  /* room for one pointer per rank */
    char *scratch;         /* for what arrives by message; grows */
    size_t scratch_bytes;
    char *room; /* for what an operation has between its parts; grows */
    size_t room_bytes;
    int64_t spin_ns, spin_background_ns;

    const ts_coll *whole; /* the operation that runs, while parts of it run under other numbers */
    bool agreed;          /* the hosts have, in the operation that runs or ran last */
    ts_deadline deadline; /* of the operation deadline_of; set when it first waits */
    uint64_t deadline_of;

    atomic_bool *left, any_left; /* ranks that have left, unless shared */
    _Atomic uint64_t calls;      /* number of the last operation of this rank, unless shared */
    atomic_bool broken;
    pthread_mutex_t lock; /* guards what follows */
    ts_status broken_status;
    char *broken_text;
    _Atomic int broken_by; /* 1 + rank that had left; 0: another reason */
    int64_t broken_at_ns;
} ts_native;

/* TS_OK, or why the group is broken. */
ts_status ts_native_health(ts_native *n, const ts_coll *coll);
/* TS_OK, or the group becomes broken, for rank peer (-1: any) has left. */
ts_status ts_native_check_left(ts_native *n, const ts_coll *coll, int peer);
/* ts_fail with operation, sequence number and group in front. */
ts_status ts_native_fail(ts_native *n, const ts_coll *coll, ts_status status, const char *format,
                         ...) TS_PRINTF(4, 5);

/* Breaks the group with the calling thread's last error, and tells the others; returns status. */
ts_status ts_native_give_up(ts_native *n, ts_status status);
/* The operation is over on this rank, with status, which is returned. */
ts_status ts_native_over(ts_native *n, const ts_coll *coll, ts_status status);
ts_deadline ts_native_deadline(ts_native *n, const ts_coll *coll);
/* At the end of the time those speak first who know best who is missing: who waits for ranks of its
 * own host, then who waits for a host directly, who waits for news of it, a leader before its host;
 * once all have arrived, who waits for data of another host before who waits for a rank of its own. */
ts_deadline ts_native_later(ts_native *n, const ts_coll *coll, int turns);

/* ---- agreement ------------------------------------------------------------------------------- */

/* ts_shm_agree, or by message when not all ranks share memory. */
ts_status ts_native_agree(ts_native *n, const ts_coll *coll);
/* What this rank says about its call to size ranks; all but the sequence number and the payload. */
void ts_native_fill(ts_native *n, ts_notice *notice, const ts_coll *coll, int rank, int size);
enum { TS_DIFFERS = 1, TS_POISONED = 2 };
/* Compares n->notice[0 .. count), the ranks' notices, with that of rank own.  *pairs: their sum; over
 * all ranks it must be 0. */
unsigned ts_native_compare(const ts_native *n, int own, int count, uint64_t *pairs);
/* Words the verdict over n->notice[0 .. count). */
void ts_native_word(char *text, size_t size, const ts_native *n, int count);
static inline ts_status ts_verdict_status(unsigned verdict)
{
    return verdict & TS_POISONED ? TS_EREMOTE : verdict & TS_DIFFERS ? TS_EMISMATCH : TS_OK;
}

/* The first meeting of a group that has made its own links: finds out who shares memory (meet.c). */
ts_status ts_native_meet(ts_native *n, int64_t timeout_ms);
/* The same for ranks that use the links of another group, and hear all from all.  What each says: */
typedef struct ts_native_record {
    int64_t
        place; /* of the control block for the ranks of this host; -1: they cannot share memory */
    int32_t first;   /* the least rank of this host */
    uint32_t number; /* of the port */
    uint32_t unused[4];
} ts_native_record;
void ts_native_present(ts_native *n, ts_native_record *own);
ts_status ts_native_settle(ts_native *n, const ts_native_record *all);
/* Rank of a member for messages: that of the first group over these links. */
static inline int ts_native_global(const ts_native *n, int rank)
{
    return ts_port_global(n->port, rank);
}

/* ---- messages (exchange.c) ------------------------------------------------------------------- */

/* One message of coll; step tells those of one operation apart. */
ts_status ts_native_send(ts_message **out, ts_native *n, const ts_coll *coll, int peer,
                         uint32_t step, const void *data, size_t bytes);
/* One of a stream of which the receiver posts a few at a time. */
ts_status ts_native_send_paced(ts_message **out, ts_native *n, const ts_coll *coll, int peer,
                               uint32_t step, const void *data, size_t bytes);
ts_status ts_native_recv(ts_message **out, ts_native *n, const ts_coll *coll, int peer,
                         uint32_t step, void *data, size_t bytes);
/* A message has failed with the calling thread's last error: the group is broken. */
ts_status ts_native_message_failed(ts_native *n, const ts_coll *coll, ts_status status);

typedef struct ts_exchange {
    ts_native *native;
    const ts_coll *coll;
    ts_message **messages;
    int count;
    ts_status status; /* the first failure */
} ts_exchange;

/* Several messages at once: begin, any number (up to 2 * size) of send and recv, then wait, which
 * ends all of them.  step tells the messages of one operation apart. */
ts_exchange ts_exchange_begin(ts_native *n, const ts_coll *coll);
/* One of up to TS_EXCHANGES that go on at the same time, each with a place of its own. */
enum { TS_EXCHANGES = 3 };
ts_exchange ts_exchange_begin_beside(ts_native *n, const ts_coll *coll, int place);
void ts_exchange_send(ts_exchange *e, int peer, uint32_t step, const void *data, size_t bytes);
/* Goes with the next one to the same peer, which must follow. */
void ts_exchange_send_held(ts_exchange *e, int peer, uint32_t step, const void *data, size_t bytes);
void ts_exchange_recv(ts_exchange *e, int peer, uint32_t step, void *data, size_t bytes);
/* *bytes: how many came, when it is over. */
void ts_exchange_recv_up_to(ts_exchange *e, int peer, uint32_t step, void *data, size_t most,
                            size_t *bytes);
ts_status ts_exchange_wait(ts_exchange *e);
/* Cancels and lets go of what is in flight. */
void ts_exchange_drop(ts_exchange *e);
/* It has failed with the calling thread's last error: cancels all, breaks the group. */
ts_status ts_exchange_end(ts_exchange *e, ts_status status);
/* Room for what arrives by message, and for what an operation keeps meanwhile; NULL after ts_fail. */
char *ts_native_scratch(ts_native *n, size_t bytes);
char *ts_native_room(ts_native *n, size_t bytes);

/* ---- collectives (coll/) --------------------------------------------------------------------- */

ts_status ts_native_barrier(void *self, const ts_coll *coll);
ts_status ts_native_all_reduce(void *self, const ts_coll *coll);
ts_status ts_native_broadcast(void *self, const ts_coll *coll);
ts_status ts_native_all_gather(void *self, const ts_coll *coll);
ts_status ts_native_reduce_scatter(void *self, const ts_coll *coll);
ts_status ts_native_reduce(void *self, const ts_coll *coll);
ts_status ts_native_gather(void *self, const ts_coll *coll);
ts_status ts_native_scatter(void *self, const ts_coll *coll);
ts_status ts_native_all_to_all(void *self, const ts_coll *coll);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The native backend: shared memory within a host, the engine's messages between hosts.
 *
 * With shared memory every rank owns a control block in its shared heap, which the others map
 * read-only.  Nobody writes into a peer's memory: a rank announces by storing into its own block,
 * and the others read.  Two slots for headers are enough: a rank finishes operation n + 1 only when
 * all have arrived there, and so have finished n. */
#ifndef TS_COMM_NATIVE_H
#define TS_COMM_NATIVE_H

#include <pthread.h>
#include <stdatomic.h>
#include <tessera/ext/backend.h>

#include "base/clock.h"
#include "base/error.h"
#include "comm/engine.h"
#include "comm/names.h"
#include "tensor/tensor.h"

enum {
    TS_INLINE_BYTES = 24,         /* payload that rides in a header */
    TS_FLAT_BYTES = 32 * 1024,    /* payload that rides in a slot */
    TS_BLOCK_BYTES = 1024 * 1024, /* piece of a long operation; stays in the cache */
    TS_CAUSE_BYTES = 368
};

/* One line: arrival flag, contract check and small payload at once.  Fields that an operation does
 * not use are 0. */
typedef struct ts_header {
    _Atomic uint64_t sequence; /* written last */
    uint8_t op, dtype, reduce, poisoned;
    int32_t root;
    int64_t count;   /* elements of all parts */
    uint64_t parts;  /* hash of the parts' counts */
    int64_t staging; /* bytes of the sender's staging ring */
    union {
        unsigned char bytes[TS_INLINE_BYTES];
        int64_t place; /* of the data: offset in the sender's shared heap; -1: not there */
    } payload;
} ts_header;
_Static_assert(sizeof(ts_header) == 64, "a header is one cache line");

/* Read only to word an error. */
typedef struct ts_detail {
    int32_t ndim, status;
    int64_t dim[TS_MAX_DIMS];
    char cause[TS_CAUSE_BYTES];
} ts_detail;

/* What a rank says at the start of an operation; as a message between hosts. */
typedef struct ts_notice {
    ts_header header;
    ts_detail detail;
} ts_notice;

#define TS_LINE _Alignas(64)

typedef struct ts_slot {
    TS_LINE ts_notice notice;
    TS_LINE unsigned char flat[TS_FLAT_BYTES];
} ts_slot;

typedef struct ts_control {
    ts_slot slot[2]; /* by parity of the sequence number */
    /* Counters of pieces; they only grow, over all operations. */
    TS_LINE _Atomic uint64_t loaded;   /* in the staging ring, ready to be read */
    TS_LINE _Atomic uint64_t reduced;  /* this rank's share is reduced */
    TS_LINE _Atomic uint64_t copied;   /* this rank has read all it needs of the others */
    TS_LINE _Atomic uint64_t finished; /* sequence number of the last operation that is over here */
    TS_LINE _Atomic uint32_t asleep;   /* this rank sleeps on a word of a peer */
    TS_LINE int64_t ring;    /* heap offset of the staging ring; set before loaded first grows */
    TS_LINE int64_t parts[]; /* [2][size]: heap offsets of the parts */
} ts_control;

typedef struct ts_peer {
    const char *heap; /* mapping of its shared heap */
    size_t mapped;
    const ts_control *control;
} ts_peer;

typedef struct ts_native {
    int rank, size;
    char *name;
    ts_engine *engine;
    _Atomic(ts_engine *)
        engine_for_loss; /* the same, for on_lost, which may run before it is set */
    bool shared;         /* all ranks share memory */
    ts_peer *peer;       /* by rank; one's own entry is filled too */
    ts_control *control;
    ts_shared_heap *heap;
    ts_notice *notices;    /* by rank, without shared memory */
    ts_message **messages; /* room for 2 * size */
    ts_storage *ring;      /* staging, made at the first need */
    int64_t ring_bytes;
    const void **sources; /* room for one pointer per rank */
    char *scratch;        /* for what arrives by message; grows */
    size_t scratch_bytes;
    uint64_t pieces; /* value of the piece counters when no operation runs */
    int64_t spin_ns, spin_background_ns;

    ts_deadline deadline; /* of the operation deadline_of; set when it first waits */
    uint64_t deadline_of;

    atomic_bool broken;
    pthread_mutex_t lock; /* guards what follows */
    ts_status broken_status;
    char *broken_text;
    int64_t broken_at_ns;
} ts_native;

/* Makes the group broken, if it is not yet. */
void ts_native_break(ts_native *n, ts_status status, const char *text);
/* TS_OK, or why the group is broken. */
ts_status ts_native_health(ts_native *n, const ts_coll *coll);
/* ts_fail with operation, sequence number and group in front. */
ts_status ts_native_fail(ts_native *n, const ts_coll *coll, ts_status status, const char *format,
                         ...) TS_PRINTF(4, 5);

/* Breaks the group with the calling thread's last error, and tells the others; returns status. */
ts_status ts_native_give_up(ts_native *n, ts_status status);
/* The operation is over on this rank, with status, which is returned. */
ts_status ts_native_over(ts_native *n, const ts_coll *coll, ts_status status);

/* ---- agreement (agree.c) --------------------------------------------------------------------- */

/* Where a payload of that many bytes goes, before the agreement: at most TS_INLINE_BYTES, or, with
 * shared memory, TS_FLAT_BYTES. */
void *ts_native_room(ts_native *n, const ts_coll *coll, size_t bytes);
/* Announces the place of data instead (-1: not in the shared heap). */
void ts_native_place(ts_native *n, const ts_coll *coll, int64_t offset);
/* Announces the operation and waits for all ranks.  Every rank gets the same verdict: TS_OK,
 * TS_EREMOTE if one came with bad arguments (TS_OK on that one: see ts_coll.status), TS_EMISMATCH.
 */
ts_status ts_native_agree(ts_native *n, const ts_coll *coll);
/* After an agreement: what rank q announced. */
const ts_header *ts_native_header(const ts_native *n, const ts_coll *coll, int q);
const void *ts_native_payload(const ts_native *n, const ts_coll *coll, int q, size_t bytes);
/* Wording (agree_text.c). */
ts_status ts_native_mismatch(ts_native *n, const ts_coll *coll);
ts_status ts_native_poisoned(ts_native *n, const ts_coll *coll);
void ts_native_describe(char *text, size_t size, const ts_notice *notice);
const ts_notice *ts_native_notice(const ts_native *n, const ts_coll *coll, int q);

/* ---- shared memory (wait.c) ------------------------------------------------------------------ */

/* Stores into an own word and wakes whoever sleeps on it. */
void ts_native_publish(ts_native *n, _Atomic uint64_t *word, uint64_t value);
/* Waits until rank q's word is at least target.  TS_ETIMEOUT names who is missing, and leaves the
 * group broken. */
ts_status ts_native_wait_slow(ts_native *n, const ts_coll *coll, int q,
                              const _Atomic uint64_t *word, uint64_t target);
static inline ts_status ts_native_wait(ts_native *n, const ts_coll *coll, int q,
                                       const _Atomic uint64_t *word, uint64_t target)
{
    if (atomic_load_explicit(word, memory_order_acquire) >= target) return TS_OK;
    return ts_native_wait_slow(n, coll, q, word, target);
}
/* The same for every other rank and one member of their control blocks. */
ts_status ts_native_wait_all(ts_native *n, const ts_coll *coll, size_t member, uint64_t target);
ts_deadline ts_native_deadline(ts_native *n, const ts_coll *coll);

/* ---- pieces (pieces.c): long operations in shared memory ------------------------------------- */

/* An operation that works through its data piece by piece.  Pieces are numbered over all operations
 * of the group; piece p lies in slot p % 4 of the staging rings, if rings are used. */
typedef struct ts_pieces {
    ts_native *native;
    const ts_coll *coll;
    uint64_t base;  /* number of the operation's first piece */
    bool staged;    /* through the rings: some rank's data is not in its shared heap */
    bool only_root; /* only the root's data is read */
    int64_t slot_bytes;
} ts_pieces;

enum { TS_RING_SLOTS = 4 };

/* After an agreement on places. */
ts_status ts_pieces_begin(ts_pieces *p, ts_native *n, const ts_coll *coll, bool only_root);
/* Own slot for piece i of the operation, when all have read what it held. */
ts_status ts_pieces_claim(ts_pieces *p, uint64_t i, char **slot);
void ts_pieces_loaded(ts_pieces *p, uint64_t i);
void ts_pieces_reduced(ts_pieces *p, uint64_t i);
void ts_pieces_copied(ts_pieces *p, uint64_t i);
/* Wait until rank q has done so. */
ts_status ts_pieces_wait_loaded(ts_pieces *p, uint64_t i, int q);
ts_status ts_pieces_wait_reduced(ts_pieces *p, uint64_t i, int q);
/* Rank q's slot of piece i, after its load. */
const char *ts_pieces_slot(const ts_pieces *p, uint64_t i, int q);
/* Rank q's data, when not staged. */
const char *ts_pieces_direct(const ts_pieces *p, int q);
/* All count pieces are through here; waits for the others where they read the tensors in place. */
ts_status ts_pieces_end(ts_pieces *p, uint64_t count);

/* Element range of rank q in a block that all ranks share; borders lie on cache lines. */
typedef struct ts_range {
    int64_t begin, end;
} ts_range;
ts_range ts_share_of(int64_t length, int size, int q, size_t element);

/* Room for what arrives by message; NULL after ts_fail. */
char *ts_native_scratch(ts_native *n, size_t bytes);

/* ---- messages (exchange.c) ------------------------------------------------------------------- */

typedef struct ts_exchange {
    ts_native *native;
    const ts_coll *coll;
    int count;
    ts_status status; /* the first failure */
} ts_exchange;

/* Several messages at once: begin, any number (up to 2 * size) of send and recv, then wait, which
 * ends all of them.  step tells the messages of one operation apart. */
ts_exchange ts_exchange_begin(ts_native *n, const ts_coll *coll);
void ts_exchange_send(ts_exchange *e, int peer, uint32_t step, const void *data, size_t bytes);
void ts_exchange_recv(ts_exchange *e, int peer, uint32_t step, void *data, size_t bytes);
ts_status ts_exchange_wait(ts_exchange *e);

/* ---- collectives (coll/) --------------------------------------------------------------------- */

ts_status ts_native_barrier(void *self, const ts_coll *coll);
ts_status ts_native_all_reduce(void *self, const ts_coll *coll);
ts_status ts_native_broadcast(void *self, const ts_coll *coll);
ts_status ts_native_all_gather(void *self, const ts_coll *coll);
ts_status ts_native_reduce_scatter(void *self, const ts_coll *coll);

#endif

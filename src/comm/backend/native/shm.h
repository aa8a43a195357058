/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of a group that share memory: all of it, or those of one host.
 *
 * Every rank owns a control block in its shared heap.  A rank announces by storing into its own
 * block, and the others read, through a mapping that they cannot write to.  Two slots for headers
 * are enough: a rank finishes operation n + 1 only when all have arrived there, and so have
 * finished n.
 *
 * Nobody writes into a peer's memory but for one algorithm (all_reduce_push.c), which stores results
 * into the tensors of all through a second mapping.  Whoever leaves such an operation before all
 * have said that they are through it detaches its tensor first (ts_shm_detach): a peer that was
 * frozen in the middle and goes on later stores into pages that nobody uses any more.
 *
 * Ranks here are local ones, in the order of the group's; so are the coll.root and coll.parts that
 * the functions below are given.  When all ranks of the group share memory, local and group ranks
 * and sequence numbers are the same.  Otherwise several operations here can make up one of the
 * group: they take their numbers from ts_shm.sequence. */
#ifndef TS_COMM_SHM_H
#define TS_COMM_SHM_H

#include <stdatomic.h>
#include <tessera/ext/backend.h>

#include "base/clock.h"
#include "base/error.h"
#include "comm/backend/native/select.h"
#include "tensor/tensor.h"

struct ts_native;

enum {
    TS_INLINE_BYTES = 24,             /* payload that rides in a header */
    TS_FLAT_BYTES = 64 * 1024,        /* payload that rides in a slot */
    TS_BLOCK_BYTES = 2 * 1024 * 1024, /* piece of a long operation; stays in the cache */
    TS_CAUSE_BYTES = 368
};

/* The data rides in the slot.  No address gives this. */
#define TS_PLACE_SLOT ((int64_t)-2)

/* One line: arrival flag, contract check and small payload at once.  Fields that an operation does
 * not use are 0. */
typedef struct ts_header {
    _Atomic uint64_t sequence; /* written last */
    uint8_t op, dtype, reduce, poisoned;
    int32_t root;
    int64_t count;    /* elements of all parts; of the longest piece where ranks agree in pairs */
    uint64_t parts;   /* hash of the parts' counts; the checksum of pairs */
    uint32_t staging; /* bytes of the sender's staging ring */
    uint16_t reads;   /* it can read the ordinary memory of all others */
    uint16_t stores;  /* it can store into the heaps of all others */
    union {
        unsigned char bytes[TS_INLINE_BYTES];
        int64_t place; /* of the data, see ts_shm_place_of; or TS_PLACE_SLOT */
    } payload;
} ts_header;
_Static_assert(sizeof(ts_header) == 64, "a header is one cache line");

/* Read only to word an error. */
typedef struct ts_detail {
    int32_t ndim, status;
    uint32_t ride; /* between hosts: bytes of the payload that rides along */
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
    TS_LINE _Atomic uint64_t told; /* the last operation whose call site is in its notice's cause */
    TS_LINE _Atomic uint64_t loaded;   /* in the staging ring, ready to be read */
    TS_LINE _Atomic uint64_t reduced;  /* this rank's share is reduced */
    TS_LINE _Atomic uint64_t copied;   /* this rank has read all it needs of the others */
    TS_LINE _Atomic uint64_t finished; /* sequence number of the last operation that is over here */
    TS_LINE _Atomic uint32_t asleep;   /* this rank sleeps on a word of a peer */
    TS_LINE int64_t ring;     /* heap offset of the staging ring; set before loaded first grows */
    int64_t pid;              /* what follows does not change; see ts_shm_probe */
    uint64_t key, address;    /* a number of this rank, and where it is in its memory */
    _Atomic uint64_t left_at; /* the operation that it gave up; 0: all; UINT64_MAX: none */
    TS_LINE int64_t parts[];  /* [2][size]: places of the parts */
} ts_control;

typedef struct ts_peer {
    const char *heap; /* mapping of its shared heap */
    char *store;      /* another one, to store into; NULL: none */
    const ts_control *control;
    uint64_t key; /* of its control block */
} ts_peer;

typedef struct ts_shm {
    struct ts_native *native;
    int rank, size;    /* local */
    const int *member; /* group rank, by local rank */
    uint64_t
        sequence;  /* of the last operation here; unused if the group shares memory as a whole */
    ts_peer *peer; /* by local rank; one's own entry is filled too */
    ts_control *control; /* NULL: no shared memory */
    ts_shared_heap *heap;
    ts_notice draft;  /* of what this rank announces next */
    size_t early;     /* bytes of the next slot to ask for early: as many as this operation uses */
    ts_storage *ring; /* staging, made at the first need */
    int64_t ring_bytes;
    const void **sources; /* room for one pointer per local rank */
    int64_t *place;       /* by local rank: where its data is, for ts_shm_combine */
    bool reads;           /* this rank can read the memory of all others */
    bool stores;          /* and store into their heaps; it says so, and without it all pull */
    char *fetched;        /* room for what is read so; made at the first need */
    ts_selection selection;
    uint64_t pieces; /* value of the piece counters when no operation runs */
} ts_shm;

/* ---- life (shm.c) ---------------------------------------------------------------------------- */

/* This rank's half: heap and control block, before links stand; without them control stays NULL. */
ts_status ts_shm_init(ts_shm *s, struct ts_native *n);
/* Maps the heaps of the members; member stays the caller's.  Gives the offset of the own control
 * block for the others, or -1 if a heap cannot be reached. */
int64_t ts_shm_map(ts_shm *s, int size, int rank, const int *member);
/* Control blocks are at place[], by local rank. */
void ts_shm_join(ts_shm *s, const int64_t *place);
/* A rank may be through an operation while others still read its part of it. */
void ts_shm_let_others_finish(ts_shm *s);
void ts_shm_fini(ts_shm *s);

/* ---- agreement (agree.c) --------------------------------------------------------------------- */

/* Where a payload of that many bytes, at most TS_FLAT_BYTES, goes before the agreement. */
void *ts_shm_room(ts_shm *s, const ts_coll *coll, size_t bytes);
/* Announces the place of data instead. */
void ts_shm_place(ts_shm *s, int64_t place);
/* Ranks disagree: leaves where this rank called the operation in the cause of its notice, in the slot
 * of that number too. */
void ts_native_leave_site(struct ts_native *n, const ts_coll *coll, uint64_t sequence);
/* Shows the draft to the others, as this rank's arrival. */
void ts_shm_announce(ts_shm *s, uint64_t sequence);
/* Announces the operation and waits for all ranks.  Every rank gets the same verdict: TS_OK,
 * TS_EREMOTE if one came with bad arguments (TS_OK on that one: see ts_coll.status), TS_EMISMATCH.
 */
ts_status ts_shm_agree(ts_shm *s, const ts_coll *coll);
/* The operation is over: the lines of the next slot, as many as this one used, come back from the
 * others' caches already.  Not before, for they would come before the peers' data. */
void ts_shm_own_early(ts_shm *s, uint64_t sequence);
/* After an agreement: what rank q announced. */
const ts_header *ts_shm_header(const ts_shm *s, const ts_coll *coll, int q);
const void *ts_shm_payload(const ts_shm *s, const ts_coll *coll, int q, size_t bytes);
const ts_notice *ts_shm_notice(const ts_shm *s, const ts_coll *coll, int q);

/* ---- waiting (wait.c) ------------------------------------------------------------------------ */

/* Stores into an own word and wakes whoever sleeps on it. */
void ts_shm_publish(ts_shm *s, _Atomic uint64_t *word, uint64_t value);
/* Waits until rank q's word is at least target.  TS_ETIMEOUT names who is missing, and leaves the
 * group broken. */
ts_status ts_shm_wait_slow(ts_shm *s, const ts_coll *coll, int q, const _Atomic uint64_t *word,
                           uint64_t target);
static inline ts_status ts_shm_wait(ts_shm *s, const ts_coll *coll, int q,
                                    const _Atomic uint64_t *word, uint64_t target)
{
    if (atomic_load_explicit(word, memory_order_acquire) >= target) return TS_OK;
    return ts_shm_wait_slow(s, coll, q, word, target);
}
/* The same for every other rank and one member of their control blocks. */
ts_status ts_shm_wait_all(ts_shm *s, const ts_coll *coll, size_t member, uint64_t target);

/* ---- reading of peers (reach.c) -------------------------------------------------------------- */

/* Leaves in the own control block what the others need to read the memory of this rank. */
void ts_shm_sign(ts_shm *s);
/* Finds out whether this rank can read theirs. */
void ts_shm_probe(ts_shm *s);
/* Says that this rank gave operation number up, or, with 0, leaves the group.  Its memory is not to be
 * relied on then, nor its slot of the operation before: operations that were already queued put their
 * data there before they learn that the group is broken. */
void ts_shm_leave(ts_shm *s, uint64_t number);
/* At the end of an operation: were all others still in it while this rank read their data?  A rank
 * that was frozen in the middle finds memory which others have used for something else since. */
ts_status ts_shm_verify(ts_shm *s, const ts_coll *coll);
/* Where data of this rank is: its offset in the shared heap; the complement of its address, which
 * is less than -1; or -1, out of reach. */
int64_t ts_shm_place_of(const ts_shm *s, ts_buffer data);
/* After an agreement: every rank can read addresses of the others. */
bool ts_shm_all_read(const ts_shm *s, const ts_coll *coll);
/* Bytes from `at` on of what rank q has at a place. */
ts_status ts_shm_copy(ts_shm *s, const ts_coll *coll, int q, int64_t place, size_t at, void *to,
                      size_t bytes);
/* Reduces bytes from `at` on of what all have at s->place[]; own: the same bytes of this rank. */
ts_status ts_shm_combine(ts_shm *s, const ts_coll *coll, void *to, const void *own, size_t at,
                         size_t bytes);

/* ---- storing into peers (store.c) ------------------------------------------------------------ */

/* After an agreement on places: every rank can store into what the others have there. */
bool ts_shm_all_store(const ts_shm *s, const ts_coll *coll);
/* Which bytes of a tensor at place peers may store to: whole pages, for its neighbours share the
 * others. */
typedef struct ts_span {
    size_t begin, end;
} ts_span;
ts_span ts_shm_storable(int64_t place, size_t bytes);
/* An operation that peers might store for has failed here with status, which is returned: makes
 * what they still store harmless. */
ts_status ts_shm_detach(ts_shm *s, const ts_coll *coll, ts_status status);

/* ---- pieces (pieces.c): long operations ------------------------------------------------------ */

/* An operation that works through its data piece by piece.  Pieces are numbered over all operations
 * of the domain; piece p lies in slot p % 4 of the staging rings, if rings are used. */
typedef struct ts_pieces {
    ts_shm *shm;
    const ts_coll *coll;
    uint64_t base;  /* number of the operation's first piece */
    bool staged;    /* through the rings: some rank's data is out of reach */
    bool only_root; /* only the root's data is read */
    int64_t slot_bytes;
} ts_pieces;

enum { TS_RING_SLOTS = 4 };

/* After an agreement on places. */
ts_status ts_pieces_begin(ts_pieces *p, ts_shm *s, const ts_coll *coll, bool only_root);
/* The same for an operation that says itself whether rings are used, and this rank loads its own. */
ts_status ts_pieces_open(ts_pieces *p, ts_shm *s, const ts_coll *coll, bool staged, bool loads);
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
/* When not staged: copies of rank q's data, and reduces that of all. */
ts_status ts_pieces_copy(const ts_pieces *p, int q, size_t at, void *to, size_t bytes);
ts_status ts_pieces_combine(const ts_pieces *p, void *to, const void *own, size_t at, size_t bytes);
/* All count pieces are through here; waits for the others where they read the tensors in place. */
ts_status ts_pieces_end(ts_pieces *p, uint64_t count);

/* Element range of rank q in a block that all ranks share; borders lie on cache lines. */
typedef struct ts_range {
    int64_t begin, end;
} ts_range;
ts_range ts_share_of(int64_t length, int size, int q, size_t element);

#endif

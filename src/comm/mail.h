/* SPDX-License-Identifier: Apache-2.0 */
/* The mail: how frames travel between ranks that share memory.
 *
 * Nobody writes into a peer's memory.  A rank that sends owns, in its shared heap, one ring of cells
 * for each peer; the peer reads it and says in its own heap how far it is.  A cell is one cache line
 * that holds a frame and up to 24 bytes of its payload; longer payloads lie in a bulk area behind
 * the ring and come in pieces, so that both sides copy at the same time.  A long message whose data
 * lies in the sender's shared heap does not travel at all: its RTS says where it is, the receiver
 * copies it from there and answers DONE.  Such data is on offer as long as a word in the ring says
 * so; the receiver says what it is copying, and a sender that takes back an offer waits for that.
 *
 * All frames of a pair go by mail once both can read each other's heap.  The socket remains: bytes
 * on it wake a peer of whom nobody looks at the mail, and its end is the peer's end.
 *
 * Who looks: the thread that moves the bytes (progress.c).  When it sleeps on the links it leaves a
 * number in box->asleep, which asks whoever sends to wake it. */
#ifndef TS_COMM_MAIL_H
#define TS_COMM_MAIL_H

#include "comm/engine_impl.h"
#include "tensor/tensor.h"

enum {
    TS_MAIL_CELLS = 64,
    TS_MAIL_OFFERS = 64,
    TS_MAIL_INLINE = 24,
    TS_MAIL_BULK = 27 * 1024,        /* behind each ring */
    TS_MAIL_BULK_LONG = 256 * 1024,  /* of pairs that send long messages from ordinary memory, */
    TS_MAIL_LONG_MAX = 8 << 20,      /*   as long as a rank has not more than this in all */
    TS_MAIL_PULL_BYTES = 256 * 1024, /* copied in one turn */
};

#define TS_MAIL_LINE _Alignas(64)

typedef struct ts_cell {
    TS_MAIL_LINE _Atomic uint32_t ready; /* number of the cell, from 1; written last */
    uint8_t kind;                        /* 0: more of the payload of the frame before */
    uint8_t channel, slot;
    uint32_t piece;   /* bytes of the payload that come with this cell */
    uint32_t payload; /* of the frame */
    uint64_t tag, bytes, id;
    union {
        uint8_t bytes[TS_MAIL_INLINE];
        int64_t place; /* in the heap: of a longer piece, or of what an RTS offers */
    } data;
} ts_cell;
_Static_assert(sizeof(ts_cell) == 64, "a cell is one cache line");

typedef struct ts_mail_ring {
    TS_MAIL_LINE _Atomic uint64_t offer[TS_MAIL_OFFERS]; /* ids of messages */
    ts_cell cell[TS_MAIL_CELLS];
    TS_MAIL_LINE uint8_t bulk[TS_MAIL_BULK];
} ts_mail_ring;

/* What a rank says to one peer. */
typedef struct ts_mail_word {
    TS_MAIL_LINE _Atomic int64_t ring; /* heap offset of the ring to the peer; 0: none yet */
    _Atomic uint32_t blocked;          /* waits for room in it */
    _Atomic uint64_t taken;            /* cells of the peer's ring that have been read */
    _Atomic uint64_t pulling;          /* id of the peer's message that is being copied; 0: none */
} ts_mail_word;

typedef struct ts_mailbox {
    TS_MAIL_LINE _Atomic uint32_t asleep; /* number of the sleep; 0: somebody looks */
    ts_mail_word to[];                    /* by rank */
} ts_mailbox;

/* One rank's side of the mail with one peer. */
struct ts_mail {
    const ts_mailbox *box; /* the peer's */
    const char *heap;
    size_t reserved;
    uint32_t woken; /* its sleep out of which it was woken */
    int self;       /* own rank: index in the peer's box */

    /* sending */
    ts_mail_ring *ring; /* NULL: nothing was sent yet */
    uint8_t *bulk, *old_bulk;
    size_t bulk_bytes;
    uint64_t written, taken;       /* cells */
    uint64_t bulk_head, bulk_tail; /* bytes */
    uint64_t bulk_since;           /* first cell that uses this bulk area and not old_bulk */
    uint64_t bulk_end[TS_MAIL_CELLS];
    uint64_t free_slots; /* bits */

    /* receiving */
    const ts_mail_ring *in;
    uint64_t next, published;
    bool bulk_taken;            /* since publishing */
    const ts_cell *_Atomic due; /* where the next cell appears */
    _Atomic uint32_t due_number;
};

/* What a rank's engine needs for all its mail. */
struct ts_mail_office {
    ts_shared_heap *heap;
    ts_mailbox *box;
    ts_link **link; /* those with mail */
    int count;
    size_t long_bulk; /* bytes of long bulk areas */
    uint32_t sleeps;  /* number of the last sleep */
    int64_t moved_ns; /* when something last moved before a sleep */
    atomic_bool busy; /* there is work that no cell announces */
};

/* All with the engine's lock held unless it says otherwise. */

/* With the last reference of the engine: gives back what the peers do not read any more. */
void ts_mail_close(ts_engine *engine);
void ts_mail_free(ts_link *link);
/* No more cells are read. */
void ts_mail_stop(ts_link *link);

/* mail_out.c */
/* Sends a short frame at once; false: no room now, or others go first. */
bool ts_mail_put(ts_link *link, const ts_frame *frame, const void *payload);
/* Writes of the link's queue what there is room for. */
bool ts_mail_flush(ts_link *link);
/* Sets place and slot of an RTS whose data can be read in the heap. */
void ts_mail_offer(ts_link *link, ts_message *send, ts_frame *frame);
void ts_mail_withdraw(ts_link *link, ts_message *send);

/* mail_in.c: true if something moved. */
bool ts_mail_read(ts_link *link);
bool ts_mail_pull(ts_link *link);

/* mail_turn.c */
/* Reads, copies and writes for all links: true if something moved. */
bool ts_mail_poll(ts_engine *engine);
/* To be called after cells were written for, or read from, a peer. */
void ts_mail_wake_peer(ts_link *link);
/* There is work that no cell announces: whoever looks will find it. */
void ts_mail_remember(ts_engine *engine);

/* What follows is called without lock, by the thread that moves the bytes (progress.c). */
/* Does the mail alone decide when the message is done? */
bool ts_mail_carries(const ts_message *message);
void ts_mail_look(ts_engine *engine);
/* Looks until the message is done: true, or sleeping is better than looking: false. */
bool ts_mail_spin(ts_message *message);
/* Peers need not wake anybody from now on. */
void ts_mail_begin_looking(ts_engine *engine);

typedef struct ts_mail_sleep {
    bool leads; /* not the engine's thread */
    uint32_t number;
} ts_mail_sleep;
/* Peers wake its thread from now on: how long a sleep on all links may take, ms or 0. */
int ts_mail_before_sleep(ts_engine *engine, int ms, ts_mail_sleep *sleep);
void ts_mail_after_sleep(ts_engine *engine, const ts_mail_sleep *sleep);

#endif

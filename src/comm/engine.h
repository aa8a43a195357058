/* SPDX-License-Identifier: Apache-2.0 */
/* Links between ranks and the point-to-point progress engine.
 *
 * One engine per group: a link to every peer - a UNIX socket within the host (which also carries
 * the descriptor of the peer's shared heap), TCP between hosts - and one thread that moves bytes.
 * Messages match by (peer, channel, tag) in order; posted and unexpected queues, any source, large
 * messages in both directions at once.  The thread also watches the links: a peer that is gone, or
 * has said goodbye, fails what waits for it at once. */
#ifndef TS_COMM_ENGINE_H
#define TS_COMM_ENGINE_H

#include <tessera/store.h>

#include "base/clock.h"
#include "base/error.h"

typedef struct ts_engine ts_engine;
typedef struct ts_message ts_message; /* a send or receive in flight */

typedef struct ts_engine_options {
    ts_store *store;  /* used during creation only; its prefix belongs to this group alone */
    const char *name; /* of the group, for messages */
    int rank, size;
    int64_t timeout_ms; /* for creation */
    int heap_fd; /* descriptor of this rank's shared heap; -1: none, peers fall back to sockets */
    size_t heap_reserved;
    struct ts_shared_heap *heap; /* where messages to ranks of this host lie; NULL: sockets */
    /* Runs once per peer that is lost (graceful: it left by itself), on the engine's thread. */
    void (*on_lost)(void *user, int peer, bool graceful, const char *why);
    void *user;
    const char *host_id; /* NULL: TESSERA_HOST_ID, else found out */
} ts_engine_options;

/* Collective: returns when every link stands.  A rank that is started twice, another run's process,
 * a peer with another group size: an error naming it, on all ranks concerned. */
ts_status ts_engine_new(ts_engine **out, const ts_engine_options *opt);

/* Says goodbye to the peers, ends the thread, closes the links; pending messages end with
 * TS_EABORTED.  Takes at most a second, even if peers are stuck.  NULL is fine. */
void ts_engine_free(ts_engine *engine);

/* Fails every pending and later message with status and text, and tells the peers (their on_lost
 * runs with that text).  Any thread, any number of times. */
void ts_engine_abort(ts_engine *engine, ts_status status, const char *text);

bool ts_engine_same_host(const ts_engine *engine, int peer);
/* Ranks of this machine.  Pretend hosts share one: ranks whose host has the same name count. */
int ts_engine_ranks_here(const ts_engine *engine);
/* The peer's heap: its descriptor (owned by the engine) and reserved size; -1 if not shared. */
int ts_engine_peer_heap(const ts_engine *engine, int peer, size_t *reserved);
/* TS_OK, or why the peer is gone (worded with its rank). */
ts_status ts_engine_peer_status(ts_engine *engine, int peer);

/* What went to and came from ranks of other hosts, in whole frames.  For tests of how much an
 * algorithm sends. */
typedef struct ts_traffic {
    uint64_t sent_frames, sent_bytes; /* bytes: payload without the frames' headers */
    uint64_t received_frames, received_bytes;
} ts_traffic;
ts_traffic ts_engine_traffic(ts_engine *engine);

#define TS_ENGINE_ANY (-1)

typedef enum ts_channel {
    TS_CHANNEL_USER = 0,      /* ts_send, ts_recv */
    TS_CHANNEL_COLLECTIVE = 1 /* collectives between hosts; tag = sequence number and step */
} ts_channel;

/* Start a message.  buf must stay until it is done.  A received length other than bytes:
 * TS_EMISMATCH naming both (the sender of a long message gets it too).
 *
 * done, if not NULL, runs once, on the thread that moved the last byte (the engine's, one that
 * waits, or inside the call, if it is done at once); it must not block, may start and free
 * messages, and ts_message_wait returns after it.  error is NULL when status is TS_OK.  It does not
 * run for a message that is cancelled.  The message is the caller's until ts_message_wait or
 * ts_message_free; it may outlive the engine.  A call that fails (peer gone, engine aborted) makes
 * no message.
 *
 * A receive from any rank takes the message that came first.  It ends with TS_ENETWORK or
 * TS_EREMOTE as soon as one peer is lost, for the group is broken then; peers that leave in order
 * end it only when nobody is left.  What a peer had sent before it left is still delivered. */
typedef void (*ts_message_done)(void *user, ts_status status, const char *error, int peer);
ts_status ts_engine_send(ts_message **out, ts_engine *engine, int peer, ts_channel channel,
                         uint64_t tag, const void *buf, size_t bytes, ts_message_done done,
                         void *user);
/* One of many to a receiver that posts a few at a time: a long one goes when it is asked for, as
 * what comes before its receive is posted would have to be copied.  Without a callback. */
ts_status ts_engine_send_paced(ts_message **out, ts_engine *engine, int peer, ts_channel channel,
                               uint64_t tag, const void *buf, size_t bytes);
ts_status ts_engine_recv(ts_message **out, ts_engine *engine, int peer_or_any, ts_channel channel,
                         uint64_t tag, void *buf, size_t bytes, ts_message_done done, void *user);
/* Takes a message of any length up to most; *bytes, which must stay until it is done: how many came. */
ts_status ts_engine_recv_up_to(ts_message **out, ts_engine *engine, int peer, ts_channel channel,
                               uint64_t tag, void *buf, size_t most, size_t *bytes);

/* Blocks; frees the message in every case.  At the deadline: TS_ETIMEOUT naming the peer, and the
 * message is cancelled (buf is free to reuse).  *peer (may be NULL): who sent it. */
ts_status ts_message_wait(ts_message *message, ts_deadline deadline, int *peer);
bool ts_message_is_done(const ts_message *message);
/* Moves bytes until the message is done: true, or the deadline passes: false.  done has run then. */
bool ts_message_await(ts_message *message, ts_deadline deadline);
/* Moves what can be moved at once. */
void ts_message_look(ts_message *message);
/* Lets go of a message; one in flight is cancelled: its buffer is free to reuse and its done does
 * not run any more. */
void ts_message_free(ts_message *message);

#endif

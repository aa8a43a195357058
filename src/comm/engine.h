/* SPDX-License-Identifier: Apache-2.0 */
/* Links between ranks and the point-to-point progress engine.
 *
 * An engine has a link to every peer - a UNIX socket within the host (which also carries the
 * descriptor of the peer's shared heap), TCP between hosts - and one thread that moves bytes.
 * Messages match by (peer, channel, tag) in order; posted and unexpected queues, any source, large
 * messages in both directions at once.  The thread also watches the links: a peer that is gone, or
 * has said goodbye, fails what waits for it at once.
 *
 * Groups share an engine: each has a port of its own, with ranks of its own, whose messages match
 * only among themselves, and which ends without disturbing the others. */
#ifndef TS_COMM_ENGINE_H
#define TS_COMM_ENGINE_H

#include <tessera/store.h>

#include "base/clock.h"
#include "base/error.h"

typedef struct ts_engine ts_engine;
typedef struct ts_port ts_port;
typedef struct ts_message ts_message; /* a send or receive in flight */

/* Runs once per peer that a port has lost (graceful: it left by itself), on the engine's thread. */
typedef void ts_lost_fn(void *user, int peer, bool graceful, const char *why);

typedef struct ts_engine_options {
    ts_store *store;  /* used during creation only; its prefix belongs to this group alone */
    const char *name; /* of the group, for messages */
    int rank, size;
    int64_t timeout_ms; /* for creation */
    int heap_fd; /* descriptor of this rank's shared heap; -1: none, peers fall back to sockets */
    size_t heap_reserved;
    struct ts_shared_heap *heap; /* where messages to ranks of this host lie; NULL: sockets */
    ts_lost_fn *on_lost;         /* for the first port */
    void *user;
    const char *host_id; /* NULL: TESSERA_HOST_ID, else found out */
} ts_engine_options;

/* Collective: returns when every link stands.  A rank that is started twice, another run's process,
 * a peer with another group size: an error naming it, on all ranks concerned. */
ts_status ts_engine_new(ts_engine **out, const ts_engine_options *opt);

/* Closes the first port.  NULL is fine. */
void ts_engine_free(ts_engine *engine);

/* ---- ports ----------------------------------------------------------------------------------- */

/* That of all ranks, which is there from the start. */
ts_port *ts_engine_port(const ts_engine *engine);

typedef struct ts_port_options {
    const char *name;
    int rank, size;
    const int *ranks; /* of the members in the engine of `of`'s first port; stays */
    ts_lost_fn *on_lost;
    void *user;
} ts_port_options;
/* Another one of the same engine.  It has a number, which the members must tell each other before
 * they can talk. */
ts_status ts_port_open(ts_port **out, ts_port *of, const ts_port_options *opt);
uint32_t ts_port_number(const ts_port *port);
/* number: that of each member's port, by rank; stays. */
void ts_port_connect(ts_port *port, const uint32_t *number);
/* Tells the members; pending messages end with TS_EABORTED; no on_lost runs any more.  With the
 * last port the engine ends: it says goodbye to the peers, ends the thread, closes the links, which
 * takes at most a second, even if peers are stuck.  NULL is fine. */
void ts_port_close(ts_port *port);
/* Fails every pending and later message of the port with status and text, and tells the members
 * (their on_lost runs with that text).  Any thread, any number of times. */
void ts_port_abort(ts_port *port, ts_status status, const char *text);

/* Rank in the engine's first port. */
int ts_port_global(const ts_port *port, int peer);
bool ts_port_same_host(const ts_port *port, int peer);
/* Ranks of this machine.  Pretend hosts share one: ranks whose host has the same name count. */
int ts_port_ranks_here(const ts_port *port);
/* The peer's heap, mapped at the first call and as long as the engine lives. */
typedef struct ts_peer_heap {
    size_t reserved;  /* 0: it is not shared */
    const char *data; /* to read; NULL: there is no room for the mapping */
    char *store;      /* to write; NULL: likewise */
} ts_peer_heap;
ts_peer_heap ts_port_peer_heap(ts_port *port, int peer);
/* TS_OK, or why the peer is gone (worded with its rank). */
ts_status ts_port_peer_status(ts_port *port, int peer);
/* The loss of the peer has failed an operation: who waits for this rank after it left is told. */
void ts_port_blame(ts_port *port, int peer);

/* Collectives have numbers.  A rank that leaves says how many it has called, so that those who wait for
 * it in a later one need not wait for the deadline.  UINT64_MAX: it has not said so. */
void ts_port_set_calls(ts_port *port, uint64_t calls);
uint64_t ts_port_peer_calls(ts_port *port, int peer);

/* What went to and came from ranks of other hosts, in whole frames.  For tests of how much an
 * algorithm sends. */
typedef struct ts_traffic {
    uint64_t sent_frames, sent_bytes; /* bytes: payload without the frames' headers */
    uint64_t received_frames, received_bytes;
} ts_traffic;
ts_traffic ts_port_traffic(ts_port *port);

#define TS_ENGINE_ANY (-1)

typedef enum ts_channel {
    TS_CHANNEL_USER = 0,      /* ts_send, ts_recv */
    TS_CHANNEL_COLLECTIVE = 1 /* collectives between hosts; tag = sequence number and step */
} ts_channel;

/* Start a message.  Only the low half of the tag counts.  buf must stay until it is done.  A received length other than bytes:
 * TS_EMISMATCH naming both (the sender of a long message gets it too).
 *
 * done, if not NULL, runs once, on the thread that moved the last byte (the engine's, one that
 * waits, or inside the call, if it is done at once); it must not block, may start and free
 * messages, and ts_message_wait returns after it.  error is NULL when status is TS_OK.  It does not
 * run for a message that is cancelled.  The message is the caller's until ts_message_wait or
 * ts_message_free; it may outlive the engine.  A call that fails (peer gone, port aborted) makes
 * no message.
 *
 * A receive from any rank takes the message that came first.  It ends with TS_ENETWORK or
 * TS_EREMOTE as soon as one peer is lost, or leaves because another is gone, for the group is broken
 * then.  Peers that leave in order end it only when nobody is left, as those that have sent what
 * they had may go; at the deadline the error names them.  What a peer had sent before it left is
 * still delivered. */
typedef void (*ts_message_done)(void *user, ts_status status, const char *error, int peer);
ts_status ts_port_send(ts_message **out, ts_port *port, int peer, ts_channel channel, uint64_t tag,
                       const void *buf, size_t bytes, ts_message_done done, void *user);
/* One of many to a receiver that posts a few at a time: a long one goes when it is asked for, as
 * what comes before its receive is posted would have to be copied.  Without a callback. */
ts_status ts_port_send_paced(ts_message **out, ts_port *port, int peer, ts_channel channel,
                             uint64_t tag, const void *buf, size_t bytes);
/* A short one that goes, in one system call, with the next to the same peer, which must follow. */
ts_status ts_port_send_held(ts_message **out, ts_port *port, int peer, ts_channel channel,
                            uint64_t tag, const void *buf, size_t bytes);
ts_status ts_port_recv(ts_message **out, ts_port *port, int peer_or_any, ts_channel channel,
                       uint64_t tag, void *buf, size_t bytes, ts_message_done done, void *user);
/* Takes a message of any length up to most; *bytes, which must stay until it is done: how many came. */
ts_status ts_port_recv_up_to(ts_message **out, ts_port *port, int peer, ts_channel channel,
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

/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the engine.
 *
 * One lock guards everything.  Whoever holds it may read or write links: the engine's thread when
 * epoll reports an event, a caller that posts or waits.  Messages that end while it is held are
 * gathered in engine->completed; their owners are told after the lock was let go, by ts_engine_unlock
 * or by the engine's thread. */
#ifndef TS_COMM_ENGINE_IMPL_H
#define TS_COMM_ENGINE_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "comm/engine.h"
#include "comm/frame.h"
#include "comm/handshake.h"

typedef struct ts_mail ts_mail; /* mail.h */
typedef struct ts_mail_office ts_mail_office;

/* ---- lists whose nodes lie inside their items ------------------------------------------------ */

typedef struct ts_list {
    struct ts_list *next, *prev;
} ts_list;

static inline void ts_list_init(ts_list *list) { list->next = list->prev = list; }
static inline bool ts_list_empty(const ts_list *list) { return list->next == list; }
static inline void ts_list_push(ts_list *list, ts_list *node)
{
    node->prev = list->prev;
    node->next = list;
    list->prev->next = node;
    list->prev = node;
}
static inline void ts_list_remove(ts_list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    ts_list_init(node);
}
static inline void ts_list_move(ts_list *to, ts_list *from)
{
    while (!ts_list_empty(from)) {
        ts_list *node = from->next;
        ts_list_remove(node);
        ts_list_push(to, node);
    }
}
#define TS_LIST_ITEM(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))
/* Goes through a list whose current item may be removed. */
#define TS_LIST_EACH(node, list)                                                                   \
    for (ts_list *node = (list)->next, *node##_next = node->next; node != (list);                  \
         node = node##_next, node##_next = node->next)

/* ---- messages -------------------------------------------------------------------------------- */

enum {
    TS_MESSAGE_PENDING,
    TS_MESSAGE_AWAITED, /* its owner sleeps on state */
    TS_MESSAGE_LED,     /* its owner sleeps on the links */
    TS_MESSAGE_DONE
};

struct ts_message {
    ts_list node;  /* a bucket's posted, a link's sends or receives, or the engine's completed */
    ts_list by_id; /* sends in flight: in the engine's sent */
    ts_engine *engine;
    ts_port *port;
    _Atomic uint32_t state; /* a futex; until it says DONE the engine uses the message */
    bool sending, in_flight, announced;
    bool paced;    /* sends: see ts_port_send_paced */
    bool held;     /* and ts_port_send_held */
    bool starting; /* the call that makes it has not returned */
    bool unowned;  /* let go inside its own done */
    uint8_t channel;
    int peer; /* in the engine; receives: TS_ENGINE_ANY until matched */
    bool any;
    uint64_t tag, id;
    uint8_t *buf;
    size_t bytes, moved;
    size_t queued; /* sends: of the pieces that are written or wait for it */
    size_t length; /* receives: of the message that came */
    size_t *up_to; /* receives: bytes is the most, and here goes what came; NULL: exactly bytes */
    int64_t place; /* receives: the sender's data in its shared heap, to be copied; -1: it comes */
    int slot;      /* of that offer, on both sides; -1: none */
    ts_status status;
    char *error; /* malloc'd; NULL: the status' text */
    ts_message_done done;
    void *user;
};

/* An arrived (EAGER) or announced (RTS) message, or one to oneself, that no receive waits for. */
typedef struct ts_early {
    ts_list node;
    int peer;
    uint8_t channel;
    uint64_t tag, id;
    size_t bytes;
    int64_t place; /* RTS */
    uint8_t slot;
    uint8_t *data;         /* eager */
    bool whole;            /* eager: all bytes are here */
    ts_message *self_send; /* long message to oneself; not counted */
} ts_early;

typedef struct ts_bucket {
    ts_list posted, early;
} ts_bucket;

/* ---- links ----------------------------------------------------------------------------------- */

typedef struct ts_outgoing {
    struct ts_outgoing *next;
    ts_message *message; /* told when the frame is written; NULL: nobody */
    const uint8_t *payload;
    uint8_t *owned; /* payload to free */
    size_t payload_bytes, sent;
    ts_frame frame;
    uint8_t header[TS_FRAME_BYTES];
} ts_outgoing;

#define TS_STAGE_BYTES 16384

/* A connection to a peer.  Those to another host beyond the first are branches of the first, the
 * trunk: they carry pieces of long messages and the goodbye, everything else is the trunk's. */
typedef struct ts_link {
    ts_engine *engine;
    int peer;
    struct ts_link *trunk; /* itself, or whose branch it is */
    int socket;            /* number of the connection: 0, or of the branch from 1 on */
    struct ts_link *branch[TS_SOCKETS_MAX - 1]; /* NULL from the first one that is missing on */
    bool parted;                                /* the peer has said goodbye on it */
    bool ending;                                /* its end is being dealt with */
    bool opening; /* trunk: the connection is not there yet, but wanted */
    int fd;       /* -1: none, or closed */
    int pidfd;    /* -1: none */
    bool same_host;
    int pid;
    char host[64];
    int heap_fd;
    size_t heap_reserved;
    const char *heap;    /* its mapping, or NULL */
    char *heap_to_store; /* another one, or NULL */
    ts_mail *mail;       /* NULL: frames go through the socket */

    ts_status status; /* TS_OK while the peer is there */
    char *why;
    char *cause; /* why the peer leaves, of any of its ports; or NULL */

    ts_outgoing *first, *last;
    bool armed; /* epoll reports when the socket takes more */
    ts_list sends, receives;
    int64_t credit;  /* eager bytes that the peer lets us send */
    size_t consumed; /* eager bytes taken since the last CREDIT */

    ts_frame in; /* the frame whose payload arrives */
    size_t in_left;
    uint8_t *in_to;         /* NULL: thrown away */
    ts_message *in_message; /* receive that it fills */
    ts_early *in_early;
    char *in_text; /* ABORT */
    size_t stage_begin, stage_end;
    uint8_t stage[TS_STAGE_BYTES];
} ts_link;

#define TS_EAGER_WINDOW (4 * 1024 * 1024) /* short messages that nobody took yet, per peer */
#define TS_EAGER_COST 128 /* what a short message costs the receiver besides its bytes */
#define TS_BUCKETS 1024   /* 100,000 messages that wait for each other still find each other fast */

enum { TS_THREAD_RUNS, TS_THREAD_PARKED, TS_THREAD_NUDGED };

typedef struct ts_bootstrap ts_bootstrap;
typedef struct ts_dialer ts_dialer;

/* A member that a port has lost. */
typedef struct ts_loss {
    struct ts_loss *next;
    int place; /* rank in the port */
    ts_status status;
    bool graceful, told;
    uint64_t calls; /* see ts_port_peer_calls */
    char *why;
    char *cause; /* what began it: this loss, or what the peer says was before it */
} ts_loss;

struct ts_port {
    ts_list node; /* in the engine */
    /* References, the owner's and one per message: made are counted under the lock, so that this
     * costs no atomic addition.  The last one to be freed has seen all the others made. */
    _Atomic int64_t refs_made, refs_freed;
    ts_engine *engine;
    uint32_t number; /* what others put into the upper half of tags; 0: the first one */
    char *name;
    int rank, size;
    const int *ranks;          /* in the engine, by place; NULL: the same */
    const uint32_t *number_of; /* by place; NULL: not connected yet, or all 0 */
    ts_lost_fn *on_lost;
    void *user;
    bool closed;
    uint64_t calls;   /* 1 + those of this rank, to be told when it leaves; 0: unknown */
    int peers_left;   /* others that are still there */
    ts_status status; /* of abort and of the end */
    char *why;
    ts_status lost_status; /* why nothing can be received from any rank: see ts_port_recv */
    char *lost_why;
    const ts_loss *lost;   /* the same; NULL: out of memory */
    ts_loss *losses;       /* in the order in which they were found */
    const ts_loss *blamed; /* the first that failed something here; who waits for us is told */
};

enum { TS_PORT_BUCKETS = 64 };

struct ts_engine {
    _Atomic int64_t refs; /* one per port that has not been freed */
    pthread_mutex_t lock;
    pthread_t thread;
    bool thread_runs;
    int epoll, wake, kick;

    /* progress.c */
    int64_t spin_ns;
    _Atomic uint32_t leader;       /* a caller moves the bytes */
    _Atomic uint32_t led;          /* how often one did */
    _Atomic int32_t followers;     /* callers that sleep meanwhile */
    _Atomic uint32_t thread_state; /* a futex */
    _Atomic bool parked_long;

    int rank, size;
    int ranks_here; /* of this machine */
    char *name;
    ts_port *first;
    ts_list port[TS_PORT_BUCKETS]; /* that are not closed, by number */
    int ports;
    uint32_t last_number;
    int untold;           /* losses */
    pthread_mutex_t tell; /* held while losses are told; taken before lock */
    ts_link **link;       /* by peer; the own one carries messages to oneself and has no socket */
    ts_bucket bucket[TS_BUCKETS]; /* by channel and tag */
    ts_list sent[TS_BUCKETS];     /* by id: sends that the peer may still answer */
    ts_list completed;
    uint64_t next_id;
    ts_mail_office *office; /* NULL: no mail */
    ts_traffic traffic;
    ts_dialer *dialer; /* NULL: all links were made at the start */
    bool closing;
    ts_deadline closing_by;
    uint8_t scratch[TS_EAGER_MAX]; /* where unwanted bytes go */
};

/* engine.c */
/* Without links and thread; NULL: out of memory. */
ts_engine *ts_engine_allocate(const ts_engine_options *opt);
void ts_engine_lock(ts_engine *engine);
void ts_engine_unlock(ts_engine *engine);
/* With the lock held: another thread will tell the owners of what has ended. */
bool ts_engine_defers(const ts_engine *engine);
void ts_engine_release(ts_engine *engine); /* without the lock */
/* The last port is closed: says goodbye, ends the thread, closes the links. */
void ts_engine_end(ts_engine *engine);
/* On the engine's thread: what its unlocking has put off. */
void ts_engine_tell(ts_engine *engine);
void ts_engine_enter_thread(ts_engine *engine); /* the calling thread is the engine's */

/* port.c */
ts_port *ts_port_new(ts_engine *engine, const ts_port_options *opt); /* NULL: out of memory */
void ts_port_retain(ts_port *port);                                  /* with the lock held */
void ts_port_release(ts_port *port);                                 /* without */
/* What follows: with the lock held. */
ts_port *ts_port_find(ts_engine *engine, uint32_t number); /* NULL: closed */
/* The port whose messages have such tags; NULL: closed. */
ts_port *ts_port_of(ts_engine *engine, uint64_t tag);
/* TS_OK, or why no message can be started with that member (TS_ENGINE_ANY: with any). */
ts_status ts_port_check(ts_port *port, int place_or_any);
int ts_port_place(const ts_port *port, int peer); /* -1: no member */
/* The first message of port in the list, which may change whenever one is ended; NULL: none. */
ts_message *ts_port_first(const ts_port *port, ts_list *list);
/* Of messages to that member. */
uint64_t ts_port_tag(const ts_port *port, uint64_t tag, int place);
/* What it has with the peer of link ends; of a graceful end not what is arriving.  Does nothing if
 * the peer is no member, or lost already. */
void ts_port_lose(ts_port *port, ts_link *link, ts_status status, bool graceful, const char *what);
void ts_port_lose_everywhere(ts_link *link, bool graceful, const char *what);
/* Frames about ports. */
/* Without the lock: "any rank (still there: 0, 2; no longer: 3)"; size >= 200. */
void ts_port_describe_present(ts_port *port, char *out, size_t size);
void ts_port_take_leave(ts_link *link, const ts_frame *frame, const char *text);
void ts_port_take_abort(ts_link *link, const ts_frame *frame, const char *text);
/* A message has come for a port that is closed, or broken: says so. */
void ts_port_answer(ts_link *link, uint32_t number);
/* Without the lock, on the engine's thread: runs on_lost for what is untold. */
void ts_port_tell(ts_engine *engine);

/* progress.c */
ts_status ts_progress_watch(ts_engine *engine);
void ts_progress_thread(void *engine);
/* The engine's thread has something to tell.  Any thread, with or without the lock. */
void ts_engine_wake(ts_engine *engine);
void ts_message_wake_owner(ts_message *message);

/* message.c: all with the lock held. */
void ts_message_end(ts_message *message, ts_status status, const char *text);
/* May it take so many bytes?  One of variable length expects just them from now on. */
bool ts_message_takes(ts_message *receive, size_t length);
void ts_message_mismatch(ts_message *receive, int peer, size_t length);
/* "; it called send at train.c:42 in step" where that can be seen: what `peer` of this machine has
 * called for the other end of a message of users, of so many bytes; or nothing. */
void ts_message_other_end(char *text, size_t size, const ts_message *message, int peer,
                          size_t bytes);
/* Without the lock: tells the owner. */
void ts_message_finish(ts_message *message);

/* match.c: all with the lock held. */
ts_message *ts_match_posted(ts_engine *engine, int peer, uint8_t channel, uint64_t tag);
void ts_match_post(ts_message *receive);
ts_early *ts_match_early(ts_engine *engine, int peer_or_any, uint8_t channel, uint64_t tag);
/* NULL: out of memory. */
ts_early *ts_early_new(ts_engine *engine, int peer, const ts_frame *frame, bool with_data);
void ts_early_free(ts_early *early);
ts_early *ts_early_find(ts_engine *engine, int peer, uint8_t channel, uint64_t tag, uint64_t id);
/* Ends every receive of port that peer (or, any: any peer) was to satisfy. */
void ts_match_member_lost(ts_port *port, int peer, bool any, ts_status status, const char *why);
/* Forgets what the peer of a link that is lost had announced. */
void ts_match_link_lost(ts_link *link);
/* Ends all messages of port, and forgets what came early.  one_by_one: the peers learn of each that
 * is given up. */
void ts_match_end_all(ts_port *port, ts_status status, const char *text, bool one_by_one);

/* link.c: all with the lock held. */
ts_link *ts_link_new(ts_engine *engine, int peer);
void ts_link_free(ts_link *link);
/* The mappings of the peer's heap, which stay as long as the link; NULL: there is none. */
const char *ts_link_map(ts_link *link);
char *ts_link_map_to_store(ts_link *link);
/* Makes room for n connections, the trunk included. */
ts_status ts_link_branch_out(ts_link *trunk, int n);
ts_link *ts_link_socket(ts_link *trunk, int socket);
/* Has epoll report the connections that stand; that of the process, if known, too. */
ts_status ts_link_watch(ts_link *trunk);
/* For epoll; the process has a number of its own. */
enum { TS_PROCESS_SOCKET = 15 };
static inline uint64_t ts_link_event(const ts_link *link, int socket)
{
    return 16 * (uint64_t)link->peer + (uint64_t)socket;
}
/* Queues a frame and writes what the socket takes.  owned: payload is malloc'd and freed here. */
ts_status ts_link_queue(ts_link *link, const ts_frame *frame, const void *payload, bool owned,
                        ts_message *message);
void ts_link_flush(ts_link *link);
/* n more bytes of the queue's frames (headers and payloads) are written. */
void ts_link_advance(ts_link *link, size_t n);
/* A whole frame with that much payload is written. */
void ts_link_count_sent(ts_link *link, size_t bytes);
/* Takes message out of the queue; a frame that is partly written goes on with a copy. */
void ts_link_detach(ts_link *trunk, ts_message *message);
void ts_link_lose(ts_link *link, ts_status status, bool graceful, const char *format, ...)
    TS_PRINTF(4, 5);
void ts_link_part(ts_link *link); /* closes this connection only */
void ts_link_close(ts_link *trunk);
const char *ts_link_describe(const ts_link *link, char *out, size_t size); /* rank 3 (pid 4 on x) */

/* inbound.c */
/* Takes what has arrived, up to a limit: true, there may be more. */
bool ts_link_read(ts_link *link);
/* The same, until a message is done; what follows it stays in the socket, but for some. */
void ts_link_read_for(ts_link *link, const ts_message *message);
void ts_link_consumed(ts_link *link, size_t bytes);
/* Asks the peer for the message that rts announces on behalf of a receive. */
void ts_link_accept(ts_link *link, ts_message *receive, const ts_frame *rts);
/* A piece of a frame that came by mail; frame->kind 0: more of the one before. */
void ts_link_deliver(ts_link *link, const ts_frame *frame, const uint8_t *piece, size_t bytes);
void ts_link_answer(ts_link *link, ts_frame_kind kind, uint64_t id, size_t bytes);
/* Forgets a receive that the frame now arriving was to fill. */
void ts_link_forget(ts_link *trunk, ts_message *receive);

/* dialer.c: connections that are made when two ranks first talk; with the lock held. */
/* boot's records and listeners become the engine's. */
ts_status ts_dialer_start(ts_engine *engine, ts_bootstrap *boot);
void ts_dialer_free(ts_engine *engine);
/* Opens the connections to a peer, unless they stand. */
void ts_dialer_want(ts_engine *engine, int peer);
/* Events of epoll from TS_DIALER_EVENT on. */
#define TS_DIALER_EVENT (UINT64_C(1) << 60)
void ts_dialer_event(ts_engine *engine, uint64_t event);

/* outbound.c */
void ts_send_start(ts_message *send);
/* The one in flight to the peer with this id; NULL: none. */
ts_message *ts_send_find(ts_link *link, uint64_t id);
/* The receiver wants it: pieces go onto every connection of its link. */
void ts_send_pieces(ts_message *send);
/* A frame of send, with that much of its bytes, has left on link. */
void ts_send_frame_written(ts_message *send, ts_link *link, uint8_t kind, size_t bytes);
void ts_send_cancel(ts_message *send);
void ts_receive_cancel(ts_message *receive); /* message.c; one that the peer has begun to send */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What a communication backend provides.
 *
 * A backend is one const table.  The group checks arguments, packs strided tensors, keeps the order
 * of issue and runs the collectives of a group one after the other; a backend sees contiguous
 * buffers and blocks until the operation is done.  Members of a table that are NULL give
 * TS_EUNSUPPORTED naming the operation and the backend. */
#ifndef TESSERA_EXT_BACKEND_H
#define TESSERA_EXT_BACKEND_H

#include <tessera/collectives.h>
#include <tessera/p2p.h>
#include <tessera/store.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ts_collective {
    TS_COLL_BARRIER = 0,
    TS_COLL_ALL_REDUCE = 1,
    TS_COLL_BROADCAST = 2,
    TS_COLL_ALL_GATHER = 3,
    TS_COLL_REDUCE_SCATTER = 4,
    TS_COLL_REDUCE = 5,
    TS_COLL_GATHER = 6,
    TS_COLL_SCATTER = 7,
    TS_COLL_ALL_TO_ALL = 8
} ts_collective;
#define TS_NUM_COLLECTIVES 9

/* Contiguous elements.  shared_offset: where data lies in this rank's shared heap; -1 elsewhere. */
typedef struct ts_buffer {
    void *data;
    int64_t count;
    int64_t shared_offset;
} ts_buffer;

/* One collective as one rank calls it.  Which buffers are what:
 *
 *                    tensor                      parts, by rank         received, by rank
 *   all_reduce       in and out
 *   reduce           in; out on the root
 *   broadcast        out; in on the root
 *   all_gather       in                          out
 *   reduce_scatter   out                         in
 *   gather           in                          out on the root
 *   scatter          out                         in on the root
 *   all_to_all                                   in                     out
 *
 * Inputs are read only.  reduce is never TS_PREMUL_SUM: the group scales, then asks for a sum. */
typedef struct ts_coll {
    ts_collective op;
    ts_dtype dtype;
    ts_reduce_op reduce;
    int root;
    uint64_t sequence;  /* 1 for the group's first collective, the same on every rank */
    int64_t timeout_ms; /* 0: no limit */
    ts_buffer tensor;
    const ts_buffer *parts, *received; /* NULL where the table has none */
    ts_shape shape;                    /* of the caller's tensor, for messages */
    ts_status status;  /* not TS_OK: this rank's arguments are no good (tensor and parts are */
    const char *cause; /*   empty then); it only tells the others why, and returns TS_OK */
    bool background;   /* runs on the group's thread while the caller goes on computing */
} ts_coll;

/* A message between two ranks. */
typedef struct ts_p2p {
    bool sending;
    int peer; /* TS_ANY_SOURCE: any (receiving only) */
    int tag;
    void *data;
    size_t bytes;
    int64_t shared_offset; /* as in ts_buffer */
    /* Runs once when the message is done, perhaps inside start, on any thread; must not block. */
    void (*done)(void *user, ts_status status, const char *error, int peer);
    void *user;
} ts_p2p;

typedef struct ts_backend_context {
    const char *group_name;
    int rank, size;
    ts_store *store; /* of this group alone; used until init returns */
    int64_t timeout_ms;
} ts_backend_context;

#define TS_BACKEND_VERSION 2

typedef struct ts_backend_ops {
    uint32_t version; /* TS_BACKEND_VERSION */
    const char *name;
    size_t state_size; /* zeroed memory, given to each function as self */

    /* Collective.  On failure fini is called too. */
    ts_status (*init)(void *self, const ts_backend_context *context);
    /* No operation runs any more. Lets peers finish what they still read from this rank. */
    void (*fini)(void *self);
    /* Ends what runs and all that comes later with status and text, and tells the peers.  Any
     * thread, any number of times; only the first counts. */
    void (*abort)(void *self, ts_status status, const char *text);

    /* Has an operation ended in a way that leaves ranks out of step? */
    bool (*is_broken)(void *self);

    /* Block until done; one at a time, in the same order on all ranks. */
    ts_status (*collective[TS_NUM_COLLECTIVES])(void *self, const ts_coll *coll);

    /* Starts a message and returns at once; *request is for wait or release.  On failure done does
     * not run. */
    ts_status (*start)(void **request, void *self, const ts_p2p *message);
    /* Blocks until the message is done, and releases it; *peer: who sent it. */
    ts_status (*wait)(void *self, void *request, int64_t timeout_ms, int *peer);
    /* Lets go of a message; one in flight is cancelled, its done will not run afterwards. */
    void (*release)(void *self, void *request);
} ts_backend_ops;

#ifdef __cplusplus
}
#endif
#endif

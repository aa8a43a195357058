/* SPDX-License-Identifier: Apache-2.0 */
/* Life of the native backend, its health, and messages of users. */
#include "comm/backend/native/native.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/settings.h"
#include "base/thread.h"
#include "comm/backends.h"

enum { SPIN_US = 200, TURN_MS = 1000 };

/* ---- health ---------------------------------------------------------------------------------- */

/* If it is not broken yet. */
static void break_group(ts_native *n, ts_status status, const char *text)
{
    pthread_mutex_lock(&n->lock);
    if (!atomic_load(&n->broken)) {
        n->broken_status = status;
        n->broken_text = ts_strdup(text);
        n->broken_at_ns = ts_now_ns();
        atomic_store(&n->broken, true);
    }
    pthread_mutex_unlock(&n->lock);
}

/* What a link says begins with the group too, which stands in front already. */
static const char *without_group(const char *text, const char *name)
{
    char prefix[160];
    int length = snprintf(prefix, sizeof prefix, "group '%s': ", name);
    bool there = length < (int)sizeof prefix && strncmp(text, prefix, (size_t)length) == 0;
    return there ? text + length : text;
}

ts_status ts_native_fail(ts_native *n, const ts_coll *coll, ts_status status, const char *format,
                         ...)
{
    char text[TS_ERROR_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n->whole) coll = n->whole;
    return ts_fail(status, "%s #%llu of group '%s': %s", coll->name,
                   (unsigned long long)coll->sequence, n->name, without_group(text, n->name));
}

ts_status ts_native_health(ts_native *n, const ts_coll *coll)
{
    if (!atomic_load_explicit(&n->broken, memory_order_acquire)) return TS_OK;
    /* Nothing changes any more once it is broken. */
    if (n->broken_by > 0) ts_port_blame(n->port, n->broken_by - 1);
    double seconds = (double)(ts_now_ns() - n->broken_at_ns) * 1e-9;
    return ts_native_fail(n, coll, n->broken_status,
                          "%s; the group is broken since %.1f s: destroy it and init again",
                          n->broken_text ? n->broken_text : "out of memory", seconds);
}

ts_status ts_native_give_up(ts_native *n, ts_status status)
{
    char text[TS_ERROR_MAX];
    snprintf(text, sizeof text, "%s", ts_error_last());
    break_group(n, status, text);
    ts_port_abort(n->port, status, text);
    return ts_fail_again(status, text);
}

ts_status ts_native_over(ts_native *n, const ts_coll *coll, ts_status status)
{
    if (n->shm.size > 1 && status == TS_OK) status = ts_shm_verify(&n->shm, coll);
    if (n->shm.size > 1 && status != TS_OK && atomic_load(&n->broken))
        ts_shm_leave(&n->shm, n->shared ? coll->sequence : n->shm.sequence);
    n->whole = NULL;
    if (status == TS_OK) {
        n->last_name = coll->name;
        n->last_sequence = coll->sequence;
    }
    if (n->shm.size <= 1) return status;
    uint64_t sequence = n->shared ? coll->sequence : n->shm.sequence;
    atomic_store_explicit(&n->shm.control->finished, sequence, memory_order_release);
    ts_shm_own_early(&n->shm, sequence);
    return status;
}

ts_deadline ts_native_deadline(ts_native *n, const ts_coll *coll)
{
    if (n->whole) coll = n->whole;
    if (n->deadline_of != coll->sequence) {
        n->deadline = ts_deadline_in(coll->timeout_ms);
        n->deadline_of = coll->sequence;
    }
    return n->deadline;
}

ts_deadline ts_native_later(ts_native *n, const ts_coll *coll, int turns)
{
    ts_deadline deadline = ts_native_deadline(n, coll);
    int64_t turn_ms = coll->timeout_ms / 10;
    if (turn_ms > TURN_MS) turn_ms = TURN_MS;
    if (deadline.at_ns != INT64_MAX) deadline.at_ns += turns * turn_ms * 1000000;
    return deadline;
}

/* A rank that leaves has waited until all others of its host are through the last operation that it
 * took part in.  Those of other hosts may still be in it and need nothing more of that rank.  Who is
 * in a later one waits in vain; others find out when they wait for it, or at the next operation. */
static void note_leaving(ts_native *n, int peer, ts_status status, const char *text)
{
    ts_port *port = atomic_load(&n->port_for_loss);
    if (!n->shared) {
        atomic_store(&n->left[peer], true);
        atomic_store(&n->any_left, true);
        if (!port || atomic_load(&n->calls) <= ts_port_peer_calls(port, peer)) return;
    }
    if (!atomic_load(&n->broken)) n->broken_by = peer + 1;
    break_group(n, status, text);
    if (!n->shared) ts_port_abort(port, status, text);
}

/* On the engine's thread. */
static void on_lost(void *user, int peer, bool graceful, const char *why)
{
    ts_native *n = user;
    char text[TS_ERROR_MAX];
    ts_port *port = atomic_load(&n->port_for_loss);
    ts_status status = port ? ts_port_peer_status(port, peer) : TS_ENETWORK;
    if (status == TS_OK) status = TS_ENETWORK;
    const char *said = port ? ts_error_last() : why;
    snprintf(text, sizeof text, "%s", said);
    TS_LOG(TS_LOG_COMM, TS_LEVEL_INFO, "%s", text);
    if (graceful) {
        note_leaving(n, peer, status, text);
        return;
    }
    break_group(n, status, text);
    if (port) ts_port_abort(port, status, text);
}

ts_status ts_native_check_left(ts_native *n, const ts_coll *coll, int peer)
{
    if (!atomic_load(&n->any_left) || (peer >= 0 && !atomic_load(&n->left[peer]))) return TS_OK;
    while (peer < 0 || !atomic_load(&n->left[peer])) peer++;
    ts_status status = ts_port_peer_status(n->port, peer);
    if (!atomic_load(&n->broken)) n->broken_by = peer + 1;
    break_group(n, status == TS_OK ? TS_ENETWORK : status, ts_error_last());
    return ts_native_health(n, coll);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void choose_spin(ts_native *n)
{
    int64_t set = ts_setting_int(TS_SETTING_SPIN_US);
    int cores = ts_host_cores(), here = ts_port_ranks_here(n->port);
    n->spin_ns = (set >= 0 ? set : here <= cores ? SPIN_US : 0) * 1000;
    n->spin_background_ns = (set >= 0 ? set : 2 * here <= cores ? SPIN_US : 0) * 1000;
}

static ts_status prepare(ts_native *n, const ts_backend_context *context)
{
    pthread_mutex_init(&n->lock, NULL);
    n->rank = context->rank;
    n->size = context->size;
    n->deadline_of = UINT64_MAX;
    n->name = ts_strdup(context->group_name);
    n->member = ts_calloc((size_t)n->size, sizeof *n->member);
    n->left = ts_calloc((size_t)n->size, sizeof *n->left);
    n->parts = ts_calloc((size_t)n->size, sizeof *n->parts);
    n->notice = ts_calloc((size_t)n->size, sizeof *n->notice);
    n->notices = ts_calloc((size_t)n->size, sizeof *n->notices);
    n->messages = ts_calloc(TS_EXCHANGES * 2 * (size_t)n->size, sizeof *n->messages);
    n->sources = ts_calloc((size_t)n->size, sizeof *n->sources);
    if (!n->name || !n->member || !n->notice || !n->parts || !n->left || !n->notices ||
        !n->messages || !n->sources)
        return ts_fail_memory((size_t)n->size * sizeof *n->notices, "a group");
    return ts_shm_init(&n->shm, n);
}

static ts_status native_init(void *self, const ts_backend_context *context)
{
    ts_native *n = self;
    TS_TRY(prepare(n, context));
    ts_engine_options opt = {.store = context->store,
                             .name = n->name,
                             .rank = n->rank,
                             .size = n->size,
                             .timeout_ms = context->timeout_ms,
                             .heap_fd = n->shm.control ? n->shm.heap->fd : -1,
                             .heap_reserved = n->shm.control ? n->shm.heap->reserved : 0,
                             .heap = n->shm.control ? n->shm.heap : NULL,
                             .on_lost = on_lost,
                             .user = n};
    ts_engine *engine;
    TS_TRY(ts_engine_new(&engine, &opt));
    n->port = ts_engine_port(engine);
    atomic_store(&n->port_for_loss, n->port);
    choose_spin(n);
    return ts_native_meet(n, context->timeout_ms);
}

_Static_assert(sizeof(ts_native_record) == sizeof(ts_split_record), "records are of one size");

static ts_status native_split(void *self, const ts_backend_context *context, void *parent,
                              const int *ranks, ts_split_record *own)
{
    ts_native *n = self, *from = parent;
    TS_TRY(prepare(n, context));
    n->number = ts_calloc((size_t)n->size, sizeof *n->number);
    n->global = ts_calloc((size_t)n->size, sizeof *n->global);
    if (!n->number || !n->global)
        return ts_fail_memory((size_t)n->size * sizeof *n->global, "a group");
    for (int q = 0; q < n->size; q++) n->global[q] = ts_native_global(from, ranks[q]);
    ts_port_options opt = {.name = n->name,
                           .rank = n->rank,
                           .size = n->size,
                           .ranks = n->global,
                           .on_lost = on_lost,
                           .user = n};
    TS_TRY(ts_port_open(&n->port, from->port, &opt));
    atomic_store(&n->port_for_loss, n->port);
    choose_spin(n);
    ts_native_present(n, (ts_native_record *)own);
    return TS_OK;
}

static ts_status native_join(void *self, const ts_split_record *all)
{
    ts_native *n = self;
    const ts_native_record *record = (const ts_native_record *)all;
    for (int q = 0; q < n->size; q++) n->number[q] = record[q].number;
    ts_port_connect(n->port, n->number);
    return ts_native_settle(n, record);
}

static void native_fini(void *self)
{
    ts_native *n = self;
    if (n->met && n->shm.size > 1 && !atomic_load(&n->broken)) ts_shm_let_others_finish(&n->shm);
    if (n->met && !n->shared && !atomic_load(&n->broken)) ts_port_set_calls(n->port, n->calls);
    ts_port_close(n->port);
    free(n->number);
    free(n->global);
    ts_shm_fini(&n->shm);
    ts_topology_fini(&n->topology);
    ts_host_round_free(n->round);
    free(n->scratch);
    free(n->room);
    free(n->sources);
    free(n->messages);
    free(n->notices);
    free(n->notice);
    free(n->parts);
    free(n->left);
    free(n->member);
    free(n->broken_text);
    free(n->name);
    pthread_mutex_destroy(&n->lock);
}

static void native_abort(void *self, ts_status status, const char *text)
{
    ts_native *n = self;
    break_group(n, status, text);
    if (n->port) ts_port_abort(n->port, status, text);
}

static bool native_is_broken(void *self)
{
    ts_native *n = self;
    return atomic_load(&n->broken) || atomic_load(&n->any_left);
}

/* ---- messages of users ----------------------------------------------------------------------- */

static ts_status native_start(void **out, void *self, const ts_p2p *p)
{
    ts_native *n = self;
    ts_message *message;
    uint64_t tag = (uint32_t)p->tag;
    ts_status status = p->sending ? ts_port_send(&message, n->port, p->peer, TS_CHANNEL_USER, tag,
                                                 p->data, p->bytes, p->done, p->user)
                                  : ts_port_recv(&message, n->port, p->peer, TS_CHANNEL_USER, tag,
                                                 p->data, p->bytes, p->done, p->user);
    if (status == TS_OK) *out = message;
    return status;
}

static ts_status native_wait(void *self, void *message, int64_t timeout_ms, int *peer)
{
    (void)self;
    /* The clock is slow beside a short message. */
    bool done = ts_message_is_done(message);
    return ts_message_wait(message, ts_deadline_in(done ? 0 : timeout_ms), peer);
}

static void native_release(void *self, void *message)
{
    (void)self;
    ts_message_free(message);
}

static bool native_help(void *self, void *message, int64_t timeout_ms)
{
    (void)self;
    if (timeout_ms >= 0) return ts_message_await(message, ts_deadline_in(timeout_ms));
    ts_message_look(message);
    return ts_message_is_done(message);
}

static const ts_backend_ops native_ops = {
    .version = TS_BACKEND_VERSION,
    .name = "native",
    .capabilities = TS_CAN_SPLIT | TS_CAN_SHRINK | TS_CAN_SEE_LOSS | TS_CAN_RESTART |
                    TS_CAN_REPEAT_BITS | TS_CAN_USE_THREADS,
    .state_size = sizeof(ts_native),
    .init = native_init,
    .split = native_split,
    .join = native_join,
    .fini = native_fini,
    .abort = native_abort,
    .is_broken = native_is_broken,
    .collective = {[TS_COLL_BARRIER] = ts_native_barrier,
                   [TS_COLL_ALL_REDUCE] = ts_native_all_reduce,
                   [TS_COLL_BROADCAST] = ts_native_broadcast,
                   [TS_COLL_ALL_GATHER] = ts_native_all_gather,
                   [TS_COLL_REDUCE_SCATTER] = ts_native_reduce_scatter,
                   [TS_COLL_REDUCE] = ts_native_reduce,
                   [TS_COLL_GATHER] = ts_native_gather,
                   [TS_COLL_SCATTER] = ts_native_scatter,
                   [TS_COLL_ALL_TO_ALL] = ts_native_all_to_all},
    .start = native_start,
    .wait = native_wait,
    .release = native_release,
    .help = native_help,
};

const ts_backend_ops *ts_backend_native(void) { return &native_ops; }

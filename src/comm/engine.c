/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's life and its thread. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/settings.h"
#include "base/thread.h"
#include "comm/bootstrap.h"
#include "comm/engine_impl.h"

#define EVENTS_AT_ONCE 64
#define WAKE_EVENT UINT64_MAX
#define GOODBYE_MS 1000 /* how long leaving waits for peers that do not read */

static _Thread_local ts_engine *this_thread; /* whose thread this is */

void ts_engine_lock(ts_engine *engine) { pthread_mutex_lock(&engine->lock); }

static void finish_all(ts_list *ended)
{
    while (!ts_list_empty(ended)) {
        ts_list *node = ended->next;
        ts_list_remove(node);
        ts_message_finish(TS_LIST_ITEM(node, ts_message, node));
    }
}

static void tell_all(ts_engine *engine, ts_list *losses)
{
    while (!ts_list_empty(losses)) {
        ts_link *link = TS_LIST_ITEM(losses->next, ts_link, loss);
        ts_list_remove(&link->loss);
        if (engine->on_lost)
            engine->on_lost(engine->user, link->peer, link->graceful,
                            link->why ? link->why : "a peer is gone");
    }
}

/* Losses are told first and on the engine's thread alone, so whoever sees a message fail finds that
 * on_lost has run. */
void ts_engine_unlock(ts_engine *engine)
{
    ts_list ended;
    bool later = this_thread == engine || (engine->thread_runs && !ts_list_empty(&engine->losses));
    ts_list_init(&ended);
    if (!later) ts_list_move(&ended, &engine->completed);
    pthread_mutex_unlock(&engine->lock);
    finish_all(&ended);
}

/* On the engine's thread: what its unlocking has put off. */
static void tell(ts_engine *engine)
{
    for (;;) {
        ts_list ended, losses;
        ts_list_init(&ended);
        ts_list_init(&losses);
        pthread_mutex_lock(&engine->lock);
        ts_list_move(&ended, &engine->completed);
        ts_list_move(&losses, &engine->losses);
        pthread_mutex_unlock(&engine->lock);
        if (ts_list_empty(&ended) && ts_list_empty(&losses)) return;
        tell_all(engine, &losses);
        finish_all(&ended);
    }
}

void ts_engine_wake(ts_engine *engine)
{
    uint64_t one = 1;
    ssize_t n = write(engine->wake, &one, sizeof one);
    (void)n; /* full: it is awake already */
}

void ts_engine_release(ts_engine *engine)
{
    if (!ts_ref_release(&engine->refs)) return;
    for (int peer = 0; engine->link && peer < engine->size; peer++)
        ts_link_free(engine->link[peer]);
    for (int i = 0; i < TS_BUCKETS; i++)
        while (!ts_list_empty(&engine->bucket[i].early))
            ts_early_free(TS_LIST_ITEM(engine->bucket[i].early.next, ts_early, node));
    if (engine->epoll >= 0) close(engine->epoll);
    if (engine->wake >= 0) close(engine->wake);
    pthread_mutex_destroy(&engine->lock);
    free(engine->link);
    free(engine->name);
    free(engine->why);
    free(engine->lost_why);
    free(engine);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void drain_wake(ts_engine *engine)
{
    uint64_t count;
    ssize_t n = read(engine->wake, &count, sizeof count);
    (void)n;
}

/* The process has ended: what it had written is still read, then the link is lost although a child
 * of it may hold the socket open. */
static void process_ended(ts_link *link)
{
    while (ts_link_read(link)) {
    }
    ts_link_lose(link, TS_ENETWORK, false, "is gone: its process has ended");
}

static void on_event(ts_engine *engine, const struct epoll_event *event)
{
    if (event->data.u64 == WAKE_EVENT) {
        drain_wake(engine);
        return;
    }
    ts_link *link = engine->link[event->data.u64 / 2];
    ts_engine_lock(engine);
    if (link->status == TS_OK) {
        if (event->data.u64 % 2)
            process_ended(link);
        else if (event->events & ~(uint32_t)EPOLLOUT)
            ts_link_read(link);
        if (event->events & EPOLLOUT) ts_link_flush(link);
    }
    ts_engine_unlock(engine);
}

/* Leaving ends when every peer has closed its side: it has then read all that was sent. */
static bool has_left(ts_engine *engine)
{
    ts_engine_lock(engine);
    bool left =
        engine->closing && (engine->peers_left == 0 || ts_deadline_passed(engine->closing_by));
    ts_engine_unlock(engine);
    return left;
}

static int time_to_sleep(ts_engine *engine)
{
    ts_engine_lock(engine);
    int ms = engine->closing ? ts_deadline_left_ms(engine->closing_by) : -1;
    ts_engine_unlock(engine);
    return ms;
}

static void progress(void *arg)
{
    ts_engine *engine = arg;
    struct epoll_event events[EVENTS_AT_ONCE];
    this_thread = engine;
    while (!has_left(engine)) {
        int n = epoll_wait(engine->epoll, events, EVENTS_AT_ONCE, time_to_sleep(engine));
        for (int i = 0; i < n; i++) {
            on_event(engine, &events[i]);
            tell(engine);
        }
    }
    tell(engine);
}

/* ---- creation -------------------------------------------------------------------------------- */

static bool make_links(ts_engine *engine)
{
    engine->link = ts_calloc((size_t)engine->size, sizeof *engine->link);
    if (!engine->link) return false;
    for (int peer = 0; peer < engine->size; peer++)
        if (!(engine->link[peer] = ts_link_new(engine, peer))) return false;
    return true;
}

static ts_status make_epoll(ts_engine *engine)
{
    engine->epoll = epoll_create1(EPOLL_CLOEXEC);
    engine->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = WAKE_EVENT};
    if (engine->epoll >= 0 && engine->wake >= 0 &&
        epoll_ctl(engine->epoll, EPOLL_CTL_ADD, engine->wake, &event) == 0)
        return TS_OK;
    return ts_fail(TS_ENETWORK, "group '%s': cannot make an event queue: %s", engine->name,
                   strerror(errno));
}

ts_engine *ts_engine_allocate(const ts_engine_options *opt)
{
    ts_engine *engine = ts_calloc(1, sizeof *engine);
    if (!engine) return NULL;
    atomic_init(&engine->refs, 1);
    pthread_mutex_init(&engine->lock, NULL);
    engine->epoll = engine->wake = -1;
    engine->rank = opt->rank;
    engine->size = opt->size;
    engine->peers_left = opt->size - 1;
    engine->on_lost = opt->on_lost;
    engine->user = opt->user;
    ts_list_init(&engine->completed);
    ts_list_init(&engine->losses);
    for (int i = 0; i < TS_BUCKETS; i++) {
        ts_list_init(&engine->bucket[i].posted);
        ts_list_init(&engine->bucket[i].early);
    }
    engine->name = ts_strdup(opt->name ? opt->name : "");
    if (engine->name && make_links(engine)) return engine;
    ts_engine_release(engine);
    return NULL;
}

/* By default a wait looks once and sleeps: a spinning thread and the engine's get in each other's
 * way on the lock, which costs more than waking up. */
static void choose_spin(ts_engine *engine)
{
    int64_t us = ts_setting_int(TS_SETTING_SPIN_US);
    engine->spin_ns = us > 0 ? us * 1000 : 0;
}

static ts_status start(ts_engine *engine, const ts_engine_options *opt)
{
    TS_TRY(make_epoll(engine));
    TS_TRY(ts_bootstrap_links(engine, opt));
    choose_spin(engine);
    if (engine->size == 1) return TS_OK;
    for (int peer = 0; peer < engine->size; peer++)
        if (peer != engine->rank) TS_TRY(ts_link_watch(engine->link[peer]));
    TS_TRY(ts_thread_start(&engine->thread, "ts-engine", progress, engine));
    engine->thread_runs = true;
    return TS_OK;
}

ts_status ts_engine_new(ts_engine **out, const ts_engine_options *opt)
{
    if (opt->size < 1 || opt->rank < 0 || opt->rank >= opt->size)
        return ts_fail(TS_EINVAL, "group '%s': rank %d is not in 0 .. %d", opt->name, opt->rank,
                       opt->size - 1);
    ts_engine *engine = ts_engine_allocate(opt);
    if (!engine) return ts_fail_memory(sizeof *engine, "the links of a group");
    ts_status status = start(engine, opt);
    if (status != TS_OK) {
        ts_engine_release(engine);
        return status;
    }
    *out = engine;
    return TS_OK;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void say(ts_engine *engine, const ts_frame *frame, const char *text)
{
    for (int peer = 0; peer < engine->size; peer++) {
        ts_link *link = engine->link[peer];
        if (link->fd < 0) continue;
        char *copy = text ? ts_strndup(text, frame->payload) : NULL;
        if (text && !copy) continue;
        if (ts_link_queue(link, frame, copy, true, NULL) == TS_OK) ts_link_flush(link);
    }
}

/* The first reason stays. */
static bool break_engine(ts_engine *engine, ts_status status, const char *text)
{
    if (engine->status != TS_OK) return false;
    engine->status = status;
    engine->why = ts_strdup(text);
    ts_match_end_all(engine, status, text);
    return true;
}

void ts_engine_abort(ts_engine *engine, ts_status status, const char *text)
{
    size_t length = strlen(text);
    ts_frame frame = {.kind = TS_FRAME_ABORT, .tag = (uint64_t)status};
    frame.payload = (uint32_t)(length < TS_ABORT_TEXT_MAX ? length : TS_ABORT_TEXT_MAX);
    ts_engine_lock(engine);
    if (break_engine(engine, status, text)) say(engine, &frame, text);
    ts_engine_unlock(engine);
}

static void leave(ts_engine *engine)
{
    char text[200];
    snprintf(text, sizeof text, "group '%s' was destroyed while this was in flight", engine->name);
    ts_frame frame = {.kind = TS_FRAME_GOODBYE};
    ts_engine_lock(engine);
    engine->closing = true;
    engine->closing_by = ts_deadline_in(GOODBYE_MS);
    break_engine(engine, TS_EABORTED, text);
    say(engine, &frame, NULL);
    ts_engine_unlock(engine);
    ts_engine_wake(engine);
}

void ts_engine_free(ts_engine *engine)
{
    if (!engine) return;
    leave(engine);
    if (engine->thread_runs) pthread_join(engine->thread, NULL);
    engine->thread_runs = false;
    for (int peer = 0; peer < engine->size; peer++) {
        ts_link *link = engine->link[peer];
        ts_engine_lock(engine);
        ts_link_close(link);
        ts_engine_unlock(engine);
    }
    ts_engine_release(engine);
}

/* ---- questions ------------------------------------------------------------------------------- */

bool ts_engine_same_host(const ts_engine *engine, int peer)
{
    return engine->link[peer]->same_host;
}

int ts_engine_peer_heap(const ts_engine *engine, int peer, size_t *reserved)
{
    const ts_link *link = engine->link[peer];
    if (reserved) *reserved = link->heap_reserved;
    return link->heap_fd;
}

ts_status ts_engine_peer_status(ts_engine *engine, int peer)
{
    ts_link *link = engine->link[peer];
    ts_engine_lock(engine);
    ts_status status = link->status;
    if (status != TS_OK) ts_fail_again(status, link->why ? link->why : "a peer is gone");
    ts_engine_unlock(engine);
    return status;
}

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
#include "comm/mail.h"

#define SPIN_US 200
#define GOODBYE_MS 1000 /* how long leaving waits for peers that do not read */

static _Thread_local ts_engine *this_thread; /* whose thread this is */

void ts_engine_enter_thread(ts_engine *engine) { this_thread = engine; }

void ts_engine_lock(ts_engine *engine) { pthread_mutex_lock(&engine->lock); }

static void finish_all(ts_list *ended)
{
    while (!ts_list_empty(ended)) {
        ts_list *node = ended->next;
        ts_list_remove(node);
        ts_message_finish(TS_LIST_ITEM(node, ts_message, node));
    }
}

bool ts_engine_defers(const ts_engine *engine)
{
    return this_thread == engine || (engine->thread_runs && engine->untold > 0);
}

/* Losses are told first and on the engine's thread alone, so whoever sees a message fail finds that
 * on_lost has run. */
void ts_engine_unlock(ts_engine *engine)
{
    ts_list ended;
    bool later = ts_engine_defers(engine);
    ts_list_init(&ended);
    if (!later) ts_list_move(&ended, &engine->completed);
    pthread_mutex_unlock(&engine->lock);
    finish_all(&ended);
}

void ts_engine_tell(ts_engine *engine)
{
    for (;;) {
        ts_list ended;
        ts_list_init(&ended);
        pthread_mutex_lock(&engine->lock);
        ts_list_move(&ended, &engine->completed);
        bool untold = engine->untold > 0;
        pthread_mutex_unlock(&engine->lock);
        if (ts_list_empty(&ended) && !untold) return;
        if (untold) ts_port_tell(engine);
        finish_all(&ended);
    }
}

void ts_engine_release(ts_engine *engine)
{
    if (!ts_ref_release(&engine->refs)) return;
    ts_mail_close(engine);
    ts_dialer_free(engine);
    for (int peer = 0; engine->link && peer < engine->size; peer++)
        ts_link_free(engine->link[peer]);
    for (int i = 0; i < TS_BUCKETS; i++)
        while (!ts_list_empty(&engine->bucket[i].early))
            ts_early_free(TS_LIST_ITEM(engine->bucket[i].early.next, ts_early, node));
    if (engine->epoll >= 0) close(engine->epoll);
    if (engine->wake >= 0) close(engine->wake);
    if (engine->kick >= 0) close(engine->kick);
    pthread_mutex_destroy(&engine->lock);
    pthread_mutex_destroy(&engine->tell);
    free(engine->link);
    free(engine->name);
    free(engine);
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
    engine->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (engine->epoll >= 0 && engine->wake >= 0 && engine->kick >= 0)
        return ts_progress_watch(engine);
    return ts_fail(TS_ENETWORK, "group '%s': cannot make an event queue: %s", engine->name,
                   strerror(errno));
}

static bool make_first_port(ts_engine *engine, const ts_engine_options *opt)
{
    ts_port_options first = {.name = opt->name,
                             .rank = opt->rank,
                             .size = opt->size,
                             .on_lost = opt->on_lost,
                             .user = opt->user};
    engine->first = ts_port_new(engine, &first);
    if (!engine->first) return false;
    ts_list_push(&engine->port[0], &engine->first->node);
    engine->ports = 1;
    return true;
}

ts_engine *ts_engine_allocate(const ts_engine_options *opt)
{
    ts_engine *engine = ts_calloc(1, sizeof *engine);
    if (!engine) return NULL;
    atomic_init(&engine->refs, 1);
    pthread_mutex_init(&engine->lock, NULL);
    pthread_mutex_init(&engine->tell, NULL);
    engine->epoll = engine->wake = engine->kick = -1;
    engine->rank = opt->rank;
    engine->size = opt->size;
    ts_list_init(&engine->completed);
    for (int i = 0; i < TS_PORT_BUCKETS; i++) ts_list_init(&engine->port[i]);
    for (int i = 0; i < TS_BUCKETS; i++) {
        ts_list_init(&engine->bucket[i].posted);
        ts_list_init(&engine->bucket[i].early);
        ts_list_init(&engine->sent[i]);
    }
    engine->name = ts_strdup(opt->name ? opt->name : "");
    bool made = engine->name && make_links(engine) && make_first_port(engine, opt);
    ts_engine_release(engine); /* the port has its own */
    return made ? engine : NULL;
}

static int count_here(const ts_engine *engine)
{
    int here = 0;
    const char *own = engine->link[engine->rank]->host;
    for (int peer = 0; peer < engine->size; peer++)
        here += strcmp(engine->link[peer]->host, own) == 0;
    return here;
}

/* A wait spins only when the ranks of this machine fit its cores. */
static void choose_spin(ts_engine *engine)
{
    int64_t us = ts_setting_int(TS_SETTING_SPIN_US);
    engine->ranks_here = count_here(engine);
    if (us < 0) us = engine->ranks_here <= ts_host_cores() ? SPIN_US : 0;
    engine->spin_ns = us * 1000;
}

static ts_status start(ts_engine *engine, const ts_engine_options *opt)
{
    TS_TRY(make_epoll(engine));
    TS_TRY(ts_bootstrap_links(engine, opt));
    choose_spin(engine);
    if (engine->size == 1) return TS_OK;
    for (int peer = 0; peer < engine->size; peer++)
        if (peer != engine->rank) TS_TRY(ts_link_watch(engine->link[peer]));
    TS_TRY(ts_thread_start(&engine->thread, "ts-engine", ts_progress_thread, engine));
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
        ts_port_release(engine->first);
        return status;
    }
    *out = engine;
    return TS_OK;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void say_goodbye(ts_engine *engine)
{
    ts_frame frame = {.kind = TS_FRAME_GOODBYE};
    for (int peer = 0; peer < engine->size; peer++) {
        ts_link *link = engine->link[peer];
        for (int i = 0; link; link = ts_link_socket(engine->link[peer], ++i)) {
            if (link->fd < 0 && !link->opening) continue;
            if (ts_link_queue(link, &frame, NULL, true, NULL) == TS_OK) ts_link_flush(link);
        }
    }
}

static void leave(ts_engine *engine)
{
    ts_engine_lock(engine);
    engine->closing = true;
    engine->closing_by = ts_deadline_in(GOODBYE_MS);
    say_goodbye(engine);
    ts_engine_unlock(engine);
    ts_engine_wake(engine);
}

void ts_engine_end(ts_engine *engine)
{
    leave(engine);
    if (engine->thread_runs) pthread_join(engine->thread, NULL);
    engine->thread_runs = false;
    for (int peer = 0; peer < engine->size; peer++) {
        ts_link *link = engine->link[peer];
        ts_engine_lock(engine);
        ts_link_close(link);
        ts_engine_unlock(engine);
    }
}

void ts_engine_free(ts_engine *engine)
{
    if (engine) ts_port_close(engine->first);
}

ts_traffic ts_port_traffic(ts_port *port)
{
    ts_engine *engine = port->engine;
    ts_engine_lock(engine);
    ts_traffic traffic = engine->traffic;
    ts_engine_unlock(engine);
    return traffic;
}

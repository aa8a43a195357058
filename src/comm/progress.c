/* SPDX-License-Identifier: Apache-2.0 */
/* Who moves bytes.
 *
 * Whoever holds the lock may, but two threads that poll the same links get in each other's way, and
 * every thread that wakes up for an event costs microseconds.  So one of the callers that wait
 * leads: it takes what epoll reports, for all links and everybody's messages, while other callers
 * sleep and the engine's thread is parked.  The engine's thread works when nobody has led for
 * PARK_MS: until then a group that is in use costs no switch between threads. */
#include <sched.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/thread.h"
#include "comm/futex.h"
#include "comm/mail.h"

enum {
    EVENTS_AT_ONCE = 32,
    PARK_MS = 1,
    LONGEST_PARK_MS = 1000, /* while one caller leads on and on */
    PEER_LOOKS = 30,
    PEER_LOOKS_SHARED = 2, /* of a caller that shares its core */
    YIELDS = 20            /* looks of a caller that shares its core, before it sleeps */
};

#define WAKE_EVENT UINT64_MAX       /* for the engine's thread */
#define KICK_EVENT (UINT64_MAX - 1) /* for a leader that sleeps */

static _Thread_local ts_message *leading_for; /* the message for which this thread leads */

ts_status ts_progress_watch(ts_engine *engine)
{
    struct epoll_event wake = {.events = EPOLLIN, .data.u64 = WAKE_EVENT};
    struct epoll_event kick = {.events = EPOLLIN, .data.u64 = KICK_EVENT};
    if (epoll_ctl(engine->epoll, EPOLL_CTL_ADD, engine->wake, &wake) == 0 &&
        epoll_ctl(engine->epoll, EPOLL_CTL_ADD, engine->kick, &kick) == 0)
        return TS_OK;
    return ts_fail(TS_ENETWORK, "group '%s': cannot watch an event queue", engine->name);
}

static void signal_event(int fd)
{
    uint64_t one = 1;
    ssize_t n = write(fd, &one, sizeof one);
    (void)n; /* full: it is readable already */
}

static void drain(int fd)
{
    uint64_t count;
    ssize_t n = read(fd, &count, sizeof count);
    (void)n;
}

static void unpark(ts_engine *engine)
{
    if (atomic_exchange(&engine->thread_state, TS_THREAD_NUDGED) == TS_THREAD_PARKED)
        ts_futex_wake(&engine->thread_state, 0);
}

void ts_engine_wake(ts_engine *engine)
{
    unpark(engine);
    signal_event(engine->wake);
}

/* ---- events ---------------------------------------------------------------------------------- */

/* The process has ended: what it had written is still read, then the link is lost although a child
 * of it may hold the socket open. */
static void process_ended(ts_link *link)
{
    while (ts_link_read(link) || (link->mail && link->status == TS_OK && ts_mail_read(link))) {
    }
    ts_link_lose(link, TS_ENETWORK, false, "is gone: its process has ended");
}

static void on_link_event(ts_engine *engine, const struct epoll_event *event)
{
    if (event->data.u64 >= TS_DIALER_EVENT) {
        ts_engine_lock(engine);
        ts_dialer_event(engine, event->data.u64);
        ts_engine_unlock(engine);
        return;
    }
    ts_link *trunk = engine->link[event->data.u64 / 16];
    int socket = (int)(event->data.u64 % 16);
    ts_link *link = socket == TS_PROCESS_SOCKET ? trunk : ts_link_socket(trunk, socket);
    ts_engine_lock(engine);
    if (link->status == TS_OK) {
        if (socket == TS_PROCESS_SOCKET)
            process_ended(link);
        else if (event->events & ~(uint32_t)EPOLLOUT)
            ts_link_read(link);
        if (event->events & EPOLLOUT) ts_link_flush(link);
    }
    ts_engine_unlock(engine);
}

/* ---- callers --------------------------------------------------------------------------------- */

/* One look at all links, for at most ms. */
static void look(ts_engine *engine, int ms)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    ts_mail_sleep sleep = {.leads = true};
    ms = ts_mail_before_sleep(engine, ms, &sleep);
    if (ts_message_is_done(leading_for)) ms = 0;
    int n = epoll_wait(engine->epoll, events, EVENTS_AT_ONCE, ms);
    ts_mail_after_sleep(engine, &sleep);
    for (int i = 0; i < n; i++) {
        if (events[i].data.u64 == KICK_EVENT)
            drain(engine->kick);
        else if (events[i].data.u64 == WAKE_EVENT)
            sched_yield(); /* the engine's thread is on its way */
        else
            on_link_event(engine, &events[i]);
    }
}

/* Reads the link from which the message comes without asking epoll first. */
static void look_at_peer(ts_message *m)
{
    ts_engine *engine = m->engine;
    ts_engine_lock(engine);
    if (m->in_flight && m->peer >= 0 && engine->link[m->peer]->fd >= 0)
        ts_link_read_for(engine->link[m->peer], m);
    ts_engine_unlock(engine);
}

static bool look_and_spin(ts_message *m)
{
    ts_engine *engine = m->engine;
    if (ts_mail_carries(m)) return ts_mail_spin(m);
    int64_t until = engine->spin_ns > 0 ? ts_now_ns() + engine->spin_ns : 0;
    int yields = until ? 0 : YIELDS;
    for (int looks = until ? PEER_LOOKS : PEER_LOOKS_SHARED; looks > 0; looks--) {
        look_at_peer(m);
        if (ts_message_is_done(m)) return true;
    }
    do {
        look(engine, 0);
        if (ts_message_is_done(m)) return true;
        if (yields > 0) sched_yield();
    } while (until ? ts_now_ns() < until : yields-- > 0);
    return false;
}

/* Sleeps on all links at once. */
static bool look_and_sleep(ts_message *m, ts_deadline deadline)
{
    uint32_t state = TS_MESSAGE_PENDING;
    atomic_compare_exchange_strong(&m->state, &state, TS_MESSAGE_LED);
    while (!ts_message_is_done(m)) {
        int left = ts_deadline_left_ms(deadline);
        if (left == 0) return false;
        look(m->engine, left);
    }
    return true;
}

/* Sleeps until another thread has ended the message. */
static bool follow(ts_message *m, ts_deadline deadline)
{
    for (;;) {
        uint32_t state = TS_MESSAGE_PENDING;
        atomic_compare_exchange_strong(&m->state, &state, TS_MESSAGE_AWAITED);
        if (state == TS_MESSAGE_DONE) return true;
        int left = ts_deadline_left_ms(deadline);
        if (left == 0) return false;
        int64_t ms = left > 0 ? left : 60000;
        ts_futex_wait(&m->state, TS_MESSAGE_AWAITED, ms * 1000000, 0);
    }
}

static bool take_lead(ts_engine *engine)
{
    uint32_t nobody = 0;
    return engine->thread_runs && atomic_compare_exchange_strong(&engine->leader, &nobody, 1);
}

static bool lead(ts_message *m, ts_deadline deadline)
{
    ts_engine *engine = m->engine;
    ts_message *outer = leading_for;
    leading_for = m;
    ts_mail_begin_looking(engine);
    bool done = look_and_spin(m) || look_and_sleep(m, deadline);
    leading_for = outer;
    uint32_t led = atomic_load_explicit(&engine->led, memory_order_relaxed);
    atomic_store_explicit(&engine->led, led + 1, memory_order_relaxed); /* only leaders do */
    atomic_store(&engine->leader, 0);
    /* Either we see the follower, or it sees that nobody leads. */
    if (atomic_load(&engine->followers) > 0 || atomic_load(&engine->parked_long)) unpark(engine);
    /* Unless it is parked it may sleep on the links with nobody to wake it for mail. */
    if (engine->office && atomic_load(&engine->thread_state) != TS_THREAD_PARKED)
        ts_engine_wake(engine);
    return done;
}

bool ts_message_await(ts_message *m, ts_deadline deadline)
{
    ts_engine *engine = m->engine;
    if (ts_message_is_done(m)) return true;
    if (take_lead(engine)) return lead(m, deadline);
    atomic_fetch_add(&engine->followers, 1);
    bool done = take_lead(engine) ? lead(m, deadline) : follow(m, deadline);
    atomic_fetch_sub(&engine->followers, 1);
    return done;
}

void ts_message_look(ts_message *m)
{
    if (ts_message_is_done(m)) return;
    if (ts_mail_carries(m))
        ts_mail_look(m->engine);
    else
        look_at_peer(m);
}

void ts_message_wake_owner(ts_message *message)
{
    int kick = message->engine->kick;
    bool own = leading_for == message;
    uint32_t state = atomic_exchange(&message->state, TS_MESSAGE_DONE);
    /* The owner may have freed it by now; to wake whoever sleeps on its address does no harm. */
    if (state == TS_MESSAGE_AWAITED) ts_futex_wake(&message->state, 0);
    if (state == TS_MESSAGE_LED && !own) signal_event(kick);
}

/* ---- the engine's thread --------------------------------------------------------------------- */

static void park(ts_engine *engine, int ms)
{
    uint32_t runs = TS_THREAD_RUNS;
    atomic_store(&engine->parked_long, ms > PARK_MS);
    if (atomic_compare_exchange_strong(&engine->thread_state, &runs, TS_THREAD_PARKED))
        ts_futex_wait(&engine->thread_state, TS_THREAD_PARKED, (int64_t)ms * 1000000, 0);
    atomic_store(&engine->parked_long, false);
    atomic_store(&engine->thread_state, TS_THREAD_RUNS);
}

/* Whether callers do the work: one leads, or one has since *seen. */
static bool is_led(ts_engine *engine, uint32_t *seen)
{
    uint32_t led = atomic_load(&engine->led);
    bool lately = led != *seen && atomic_load(&engine->followers) == 0;
    *seen = led;
    return atomic_load(&engine->leader) || lately;
}

static bool is_connected(const ts_engine *engine)
{
    for (int peer = 0; peer < engine->size; peer++)
        if (engine->link[peer]->fd >= 0 || engine->link[peer]->opening) return true;
    return false;
}

/* Leaving ends when every peer has closed its side: it has then read all that was sent. */
static bool has_left(ts_engine *engine, int *ms)
{
    ts_engine_lock(engine);
    bool closing = engine->closing;
    bool left = closing && (!is_connected(engine) || ts_deadline_passed(engine->closing_by));
    *ms = closing ? ts_deadline_left_ms(engine->closing_by) : -1;
    ts_engine_unlock(engine);
    return left;
}

static void work(ts_engine *engine, int ms)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    ts_mail_sleep sleep = {.leads = false};
    ms = ts_mail_before_sleep(engine, ms, &sleep);
    ts_engine_tell(engine);
    int n = epoll_wait(engine->epoll, events, EVENTS_AT_ONCE, ms);
    ts_mail_after_sleep(engine, &sleep);
    ts_engine_tell(engine);
    for (int i = 0; i < n; i++) {
        if (events[i].data.u64 == WAKE_EVENT)
            drain(engine->wake);
        else if (atomic_load(&engine->leader))
            continue; /* who leads sees it too */
        else if (events[i].data.u64 == KICK_EVENT)
            drain(engine->kick);
        else
            on_link_event(engine, &events[i]);
        ts_engine_tell(engine);
    }
}

void ts_progress_thread(void *arg)
{
    ts_engine *engine = arg;
    uint32_t seen = atomic_load(&engine->led);
    int ms, park_ms = PARK_MS;
    ts_engine_enter_thread(engine);
    while (!has_left(engine, &ms)) {
        uint32_t before = seen;
        if (is_led(engine, &seen)) {
            park_ms = seen != before ? PARK_MS : 2 * park_ms;
            if (park_ms > LONGEST_PARK_MS) park_ms = LONGEST_PARK_MS;
            park(engine, park_ms);
            drain(engine->wake);
        } else {
            work(engine, ms);
        }
        ts_engine_tell(engine);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The mail: who looks, and who wakes whom. */
#include <sched.h>
#include <sys/socket.h>

#include "base/thread.h"
#include "comm/mail.h"

enum {
    LINGER_NS = 50 * 1000, /* whoever would sleep goes on looking while a transfer is under way */
    YIELD_NS = 100 * 1000, /* how long a wait that must not spin passes on the core */
    LOOKS = 32 /* between two looks at the clock.  A rank that must not spin passes its core on
                  then: others get it soon, yet two that are on cores at once can talk */
};

/* ---- one turn -------------------------------------------------------------------------------- */

static bool transfers(const ts_link *link)
{
    return !ts_list_empty(&link->receives) || !ts_list_empty(&link->sends);
}

static bool has_work(const ts_link *link)
{
    if (link->first) return true;
    for (ts_list *node = link->receives.next; node != &link->receives; node = node->next)
        if (TS_LIST_ITEM(node, ts_message, node)->place >= 0) return true;
    return false;
}

bool ts_mail_poll(ts_engine *engine)
{
    ts_mail_office *office = engine->office;
    bool moved = false, busy = false;
    for (int i = 0; i < office->count; i++) {
        ts_link *link = office->link[i];
        if (link->status != TS_OK) continue;
        moved |= ts_mail_read(link);
        if (!ts_list_empty(&link->receives)) moved |= ts_mail_pull(link);
        if (link->first) moved |= ts_mail_flush(link);
        busy |= has_work(link);
    }
    atomic_store_explicit(&office->busy, busy, memory_order_relaxed);
    return moved;
}

static bool has_mail(const ts_mail *mail)
{
    const ts_cell *cell = atomic_load_explicit(&mail->due, memory_order_relaxed);
    if (!cell) return atomic_load_explicit(&mail->box->to[mail->self].ring, memory_order_relaxed);
    return atomic_load_explicit(&cell->ready, memory_order_relaxed) ==
           atomic_load_explicit(&mail->due_number, memory_order_relaxed);
}

/* Without lock: is there anything to do? */
static bool due(const ts_mail_office *office)
{
    if (atomic_load_explicit(&office->busy, memory_order_relaxed)) return true;
    for (int i = 0; i < office->count; i++)
        if (has_mail(office->link[i]->mail)) return true;
    return false;
}

/* ---- waking ---------------------------------------------------------------------------------- */

void ts_mail_wake_peer(ts_link *link)
{
    ts_mail *mail = link->mail;
    /* What was written is sequentially consistent, as is the sleeper's last look: either it sees
     * that, or we see it asleep. */
    uint32_t asleep = atomic_load(&mail->box->asleep);
    if (asleep == 0 || asleep == mail->woken || link->fd < 0) return;
    char byte = 0;
    mail->woken = asleep;
    ssize_t n = send(link->fd, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)n; /* full: it has enough to wake up to */
}

void ts_mail_remember(ts_engine *engine)
{
    ts_mail_office *office = engine->office;
    atomic_store_explicit(&office->busy, true, memory_order_relaxed);
    if (atomic_load(&office->box->asleep) != 0) ts_engine_wake(engine);
}

/* ---- looking and sleeping -------------------------------------------------------------------- */

void ts_mail_look(ts_engine *engine)
{
    if (!due(engine->office) || pthread_mutex_trylock(&engine->lock) != 0) return;
    ts_mail_poll(engine);
    ts_engine_unlock(engine);
}

bool ts_mail_carries(const ts_message *message)
{
    const ts_engine *engine = message->engine;
    if (!engine->office) return false;
    return message->any ? engine->office->count == engine->size - 1
                        : engine->link[message->peer]->mail != NULL;
}

bool ts_mail_spin(ts_message *message)
{
    ts_engine *engine = message->engine;
    bool spins = engine->spin_ns > 0;
    int64_t limit_ns = spins ? engine->spin_ns : YIELD_NS, began = 0, now = 0;
    for (unsigned i = 1; !ts_message_is_done(message); i++) {
        ts_mail_look(engine);
        ts_pause_core();
        if (i % LOOKS != 0) continue;
        if (!spins) sched_yield();
        now = ts_now_ns();
        if (began == 0) began = now;
        if (now - began >= limit_ns) return ts_message_is_done(message);
    }
    return true;
}

void ts_mail_begin_looking(ts_engine *engine)
{
    if (engine->office && atomic_load(&engine->office->box->asleep) != 0)
        atomic_store(&engine->office->box->asleep, 0);
}

static bool lingers(const ts_mail_office *office)
{
    if (ts_now_ns() - office->moved_ns > LINGER_NS) return false;
    for (int i = 0; i < office->count; i++)
        if (office->link[i]->status == TS_OK && transfers(office->link[i])) return true;
    return false;
}

/* The engine's thread may find that a leader sleeps: peers wake that one then. */
static uint32_t ask_to_be_woken(ts_mail_office *office, bool leads)
{
    uint32_t awake = 0;
    if (++office->sleeps == 0) office->sleeps = 1;
    if (leads)
        atomic_store(&office->box->asleep, office->sleeps);
    else if (!atomic_compare_exchange_strong(&office->box->asleep, &awake, office->sleeps))
        return 0;
    return office->sleeps;
}

static bool may_sleep(ts_engine *engine, ts_mail_sleep *sleep)
{
    ts_mail_office *office = engine->office;
    bool moved = ts_mail_poll(engine);
    if (moved) office->moved_ns = ts_now_ns();
    if (moved || lingers(office)) return false;
    sleep->number = ask_to_be_woken(office, sleep->leads);
    /* What peers wrote before is looked at once more. */
    return !ts_mail_poll(engine) && !due(office);
}

int ts_mail_before_sleep(ts_engine *engine, int ms, ts_mail_sleep *sleep)
{
    if (!engine->office || ms == 0) return ms;
    ts_engine_lock(engine);
    bool sleeps = may_sleep(engine, sleep);
    ts_engine_unlock(engine);
    if (sleeps) return ms;
    ts_mail_after_sleep(engine, sleep);
    sched_yield();
    return 0;
}

void ts_mail_after_sleep(ts_engine *engine, const ts_mail_sleep *sleep)
{
    if (!engine->office) return;
    uint32_t number = sleep->number;
    if (number) atomic_compare_exchange_strong(&engine->office->box->asleep, &number, 0);
    ts_mail_look(engine);
}

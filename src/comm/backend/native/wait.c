/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for a word of a peer: spin, yield, sleep; and who is missing when the time is over. */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/thread.h"
#include "comm/backend/native/native.h"
#include "comm/futex.h"
#include "comm/recorder.h"

enum {
    SLEEP_NS = 20000000, /* a loss or an abort is noticed after this at the latest */
    NAP_NS = 100000,     /* the first sleep; each is twice as long as the one before */
    YIELD_NS = 500000,   /* ranks that share cores pass them on for this long */
    YIELD_BACKGROUND_NS = 20000,
    SPINS = 64 /* looks between two looks at the clock */
};

void ts_shm_publish(ts_shm *s, _Atomic uint64_t *word, uint64_t value)
{
    /* Sequentially consistent, as is the sleeper's: either it sees the value or we see it asleep.
     * Ranks that have cores of their own spin before they sleep; they do not wait here until the
     * store has reached the others, and a wake-up that is missed so is made up for by short naps.
     */
    if (s->native->spin_ns > 0)
        atomic_store_explicit(word, value, memory_order_release);
    else
        atomic_store(word, value);
    for (int q = 0; q < s->size; q++) {
        if (q == s->rank || !atomic_load(&s->peer[q].control->asleep)) continue;
        ts_futex_wake(ts_futex_low(word), 1);
        return;
    }
}

static char process_state(int pid)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *from = fopen(path, "re");
    size_t got = from ? fread(line, 1, sizeof line - 1, from) : 0;
    if (from) fclose(from);
    line[got] = '\0';
    const char *end = strrchr(line, ')');
    return end && end[1] ? end[2] : '\0';
}

/* "; its process is stopped; is in recv #2 of group 'default', begun 3.2 s ago": what can be seen of a
 * rank of this machine, or nothing. */
static void look_at(char *text, size_t size, const ts_native *n, int pid, int rank)
{
    char words[200] = "", state = process_state(pid);
    bool thread = pid == getpid();
    text[0] = '\0';
    /* Ranks as threads have their recorders side by side, under their numbers in the default group.
     */
    if (thread && strcmp(n->name, "default") != 0) return;
    const ts_recorder_memory *m = ts_recorder_map(pid, thread ? rank : -1, 0);
    if (m && !ts_recorder_last_words(words, sizeof words, m)) words[0] = '\0';
    ts_recorder_unmap(m);
    bool stopped = !thread && (state == 'T' || state == 't');
    if (stopped || *words)
        snprintf(text, size, "; %s%s%s", stopped ? "its process is stopped" : "",
                 stopped && *words ? "; " : "", words);
}

/* " #6"; nothing where operations of the host have other numbers than those of the group. */
static const char *number_of(const ts_shm *s, uint64_t last, char number[24])
{
    number[0] = '\0';
    if (s->native->shared) snprintf(number, 24, " #%llu", (unsigned long long)last);
    return number;
}

/* "rank 1 (last: broadcast #6, finished)" for the ranks that have not arrived, or that lag behind
 * in the middle of the operation. */
static void list_missing(const ts_shm *s, const ts_coll *coll, int q, char *text, size_t size)
{
    size_t used = 0;
    char number[24], seen[300];
    bool arrived_all = true;
    text[0] = '\0';
    for (int r = 0; r < s->size; r++) {
        const ts_control *c = s->peer[r].control;
        uint64_t even = atomic_load(&c->slot[0].notice.header.sequence);
        uint64_t odd = atomic_load(&c->slot[1].notice.header.sequence);
        uint64_t last = even > odd ? even : odd;
        if (last >= coll->sequence || used >= size) continue;
        arrived_all = false;
        const char *state = atomic_load(&c->finished) >= last ? "finished" : "still in it";
        const ts_header *h = &c->slot[last & 1].notice.header;
        used += (size_t)snprintf(text + used, size - used, "%srank %d", used ? ", " : "",
                                 ts_native_global(s->native, s->member[r]));
        if (used >= size) break;
        look_at(seen, sizeof seen, s->native, (int)c->pid, s->member[r]);
        if (last == 0)
            used += (size_t)snprintf(text + used, size - used, " (no operation yet%s)", seen);
        else
            used += (size_t)snprintf(text + used, size - used, " (last: %s%s, %s%s)",
                                     ts_collective_name((ts_collective)h->op),
                                     number_of(s, last, number), state, seen);
    }
    if (arrived_all)
        snprintf(text, size, "rank %d (arrived, but has not finished its part)",
                 ts_native_global(s->native, s->member[q]));
}

static ts_status give_up(ts_shm *s, const ts_coll *coll, int q)
{
    char missing[1024];
    list_missing(s, coll, q, missing, sizeof missing);
    ts_status status =
        ts_native_fail(s->native, coll, TS_ETIMEOUT, "not done within %lld ms; waiting for %s",
                       (long long)coll->timeout_ms, missing);
    return ts_native_give_up(s->native, status);
}

static bool reached(const _Atomic uint64_t *word, uint64_t target)
{
    return atomic_load_explicit(word, memory_order_acquire) >= target;
}

static bool look(const _Atomic uint64_t *word, uint64_t target)
{
    for (int i = 0; i < SPINS; i++) {
        if (reached(word, target)) return true;
        ts_pause_core();
    }
    return false;
}

/* Looks until the time is over. */
static bool spin(const _Atomic uint64_t *word, uint64_t target, int64_t until_ns)
{
    do {
        if (look(word, target)) return true;
    } while (ts_now_ns() < until_ns);
    return false;
}

static bool yield(const _Atomic uint64_t *word, uint64_t target, int64_t until_ns)
{
    do {
        if (reached(word, target)) return true;
        sched_yield();
    } while (ts_now_ns() < until_ns);
    return reached(word, target);
}

static void sleep_on(ts_shm *s, const _Atomic uint64_t *word, uint64_t target, int64_t ns)
{
    atomic_store(&s->control->asleep, 1);
    uint64_t now = atomic_load(word);
    if (now < target) ts_futex_wait(ts_futex_low(word), (uint32_t)now, ns, 1);
    atomic_store(&s->control->asleep, 0);
}

ts_status ts_shm_wait_slow(ts_shm *s, const ts_coll *coll, int q, const _Atomic uint64_t *word,
                           uint64_t target)
{
    int64_t spin_ns = coll->background ? s->native->spin_background_ns : s->native->spin_ns;
    /* Whoever shares its core must not look for long: the peer may be waiting for the core. */
    if (spin_ns > 0 && look(word, target)) return TS_OK;
    int64_t begin = ts_now_ns();
    int64_t yield_ns = coll->background ? YIELD_BACKGROUND_NS : YIELD_NS;
    ts_deadline deadline = ts_native_later(s->native, coll, s->native->agreed ? 1 : 0);
    if (spin_ns > 0 && spin(word, target, begin + spin_ns)) return TS_OK;
    if (yield(word, target, begin + spin_ns + yield_ns)) return TS_OK;
    for (int64_t nap = NAP_NS; !reached(word, target);
         nap = nap < SLEEP_NS / 2 ? 2 * nap : SLEEP_NS) {
        if (atomic_load(&s->native->broken)) {
            /* The peer may have arrived and left in between. */
            if (reached(word, target)) break;
            return ts_native_health(s->native, coll);
        }
        if (atomic_load(&s->native->any_left)) {
            bool gone = atomic_load(&s->native->left[s->member[q]]);
            if (reached(word, target)) break;
            if (gone)
                return ts_native_give_up(s->native,
                                         ts_native_check_left(s->native, coll, s->member[q]));
        }
        int64_t left = deadline.at_ns == INT64_MAX ? nap : deadline.at_ns - ts_now_ns();
        if (left <= 0) return give_up(s, coll, q);
        sleep_on(s, word, target, left < nap ? left : nap);
    }
    return TS_OK;
}

ts_status ts_shm_wait_all(ts_shm *s, const ts_coll *coll, size_t member, uint64_t target)
{
    for (int q = 0; q < s->size; q++) {
        const char *block = (const char *)s->peer[q].control;
        const _Atomic uint64_t *word = (const _Atomic uint64_t *)(const void *)(block + member);
        if (q != s->rank) TS_TRY(ts_shm_wait(s, coll, q, word, target));
    }
    return TS_OK;
}

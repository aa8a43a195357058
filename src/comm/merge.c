/* SPDX-License-Identifier: Apache-2.0 */
/* Several groups become one.
 *
 * The groups meet in rounds.  The state of the store is "round seats size bad writer": how many ranks have
 * taken their seats in the round, how many there are to be (0: not known yet), and whether a group has come with bad
 * arguments.  The first rank of each group takes the seats of its group; the one that takes the last
 * seat, or finds that the groups do not fit, posts the verdict for which all ranks wait. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/process_group.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "comm/group_plan.h"

#define STATE "tessera/merge/state"

typedef struct merge {
    const char *what;
    ts_group *group;
    ts_store *store;
    int size;
    int64_t timeout_ms;
    const void *site;
    long long number; /* of this call, not likely that of any other one */
} merge;

typedef struct round_state {
    long long round, seats, size, bad;
    long long writer; /* tells apart two that change it in the same way */
} round_state;

/* What the first rank of a group tells the others. */
typedef struct claim {
    int64_t round, seat;
    int32_t status;
    char text[500];
} claim;

static void verdict_key(char key[64], int64_t round)
{
    snprintf(key, 64, "tessera/merge/%lld/verdict", (long long)round);
}

/* ---- the state ------------------------------------------------------------------------------- */

static void print_state(char out[128], const round_state *s)
{
    snprintf(out, 128, "%lld %lld %lld %lld %lld", s->round, s->seats, s->size, s->bad, s->writer);
}

/* Changes the state from `from` to `to`, and gives what it is then. */
static ts_status change(const merge *m, const char *from, const round_state *to, round_state *now)
{
    char text[128], is[128];
    void *value;
    size_t size;
    print_state(text, to);
    TS_TRY(ts_store_compare_set(m->store, STATE, from, strlen(from), text, strlen(text), &value,
                                &size));
    snprintf(is, sizeof is, "%.*s", (int)size, (const char *)value);
    free(value);
    if (sscanf(is, "%lld %lld %lld %lld %lld", &now->round, &now->seats, &now->size, &now->bad,
               &now->writer) == 5)
        return TS_OK;
    return ts_fail(TS_ESTORE, "%s: the store has '%s' at " STATE, m->what, is);
}

static bool same(const round_state *a, const round_state *b)
{
    return a->round == b->round && a->seats == b->seats && a->size == b->size && a->bad == b->bad &&
           a->writer == b->writer;
}

/* What the state becomes with this group, which has these seats then; *verdict not TS_OK, or next of
 * another round than the seats: the round is over. */
static round_state with_group(const merge *m, const round_state *now, bool bad, claim *seats,
                              ts_status *verdict)
{
    round_state next = *now;
    bool stale = !bad && now->size == 0 && now->seats + m->group->size > m->size;
    if (stale) next = (round_state){.round = now->round + 1}; /* groups that were bad all alike */
    seats->round = next.round;
    seats->seat = next.seats;
    next.seats += m->group->size;
    next.bad = next.bad || bad;
    if (next.size == 0 && !bad) next.size = m->size;
    bool full = next.size > 0 && next.seats >= next.size;
    *verdict = TS_OK;
    if (!bad && (next.size != m->size || next.seats > next.size))
        *verdict = ts_fail(TS_EMISMATCH,
                           "%s: a group of %d ranks that asks for %d in all comes to %lld of %lld",
                           m->what, m->group->size, m->size, (long long)seats->seat, next.size);
    else if (next.bad && full)
        *verdict =
            ts_fail(TS_EREMOTE, "%s: a rank of another group came with bad arguments", m->what);
    if (*verdict != TS_OK || full) next = (round_state){.round = next.round + 1};
    next.writer = m->number;
    return next;
}

/* Takes the group's seats. */
static ts_status take_seats(const merge *m, bool bad, claim *out)
{
    round_state now, next, first = {0};
    ts_status verdict;
    char from[128], key[64];
    TS_TRY(change(m, "", &first, &now));
    do {
        print_state(from, &now);
        next = with_group(m, &now, bad, out, &verdict);
        TS_TRY(change(m, from, &next, &now));
    } while (!same(&now, &next));
    verdict_key(key, out->round);
    if (next.round > out->round)
        ts_verdict_post(m->store, key, verdict, verdict == TS_OK ? "" : ts_error_last());
    return bad ? TS_OK : verdict;
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Nobody waits for a round that this rank has given up. */
static ts_status give_up(const merge *m, int64_t round)
{
    char from[128], key[64];
    round_state now = {.round = -1}, next, before;
    TS_TRY(change(m, " ", &now, &now)); /* changes nothing: it only looks */
    verdict_key(key, round);
    while (now.round == round) {
        before = now;
        next = (round_state){.round = round + 1, .writer = m->number};
        print_state(from, &before);
        ts_fail(TS_ETIMEOUT,
                "%s: %lld of %d ranks have come within %lld ms; all ranks of all groups must call "
                "it with the same store",
                m->what, before.seats, m->size, (long long)m->timeout_ms);
        TS_TRY(change(m, from, &next, &now));
        if (same(&now, &next)) ts_verdict_post(m->store, key, TS_ETIMEOUT, ts_error_last());
    }
    ts_status status = ts_verdict_read(m->store, key);
    return status == TS_OK ? ts_fail(TS_ETIMEOUT, "%s: not all ranks have come", m->what) : status;
}

static ts_status wait_for_verdict(const merge *m, int64_t round)
{
    char key[64];
    const char *keys[] = {key};
    verdict_key(key, round);
    ts_status status = ts_store_wait(m->store, keys, 1, m->timeout_ms);
    if (status == TS_ETIMEOUT) return give_up(m, round);
    return status == TS_OK ? ts_verdict_read(m->store, key) : status;
}

/* ---- within the group ------------------------------------------------------------------------ */

typedef struct wish {
    int64_t size, timeout_ms;
    char backend[32];
} wish;

/* All ranks of the group ask for the same. */
static ts_status agree(const merge *m, const wish *own, ts_status status, const char *cause)
{
    wish *all = ts_calloc((size_t)m->group->size, sizeof *all);
    if (!all && status == TS_OK) status = ts_fail_memory(sizeof *all, cause = "a group");
    ts_parcel parcel = {own, all, sizeof *own, m->site};
    status = ts_group_exchange(m->group, m->what, &parcel, status, cause);
    for (int q = 1; status == TS_OK && q < m->group->size; q++)
        if (memcmp(&all[q], &all[0], sizeof *all) != 0)
            status =
                ts_fail(TS_EMISMATCH,
                        "%s: ranks disagree: rank %d asks for %lld ranks, backend %s, %lld "
                        "ms, rank %d for %lld ranks, backend %s, %lld ms; no group was made",
                        m->what, ts_group_global(m->group, 0), (long long)all[0].size,
                        all[0].backend, (long long)all[0].timeout_ms, ts_group_global(m->group, q),
                        (long long)all[q].size, all[q].backend, (long long)all[q].timeout_ms);
    free(all);
    return status;
}

/* The first rank tells the others what it has got. */
static ts_status share(const merge *m, claim *own)
{
    claim *all = ts_calloc((size_t)m->group->size, sizeof *all);
    if (!all) return ts_fail_memory((size_t)m->group->size * sizeof *all, "a group");
    ts_parcel parcel = {own, all, sizeof *own, m->site};
    ts_status status = ts_group_exchange(m->group, m->what, &parcel, TS_OK, NULL);
    if (status == TS_OK) *own = all[0];
    free(all);
    if (status != TS_OK) return status;
    return own->status == TS_OK ? TS_OK : ts_fail_again((ts_status)own->status, own->text);
}

static ts_status find_seat(const merge *m, claim *c)
{
    if (m->group->rank == 0) {
        c->status = take_seats(m, false, c);
        if (c->status != TS_OK) snprintf(c->text, sizeof c->text, "%.499s", ts_error_last());
    }
    TS_TRY(share(m, c));
    return wait_for_verdict(m, c->round);
}

/* The other groups learn that this one does not come. */
static void stay_away(const merge *m, ts_status status)
{
    char text[TS_ERROR_MAX];
    claim unused;
    if (m->group->rank != 0 || !m->store) return;
    snprintf(text, sizeof text, "%s", ts_error_last());
    take_seats(m, true, &unused);
    ts_fail_again(status, text);
}

static ts_status join(ts_group **out, const merge *m, const claim *c, const ts_group_options *opt)
{
    char prefix[64];
    ts_store *room;
    snprintf(prefix, sizeof prefix, "tessera/merge/%lld", (long long)c->round);
    TS_TRY(ts_prefix_store_new(&room, prefix, m->store));
    const char *before = ts_called_begin(m->what, m->site);
    ts_status status = ts_process_group_new(out, room, (int)c->seat + m->group->rank, m->size, opt);
    ts_called_end(before);
    ts_store_free(room);
    return status;
}

/* Why this rank's arguments are no good. */
static ts_status check(ts_group **out, merge *m, wish *own, const ts_group_options *opt)
{
    ts_plan plan = {.what = m->what};
    TS_TRY(ts_plan_options(&plan, opt));
    m->timeout_ms = plan.timeout_ms;
    *own = (wish){.size = m->size, .timeout_ms = plan.timeout_ms};
    snprintf(own->backend, sizeof own->backend, "%s", plan.ops->name);
    if (!out) return ts_fail(TS_EINVAL, "the place for the group is missing (NULL)");
    if (!m->store) return ts_fail(TS_EINVAL, "the store is missing (NULL)");
    if (plan.ops->place)
        return ts_fail(TS_EUNSUPPORTED, "backend '%s' does not make groups over stores",
                       plan.ops->name);
    if (m->size < m->group->size)
        return ts_fail(TS_EINVAL, "%d ranks in all are less than the %d of group '%s'", m->size,
                       m->group->size, m->group->name);
    return TS_OK;
}

ts_status ts_merge_remote_group(ts_group **out, ts_group *group, ts_store *store, int size,
                                const ts_group_options *opt)
{
    merge m = {.what = TS_CALLED, .store = store, .size = size, .site = TS_CALL_SITE};
    wish own = {0};
    claim c = {0};
    TS_TRY(ts_group_find(&m.group, group, m.what));
    m.number = (long long)((uint64_t)ts_now_ns() ^ (uint64_t)(uintptr_t)&m << 20 ^
                           (uint64_t)getpid() << 40);
    ts_status status = check(out, &m, &own, opt);
    char *cause = status == TS_OK ? NULL : ts_strdup(ts_error_last());
    status = agree(&m, &own, status, cause);
    free(cause);
    if (status != TS_OK) {
        stay_away(&m, status);
        return status;
    }
    status = find_seat(&m, &c);
    return status == TS_OK ? join(out, &m, &c, opt) : status;
}

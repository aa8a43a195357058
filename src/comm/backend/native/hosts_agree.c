/* SPDX-License-Identifier: Apache-2.0 */
/* The agreement of all hosts.
 *
 * Bruck's all-gather among the leaders: with 2^k notes in hand, host h sends them to host h - 2^k
 * and gets those of h + 2^k, ... from there.  log2(hosts) steps; a small payload rides along, so a
 * short operation ends with its agreement.
 * (Bruck, Ho, Kipnis, Upfal, Weathersby: Efficient algorithms for all-to-all communications in
 * multiport message-passing systems, IEEE TPDS 8, 1997.)
 *
 * Notes lie one after another, each in front of its payload, so that those in hand are one message
 * as they lie. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "comm/backend/native/native.h"
#include "comm/coll/all_to_all/pairs.h"
#include "kernels/combine.h"

enum { TOO_LONG = 4, UNPAIRED = 8 };

/* What a host says. */
typedef struct note {
    uint64_t hash;  /* of what all must agree on */
    uint64_t pairs; /* sum over its ranks */
    int32_t host;
    uint32_t bytes; /* of the payload, which follows */
    uint32_t flags; /* TS_DIFFERS, TS_POISONED, TOO_LONG */
    uint32_t ahead; /* bytes of the message that follows */
} note;

enum { NOTE_MAX = sizeof(note) + TS_RIDE_MAX };

typedef struct ts_host_round {
    char *box;            /* notes in the order of arrival, the own one first */
    size_t *end;          /* of each, in the box */
    const char **payload; /* by host */
    char *result;
    unsigned flags;
    const void *ahead;          /* goes behind the own note */
    size_t ahead_bytes, coming; /* that, and what comes behind the other's */
    ts_message *sent;
} ts_host_round;

/* What the leader tells its host. */
typedef struct release {
    uint32_t flags;
    uint32_t rode;
} release;

ts_status ts_host_round_new(ts_host_round **out, const ts_topology *t)
{
    size_t hosts = (size_t)t->hosts;
    ts_host_round *r = ts_calloc(1, sizeof *r);
    if (!r) return ts_fail_memory(sizeof *r, "a group");
    *out = r;
    r->box = malloc(hosts * NOTE_MAX);
    r->end = ts_calloc(hosts, sizeof *r->end);
    r->payload = ts_calloc(hosts, sizeof *r->payload);
    r->result = malloc(TS_RIDE_MAX);
    if (r->box && r->end && r->payload && r->result) return TS_OK;
    return ts_fail_memory(hosts * NOTE_MAX, "the agreement of a group");
}

void ts_host_round_free(ts_host_round *r)
{
    if (!r) return;
    free(r->box);
    free(r->end);
    free(r->payload);
    free(r->result);
    free(r);
}

static note *own_note(const ts_host_round *r) { return (note *)(void *)r->box; }
static char *own_payload(const ts_host_round *r) { return r->box + sizeof(note); }

/* The i-th note to have arrived. */
static const note *note_at(const ts_host_round *r, int i)
{
    return (const note *)(const void *)(r->box + (i > 0 ? r->end[i - 1] : 0));
}

/* Of a note and its payload: what follows is aligned. */
static size_t length_of(const note *x) { return sizeof *x + ((size_t)x->bytes + 15) / 16 * 16; }

/* ---- rides ----------------------------------------------------------------------------------- */

bool ts_ride_fits(const ts_native *n, bool sum, size_t bytes)
{
    size_t most = n->topology.hosts == n->size ? TS_RIDE_MAX : TS_FLAT_BYTES;
    size_t lengths = sum ? 0 : (size_t)n->size * sizeof(uint32_t);
    return lengths < most && bytes <= most - lengths;
}

/* Number of the domain's next operation. */
static ts_coll next_part(ts_native *n, const ts_coll *coll)
{
    ts_coll part = *coll;
    part.sequence = n->shm.sequence + 1;
    return part;
}

void *ts_ride_room(ts_native *n, const ts_ride *ride)
{
    ts_shm *s = &n->shm;
    ts_coll part = {.sequence = s->sequence + 1};
    if (s->size > 1) return ts_shm_room(s, &part, ride->bytes);
    return own_payload(n->round) + (ride->sum ? 0 : sizeof(uint32_t));
}

/* ---- within the host, before ----------------------------------------------------------------- */

/* All arrive; the leader waits for them. */
static ts_status arrive(ts_native *n, const ts_coll *coll, const ts_ride *ride)
{
    ts_shm *s = &n->shm;
    ts_coll part = next_part(n, coll);
    size_t bytes = ride ? ride->bytes : 0;
    ts_notice *own = s->size > 1 ? &s->draft : n->notices;
    s->sequence++;
    ts_native_fill(n, own, coll, n->rank, n->size);
    own->detail.ride = bytes <= TS_RIDE_MAX ? (uint32_t)bytes : UINT32_MAX;
    n->notice[s->rank] = own;
    if (s->size == 1) return TS_OK;
    ts_shm_announce(s, part.sequence);
    for (int q = 1; q < s->size && s->rank == 0; q++) {
        n->notice[q] = ts_shm_notice(s, &part, q);
        TS_TRY(ts_shm_wait(s, &part, q, &n->notice[q]->header.sequence, part.sequence));
    }
    return TS_OK;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

static uint64_t hash_call(const ts_header *h)
{
    uint64_t hash = mix(0, (uint64_t)h->op << 16 | (uint64_t)h->dtype << 8 | h->reduce);
    hash = mix(hash, (uint64_t)h->root);
    if (ts_collective_agreement((ts_collective)h->op) & TS_AGREE_PAIRS) return hash;
    return mix(mix(hash, (uint64_t)h->count), h->parts);
}

static void write_note(ts_native *n)
{
    ts_host_round *r = n->round;
    const ts_shm *s = &n->shm;
    note *own = own_note(r);
    *own = (note){.host = n->topology.host, .hash = hash_call(&n->notice[0]->header)};
    own->flags = ts_native_compare(n, 0, s->size, &own->pairs);
    own->ahead = (uint32_t)r->ahead_bytes;
    for (int q = 0; q < s->size; q++)
        if (n->notice[q]->detail.ride == UINT32_MAX) own->flags |= TOO_LONG;
}

static void load_sum(ts_native *n, const ts_coll *coll, const ts_ride *ride)
{
    ts_host_round *r = n->round;
    ts_shm *s = &n->shm;
    ts_coll part = {.sequence = s->sequence};
    own_note(r)->bytes = (uint32_t)ride->bytes;
    if (s->size == 1) return;
    for (int q = 0; q < s->size; q++) s->sources[q] = ts_shm_payload(s, &part, q, ride->bytes);
    ts_combine(own_payload(r), s->sources, s->size,
               (int64_t)(ride->bytes / ts_dtype_size(coll->dtype)), coll->dtype,
               coll->reduce == TS_AVG ? TS_SUM : coll->reduce);
}

static void load_all(ts_native *n)
{
    ts_host_round *r = n->round;
    ts_shm *s = &n->shm;
    ts_coll part = {.sequence = s->sequence};
    char *payload = own_payload(r);
    uint32_t *lengths = (uint32_t *)(void *)payload;
    char *to = payload + (size_t)s->size * sizeof *lengths;
    for (int q = 0; q < s->size; q++) {
        lengths[q] = n->notice[q]->detail.ride;
        if (s->size > 1 && lengths[q] > 0)
            memcpy(to, ts_shm_payload(s, &part, q, lengths[q]), lengths[q]);
        to += lengths[q];
    }
    own_note(r)->bytes = (uint32_t)(to - payload);
}

/* ---- between hosts --------------------------------------------------------------------------- */

static void close_own(ts_host_round *r)
{
    size_t bytes = own_note(r)->bytes;
    r->end[0] = length_of(own_note(r));
    memset(own_payload(r) + bytes, 0, r->end[0] - sizeof(note) - bytes);
}

/* Are the count notes after the first `have` all there in so many bytes? */
static ts_status check_notes(ts_native *n, const ts_coll *coll, int have, int count, size_t bytes)
{
    ts_host_round *r = n->round;
    size_t at = r->end[have - 1], end = at + bytes;
    for (int i = have; i < have + count; i++) {
        const note *x = note_at(r, i);
        int host = (n->topology.host + i) % n->topology.hosts;
        bool sound = end - at >= sizeof *x && x->host == host && x->bytes <= TS_RIDE_MAX &&
                     end - at >= length_of(x) && (i + 1 < have + count || end - at == length_of(x));
        if (!sound)
            return ts_native_give_up(
                n, ts_native_fail(n, coll, TS_ENETWORK, "the summary of host %d is damaged", host));
        r->end[i] = at += length_of(x);
    }
    return TS_OK;
}

/* The ranks whose notes are missing. */
static ts_status notes_late(ts_native *n, const ts_coll *coll, int have, int count)
{
    char text[600] = "";
    const ts_topology *t = &n->topology;
    for (int i = 0; i < count; i++) {
        int host = (t->host + have + i) % t->hosts;
        for (int q = 0; q < ts_host_size(t, host) && strlen(text) < sizeof text - 20; q++)
            snprintf(text + strlen(text), 20, "%s%d", *text ? ", " : "",
                     ts_native_global(n, ts_host_member(t, host, q)));
    }
    char last[96] = "no operation yet";
    if (n->last_sequence)
        snprintf(last, sizeof last, "the last that all have done: %s #%llu", n->last_name,
                 (unsigned long long)n->last_sequence);
    return ts_fail(TS_ETIMEOUT, "not done within %lld ms; has not arrived: %s %s (%s)",
                   (long long)coll->timeout_ms, strchr(text, ',') ? "one or more of ranks" : "rank",
                   text, last);
}

static ts_status await_notes(ts_exchange *e, int have, int count, int turns)
{
    ts_native *n = e->native;
    ts_message *message = e->messages[0];
    if (e->status != TS_OK) return ts_exchange_end(e, e->status);
    e->messages[0] = NULL;
    ts_status status = ts_message_wait(message, ts_native_later(n, e->coll, turns), NULL);
    if (status == TS_ETIMEOUT) status = notes_late(n, e->coll, have, count);
    return status == TS_OK ? TS_OK : ts_exchange_end(e, status);
}

/* The note, and the data right behind it. */
static void send_ahead(ts_exchange *e, int to)
{
    ts_host_round *r = e->native->round;
    ts_exchange_send_held(e, to, 0, r->box, r->end[0]);
    if (e->status == TS_OK)
        e->status = ts_native_send(&r->sent, e->native, e->coll, to, TS_SWAP_STEP, r->ahead,
                                   r->ahead_bytes);
}

/* One step, with the notes of `have` hosts in hand. */
static ts_status pass_on(ts_native *n, const ts_coll *coll, int have, int turns)
{
    ts_host_round *r = n->round;
    const ts_topology *t = &n->topology;
    int count = have < t->hosts - have ? have : t->hosts - have;
    int to = t->leader[(t->host - have + t->hosts) % t->hosts];
    int from = t->leader[(t->host + have) % t->hosts];
    size_t bytes;
    ts_exchange e = ts_exchange_begin(n, coll);
    ts_exchange_recv_up_to(&e, from, 0, r->box + r->end[have - 1], (size_t)count * NOTE_MAX,
                           &bytes);
    if (r->ahead_bytes > 0)
        send_ahead(&e, to);
    else
        ts_exchange_send(&e, to, 0, r->box, r->end[count - 1]);
    TS_TRY(await_notes(&e, have, count, turns));
    TS_TRY(ts_exchange_wait(&e));
    return check_notes(n, coll, have, count, bytes);
}

/* The leader's part: flags of all hosts, and everyone's payload. */
static ts_status meet_leaders(ts_native *n, const ts_coll *coll, const ts_ride *ride)
{
    ts_host_round *r = n->round;
    uint64_t pairs = 0;
    write_note(n);
    if (ride && own_note(r)->flags == 0) {
        if (ride->sum)
            load_sum(n, coll, ride);
        else
            load_all(n);
    }
    close_own(r);
    for (int have = 1, turns = 1; have < n->topology.hosts; have *= 2)
        TS_TRY(pass_on(n, coll, have, turns++));
    r->flags = 0;
    r->coming = note_at(r, 1)->ahead;
    for (int i = 0; i < n->topology.hosts; i++) {
        const note *x = note_at(r, i);
        r->flags |= x->flags;
        if (x->hash != own_note(r)->hash) r->flags |= TS_DIFFERS;
        pairs += x->pairs;
        r->payload[x->host] = (const char *)(x + 1);
    }
    if (pairs != 0) r->flags |= UNPAIRED;
    return TS_OK;
}

/* ---- within the host, after ------------------------------------------------------------------ */

static void sum_up(ts_native *n, const ts_coll *coll, const ts_ride *ride, char *to)
{
    int64_t count = (int64_t)(ride->bytes / ts_dtype_size(coll->dtype));
    ts_combine(to, (const void *const *)n->round->payload, n->topology.hosts, count, coll->dtype,
               coll->reduce == TS_AVG ? TS_SUM : coll->reduce);
    if (coll->reduce == TS_AVG) ts_combine_divide(to, count, coll->dtype, n->size);
}

static void line_up(ts_native *n, char *to)
{
    const ts_topology *t = &n->topology;
    uint32_t *lengths = (uint32_t *)(void *)to;
    to += (size_t)n->size * sizeof *lengths;
    for (int h = 0; h < t->hosts; h++) {
        size_t ranks = (size_t)ts_host_size(t, h), head = ranks * sizeof *lengths, bytes = 0;
        memcpy(lengths, n->round->payload[h], head);
        for (size_t q = 0; q < ranks; q++) bytes += lengths[q];
        memcpy(to, n->round->payload[h] + head, bytes);
        lengths += ranks;
        to += bytes;
    }
}

static void set_result(const ts_native *n, ts_ride *ride, const char *result)
{
    ride->lengths = ride->sum ? NULL : (const uint32_t *)(const void *)result;
    ride->result = result + (ride->sum ? 0 : (size_t)n->size * sizeof *ride->lengths);
}

/* The leader tells flags and result. */
static void tell_host(ts_native *n, const ts_coll *coll, ts_ride *ride)
{
    ts_host_round *r = n->round;
    ts_shm *s = &n->shm;
    ts_slot *slot = s->size > 1 ? &s->control->slot[s->sequence & 1] : NULL;
    char *to = slot ? (char *)slot->flat : r->result;
    bool rode = ride && r->flags == 0;
    if (rode) {
        if (ride->sum)
            sum_up(n, coll, ride, to);
        else
            line_up(n, to);
        set_result(n, ride, to);
    }
    if (!slot) return;
    release told = {.flags = r->flags, .rode = rode};
    memcpy(slot->notice.header.payload.bytes, &told, sizeof told);
    slot->notice.header.op = (uint8_t)coll->op;
    ts_shm_publish(s, &slot->notice.header.sequence, s->sequence);
}

static ts_status hear_leader(ts_native *n, const ts_coll *coll, ts_ride *ride)
{
    ts_shm *s = &n->shm;
    ts_coll part = *coll;
    part.sequence = s->sequence;
    const ts_slot *slot = &s->peer[0].control->slot[s->sequence & 1];
    int turns = 2;
    for (int have = 1; have < n->topology.hosts; have *= 2) turns++;
    ts_deadline own = ts_native_deadline(n, coll);
    n->deadline = ts_native_later(n, coll, turns);
    TS_TRY(ts_shm_wait(s, &part, 0, &slot->notice.header.sequence, s->sequence));
    n->deadline = own;
    release told;
    memcpy(&told, slot->notice.header.payload.bytes, sizeof told);
    n->round->flags = told.flags;
    if (ride && told.rode) set_result(n, ride, (const char *)slot->flat);
    return TS_OK;
}

/* ---- disagreement ---------------------------------------------------------------------------- */

/* The leader gets the notices of all ranks into n->notice, by rank. */
static ts_status gather_notices(ts_native *n, const ts_coll *coll)
{
    const ts_topology *t = &n->topology;
    ts_notice *all = n->notices; /* by host and place */
    for (int q = n->shm.size - 1; q >= 0; q--)
        memmove(&all[t->first[t->host] + q], n->notice[q], sizeof *all);
    ts_exchange e = ts_exchange_begin(n, coll);
    for (int h = 0; h < t->hosts; h++) {
        size_t bytes = (size_t)ts_host_size(t, h) * sizeof *all;
        if (h == t->host) continue;
        ts_exchange_recv(&e, t->leader[h], 2, &all[t->first[h]], bytes);
        ts_exchange_send(&e, t->leader[h], 2, &all[t->first[t->host]],
                         (size_t)n->shm.size * sizeof *all);
    }
    TS_TRY(ts_exchange_wait(&e));
    for (int i = 0; i < n->size; i++) n->notice[t->member[i]] = &all[i];
    return TS_OK;
}

/* All have heard; only then the leader may use the slots again. */
static ts_status meet_again(ts_native *n, const ts_coll *coll)
{
    ts_shm *s = &n->shm;
    ts_coll part = *coll;
    part.sequence = ++s->sequence;
    if (s->size == 1) return TS_OK;
    ts_slot *slot = &s->control->slot[part.sequence & 1];
    ts_shm_publish(s, &slot->notice.header.sequence, part.sequence);
    for (int q = 1; q < s->size && s->rank == 0; q++)
        TS_TRY(ts_shm_wait(s, &part, q, &ts_shm_header(s, &part, q)->sequence, part.sequence));
    return TS_OK;
}

/* The leader's text goes to its host. */
static ts_status pass_text(ts_native *n, const ts_coll *coll, char *text, size_t size)
{
    ts_shm *s = &n->shm;
    ts_coll part = *coll;
    part.sequence = ++s->sequence;
    if (s->size == 1) return TS_OK;
    if (s->rank == 0) {
        ts_slot *slot = &s->control->slot[part.sequence & 1];
        memcpy(slot->flat, text, size);
        ts_shm_publish(s, &slot->notice.header.sequence, part.sequence);
        return TS_OK;
    }
    const ts_slot *slot = &s->peer[0].control->slot[part.sequence & 1];
    TS_TRY(ts_shm_wait(s, &part, 0, &slot->notice.header.sequence, part.sequence));
    memcpy(text, slot->flat, size);
    return TS_OK;
}

/* The leader words what is wrong and tells its host. */
static ts_status explain(ts_native *n, const ts_coll *coll)
{
    unsigned verdict = n->round->flags & (TS_DIFFERS | TS_POISONED);
    char text[TS_ERROR_MAX - 256] = "";
    if (!(verdict & TS_POISONED)) ts_native_leave_site(n, coll, n->shm.sequence + 1);
    TS_TRY(meet_again(n, coll));
    if (n->shm.rank == 0) {
        TS_TRY(gather_notices(n, coll));
        n->sites = !(verdict & TS_POISONED);
        ts_native_word(text, sizeof text, n, n->size);
        n->sites = false;
    }
    TS_TRY(pass_text(n, coll, text, sizeof text));
    if (verdict & TS_POISONED && coll->status != TS_OK) return TS_OK;
    return ts_native_fail(n, coll, ts_verdict_status(verdict), "%s", text);
}

/* The operation will not take it. */
static ts_status drop_coming(ts_native *n, const ts_coll *coll)
{
    size_t bytes = n->round->coming;
    char *to = ts_native_scratch(n, bytes);
    if (!to) return ts_native_give_up(n, TS_ENOMEM);
    ts_exchange e = ts_exchange_begin(n, coll);
    ts_exchange_recv(&e, 1 - n->rank, TS_SWAP_STEP, to, bytes);
    return ts_exchange_wait(&e);
}

static ts_status judge(ts_native *n, const ts_coll *coll)
{
    unsigned flags = n->round->flags;
    if (flags & (TS_DIFFERS | TS_POISONED)) return explain(n, coll);
    n->agreed = true;
    return flags & UNPAIRED ? ts_pairs_mismatch(n, coll) : TS_OK;
}

ts_status ts_hosts_agree(ts_native *n, const ts_coll *coll, ts_ride *ride)
{
    ts_shm *s = &n->shm;
    TS_TRY(ts_native_health(n, coll));
    atomic_store(&n->calls, coll->sequence); /* before the look at who has left */
    ts_status left = ts_native_check_left(n, coll, -1);
    if (left != TS_OK) return ts_native_give_up(n, left); /* others may wait for this rank only */
    n->whole = coll;
    n->agreed = false;
    n->round->coming = 0;
    if (ride) ride->result = NULL;
    TS_TRY(arrive(n, coll, ride));
    if (s->rank == 0) TS_TRY(meet_leaders(n, coll, ride));
    s->sequence++;
    if (s->rank == 0)
        tell_host(n, coll, ride);
    else
        TS_TRY(hear_leader(n, coll, ride));
    bool agreed = !(n->round->flags & (TS_DIFFERS | TS_POISONED | UNPAIRED));
    if (!agreed && n->round->coming > 0) TS_TRY(drop_coming(n, coll));
    return judge(n, coll);
}

ts_status ts_hosts_agree_ahead(ts_native *n, const ts_coll *coll, const void *data, size_t bytes,
                               ts_message **sent)
{
    ts_host_round *r = n->round;
    r->ahead = data;
    r->ahead_bytes = bytes;
    r->sent = NULL;
    ts_status status = ts_hosts_agree(n, coll, NULL);
    r->ahead_bytes = 0;
    *sent = r->sent;
    return status;
}

ts_coll ts_host_part(ts_native *n, const ts_coll *coll, ts_collective op)
{
    return (ts_coll){.op = op,
                     .name = coll->name,
                     .dtype = coll->dtype,
                     .reduce = coll->reduce == TS_AVG ? TS_SUM : coll->reduce,
                     .sequence = ++n->shm.sequence,
                     .timeout_ms = coll->timeout_ms,
                     .background = coll->background,
                     .tensor = {NULL, 0, -1}};
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/site.h"
#include "comm/backend/native/native.h"
#include "comm/coll/all_to_all/pairs.h"
#include "comm/names.h"
#include "comm/statement.h"
#include "comm/wording.h"

/* More than this is limited by the traffic itself, so that asking early gains nothing. */
enum { EARLY_BYTES = 4096 };

/* What the header says of the parts. */
static void fill_counts(ts_header *h, const ts_coll *coll, int rank, int size, int fields)
{
    h->count = fields & TS_AGREE_COUNT ? ts_call_count(coll, size) : 0;
    h->parts = fields & TS_AGREE_PARTS ? ts_call_parts(coll, size) : 0;
    if (!(fields & TS_AGREE_PAIRS)) return;
    h->count = ts_pairs_most(coll, rank, size);
    h->parts = ts_call_pairs(coll, rank, size);
}

void ts_native_fill(ts_native *n, ts_notice *notice, const ts_coll *coll, int rank, int size)
{
    ts_header *h = &notice->header;
    int fields = ts_collective_agreement(coll->op);
    h->op = (uint8_t)coll->op;
    h->dtype = fields & TS_AGREE_DTYPE ? (uint8_t)coll->dtype : 0;
    h->reduce = fields & TS_AGREE_REDUCE ? (uint8_t)coll->reduce : 0;
    h->root = fields & TS_AGREE_ROOT ? coll->root : 0;
    h->poisoned = coll->status != TS_OK;
    fill_counts(h, coll, rank, size, fields);
    h->staging = (uint32_t)n->shm.ring_bytes;
    h->reads = n->shm.reads;
    h->stores = n->shm.stores;
    notice->detail.ndim = coll->shape.ndim;
    for (int i = 0; i < coll->shape.ndim; i++) notice->detail.dim[i] = coll->shape.dim[i];
    notice->detail.status = coll->status;
    if (coll->status != TS_OK)
        snprintf(notice->detail.cause, TS_CAUSE_BYTES, "%s", coll->cause ? coll->cause : "");
}

static bool same_call(const ts_header *a, const ts_header *b, bool pairs)
{
    return a->op == b->op && a->dtype == b->dtype && a->reduce == b->reduce && a->root == b->root &&
           (pairs || (a->count == b->count && a->parts == b->parts));
}

unsigned ts_native_compare(const ts_native *n, int own, int count, uint64_t *pairs)
{
    const ts_header *mine = &n->notice[own]->header;
    bool in_pairs = ts_collective_agreement((ts_collective)mine->op) & TS_AGREE_PAIRS;
    unsigned verdict = 0;
    *pairs = 0;
    for (int q = 0; q < count; q++) {
        const ts_header *h = &n->notice[q]->header;
        if (h->poisoned) verdict |= TS_POISONED;
        if (!same_call(mine, h, in_pairs)) verdict |= TS_DIFFERS;
        if (in_pairs) *pairs += h->parts;
    }
    return verdict;
}

void ts_native_leave_site(ts_native *n, const ts_coll *coll, uint64_t sequence)
{
    ts_shm *s = &n->shm;
    char *text = s->size > 1 ? s->draft.detail.cause : n->notices[0].detail.cause;
    ts_site_text(text, TS_CAUSE_BYTES, coll->site);
    if (s->size > 1)
        memcpy(s->control->slot[sequence & 1].notice.detail.cause, text, TS_CAUSE_BYTES);
}

/* All ranks share memory and know that they disagree: each waits for the call sites of the others. */
static void tell_sites(ts_native *n, const ts_coll *coll)
{
    ts_shm *s = &n->shm;
    ts_native_leave_site(n, coll, coll->sequence);
    ts_shm_publish(s, &s->control->told, coll->sequence);
    for (int q = 0; q < s->size; q++)
        if (q != s->rank &&
            ts_shm_wait(s, coll, q, &s->peer[q].control->told, coll->sequence) != TS_OK)
            return;
    n->sites = true;
}

void ts_native_word(char *text, size_t size, const ts_native *n, int count)
{
    ts_said *said = ts_calloc((size_t)count, sizeof *said);
    snprintf(text, size, "ranks disagree (no memory for details)");
    if (!said) return;
    for (int q = 0; q < count; q++) {
        const ts_header *h = &n->notice[q]->header;
        const ts_detail *detail = &n->notice[q]->detail;
        said[q] = (ts_said){.rank = ts_native_global(n, q),
                            .root = h->root >= 0 && h->root < n->size ? ts_native_global(n, h->root)
                                                                      : h->root,
                            .op = (ts_collective)h->op,
                            .dtype = (ts_dtype)h->dtype,
                            .reduce = (ts_reduce_op)h->reduce,
                            .shape = ts_shape_make(detail->ndim, detail->dim),
                            .count = h->count,
                            .parts = h->parts,
                            .status = h->poisoned ? (ts_status)detail->status : TS_OK,
                            .text = n->sites || h->poisoned ? detail->cause : ""};
    }
    ts_word_verdict(text, size, said, count);
    free(said);
}

/* What all ranks come to. */
static ts_status verdict_of(ts_native *n, const ts_coll *coll, int own, int count)
{
    char text[TS_ERROR_MAX - 256];
    uint64_t pairs;
    unsigned verdict = ts_native_compare(n, own, count, &pairs);
    if (verdict == 0) return pairs == 0 ? TS_OK : ts_pairs_mismatch(n, coll);
    if (verdict & TS_POISONED && coll->status != TS_OK) return TS_OK;
    if (!(verdict & TS_POISONED)) tell_sites(n, coll);
    ts_native_word(text, sizeof text, n, count);
    n->sites = false;
    return ts_native_fail(n, coll, ts_verdict_status(verdict), "%s", text);
}

/* ---- shared memory --------------------------------------------------------------------------- */

static ts_slot *own_slot(ts_shm *s, const ts_coll *coll)
{
    return &s->control->slot[coll->sequence & 1];
}

const ts_notice *ts_shm_notice(const ts_shm *s, const ts_coll *coll, int q)
{
    return &s->peer[q].control->slot[coll->sequence & 1].notice;
}

const ts_header *ts_shm_header(const ts_shm *s, const ts_coll *coll, int q)
{
    return &ts_shm_notice(s, coll, q)->header;
}

const void *ts_shm_payload(const ts_shm *s, const ts_coll *coll, int q, size_t bytes)
{
    if (bytes <= TS_INLINE_BYTES)
        return q == s->rank ? s->draft.header.payload.bytes
                            : ts_shm_header(s, coll, q)->payload.bytes;
    return s->peer[q].control->slot[coll->sequence & 1].flat;
}

void *ts_shm_room(ts_shm *s, const ts_coll *coll, size_t bytes)
{
    if (bytes <= TS_INLINE_BYTES) return s->draft.header.payload.bytes;
    s->early = bytes < EARLY_BYTES ? bytes : EARLY_BYTES;
    return own_slot(s, coll)->flat;
}

void ts_shm_place(ts_shm *s, int64_t place) { s->draft.header.payload.place = place; }

/* The header goes in one piece, for the others may be looking at its line: each look between two
 * stores would take the line away. */
void ts_shm_announce(ts_shm *s, uint64_t sequence)
{
    ts_notice *own = &s->control->slot[sequence & 1].notice;
    const ts_detail *detail = &s->draft.detail;
    const size_t first = sizeof own->header.sequence;
    if (detail->status == TS_OK)
        memcpy(&own->detail, detail, offsetof(ts_detail, cause));
    else
        own->detail = *detail;
    memcpy((char *)&own->header + first, (char *)&s->draft.header + first,
           sizeof own->header - first);
    ts_shm_publish(s, &own->header.sequence, sequence);
}

static void own_early(const void *line)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
    __builtin_prefetch(line, 1);
#endif
}

void ts_shm_own_early(ts_shm *s, uint64_t sequence)
{
    const ts_slot *slot = &s->control->slot[(sequence + 1) & 1];
    for (size_t i = 0; i < s->early; i += 64) own_early(&slot->flat[i]);
    s->early = 0;
}

ts_status ts_shm_agree(ts_shm *s, const ts_coll *coll)
{
    ts_native *n = s->native;
    TS_TRY(ts_native_health(n, coll));
    ts_native_fill(n, &s->draft, coll, s->rank, s->size);
    ts_shm_announce(s, coll->sequence);
    for (int q = 0; q < s->size; q++) {
        n->notice[q] = q == s->rank ? &s->draft : ts_shm_notice(s, coll, q);
        if (q == s->rank) continue;
        TS_TRY(ts_shm_wait(s, coll, q, &n->notice[q]->header.sequence, coll->sequence));
    }
    /* The other slot is free, for all have left the operation before. */
    own_early(&s->control->slot[(coll->sequence + 1) & 1].notice.header);
    return verdict_of(n, coll, s->rank, s->size);
}

ts_status ts_native_agree(ts_native *n, const ts_coll *coll)
{
    return n->shared ? ts_shm_agree(&n->shm, coll) : ts_hosts_agree(n, coll, NULL);
}

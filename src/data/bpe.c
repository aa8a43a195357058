/* SPDX-License-Identifier: Apache-2.0 */
/* Byte pair encoding (Sennrich et al., 2016): of all neighbours that can be merged, those of the lowest
 * rank are, the leftmost first, until none can.  A heap holds the candidates, so that a long piece takes
 * n log n steps. */
#include <stdlib.h>

#include "base/error.h"
#include "data/tokenizer_impl.h"

/* ---- merges ---------------------------------------------------------------------------------- */

static size_t slot_of(const ts_merges *m, uint64_t pair)
{
    size_t at = (size_t)(pair * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (m->slots - 1);
    while (m->slot[at].pair && m->slot[at].pair != pair) at = (at + 1) & (m->slots - 1);
    return at;
}

static uint64_t pair_of(uint32_t left, uint32_t right)
{
    return ((uint64_t)left << 32 | right) + 1;
}

static ts_status grow(ts_merges *m)
{
    ts_merges larger = {.slots = m->slots ? 2 * m->slots : 1024, .count = m->count};
    larger.slot = ts_calloc(larger.slots, sizeof *larger.slot);
    if (!larger.slot) return ts_fail_memory(larger.slots * sizeof *larger.slot, "merges");
    for (size_t i = 0; i < m->slots; i++)
        if (m->slot[i].pair) larger.slot[slot_of(&larger, m->slot[i].pair)] = m->slot[i];
    free(m->slot);
    *m = larger;
    return TS_OK;
}

/* The rank is the number of merges before; a pair that is there keeps its first. */
ts_status ts_merges_add(ts_merges *m, uint32_t left, uint32_t right, uint32_t result)
{
    if (2 * m->count >= m->slots) TS_TRY(grow(m));
    uint64_t pair = pair_of(left, right);
    ts_merge *slot = &m->slot[slot_of(m, pair)];
    uint32_t rank = (uint32_t)m->count++;
    if (!slot->pair) *slot = (ts_merge){pair, rank, result};
    return TS_OK;
}

const ts_merge *ts_merges_find(const ts_merges *m, uint32_t left, uint32_t right)
{
    if (m->slots == 0) return NULL;
    const ts_merge *slot = &m->slot[slot_of(m, pair_of(left, right))];
    return slot->pair ? slot : NULL;
}

ts_status ts_ids_add(ts_ids *ids, int64_t id)
{
    if (ids->count == ids->capacity) {
        int64_t capacity = ids->capacity ? 2 * ids->capacity : 64;
        void *grown = ts_grow(ids->item, (size_t)capacity, sizeof *ids->item);
        if (!grown) return ts_fail_memory((size_t)capacity * sizeof *ids->item, "tokens");
        ids->item = grown;
        ids->capacity = capacity;
    }
    ids->item[ids->count++] = id;
    return TS_OK;
}

/* ---- a piece --------------------------------------------------------------------------------- */

#define NONE UINT32_MAX

typedef struct symbol {
    uint32_t id; /* NONE: it has become part of its neighbour */
    uint32_t before, after;
} symbol;

typedef struct candidate {
    uint32_t rank, place; /* of the left symbol */
    uint32_t left, right; /* ids, which tell whether it is still there */
} candidate;

typedef struct work {
    const ts_merges *merges;
    symbol *symbol;
    candidate *heap;
    size_t count; /* at most 3 per symbol: one for each neighbourhood that ever comes up */
} work;

static bool is_less(const candidate *a, const candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->place < b->place;
}

static void push(work *w, uint32_t place)
{
    uint32_t next = place == NONE ? NONE : w->symbol[place].after;
    if (next == NONE) return;
    candidate c = {.place = place, .left = w->symbol[place].id, .right = w->symbol[next].id};
    const ts_merge *merge = ts_merges_find(w->merges, c.left, c.right);
    if (!merge) return;
    c.rank = merge->rank;
    size_t at = w->count++;
    for (; at > 0 && is_less(&c, &w->heap[(at - 1) / 2]); at = (at - 1) / 2)
        w->heap[at] = w->heap[(at - 1) / 2];
    w->heap[at] = c;
}

static candidate pop(work *w)
{
    candidate least = w->heap[0], c = w->heap[--w->count];
    size_t at = 0;
    for (size_t child = 1; child < w->count; child = 2 * at + 1) {
        if (child + 1 < w->count && is_less(&w->heap[child + 1], &w->heap[child])) child++;
        if (!is_less(&w->heap[child], &c)) break;
        w->heap[at] = w->heap[child];
        at = child;
    }
    w->heap[at] = c;
    return least;
}

static void apply(work *w, const candidate *c)
{
    symbol *left = &w->symbol[c->place];
    if (left->id != c->left || left->after == NONE) return;
    symbol *right = &w->symbol[left->after];
    if (right->id != c->right) return;
    left->id = ts_merges_find(w->merges, c->left, c->right)->result;
    right->id = NONE;
    left->after = right->after;
    if (left->after != NONE) w->symbol[left->after].before = c->place;
    push(w, left->before);
    push(w, c->place);
}

static ts_status merge_all(ts_ids *out, work *w, const uint32_t byte_id[256], const uint8_t *piece,
                           uint32_t size)
{
    for (uint32_t i = 0; i < size; i++)
        w->symbol[i] =
            (symbol){byte_id[piece[i]], i == 0 ? NONE : i - 1, i + 1 == size ? NONE : i + 1};
    for (uint32_t i = 0; i < size; i++) push(w, i);
    while (w->count > 0) {
        candidate c = pop(w);
        apply(w, &c);
    }
    for (uint32_t i = 0; i != NONE; i = w->symbol[i].after)
        TS_TRY(ts_ids_add(out, w->symbol[i].id));
    return TS_OK;
}

ts_status ts_bpe_encode(ts_ids *out, const ts_merges *merges, const uint32_t byte_id[256],
                        const uint8_t *piece, size_t size)
{
    enum { SHORT = 64 };
    symbol short_symbols[SHORT];
    candidate short_heap[3 * SHORT];
    if (size > INT32_MAX)
        return ts_fail(TS_EUNSUPPORTED, "tokenizer: %zu bytes without a break are too many", size);
    work w = {merges, short_symbols, short_heap, 0};
    if (size > SHORT) {
        w.symbol = ts_calloc(size, sizeof *w.symbol);
        w.heap = ts_calloc(3 * size, sizeof *w.heap);
    }
    ts_status status = w.symbol && w.heap
                           ? merge_all(out, &w, byte_id, piece, (uint32_t)size)
                           : ts_fail_memory(size * sizeof *w.heap, "a piece of text");
    if (size > SHORT) {
        free(w.symbol);
        free(w.heap);
    }
    return status;
}

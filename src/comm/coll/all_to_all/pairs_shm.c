/* SPDX-License-Identifier: Apache-2.0 */
/* A rank whose pieces are short puts them into its slot, side by side.  A rank that gives long ones
 * says where they are.  If all can be read there, the others copy from there; otherwise they pass through its ring, a slot of which holds a step of each piece.  A header tells the length
 * of the longest piece that its rank gives, so all know which way each goes. */
#include <string.h>

#include "comm/coll/all_to_all/pairs.h"

typedef struct pull {
    ts_shm *s;
    const ts_coll *coll;
    ts_pieces pieces;
    size_t element, step;
    bool stages;     /* this rank's pieces pass through its ring */
    bool all_read;   /* every rank can read addresses */
    bool any_direct; /* others read from somebody's tensors */
    uint64_t steps;  /* of the longest staged piece of all ranks */
} pull;

/* ---- short pieces ---------------------------------------------------------------------------- */

/* Of all pieces of a rank whose longest has that many elements. */
static size_t room_for(const pull *p, int64_t most)
{
    size_t pieces = p->coll->op == TS_COLL_GATHER ? 1 : (size_t)p->s->size;
    return (size_t)most * p->element * pieces;
}

/* Where the piece for rank q lies, if each takes that many bytes. */
static size_t place_for(const pull *p, int q, size_t each)
{
    return p->coll->op == TS_COLL_GATHER ? 0 : (size_t)q * each;
}

static void load_flat(pull *p, int64_t most)
{
    char *room = ts_shm_room(p->s, p->coll, room_for(p, most));
    for (int q = 0; q < p->s->size; q++) {
        ts_buffer piece = ts_pairs_given(p->coll, p->s->rank, q);
        if (q != p->s->rank && piece.count > 0)
            memcpy(room + place_for(p, q, (size_t)most * p->element), piece.data,
                   (size_t)piece.count * p->element);
    }
}

static void copy_flat(const pull *p, int q)
{
    ts_buffer piece = ts_pairs_taken(p->coll, p->s->rank, q);
    int64_t most = ts_shm_header(p->s, p->coll, q)->count;
    if (piece.count == 0) return;
    const char *room = ts_shm_payload(p->s, p->coll, q, room_for(p, most));
    memcpy(piece.data, room + place_for(p, p->s->rank, (size_t)most * p->element),
           (size_t)piece.count * p->element);
}

/* ---- long pieces ----------------------------------------------------------------------------- */

static void announce(pull *p)
{
    ts_shm *s = p->s;
    int64_t *place = s->control->parts + (p->coll->sequence & 1) * (size_t)s->size, all = 0;
    for (int q = 0; q < s->size; q++) {
        ts_buffer piece = ts_pairs_given(p->coll, s->rank, q);
        place[q] = ts_shm_place_of(s, piece);
        if (place[q] < all) all = place[q];
    }
    ts_shm_place(s, all);
}

/* After the agreement. */
static bool is_long(const pull *p, int q)
{
    return room_for(p, ts_shm_header(p->s, p->coll, q)->count) > TS_FLAT_BYTES;
}

static bool is_staged(const pull *p, int q)
{
    int64_t place = ts_shm_header(p->s, p->coll, q)->payload.place;
    return is_long(p, q) && (place == -1 || (place < 0 && !p->all_read));
}

static ts_status begin(pull *p)
{
    const ts_shm *s = p->s;
    int64_t most = 0;
    p->all_read = ts_shm_all_read(s, p->coll);
    for (int q = 0; q < s->size; q++) {
        int64_t count = ts_shm_header(s, p->coll, q)->count;
        p->any_direct |= is_long(p, q) && !is_staged(p, q);
        if (is_staged(p, q) && count > most) most = count;
    }
    p->stages = is_staged(p, s->rank);
    TS_TRY(ts_pieces_open(&p->pieces, p->s, p->coll, most > 0, p->stages));
    if (most == 0) return TS_OK;
    p->step = (size_t)p->pieces.slot_bytes;
    if (p->coll->op != TS_COLL_GATHER) p->step = p->step / (size_t)s->size / 64 * 64;
    p->steps = ((size_t)most * p->element + p->step - 1) / p->step;
    return TS_OK;
}

/* Of step i of a piece. */
static size_t bytes_at(const pull *p, ts_buffer piece, uint64_t i)
{
    size_t bytes = (size_t)piece.count * p->element, start = i * p->step;
    return start >= bytes ? 0 : bytes - start < p->step ? bytes - start : p->step;
}

static ts_status load(pull *p, uint64_t i)
{
    char *slot;
    const ts_shm *s = p->s;
    if (!p->stages || i >= p->steps) return TS_OK;
    TS_TRY(ts_pieces_claim(&p->pieces, i, &slot));
    for (int q = 0; q < s->size; q++) {
        ts_buffer piece = ts_pairs_given(p->coll, s->rank, q);
        size_t bytes = bytes_at(p, piece, i);
        if (q != s->rank && bytes > 0)
            memcpy(slot + place_for(p, q, p->step), (const char *)piece.data + i * p->step, bytes);
    }
    ts_pieces_loaded(&p->pieces, i);
    return TS_OK;
}

static ts_status copy(pull *p, uint64_t i)
{
    const ts_shm *s = p->s;
    for (int k = 1; k < s->size; k++) {
        int q = (s->rank + k) % s->size;
        ts_buffer piece = ts_pairs_taken(p->coll, s->rank, q);
        size_t bytes = bytes_at(p, piece, i);
        if (bytes == 0 || !is_staged(p, q)) continue;
        TS_TRY(ts_pieces_wait_loaded(&p->pieces, i, q));
        memcpy((char *)piece.data + i * p->step,
               ts_pieces_slot(&p->pieces, i, q) + place_for(p, s->rank, p->step), bytes);
    }
    ts_pieces_copied(&p->pieces, i);
    return TS_OK;
}

static ts_status copy_direct(const pull *p)
{
    ts_shm *s = p->s;
    size_t own = (p->coll->sequence & 1) * (size_t)s->size + (size_t)s->rank;
    for (int k = 1; k < s->size; k++) {
        int q = (s->rank + k) % s->size;
        ts_buffer piece = ts_pairs_taken(p->coll, s->rank, q);
        if (piece.count == 0 || !is_long(p, q) || is_staged(p, q)) continue;
        TS_TRY(ts_shm_copy(s, p->coll, q, s->peer[q].control->parts[own], 0, piece.data,
                           (size_t)piece.count * p->element));
    }
    return TS_OK;
}

static ts_status pull_long(pull *p)
{
    TS_TRY(begin(p));
    TS_TRY(load(p, 0));
    TS_TRY(copy_direct(p));
    for (uint64_t i = 0; i < p->steps; i++) {
        TS_TRY(load(p, i + 1));
        TS_TRY(copy(p, i));
    }
    p->pieces.staged = !p->any_direct;
    return ts_pieces_end(&p->pieces, p->steps > 0 ? p->steps : 1);
}

ts_status ts_pairs_shm(ts_shm *s, const ts_coll *coll)
{
    pull p = {.s = s, .coll = coll, .element = ts_dtype_size(coll->dtype)};
    bool any_long = false;
    int64_t most = ts_pairs_most(coll, s->rank, s->size);
    if (room_for(&p, most) <= TS_FLAT_BYTES)
        load_flat(&p, most);
    else
        announce(&p);
    TS_TRY(ts_shm_agree(s, coll));
    ts_pairs_keep_own(coll, s->rank);
    for (int q = 0; q < s->size; q++) {
        any_long |= is_long(&p, q);
        if (q != s->rank && !is_long(&p, q)) copy_flat(&p, q);
    }
    return any_long ? pull_long(&p) : TS_OK;
}

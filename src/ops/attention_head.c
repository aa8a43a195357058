/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax over keys that arrive in blocks: with the running maximum m and sum l of each query,
 *
 *     m' = max(m, max_j s_j)   l' = l exp(m - m') + sum_j exp(s_j - m')
 *     o' = o exp(m - m') + sum_j exp(s_j - m') v_j
 *
 * and o / l in the end (Milakov and Gimelshein, 2018; Dao et al., 2022).  Backward makes the
 * probabilities again from lse = m + log l:  p = exp(s - lse),  dp = do v',
 * ds = p (dp - do . o + dlse) scale,  dv = p' do,  dq = ds k,  dk = ds' q.  Dropout multiplies p in o
 * and dv, and dp, by 0 or 1 / (1 - drop_p). */
#include <math.h>

#include "kernels/philox.h"
#include "kernels/scratch.h"
#include "ops/attention.h"

enum { QUERIES = 32, KEYS = 128 };

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static char *at(ts_rows m, int64_t i, int64_t esize) { return m.data + i * m.row * esize; }

/* m from row i on, as a kernel takes it. */
static ts_matrix from_row(ts_rows m, int64_t i, int64_t esize)
{
    return (ts_matrix){at(m, i, esize), m.row, 1};
}

/* Keys that queries begin .. end - 1 may see at all. */
static int64_t keys_seen(const ts_attention_head *h, int64_t end)
{
    if (!h->causal) return h->keys;
    int64_t n = end + h->offset;
    return n < 0 ? 0 : smaller(n, h->keys);
}

static size_t packed_bytes(const ts_attention_head *h, int64_t width)
{
    int64_t nr = h->gemm->nr, padded = (h->keys + nr - 1) / nr * nr;
    return ts_round_up_64((size_t)(padded * width * h->esize));
}

static size_t block_bytes(const ts_attention_head *h)
{
    return ts_round_up_64((size_t)(QUERIES * KEYS * h->esize));
}

size_t ts_attention_scratch(const ts_attention_head *h, bool backward)
{
    size_t bytes = packed_bytes(h, h->width) + block_bytes(h);
    return backward ? bytes + packed_bytes(h, h->value_width) + block_bytes(h) : bytes;
}

/* Rows of m as columns, in the panels of packed B. */
static void pack_transposed(const ts_attention_head *h, void *to, ts_rows m, int64_t width)
{
    ts_matrix columns = {m.data, 1, m.row};
    h->gemm->pack_b(to, &columns, width, h->keys);
}

/* One block: queries i .. i + rows against keys j .. j + columns. */
typedef struct block {
    int64_t i, rows, j, columns;
} block;

/* s[rows][KEYS] = a b', with b packed by pack_transposed. */
static void scores(const ts_attention_head *h, char *s, ts_rows a, const char *packed,
                   int64_t width, block b)
{
    int64_t nr = h->gemm->nr;
    ts_matrix left = {at(a, b.i, h->esize), a.row, 1};
    for (int64_t c = 0; c < b.columns; c += nr) {
        ts_matrix panel = {packed + (b.j + c) * width * h->esize, nr, 1};
        h->gemm->small(b.rows, smaller(nr, b.columns - c), width, &left, &panel, s + c * h->esize,
                       KEYS, false);
    }
}

/* How many of the block's keys query r of it sees; the scores of the others are cleared. */
static int64_t clear_unseen(const ts_attention_head *h, char *s, block b, int64_t r)
{
    int64_t seen = keys_seen(h, b.i + r + 1) - b.j;
    seen = seen < 0 ? 0 : smaller(seen, b.columns);
    char *from = s + (r * KEYS + seen) * h->esize;
    memset(from, 0, (size_t)((b.columns - seen) * h->esize));
    return seen;
}

/* s = scale s + mask for keys j .. j + n - 1 of query i.  Is any of them seen? */
#define DEFINE_MASKED(T, name)                                                                     \
    static bool name(const ts_attention_head *h, T *s, int64_t i, int64_t j, int64_t n)            \
    {                                                                                              \
        const T *mask = (const T *)(const void *)h->mask + i * h->mask_row + j * h->mask_col;      \
        const bool *sight = (const bool *)h->mask + i * h->mask_row + j * h->mask_col;             \
        T scale = (T)h->scale;                                                                     \
        bool any = false;                                                                          \
        for (int64_t c = 0; c < n; c++) {                                                          \
            if (h->mask_is_bool)                                                                   \
                s[c] = sight[c * h->mask_col] ? s[c] * scale : (T)-INFINITY;                       \
            else                                                                                   \
                s[c] = s[c] * scale + mask[c * h->mask_col];                                       \
            any |= s[c] != (T)-INFINITY;                                                           \
        }                                                                                          \
        return any;                                                                                \
    }
DEFINE_MASKED(float, masked_f32)
DEFINE_MASKED(double, masked_f64)

static bool masked(const ts_attention_head *h, void *s, int64_t i, int64_t j, int64_t n)
{
    return h->esize == 8 ? masked_f64(h, s, i, j, n) : masked_f32(h, s, i, j, n);
}

/* x times 0 or 1 / (1 - p) for keys j .. j + n - 1 of query i. */
static void drop(const ts_attention_head *h, void *x, int64_t i, int64_t j, int64_t n)
{
    float u[KEYS];
    double kept = h->drop_p < 1 ? 1 / (1 - h->drop_p) : 0;
    ts_kernel_uniform_f32(u, n, h->drop_seed, h->drop_offset + (uint64_t)(i * h->keys + j));
    for (int64_t c = 0; c < n; c++) {
        double factor = (double)u[c] >= h->drop_p ? kept : 0;
        if (h->esize == 8)
            ((double *)x)[c] *= factor;
        else
            ((float *)x)[c] *= (float)factor;
    }
}

static void store(const ts_attention_head *h, int64_t i, double value)
{
    if (h->esize == 8)
        ((double *)h->lse)[i] = value;
    else
        ((float *)h->lse)[i] = (float)value;
}

static double load(const void *values, int64_t esize, int64_t i)
{
    return ts_read_at(values, esize == 8, i);
}

typedef struct running {
    double max[QUERIES], sum[QUERIES];
} running;

/* Scores of a block to probabilities, what was summed up before to the new maximum. */
static void soften(const ts_attention_head *h, char *s, block b, running *state)
{
    for (int64_t r = 0; r < b.rows; r++) {
        int64_t seen = clear_unseen(h, s, b, r);
        char *row = s + r * KEYS * h->esize;
        if (seen == 0) continue;
        if (h->mask && !masked(h, row, b.i + r, b.j, seen)) {
            memset(row, 0, (size_t)(seen * h->esize));
            continue;
        }
        double former =
            h->nn->softmax_step(row, seen, h->mask ? 1 : h->scale, &state->max[r], &state->sum[r]);
        if (h->drop_p > 0) drop(h, row, b.i + r, b.j, seen);
        if (b.j > 0 && former != 1)
            h->nn->scale_row(at(h->out, b.i + r, h->esize), h->value_width, former);
    }
}

static void finish(const ts_attention_head *h, int64_t i, int64_t rows, const running *state)
{
    for (int64_t r = 0; r < rows; r++) {
        bool none = state->max[r] == -INFINITY && state->sum[r] == 0;
        store(h, i + r, none ? -INFINITY : state->max[r] + log(state->sum[r]));
        if (!none) h->nn->scale_row(at(h->out, i + r, h->esize), h->value_width, 1 / state->sum[r]);
    }
}

static void clear_rows(ts_rows m, int64_t i, int64_t rows, int64_t width, int64_t esize)
{
    for (int64_t r = 0; r < rows; r++) memset(at(m, i + r, esize), 0, (size_t)(width * esize));
}

void ts_attention_forward(const ts_attention_head *h, void *scratch)
{
    char *packed_k = scratch, *s = packed_k + packed_bytes(h, h->width);
    pack_transposed(h, packed_k, h->k, h->width);
    for (int64_t i = 0; i < h->queries; i += QUERIES) {
        block b = {.i = i, .rows = smaller(QUERIES, h->queries - i)};
        int64_t end = keys_seen(h, i + b.rows);
        running state;
        for (int r = 0; r < QUERIES; r++) state.max[r] = -INFINITY, state.sum[r] = 0;
        if (end == 0) clear_rows(h->out, i, b.rows, h->value_width, h->esize);
        for (b.j = 0; b.j < end; b.j += KEYS) {
            b.columns = smaller(KEYS, end - b.j);
            scores(h, s, h->q, packed_k, h->width, b);
            soften(h, s, b, &state);
            ts_matrix p = {s, KEYS, 1}, v = from_row(h->v, b.j, h->esize);
            h->gemm->small(b.rows, h->value_width, b.columns, &p, &v, at(h->out, i, h->esize),
                           h->out.row, b.j > 0);
        }
        finish(h, i, b.rows, &state);
    }
}

/* ---- backward -------------------------------------------------------------------------------- */

/* A row of seen scores to probabilities, of gradients of probabilities to those of the scores. */
static void soften_grad_row(const ts_attention_head *h, char *s, char *dp, int64_t i, int64_t j,
                            int64_t seen, double delta)
{
    if (h->mask) masked(h, s, i, j, seen);
    if (h->drop_p > 0) drop(h, dp, i, j, seen);
    h->nn->softmax_step_grad(s, dp, seen, h->mask ? 1 : h->scale, load(h->lse, h->esize, i), delta);
    if (h->mask) h->nn->scale_row(dp, seen, h->scale);
    if (h->drop_p > 0) drop(h, s, i, j, seen);
}

static void soften_grad(const ts_attention_head *h, char *s, char *dp, block b, const double *delta)
{
    for (int64_t r = 0; r < b.rows; r++) {
        int64_t row = r * KEYS * h->esize, seen = clear_unseen(h, s, b, r);
        clear_unseen(h, dp, b, r);
        if (seen > 0 && load(h->lse, h->esize, b.i + r) == -INFINITY) {
            memset(s + row, 0, (size_t)(seen * h->esize));
            memset(dp + row, 0, (size_t)(seen * h->esize));
        } else if (seen > 0) {
            soften_grad_row(h, s + row, dp + row, b.i + r, b.j, seen, delta[r]);
        }
    }
}

/* dv += p' do,  dk += ds' q,  dq += ds k */
static void backward_block(const ts_attention_head *h, const char *s, const char *dp, block b)
{
    const ts_gemm_kernels *gemm = h->gemm;
    ts_matrix p_t = {s, 1, KEYS}, ds_t = {dp, 1, KEYS}, ds = {dp, KEYS, 1};
    ts_matrix grad_out = from_row(h->grad_out, b.i, h->esize), q = from_row(h->q, b.i, h->esize);
    ts_matrix k = from_row(h->k, b.j, h->esize);
    gemm->small(b.columns, h->value_width, b.rows, &p_t, &grad_out, at(h->dv, b.j, h->esize),
                h->dv.row, true);
    gemm->small(b.columns, h->width, b.rows, &ds_t, &q, at(h->dk, b.j, h->esize), h->dk.row, true);
    gemm->small(b.rows, h->width, b.columns, &ds, &k, at(h->dq, b.i, h->esize), h->dq.row, b.j > 0);
}

void ts_attention_backward(const ts_attention_head *h, void *scratch)
{
    char *packed_k = scratch, *packed_v = packed_k + packed_bytes(h, h->width);
    char *s = packed_v + packed_bytes(h, h->value_width), *dp = s + block_bytes(h);
    pack_transposed(h, packed_k, h->k, h->width);
    pack_transposed(h, packed_v, h->v, h->value_width);
    if (!h->add) clear_rows(h->dk, 0, h->keys, h->width, h->esize);
    if (!h->add) clear_rows(h->dv, 0, h->keys, h->value_width, h->esize);
    for (int64_t i = 0; i < h->queries; i += QUERIES) {
        block b = {.i = i, .rows = smaller(QUERIES, h->queries - i)};
        int64_t end = keys_seen(h, i + b.rows);
        double delta[QUERIES];
        for (int64_t r = 0; r < b.rows; r++) {
            delta[r] = h->nn->dot(at(h->grad_out, i + r, h->esize), at(h->out, i + r, h->esize),
                                  h->value_width);
            if (h->grad_lse) delta[r] -= load(h->grad_lse, h->esize, i + r);
        }
        if (end == 0) clear_rows(h->dq, i, b.rows, h->width, h->esize);
        for (b.j = 0; b.j < end; b.j += KEYS) {
            b.columns = smaller(KEYS, end - b.j);
            scores(h, s, h->q, packed_k, h->width, b);
            scores(h, dp, h->grad_out, packed_v, h->value_width, b);
            soften_grad(h, s, dp, b, delta);
            backward_block(h, s, dp, b);
        }
    }
}

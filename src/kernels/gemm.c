/* SPDX-License-Identifier: Apache-2.0 */
/* The loops around the inner tile (Goto and van de Geijn, "Anatomy of high-performance matrix
 * multiplication", 2008): B in blocks of KC x NC that fit the second-level cache, A in blocks of
 * MC x KC. */
#include "kernels/gemm.h"

#include "base/thread.h"
#include "kernels/gemm_tables.h"
#include "kernels/scratch.h"

static const ts_gemm_kernels *const tables[TS_NUM_ISAS][2] = {
    [TS_ISA_REF] = {&ts_gemm_f32_ref, &ts_gemm_f64_ref},
#if defined(__x86_64__)
    [TS_ISA_AVX2] = {&ts_gemm_f32_avx2, &ts_gemm_f64_avx2},
    [TS_ISA_AVX512] = {&ts_gemm_f32_avx512, &ts_gemm_f64_avx512},
#endif
};

const ts_gemm_kernels *ts_gemm_kernels_of(ts_dtype dtype, ts_isa isa)
{
    if (isa > ts_isa_best() || (dtype != TS_FLOAT32 && dtype != TS_FLOAT64)) return NULL;
    return tables[isa][dtype == TS_FLOAT64];
}

const ts_gemm_kernels *ts_gemm_kernels_for(ts_dtype dtype)
{
    return ts_gemm_kernels_of(dtype, ts_isa_in_use());
}

enum { KC = 256, MC = 192, NC = 512, PACK_PANELS = 4 };

static size_t element_size(ts_dtype dtype) { return dtype == TS_FLOAT64 ? 8 : 4; }
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

static size_t b_bytes(const ts_gemm_call *call, int nr)
{
    int64_t elements = smaller(KC, call->k) * round_up(smaller(NC, call->n), nr);
    return ts_round_up_64((size_t)elements * element_size(call->dtype));
}

static size_t a_bytes(const ts_gemm_call *call, int mr)
{
    int64_t elements = smaller(KC, call->k) * round_up(smaller(MC, call->m), mr);
    return 64 + ts_round_up_64((size_t)elements * element_size(call->dtype));
}

size_t ts_gemm_scratch(const ts_gemm_call *call)
{
    const ts_gemm_kernels *kernels = ts_gemm_kernels_for(call->dtype);
    return b_bytes(call, kernels->nr) + a_bytes(call, kernels->mr) * (size_t)ts_slots_wanted();
}

/* One block of B: rows p .. p + kc, columns j .. j + nc of the product. */
typedef struct block {
    const ts_gemm_call *call;
    const ts_gemm_kernels *kernels;
    int64_t esize, p, kc, j, nc;
    void *packed_b;
    ts_slots slots;
} block;

static void pack_panels(int64_t begin, int64_t end, void *user)
{
    block *b = user;
    const ts_gemm_call *call = b->call;
    int64_t first = begin * b->kernels->nr, last = smaller(end * b->kernels->nr, b->nc);
    int64_t at = b->p * call->b.row + (b->j + first) * call->b.col;
    ts_matrix from = {(const char *)call->b.data + at * b->esize, call->b.row, call->b.col};
    b->kernels->pack_b((char *)b->packed_b + first * b->kc * b->esize, &from, b->kc, last - first);
}

static void multiply_rows(int64_t begin, int64_t end, void *user)
{
    block *b = user;
    const ts_gemm_call *call = b->call;
    int64_t at = begin * call->a.row + b->p * call->a.col;
    ts_matrix from = {(const char *)call->a.data + at * b->esize, call->a.row, call->a.col};
    bool add = call->add || b->p > 0;
    const char *bias = call->bias && !add ? (const char *)call->bias + b->j * b->esize : NULL;
    char *c = (char *)call->c + (begin * call->ldc + b->j) * b->esize;
    if (from.col == 1) {
        b->kernels->unpacked(end - begin, b->nc, b->kc, &from, b->packed_b, c, call->ldc, add,
                             bias);
        return;
    }
    void *packed_a = ts_slot_claim(&b->slots);
    b->kernels->pack_a(packed_a, &from, end - begin, b->kc);
    b->kernels->packed(end - begin, b->nc, b->kc, packed_a, b->packed_b, c, call->ldc, add, bias);
    ts_slot_release(&b->slots, packed_a);
}

void ts_gemm(const ts_gemm_call *call, void *scratch)
{
    block b = {.call = call, .kernels = ts_gemm_kernels_for(call->dtype), .packed_b = scratch};
    b.esize = (int64_t)element_size(call->dtype);
    ts_slots_init(&b.slots, (char *)scratch + b_bytes(call, b.kernels->nr),
                  a_bytes(call, b.kernels->mr), ts_slots_wanted());
    for (b.j = 0; b.j < call->n; b.j += NC) {
        b.nc = smaller(NC, call->n - b.j);
        for (b.p = 0; b.p == 0 || b.p < call->k; b.p += KC) {
            b.kc = smaller(KC, call->k - b.p);
            int64_t panels = (b.nc + b.kernels->nr - 1) / b.kernels->nr;
            ts_parallel_for(panels, PACK_PANELS, pack_panels, &b);
            ts_parallel_for(call->m, MC, multiply_rows, &b);
        }
    }
}

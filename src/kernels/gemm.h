/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products of strided matrices: C = A B (+ C, or + a bias per column).
 *
 * Products come from CBLAS.  Large ones are cut on a grid that depends on the shape only and run on
 * the pool's threads, so results do not depend on the number of threads. */
#ifndef TS_KERNELS_GEMM_H
#define TS_KERNELS_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tessera/dtype.h>
#include <tessera/status.h>

#include "kernels/isa.h"

typedef struct ts_matrix {
    const void *data;
    int64_t row, col; /* strides in elements; any, 0 too */
} ts_matrix;

typedef struct ts_gemm_call {
    ts_dtype dtype;  /* float32 or float64 */
    int64_t m, n, k; /* any may be 0; k = 0 gives bias or 0 */
    ts_matrix a, b;
    void *c;
    int64_t ldc;
    bool add;         /* C += A B; else C = A B + bias */
    const void *bias; /* n values side by side, or NULL */
} ts_gemm_call;

/* Bytes of scratch memory (64-byte aligned) that ts_gemm needs for the call: 0 unless BLAS cannot
 * take an operand as it lies. */
size_t ts_gemm_scratch(const ts_gemm_call *call);
/* Safe in several threads at once.  TS_EUNSUPPORTED without a BLAS library, TS_ESHAPE beyond the
 * 2^31 - 1 rows or columns that its interface takes. */
ts_status ts_gemm(const ts_gemm_call *call, void *scratch);

/* Products of blocks that stay in the cache, without BLAS's packing and call overhead: attention's.
 * One table per dtype (float32, float64) and instruction set. */
typedef struct ts_gemm_kernels {
    int nr; /* columns of a panel */
    /* to[n / nr][k][nr], padded with zeros. */
    void (*pack_b)(void *to, const ts_matrix *b, int64_t k, int64_t n);
    /* C[m][n] = A B, rows of C ldc apart; add: is added to.  The columns of b must lie side by
     * side. */
    void (*small)(int64_t m, int64_t n, int64_t k, const ts_matrix *a, const ts_matrix *b, void *c,
                  int64_t ldc, bool add);
} ts_gemm_kernels;

const ts_gemm_kernels *ts_gemm_kernels_for(ts_dtype dtype);
const ts_gemm_kernels *ts_gemm_kernels_of(ts_dtype dtype, ts_isa isa); /* NULL: not here */

#endif

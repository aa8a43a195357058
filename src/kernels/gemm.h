/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products of strided matrices: C = A B (+ C, or + a bias per column).
 *
 * Every element of C is summed over k in the same order whatever the tiles are, so results do not
 * depend on the number of threads. */
#ifndef TS_KERNELS_GEMM_H
#define TS_KERNELS_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tessera/dtype.h>

#include "kernels/isa.h"

typedef struct ts_matrix {
    const void *data;
    int64_t row, col; /* strides in elements; any, 0 too */
} ts_matrix;

/* One table per dtype (float32, float64) and instruction set.  The inner tile has mr x nr elements;
 * packed A is [m / mr][k][mr], packed B [n / nr][k][nr], both padded with zeros. */
typedef struct ts_gemm_kernels {
    int mr, nr;
    void (*pack_a)(void *to, const ts_matrix *a, int64_t m, int64_t k);
    void (*pack_b)(void *to, const ts_matrix *b, int64_t k, int64_t n);
    /* C[m][n], rows ldc apart.  add: C is added to; else bias (n values) or, if NULL, 0 is. */
    void (*packed)(int64_t m, int64_t n, int64_t k, const void *a, const void *b, void *c,
                   int64_t ldc, bool add, const void *bias);
    /* The same with a as it lies in memory, its columns side by side. */
    void (*unpacked)(int64_t m, int64_t n, int64_t k, const ts_matrix *a, const void *b, void *c,
                     int64_t ldc, bool add, const void *bias);
    /* For small products: nothing is packed; the columns of b must lie side by side. */
    void (*small)(int64_t m, int64_t n, int64_t k, const ts_matrix *a, const ts_matrix *b, void *c,
                  int64_t ldc, bool add);
} ts_gemm_kernels;

const ts_gemm_kernels *ts_gemm_kernels_for(ts_dtype dtype);
const ts_gemm_kernels *ts_gemm_kernels_of(ts_dtype dtype, ts_isa isa); /* NULL: not here */

typedef struct ts_gemm_call {
    ts_dtype dtype;
    int64_t m, n, k; /* any may be 0; k = 0 gives bias or 0 */
    ts_matrix a, b;
    void *c;
    int64_t ldc;
    bool add;         /* C += A B; else C = A B + bias */
    const void *bias; /* n values side by side, or NULL */
} ts_gemm_call;

/* Bytes of scratch memory (64-byte aligned) that ts_gemm needs for the call. */
size_t ts_gemm_scratch(const ts_gemm_call *call);
/* Runs on the pool's threads; safe in several threads at once. */
void ts_gemm(const ts_gemm_call *call, void *scratch);

#endif

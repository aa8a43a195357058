/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products from a CBLAS library.
 *
 * The library is loaded at the first product, by the path that the build found (TESSERA_BLAS names
 * another one): a program that multiplies nothing starts without it.  Loading it ourselves also
 * lets us correct OpenBLAS where it does not know the processor and falls back to kernels of an old
 * one, which costs a factor of five. */
#ifndef TS_KERNELS_BLAS_H
#define TS_KERNELS_BLAS_H

#include <tessera/status.h>

/* CBLAS's numbers for order and transposition. */
enum { TS_BLAS_ROW_MAJOR = 101, TS_BLAS_NO_TRANS = 111, TS_BLAS_TRANS = 112 };

typedef struct ts_blas {
    /* C = alpha op(A) op(B) + beta C, as cblas_sgemm and cblas_dgemm. */
    void (*sgemm)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                  const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
    void (*dgemm)(int order, int trans_a, int trans_b, int m, int n, int k, double alpha,
                  const double *a, int lda, const double *b, int ldb, double beta, double *c,
                  int ldc);
    const char *path; /* of the library */
    char core[32];    /* the processor it computes for, such as "SkylakeX"; "" if it does not say */
} ts_blas;

/* The library, loaded once per process; any thread.  TS_EUNSUPPORTED naming the path and the
 * loader's reason. */
ts_status ts_blas_get(const ts_blas **out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products by BLAS, cut on a fixed grid over our threads. */
#include "kernels/gemm.h"

#include <string.h>

#include "base/error.h"
#include "base/thread.h"
#include "kernels/blas.h"

/* ---- operands -------------------------------------------------------------------------------- */

/* An operand as BLAS describes it. */
typedef struct operand {
    const char *data;
    int trans;
    int64_t ld;
} operand;

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Can BLAS take m as it lies: rows or columns side by side, the others at least that far apart? */
static bool describe(operand *out, const ts_matrix *m, int64_t rows, int64_t cols)
{
    out->data = m->data;
    if ((m->col == 1 || cols <= 1) && (m->row >= cols || rows <= 1)) {
        out->trans = TS_BLAS_NO_TRANS;
        out->ld = larger(rows <= 1 ? cols : m->row, 1);
        return true;
    }
    if ((m->row == 1 || rows <= 1) && (m->col >= rows || cols <= 1)) {
        out->trans = TS_BLAS_TRANS;
        out->ld = larger(cols <= 1 ? rows : m->col, 1);
        return true;
    }
    return false;
}

static size_t bytes_to_copy(const ts_matrix *m, int64_t rows, int64_t cols, size_t esize)
{
    operand unused;
    if (describe(&unused, m, rows, cols)) return 0;
    return ((size_t)rows * (size_t)cols * esize + 63) / 64 * 64;
}

size_t ts_gemm_scratch(const ts_gemm_call *call)
{
    size_t esize = ts_dtype_size(call->dtype);
    return bytes_to_copy(&call->a, call->m, call->k, esize) +
           bytes_to_copy(&call->b, call->k, call->n, esize);
}

/* describe, by way of a row-major copy in *scratch if it must be, which then moves on. */
static operand take(const ts_matrix *m, int64_t rows, int64_t cols, size_t esize, char **scratch)
{
    operand out;
    if (describe(&out, m, rows, cols)) return out;
    char *to = *scratch;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++, to += esize)
            memcpy(to, (const char *)m->data + (i * m->row + j * m->col) * (int64_t)esize, esize);
    out = (operand){*scratch, TS_BLAS_NO_TRANS, larger(cols, 1)};
    *scratch += bytes_to_copy(m, rows, cols, esize);
    return out;
}

/* ---- the grid -------------------------------------------------------------------------------- */

typedef struct job {
    const ts_gemm_call *call;
    const ts_blas *blas;
    operand a, b;
    size_t esize;
    bool by_rows; /* pieces are rows of C, else columns */
} job;

/* C starts as the bias in every row, if there is one. */
static void start_from_bias(const job *j, char *c, int64_t m, int64_t n, int64_t column)
{
    const char *bias = (const char *)j->call->bias + (size_t)column * j->esize;
    for (int64_t i = 0; i < m; i++)
        memcpy(c + (size_t)(i * j->call->ldc) * j->esize, bias, (size_t)n * j->esize);
}

static void multiply(const job *j, const operand *a, const operand *b, void *c, int m, int n)
{
    int k = (int)j->call->k, ldc = (int)j->call->ldc, lda = (int)a->ld, ldb = (int)b->ld;
    bool add = j->call->add || j->call->bias;
    if (j->call->dtype == TS_FLOAT64)
        j->blas->dgemm(TS_BLAS_ROW_MAJOR, a->trans, b->trans, m, n, k, 1, (const void *)a->data,
                       lda, (const void *)b->data, ldb, add, c, ldc);
    else
        j->blas->sgemm(TS_BLAS_ROW_MAJOR, a->trans, b->trans, m, n, k, 1, (const void *)a->data,
                       lda, (const void *)b->data, ldb, add, c, ldc);
}

static void multiply_piece(int64_t begin, int64_t end, void *user)
{
    const job *j = user;
    operand a = j->a, b = j->b;
    int64_t m = j->call->m, n = j->call->n, column = 0, at = begin * j->call->ldc;
    if (j->by_rows) {
        m = end - begin;
        a.data += (size_t)(begin * (a.trans == TS_BLAS_TRANS ? 1 : a.ld)) * j->esize;
    } else {
        n = end - begin;
        column = at = begin;
        b.data += (size_t)(begin * (b.trans == TS_BLAS_TRANS ? b.ld : 1)) * j->esize;
    }
    char *c = (char *)j->call->c + (size_t)at * j->esize;
    if (j->call->bias && !j->call->add) start_from_bias(j, c, m, n, column);
    multiply(j, &a, &b, c, (int)m, (int)n);
}

/* Pieces of equal length, about PIECE and a multiple of what a kernel takes at once.  Each piece
 * packs the other operand anew, so they are not shorter. */
static int64_t piece_length(int64_t length)
{
    enum { PIECE = 512, ALIGN = 64 };
    int64_t pieces = (length + PIECE - 1) / PIECE;
    return ((length + pieces - 1) / pieces + ALIGN - 1) / ALIGN * ALIGN;
}

ts_status ts_gemm(const ts_gemm_call *call, void *scratch)
{
    job j = {.call = call, .esize = ts_dtype_size(call->dtype), .by_rows = call->m >= call->n};
    if (call->m == 0 || call->n == 0) return TS_OK;
    TS_TRY(ts_blas_get(&j.blas));
    char *room = scratch;
    j.a = take(&call->a, call->m, call->k, j.esize, &room);
    j.b = take(&call->b, call->k, call->n, j.esize, &room);
    if (larger(larger(call->m, call->n),
               larger(call->k, larger(call->ldc, larger(j.a.ld, j.b.ld)))) > INT32_MAX)
        return ts_fail(TS_ESHAPE,
                       "matrix product of (%lld, %lld) and (%lld, %lld): BLAS takes at "
                       "most 2147483647 rows and columns",
                       (long long)call->m, (long long)call->k, (long long)call->k,
                       (long long)call->n);
    int64_t length = j.by_rows ? call->m : call->n;
    ts_parallel_for(length, piece_length(length), multiply_piece, &j);
    return TS_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Scaled dot-product attention of one head, in blocks of queries and keys. */
#ifndef TS_OPS_ATTENTION_H
#define TS_OPS_ATTENTION_H

#include "ops/nn_impl.h"

/* A matrix whose rows lie `row` elements apart and whose columns lie side by side. */
typedef struct ts_rows {
    char *data;
    int64_t row;
} ts_rows;

typedef struct ts_attention_head {
    const ts_gemm_kernels *gemm;
    const ts_nn_kernels *nn;
    int64_t esize;
    int64_t queries, keys, width, value_width;
    bool causal; /* query i sees keys j <= i + offset */
    int64_t offset;
    double scale;
    /* Added to the scores, or, if bool, false hides a key.  NULL: none. */
    const char *mask;
    bool mask_is_bool;
    int64_t mask_row, mask_col; /* in elements; 0 where broadcast */
    /* Dropout of probabilities: query i, key j takes element offset + i keys + j of the sequence. */
    double drop_p;
    uint64_t drop_seed, drop_offset;
    ts_rows q, k, v, out;
    void *lse; /* one value per query; -infinity for a query that sees no key */
    /* backward only */
    ts_rows grad_out, dq, dk, dv;
    const void *grad_lse; /* NULL: zero */
    bool add;             /* dk and dv are added to */
} ts_attention_head;

/* Bytes of scratch memory of a head; 64-byte aligned. */
size_t ts_attention_scratch(const ts_attention_head *head, bool backward);
void ts_attention_forward(const ts_attention_head *head, void *scratch);
void ts_attention_backward(const ts_attention_head *head, void *scratch);

#endif

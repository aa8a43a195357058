/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a byte-level BPE tokenizer. */
#ifndef TS_DATA_TOKENIZER_IMPL_H
#define TS_DATA_TOKENIZER_IMPL_H

#include <tessera/tokenizer.h>

#include "base/memory.h"

/* ---- how text is cut into pieces before BPE -------------------------------------------------- */

typedef enum ts_splitter {
    TS_SPLIT_NONE = 0,
    TS_SPLIT_GPT2 = 1,
    TS_SPLIT_DIGITS_3 = 2, /* cl100k and Llama 3: numbers in pieces of up to three digits */
    TS_SPLIT_DIGITS_1 = 3  /* Qwen 2: each digit alone */
} ts_splitter;

/* The split that a regular expression in a tokenizer.json stands for; -1: none that is known. */
int ts_split_of_pattern(const char *pattern);
/* Length of the first piece of size >= 1 bytes. */
size_t ts_split_next(ts_splitter split, const uint8_t *text, size_t size);

/* ---- merges: pairs of tokens that become one, by rank ---------------------------------------- */

typedef struct ts_merge {
    uint64_t pair; /* left << 32 | right, plus one; 0: an empty slot */
    uint32_t rank, result;
} ts_merge;

typedef struct ts_merges {
    ts_merge *slot;
    size_t slots, count;
} ts_merges;

ts_status ts_merges_add(ts_merges *merges, uint32_t left, uint32_t right, uint32_t result);
const ts_merge *ts_merges_find(const ts_merges *merges, uint32_t left, uint32_t right);

/* Token numbers that grow as they are appended. */
typedef struct ts_ids {
    int64_t *item;
    int64_t count, capacity;
} ts_ids;
ts_status ts_ids_add(ts_ids *ids, int64_t id);

/* Appends the tokens of a piece, which begins as one token per byte. */
ts_status ts_bpe_encode(ts_ids *out, const ts_merges *merges, const uint32_t byte_id[256],
                        const uint8_t *piece, size_t size);

/* ---- the tokenizer --------------------------------------------------------------------------- */

typedef struct ts_piece { /* what a token stands for; data NULL: no token has the number */
    char *data;
    size_t size;
} ts_piece;

typedef struct ts_added {
    const ts_piece *piece; /* set when all are known */
    int64_t id;
} ts_added;

struct ts_tokenizer {
    bool bytes; /* token n is byte n; nothing below is used */
    ts_piece *piece;
    int64_t size; /* of the vocabulary */
    ts_map vocab; /* text, with bytes as the characters that stand for them, to number + 1 */
    ts_merges merges;
    uint32_t byte_id[256];
    ts_splitter split;
    bool prefix_space, ignore_merges;
    ts_added *added;
    int64_t num_added;
    bool begins_added[256];
};

/* Fill a tokenizer, which is freed by the caller also on error. */
ts_status ts_tokenizer_add_token(ts_tokenizer *t, const char *text, double id);
ts_status ts_tokenizer_add_added(ts_tokenizer *t, const char *text, double id);
ts_status ts_tokenizer_add_merge(ts_tokenizer *t, const char *left, size_t left_size,
                                 const char *right, size_t right_size);
ts_status ts_tokenizer_read_json(ts_tokenizer *t, const char *text, size_t size);
ts_status ts_tokenizer_read_vocab(ts_tokenizer *t, const char *text, size_t size);
ts_status ts_tokenizer_read_merges(ts_tokenizer *t, const char *text, size_t size);
/* Checks that the parts fit together and prepares encoding. */
ts_status ts_tokenizer_complete(ts_tokenizer *t);

#endif

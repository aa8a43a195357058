/* SPDX-License-Identifier: Apache-2.0 */
/* Building tokenizers, encoding, decoding. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "data/tokenizer_impl.h"

/* ---- bytes as characters: files of vocabularies are text, so each byte has a printable character -- */

/* Code point of a byte: itself where it prints, else one of the 68 from 256 on. */
static uint32_t char_of(uint8_t byte)
{
    if (byte <= 32) return 256 + byte;
    if (byte >= 127 && byte <= 160) return 256 + 33 + (byte - 127u);
    return byte == 173 ? 256 + 67 : byte;
}

/* The inverse; -1: no byte has it. */
static int byte_of(uint32_t c)
{
    if (c < 256) return char_of((uint8_t)c) == c ? (int)c : -1;
    if (c < 256 + 33) return (int)(c - 256);
    if (c < 256 + 67) return (int)(c - 256 - 33 + 127);
    return c == 256 + 67 ? 173 : -1;
}

static size_t put_char(char *to, uint32_t c)
{
    if (c < 0x80) return to[0] = (char)c, 1;
    to[0] = (char)(0xC0 | c >> 6);
    to[1] = (char)(0x80 | (c & 0x3F));
    return 2;
}

/* The bytes that a vocabulary's text stands for; false if it is text for itself. */
static bool unmap(ts_piece *out, const char *text)
{
    size_t size = 0;
    for (const uint8_t *p = (const uint8_t *)text; *p;) {
        uint32_t c = *p++;
        if (c >= 0x80) {
            if (c >= 0xE0 || (*p & 0xC0) != 0x80) return false;
            c = (c & 0x1F) << 6 | (*p++ & 0x3F);
        }
        if (byte_of(c) < 0) return false;
        out->data[size++] = (char)byte_of(c);
    }
    out->size = size;
    return true;
}

/* ---- building -------------------------------------------------------------------------------- */

static ts_status make_room(ts_tokenizer *t, int64_t id)
{
    if (id < t->size) return TS_OK;
    int64_t size = id + 1 > 2 * t->size ? id + 1024 : 2 * t->size;
    void *grown = ts_grow(t->piece, (size_t)size, sizeof *t->piece);
    if (!grown) return ts_fail_memory((size_t)size * sizeof *t->piece, "a vocabulary");
    t->piece = grown;
    memset(t->piece + t->size, 0, (size_t)(size - t->size) * sizeof *t->piece);
    t->size = size;
    return TS_OK;
}

static ts_status set_piece(ts_tokenizer *t, const char *text, double number, bool raw)
{
    enum { MOST = 1 << 24 };
    if (!(number >= 0 && number < MOST) || number != (double)(int64_t)number)
        return ts_fail(TS_EFORMAT, "tokenizer: the token '%s' has the number %g", text, number);
    int64_t id = (int64_t)number;
    TS_TRY(make_room(t, id));
    ts_piece *piece = &t->piece[id];
    if (piece->data && !raw)
        return ts_fail(TS_EFORMAT, "tokenizer: two tokens have the number %lld", (long long)id);
    char *data = ts_strdup(text);
    if (!data) return ts_fail_memory(strlen(text), "a vocabulary");
    free(piece->data);
    *piece = (ts_piece){data, strlen(text)};
    if (!raw && !unmap(piece, text)) { /* no bytes: an added token that also stands here */
        strcpy(data, text);
        piece->size = strlen(text);
    }
    return TS_OK;
}

ts_status ts_tokenizer_add_token(ts_tokenizer *t, const char *text, double number)
{
    if (ts_map_get(&t->vocab, text))
        return ts_fail(TS_EFORMAT, "tokenizer: there are two tokens '%s'", text);
    TS_TRY(set_piece(t, text, number, false));
    if (ts_map_set(&t->vocab, text, (void *)((uintptr_t)number + 1))) return TS_OK;
    return ts_fail_memory(strlen(text), "a vocabulary");
}

ts_status ts_tokenizer_add_added(ts_tokenizer *t, const char *text, double number)
{
    if (!*text) return ts_fail(TS_EFORMAT, "tokenizer: an added token has no text");
    TS_TRY(set_piece(t, text, number, true));
    if (!ts_map_set(&t->vocab, text, (void *)((uintptr_t)number + 1)))
        return ts_fail_memory(strlen(text), "a vocabulary");
    void *grown = ts_grow(t->added, (size_t)t->num_added + 1, sizeof *t->added);
    if (!grown) return ts_fail_memory(sizeof *t->added, "added tokens");
    t->added = grown;
    t->added[t->num_added++] = (ts_added){NULL, (int64_t)number};
    t->begins_added[(uint8_t)text[0]] = true;
    return TS_OK;
}

static int64_t id_of(const ts_tokenizer *t, const char *text)
{
    return (int64_t)(uintptr_t)ts_map_get(&t->vocab, text) - 1;
}

ts_status ts_tokenizer_add_merge(ts_tokenizer *t, const char *left, size_t left_size,
                                 const char *right, size_t right_size)
{
    char *text = ts_asprintf("%.*s%.*s", (int)left_size, left, (int)right_size, right);
    char *first = ts_strndup(left, left_size), *second = ts_strndup(right, right_size);
    ts_status status;
    if (!text || !first || !second) {
        status = ts_fail_memory(left_size + right_size, "a merge");
    } else {
        int64_t a = id_of(t, first), b = id_of(t, second), c = id_of(t, text);
        status = a >= 0 && b >= 0 && c >= 0
                     ? ts_merges_add(&t->merges, (uint32_t)a, (uint32_t)b, (uint32_t)c)
                     : ts_fail(TS_EFORMAT,
                               "tokenizer: the merge of '%s' and '%s' is not of tokens that the "
                               "vocabulary has",
                               first, second);
    }
    free(text);
    free(first);
    free(second);
    return status;
}

ts_status ts_tokenizer_complete(ts_tokenizer *t)
{
    while (t->size > 0 && !t->piece[t->size - 1].data) t->size--;
    for (int byte = 0; byte < 256; byte++) {
        char text[3] = {0};
        put_char(text, char_of((uint8_t)byte));
        int64_t id = id_of(t, text);
        if (id < 0)
            return ts_fail(
                TS_EUNSUPPORTED,
                "tokenizer: there is no token for the byte 0x%02x; the vocabulary is not "
                "byte-level",
                (unsigned)byte);
        t->byte_id[byte] = (uint32_t)id;
    }
    for (int64_t i = 0; i < t->num_added; i++) t->added[i].piece = &t->piece[t->added[i].id];
    return TS_OK;
}

ts_status ts_tokenizer_bytes(ts_tokenizer **out)
{
    ts_tokenizer *t = ts_calloc(1, sizeof *t);
    if (!t) return ts_fail_memory(sizeof *t, "a tokenizer");
    t->bytes = true;
    *out = t;
    return TS_OK;
}

void ts_tokenizer_free(ts_tokenizer *t)
{
    if (!t) return;
    for (int64_t i = 0; i < t->size; i++) free(t->piece[i].data);
    free(t->piece);
    free(t->merges.slot);
    free(t->added);
    ts_map_fini(&t->vocab);
    free(t);
}

int64_t ts_tokenizer_vocab_size(const ts_tokenizer *t) { return !t ? 0 : t->bytes ? 256 : t->size; }

int64_t ts_tokenizer_id(const ts_tokenizer *t, const char *token)
{
    if (!t || !token) return -1;
    if (t->bytes) return token[0] && !token[1] ? (uint8_t)token[0] : -1;
    return id_of(t, token);
}

/* ---- encoding -------------------------------------------------------------------------------- */

/* Is the whole piece a token? */
static int64_t whole_piece(const ts_tokenizer *t, const uint8_t *piece, size_t size)
{
    enum { LONGEST = 256 };
    char text[2 * LONGEST + 1];
    size_t used = 0;
    if (size > LONGEST) return -1;
    for (size_t i = 0; i < size; i++) used += put_char(text + used, char_of(piece[i]));
    text[used] = '\0';
    return id_of(t, text);
}

static ts_status encode_piece(ts_ids *out, const ts_tokenizer *t, const uint8_t *piece, size_t size)
{
    int64_t whole = t->ignore_merges ? whole_piece(t, piece, size) : -1;
    if (whole >= 0) return ts_ids_add(out, whole);
    return ts_bpe_encode(out, &t->merges, t->byte_id, piece, size);
}

static ts_status encode_pieces(ts_ids *out, const ts_tokenizer *t, const uint8_t *text, size_t size)
{
    while (size > 0) {
        size_t length = ts_split_next(t->split, text, size);
        TS_TRY(encode_piece(out, t, text, length));
        text += length;
        size -= length;
    }
    return TS_OK;
}

/* Text between added tokens; where that is asked for, it begins with a space. */
static ts_status encode_text(ts_ids *out, const ts_tokenizer *t, const uint8_t *text, size_t size)
{
    if (size == 0 || !t->prefix_space || text[0] == ' ') return encode_pieces(out, t, text, size);
    uint8_t *spaced = malloc(size + 1);
    if (!spaced) return ts_fail_memory(size, "a text");
    spaced[0] = ' ';
    memcpy(spaced + 1, text, size);
    ts_status status = encode_pieces(out, t, spaced, size + 1);
    free(spaced);
    return status;
}

/* The longest added token that the text begins with. */
static const ts_added *added_at(const ts_tokenizer *t, const uint8_t *text, size_t size)
{
    const ts_added *longest = NULL;
    if (!t->begins_added[text[0]]) return NULL;
    for (int64_t i = 0; i < t->num_added; i++) {
        const ts_piece *piece = t->added[i].piece;
        if (piece->size <= size && memcmp(piece->data, text, piece->size) == 0 &&
            (!longest || piece->size > longest->piece->size))
            longest = &t->added[i];
    }
    return longest;
}

static ts_status encode_bpe(ts_ids *out, const ts_tokenizer *t, const uint8_t *text, size_t size,
                            bool special)
{
    size_t begin = 0;
    for (size_t at = 0; special && at < size;) {
        const ts_added *added = added_at(t, text + at, size - at);
        if (!added) {
            at++;
            continue;
        }
        TS_TRY(encode_text(out, t, text + begin, at - begin));
        TS_TRY(ts_ids_add(out, added->id));
        begin = at += added->piece->size;
    }
    return encode_text(out, t, text + begin, size - begin);
}

static ts_status encode_bytes(ts_ids *out, const uint8_t *text, size_t size)
{
    for (size_t i = 0; i < size; i++) TS_TRY(ts_ids_add(out, text[i]));
    return TS_OK;
}

ts_status ts_tokenizer_encode(int64_t **ids, int64_t *count, const ts_tokenizer *t,
                              const void *text, size_t size, bool special)
{
    ts_ids out = {0};
    if (!t || (!text && size > 0))
        return ts_fail(TS_EINVAL, "tokenizer_encode: a tokenizer and a text are needed");
    ts_status status =
        t->bytes ? encode_bytes(&out, text, size) : encode_bpe(&out, t, text, size, special);
    if (status == TS_OK && !out.item && !(out.item = ts_calloc(1, sizeof *out.item)))
        status = ts_fail_memory(sizeof *out.item, "tokens");
    if (status != TS_OK) {
        free(out.item);
        return status;
    }
    *ids = out.item;
    *count = out.count;
    return TS_OK;
}

/* ---- decoding -------------------------------------------------------------------------------- */

static ts_status piece_of(ts_piece *out, const ts_tokenizer *t, int64_t id, char *byte)
{
    if (id >= 0 && id < ts_tokenizer_vocab_size(t) && (t->bytes || t->piece[id].data)) {
        *byte = (char)id;
        *out = t->bytes ? (ts_piece){byte, 1} : t->piece[id];
        return TS_OK;
    }
    return ts_fail(TS_EINVAL, "tokenizer_decode: no token has the number %lld", (long long)id);
}

ts_status ts_tokenizer_decode(char **text, size_t *size, const ts_tokenizer *t, const int64_t *ids,
                              int64_t count)
{
    ts_piece piece;
    char byte;
    size_t total = 0, at = 0;
    if (!t || (!ids && count > 0) || count < 0)
        return ts_fail(TS_EINVAL, "tokenizer_decode: a tokenizer and tokens are needed");
    for (int64_t i = 0; i < count; i++) {
        TS_TRY(piece_of(&piece, t, ids[i], &byte));
        total += piece.size;
    }
    char *out = malloc(total + 1);
    if (!out) return ts_fail_memory(total, "a text");
    for (int64_t i = 0; i < count; i++) {
        (void)piece_of(&piece, t, ids[i], &byte);
        memcpy(out + at, piece.data, piece.size);
        at += piece.size;
    }
    out[total] = '\0';
    *text = out;
    if (size) *size = total;
    return TS_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The regular expressions that cut text into pieces, by hand.  Each rule below says which alternative
 * of the expression it is. */
#include <string.h>

#include "data/tokenizer_impl.h"
#include "data/unicode.h"

int ts_split_of_pattern(const char *pattern)
{
    static const char gpt2[] =
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    static const char digits_3[] =
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
        " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
    static const char digits_1[] =
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
        " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
    if (strcmp(pattern, gpt2) == 0) return TS_SPLIT_GPT2;
    if (strcmp(pattern, digits_3) == 0) return TS_SPLIT_DIGITS_3;
    return strcmp(pattern, digits_1) == 0 ? TS_SPLIT_DIGITS_1 : -1;
}

typedef struct view {
    const uint8_t *text;
    size_t size;
} view;

/* Class at a place; OTHER with length 0 at the end. */
static ts_char_class at(const view *v, size_t place, size_t *length)
{
    *length = 0;
    if (place >= v->size) return TS_CHAR_OTHER;
    return ts_char_at(v->text + place, v->size - place, length);
}

/* Where the run of characters of that class, at most `most` of them, ends. */
static size_t run_end(const view *v, size_t place, ts_char_class class, int64_t most)
{
    size_t length;
    while (most-- > 0 && at(v, place, &length) == class && length > 0) place += length;
    return place;
}

static bool is_newline(uint8_t c) { return c == '\r' || c == '\n'; }

/* '(s|t|re|ve|m|ll|d) */
static size_t contraction(const view *v, bool any_case)
{
    static const char *const ends[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    if (v->text[0] != '\'') return 0;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t n = strlen(ends[i]), same = 0;
        for (; same < n && 1 + same < v->size; same++) {
            uint8_t c = v->text[1 + same];
            if (any_case && c >= 'A' && c <= 'Z') c = (uint8_t)(c + 'a' - 'A');
            if (c != (uint8_t)ends[i][same]) break;
        }
        if (same == n) return 1 + n;
    }
    return 0;
}

/* \s+(?!\S)|\s+ : all white space at the end of the text; else all but the last character, which
 * belongs to what follows, unless it is the only one. */
static size_t white_space(const view *v)
{
    size_t place = 0, before = 0, length;
    while (at(v, place, &length) == TS_CHAR_SPACE) {
        before = place;
        place += length;
    }
    return place == v->size || before == 0 ? place : before;
}

/* GPT-2: ... | ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|... */
static size_t next_gpt2(const view *v)
{
    size_t length, begin = v->text[0] == ' ' ? 1 : 0, end = contraction(v, false);
    if (end > 0) return end;
    ts_char_class class = at(v, begin, &length);
    if (length == 0 || class == TS_CHAR_SPACE) return white_space(v);
    return run_end(v, begin, class, INT64_MAX);
}

/* [^\r\n\p{L}\p{N}]?\p{L}+ */
static size_t word(const view *v)
{
    size_t length, next;
    ts_char_class first = at(v, 0, &length);
    if (first == TS_CHAR_LETTER) return run_end(v, 0, TS_CHAR_LETTER, INT64_MAX);
    if (first == TS_CHAR_NUMBER || is_newline(v->text[0])) return 0;
    if (at(v, length, &next) != TS_CHAR_LETTER) return 0;
    return run_end(v, length, TS_CHAR_LETTER, INT64_MAX);
}

/* ?[^\s\p{L}\p{N}]+[\r\n]*  after an optional space */
static size_t symbols(const view *v)
{
    size_t begin = v->text[0] == ' ' ? 1 : 0;
    size_t end = run_end(v, begin, TS_CHAR_OTHER, INT64_MAX);
    if (end == begin) return 0;
    while (end < v->size && is_newline(v->text[end])) end++;
    return end;
}

/* \s*[\r\n]+ : white space up to its last line break */
static size_t lines(const view *v)
{
    size_t place = 0, end = 0, length;
    while (at(v, place, &length) == TS_CHAR_SPACE) {
        place += length;
        if (is_newline(v->text[place - 1])) end = place;
    }
    return end;
}

static size_t next_of_digits(const view *v, int64_t digits)
{
    size_t end = contraction(v, true);
    if (end == 0) end = word(v);
    if (end == 0) end = run_end(v, 0, TS_CHAR_NUMBER, digits);
    if (end == 0) end = symbols(v);
    if (end == 0) end = lines(v);
    return end > 0 ? end : white_space(v);
}

size_t ts_split_next(ts_splitter split, const uint8_t *text, size_t size)
{
    view v = {text, size};
    switch (split) {
    case TS_SPLIT_GPT2: return next_gpt2(&v);
    case TS_SPLIT_DIGITS_3: return next_of_digits(&v, 3);
    case TS_SPLIT_DIGITS_1: return next_of_digits(&v, 1);
    case TS_SPLIT_NONE: break;
    }
    return size;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "data/unicode.h"

#include "formats/utf8.h"

enum { L = TS_CHAR_LETTER, N = TS_CHAR_NUMBER };

static const struct {
    uint32_t first, last;
    uint8_t class;
} ranges[] = {
#include "data/unicode_ranges.inc"
};

static ts_char_class class_of(uint32_t c)
{
    size_t low = 0, high = sizeof ranges / sizeof *ranges;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (c < ranges[middle].first)
            high = middle;
        else if (c > ranges[middle].last)
            low = middle + 1;
        else
            return (ts_char_class)ranges[middle].class;
    }
    return TS_CHAR_OTHER;
}

/* The property White_Space. */
static bool is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == 32 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000;
}

static size_t length_by_first(uint8_t first)
{
    return first < 0xC0 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

ts_char_class ts_char_at(const uint8_t *text, size_t size, size_t *length)
{
    size_t n = length_by_first(text[0]);
    *length = 1;
    if (n > size || !ts_utf8_valid((const char *)text, n, NULL)) return TS_CHAR_OTHER;
    uint32_t c = n == 1 ? text[0] : text[0] & (0x7Fu >> n);
    for (size_t i = 1; i < n; i++) c = c << 6 | (text[i] & 0x3F);
    *length = n;
    return is_space(c) ? TS_CHAR_SPACE : class_of(c);
}

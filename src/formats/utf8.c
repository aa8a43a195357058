/* SPDX-License-Identifier: Apache-2.0 */
/* Is a text UTF-8? */
#include "formats/utf8.h"

#include <stdint.h>

/* Bytes of the character that begins with first; 0: none does. */
static size_t length_of(uint8_t first)
{
    if (first < 0x80) return 1;
    if (first >= 0xC2 && first <= 0xDF) return 2;
    if (first >= 0xE0 && first <= 0xEF) return 3;
    return first >= 0xF0 && first <= 0xF4 ? 4 : 0;
}

/* The second byte rules out long forms, surrogates and what lies beyond U+10FFFF. */
static bool second_fits(uint8_t first, uint8_t second)
{
    uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    uint8_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    return second >= low && second <= high;
}

static bool character(const uint8_t *p, size_t left, size_t *length)
{
    *length = length_of(p[0]);
    if (*length == 0 || *length > left) return false;
    if (*length > 1 && !second_fits(p[0], p[1])) return false;
    for (size_t i = 2; i < *length; i++)
        if ((p[i] & 0xC0) != 0x80) return false;
    return true;
}

bool ts_utf8_valid(const char *text, size_t size, size_t *bad)
{
    size_t length;
    for (size_t at = 0; at < size; at += length)
        if (!character((const uint8_t *)text + at, size - at, &length)) {
            if (bad) *bad = at;
            return false;
        }
    return true;
}

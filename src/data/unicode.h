/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TS_DATA_UNICODE_H
#define TS_DATA_UNICODE_H

#include <stddef.h>
#include <stdint.h>

typedef enum ts_char_class {
    TS_CHAR_OTHER = 0, /* also bytes that are not UTF-8 */
    TS_CHAR_LETTER = 1,
    TS_CHAR_NUMBER = 2,
    TS_CHAR_SPACE = 3
} ts_char_class;

/* Class of the first character of size >= 1 bytes, and its length; a byte that begins none is a
 * character of its own. */
ts_char_class ts_char_at(const uint8_t *text, size_t size, size_t *length);

#endif

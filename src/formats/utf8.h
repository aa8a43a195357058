/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TS_FORMATS_UTF8_H
#define TS_FORMATS_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Well-formed UTF-8: shortest forms, no surrogates, nothing beyond U+10FFFF.  *bad, if not NULL: the
 * first byte that is not. */
bool ts_utf8_valid(const char *text, size_t size, size_t *bad);

#endif

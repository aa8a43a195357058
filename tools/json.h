/* SPDX-License-Identifier: Apache-2.0 */
/* Writes JSON objects, one a line.  Numbers that JSON cannot hold (NaN, infinity) become null. */
#ifndef TS_TOOLS_JSON_H
#define TS_TOOLS_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct ts_json {
    FILE *to;
    bool comma;
} ts_json;

ts_json ts_json_begin(FILE *to);
void ts_json_text(ts_json *json, const char *key, const char *value); /* value NULL: null */
void ts_json_int(ts_json *json, const char *key, int64_t value);
void ts_json_real(ts_json *json, const char *key, double value);
void ts_json_bool(ts_json *json, const char *key, bool value);
void ts_json_open(ts_json *json, const char *key); /* an object inside */
void ts_json_close(ts_json *json);
void ts_json_end(ts_json *json); /* closes the outer object, ends the line, flushes */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "json.h"

#include <math.h>

static void put_string(FILE *to, const char *text)
{
    fputc('"', to);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(to, "\\%c", c);
        else if (c < 32 || c == 127)
            fprintf(to, "\\u%04x", c);
        else
            fputc(c, to);
    }
    fputc('"', to);
}

static void put_key(ts_json *json, const char *key)
{
    if (json->comma) fputc(',', json->to);
    json->comma = true;
    put_string(json->to, key);
    fputc(':', json->to);
}

ts_json ts_json_begin(FILE *to)
{
    fputc('{', to);
    return (ts_json){to, false};
}

void ts_json_text(ts_json *json, const char *key, const char *value)
{
    put_key(json, key);
    if (value)
        put_string(json->to, value);
    else
        fputs("null", json->to);
}

void ts_json_int(ts_json *json, const char *key, int64_t value)
{
    put_key(json, key);
    fprintf(json->to, "%lld", (long long)value);
}

void ts_json_real(ts_json *json, const char *key, double value)
{
    put_key(json, key);
    if (isfinite(value))
        fprintf(json->to, "%.9g", value);
    else
        fputs("null", json->to);
}

void ts_json_bool(ts_json *json, const char *key, bool value)
{
    put_key(json, key);
    fputs(value ? "true" : "false", json->to);
}

void ts_json_open(ts_json *json, const char *key)
{
    put_key(json, key);
    fputc('{', json->to);
    json->comma = false;
}

void ts_json_close(ts_json *json)
{
    fputc('}', json->to);
    json->comma = true;
}

void ts_json_end(ts_json *json)
{
    fputs("}\n", json->to);
    fflush(json->to);
}

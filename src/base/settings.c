/* SPDX-License-Identifier: Apache-2.0 */
/* Reading settings from the environment. */
#include "base/settings.h"

#include <ctype.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/log.h"

static const ts_setting_info table[] = {
#define X(id, variable, kind, def, help) {variable, #kind, def, help},
    TS_SETTINGS(X)
#undef X
};

/* Of numbers; sizes count bytes. */
static const struct {
    int64_t least, most;
} range[TS_NUM_SETTINGS] = {
    [TS_SETTING_RECORDER_ENTRIES] = {0, 1 << 22},
    [TS_SETTING_ASYNC_ERROR_HANDLING] = {0, 3},
    [TS_SETTING_NUM_THREADS] = {0, 4096},
    [TS_SETTING_SHARED_HEAP] = {0, INT64_C(1) << 46},
    [TS_SETTING_TIMEOUT] = {1, INT64_C(10) * 366 * 86400 * 1000},
    [TS_SETTING_STORE_TIMEOUT] = {1, INT64_C(10) * 366 * 86400 * 1000},
    [TS_SETTING_HOST_CORES] = {0, 1 << 20},
    [TS_SETTING_SOCKETS_PER_PEER] = {0, 8},
    [TS_SETTING_STAGING] = {0, INT64_C(1) << 46},
    [TS_SETTING_OBJECT_LIMIT] = {1, INT64_C(1) << 46},
    [TS_SETTING_SPIN_US] = {-1, 10 * 1000 * 1000},
    [TS_SETTING_MPI_LIMIT] = {1, INT64_C(1) << 46},
};

/* Of those of kind WORD. */
static const char *const choices[TS_NUM_SETTINGS] = {
    [TS_SETTING_DEBUG] = "OFF|INFO|DETAIL|COMPARE",
    [TS_SETTING_ISA] = "ref|avx2|avx512",
    [TS_SETTING_SOCKET_FAMILY] = "ipv4|ipv6",
};

const ts_setting_info *ts_setting_describe(int index)
{
    return index >= 0 && index < TS_NUM_SETTINGS ? &table[index] : NULL;
}

const char *ts_setting_string(ts_setting setting)
{
    const char *text = getenv(table[setting].variable);
    return text && *text ? text : table[setting].def;
}

/* ---- readers: false if the text is malformed ------------------------------------------------- */

static bool read_int(int64_t *out, const char *text)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end) return false;
    *out = value;
    return true;
}

static bool read_size(int64_t *out, const char *text)
{
    static const struct {
        const char *name;
        int shift;
    } units[] = {{"", 0},     {"B", 0},  {"K", 10},   {"KiB", 10}, {"M", 20},
                 {"MiB", 20}, {"G", 30}, {"GiB", 30}, {"T", 40},   {"TiB", 40}};
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || value < 0) return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcasecmp(end, units[i].name) == 0 && value <= INT64_MAX >> units[i].shift) {
            *out = value << units[i].shift;
            return true;
        }
    return false;
}

static bool read_bool(bool *out, const char *text)
{
    static const char *const words[][2] = {{"1", "0"}, {"y", "n"},        {"yes", "no"},
                                           {"t", "f"}, {"true", "false"}, {"on", "off"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (int no = 0; no < 2; no++)
            if (strcasecmp(text, words[i][no]) == 0) {
                *out = !no;
                return true;
            }
    return false;
}

ts_status ts_parse_int(int64_t *out, const char *text)
{
    if (read_int(out, text)) return TS_OK;
    return ts_fail(TS_EINVAL, "'%s' is not a whole number", text);
}

ts_status ts_parse_size(int64_t *out, const char *text)
{
    if (read_size(out, text)) return TS_OK;
    return ts_fail(TS_EINVAL, "'%s' is not a size (such as 65536, 64K or 1MiB)", text);
}

ts_status ts_parse_bool(bool *out, const char *text)
{
    if (read_bool(out, text)) return TS_OK;
    return ts_fail(TS_EINVAL, "'%s' is neither yes nor no (1/0, y/n, true/false)", text);
}

/* ---- values ---------------------------------------------------------------------------------- */

static void warn_malformed(ts_setting setting, const char *text)
{
    static atomic_bool warned[TS_NUM_SETTINGS];
    if (!atomic_exchange(&warned[setting], true))
        TS_LOG(TS_LOG_BASE, TS_LEVEL_WARNING,
               "%s='%s' is malformed or out of range; the default %s is used",
               table[setting].variable, text, table[setting].def);
}

static bool is_kind(int setting, const char *kind) { return !strcmp(table[setting].kind, kind); }

static bool read_number(int64_t *out, int setting, const char *text)
{
    int64_t value = 0;
    if (!(is_kind(setting, "SIZE") ? read_size : read_int)(&value, text)) return false;
    *out = value;
    return value >= range[setting].least && value <= range[setting].most;
}

int64_t ts_setting_int(ts_setting setting)
{
    const char *text = ts_setting_string(setting);
    int64_t value = 0;
    if (read_number(&value, (int)setting, text)) return value;
    warn_malformed(setting, text);
    read_number(&value, (int)setting, table[setting].def);
    return value;
}

static bool is_choice(int setting, const char *text)
{
    size_t length = strlen(text);
    for (const char *c = choices[setting]; *c; c += strcspn(c, "|"), c += *c == '|')
        if (strcspn(c, "|") == length && strncasecmp(c, text, length) == 0) return true;
    return false;
}

static ts_status check(int i, const char *text)
{
    int64_t number;
    bool yes;
    if (is_kind(i, "WORD")) {
        if (is_choice(i, text)) return TS_OK;
        return ts_fail(TS_EINVAL, "%s is '%s', which is not one of %s", table[i].variable, text,
                       choices[i]);
    }
    if (is_kind(i, "BOOL")) {
        if (read_bool(&yes, text)) return TS_OK;
        return ts_fail(TS_EINVAL, "%s is '%s', which is neither yes nor no (1/0, y/n, true/false)",
                       table[i].variable, text);
    }
    if (read_number(&number, i, text)) return TS_OK;
    return ts_fail(TS_EINVAL, "%s is '%s', which is not a number in %lld .. %lld",
                   table[i].variable, text, (long long)range[i].least, (long long)range[i].most);
}

ts_status ts_settings_check(void)
{
    for (int i = 0; i < TS_NUM_SETTINGS; i++) {
        const char *text = ts_setting_string((ts_setting)i);
        if (*text && !is_kind(i, "STRING")) TS_TRY(check(i, text));
    }
    return TS_OK;
}

bool ts_setting_bool(ts_setting setting)
{
    const char *text = ts_setting_string(setting);
    bool value = false;
    if (read_bool(&value, text)) return value;
    warn_malformed(setting, text);
    read_bool(&value, table[setting].def);
    return value;
}

/* ---- variables of others --------------------------------------------------------------------- */

static void warn_deprecated(const char *name, const char *current)
{
    enum { MOST = 32 };
    static _Atomic(const char *) warned[MOST];
    for (int i = 0; i < MOST; i++) {
        const char *there = NULL;
        if (atomic_compare_exchange_strong(&warned[i], &there, name)) break;
        if (strcmp(there, name) == 0) return;
    }
    TS_LOG(TS_LOG_BASE, TS_LEVEL_WARNING, "%s is deprecated; set %s", name, current);
}

static const char *first_set(const char **which, const char *const *names)
{
    for (; names && *names; names++) {
        const char *text = getenv(*names);
        if (!text || !*text) continue;
        *which = *names;
        return text;
    }
    return NULL;
}

const char *ts_env_first(const char **which, const char *const *names,
                         const char *const *deprecated)
{
    const char *old = NULL, *text = first_set(which, names);
    const char *otherwise = first_set(&old, deprecated);
    if (old) warn_deprecated(old, names[0]);
    if (!text && old) *which = old;
    return text ? text : otherwise;
}

ts_status ts_env_bool(bool *out, bool *found, const char *const *names,
                      const char *const *deprecated)
{
    const char *which = NULL, *text = ts_env_first(&which, names, deprecated);
    *found = text != NULL;
    if (!text || read_bool(out, text)) return TS_OK;
    return ts_fail(TS_EINVAL, "%s is '%s', which is neither yes nor no (1/0, y/n, true/false)",
                   which, text);
}

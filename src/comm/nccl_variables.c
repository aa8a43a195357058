/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/nccl_variables.h"

#include <stdlib.h>
#include <string.h>

#include "base/settings.h"

enum { DEFAULT_ENTRIES = 2000, MOST_ENTRIES = 1 << 22 };

static const char *const entries_names[] = {"TESSERA_RECORDER_ENTRIES", "TORCH_FR_BUFFER_SIZE",
                                            "TORCH_NCCL_TRACE_BUFFER_SIZE", NULL};

static const struct variable {
    const char *name, *old;
    bool is_int, deprecated;
} table[TS_NUM_ENV] = {
#define X(id, kind, text, is_deprecated)                                                           \
    [TS_ENV_##id] = {"TORCH_NCCL_" text, "NCCL_" text, sizeof #kind == sizeof "INT", is_deprecated},
    TS_ENV_VARIABLES(X)
#undef X
};

static const char *text_of(const struct variable *v, const char **which)
{
    const char *const names[] = {v->name, NULL}, *const old[] = {v->old, NULL};
    return ts_env_first(which, names, v->deprecated ? old : NULL);
}

static ts_status check(const struct variable *v)
{
    bool flag;
    int64_t number;
    const char *which = v->name, *text = text_of(v, &which);
    if (!text) return TS_OK;
    if ((v->is_int ? ts_parse_int(&number, text) : ts_parse_bool(&flag, text)) == TS_OK)
        return TS_OK;
    return ts_fail(TS_EINVAL, "%s is '%s', which is %s", which, text,
                   v->is_int ? "not a whole number" : "neither yes nor no (1/0, y/n, true/false)");
}

static ts_status check_entries(void)
{
    const char *which, *text = ts_env_first(&which, entries_names, NULL);
    int64_t entries;
    if (!text || (ts_parse_int(&entries, text) == TS_OK && entries >= 0 && entries <= MOST_ENTRIES))
        return TS_OK;
    return ts_fail(TS_EINVAL, "%s is '%s', which is not a number in 0 .. %d", which, text,
                   MOST_ENTRIES);
}

ts_status ts_env_check(void)
{
    for (int i = 0; i < TS_NUM_ENV; i++) TS_TRY(check(&table[i]));
    return check_entries();
}

bool ts_env_is_set(ts_env variable, bool *value)
{
    const char *which, *text = text_of(&table[variable], &which);
    return text && ts_parse_bool(value, text) == TS_OK;
}

bool ts_env_flag(ts_env variable)
{
    bool value = false;
    return ts_env_is_set(variable, &value) && value;
}

int64_t ts_env_recorder_entries(void)
{
    const char *which, *text = ts_env_first(&which, entries_names, NULL);
    int64_t entries;
    if (!text || ts_parse_int(&entries, text) != TS_OK || entries < 0) return DEFAULT_ENTRIES;
    return entries < MOST_ENTRIES ? entries : MOST_ENTRIES;
}

static const char *first_of(const char *const *names)
{
    const char *which, *text = ts_env_first(&which, names, NULL);
    return text ? text : "";
}

const char *ts_env_dump_prefix(void)
{
    static const char *const names[] = {"TESSERA_DUMP_FILE", "TORCH_FR_DUMP_TEMP_FILE",
                                        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE", NULL};
    return first_of(names);
}

const char *ts_env_pipe_prefix(void)
{
    static const char *const names[] = {"TESSERA_DUMP_PIPE", "TORCH_NCCL_DEBUG_INFO_PIPE_FILE",
                                        NULL};
    return first_of(names);
}

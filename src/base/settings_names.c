/* SPDX-License-Identifier: Apache-2.0 */
/* Variables that look like settings and are none. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/nearest.h"
#include "base/settings.h"

#define PREFIX "TESSERA_"
enum { PREFIX_LENGTH = sizeof PREFIX - 1 };

/* Names, or beginnings of them, that processes of one job and tests hand to each other. */
static const char *const internal[] = {"SPAWN", "TIMING_START", "NAMES_CHECKED",
                                       "TEST_", "BENCH_",       "GOLDEN_"};

static bool is_internal(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof internal / sizeof *internal; i++) {
        size_t known = strlen(internal[i]);
        bool begins = length >= known && strncmp(name, internal[i], known) == 0;
        if (begins && (length == known || internal[i][known - 1] == '_')) return true;
    }
    return false;
}

/* names: of all settings, without the prefix. */
static void check_name(const char *name, size_t length, const char *const *names)
{
    char text[64];
    for (int i = 0; i < TS_NUM_SETTINGS; i++)
        if (strlen(names[i]) == length && strncmp(names[i], name, length) == 0) return;
    if (is_internal(name, length)) return;
    snprintf(text, sizeof text, "%.*s", (int)length, name);
    const char *near = ts_nearest(text, names, TS_NUM_SETTINGS);
    TS_LOG(TS_LOG_BASE, TS_LEVEL_WARNING,
           "%s%s is set, but there is no such setting%s%s%s; tessera info --settings lists them",
           PREFIX, text, near ? " (did you mean " PREFIX : "", near ? near : "", near ? "?)" : "");
}

void ts_settings_check_names(void)
{
    static atomic_bool done;
    const char *names[TS_NUM_SETTINGS];
    if (atomic_exchange(&done, true) || getenv(TS_NAMES_CHECKED)) return;
    for (int i = 0; i < TS_NUM_SETTINGS; i++)
        names[i] = ts_setting_describe(i)->variable + PREFIX_LENGTH;
    for (char **at = environ; at && *at; at++)
        if (strncmp(*at, PREFIX, PREFIX_LENGTH) == 0)
            check_name(*at + PREFIX_LENGTH, strcspn(*at + PREFIX_LENGTH, "="), names);
}

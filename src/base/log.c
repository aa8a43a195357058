/* SPDX-License-Identifier: Apache-2.0 */
/* Levels by component, and lines to stderr. */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <tessera/debug.h>
#include <time.h>

#include "base/context.h"
#include "base/settings.h"

static const char *const component_names[] = {
#define X(name, text) text,
    TS_LOG_COMPONENTS(X)
#undef X
};

#define X(name, text) " " text
#define COMPONENTS TS_LOG_COMPONENTS(X)

static _Atomic signed char levels[TS_LOG_NUM];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_bool configured; /* saves calls the library function behind once */

static int component_of(const char *name, size_t length)
{
    for (int i = 0; i < TS_LOG_NUM; i++)
        if (strlen(component_names[i]) == length && memcmp(component_names[i], name, length) == 0)
            return i;
    return -1;
}

static void set_all(signed char level)
{
    for (int i = 0; i < TS_LOG_NUM; i++) levels[i] = level;
}

/* PyTorch's: the debug level counts only where the log level is INFO. */
static signed char default_level(void)
{
    const char *text = getenv("TORCH_CPP_LOG_LEVEL");
    if (!text) return TS_LEVEL_WARNING;
    if (strcasecmp(text, "ERROR") == 0 || strcasecmp(text, "FATAL") == 0) return TS_LEVEL_ERROR;
    if (strcasecmp(text, "INFO") != 0) return TS_LEVEL_WARNING;
    return ts_get_debug_level() == TS_DEBUG_OFF ? TS_LEVEL_INFO : TS_LEVEL_DEBUG;
}

static void set_level(const char *word, size_t length)
{
    signed char level = TS_LEVEL_INFO;
    if (*word == '+' || *word == '-') {
        level = *word == '+' ? TS_LEVEL_DEBUG : TS_LEVEL_ERROR;
        word++, length--;
    }
    if (length == 0) return;
    if (length == 3 && memcmp(word, "all", 3) == 0) {
        set_all(level);
        return;
    }
    int component = component_of(word, length);
    if (component >= 0)
        levels[component] = level;
    else
        ts_log_write(TS_LOG_BASE, TS_LEVEL_WARNING,
                     "TESSERA_LOGS: there is no component '%.*s'; there are" COMPONENTS " and all",
                     (int)length, word);
}

void ts_log_configure(const char *text)
{
    set_all(default_level());
    while (*text) {
        size_t length = strcspn(text, ", ");
        if (length > 0) set_level(text, length);
        text += length;
        text += strspn(text, ", ");
    }
}

static void configure_from_environment(void)
{
    ts_log_configure(ts_setting_string(TS_SETTING_LOGS));
    atomic_store(&configured, true);
}

void ts_log_refresh(void)
{
    pthread_once(&once, configure_from_environment);
    configure_from_environment();
}

/* ---- where lines go -------------------------------------------------------------------------- */

static _Atomic(ts_log_sink) sink_fn;
static _Atomic(void *) sink_user;

void ts_set_log_sink(ts_log_sink sink, void *user)
{
    atomic_store(&sink_fn, NULL);
    atomic_store(&sink_user, user);
    atomic_store(&sink_fn, sink);
}

int ts_log_enabled(ts_log_component component, ts_log_level level)
{
    if (!atomic_load_explicit(&configured, memory_order_acquire))
        pthread_once(&once, configure_from_environment);
    return (int)level <= levels[component];
}

void ts_log_write(ts_log_component component, ts_log_level level, const char *format, ...)
{
    static const char *const level_names[] = {"error", "warning", "info", "debug"};
    char line[TS_ERROR_MAX + 256];
    struct timespec now;
    struct tm local;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    int n = 0;
    int rank = ts_rank_current()->rank;
    if (rank >= 0) n = snprintf(line, sizeof line, "[rank%d] ", rank);
    n += snprintf(line + n, sizeof line - (size_t)n, "%02d:%02d:%02d.%03d %s %s: ", local.tm_hour,
                  local.tm_min, local.tm_sec, (int)(now.tv_nsec / 1000000),
                  component_names[component], level_names[level]);
    va_list args;
    va_start(args, format);
    vsnprintf(line + n, sizeof line - (size_t)n - 1, format, args);
    va_end(args);
    ts_log_sink sink = atomic_load_explicit(&sink_fn, memory_order_acquire);
    if (sink) {
        sink((ts_log_severity)level, component_names[component], line, atomic_load(&sink_user));
        return;
    }
    size_t length = strlen(line);
    line[length++] = '\n';
    fwrite(line, 1, length, stderr); /* one write: lines of several ranks do not mix */
}

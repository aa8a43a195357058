/* SPDX-License-Identifier: Apache-2.0 */
/* The debug level of the process. */
#include <stdatomic.h>
#include <strings.h>
#include <tessera/debug.h>

#include "base/error.h"
#include "base/log.h"
#include "base/settings.h"

enum { UNREAD = -1 };
static _Atomic int level = UNREAD;
static atomic_bool chosen; /* by the program */

static const char *const words[] = {"OFF", "INFO", "DETAIL", "COMPARE"};

static ts_status read_level(int *out)
{
    static const char *const names[] = {"TESSERA_DEBUG", "TORCH_DISTRIBUTED_DEBUG", NULL};
    const char *which, *text = ts_env_first(&which, names, NULL);
    *out = TS_DEBUG_OFF;
    if (!text) return TS_OK;
    for (int i = 0; i < 4; i++)
        if (strcasecmp(text, words[i]) == 0) {
            *out = i;
            return TS_OK;
        }
    return ts_fail(TS_EINVAL, "%s is '%s'; it is one of OFF, INFO, DETAIL (and COMPARE)", which,
                   text);
}

ts_debug_level ts_get_debug_level(void)
{
    int now = atomic_load_explicit(&level, memory_order_relaxed);
    if (now != UNREAD) return (ts_debug_level)now;
    int read = TS_DEBUG_OFF;
    read_level(
        &read); /* ts_debug_level_check reports what is malformed; the log asks for the level */
    atomic_compare_exchange_strong(&level, &now, read);
    return (ts_debug_level)atomic_load(&level);
}

ts_status ts_set_debug_level(ts_debug_level to)
{
    if ((int)to < TS_DEBUG_OFF || to > TS_DEBUG_COMPARE)
        return ts_fail(TS_EINVAL, "set_debug_level: %d is not a level", (int)to);
    atomic_store(&level, (int)to);
    atomic_store(&chosen, true);
    ts_log_refresh();
    return TS_OK;
}

ts_status ts_set_debug_level_from_env(void)
{
    int to;
    TS_TRY(read_level(&to));
    return ts_set_debug_level((ts_debug_level)to);
}

ts_status ts_debug_level_check(void)
{
    int unused;
    return atomic_load(&chosen) ? TS_OK : read_level(&unused);
}

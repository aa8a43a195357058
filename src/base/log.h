/* SPDX-License-Identifier: Apache-2.0 */
/* One log, with a level per component, to stderr.  TESSERA_LOGS="+ddp,store,-comm" means: debug for
 * ddp, info for store, only errors for comm; the others show warnings and errors. "+all" and "all"
 * name every component. */
#ifndef TS_BASE_LOG_H
#define TS_BASE_LOG_H

#include <tessera/status.h>

#define TS_LOG_COMPONENTS(X)                                                                       \
    X(BASE, "base")                                                                                \
    X(TENSOR, "tensor")                                                                            \
    X(AUTOGRAD, "autograd")                                                                        \
    X(NN, "nn")                                                                                    \
    X(DATA, "data")                                                                                \
    X(NET, "net") X(STORE, "store") X(COMM, "comm") X(DDP, "ddp") X(RUN, "run") X(TRAIN, "train")

typedef enum ts_log_component {
#define X(name, text) TS_LOG_##name,
    TS_LOG_COMPONENTS(X)
#undef X
        TS_LOG_NUM
} ts_log_component;

typedef enum ts_log_level {
    TS_LEVEL_ERROR = 0,
    TS_LEVEL_WARNING = 1,
    TS_LEVEL_INFO = 2,
    TS_LEVEL_DEBUG = 3
} ts_log_level;

/* Nothing is formatted when the level is off. */
#define TS_LOG(component, level, ...)                                                              \
    do {                                                                                           \
        if (ts_log_enabled(component, level)) ts_log_write(component, level, __VA_ARGS__);         \
    } while (0)

int ts_log_enabled(ts_log_component component, ts_log_level level);
void ts_log_write(ts_log_component component, ts_log_level level, const char *format, ...)
    TS_PRINTF(3, 4);

/* Checks the text of TESSERA_LOGS; an unknown component is reported once at start as a warning. */
void ts_log_configure(const char *text);
/* The debug level has changed, or the environment. */
void ts_log_refresh(void);
/* TS_EINVAL if the debug level comes from the environment and that holds no such word. */
ts_status ts_debug_level_check(void);

#endif

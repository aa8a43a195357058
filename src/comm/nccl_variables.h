/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch's variables for debugging and error handling.  Those that steer parts which only GPUs have
 * are checked and then do nothing. */
#ifndef TS_COMM_NCCL_VARIABLES_H
#define TS_COMM_NCCL_VARIABLES_H

#include "base/error.h"

/* X(id, kind, name without prefix, has a deprecated name).  TORCH_NCCL_ stands in front. */
#define TS_ENV_VARIABLES(X)                                                                        \
    X(BLOCKING_WAIT, BOOL, "BLOCKING_WAIT", true)                                                  \
    X(ASYNC_ERROR_HANDLING, INT, "ASYNC_ERROR_HANDLING", true)                                     \
    X(HIGH_PRIORITY, BOOL, "HIGH_PRIORITY", false)                                                 \
    X(DESYNC_DEBUG, BOOL, "DESYNC_DEBUG", true)                                                    \
    X(PROPAGATE_ERROR, BOOL, "PROPAGATE_ERROR", false)                                             \
    X(TIMING, BOOL, "ENABLE_TIMING", true)                                                         \
    X(MONITORING, BOOL, "ENABLE_MONITORING", false)                                                \
    X(HEARTBEAT, INT, "HEARTBEAT_TIMEOUT_SEC", false)                                              \
    X(DUMP, BOOL, "DUMP_ON_TIMEOUT", false)                                                        \
    X(WAIT_DUMP, INT, "WAIT_TIMEOUT_DUMP_MILSEC", false)                                           \
    X(COORD_CHECK, INT, "COORD_CHECK_MILSEC", false)                                               \
    X(NAN_CHECK, BOOL, "NAN_CHECK", false)                                                         \
    X(RETHROW, BOOL, "RETHROW_CUDA_ERRORS", false)                                                 \
    X(LOG_STACK, BOOL, "LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN", false)                                 \
    X(EVENT_CACHE, BOOL, "CUDA_EVENT_CACHE", false)                                                \
    X(BCAST_UNIQUEID, BOOL, "BCAST_UNIQUEID", false)                                               \
    X(RANKS_PER_ROOT, INT, "RANKS_PER_ROOT", false)                                                \
    X(REGISTER_HOOK, BOOL, "USE_TENSOR_REGISTER_ALLOCATOR_HOOK", true)                             \
    X(STACKS, BOOL, "TRACE_CPP_STACK", false)

typedef enum ts_env {
#define X(id, kind, name, deprecated) TS_ENV_##id,
    TS_ENV_VARIABLES(X)
#undef X
        TS_NUM_ENV
} ts_env;

/* All that are set are well-formed, or TS_EINVAL names the first that is not. */
ts_status ts_env_check(void);
/* Is it set, and to yes?  Malformed ones count as not set. */
bool ts_env_flag(ts_env variable);
bool ts_env_is_set(ts_env variable, bool *value); /* false: not set */
int64_t ts_env_recorder_entries(void);
/* Where dumps go, "" if nothing says so: see TESSERA_DUMP_FILE and TESSERA_DUMP_PIPE. */
const char *ts_env_dump_prefix(void);
const char *ts_env_pipe_prefix(void);

#endif

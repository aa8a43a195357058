/* SPDX-License-Identifier: Apache-2.0 */
/* Where tensor bytes live, and the ledger that counts them. */
#ifndef TESSERA_MEMORY_H
#define TESSERA_MEMORY_H

#include <tessera/export.h>
#include <tessera/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ts_memory {
    TS_MEMORY_HEAP = 0,  /* pooled heap of the rank */
    TS_MEMORY_SHARED = 1 /* shared heap of the rank: peers on the host can map and read it */
} ts_memory;

#define TS_CATEGORIES(X)                                                                           \
    X(ACTIVATION, 0, "activation")                                                                 \
    X(PARAMETER, 1, "parameter")                                                                   \
    X(GRADIENT, 2, "gradient")                                                                     \
    X(OPTIMIZER, 3, "optimizer")                                                                   \
    X(COMMUNICATION, 4, "communication")                                                           \
    X(STAGING, 5, "staging")                                                                       \
    X(OTHER, 6, "other")

typedef enum ts_category {
#define X(name, number, text) TS_CATEGORY_##name = number,
    TS_CATEGORIES(X)
#undef X
        TS_NUM_CATEGORIES = 7
} ts_category;

TS_API const char *ts_category_name(ts_category category);

/* Bytes of live storages of the calling thread's rank, by category.  Storages count the bytes that
 * were asked for; blocks that the pool keeps for reuse are counted in pool_bytes only.  Wrapped and
 * mapped memory is not ours and counted nowhere. */
typedef struct ts_memory_stats {
    int64_t current[TS_NUM_CATEGORIES];
    int64_t peak[TS_NUM_CATEGORIES];
    int64_t current_total;
    int64_t peak_total; /* peak of the sum, not sum of the peaks */
    int64_t pool_bytes; /* held from the system by both heaps */
} ts_memory_stats;

TS_API void ts_memory_read(ts_memory_stats *out);
TS_API void ts_memory_reset_peaks(void);

#ifdef __cplusplus
}
#endif
#endif

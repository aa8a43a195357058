/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a rank's storages by category.  Shared by the rank and its pools; counting costs one
 * atomic addition. */
#ifndef TS_TENSOR_LEDGER_H
#define TS_TENSOR_LEDGER_H

#include <stdatomic.h>
#include <tessera/memory.h>

#include "base/context.h"

typedef struct ts_ledger {
    _Atomic int64_t refs;
    _Atomic int64_t current[TS_NUM_CATEGORIES];
    _Atomic int64_t peak[TS_NUM_CATEGORIES];
    _Atomic int64_t peak_total;
    _Atomic int64_t pool_bytes;
} ts_ledger;

ts_ledger *ts_ledger_of(ts_rank_ctx *rank); /* NULL: out of memory */
void ts_ledger_retain(ts_ledger *ledger);
void ts_ledger_release(ts_ledger *ledger);

void ts_ledger_raise_peaks(ts_ledger *ledger, ts_category category, int64_t now);

static inline void ts_ledger_add(ts_ledger *ledger, ts_category category, size_t bytes)
{
    int64_t before =
        atomic_fetch_add_explicit(&ledger->current[category], (int64_t)bytes, memory_order_relaxed);
    ts_ledger_raise_peaks(ledger, category, before + (int64_t)bytes);
}

static inline void ts_ledger_sub(ts_ledger *ledger, ts_category category, size_t bytes)
{
    atomic_fetch_sub_explicit(&ledger->current[category], (int64_t)bytes, memory_order_relaxed);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a rank's storages by category.  Shared by the rank and its pools.
 *
 * The thread that made the ledger counts in `own`, without atomic additions; all others in
 * `others`. A number is the sum of both. */
#ifndef TS_TENSOR_LEDGER_H
#define TS_TENSOR_LEDGER_H

#include <stdatomic.h>
#include <tessera/memory.h>

#include "base/context.h"

typedef struct ts_ledger_lane {
    _Atomic int64_t current[TS_NUM_CATEGORIES];
    _Atomic int64_t total;
} ts_ledger_lane;

typedef struct ts_ledger {
    _Atomic int64_t refs;
    const ts_thread_ctx *owner;
    ts_ledger_lane own, others;
    _Atomic int64_t peak[TS_NUM_CATEGORIES];
    _Atomic int64_t peak_total;
    _Atomic int64_t pool_bytes;
} ts_ledger;

ts_ledger *ts_ledger_of(ts_rank_ctx *rank); /* NULL: out of memory */
void ts_ledger_retain(ts_ledger *ledger);
void ts_ledger_release(ts_ledger *ledger);

static inline int64_t ts_ledger_read(const _Atomic int64_t *value)
{
    return atomic_load_explicit(value, memory_order_relaxed);
}

static inline void ts_ledger_change(ts_ledger *ledger, ts_category category, int64_t bytes)
{
    ts_ledger_lane *own = &ledger->own, *others = &ledger->others;
    if (ledger->owner == ts_thread()) {
        atomic_store_explicit(&own->current[category],
                              ts_ledger_read(&own->current[category]) + bytes,
                              memory_order_relaxed);
        atomic_store_explicit(&own->total, ts_ledger_read(&own->total) + bytes,
                              memory_order_relaxed);
    } else {
        atomic_fetch_add_explicit(&others->current[category], bytes, memory_order_relaxed);
        atomic_fetch_add_explicit(&others->total, bytes, memory_order_relaxed);
    }
}

void ts_ledger_raise(_Atomic int64_t *peak, int64_t value);

static inline void ts_ledger_add(ts_ledger *ledger, ts_category category, size_t bytes)
{
    ts_ledger_change(ledger, category, (int64_t)bytes);
    int64_t now = ts_ledger_read(&ledger->own.current[category]) +
                  ts_ledger_read(&ledger->others.current[category]);
    int64_t total = ts_ledger_read(&ledger->own.total) + ts_ledger_read(&ledger->others.total);
    if (now > ts_ledger_read(&ledger->peak[category]))
        ts_ledger_raise(&ledger->peak[category], now);
    if (total > ts_ledger_read(&ledger->peak_total)) ts_ledger_raise(&ledger->peak_total, total);
}

static inline void ts_ledger_sub(ts_ledger *ledger, ts_category category, size_t bytes)
{
    ts_ledger_change(ledger, category, -(int64_t)bytes);
}

#endif

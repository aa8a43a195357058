/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes by category, and their peaks. */
#include "tensor/ledger.h"

#include <stdlib.h>

#include "base/memory.h"

static const char *const names[TS_NUM_CATEGORIES] = {
#define X(name, number, text) [number] = text,
    TS_CATEGORIES(X)
#undef X
};

const char *ts_category_name(ts_category category)
{
    return (unsigned)category < TS_NUM_CATEGORIES ? names[category] : "unknown";
}

static void *create(ts_rank_ctx *rank)
{
    (void)rank;
    ts_ledger *ledger = ts_calloc(1, sizeof *ledger);
    if (!ledger) return NULL;
    ledger->refs = 1;
    ledger->owner = ts_thread();
    return ledger;
}

static void destroy(void *ledger) { ts_ledger_release(ledger); }

ts_ledger *ts_ledger_of(ts_rank_ctx *rank)
{
    return ts_rank_slot_get(rank, TS_SLOT_LEDGER, create, destroy);
}

void ts_ledger_retain(ts_ledger *ledger) { ts_ref_retain(&ledger->refs); }

void ts_ledger_release(ts_ledger *ledger)
{
    if (ledger && ts_ref_release(&ledger->refs)) free(ledger);
}

void ts_ledger_raise(_Atomic int64_t *peak, int64_t value)
{
    int64_t seen = ts_ledger_read(peak);
    while (value > seen && !atomic_compare_exchange_weak_explicit(
                               peak, &seen, value, memory_order_relaxed, memory_order_relaxed)) {
    }
}

static int64_t current(const ts_ledger *ledger, int category)
{
    return ts_ledger_read(&ledger->own.current[category]) +
           ts_ledger_read(&ledger->others.current[category]);
}

void ts_memory_read(ts_memory_stats *out)
{
    *out = (ts_memory_stats){0};
    ts_ledger *ledger = ts_ledger_of(ts_rank_current());
    if (!ledger) return;
    for (int i = 0; i < TS_NUM_CATEGORIES; i++) {
        out->current[i] = current(ledger, i);
        out->peak[i] = ts_ledger_read(&ledger->peak[i]);
        out->current_total += out->current[i];
    }
    out->peak_total = ts_ledger_read(&ledger->peak_total);
    out->pool_bytes = ts_ledger_read(&ledger->pool_bytes);
}

void ts_memory_reset_peaks(void)
{
    ts_ledger *ledger = ts_ledger_of(ts_rank_current());
    if (!ledger) return;
    int64_t total = 0;
    for (int i = 0; i < TS_NUM_CATEGORIES; i++) {
        total += current(ledger, i);
        atomic_store(&ledger->peak[i], current(ledger, i));
    }
    atomic_store(&ledger->peak_total, total);
}

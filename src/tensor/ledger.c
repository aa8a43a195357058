/* SPDX-License-Identifier: Apache-2.0 */
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
    if (ledger) ledger->refs = 1;
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

static int64_t read(_Atomic int64_t *value)
{
    return atomic_load_explicit(value, memory_order_relaxed);
}

static int64_t total(ts_ledger *ledger)
{
    int64_t sum = 0;
    for (int i = 0; i < TS_NUM_CATEGORIES; i++) sum += read(&ledger->current[i]);
    return sum;
}

static void raise_to(_Atomic int64_t *peak, int64_t value)
{
    int64_t seen = read(peak);
    while (value > seen && !atomic_compare_exchange_weak_explicit(
                               peak, &seen, value, memory_order_relaxed, memory_order_relaxed)) {
    }
}

void ts_ledger_raise_peaks(ts_ledger *ledger, ts_category category, int64_t now)
{
    raise_to(&ledger->peak[category], now);
    raise_to(&ledger->peak_total, total(ledger));
}

void ts_memory_read(ts_memory_stats *out)
{
    *out = (ts_memory_stats){0};
    ts_ledger *ledger = ts_ledger_of(ts_rank_current());
    if (!ledger) return;
    for (int i = 0; i < TS_NUM_CATEGORIES; i++) {
        out->current[i] = read(&ledger->current[i]);
        out->peak[i] = read(&ledger->peak[i]);
        out->current_total += out->current[i];
    }
    out->peak_total = read(&ledger->peak_total);
    out->pool_bytes = read(&ledger->pool_bytes);
}

void ts_memory_reset_peaks(void)
{
    ts_ledger *ledger = ts_ledger_of(ts_rank_current());
    if (!ledger) return;
    for (int i = 0; i < TS_NUM_CATEGORIES; i++)
        atomic_store(&ledger->peak[i], read(&ledger->current[i]));
    atomic_store(&ledger->peak_total, total(ledger));
}

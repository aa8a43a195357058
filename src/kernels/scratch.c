/* SPDX-License-Identifier: Apache-2.0 */
/* Slots of scratch memory for the pieces of a parallel loop. */
#include "kernels/scratch.h"

#include <sched.h>

#include "base/thread.h"

int ts_slots_wanted(void)
{
    int threads = ts_threads_in_use();
    return threads < TS_MAX_SLOTS ? threads : TS_MAX_SLOTS;
}

void ts_slots_init(ts_slots *slots, void *memory, size_t bytes, int count)
{
    slots->memory = memory;
    slots->bytes = bytes;
    slots->count = count;
    for (int i = 0; i < count; i++) atomic_flag_clear(&slots->taken[i]);
}

void *ts_slot_claim(ts_slots *slots)
{
    for (;;) {
        for (int i = 0; i < slots->count; i++)
            if (!atomic_flag_test_and_set_explicit(&slots->taken[i], memory_order_acquire))
                return slots->memory + (size_t)i * slots->bytes;
        sched_yield();
    }
}

void ts_slot_release(ts_slots *slots, void *slot)
{
    size_t i = (size_t)((char *)slot - slots->memory) / slots->bytes;
    atomic_flag_clear_explicit(&slots->taken[i], memory_order_release);
}

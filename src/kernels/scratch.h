/* SPDX-License-Identifier: Apache-2.0 */
/* Scratch memory shared by the pieces of a parallel loop: as many slots as threads may run, each
 * claimed by one piece at a time. */
#ifndef TS_KERNELS_SCRATCH_H
#define TS_KERNELS_SCRATCH_H

#include <stdatomic.h>
#include <stddef.h>

enum { TS_MAX_SLOTS = 64 }; /* beyond that, pieces wait for a slot */

typedef struct ts_slots {
    char *memory; /* count blocks of bytes */
    size_t bytes; /* of one slot, a multiple of 64 */
    int count;
    atomic_flag taken[TS_MAX_SLOTS];
} ts_slots;

/* Slots for the threads in use. */
int ts_slots_wanted(void);
void ts_slots_init(ts_slots *slots, void *memory, size_t bytes, int count);
void *ts_slot_claim(ts_slots *slots);
void ts_slot_release(ts_slots *slots, void *slot);

static inline size_t ts_round_up_64(size_t bytes) { return (bytes + 63) / 64 * 64; }

#endif

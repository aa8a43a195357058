/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TS_COMM_FUTEX_H
#define TS_COMM_FUTEX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

/* Sleeps while *word is value, at most timeout_ns, and may wake for no reason.  between_processes:
 * word lies in shared memory, which may be mapped read-only. */
void ts_futex_wait(const _Atomic uint32_t *word, uint32_t value, int64_t timeout_ns,
                   int between_processes);
void ts_futex_wake(const _Atomic uint32_t *word,
                   int between_processes); /* all that sleep on word */

/* A word of one process that is raised once, by whoever ends what others wait for. */
typedef _Atomic uint32_t ts_flag;
void ts_flag_raise(ts_flag *flag);
bool ts_flag_wait(ts_flag *flag, ts_deadline deadline); /* false: the time is over */

enum { TS_FLAG_RAISED = 2 };
static inline bool ts_flag_raised(const ts_flag *flag)
{
    return atomic_load(flag) == TS_FLAG_RAISED;
}

/* The half of a counter that changes with every step. */
static inline const _Atomic uint32_t *ts_futex_low(const _Atomic uint64_t *counter)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return (const _Atomic uint32_t *)(const void *)counter + 1;
#else
    return (const _Atomic uint32_t *)(const void *)counter;
#endif
}

#endif

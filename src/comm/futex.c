/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/futex.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PENDING = 0, AWAITED = 1, SLEEP_NS = 100000000 };

void ts_futex_wait(const _Atomic uint32_t *word, uint32_t value, int64_t timeout_ns,
                   int between_processes)
{
    struct timespec limit = {timeout_ns / 1000000000, timeout_ns % 1000000000};
    int op = between_processes ? FUTEX_WAIT : FUTEX_WAIT | FUTEX_PRIVATE_FLAG;
    syscall(SYS_futex, word, op, value, &limit, NULL, 0);
}

void ts_futex_wake(const _Atomic uint32_t *word, int between_processes)
{
    int op = between_processes ? FUTEX_WAKE : FUTEX_WAKE | FUTEX_PRIVATE_FLAG;
    syscall(SYS_futex, word, op, INT_MAX, NULL, NULL, 0);
}

void ts_flag_raise(ts_flag *flag)
{
    if (atomic_exchange(flag, TS_FLAG_RAISED) == AWAITED) ts_futex_wake(flag, 0);
}

bool ts_flag_wait(ts_flag *flag, ts_deadline deadline)
{
    while (!ts_flag_raised(flag)) {
        uint32_t pending = PENDING;
        int left = ts_deadline_left_ms(deadline);
        if (left == 0) return false;
        atomic_compare_exchange_strong(flag, &pending, AWAITED);
        if (pending == TS_FLAG_RAISED) break;
        int64_t ns = left < 0 || left > SLEEP_NS / 1000000 ? SLEEP_NS : (int64_t)left * 1000000;
        ts_futex_wait(flag, AWAITED, ns, 0);
    }
    return true;
}

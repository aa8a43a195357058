/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/futex.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

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

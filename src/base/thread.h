/* SPDX-License-Identifier: Apache-2.0 */
/* Threads, cores and the intra-operation pool. */
#ifndef TS_BASE_THREAD_H
#define TS_BASE_THREAD_H

#include <pthread.h>
#include <tessera/status.h>

/* Starts a joinable thread named name (at most 15 characters are shown by the system) that belongs
 * to the caller's rank, with all signals blocked. */
ts_status ts_thread_start(pthread_t *out, const char *name, void (*run)(void *arg), void *arg);

/* Cores that this process may use: affinity mask and cgroup quota; at least 1. */
int ts_cores(void);

/* Cores that the ranks of this host share: what the launcher has divided among them
 * (TESSERA_HOST_CORES), else ts_cores().  Waits spin only when the ranks fit. */
int ts_host_cores(void);

/* Threads that one operation may use; ts_set_num_threads changes it for the process. */
int ts_threads_in_use(void);

/* For loops that look at a word again and again: the core rests a few cycles. */
static inline void ts_pause_core(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Calls fn(begin, end, user) for pieces that cover [0, n).  Pieces are at least grain long and
 * their borders depend on n and grain only, never on the number of threads, so results that depend
 * on the borders do not change with it.  Returns when all are done; nested calls run inline. */
void ts_parallel_for(int64_t n, int64_t grain, void (*fn)(int64_t begin, int64_t end, void *user),
                     void *user);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESSERA_THREADS_H
#define TESSERA_THREADS_H

#include <tessera/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Threads that one operation may use in this process; results do not depend on it.  At first:
 * TESSERA_NUM_THREADS, else OMP_NUM_THREADS, else the process's cores divided by the ranks on this
 * host.  n outside 1 .. 1024: TS_EINVAL. */
TS_API ts_status ts_set_num_threads(int n);
TS_API int ts_num_threads(void);

#ifdef __cplusplus
}
#endif
#endif

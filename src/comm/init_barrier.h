/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TS_COMM_INIT_BARRIER_H
#define TS_COMM_INIT_BARRIER_H

#include "comm/group_impl.h"

/* With TORCH_DIST_INIT_BARRIER=1 (or TS_DIST_INIT_BARRIER) the ranks of a new group meet once more
 * in its store.  TS_ESTORE at the group's time limit says how many have come. */
ts_status ts_init_barrier(const ts_group *group);

#endif

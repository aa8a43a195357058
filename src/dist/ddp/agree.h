/* SPDX-License-Identifier: Apache-2.0 */
/* Before the first step: do all ranks have the same model, and rank 0's values? */
#ifndef TS_DIST_DDP_AGREE_H
#define TS_DIST_DDP_AGREE_H

#include <tessera/collectives.h>
#include <tessera/module.h>

/* Collective.  Compares names, shapes and dtypes of list across the ranks; a difference is
 * TS_EMISMATCH on every rank, naming the first parameter that differs, the ranks and both shapes.
 * local != TS_OK (worded): this rank cannot take part; every rank gets the cause. */
ts_status ts_ddp_agree(ts_group *group, const ts_tensor_list *list, ts_status local);

/* Collective.  Every tensor of list gets rank 0's values. */
ts_status ts_ddp_broadcast(ts_group *group, const ts_tensor_list *list);

#endif

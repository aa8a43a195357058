/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank asks for when it makes groups. */
#ifndef TS_COMM_GROUP_PLAN_H
#define TS_COMM_GROUP_PLAN_H

#include "comm/group_impl.h"

typedef struct ts_plan {
    const char *what; /* "new_group" */
    const void *site; /* TS_CALL_SITE */
    ts_group *parent;
    ts_group_options opt;
    const ts_backend_ops *ops;
    int64_t timeout_ms;
    ts_rank_list *lists; /* ranks within parent, ascending */
    int count;
    int own, place; /* the list that has this rank, and where; -1 */
    int64_t first;  /* number of the first of these groups among all */
    char name[128]; /* of the own one */

    ts_status status; /* why this rank's arguments are no good */
    char *cause;
} ts_plan;

/* Notes the thread's last error as the reason; returns status. */
ts_status ts_plan_fail(ts_plan *plan, ts_status status);
/* Every rank of parent comes, also one whose plan is no good.  *out: the own group, or
 * ts_group_not_member(). */
ts_status ts_plan_make(ts_group **out, ts_plan *plan);
/* Only the members come. */
ts_status ts_plan_meet(ts_group **out, ts_plan *plan);
/* Members tell each other bytes through the group's store (group_meet.c). all: by rank. */
ts_status ts_group_meet(const ts_group *group, const void *own, void *all, size_t bytes,
                        int64_t timeout_ms);
ts_status ts_device_check(const char *device);
/* Sorted copies of lists of ranks within parent; finds the own one. */
ts_status ts_plan_lists(ts_plan *plan, const ts_rank_list *lists, int n);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank asks for when it makes groups. */
#ifndef TS_COMM_GROUP_PLAN_H
#define TS_COMM_GROUP_PLAN_H

#include "comm/group_impl.h"

typedef struct ts_plan {
    const char *what; /* "new_group" */
    const void *site; /* TS_CALL_SITE */
    ts_group *parent; /* NULL: the group gets links of its own */
    ts_store *base;   /* where the room is; NULL: in the parent's store */
    bool detached;    /* without a parent: it lives beside the default group */
    ts_group_options opt;
    const ts_backend_ops *ops;
    int64_t timeout_ms;
    ts_rank_list *lists; /* ranks within parent, or another group, ascending */
    int count;
    int own, place; /* the list that has this rank, and where; -1 */
    int64_t first;  /* number of the first of these groups among all */
    char name[128]; /* of the own one */
    char room[64];  /* the prefix of its store; never used twice */

    bool has_split;   /* the backend is to be ended */
    ts_status status; /* why this rank's arguments are no good */
    char *cause;
} ts_plan;

/* Notes the thread's last error as the reason; returns status. */
ts_status ts_plan_fail(ts_plan *plan, ts_status status);
/* Every rank of parent comes, also one whose plan is no good.  *out: the own group, or
 * ts_group_not_member(). */
ts_status ts_plan_make(ts_group **out, ts_plan *plan);
/* Only the members come, also those whose plan is no good, if their list is.  The name and the room
 * are set. */
ts_status ts_plan_meet(ts_group **out, ts_plan *plan);
/* For groups that are known by their members: name and room. */
void ts_plan_name_by_members(ts_plan *plan);
/* What a rank says to those with whom it makes a group. */
enum { TS_MEET_TEXT = 256 };
typedef struct ts_meet_record {
    uint64_t digest;         /* of all that they must agree on */
    int32_t rank;            /* in the new group */
    int32_t status;          /* not TS_OK: its arguments are no good, and text says why */
    char text[TS_MEET_TEXT]; /* what it asks for */
    ts_split_record split;
} ts_meet_record;
/* The members of a group that is being made tell each other that in a store where nobody has met
 * before (group_meet.c).  all: by rank.  Ranks that disagree get the same verdict, in general before
 * all have come. */
ts_status ts_group_meet(const ts_group *group, const char *what, ts_store *store,
                        const ts_meet_record *own, ts_meet_record *all, int64_t timeout_ms);
/* What has become of a meeting, for those who wait: the first one that is posted holds. TS_OK: none
 * yet, or one that says so. */
void ts_verdict_post(ts_store *store, const char *key, ts_status status, const char *text);
ts_status ts_verdict_read(ts_store *store, const char *key);
ts_status ts_device_check(const char *device);
/* Checks opt (NULL: defaults) and takes it over; parent is set. */
ts_status ts_plan_options(ts_plan *plan, const ts_group_options *opt);
void ts_plan_free(ts_plan *plan);
/* Sorted copies of lists of ranks within parent; finds the own one. */
ts_status ts_plan_lists(ts_plan *plan, const ts_rank_list *lists, int n);

#endif

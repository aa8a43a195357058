/* SPDX-License-Identifier: Apache-2.0 */
/* Groups as objects: without a default group, joined with others, current for a while.
 *
 * ts_process_group_new makes a group from a store, a rank and a size.  It is a ts_group like any
 * other, so every function that takes one works on it: collectives, messages, queries, splitting,
 * aborting (docs/howto/groups.md has a table of PyTorch's methods).  It lives beside the default
 * group, which need not exist and which does not end it, and where a call names a global rank, its
 * own ranks are meant. */
#ifndef TESSERA_PROCESS_GROUP_H
#define TESSERA_PROCESS_GROUP_H

#include <tessera/debug.h>
#include <tessera/group.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Collective: all size ranks call it, in the same order if they make several over one store, and ask
 * for the same: TS_EMISMATCH, or TS_EREMOTE if the arguments are bad on one rank.  store NULL: the
 * ranks meet as for env://; rank and size -1: from there.  opt->name NULL: one that no other group
 * has.  Ends with ts_destroy_process_group(group), or with the rank. */
TS_API ts_status ts_process_group_new(ts_group **out, ts_store *store, int rank, int size,
                                      const ts_group_options *opt);

/* Joins the ranks of several groups, size in all, in a new one: all ranks of all of them call it with
 * a store that they share.  The ranks of a group stay together and in order; the groups follow each
 * other as they come.  The groups themselves stay as they are.  The new group is one as
 * ts_process_group_new makes it. */
TS_API ts_status ts_merge_remote_group(ts_group **out, ts_group *group, ts_store *store, int size,
                                       const ts_group_options *opt);

/* The group that this thread uses now: the one that it has pushed last and not popped.  At first it
 * is NULL, which stands for the default group where functions take one.  A pushed group that is
 * destroyed meanwhile stays a group that is destroyed. */
TS_API ts_group *ts_current_process_group(void);
TS_API ts_status ts_process_group_push(ts_group *group);
TS_API void ts_process_group_pop(void);

/* Runs for every operation of this group that is over, with its sizes and times; never after the
 * group has been destroyed.  Otherwise as ts_set_operation_hook, beside which it stands.  NULL:
 * none. */
TS_API ts_status ts_group_set_completion_hook(ts_group *group, ts_operation_hook hook, void *user);

#ifdef __cplusplus
}
#endif
#endif

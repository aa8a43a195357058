/* SPDX-License-Identifier: Apache-2.0 */
/* Objects between ranks.
 *
 * Always blocking; made of ordinary collectives and messages: first the lengths, then the bytes, as
 * many as there are.  The objects that arrive are new ones, yours to free; NULL counts as a null
 * object.  Errors reach every rank as with all collectives, among them TS_EMISMATCH when lists
 * differ in length, and TS_EINVAL on the rank whose object has failed.  Outputs are written on
 * success only.  TESSERA_OBJECT_LIMIT bounds what may arrive in one call.
 *
 * Nothing that arrives is ever executed.  Where all objects meet on a rank, that rank needs memory
 * for all of them, encoded and decoded. */
#ifndef TESSERA_OBJECTS_H
#define TESSERA_OBJECTS_H

#include <tessera/group.h>
#include <tessera/object.h>

#ifdef __cplusplus
extern "C" {
#endif

/* src's n objects go to all; elsewhere list[] is an output.  On src the list stays as it is. */
TS_API ts_status ts_broadcast_object_list(ts_group *group, ts_object **list, int n, int src);
/* list[i] gets a copy of rank i's object; n is the group's size. */
TS_API ts_status ts_all_gather_object(ts_group *group, ts_object **list, int n,
                                      const ts_object *object);
/* The same on dst; elsewhere list is NULL and n 0. */
TS_API ts_status ts_gather_object(ts_group *group, ts_object **list, int n, const ts_object *object,
                                  int dst);
/* *out gets a copy of src's list[rank], n being the group's size; elsewhere list and n are ignored. */
TS_API ts_status ts_scatter_object_list(ts_group *group, ts_object **out, ts_object *const *list,
                                        int n, int src);

/* To another rank, whose list has the same length n > 0. */
TS_API ts_status ts_send_object_list(ts_group *group, ts_object *const *list, int n, int dst,
                                     int tag);
/* src may be TS_ANY_SOURCE; from (may be NULL): the sender's global rank. */
TS_API ts_status ts_recv_object_list(ts_group *group, ts_object **list, int n, int src, int tag,
                                     int *from);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Identity of a process that uses a file store, so that others can tell whether it still lives. */
#ifndef TS_STORE_USER_H
#define TS_STORE_USER_H

#include <stdbool.h>
#include <stddef.h>

/* "boot-id pid-namespace pid start-time" of the calling process. */
void ts_user_identity(char *text, size_t size);

/* Certainly gone: a process of this boot and pid namespace that is no more, or a zombie.  Of other
 * hosts nothing is known: false.  *pid is its number. */
bool ts_user_is_gone(const char *identity, int *pid);

#endif

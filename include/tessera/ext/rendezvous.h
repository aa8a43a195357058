/* SPDX-License-Identifier: Apache-2.0 */
/* Other ways for ranks to meet: a function per scheme of ts_init_options.init_method. */
#ifndef TESSERA_EXT_RENDEZVOUS_H
#define TESSERA_EXT_RENDEZVOUS_H

#include <tessera/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Called once per ts_init_process_group, on every rank.  *rank and *world_size hold what the options
 * say (-1: nothing); the function sets them and *store, a reference that goes to the group.  It may
 * wait for timeout_ms at most. */
typedef ts_status (*ts_rendezvous_fn)(ts_store **store, int *rank, int *world_size, const char *url,
                                      int64_t timeout_ms, void *user);

/* Makes init methods that begin with "scheme://" known to this process.  A scheme that is taken
 * (env, tcp and file are), or malformed: TS_EINVAL. */
TS_API ts_status ts_register_rendezvous_handler(const char *scheme, ts_rendezvous_fn handler,
                                                void *user);

#ifdef __cplusplus
}
#endif
#endif

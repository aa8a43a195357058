/* SPDX-License-Identifier: Apache-2.0 */
/* Stores, for layers above: what the public header does not offer. */
#ifndef TS_STORE_STORE_H
#define TS_STORE_STORE_H

#include <tessera/ext/store.h>

/* ts_store_multi_get with a time limit of its own (-1: the store's; 0: no limit). */
ts_status ts_store_fetch(ts_store *store, const char *const *keys, int n, int64_t timeout_ms,
                         void **values, size_t *sizes);

/* Whether it was made with this class. */
bool ts_store_is(const ts_store *store, const ts_store_class *klass);

#endif

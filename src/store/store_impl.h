/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that implement the public functions share. */
#ifndef TS_STORE_STORE_IMPL_H
#define TS_STORE_STORE_IMPL_H

#include "store/store.h"

struct ts_store {
    _Atomic int64_t refs;
    const ts_store_class *klass;
    void *state;
    _Atomic int64_t timeout_ms;
};

/* An optional function of the class, or NULL; classes compiled before it existed are shorter. */
#define TS_STORE_OPTIONAL(store, member)                                                           \
    ((store)->klass->struct_size >=                                                                \
             offsetof(ts_store_class, member) + sizeof((store)->klass->member)                     \
         ? (store)->klass->member                                                                  \
         : NULL)

/* TS_EINVAL naming op, the public function. */
ts_status ts_store_check_key(const char *op, const ts_store *store, const char *key);
ts_status ts_store_check_value(const char *op, const char *key, const void *value, size_t size);
/* Puts the store's limit in the place of -1. */
ts_status ts_store_check_timeout(const char *op, const ts_store *store, int64_t *timeout_ms);

#endif

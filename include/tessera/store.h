/* SPDX-License-Identifier: Apache-2.0 */
/* Stores: small shared dictionaries through which processes find each other.
 *
 * Keys are text, values are bytes (may be empty and contain NUL).  Every operation is atomic and
 * visible to all users at once.  A handle may be used by several threads; a call that waits does
 * not hold up the others.  Waits end at the store's time limit with TS_ETIMEOUT naming the missing
 * keys, the limit and the store's address; the handle stays usable. */
#ifndef TESSERA_STORE_H
#define TESSERA_STORE_H

#include <tessera/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ts_store ts_store;

/* In memory, for ranks that are threads of one process.  The caller frees it with
 * ts_store_free when all ranks have left; a group and ts_prefix_store_new take references. */
TS_API ts_status ts_hash_store_new(ts_store **out);

/* A file that all processes reach.  world_size: how many will use it (the last one to leave removes
 * it); < 1: unknown.  A file left by a run that ended is TS_ESTORE saying so. */
TS_API ts_status ts_file_store_new(ts_store **out, const char *path, int world_size);
TS_API const char *ts_file_store_path(const ts_store *store); /* NULL if not a file store */

typedef struct ts_tcp_store_options {
    size_t struct_size; /* set by _INIT; 0 is refused */
    const char
        *host;      /* "127.0.0.1"; NULL or "" with is_master: serves every address and connects to
                           itself through the loopback */
    int port;       /* 29500; 0 with is_master: the system picks one, see ts_tcp_store_port */
    int world_size; /* 0: open number of users */
    bool is_master; /* false: client only; true: also runs the server */
    int64_t timeout_ms;    /* 300000, for connecting and as the store's time limit */
    bool wait_for_workers; /* true: with world_size, the master waits until all have joined */
    bool multi_tenant;     /* false: masters of one process on the same port share one server */
    int master_listen_fd;  /* -1; an already bound socket to serve on, which the store takes over */
} ts_tcp_store_options;
#define TS_TCP_STORE_OPTIONS_INIT                                                                  \
    {                                                                                              \
        sizeof(ts_tcp_store_options), "127.0.0.1", 29500, 0, false, 300000, true, false, -1        \
    }
/* Speaks the wire protocol of PyTorch's TCPStore in both roles.  A master whose host is the loopback
 * (localhost, 127.0.0.1, ::1) serves nobody else; any other host means every address.  With a secret
 * (TESSERA_SECRET) only clients that know it are served. */
TS_API ts_status ts_tcp_store_new(ts_store **out, const ts_tcp_store_options *opt);
/* As given and as connected; NULL and -1 if it is not a TCP store.  The host is valid while the store
 * lives. */
TS_API const char *ts_tcp_store_host(const ts_store *store);
TS_API int ts_tcp_store_port(const ts_store *store);

/* Every key becomes "prefix/key" in store, of which a reference is taken. */
TS_API ts_status ts_prefix_store_new(ts_store **out, const char *prefix, ts_store *store);

TS_API ts_store *ts_store_retain(ts_store *store);
TS_API void ts_store_free(ts_store *store); /* NULL is fine */
/* Another handle on the same data, freed separately.  Threads need none: they may share one handle.
 * That of a TCP store has connections and a time limit of its own. */
TS_API ts_status ts_store_clone(ts_store **out, ts_store *store);

TS_API ts_status ts_store_set(ts_store *store, const char *key, const void *value, size_t size);
/* Waits for the key.  *value is malloc'd and yours, with a NUL behind its size bytes. */
TS_API ts_status ts_store_get(ts_store *store, const char *key, void **value, size_t *size);
/* Adds n to a decimal number (absent: 0); *total is the new value.  TS_ESTORE: not a number. */
TS_API ts_status ts_store_add(ts_store *store, const char *key, int64_t n, int64_t *total);
/* Stores desired if the key holds expected, or is absent and expected is empty; *value is what the
 * key holds afterwards (absent and expected not empty: expected). */
TS_API ts_status ts_store_compare_set(ts_store *store, const char *key, const void *expected,
                                      size_t expected_size, const void *desired,
                                      size_t desired_size, void **value, size_t *size);
TS_API ts_status ts_store_append(ts_store *store, const char *key, const void *value, size_t size);
/* timeout_ms -1: the store's; 0: no limit. */
TS_API ts_status ts_store_wait(ts_store *store, const char *const *keys, int n, int64_t timeout_ms);
TS_API ts_status ts_store_check(ts_store *store, const char *const *keys, int n, bool *all_exist);
TS_API ts_status ts_store_delete_key(ts_store *store, const char *key, bool *existed);
TS_API ts_status ts_store_num_keys(ts_store *store, int64_t *count);
/* One deadline for the whole call; values[i] malloc'd and yours. */
TS_API ts_status ts_store_multi_get(ts_store *store, const char *const *keys, int n, void **values,
                                    size_t *sizes);
TS_API ts_status ts_store_multi_set(ts_store *store, const char *const *keys, int n,
                                    const void *const *values, const size_t *sizes);
/* append, multi_get and multi_set are single steps of the store itself (TCP, hash), not loops. */
TS_API bool ts_store_has_extended_api(const ts_store *store);

/* Queues: first in, first out.  A push wakes one of those who wait.  A queue that is not empty
 * exists for ts_store_wait and ts_store_check.  A key has either a value or a queue that is not
 * empty: what would give it the other is refused with TS_ESTORE. */
TS_API ts_status ts_store_queue_push(ts_store *store, const char *key, const void *value,
                                     size_t size);
/* The oldest value (malloc'd and yours, as from ts_store_get).  Nothing there: block waits up to the
 * store's time limit, else TS_EEMPTY. */
TS_API ts_status ts_store_queue_pop(ts_store *store, const char *key, bool block, void **value,
                                    size_t *size);
TS_API ts_status ts_store_queue_len(ts_store *store, const char *key, int64_t *length);

/* The users' keys that have a value, in no order: one block with the texts, to be freed as a whole
 * with free.  Behind a prefix: only its keys, without the prefix. */
TS_API ts_status ts_store_list_keys(ts_store *store, char ***keys, int64_t *count);
/* Returns when n callers have come to key, once for every key.  timeout_ms as for ts_store_wait. */
TS_API ts_status ts_store_barrier(ts_store *store, const char *key, int n, int64_t timeout_ms);

TS_API ts_status ts_store_set_timeout(ts_store *store, int64_t timeout_ms); /* 0: no limit */
TS_API int64_t ts_store_timeout(const ts_store *store);

#ifdef __cplusplus
}
#endif
#endif

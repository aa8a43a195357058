/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks for the tests of the engine: threads over a hash store, or processes over a TCP store. */
#ifndef TS_COMM_ENGINE_TEST_H
#define TS_COMM_ENGINE_TEST_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

#include "comm/engine.h"
#include "test.h"

typedef struct peer_rank {
    ts_test *test;
    int rank, size, hosts;
    ts_store *store;
    ts_engine *engine;
    void (*body)(struct peer_rank *me);
    int heap_fd;
    bool by_socket; /* no mail within the host */
    int failures;
    _Atomic int lost, lost_peer, graceful;
    char why[1600];
} peer_rank;

typedef void (*rank_body)(peer_rank *me);

/* The body runs on every rank between the making and the freeing of its engine. */
void run_threads(ts_test *test, int size, rank_body body);
/* The same without shared memory. */
void run_by_socket(ts_test *test, int size, rank_body body);
/* Rank r is on pretend host r % hosts. */
void run_hosts(ts_test *test, int size, int hosts, rank_body body);
/* Over a TCP store.  A rank ends well if it returns or kills itself. hosts 0: one. */
void run_processes(ts_test *test, int size, int hosts, rank_body body);

/* Without engines: the body makes them. */
void run_bare_processes(ts_test *test, int size, rank_body body);
void run_bare_threads(ts_test *test, int size, rank_body body);
void run_bare_hosts(ts_test *test, int size, int hosts, rank_body body);
ts_status make_engine(peer_rank *me, int rank, int size, int64_t timeout_ms);

ts_status start_send(peer_rank *me, ts_message **m, int peer, uint64_t tag, const void *buf,
                     size_t bytes);
ts_status start_recv(peer_rank *me, ts_message **m, int peer, uint64_t tag, void *buf,
                     size_t bytes);
ts_status send_now(peer_rank *me, int peer, uint64_t tag, const void *buf, size_t bytes);
ts_status recv_now(peer_rank *me, int peer, uint64_t tag, void *buf, size_t bytes);
ts_status recv_now_within(peer_rank *me, int peer, uint64_t tag, void *buf, size_t bytes,
                          int64_t timeout_ms);
ts_deadline soon(void); /* longer than any test should need */
char *filled(size_t bytes, int seed);
int count_descriptors(void);
int count_threads(void);

void me_failed(peer_rank *me, const char *file, int line, const char *what, const char *detail);

#define ME_EXPECT(condition)                                                                       \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            me_failed(me, __FILE__, __LINE__, #condition, "does not hold");                        \
            return;                                                                                \
        }                                                                                          \
    } while (0)
#define ME_PASS(expr)                                                                              \
    do {                                                                                           \
        if ((expr) != TS_OK) {                                                                     \
            me_failed(me, __FILE__, __LINE__, #expr, ts_error_last());                             \
            return;                                                                                \
        }                                                                                          \
    } while (0)
#define ME_FAIL(expr, expected, needle)                                                            \
    do {                                                                                           \
        ts_status s_ = (expr);                                                                     \
        if (s_ != (expected) || !strstr(ts_error_last(), (needle))) {                              \
            me_failed(me, __FILE__, __LINE__, #expr, s_ == TS_OK ? "passed" : ts_error_last());    \
            return;                                                                                \
        }                                                                                          \
    } while (0)

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TS_STORE_TEST_H
#define TS_STORE_TEST_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "store/store.h"
#include "test.h"

enum { MAX_CHILDREN = 16 };

typedef struct children {
    pid_t pid[MAX_CHILDREN];
    int n;
} children;

/* A path in the test's own folder. */
static inline char *test_path(const ts_test *test, char path[256], const char *name)
{
    snprintf(path, 256, "%s/%s", test->dir, name);
    return path;
}

/* Starts n processes that run body(index, arg); their exit status is the ts_status. */
static inline void start_children(children *c, int n, ts_status (*body)(int index, void *arg),
                                  void *arg)
{
    fflush(NULL);
    for (c->n = 0; c->n < n; c->n++) {
        c->pid[c->n] = fork();
        if (c->pid[c->n] != 0) continue;
        ts_status status = body(c->n, arg);
        if (status != TS_OK) fprintf(stderr, "child %d: %s\n", c->n, ts_error_last());
        fflush(NULL);
        _exit((int)status);
    }
}

/* Waits for one; its ts_status, or -1 if a signal ended it. */
static inline int join_child(children *c, int index)
{
    int status = 0;
    while (waitpid(c->pid[index], &status, 0) < 0) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* How many ended with status. */
static inline int join_children(children *c, ts_status status)
{
    int count = 0;
    for (int i = 0; i < c->n; i++) count += join_child(c, i) == (int)status;
    return count;
}

/* Runs check on a fresh store of every kind: hash, prefix, plain (the least class), file, tcp... */
void on_every_kind(ts_test *test, void (*check)(ts_test *test, ts_store *store));

/* The key holds exactly these bytes. */
#define HOLDS(store, key, bytes, count)                                                            \
    do {                                                                                           \
        void *v_ = NULL;                                                                           \
        size_t n_ = 99999;                                                                         \
        TS_PASS(ts_store_get(store, key, &v_, &n_));                                               \
        bool same_ = n_ == (size_t)(count) && memcmp(v_, bytes, n_) == 0;                          \
        if (!same_) TS_FAIL_TEST("key %s holds %zu bytes: %s", key, n_, (char *)v_);               \
        free(v_);                                                                                  \
    } while (0)

static inline double seconds_since(int64_t start_ns)
{
    return (double)(ts_now_ns() - start_ns) * 1e-9;
}

#endif

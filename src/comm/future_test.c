/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "test.h"

static void count(ts_future *done, ts_future *next, void *user)
{
    (void)done, (void)next;
    atomic_fetch_add((_Atomic int *)user, 1);
}

static void negate(ts_future *done, ts_future *next, void *user)
{
    ts_tensor *const *value, *negative;
    int n;
    (void)user;
    if (ts_future_value(done, &value, &n) != TS_OK) return; /* the error is passed on */
    negative = ts_neg(value[0]);
    ts_future_set(next, &negative, 1);
}

TS_TEST(future_ends_once)
{
    ts_future *f;
    ts_tensor *t = ts_ones(TS_SHAPE(2), NULL), *const * value;
    int n;
    _Atomic int calls = 0;
    TS_PASS(ts_future_new(&f));
    TS_EXPECT(!ts_future_is_done(f));
    TS_FAIL(ts_future_value(f, &value, &n), TS_ESTATE, "not ended");
    TS_FAIL(ts_future_wait(f, 20), TS_ETIMEOUT, "20 ms");
    TS_PASS(ts_future_on_done(f, count, &calls));
    TS_PASS(ts_future_set(f, &t, 1));
    TS_PASS(ts_future_on_done(f, count, &calls));
    TS_EXPECT_INT(calls, 2);
    TS_FAIL(ts_future_set(f, &t, 1), TS_ESTATE, "already");
    TS_FAIL(ts_future_set_error(f, TS_EIO, "late"), TS_ESTATE, "already");
    TS_PASS(ts_future_wait(f, 0));
    TS_PASS(ts_future_value(f, &value, &n));
    TS_EXPECT(n == 1 && value[0] == t);
    ts_future_free(f);
    ts_future_free(NULL);
    TS_FAIL(ts_future_new(NULL), TS_EINVAL, "missing");
    TS_FAIL(ts_future_wait(NULL, 0), TS_EINVAL, "missing");
}

TS_TEST(future_chains)
{
    ts_future *f, *minus, *plus;
    ts_tensor *t = ts_full(TS_SHAPE(2), 3, NULL), *const * value;
    int n;
    for (int bad = 0; bad < 2; bad++) {
        TS_PASS(ts_future_new(&f));
        TS_PASS(ts_future_then(&minus, f, negate, NULL));
        TS_PASS(ts_future_then(&plus, minus, negate, NULL));
        TS_EXPECT(!ts_future_is_done(plus));
        if (bad)
            TS_PASS(ts_future_set_error(f, TS_EIO, "the disk is gone"));
        else
            TS_PASS(ts_future_set(f, &t, 1));
        ts_future_free(f);
        if (bad) {
            TS_FAIL(ts_future_wait(plus, 0), TS_EIO, "the disk is gone");
        } else {
            TS_PASS(ts_future_value(minus, &value, &n));
            TS_EXPECT_ALL(value[0], -3);
            TS_PASS(ts_future_value(plus, &value, &n));
            TS_EXPECT_ALL(value[0], 3);
        }
        ts_future_free(minus);
        ts_future_free(plus);
    }
}

/* Nobody can end it any more: what hangs on it ends all the same. */
TS_TEST(future_let_go_before_it_ended)
{
    ts_future *f, *next;
    TS_PASS(ts_future_new(&f));
    TS_PASS(ts_future_then(&next, f, negate, NULL));
    ts_future_free(f);
    TS_FAIL(ts_future_wait(next, 0), TS_EABORTED, "let go");
    ts_future_free(next);
}

static void *end_later(void *user)
{
    ts_tensor *none[1];
    usleep(20000);
    ts_future_set(user, none, 0);
    ts_future_free(user);
    return NULL;
}

TS_TEST(future_of_several)
{
    ts_future *f[3], *joined;
    ts_tensor *a = ts_ones(TS_SHAPE(1), NULL), *b = ts_zeros(TS_SHAPE(1), NULL), *const * value;
    int n;
    pthread_t thread;
    for (int i = 0; i < 3; i++) TS_PASS(ts_future_new(&f[i]));
    TS_PASS(ts_future_set(f[0], (ts_tensor *const[]){a, b}, 2));
    TS_PASS(ts_future_set(f[2], &b, 1));
    TS_PASS(ts_future_all(&joined, f, 3));
    TS_EXPECT(!ts_future_is_done(joined));
    TS_EXPECT(pthread_create(&thread, NULL, end_later, f[1]) == 0);
    TS_PASS(ts_future_wait(joined, 5000));
    pthread_join(thread, NULL);
    TS_PASS(ts_future_value(joined, &value, &n));
    TS_EXPECT(n == 3 && value[0] == a && value[1] == b && value[2] == b);
    ts_future_free(joined);
    ts_future_free(f[0]);
    ts_future_free(f[2]);
    TS_PASS(ts_future_new(&f[0]));
    TS_PASS(ts_future_set_error(f[0], TS_EIO, "first"));
    TS_PASS(ts_future_all(&joined, f, 1));
    TS_FAIL(ts_future_wait(joined, 0), TS_EIO, "first");
    ts_future_free(joined);
    ts_future_free(f[0]);
    TS_PASS(ts_future_all(&joined, NULL, 0));
    TS_PASS(ts_future_wait(joined, 0));
    ts_future_free(joined);
}

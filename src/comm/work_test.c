/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "test.h"

enum { MANY = 100 };

/* Issued in one order, waited for in the other. */
TS_TEST(works_waited_for_in_reverse, .ranks = 2)
{
    ts_work *work[MANY], *barrier;
    ts_tensor *t[MANY];
    for (int i = 0; i < MANY; i++) {
        t[i] = ts_full(TS_SHAPE(i * 37), test->rank + i, NULL);
        TS_PASS(ts_all_reduce(test->group, t[i], TS_SUM, &work[i]));
    }
    TS_PASS(ts_barrier(test->group, &barrier));
    TS_PASS(ts_work_wait(barrier, 0));
    for (int i = MANY - 1; i >= 0; i--) {
        TS_EXPECT(ts_work_is_success(work[i])); /* the barrier comes behind all of them */
        TS_PASS(ts_work_wait(work[i], 0));
        TS_PASS(ts_work_wait(work[i], 0));
        TS_EXPECT_ALL(t[i], 2 * i + 1);
        TS_EXPECT_INT(ts_work_sequence(work[i]), i + 1);
        ts_work_free(work[i]);
    }
    ts_work_free(barrier);
}

TS_TEST(work_tells_about_itself, .ranks = 2)
{
    ts_work *work;
    ts_tensor *t = ts_ones(TS_SHAPE(2), NULL), *const * result;
    int n;
    if (test->rank == 0) {
        TS_PASS(ts_all_reduce(test->group, t, TS_SUM, &work));
        TS_FAIL(ts_work_status(work), TS_ESTATE, "all_reduce is under way");
        TS_FAIL(ts_work_result(work, &result, &n), TS_ESTATE, "under way");
        TS_EXPECT_INT(ts_work_duration_ns(work), -1);
        TS_FAIL(ts_work_wait(work, 30), TS_ETIMEOUT, "all_reduce is not done");
        TS_FAIL(ts_work_abort(work), TS_EUNSUPPORTED, "other ranks take part");
        ts_test_meet(test, "asked");
    } else {
        ts_test_meet(test, "asked");
        TS_PASS(ts_all_reduce(test->group, t, TS_SUM, &work));
    }
    TS_PASS(ts_work_wait(work, 0));
    TS_PASS(ts_work_status(work));
    TS_PASS(ts_work_result(work, &result, &n));
    TS_EXPECT(n == 1 && result[0] == t);
    TS_EXPECT_STR(ts_work_name(work), "all_reduce");
    TS_EXPECT(ts_work_duration_ns(work) >= 0);
    TS_EXPECT_INT(ts_work_source_rank(work), -1);
    ts_work_free(work);
    ts_tensor *out[2] = {ts_zeros(TS_SHAPE(2), NULL), ts_zeros(TS_SHAPE(2), NULL)};
    TS_PASS(ts_gather(test->group, t, test->rank ? NULL : out, test->rank ? 0 : 2, 0, &work));
    TS_PASS(ts_work_wait(work, 0));
    TS_PASS(ts_work_result(work, &result, &n));
    TS_EXPECT_INT(n, test->rank ? 0 : 2);
    ts_work_free(work);
    TS_PASS(ts_all_reduce(test->group, NULL, TS_SUM, &work));
    TS_FAIL(ts_work_wait(work, 0), TS_EINVAL, "missing");
    TS_FAIL(ts_work_status(work), TS_EINVAL, "missing");
    TS_FAIL(ts_work_result(work, &result, &n), TS_EINVAL, "missing");
    ts_work_free(work);
}

static void remember(ts_future *done, ts_future *next, void *user)
{
    (void)next;
    atomic_store((_Atomic int *)user, ts_future_is_done(done) ? 1 : -1);
}

TS_TEST(work_has_a_future, .ranks = 2)
{
    ts_work *work;
    ts_future *f[2], *joined;
    _Atomic int seen = 0;
    ts_tensor *t = ts_ones(TS_SHAPE(4), NULL), *const * value;
    int n;
    if (test->rank == 1) usleep(20000);
    TS_PASS(ts_all_reduce(test->group, t, TS_SUM, &work));
    TS_PASS(ts_work_future(&f[0], work));
    TS_PASS(ts_work_future(&f[1], work));
    TS_PASS(ts_future_on_done(f[0], remember, &seen));
    TS_PASS(ts_future_all(&joined, f, 2));
    ts_work_free(work); /* the operation goes on, and ends the futures */
    TS_PASS(ts_future_wait(joined, 0));
    TS_PASS(ts_future_value(joined, &value, &n));
    TS_EXPECT(n == 2 && value[1] == t);
    TS_EXPECT_ALL(t, 2);
    while (!seen) usleep(1000);
    TS_EXPECT_INT(seen, 1);
    for (int i = 0; i < 2; i++) ts_future_free(f[i]);
    ts_future_free(joined);
    TS_PASS(ts_all_reduce(test->group, test->rank ? t : NULL, TS_SUM, &work));
    TS_PASS(ts_work_future(&f[0], work));
    TS_FAIL(ts_future_wait(f[0], 0), test->rank ? TS_EREMOTE : TS_EINVAL, "missing");
    ts_future_free(f[0]);
    TS_PASS(ts_work_future(&f[0], work)); /* of a work that is done */
    TS_EXPECT(ts_future_is_done(f[0]));
    ts_future_free(f[0]);
    ts_work_free(work);
}

/* An aborted message leaves its buffer alone, and the group usable. */
TS_TEST(work_of_a_message_is_aborted, .ranks = 2)
{
    ts_work *work;
    ts_future *f;
    ts_tensor *t = ts_zeros(TS_SHAPE(4), NULL);
    int other = !test->rank;
    TS_PASS(ts_irecv(test->group, t, other, 5, &work));
    TS_FAIL(ts_work_future(&f, work), TS_EUNSUPPORTED, "messages");
    TS_EXPECT_STR(ts_work_name(work), "recv");
    TS_EXPECT_INT(ts_work_sequence(work), 0);
    TS_PASS(ts_work_abort(work));
    TS_PASS(ts_work_abort(work));
    TS_FAIL(ts_work_wait(work, 0), TS_EABORTED, "cancelled");
    ts_work_free(work);
    TS_PASS(ts_barrier(test->group, NULL));
    TS_PASS(ts_isend(test->group, ts_full(TS_SHAPE(4), 7, NULL), other, 5, &work));
    TS_EXPECT_ALL(t, 0);
    TS_PASS(ts_recv(test->group, t, other, 5, NULL));
    TS_EXPECT_ALL(t, 7);
    TS_PASS(ts_work_wait(work, 0));
    TS_PASS(ts_work_abort(work)); /* too late, and no harm */
    TS_PASS(ts_work_status(work));
    ts_work_free(work);
}

typedef struct called {
    ts_tensor *sum;
    ts_work *work;
    ts_status issued, waited;
    char text[256];
} called;

static void issue_and_wait(ts_future *done, ts_future *next, void *user)
{
    (void)done, (void)next;
    called *c = user;
    c->issued = ts_all_reduce(NULL, c->sum, TS_SUM, &c->work);
    if (c->issued != TS_OK) return;
    c->waited = ts_work_wait(c->work, 0);
    snprintf(c->text, sizeof c->text, "%s", ts_error_last());
}

/* A callback may issue a collective, on every rank alike; to wait for it there would never end. */
TS_TEST(work_is_not_waited_for_in_a_callback, .ranks = 2)
{
    ts_work *work;
    ts_future *future, *after;
    called c = {.sum = ts_ones(TS_SHAPE(3), NULL)};
    if (test->rank == 1) usleep(100000); /* rank 0 is not done before the callback is there */
    TS_PASS(ts_all_reduce(test->group, ts_ones(TS_SHAPE(100000), NULL), TS_SUM, &work));
    TS_PASS(ts_work_future(&future, work));
    TS_PASS(ts_future_then(&after, future, issue_and_wait, &c));
    TS_PASS(ts_future_wait(after, 0));
    ts_future_free(after);
    ts_work_free(work);
    ts_future_free(future);
    TS_PASS(c.issued);
    if (test->rank == 0) TS_EXPECT_INT(c.waited, TS_ESTATE);
    if (test->rank == 0) TS_EXPECT_TEXT(c.text, "a callback waits for all_reduce");
    TS_PASS(ts_work_wait(c.work, 0));
    TS_EXPECT_ALL(c.sum, 2);
    ts_work_free(c.work);
}

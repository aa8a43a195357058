/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "test.h"

static ts_tensor *numbers(int64_t n, double from)
{
    return ts_arange(from, from + (double)n, 1, NULL);
}

static void rings(ts_test *test)
{
    static const int64_t sizes[] = {0, 1, 2, 1000, 700000};
    int next = (test->rank + 1) % test->size, before = (test->rank + test->size - 1) % test->size;
    for (int i = 0; i < 5; i++) {
        ts_work *send, *recv;
        ts_tensor *out = numbers(sizes[i], 2 * test->rank),
                  *in = ts_zeros(TS_SHAPE(sizes[i]), NULL);
        TS_PASS(ts_isend(test->group, out, next, 7, &send));
        TS_PASS(ts_irecv(test->group, in, before, 7, &recv));
        TS_PASS(ts_work_wait(recv, 0));
        TS_PASS(ts_work_wait(send, 0));
        TS_EXPECT(ts_work_is_completed(recv) && ts_work_is_success(send));
        TS_EXPECT_INT(ts_work_source_rank(recv), before);
        TS_EXPECT_INT(ts_work_source_rank(send), -1);
        ts_work_free(send);
        ts_work_free(recv);
        TS_EXPECT_EQUAL(in, numbers(sizes[i], 2 * before));
    }
}

TS_TEST(messages_in_a_ring, .ranks = 3) { rings(test); }
TS_TEST(messages_in_a_ring_hosts, .ranks = 2, .hosts = 2) { rings(test); }

TS_TEST(messages_blocking_with_tags, .ranks = 2)
{
    for (int tag = 0; tag < 5; tag++) {
        ts_tensor *t = ts_full(TS_SHAPE(3), tag, NULL);
        int from = -1;
        if (test->rank == 0) TS_PASS(ts_send(test->group, t, 1, tag));
        /* In another order than sent. */
        int wanted = (tag * 2) % 5;
        if (test->rank == 1) {
            TS_PASS(ts_recv(test->group, t, 0, wanted, &from));
            TS_EXPECT_INT(from, 0);
            TS_EXPECT_ALL(t, wanted);
        }
    }
}

TS_TEST(messages_from_any, .ranks = 4)
{
    if (test->rank > 0) {
        TS_PASS(ts_send(test->group, ts_full(TS_SHAPE(1), test->rank, NULL), 0, 1));
        return;
    }
    int seen = 0, from;
    for (int i = 1; i < 4; i++) {
        ts_tensor *t = ts_zeros(TS_SHAPE(1), NULL);
        TS_PASS(ts_recv(test->group, t, TS_ANY_SOURCE, 1, &from));
        TS_EXPECT_ALL(t, from);
        seen |= 1 << from;
    }
    TS_EXPECT_INT(seen, 14);
}

TS_TEST(messages_of_strided_tensors, .ranks = 2)
{
    ts_tensor *whole = ts_zeros(TS_SHAPE(3, 2), NULL), *column = ts_select(whole, 1, 0);
    ts_tensor *every = ts_slice(ts_arange(0, 6, 1, NULL), 0, 0, 6, 2);
    ts_work *work;
    if (test->rank == 0) {
        TS_PASS(ts_send(test->group, every, 1, 0));
        TS_PASS(ts_isend(test->group, every, 1, 0, &work));
        TS_PASS(ts_work_wait(work, 0));
        ts_work_free(work);
        return;
    }
    TS_PASS(ts_recv(test->group, column, 0, 0, NULL));
    TS_EXPECT_VALUES(whole, 0, 0, 0, 2, 0, 4, 0);
    TS_PASS(ts_irecv(test->group, ts_select(whole, 1, 1), 0, 0, &work));
    TS_PASS(ts_work_wait(work, 0));
    ts_work_free(work);
    TS_EXPECT_VALUES(whole, 0, 0, 0, 2, 2, 4, 4);
}

TS_TEST(messages_of_complex_numbers, .ranks = 2)
{
    float parts[4] = {1, 2, 3, 4};
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_COMPLEX64;
    ts_tensor *t = ts_from_data(parts, TS_SHAPE(2), &opt);
    if (test->rank == 0) {
        TS_PASS(ts_send(test->group, t, 1, 0));
        return;
    }
    ts_zero_(t);
    TS_PASS(ts_recv(test->group, t, 0, 0, NULL));
    TS_EXPECT(memcmp(ts_data(t), parts, sizeof parts) == 0);
}

TS_TEST(messages_checks, .ranks = 2)
{
    ts_tensor *t = ts_ones(TS_SHAPE(3), NULL);
    ts_work *work;
    TS_FAIL(ts_send(test->group, t, test->rank, 0), TS_EINVAL, "itself");
    TS_FAIL(ts_send(test->group, t, 2, 0), TS_EINVAL, "rank 2 is not in 0 .. 1");
    TS_FAIL(ts_send(test->group, t, TS_ANY_SOURCE, 0), TS_EINVAL, "-1");
    TS_FAIL(ts_isend(test->group, t, !test->rank, -3, &work), TS_EINVAL, "tag -3");
    TS_FAIL(ts_recv(test->group, NULL, !test->rank, 0, NULL), TS_EINVAL, "missing");
    TS_FAIL(ts_send(test->group, ts_view(t, TS_SHAPE(9)), !test->rank, 0), TS_ESHAPE, "9");
    if (test->rank == 0) TS_PASS(ts_send(test->group, t, 1, 0));
    if (test->rank == 1)
        TS_FAIL(ts_recv(test->group, ts_ones(TS_SHAPE(5), NULL), 0, 0, NULL), TS_EMISMATCH,
                "sent 12 bytes with tag 0, but the receive expects 20");
    TS_PASS(ts_barrier(test->group, NULL));
}

/* A message does not wait behind a collective. */
TS_TEST(messages_pass_collectives, .ranks = 2)
{
    ts_work *work;
    ts_tensor *t = ts_ones(TS_SHAPE(3), NULL), *m = ts_zeros(TS_SHAPE(2), NULL);
    if (test->rank == 0) {
        TS_PASS(ts_all_reduce(test->group, t, TS_SUM, &work));
        TS_PASS(ts_recv(test->group, m, 1, 0, NULL));
        TS_PASS(ts_work_wait(work, 0));
        ts_work_free(work);
        TS_EXPECT_ALL(t, 2);
        return;
    }
    TS_PASS(ts_send(test->group, m, 0, 0));
    TS_PASS(ts_all_reduce(test->group, t, TS_SUM, NULL));
}

/* A work let go before its message is done, and a group left before. */
TS_TEST(messages_let_go, .ranks = 2)
{
    ts_work *work;
    ts_tensor *t = ts_zeros(TS_SHAPE(4), NULL);
    if (test->rank == 0) {
        TS_PASS(ts_irecv(test->group, t, 1, 0, &work));
        ts_work_free(work);
        TS_PASS(ts_barrier(test->group, NULL));
        TS_PASS(ts_recv(test->group, ts_zeros(TS_SHAPE(1), NULL), 1, 1, NULL));
        TS_EXPECT_ALL(t, 5);
        TS_PASS(ts_irecv(test->group, t, 1, 2, &work));
        ts_test_meet(test, "posted");
        TS_PASS(ts_destroy_process_group(NULL));
        ts_status status = ts_work_wait(work, 0); /* rank 1 may have left first */
        TS_EXPECT(status == TS_EABORTED || status == TS_ENETWORK);
        ts_work_free(work);
        return;
    }
    TS_PASS(ts_barrier(test->group, NULL));
    TS_PASS(ts_send(test->group, ts_full(TS_SHAPE(4), 5, NULL), 0, 0));
    TS_PASS(ts_send(test->group, ts_zeros(TS_SHAPE(1), NULL), 0, 1));
    ts_test_meet(test, "posted");
}

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

static void lengths(ts_test *test, const char *other)
{
    enum { LONG = 1 << 20 };
    ts_work *work;
    for (int64_t n = 3; n <= LONG; n += LONG - 3) {
        ts_tensor *t = ts_ones(TS_SHAPE(n), NULL), *in = ts_ones(TS_SHAPE(n + 1), NULL);
        ts_status status = TS_OK;
        if (test->rank == 0) status = ts_send(test->group, t, 1, 0);
        if (test->rank == 1) {
            TS_FAIL(ts_recv(test->group, in, 0, 0, NULL), TS_EMISMATCH, "recv at p2p_test.c:");
            if (other) TS_EXPECT_TEXT(ts_error_last(), other);
            TS_PASS(ts_irecv(test->group, in, 0, 1, &work));
            TS_PASS(ts_send(test->group, t, 0, 2));
            TS_FAIL(ts_work_wait(work, 0), TS_EMISMATCH, "irecv at p2p_test.c:");
            ts_work_free(work);
        } else {
            TS_EXPECT(status == TS_OK || status == TS_EMISMATCH);
            if (status != TS_OK) TS_EXPECT_TEXT(ts_error_last(), "send at p2p_test.c:");
            TS_PASS(ts_recv(test->group, t, 1, 2, NULL));
            TS_PASS(ts_isend(test->group, t, 1, 1, &work));
            status = ts_work_wait(work, 0);
            TS_EXPECT(status == TS_OK || status == TS_EMISMATCH);
            ts_work_free(work);
        }
        TS_PASS(ts_barrier(test->group, NULL));
    }
}

TS_TEST(messages_of_other_lengths_name_both_calls, .ranks = 2)
{
    lengths(test, "it called send at p2p_test.c:");
}
TS_TEST(messages_of_other_lengths_name_the_call, .ranks = 2, .hosts = 2) { lengths(test, NULL); }

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

/* ---- to oneself, and several at once --------------------------------------------------------- */

static void to_oneself(ts_test *test)
{
    static const int64_t sizes[] = {0, 3, 700001};
    ts_work *send, *recv;
    for (int i = 0; i < 6; i++) {
        ts_tensor *out = numbers(sizes[i / 2], 5), *in = ts_zeros(TS_SHAPE(sizes[i / 2]), NULL);
        int source = i % 3 ? test->rank : TS_ANY_SOURCE;
        if (i % 2) TS_PASS(ts_isend(test->group, out, test->rank, 3, &send));
        TS_PASS(ts_irecv(test->group, in, source, 3, &recv));
        if (!(i % 2)) TS_PASS(ts_isend(test->group, out, TS_GROUP_RANK(test->rank), 3, &send));
        TS_PASS(ts_work_wait(recv, 0));
        TS_PASS(ts_work_wait(send, 0));
        TS_EXPECT_INT(ts_work_source_rank(recv), test->rank);
        TS_EXPECT_EQUAL(in, out);
        ts_work_free(send);
        ts_work_free(recv);
    }
}

TS_TEST(messages_to_oneself_alone, .ranks = 1) { to_oneself(test); }
TS_TEST(messages_to_oneself_among_others, .ranks = 2) { to_oneself(test); }

TS_TEST(messages_alone_check, .ranks = 1)
{
    ts_work *work, *other;
    ts_tensor *t = ts_ones(TS_SHAPE(2), NULL), *in = ts_zeros(TS_SHAPE(2), NULL);
    int from = -1;
    TS_FAIL(ts_send(test->group, t, 0, 0), TS_EINVAL, "itself");
    TS_FAIL(ts_recv(test->group, t, 0, 0, NULL), TS_EINVAL, "ts_irecv");
    TS_PASS(ts_isend(test->group, t, 0, 2, &work));
    TS_PASS(ts_recv(test->group, in, TS_ANY_SOURCE, 2, &from));
    TS_EXPECT(from == 0 && ts_work_is_success(work));
    TS_EXPECT_ALL(in, 1);
    ts_work_free(work);
    TS_PASS(ts_group_set_timeout(test->group, 30));
    TS_FAIL(ts_recv(test->group, in, TS_ANY_SOURCE, 2, NULL), TS_ETIMEOUT, "tag 2");
    TS_PASS(ts_isend(test->group, t, 0, 2, &work));
    TS_PASS(ts_irecv(test->group, ts_zeros(TS_SHAPE(3), NULL), 0, 2, &other));
    TS_FAIL(ts_work_wait(other, 0), TS_EMISMATCH, "8 bytes with tag 2, but the receive expects 12");
    ts_work_free(work);
    ts_work_free(other);
    TS_PASS(ts_isend(test->group, t, 0, 4, &other));
    TS_PASS(ts_work_abort(other));
    TS_PASS(ts_isend(test->group, ts_zeros(TS_SHAPE(2), NULL), 0, 4, &work));
    TS_PASS(ts_recv(test->group, in, TS_ANY_SOURCE, 4, NULL));
    TS_EXPECT_ALL(in, 0);
    ts_work_free(work);
    ts_work_free(other);
    TS_PASS(ts_isend(test->group, t, 0, 4, &work));
    TS_PASS(ts_destroy_process_group(NULL));
    TS_FAIL(ts_work_wait(work, 0), TS_EABORTED, "destroyed");
    ts_work_free(work);
}

/* Every rank exchanges with all, itself included; sizes differ by sender. */
static void batches(ts_test *test)
{
    static const int64_t steps[] = {1, 3000, 300000};
    ts_p2p_op op[16];
    ts_work *work[16];
    ts_tensor *in[8];
    for (int i = 0; i < 3; i++) {
        ts_tensor *out = ts_full(TS_SHAPE((test->rank + 1) * steps[i]), test->rank, NULL);
        for (int q = 0; q < test->size; q++) {
            in[q] = ts_full(TS_SHAPE((q + 1) * steps[i]), -1, NULL);
            op[q] = (ts_p2p_op){.sending = true, .tensor = out, .peer = q, .group = test->group};
            op[test->size + q] = (ts_p2p_op){.tensor = in[q], .peer = q, .group = test->group};
        }
        TS_PASS(ts_batch_isend_irecv(op, 2 * test->size, work));
        TS_PASS(ts_wait_all(work, 2 * test->size));
        TS_EXPECT(!work[0] && !work[2 * test->size - 1]);
        for (int q = 0; q < test->size; q++) TS_EXPECT_ALL(in[q], q);
    }
}

TS_TEST(messages_in_batches_1, .ranks = 1) { batches(test); }
TS_TEST(messages_in_batches_4, .ranks = 4) { batches(test); }
TS_TEST(messages_in_batches_hosts, .ranks = 3, .hosts = 3) { batches(test); }

TS_TEST(messages_in_batches_check, .ranks = 2)
{
    int other = !test->rank;
    ts_tensor *t = ts_ones(TS_SHAPE(2), NULL), *in = ts_zeros(TS_SHAPE(2), NULL);
    ts_work *work[2] = {(ts_work *)test, (ts_work *)test};
    ts_p2p_op op[] = {{false, in, other, 0, test->group}, {true, t, 9, 0, test->group}};
    TS_FAIL(ts_batch_isend_irecv(op, 0, work), TS_EINVAL, "empty");
    TS_FAIL(ts_batch_isend_irecv(op, 2, work), TS_EINVAL,
            "batch_isend_irecv: entry 1: isend: rank 9");
    TS_EXPECT(!work[0] && !work[1]);
    op[1].group = NULL;
    TS_FAIL(ts_batch_isend_irecv(op, 2, work), TS_EINVAL, "another group");
    TS_PASS(ts_barrier(test->group, NULL)); /* no receive of the batches is left */
    TS_PASS(ts_isend(test->group, t, other, 0, &work[0]));
    TS_PASS(ts_irecv(test->group, ts_zeros(TS_SHAPE(5), NULL), other, 0, &work[1]));
    TS_FAIL(ts_wait_all(work, 2), TS_EMISMATCH, "expects 20");
    TS_EXPECT(!work[0] && !work[1]);
    TS_PASS(ts_barrier(test->group, NULL));
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

static ts_tensor *full(int64_t n, double value) { return ts_full(TS_SHAPE(n), value, NULL); }

/* Tensor k of rank r, before. */
static ts_tensor *own(ts_test *test, int k) { return full(k * k * 700, 10 * test->rank + k); }

static double sum_of(const ts_test *test, int k)
{
    return 10 * (test->size - 1) * test->size / 2.0 + k * test->size;
}

enum { MANY = 10 };

static void lists(ts_test *test)
{
    ts_tensor *t[MANY], *in[3], *out[3 * 8];
    ts_work *work;
    for (int k = 0; k < MANY; k++) t[k] = own(test, k);
    TS_PASS(ts_all_reduce_coalesced(test->group, t, MANY, TS_SUM, NULL));
    for (int k = 0; k < MANY; k++) TS_EXPECT_ALL(t[k], sum_of(test, k));
    for (int k = 0; k < 3; k++) in[k] = own(test, k);
    for (int i = 0; i < 3 * test->size; i++) out[i] = full(i % 3 * (i % 3) * 700, -1);
    TS_PASS(ts_all_gather_coalesced(test->group, out, in, 3, &work));
    TS_PASS(ts_work_wait(work, 0));
    for (int i = 0; i < 3 * test->size; i++) TS_EXPECT_ALL(out[i], 10 * (i / 3) + i % 3);
    ts_tensor *const *result;
    int n;
    TS_PASS(ts_work_result(work, &result, &n));
    TS_EXPECT(n == 3 * test->size && result[n - 1] == out[n - 1]);
    ts_work_free(work);
}

TS_TEST(coalesced_lists_1, .ranks = 1) { lists(test); }
TS_TEST(coalesced_lists_3, .ranks = 3) { lists(test); }
TS_TEST(coalesced_lists_hosts, .ranks = 2, .hosts = 2) { lists(test); }

/* Tensor 1 of the wholes is strided. */
static void wholes(ts_test *test)
{
    int size = test->size;
    ts_tensor *one[3], *whole[3], *matrix = ts_zeros(TS_SHAPE(size * 50, 2), NULL);
    for (int k = 0; k < 3; k++) {
        one[k] = full(50 * k, 10 * test->rank + k);
        whole[k] = full(size * 50 * k, -1);
    }
    whole[1] = ts_select(matrix, 1, 1);
    TS_PASS(ts_all_gather_into_tensor_coalesced(test->group, whole, one, 3, NULL));
    for (int k = 1; k < 3; k++)
        for (int r = 0; r < size; r++)
            TS_EXPECT_ALL(ts_narrow(whole[k], 0, r * 50 * k, 50 * k), 10 * r + k);
    TS_EXPECT_ALL(ts_select(matrix, 1, 0), 0);
    TS_PASS(ts_reduce_scatter_tensor_coalesced(test->group, one, whole, 3, TS_SUM, NULL));
    for (int k = 1; k < 3; k++) TS_EXPECT_ALL(one[k], size * (10 * test->rank + k));
}

TS_TEST(coalesced_wholes_1, .ranks = 1) { wholes(test); }
TS_TEST(coalesced_wholes_3, .ranks = 3) { wholes(test); }

TS_TEST(coalesced_lists_check, .ranks = 2)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_INT32;
    ts_tensor *mixed[] = {full(2, 1), ts_zeros(TS_SHAPE(2), &opt)}, *one[] = {full(2, 1)};
    ts_tensor *wrong[] = {full(5, 1)};
    TS_FAIL(ts_all_reduce_coalesced(test->group, mixed, 2, TS_SUM, NULL), TS_EDTYPE,
            "float32 and int32");
    TS_FAIL(ts_all_reduce_coalesced(test->group, mixed, 0, TS_SUM, NULL), TS_EINVAL, "empty");
    TS_FAIL(ts_all_gather_into_tensor_coalesced(test->group, wrong, one, 1, NULL), TS_ESHAPE,
            "must have 4 elements");
    TS_FAIL(ts_all_reduce_coalesced(test->group, one, 1, TS_PREMUL_SUM, NULL), TS_EINVAL, "factor");
    ts_status other = test->rank ? TS_EREMOTE : TS_EINVAL;
    TS_FAIL(ts_all_reduce_coalesced(test->group, one, test->rank, TS_SUM, NULL), other, "empty");
    TS_PASS(ts_all_reduce_coalesced(test->group, one, 1, TS_SUM, NULL));
    TS_EXPECT_ALL(one[0], 2);
}

static void scopes(ts_test *test)
{
    ts_tensor *t[MANY];
    ts_work *work = NULL, *asked = (ts_work *)test;
    uint64_t before = ts_group_sequence(test->group);
    for (int k = 0; k < MANY; k++) t[k] = own(test, k);
    TS_PASS(ts_coalesce_begin(test->group));
    TS_FAIL(ts_coalesce_begin(test->group), TS_ESTATE, "open scope");
    for (int k = 0; k < MANY; k++)
        TS_PASS(ts_all_reduce(test->group, t[k], TS_SUM, k % 2 ? &asked : NULL));
    TS_EXPECT(asked == NULL);
    TS_EXPECT_ALL(t[3], 10 * test->rank + 3);
    TS_PASS(ts_coalesce_end(test->group, &work));
    TS_PASS(ts_work_wait(work, 0));
    ts_work_free(work);
    for (int k = 0; k < MANY; k++) TS_EXPECT_ALL(t[k], sum_of(test, k));
    TS_EXPECT_INT(ts_group_sequence(test->group) - before, 1);
    ts_tensor *in = full(3, test->rank), *out = full(3 * test->size, -1), *block = full(3, -1);
    TS_PASS(ts_coalesce_begin(test->group));
    TS_PASS(ts_all_gather_into_tensor(test->group, out, in, NULL));
    TS_PASS(ts_coalesce_end(test->group, NULL));
    TS_EXPECT_ALL(ts_narrow(out, 0, 3 * (test->size - 1), 3), test->size - 1);
    TS_PASS(ts_coalesce_begin(test->group));
    TS_PASS(ts_reduce_scatter_tensor(test->group, block, out, TS_MAX, NULL));
    TS_PASS(ts_coalesce_end(test->group, NULL));
    TS_EXPECT_ALL(block, test->rank);
}

TS_TEST(coalescing_scope_1, .ranks = 1) { scopes(test); }
TS_TEST(coalescing_scope_3, .ranks = 3) { scopes(test); }

/* What does not fit fails at once and again at the end; the others hear of it. */
TS_TEST(coalescing_scope_checks, .ranks = 2)
{
    ts_tensor *a = full(2, 1), *b = full(4, 1);
    ts_work *work;
    TS_FAIL(ts_coalesce_end(test->group, NULL), TS_ESTATE, "no open scope");
    TS_PASS(ts_coalesce_begin(test->group));
    TS_PASS(ts_coalesce_end(test->group, &work));
    TS_PASS(ts_work_wait(work, 0));
    ts_work_free(work);
    TS_PASS(ts_coalesce_begin(test->group));
    TS_PASS(ts_all_reduce(test->group, a, TS_SUM, NULL));
    TS_FAIL(ts_all_gather_into_tensor(test->group, b, a, NULL), TS_EINVAL, "begun with all_reduce");
    TS_FAIL(ts_all_reduce(test->group, a, TS_MAX, NULL), TS_EINVAL, "MAX in a coalescing scope");
    TS_FAIL(ts_broadcast(test->group, a, 0, NULL), TS_EINVAL, "not possible");
    TS_FAIL(ts_coalesce_end(test->group, NULL), TS_EINVAL, "begun with all_reduce");
    TS_EXPECT_ALL(a, 1);
    TS_PASS(ts_coalesce_begin(test->group));
    if (test->rank == 0)
        TS_FAIL(ts_all_reduce(test->group, NULL, TS_SUM, NULL), TS_EINVAL, "missing");
    else
        TS_PASS(ts_all_reduce(test->group, a, TS_SUM, NULL));
    TS_FAIL(ts_coalesce_end(test->group, NULL), test->rank == 0 ? TS_EINVAL : TS_EREMOTE,
            "missing");
    TS_PASS(ts_all_reduce(test->group, a, TS_SUM, NULL));
    TS_EXPECT_ALL(a, 2);
    TS_PASS(ts_coalesce_begin(test->group)); /* and left open */
}

/* As alone: what is written shares memory with nothing but the own part, within a call and between
 * those of a batch. */
TS_TEST(coalesced_tensors_lie_apart, .ranks = 2)
{
    const char *apart = "share memory with others of the call";
    ts_group *group = test->group;
    ts_tensor *all = full(8, 1 + test->rank), *head = ts_narrow(all, 0, 0, 4);
    ts_tensor *middle = ts_narrow(all, 0, 2, 4), *tail = ts_narrow(all, 0, 4, 4);
    ts_tensor *crossing[] = {head, middle}, *split[] = {head, tail};
    TS_FAIL(ts_all_reduce_coalesced(group, crossing, 2, TS_SUM, NULL), TS_EINVAL, apart);
    TS_EXPECT_ALL(all, 1 + test->rank);
    TS_PASS(ts_all_reduce_coalesced(group, split, 2, TS_SUM, NULL));
    TS_EXPECT_ALL(all, 3);
    TS_PASS(ts_coalesce_begin(group));
    TS_PASS(ts_all_reduce(group, head, TS_SUM, NULL));
    TS_PASS(ts_all_reduce(group, middle, TS_SUM, NULL));
    TS_FAIL(ts_coalesce_end(group, NULL), TS_EINVAL, apart);
    TS_EXPECT_ALL(all, 3);
    ts_tensor *two = ts_narrow(all, 0, 1, 2), *own = ts_narrow(head, 0, 2 * test->rank, 2);
    TS_PASS(ts_coalesce_begin(group));
    TS_FAIL(ts_all_gather_into_tensor(group, head, two, NULL), TS_EINVAL, apart);
    TS_FAIL(ts_coalesce_end(group, NULL), TS_EINVAL, apart);
    TS_PASS(ts_coalesce_begin(group));
    TS_PASS(ts_all_gather_into_tensor(group, head, own, NULL));
    TS_PASS(ts_all_gather_into_tensor(group, tail, full(2, test->rank), NULL));
    TS_PASS(ts_coalesce_end(group, NULL));
    TS_EXPECT_VALUES(all, 0, 3, 3, 3, 3, 0, 0, 1, 1);
}

TS_TEST(coalesced_lists_lie_apart, .ranks = 2)
{
    ts_group *group = test->group;
    ts_tensor *all = full(8, 3), *in[] = {full(2, 1), full(2, 2)};
    ts_tensor *out[] = {full(4, 0), ts_narrow(all, 0, 0, 4)};
    ts_status other = test->rank ? TS_EREMOTE : TS_EINVAL;
    if (test->rank == 0) in[0] = ts_narrow(all, 0, 3, 2);
    TS_FAIL(ts_all_gather_into_tensor_coalesced(group, out, in, 2, NULL), other, "share memory");
    ts_tensor *parts[] = {full(2, 0), ts_narrow(all, 0, 0, 2), full(2, 0), ts_narrow(all, 0, 1, 2)};
    TS_FAIL(ts_all_gather_coalesced(group, parts, in, 2, NULL), TS_EINVAL, "share memory");
    ts_tensor *whole[] = {full(4, 1), ts_narrow(all, 0, 0, 4)};
    ts_tensor *block[] = {ts_narrow(whole[0], 0, 2 * test->rank, 2), full(2, 0)};
    TS_PASS(ts_reduce_scatter_tensor_coalesced(group, block, whole, 2, TS_SUM, NULL));
    TS_EXPECT_ALL(block[0], 2);
    TS_EXPECT_ALL(block[1], 6);
    block[1] = ts_narrow(whole[0], 0, 0, 2);
    TS_FAIL(ts_reduce_scatter_tensor_coalesced(group, block, whole, 2, TS_SUM, NULL), TS_EINVAL,
            "share memory");
    TS_EXPECT_ALL(all, 3);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* all_to_all, gather, scatter and reduce: every path by size, uneven pieces, disagreements. */
#include "test.h"

static const int64_t sizes[] = {0, 1, 3, 900, 20011, 700001};
enum { NUM_SIZES = sizeof sizes / sizeof *sizes };

static ts_tensor *full(int64_t n, double value, int memory)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.memory = memory ? TS_MEMORY_SHARED : TS_MEMORY_HEAP;
    return ts_full(TS_SHAPE(n), value, &opt);
}

static void exchanges_even(ts_test *test)
{
    for (int i = 0; i < NUM_SIZES; i++)
        for (int memory = 0; memory < 2; memory++) {
            ts_scope scope = ts_scope_begin();
            int64_t each = sizes[i];
            ts_tensor *in = full(each * test->size, 0, memory);
            ts_tensor *out = full(each * test->size, -1, !memory);
            for (int r = 0; r < test->size; r++)
                ts_fill_(ts_narrow(in, 0, r * each, each), 10 * test->rank + r);
            TS_PASS(ts_all_to_all_single(test->group, out, in, NULL, NULL, NULL));
            for (int r = 0; r < test->size; r++)
                TS_EXPECT_ALL(ts_narrow(out, 0, r * each, each), 10 * r + test->rank);
            TS_PASS(ts_scope_end(scope));
        }
}

TS_TEST(all_to_all_single_1, .ranks = 1) { exchanges_even(test); }
TS_TEST(all_to_all_single_2, .ranks = 2) { exchanges_even(test); }
TS_TEST(all_to_all_single_5, .ranks = 5) { exchanges_even(test); }
TS_TEST(all_to_all_single_hosts, .ranks = 3, .hosts = 2) { exchanges_even(test); }

/* Rank i gives rank j (i + 2 j) % 4 * step elements; some lists lie in both heaps. */
static int64_t given(int i, int j, int64_t step) { return (i + 2 * j) % 4 * step; }

static void exchanges_uneven(ts_test *test)
{
    static const int64_t steps[] = {1, 500, 30000, 200003};
    ts_tensor *in[8], *out[8];
    for (int i = 0; i < 4; i++)
        for (int memory = 0; memory < 3; memory++) {
            ts_scope scope = ts_scope_begin();
            for (int r = 0; r < test->size; r++) {
                int shared = memory == 2 ? (r + test->rank) % 2 : memory;
                in[r] = full(given(test->rank, r, steps[i]), 10 * test->rank + r, shared);
                out[r] = full(given(r, test->rank, steps[i]), -1, shared);
            }
            TS_PASS(ts_all_to_all(test->group, out, in, test->size, NULL));
            for (int r = 0; r < test->size; r++) TS_EXPECT_ALL(out[r], 10 * r + test->rank);
            TS_PASS(ts_scope_end(scope));
        }
}

TS_TEST(all_to_all_uneven, .ranks = 4) { exchanges_uneven(test); }
TS_TEST(all_to_all_uneven_hosts, .ranks = 3, .hosts = 3) { exchanges_uneven(test); }

/* Some ranks' tensors lie in the shared heap, others' not. */
TS_TEST(all_to_all_mixed_memory, .ranks = 3)
{
    for (int shared = 0; shared < 3; shared++) {
        ts_tensor *in = full(300000, test->rank, test->rank == shared), *out = full(300000, -1, 0);
        TS_PASS(ts_all_to_all_single(test->group, out, in, NULL, NULL, NULL));
        for (int r = 0; r < 3; r++) TS_EXPECT_ALL(ts_narrow(out, 0, r * 100000, 100000), r);
    }
}

TS_TEST(all_to_all_splits_along_the_first_dimension, .ranks = 2)
{
    ts_tensor *in = ts_view(ts_arange(0, 6, 1, NULL), TS_SHAPE(3, 2));
    ts_tensor *out = ts_zeros(TS_SHAPE(test->rank ? 2 : 4, 2), NULL);
    static const int64_t in_splits[] = {2, 1}, out_splits[2][2] = {{2, 2}, {1, 1}};
    TS_PASS(ts_all_to_all_single(test->group, out, in, out_splits[test->rank], in_splits, NULL));
    if (test->rank == 0) TS_EXPECT_VALUES(out, 0, 0, 1, 2, 3, 0, 1, 2, 3);
    if (test->rank == 1) TS_EXPECT_VALUES(out, 0, 4, 5, 4, 5);
}

TS_TEST(all_to_all_checks, .ranks = 2)
{
    ts_tensor *in = full(4, 1, 0), *out = full(4, 1, 0), *list[] = {in, out};
    static const int64_t negative[] = {5, -1}, sum[] = {1, 2};
    TS_FAIL(ts_all_to_all_single(test->group, full(3, 0, 0), in, NULL, NULL, NULL), TS_ESHAPE,
            "the output is 3");
    TS_FAIL(ts_all_to_all_single(test->group, out, in, NULL, negative, NULL), TS_EINVAL,
            "split 0 of the input is 5");
    TS_FAIL(ts_all_to_all_single(test->group, out, in, sum, NULL, NULL), TS_EINVAL,
            "the splits of the output add up to 3, but dimension 0 is 4");
    TS_FAIL(ts_all_to_all_single(test->group, ts_scalar(1, NULL), in, NULL, NULL, NULL), TS_ESHAPE,
            "0-dim");
    TS_FAIL(ts_all_to_all_single(test->group, in, in, NULL, NULL, NULL), TS_EINVAL, "same memory");
    TS_FAIL(ts_all_to_all(test->group, list, list, 2, NULL), TS_EINVAL, "same memory");
    TS_FAIL(ts_all_to_all(test->group, list, list, 1, NULL), TS_EINVAL, "the list has 1");
    TS_PASS(ts_all_to_all_single(test->group, out, in, NULL, NULL, NULL));
}

/* Every rank learns which pair does not fit, and the group stays usable. */
static void disagreements(ts_test *test)
{
    ts_tensor *in[3], *out[3];
    for (int big = 0; big < 2; big++) {
        for (int r = 0; r < 3; r++) {
            in[r] = full(big ? 20000 : 2, test->rank, 0);
            out[r] = full(big ? 20000 : 2, -1, 0);
        }
        if (test->rank == 1) in[2] = full(3, 7, 0);
        TS_FAIL(ts_all_to_all(test->group, out, in, 3, NULL), TS_EMISMATCH,
                "rank 1 gives rank 2 3 elements");
        for (int r = 0; r < 3; r++) TS_EXPECT_ALL(out[r], -1);
        if (test->rank == 1) in[2] = full(big ? 20000 : 2, 1, 0);
        TS_PASS(ts_all_to_all(test->group, out, in, 3, NULL));
        for (int r = 0; r < 3; r++) TS_EXPECT_ALL(out[r], r);
    }
}

TS_TEST(all_to_all_names_the_pair_that_does_not_fit, .ranks = 3) { disagreements(test); }
TS_TEST(all_to_all_names_the_pair_that_does_not_fit_hosts, .ranks = 3, .hosts = 3)
{
    disagreements(test);
}

/* What rank 1 gives and takes is longer in both directions: differences must not cancel out. */
static void longer_both_ways(ts_test *test)
{
    int64_t n = test->rank == 1 ? 5 : 2;
    ts_tensor *in[3], *out[3], *one = ts_ones(TS_SHAPE(1), NULL);
    for (int r = 0; r < 3; r++) {
        in[r] = full(n, test->rank, 0);
        out[r] = full(n, -1, 0);
    }
    TS_FAIL(ts_all_to_all(test->group, out, in, 3, NULL), TS_EMISMATCH, "must agree in pairs");
    for (int r = 0; r < 3; r++) TS_EXPECT_ALL(out[r], -1);
    TS_PASS(ts_all_reduce(test->group, one, TS_SUM, NULL));
    TS_EXPECT_ALL(one, 3);
}

TS_TEST(all_to_all_longer_both_ways, .ranks = 3) { longer_both_ways(test); }
TS_TEST(all_to_all_longer_both_ways_hosts, .ranks = 3, .hosts = 2) { longer_both_ways(test); }

static void gathers(ts_test *test)
{
    ts_tensor *out[8];
    for (int i = 0; i < NUM_SIZES; i++)
        for (int root = 0; root < test->size; root++) {
            ts_scope scope = ts_scope_begin();
            bool here = root == test->rank;
            for (int r = 0; r < test->size; r++)
                out[r] = full(sizes[i] + (i % 2 ? r : 0), -1, (i + r) % 2);
            ts_tensor *in = full(sizes[i] + (i % 2 ? test->rank : 0), test->rank + 1, root % 2);
            TS_PASS(
                ts_gather(test->group, in, here ? out : NULL, here ? test->size : 0, root, NULL));
            for (int r = 0; r < test->size; r++) TS_EXPECT_ALL(out[r], here ? r + 1 : -1);
            TS_PASS(ts_scatter(test->group, in, here ? out : NULL, here ? test->size : 0,
                               TS_GROUP_RANK(root), NULL));
            TS_EXPECT_ALL(in, test->rank + 1);
            TS_PASS(ts_scope_end(scope));
        }
}

TS_TEST(gather_and_scatter_1, .ranks = 1) { gathers(test); }
TS_TEST(gather_and_scatter_2, .ranks = 2) { gathers(test); }
TS_TEST(gather_and_scatter_5, .ranks = 5) { gathers(test); }
TS_TEST(gather_and_scatter_hosts, .ranks = 3, .hosts = 2) { gathers(test); }

TS_TEST(gather_and_scatter_checks, .ranks = 2)
{
    ts_tensor *t = full(2, 1, 0), *list[] = {full(2, 0, 0), full(test->rank ? 2 : 3, 0, 0)};
    ts_status wrong = test->rank == 1 ? TS_EINVAL : TS_EREMOTE;
    TS_FAIL(ts_gather(test->group, t, list, 2, 0, NULL), wrong, "only the root (rank 0)");
    TS_FAIL(ts_scatter(test->group, t, NULL, 0, 0, NULL), test->rank == 0 ? TS_EINVAL : TS_EREMOTE,
            "the list has 0");
    TS_FAIL(ts_gather(test->group, t, NULL, 0, 2, NULL), TS_EINVAL, "rank 2 is not in 0 .. 1");
    TS_FAIL(ts_gather(test->group, t, NULL, 0, TS_GROUP_RANK(5), NULL), TS_EINVAL,
            "TS_GROUP_RANK(5)");
    int n = test->rank ? 0 : 2;
    TS_FAIL(ts_gather(test->group, t, n ? list : NULL, n, 0, NULL), TS_EMISMATCH,
            "rank 1 gives rank 0 2 elements of float32 at all_to_all_test.c:");
    TS_FAIL(ts_scatter(test->group, t, n ? list : NULL, n, 0, NULL), TS_EMISMATCH,
            ", which takes 2 at all_to_all_test.c:");
    list[1] = full(2, 0, 0);
    TS_FAIL(ts_gather(test->group, t, list, 2, test->rank, NULL), TS_EMISMATCH,
            "{0} call gather to 0 of float32");
    TS_PASS(ts_gather(test->group, t, test->rank ? NULL : list, test->rank ? 0 : 2, 0, NULL));
}

static void reduces(ts_test *test)
{
    double sum = test->size * (test->size + 1) / 2.0;
    for (int i = 0; i < NUM_SIZES; i++)
        for (int memory = 0; memory < 2; memory++)
            for (int root = 0; root < test->size; root++) {
                ts_scope scope = ts_scope_begin();
                ts_tensor *t = full(sizes[i], test->rank + 1, memory);
                TS_PASS(ts_reduce(test->group, t, root, TS_SUM, NULL));
                TS_EXPECT_ALL(t, root == test->rank ? sum : test->rank + 1);
                TS_PASS(ts_scope_end(scope));
            }
}

TS_TEST(reduce_1, .ranks = 1) { reduces(test); }
TS_TEST(reduce_2, .ranks = 2) { reduces(test); }
TS_TEST(reduce_5, .ranks = 5) { reduces(test); }
TS_TEST(reduce_hosts, .ranks = 3, .hosts = 2) { reduces(test); }

TS_TEST(reduce_mixed_memory, .ranks = 3)
{
    for (int root = 0; root < 3; root++) {
        ts_tensor *t = full(100000, test->rank, test->rank == 1);
        TS_PASS(ts_reduce(test->group, t, root, TS_MAX, NULL));
        TS_EXPECT_ALL(t, root == test->rank ? 2 : test->rank);
    }
}

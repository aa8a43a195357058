/* SPDX-License-Identifier: Apache-2.0 */
/* Broadcast, gather, scatter-reduce and barrier: results by rank and size, uneven parts, views. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "test.h"

static const int64_t sizes[] = {0, 1, 3, 1000, 9000, 300001, 1500000};
enum { NUM_SIZES = sizeof sizes / sizeof *sizes };

static ts_tensor *full(int64_t n, double value, int memory)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.memory = memory ? TS_MEMORY_SHARED : TS_MEMORY_HEAP;
    return ts_full(TS_SHAPE(n), value, &opt);
}

static void broadcasts(ts_test *test)
{
    for (int i = 0; i < NUM_SIZES; i++)
        for (int root = 0; root < test->size; root++) {
            ts_scope scope = ts_scope_begin();
            ts_tensor *t = full(sizes[i], test->rank == root ? 7 + root : -1, (i + root) % 2);
            TS_PASS(ts_broadcast(test->group, t, root, NULL));
            TS_EXPECT_ALL(t, 7 + root);
            TS_PASS(ts_scope_end(scope));
        }
    TS_FAIL(ts_broadcast(test->group, full(1, 0, 0), test->size, NULL), TS_EINVAL, "not in 0");
}

TS_TEST(broadcast_2, .ranks = 2) { broadcasts(test); }
TS_TEST(broadcast_5, .ranks = 5) { broadcasts(test); }
TS_TEST(broadcast_hosts, .ranks = 3, .hosts = 2) { broadcasts(test); }

TS_TEST(broadcast_column, .ranks = 2)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_INT32;
    ts_tensor *whole = ts_full(TS_SHAPE(2, 2), test->rank, &opt);
    TS_PASS(ts_broadcast(test->group, ts_select(whole, 1, 0), 1, NULL));
    TS_EXPECT_VALUES(whole, 0, 1, test->rank, 1, test->rank);
}

static void gathers_equal(ts_test *test)
{
    for (int i = 0; i < NUM_SIZES; i++) {
        ts_scope scope = ts_scope_begin();
        ts_tensor *in = full(sizes[i], test->rank + 1, i % 2);
        ts_tensor *out = full(sizes[i] * test->size, -1, 0);
        ts_tensor *stacked =
            ts_view(full(sizes[i] * test->size, -1, 1), TS_SHAPE(test->size, sizes[i]));
        TS_PASS(ts_all_gather_into_tensor(test->group, out, in, NULL));
        TS_PASS(ts_all_gather_into_tensor(test->group, stacked, in, NULL));
        for (int r = 0; r < test->size; r++) {
            TS_EXPECT_ALL(ts_narrow(out, 0, r * sizes[i], sizes[i]), r + 1);
            TS_EXPECT_ALL(ts_select(stacked, 0, r), r + 1);
        }
        TS_EXPECT_ALL(in, test->rank + 1);
        TS_PASS(ts_scope_end(scope));
    }
}

TS_TEST(all_gather_into_tensor_2, .ranks = 2) { gathers_equal(test); }
TS_TEST(all_gather_into_tensor_3, .ranks = 3) { gathers_equal(test); }
TS_TEST(all_gather_into_tensor_hosts, .ranks = 2, .hosts = 2) { gathers_equal(test); }

/* The input is this rank's block of the output. */
TS_TEST(all_gather_in_place, .ranks = 3)
{
    static const int64_t each[] = {2, 5000, 200000};
    for (int i = 0; i < 3; i++) {
        ts_tensor *out = full(each[i] * 3, test->rank + 1, i % 2);
        ts_tensor *in = ts_narrow(out, 0, test->rank * each[i], each[i]);
        TS_PASS(ts_all_gather_into_tensor(test->group, out, in, NULL));
        for (int r = 0; r < 3; r++) TS_EXPECT_ALL(ts_narrow(out, 0, r * each[i], each[i]), r + 1);
    }
}

/* Rank r has r * step elements: none on rank 0. */
static void gathers_uneven(ts_test *test)
{
    static const int64_t steps[] = {1, 700, 60000, 400001};
    ts_tensor *out[8];
    for (int i = 0; i < 4; i++)
        for (int memory = 0; memory < 2; memory++) {
            ts_scope scope = ts_scope_begin();
            for (int r = 0; r < test->size; r++) out[r] = full(r * steps[i], -1, !memory);
            ts_tensor *in = full(test->rank * steps[i], test->rank + 1, memory);
            TS_PASS(ts_all_gather(test->group, out, test->size, in, NULL));
            for (int r = 0; r < test->size; r++) TS_EXPECT_ALL(out[r], r + 1);
            TS_PASS(ts_scope_end(scope));
        }
}

TS_TEST(all_gather_uneven, .ranks = 4) { gathers_uneven(test); }
TS_TEST(all_gather_uneven_hosts, .ranks = 3, .hosts = 3) { gathers_uneven(test); }

TS_TEST(all_gather_checks, .ranks = 2)
{
    ts_tensor *in = full(3, 1, 0), *out[2] = {full(3, 0, 0), full(3, 0, 0)};
    TS_FAIL(ts_all_gather(test->group, out, 1, in, NULL), TS_EINVAL, "the list has 1");
    TS_FAIL(ts_all_gather(test->group, NULL, 2, in, NULL), TS_EINVAL, "the list has 0");
    out[1] = full(4, 0, 0); /* fits nobody: named here and there */
    TS_EXPECT(ts_all_gather(test->group, out, 2, in, NULL) != TS_OK);
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_INT64;
    out[1] = ts_zeros(TS_SHAPE(3), &opt);
    TS_FAIL(ts_all_gather(test->group, out, 2, in, NULL), TS_EDTYPE, "int64");
    TS_FAIL(ts_all_gather_into_tensor(test->group, full(7, 0, 0), in, NULL), TS_ESHAPE, "not 7");
    /* All inputs are fine in themselves, but rank 1 has another idea of the sizes. */
    out[0] = full(3, 0, 0);
    out[1] = full(test->rank == 0 ? 5 : 3, 0, 0);
    TS_FAIL(ts_all_gather(test->group, out, 2, in, NULL), TS_EMISMATCH, "elements over all ranks");
    out[1] = full(3, 0, 0);
    TS_PASS(ts_all_gather(test->group, out, 2, in, NULL));
}

/* Lists of other sizes with the same sum. */
TS_TEST(all_gather_lists_differ, .ranks = 3)
{
    ts_tensor *in = full(test->rank == 2 ? 2 : 1, 1, 0);
    ts_tensor *out[3] = {full(1, 0, 0), full(1, 0, 0), full(2, 0, 0)};
    if (test->rank == 0) out[1] = full(2, 0, 0), out[2] = full(1, 0, 0);
    TS_FAIL(ts_all_gather(test->group, out, 3, in, NULL), TS_EMISMATCH, "sizes #");
    TS_EXPECT_TEXT(ts_error_last(), "{1");
    TS_PASS(ts_barrier(test->group, NULL));
}

/* Element i of block b on rank r is r + b + i % 3. */
static ts_tensor *blocks(ts_test *test, int64_t each, int memory)
{
    ts_tensor *t = full(each * test->size, 0, memory);
    float *data = ts_data_mut(t);
    for (int b = 0; b < test->size; b++)
        for (int64_t i = 0; i < each; i++) *data++ = (float)(test->rank + b + i % 3);
    return t;
}

static bool is_scattered(ts_test *test, ts_tensor *out)
{
    const float *data = ts_data(out);
    int n = test->size;
    for (int64_t i = 0; i < ts_numel(out); i++)
        if (data[i] != (float)(n * (n - 1) / 2 + n * (test->rank + i % 3))) return false;
    return true;
}

static void scatters_equal(ts_test *test)
{
    for (int i = 0; i < NUM_SIZES; i++)
        for (int memory = 0; memory < 2; memory++) {
            ts_scope scope = ts_scope_begin();
            ts_tensor *in = blocks(test, sizes[i], memory), *out = full(sizes[i], -1, 0);
            ts_tensor *before = ts_clone(in);
            TS_PASS(ts_reduce_scatter_tensor(test->group, out, in, TS_SUM, NULL));
            TS_EXPECT(is_scattered(test, out));
            TS_EXPECT_EQUAL(in, before);
            ts_tensor *own = ts_narrow(in, 0, test->rank * sizes[i], sizes[i]);
            TS_PASS(ts_reduce_scatter_tensor(test->group, own, in, TS_SUM, NULL));
            TS_EXPECT(is_scattered(test, own));
            TS_PASS(ts_scope_end(scope));
        }
}

TS_TEST(reduce_scatter_tensor_2, .ranks = 2) { scatters_equal(test); }
TS_TEST(reduce_scatter_tensor_3, .ranks = 3) { scatters_equal(test); }
TS_TEST(reduce_scatter_tensor_hosts, .ranks = 3, .hosts = 2) { scatters_equal(test); }

static void scatters_uneven(ts_test *test)
{
    static const int64_t steps[] = {1, 900, 150000};
    ts_tensor *in[8];
    for (int i = 0; i < 3; i++)
        for (int memory = 0; memory < 2; memory++) {
            ts_scope scope = ts_scope_begin();
            for (int r = 0; r < test->size; r++)
                in[r] = full(r * steps[i], 10 * r + test->rank, memory);
            ts_tensor *out = full(test->rank * steps[i], -1, !memory);
            TS_PASS(ts_reduce_scatter(test->group, out, in, test->size, TS_MAX, NULL));
            TS_EXPECT_ALL(out, 10 * test->rank + test->size - 1);
            for (int r = 0; r < test->size; r++) TS_EXPECT_ALL(in[r], 10 * r + test->rank);
            TS_PASS(ts_scope_end(scope));
        }
}

TS_TEST(reduce_scatter_uneven, .ranks = 3) { scatters_uneven(test); }
TS_TEST(reduce_scatter_uneven_hosts, .ranks = 2, .hosts = 2) { scatters_uneven(test); }

/* Rank 1 has another idea of what rank 0 receives. */
TS_TEST(reduce_scatter_checks, .ranks = 2)
{
    ts_tensor *out = full(3, 0, 0), *in[2] = {full(test->rank ? 5 : 3, 1, 0), full(3, 1, 0)};
    TS_FAIL(ts_reduce_scatter(test->group, out, in, 2, TS_SUM, NULL), TS_EMISMATCH,
            "reduce_scatter");
    in[0] = full(3, 1, 0);
    in[test->rank] = full(4, 1, 0);
    TS_FAIL(ts_reduce_scatter(test->group, out, in, 2, TS_SUM, NULL), TS_ESHAPE, "4 elements");
    TS_FAIL(ts_reduce_scatter(test->group, out, in, 1, TS_SUM, NULL), TS_EINVAL, "the list has 1");
}

/* ---- PyTorch's documented examples for two ranks --------------------------------------------- */

static ts_tensor *pair(ts_dtype dtype, double first, double second)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = dtype;
    ts_tensor *t = ts_empty(TS_SHAPE(2), &opt);
    ts_fill_(ts_select(t, 0, 0), first);
    ts_fill_(ts_select(t, 0, 1), second);
    return t;
}

/* first + first i, first + 1 + (first + 1) i, ... */
static ts_tensor *complexes(int64_t n, float first)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_COMPLEX64;
    float parts[8];
    for (int64_t i = 0; i < 2 * n; i++) parts[i] = first + (float)(i / 2);
    return ts_from_data(parts, TS_SHAPE(n), &opt);
}

static bool has_parts(ts_tensor *t, int n, const float *want)
{
    float got[8];
    return ts_copy_out(t, got, (size_t)n * sizeof *got) == TS_OK &&
           memcmp(got, want, (size_t)n * sizeof *got) == 0;
}

/* One rank that may not read its peers' memory: all take the staging rings. */
TS_TEST(collectives_through_the_staging_rings, .ranks = 3, .mode = TS_TEST_PROCESSES,
        .no_group = true)
{
    if (test->rank == 1) setenv("TESSERA_READ_PEERS", "0", 1);
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    opt.store = test->store;
    opt.rank = test->rank;
    opt.world_size = test->size;
    TS_PASS(ts_init_process_group(&opt));
    broadcasts(test);
    gathers_equal(test);
    gathers_uneven(test);
    scatters_equal(test);
    scatters_uneven(test);
    TS_PASS(ts_destroy_process_group(NULL));
}

TS_TEST(known_sums_of_two_ranks, .ranks = 2)
{
    ts_tensor *t = pair(TS_INT64, 1 + 2 * test->rank, 2 + 2 * test->rank);
    TS_PASS(ts_all_reduce(test->group, t, TS_SUM, NULL));
    TS_EXPECT_VALUES(t, 0, 4, 6);
    ts_tensor *c = complexes(2, (float)(1 + 2 * test->rank));
    TS_PASS(ts_all_reduce(test->group, c, TS_SUM, NULL));
    TS_EXPECT(has_parts(c, 4, (const float[]){4, 4, 6, 6}));
    TS_FAIL(ts_all_reduce(test->group, c, TS_MAX, NULL), TS_EDTYPE, "MAX of complex64");
    ts_tensor *in = ts_arange(0, 4, 1, NULL), *out = full(2, -1, 0);
    for (int stacked = 0; stacked < 2; stacked++) {
        ts_tensor *from = stacked ? ts_view(in, TS_SHAPE(2, 2)) : in;
        TS_PASS(ts_reduce_scatter_tensor(test->group, ts_fill_(out, -1), from, TS_SUM, NULL));
        TS_EXPECT_VALUES(out, 0, 4 * test->rank, 4 * test->rank + 2);
    }
}

TS_TEST(known_gathers_of_two_ranks, .ranks = 2)
{
    ts_tensor *own = pair(TS_INT64, 1 + 2 * test->rank, 2 + 2 * test->rank);
    ts_tensor *out[] = {pair(TS_INT64, 0, 0), pair(TS_INT64, 0, 0)};
    TS_PASS(ts_all_gather(test->group, out, 2, own, NULL));
    TS_EXPECT_VALUES(out[0], 0, 1, 2);
    TS_EXPECT_VALUES(out[1], 0, 3, 4);
    ts_tensor *c[] = {complexes(2, 0), complexes(2, 0)};
    TS_PASS(ts_all_gather(test->group, c, 2, complexes(2, (float)(1 + 2 * test->rank)), NULL));
    TS_EXPECT(has_parts(c[0], 4, (const float[]){1, 1, 2, 2}));
    TS_EXPECT(has_parts(c[1], 4, (const float[]){3, 3, 4, 4}));
    ts_tensor *flat = ts_cat((ts_tensor *const[]){own, own}, 2, 0);
    ts_tensor *stacked = ts_view(ts_clone(flat), TS_SHAPE(2, 2));
    TS_PASS(ts_all_gather_into_tensor(test->group, flat, own, NULL));
    TS_PASS(ts_all_gather_into_tensor(test->group, stacked, own, NULL));
    TS_EXPECT_VALUES(flat, 0, 1, 2, 3, 4);
    TS_EXPECT_VALUES(stacked, 0, 1, 2, 3, 4);
}

TS_TEST(collectives_on_strided_tensors, .ranks = 2)
{
    ts_tensor *in = ts_select(full(6, test->rank, 0), 0, 0);
    ts_tensor *whole = ts_zeros(TS_SHAPE(2, 2), NULL), *column = ts_select(whole, 1, 1);
    TS_PASS(ts_all_gather_into_tensor(test->group, column, in, NULL));
    TS_EXPECT_VALUES(whole, 0, 0, 0, 0, 1);
    ts_tensor *arange = ts_slice(ts_arange(0, 8, 1, NULL), 0, 0, 8, 2), *out = full(2, 0, 0);
    TS_PASS(ts_reduce_scatter_tensor(test->group, out, arange, TS_SUM, NULL));
    TS_EXPECT_VALUES(out, 0, test->rank * 8, test->rank * 8 + 4);
}

TS_TEST(collectives_of_empty_tensors, .ranks = 4)
{
    ts_tensor *t = ts_ones(TS_SHAPE(1, 0, 2), NULL), *out = ts_ones(TS_SHAPE(4, 0, 2), NULL);
    TS_PASS(ts_all_gather_into_tensor(test->group, out, t, NULL));
    TS_PASS(ts_broadcast(test->group, t, 3, NULL));
    TS_PASS(ts_reduce_scatter_tensor(test->group, t, out, TS_SUM, NULL));
    ts_tensor *one = ts_ones(TS_SHAPE(1), NULL);
    TS_PASS(ts_all_reduce(test->group, one, TS_SUM, NULL));
    TS_EXPECT_ALL(one, 4);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void nobody_passes_early(ts_test *test)
{
    double begin = seconds();
    if (test->rank == test->size - 1) usleep(150000);
    TS_PASS(ts_barrier(test->group, NULL));
    TS_EXPECT(seconds() - begin > 0.1);
}

TS_TEST(barrier_waits_for_all, .ranks = 3)
{
    ts_test_meet(test, "start");
    nobody_passes_early(test);
}

TS_TEST(barrier_waits_for_all_hosts, .ranks = 3, .hosts = 3)
{
    ts_test_meet(test, "start");
    nobody_passes_early(test);
}

/* Bad on rank 0 only: both ranks read what was called, not what it is made of. */
#define NAMES(call, name)                                                                          \
    do {                                                                                           \
        ts_tensor *bad = test->rank == 0 ? NULL : in;                                              \
        ts_status s = (call);                                                                      \
        TS_EXPECT_INT(s, test->rank == 0 ? TS_EINVAL : TS_EREMOTE);                                \
        TS_EXPECT(strncmp(ts_error_last(), name, sizeof name - 1) == 0);                           \
        TS_EXPECT(strchr(": #", ts_error_last()[sizeof name - 1]) != NULL);                        \
        TS_EXPECT_TEXT(ts_error_last(), name ": ");                                                \
    } while (0)

TS_TEST(errors_name_the_function_that_was_called, .ranks = 2)
{
    ts_tensor *in = ts_zeros(TS_SHAPE(2), NULL), *out = ts_zeros(TS_SHAPE(4), NULL);
    ts_tensor *list[2] = {ts_zeros(TS_SHAPE(2), NULL), ts_zeros(TS_SHAPE(2), NULL)};
    NAMES(ts_all_gather_into_tensor(NULL, out, bad, NULL), "all_gather_into_tensor");
    NAMES(ts_all_gather(NULL, list, 2, bad, NULL), "all_gather");
    NAMES(ts_reduce_scatter_tensor(NULL, bad, out, TS_SUM, NULL), "reduce_scatter_tensor");
    NAMES(ts_all_to_all_single(NULL, ts_zeros(TS_SHAPE(2), NULL), bad, NULL, NULL, NULL),
          "all_to_all_single");
    NAMES(ts_all_reduce_premul(NULL, bad, 2, NULL), "all_reduce_premul");
    NAMES(ts_all_reduce_coalesced(NULL, &bad, 1, TS_SUM, NULL), "all_reduce_coalesced");
    NAMES(ts_all_reduce_shards(NULL, list[1], &bad, 1, TS_SUM, NULL), "all_reduce_shards");
    ts_status s = ts_gather_object(NULL, NULL, test->rank == 0 ? 1 : 0, NULL, 0);
    TS_EXPECT_INT(s, test->rank == 0 ? TS_EINVAL : TS_EREMOTE);
    TS_EXPECT_TEXT(ts_error_last(), "gather_object: the list has 0 entries");
    if (test->rank == 1) TS_EXPECT(strncmp(ts_error_last(), "gather_object #", 15) == 0);
    TS_FAIL(ts_send_object_list(NULL, NULL, 0, 0, 0), TS_EINVAL, "send_object_list: ");
    ts_object *object = ts_object_int(1);
    TS_FAIL(ts_send_object_list(NULL, &object, 1, 7, 0), TS_EINVAL, "send_object_list: rank 7");
    ts_object_free(object);
}

/* Outputs that share memory are refused on the rank that gives them, but for the own part. */
static void overlapping(ts_test *test)
{
    ts_group *g = test->group;
    int64_t r = test->rank;
    ts_tensor *b = ts_zeros(TS_SHAPE(12), NULL), *in = ts_ones(TS_SHAPE(4), NULL);
    ts_tensor *list[2] = {ts_narrow(b, 0, 0, 4), ts_narrow(b, 0, 3, 4)};
    ts_tensor *other[2] = {ts_narrow(b, 0, 4, 4), ts_narrow(b, 0, 8, 4)};
    ts_tensor *whole = ts_narrow(b, 0, 0, 8), *mine = ts_narrow(b, 0, 4 * r, 4);
    ts_tensor *shifted = ts_narrow(b, 0, 2, 4);
    TS_FAIL(ts_all_gather(g, list, 2, in, NULL), TS_EINVAL, "share memory");
    TS_FAIL(ts_all_gather_into_tensor(g, whole, shifted, NULL), TS_EINVAL, "share memory");
    TS_FAIL(ts_reduce_scatter_tensor(g, shifted, whole, TS_SUM, NULL), TS_EINVAL, "share memory");
    TS_FAIL(ts_reduce_scatter(g, shifted, list, 2, TS_SUM, NULL), TS_EINVAL, "share memory");
    TS_FAIL(ts_all_to_all_single(g, ts_narrow(b, 0, 4, 8), whole, NULL, NULL, NULL), TS_EINVAL,
            "share memory");
    TS_FAIL(ts_all_to_all(g, other, list, 2, NULL), TS_EINVAL, "share memory");
    TS_FAIL(ts_scatter(g, shifted, r ? NULL : list, r ? 0 : 2, 0, NULL), r ? TS_EREMOTE : TS_EINVAL,
            "share memory");
    TS_FAIL(ts_gather(g, in, r ? NULL : list, r ? 0 : 2, 0, NULL), r ? TS_EREMOTE : TS_EINVAL,
            "share memory");
    ts_fill_(b, 0);
    ts_fill_(mine, 1.0 + (double)r);
    TS_PASS(ts_all_gather_into_tensor(g, whole, mine, NULL));
    TS_EXPECT_ALL(ts_narrow(b, 0, 0, 4), 1.0);
    TS_EXPECT_ALL(ts_narrow(b, 0, 4, 4), 2.0);
    TS_PASS(ts_reduce_scatter_tensor(g, mine, whole, TS_SUM, NULL));
    TS_EXPECT_ALL(mine, r ? 4.0 : 2.0);
}

TS_TEST(outputs_that_share_memory, .ranks = 2) { overlapping(test); }
TS_TEST(outputs_that_share_memory_hosts, .ranks = 2, .hosts = 2) { overlapping(test); }

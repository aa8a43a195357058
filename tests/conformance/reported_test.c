/* SPDX-License-Identifier: Apache-2.0 */
/* What users of other systems reported as wrong, each in its smallest form. */
#include <dirent.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <time.h>

#include "test.h"

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static ts_tensor *numbers(ts_shape shape, double value, ts_dtype dtype)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = dtype;
    return ts_full(shape, value, &opt);
}

/* Memory outside a view is not touched, and only the view travels. */
static void columns(ts_test *test)
{
    int r = test->rank, size = test->size;
    ts_tensor *whole = numbers(TS_SHAPE(2, 2), r + 1, TS_INT32);
    TS_PASS(ts_broadcast(test->group, ts_select(whole, 1, 0), 0, NULL));
    TS_EXPECT_VALUES(whole, 0, 1, r + 1, 1, r + 1);
    ts_tensor *terms = numbers(TS_SHAPE(2, 2), r + 1, TS_INT32);
    TS_PASS(ts_reduce(test->group, ts_select(terms, 1, 0), 0, TS_SUM, NULL));
    int sum = r == 0 ? size * (size + 1) / 2 : r + 1;
    TS_EXPECT_VALUES(terms, 0, sum, r + 1, sum, r + 1);
    ts_tensor *in[8], *out = numbers(TS_SHAPE(3, 2), -1, TS_INT64);
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_INT64;
    for (int i = 0; i < size; i++) in[i] = ts_slice(ts_arange(0, 6, 1, &opt), 0, 0, 6, 2);
    TS_PASS(ts_scatter(test->group, ts_select(out, 1, 0), r ? NULL : in, r ? 0 : size, 0, NULL));
    TS_EXPECT_VALUES(out, 0, 0, -1, 2, -1, 4, -1);
}

TS_TEST(reported_strided_views_2, .ranks = 2) { columns(test); }
TS_TEST(reported_strided_views_3, .ranks = 3) { columns(test); }
TS_TEST(reported_strided_views_hosts, .ranks = 3, .hosts = 3) { columns(test); }

static void empties(ts_test *test)
{
    ts_tensor *t = ts_ones(TS_SHAPE(1, 0, 2), NULL), *out[4], *one = ts_ones(TS_SHAPE(1), NULL);
    for (int i = 0; i < 4; i++) out[i] = ts_ones(TS_SHAPE(1, 0, 2), NULL);
    TS_PASS(ts_all_gather(test->group, out, 4, t, NULL));
    TS_PASS(ts_all_reduce(test->group, t, TS_SUM, NULL));
    TS_PASS(ts_reduce(test->group, t, 1, TS_SUM, NULL));
    TS_PASS(ts_broadcast(test->group, t, 2, NULL));
    for (int i = 0; i < 4; i++) {
        TS_EXPECT_INT(ts_ndim(out[i]), 3);
        TS_EXPECT(ts_size(out[i], 0) == 1 && ts_size(out[i], 1) == 0 && ts_size(out[i], 2) == 2);
    }
    TS_PASS(ts_all_reduce(test->group, one, TS_SUM, NULL));
    TS_EXPECT_ALL(one, 4);
}

TS_TEST(reported_empty_tensors, .ranks = 4) { empties(test); }
TS_TEST(reported_empty_tensors_hosts, .ranks = 4, .hosts = 2) { empties(test); }

/* The exact sum is 263; a chain in bfloat16 would stay at 256. */
TS_TEST(reported_sum_in_bfloat16, .ranks = 8)
{
    ts_tensor *sum = numbers(TS_SHAPE(3), test->rank ? 1 : 256, TS_BFLOAT16);
    TS_PASS(ts_all_reduce(test->group, sum, TS_SUM, NULL));
    TS_EXPECT_ALL(sum, 264);
    ts_tensor *mean = numbers(TS_SHAPE(3), 1, TS_BFLOAT16);
    TS_PASS(ts_all_reduce(test->group, mean, TS_AVG, NULL));
    TS_EXPECT_ALL(mean, 1);
}

static void differ(ts_test *test, ts_tensor *t, const char *here, const char *there)
{
    double start = seconds(), before = 0;
    TS_PASS(ts_item(ts_select(t, 0, 0), &before));
    TS_FAIL(ts_all_reduce(test->group, t, TS_SUM, NULL), TS_EMISMATCH, "all_reduce #");
    TS_EXPECT(seconds() - start < 2);
    const char *parts[] = {here, there, "0", "1,2"};
    char text[2048];
    snprintf(text, sizeof text, "%s", ts_error_last());
    for (int i = 0; i < 4; i++) TS_EXPECT_TEXT(text, parts[i]);
    TS_EXPECT_ALL(t, before); /* nothing is half reduced */
}

static void sizes_and_dtypes(ts_test *test)
{
    int64_t n = test->rank ? 409598 : 409600;
    differ(test, ts_full(TS_SHAPE(n), 0.5, NULL), "(409600,)", "(409598,)");
    differ(test, numbers(TS_SHAPE(5), 0.5, test->rank ? TS_BFLOAT16 : TS_FLOAT32), "float32",
           "bfloat16");
}

TS_TEST(reported_sizes_and_dtypes_that_differ, .ranks = 3) { sizes_and_dtypes(test); }
TS_TEST(reported_sizes_and_dtypes_that_differ_hosts, .ranks = 3, .hosts = 3)
{
    sizes_and_dtypes(test);
}

static void unequal(ts_test *test)
{
    ts_tensor *out[3];
    for (int r = 0; r < 3; r++) out[r] = ts_full(TS_SHAPE(r + 1), -1, NULL);
    ts_tensor *in = ts_full(TS_SHAPE(test->rank + 1), 10 + test->rank, NULL);
    TS_PASS(ts_all_gather(test->group, out, 3, in, NULL));
    for (int r = 0; r < 3; r++) TS_EXPECT_ALL(out[r], 10 + r);
    ts_tensor *rows = ts_ones(TS_SHAPE(7, 2), NULL), *to = ts_zeros(TS_SHAPE(7, 2), NULL);
    ts_status status = ts_all_to_all_single(test->group, to, rows, NULL, NULL, NULL);
    TS_EXPECT(status == TS_EINVAL || status == TS_ESHAPE);
    TS_EXPECT_TEXT(ts_error_last(), "7");
    TS_EXPECT_ALL(to, 0);
    TS_PASS(ts_barrier(test->group, NULL));
}

TS_TEST(reported_unequal_sizes, .ranks = 3) { unequal(test); }
TS_TEST(reported_unequal_sizes_hosts, .ranks = 3, .hosts = 2) { unequal(test); }

static void to_all_and_oneself(ts_test *test)
{
    ts_p2p_op op[8];
    ts_work *work[8];
    ts_tensor *in[4], *out = ts_full(TS_SHAPE(test->rank + 1), test->rank, NULL);
    for (int q = 0; q < 4; q++) {
        in[q] = ts_full(TS_SHAPE(q + 1), -1, NULL);
        op[q] = (ts_p2p_op){true, out, q, 0, test->group};
        op[4 + q] = (ts_p2p_op){false, in[q], q, 0, test->group};
    }
    TS_PASS(ts_batch_isend_irecv(op, 8, work));
    TS_PASS(ts_wait_all(work, 8));
    for (int q = 0; q < 4; q++) TS_EXPECT_ALL(in[q], q);
}

TS_TEST(reported_batch_with_oneself, .ranks = 4) { to_all_and_oneself(test); }
TS_TEST(reported_batch_with_oneself_hosts, .ranks = 4, .hosts = 4) { to_all_and_oneself(test); }

/* Of every socket of this process. */
static void shrink_socket_buffers(int to_send, int to_receive)
{
    DIR *dir = opendir("/proc/self/fd");
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        int fd = atoi(entry->d_name);
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &to_send, sizeof to_send);
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &to_receive, sizeof to_receive);
    }
    if (dir) closedir(dir);
}

static void crossing_of(ts_test *test, int64_t count)
{
    int other = !test->rank;
    ts_tensor *out[2], *in[2];
    ts_work *work[4];
    for (int i = 0; i < 2; i++) {
        out[i] = ts_full(TS_SHAPE(count), 10 * test->rank + i, NULL);
        in[i] = ts_full(TS_SHAPE(count), -1, NULL);
    }
    for (int i = 0; i < 2; i++) TS_PASS(ts_isend(test->group, out[i], other, i, &work[i]));
    for (int i = 0; i < 2; i++) TS_PASS(ts_irecv(test->group, in[i], other, i, &work[2 + i]));
    for (int i = 3; i >= 0; i--) TS_PASS(ts_wait_all(&work[i], 1));
    for (int i = 0; i < 2; i++) TS_EXPECT_ALL(in[i], 10 * other + i);
}

static void crossing(ts_test *test) { crossing_of(test, 2 << 20); }

TS_TEST(reported_messages_in_both_directions, .ranks = 2) { crossing(test); }
TS_TEST(reported_messages_in_both_directions_hosts, .ranks = 2, .hosts = 2) { crossing(test); }
TS_TEST(reported_messages_in_both_directions_small_buffers, .ranks = 2, .hosts = 2,
        .mode = TS_TEST_PROCESSES)
{
    TS_PASS(ts_barrier(test->group, NULL));
    shrink_socket_buffers(1, 16384);
    crossing(test);
}

/* The smallest buffers there are, on connections that stand: any two plain sockets of loopback carry
 * 20 to 50 kB/s then, for their windows count in units chosen for larger buffers.  So there is time for
 * messages of 9,600 bytes only; each is longer than both buffers, which hold 4608 and 2304 bytes with
 * what the system needs for itself, so sends that did not receive meanwhile would wait for ever. */
TS_TEST(reported_messages_in_both_directions_smallest_buffers, .ranks = 2, .hosts = 2,
        .mode = TS_TEST_PROCESSES)
{
    TS_PASS(ts_barrier(test->group, NULL));
    shrink_socket_buffers(1, 1);
    crossing_of(test, 2400);
}

/* A megabyte of shared memory on each rank, and 16 MiB to add up. */
TS_TEST(reported_small_shared_memory_folder, .ranks = 2, .no_group = true,
        .mode = TS_TEST_PROCESSES)
{
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        ts_test_skip(test, "no mount namespace may be made here");
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=1m") != 0)
        ts_test_skip(test, "no tmpfs may be mounted here");
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    opt.rank = test->rank;
    opt.world_size = test->size;
    opt.store = test->store;
    TS_PASS(ts_init_process_group(&opt));
    for (int memory = 0; memory < 2; memory++) {
        ts_tensor_options to = TS_TENSOR_OPTIONS_INIT;
        to.memory = memory ? TS_MEMORY_SHARED : TS_MEMORY_HEAP;
        ts_tensor *t = ts_full(TS_SHAPE(4 << 20), test->rank + 1, &to);
        TS_PASS(ts_all_reduce(NULL, t, TS_SUM, NULL));
        TS_EXPECT_ALL(t, 3);
    }
}

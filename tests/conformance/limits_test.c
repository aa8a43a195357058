/* SPDX-License-Identifier: Apache-2.0 */
/* More than 2 GiB, and too little shared memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "test.h"

static const int64_t large = (INT64_C(1) << 31) + 16;

static int64_t available_bytes(void)
{
    char line[128];
    long long kib = 0;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %lld", &kib) == 1) break;
    if (file) fclose(file);
    return kib * 1024;
}

static void need_memory(ts_test *test)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    ts_test_skip(test, "too slow under sanitizers");
#endif
    if (available_bytes() < INT64_C(6) << 30)
        ts_test_skip(test, "less than 6 GiB of memory are free");
}

static void unmap(void *data, void *user)
{
    (void)user;
    munmap(data, (size_t)large);
}

/* Takes memory only where it is written. */
static ts_tensor *sparse_bytes(void)
{
    void *data = mmap(NULL, (size_t)large, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_UINT8;
    if (data == MAP_FAILED) return NULL;
    return ts_wrap(data, TS_SHAPE(large), &opt, unmap, NULL);
}

static void number_the_end(ts_tensor *t)
{
    unsigned char *data = ts_data_mut(t);
    for (int i = 0; i < 16; i++) data[large - 16 + i] = (unsigned char)(i + 1);
}

static bool end_is_numbered(ts_tensor *t)
{
    const unsigned char *data = ts_data(t);
    for (int i = 0; i < 16; i++)
        if (data[large - 16 + i] != i + 1) return false;
    return true;
}

#define LARGE .ranks = 2, .mode = TS_TEST_PROCESSES, .timeout_s = 60
TS_TEST(large_broadcast, LARGE)
{
    need_memory(test);
    ts_tensor *t = sparse_bytes();
    TS_GOOD(t);
    if (test->rank == 0) number_the_end(t);
    TS_PASS(ts_broadcast(test->group, t, 0, NULL));
    TS_EXPECT(end_is_numbered(t));
}

/* Rank 0 gives rank 1 all it has. */
TS_TEST(large_all_to_all, LARGE)
{
    need_memory(test);
    ts_tensor *t = sparse_bytes(), *none = ts_narrow(t, 0, 0, 0);
    int64_t splits[2] = {0, 0}, zeros[2] = {0, 0};
    TS_GOOD(t);
    if (test->rank == 0) number_the_end(t);
    splits[!test->rank] = large;
    ts_tensor *in = test->rank == 0 ? t : none, *out = test->rank == 0 ? none : t;
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_UINT8;
    if (test->rank == 0) out = ts_empty(TS_SHAPE(0), &opt);
    if (test->rank == 1) in = ts_empty(TS_SHAPE(0), &opt);
    TS_PASS(ts_all_to_all_single(test->group, out, in, test->rank ? splits : zeros,
                                 test->rank ? zeros : splits, NULL));
    TS_EXPECT(end_is_numbered(t));
}

/* By message, as between hosts. */
TS_TEST(large_message, .hosts = 2, LARGE)
{
    need_memory(test);
    ts_tensor *t = sparse_bytes();
    TS_GOOD(t);
    if (test->rank == 0) {
        number_the_end(t);
        TS_PASS(ts_send(test->group, t, 1, 0));
    } else {
        TS_PASS(ts_recv(test->group, t, 0, 0, NULL));
        TS_EXPECT(end_is_numbered(t));
    }
}

/* The object, its text on both sides, and the copy. */
TS_TEST(large_object, LARGE)
{
    need_memory(test);
    if (available_bytes() < INT64_C(10) << 30)
        ts_test_skip(test, "less than 10 GiB of memory are free");
    setenv("TESSERA_OBJECT_LIMIT", "16GiB", 1);
    ts_tensor *t = test->rank == 0 ? sparse_bytes() : NULL;
    if (t) number_the_end(t);
    ts_object *object = test->rank == 0 ? ts_object_tensor(t) : NULL;
    TS_PASS(ts_broadcast_object_list(test->group, &object, 1, 0));
    t = ts_object_as_tensor(object);
    TS_GOOD(t);
    TS_EXPECT_INT(ts_numel(t), large);
    TS_EXPECT(end_is_numbered(t));
    ts_object_free(object);
}

/* ---- little shared memory -------------------------------------------------------------------- */

static void join(ts_test *test)
{
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    opt.rank = test->rank;
    opt.world_size = test->size;
    opt.store = test->store;
    TS_PASS(ts_init_process_group(&opt));
}

/* The result is right, or every rank gets an error that says what is missing. */
static void sum_or_say(ts_test *test, ts_memory memory)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.memory = memory;
    ts_tensor *t = ts_full(TS_SHAPE(4 << 20), test->rank + 1, &opt);
    if (ts_failed(t)) t = ts_full(TS_SHAPE(4 << 20), test->rank + 1, NULL);
    ts_status status = ts_all_reduce(NULL, t, TS_SUM, NULL);
    if (status == TS_OK)
        TS_EXPECT_ALL(t, 3);
    else
        TS_EXPECT_TEXT(ts_error_last(), "shared heap");
}

#define BARE .ranks = 2, .no_group = true, .mode = TS_TEST_PROCESSES
TS_TEST(little_shared_memory_by_limit_on_files, BARE)
{
    struct rlimit limit = {1 << 20, 1 << 20};
    TS_EXPECT(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    join(test);
    sum_or_say(test, TS_MEMORY_SHARED);
}

TS_TEST(little_shared_memory_by_setting, BARE)
{
    setenv("TESSERA_SHARED_HEAP", "1MiB", 1);
    join(test);
    sum_or_say(test, TS_MEMORY_HEAP);
}

TS_TEST(too_little_shared_memory, BARE)
{
    setenv("TESSERA_SHARED_HEAP", "100KiB", 1);
    join(test);
    sum_or_say(test, TS_MEMORY_SHARED);
}

/* One rank has none. */
TS_TEST(shared_memory_on_one_rank_only, BARE)
{
    if (test->rank == 1) setenv("TESSERA_SHARED_MEMORY", "0", 1);
    join(test);
    sum_or_say(test, TS_MEMORY_SHARED);
}

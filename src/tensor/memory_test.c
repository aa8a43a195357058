/* SPDX-License-Identifier: Apache-2.0 */
/* Pools, ledger, storages and their allocators. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/thread.h"
#include "tensor/allocator.h"
#include "tensor/pool.h"
#include "test.h"

static ts_memory_stats stats(void)
{
    ts_memory_stats now;
    ts_memory_read(&now);
    return now;
}

static ts_tensor_options shared_options(void)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.memory = TS_MEMORY_SHARED;
    return opt;
}

/* ---- pools ----------------------------------------------------------------------------------- */

TS_TEST(pool_classes_waste_at_most_an_eighth)
{
    int former = -1;
    for (size_t bytes = 1; bytes < 1 << 16; bytes++) {
        int c = ts_pool_class(bytes);
        TS_EXPECT(c == former || c == former + 1);
        TS_EXPECT(ts_pool_class_size(c) >= bytes && ts_pool_class_size(c) % 64 == 0);
        if (c > 0) TS_EXPECT(ts_pool_class_size(c - 1) < bytes);
        if (bytes > 512) TS_EXPECT((ts_pool_class_size(c) - bytes) * 8 <= bytes);
        former = c;
    }
    TS_EXPECT_INT(ts_pool_class_size(ts_pool_class((size_t)1 << 40)), INT64_C(1) << 40);
    TS_EXPECT_INT(ts_pool_class(SIZE_MAX), -1);
    TS_EXPECT_INT(ts_pool_class((size_t)1 << 48), -1);
}

/* The same step again and again asks the system for nothing. */
TS_TEST(pool_does_not_grow_in_a_steady_state)
{
    int64_t held = 0;
    for (int round = 0; round < 1000; round++) {
        ts_scope scope = ts_scope_begin();
        for (int64_t i = 0; i < 40; i++) {
            ts_tensor_options opt = i % 8 == 7 ? shared_options() : ts_tensor_options_default();
            TS_GOOD(ts_empty(TS_SHAPE((i * i * i * 37) % 60000 + 1), &opt));
            if (i % 10 == 0) TS_GOOD(ts_empty(TS_SHAPE(700000 + 100000 * i), &opt));
        }
        TS_PASS(ts_scope_end(scope));
        if (round == 2) held = stats().pool_bytes;
    }
    TS_EXPECT(held > 0);
    TS_EXPECT_INT(stats().pool_bytes, held);
    TS_EXPECT_INT(stats().current_total, 0);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TS_TEST(steady_state_has_no_page_faults)
{
    struct rusage warm = {0}, end;
    for (int round = 0; round < 60; round++) {
        ts_scope scope = ts_scope_begin();
        for (int64_t n = 1; n < 3000000; n = n * 5 + 3) {
            ts_tensor_options opt = n % 2 ? shared_options() : ts_tensor_options_default();
            ts_ones(TS_SHAPE(n), &opt);
        }
        TS_PASS(ts_scope_end(scope));
        if (round == 5) getrusage(RUSAGE_SELF, &warm);
    }
    getrusage(RUSAGE_SELF, &end);
    TS_EXPECT(end.ru_minflt - warm.ru_minflt < 20);
}
#endif

TS_TEST(storage_is_aligned_and_apart)
{
    enum { N = 300 };
    ts_storage *storage[N];
    for (int i = 0; i < N; i++) {
        size_t bytes = (size_t)i * i * 7 + 1;
        storage[i] = ts_storage_new(bytes, TS_CPU, i % 2 ? TS_MEMORY_SHARED : TS_MEMORY_HEAP,
                                    TS_CATEGORY_OTHER);
        TS_EXPECT(storage[i] && (uintptr_t)storage[i]->data % 64 == 0);
        memset(storage[i]->data, i & 127, bytes);
    }
    for (int i = 0; i < N; i++) {
        const char *data = storage[i]->data;
        for (size_t k = 0; k < storage[i]->nbytes; k++) TS_EXPECT_INT(data[k], i & 127);
    }
    for (int i = 0; i < N; i++) ts_storage_release(storage[i]);
}

TS_TEST(pool_gives_large_blocks_back_before_it_fails)
{
    setenv("TESSERA_SHARED_HEAP", "16MiB", 1);
    ts_tensor_options opt = shared_options();
    for (int64_t mib = 9; mib >= 1; mib--) { /* different classes, one after the other */
        ts_scope scope = ts_scope_begin();
        ts_tensor *t = ts_ones(TS_SHAPE(mib << 18), &opt);
        TS_GOOD(t);
        TS_EXPECT(ts_is_shared(t));
        TS_EXPECT_NEAR(((const float *)ts_data(t))[(mib << 18) - 1], 1, 0);
        TS_PASS(ts_scope_end(scope));
    }
    TS_EXPECT(stats().pool_bytes <= 16 << 20);
    TS_BAD(ts_ones(TS_SHAPE(17 << 18), &opt), TS_ENOMEM, "TESSERA_SHARED_HEAP");
}

/* ---- ledger ---------------------------------------------------------------------------------- */

TS_TEST(ledger_counts_by_category)
{
    ts_scope scope = ts_scope_begin();
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.category = TS_CATEGORY_GRADIENT;
    ts_zeros(TS_SHAPE(25), &opt);
    ts_scope inner = ts_scope_begin();
    ts_zeros(TS_SHAPE(1000), NULL);
    ts_zeros(TS_SHAPE(100), &opt);
    TS_PASS(ts_scope_end(inner));
    ts_memory_stats now = stats();
    TS_EXPECT_INT(now.current[TS_CATEGORY_GRADIENT], 100);
    TS_EXPECT_INT(now.peak[TS_CATEGORY_GRADIENT], 500);
    TS_EXPECT_INT(now.current[TS_CATEGORY_ACTIVATION], 0);
    TS_EXPECT_INT(now.peak[TS_CATEGORY_ACTIVATION], 4000);
    TS_EXPECT_INT(now.current_total, 100);
    TS_EXPECT_INT(now.peak_total, 4500);
    ts_memory_reset_peaks();
    now = stats();
    TS_EXPECT_INT(now.peak[TS_CATEGORY_ACTIVATION], 0);
    TS_EXPECT_INT(now.peak_total, 100);
    TS_PASS(ts_scope_end(scope));
    TS_EXPECT_INT(stats().current_total, 0);
    TS_EXPECT_STR(ts_category_name(TS_CATEGORY_COMMUNICATION), "communication");
}

TS_TEST(ledger_does_not_count_views_meta_and_wrapped_memory)
{
    static float data[8];
    ts_tensor_options meta = TS_TENSOR_OPTIONS_INIT;
    meta.device = TS_META;
    ts_tensor *t = ts_zeros(TS_SHAPE(8), NULL);
    int64_t before = stats().current_total;
    ts_tensor_view(t, TS_SHAPE(4), (int64_t[]){2}, 0);
    ts_tensor *huge = ts_empty(TS_SHAPE(INT64_C(1) << 50), &meta);
    TS_GOOD(huge);
    TS_EXPECT_INT(ts_nbytes(huge), INT64_C(1) << 52);
    TS_EXPECT(ts_data(huge) == NULL);
    ts_wrap(data, TS_SHAPE(8), NULL, NULL, NULL);
    TS_EXPECT_INT(stats().current_total, before);
}

TS_TEST(storage_resize_to_zero_and_back)
{
    ts_tensor *t = ts_ones(TS_SHAPE(1000), NULL);
    TS_PASS(ts_storage_resize(t->storage, 0));
    TS_EXPECT_INT(stats().current_total, 0);
    TS_EXPECT(ts_data(t) == NULL);
    TS_PASS(ts_storage_resize(t->storage, 4000));
    TS_EXPECT_INT(stats().current_total, 4000);
    TS_PASS(ts_tensor_fill_data(t, 2));
    TS_EXPECT_NEAR(((const float *)ts_data(t))[999], 2, 0);
    float data[1];
    ts_tensor *wrapped = ts_wrap(data, TS_SHAPE(1), NULL, NULL, NULL);
    TS_FAIL(ts_storage_resize(wrapped->storage, 0), TS_ESTATE, "wrap");
}

/* ---- threads and ranks ----------------------------------------------------------------------- */

enum { EXCHANGED = 2000 };
static ts_tensor *_Atomic exchanged[EXCHANGED];

static void make_many(void *unused)
{
    (void)unused;
    for (int i = 0; i < EXCHANGED; i++) {
        ts_scope scope = ts_scope_begin();
        exchanged[i] = ts_retain(ts_full(TS_SHAPE(i % 50 + 1), i, NULL));
        ts_scope_end(scope);
    }
}

static void release_many(void *unused)
{
    (void)unused;
    for (int i = 0; i < EXCHANGED; i++) {
        ts_tensor *t;
        while (!(t = exchanged[i])) sched_yield();
        if (*(const float *)ts_data(t) == (float)i) ts_release(t);
    }
}

TS_TEST(tensors_may_be_released_by_another_thread)
{
    for (int round = 0; round < 3; round++) {
        pthread_t maker, releaser;
        for (int i = 0; i < EXCHANGED; i++) exchanged[i] = NULL;
        TS_PASS(ts_thread_start(&releaser, "releases", release_many, NULL));
        TS_PASS(ts_thread_start(&maker, "makes", make_many, NULL));
        pthread_join(maker, NULL);
        pthread_join(releaser, NULL);
        TS_EXPECT_INT(stats().current_total, 0);
    }
    TS_EXPECT(stats().pool_bytes <= 8 << 20);
}

typedef struct rank_job {
    ts_rank_ctx *rank;
    ts_tensor *kept, *kept_shared;
    ts_memory_stats seen;
} rank_job;

static void be_a_rank(void *arg)
{
    rank_job *job = arg;
    ts_tensor_options opt = shared_options();
    ts_thread_set_rank(job->rank);
    job->kept = ts_retain(ts_full(TS_SHAPE(10), 1, NULL));
    job->kept_shared = ts_retain(ts_full(TS_SHAPE(10), 2, &opt));
    ts_zeros(TS_SHAPE(100), NULL);
    ts_memory_read(&job->seen);
}

TS_TEST(ranks_have_pools_and_ledgers_of_their_own)
{
    ts_scope scope = ts_scope_begin();
    ts_zeros(TS_SHAPE(7), NULL);
    rank_job job = {.rank = ts_rank_ctx_new()};
    pthread_t thread;
    TS_PASS(ts_thread_start(&thread, "rank", be_a_rank, &job));
    pthread_join(thread, NULL);
    TS_EXPECT_INT(job.seen.current_total, 480);
    TS_EXPECT_INT(stats().current_total, 28);
    ts_rank_ctx_release(job.rank); /* the rank ends, its storages live on */
    TS_EXPECT_NEAR(((const float *)ts_data(job.kept))[9], 1, 0);
    TS_EXPECT_NEAR(((const float *)ts_data(job.kept_shared))[9], 2, 0);
    ts_release(job.kept);
    ts_release(job.kept_shared);
    TS_EXPECT_INT(stats().current_total, 28);
    TS_PASS(ts_scope_end(scope));
}

/* ---- the shared heap ------------------------------------------------------------------------- */

TS_TEST(shared_heap_is_readable_through_its_descriptor)
{
    ts_shared_heap *heap = ts_shared_heap_get();
    TS_EXPECT(heap != NULL && heap->fd >= 0);
    const char *peer = mmap(NULL, heap->reserved, PROT_READ, MAP_SHARED, heap->fd, 0);
    TS_EXPECT(peer != MAP_FAILED);
    ts_tensor_options opt = shared_options();
    for (int64_t n = 1; n < 3000000; n *= 12) {
        ts_tensor *t = ts_arange(0, (double)n, 1, &opt);
        int64_t offset = t->storage->shared_offset;
        TS_EXPECT(ts_is_shared(t));
        TS_EXPECT_INT(ts_shared_heap_offset(heap, ts_data(t)), offset);
        TS_EXPECT(memcmp(peer + offset, ts_data(t), ts_nbytes(t)) == 0);
        ts_tensor_fill_data(t, 5);
        TS_EXPECT_NEAR(((const float *)(const void *)(peer + offset))[n - 1], 5, 0);
    }
    float here;
    TS_EXPECT_INT(ts_shared_heap_offset(heap, &here), -1);
    TS_EXPECT(!ts_is_shared(ts_zeros(TS_SHAPE(2), NULL)));
    TS_EXPECT_INT(fcntl(heap->fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    munmap((void *)peer, heap->reserved);
}

TS_TEST(shared_heap_control_blocks)
{
    ts_shared_heap *heap = ts_shared_heap_get();
    TS_EXPECT(heap != NULL);
    for (size_t bytes = 1; bytes < 4000000; bytes = bytes * 3 + 1) {
        char *block = ts_shared_heap_alloc(heap, bytes);
        TS_EXPECT(block && (uintptr_t)block % 64 == 0);
        for (size_t i = 0; i < bytes; i++) TS_EXPECT_INT(block[i], 0);
        memset(block, 'x', bytes);
        ts_shared_heap_free(heap, block);
        char *again = ts_shared_heap_alloc(heap, bytes);
        TS_EXPECT(again == block && again[bytes - 1] == 0);
        ts_shared_heap_free(heap, again);
    }
    ts_shared_heap_free(heap, NULL);
}

/* Running out is an error that names the setting; what was made before is intact. */
TS_TEST(shared_heap_that_is_full_fails_cleanly)
{
    setenv("TESSERA_SHARED_HEAP", "4MiB", 1);
    ts_tensor_options opt = shared_options();
    ts_tensor *made[64];
    int n = 0;
    while (n < 64 && !ts_failed(made[n] = ts_full(TS_SHAPE(1 << 16), n, &opt))) n++;
    TS_EXPECT(n >= 8 && n <= 16);
    TS_BAD(made[n], TS_ENOMEM, "TESSERA_SHARED_HEAP");
    TS_BAD(made[n], TS_ENOMEM, "activation");
    for (int i = 0; i < n; i++)
        TS_EXPECT_NEAR(((const float *)ts_data(made[i]))[(1 << 16) - 1], i, 0);
    TS_EXPECT(ts_shared_heap_alloc(ts_shared_heap_get(), 2 << 20) == NULL);
    TS_EXPECT_TEXT(ts_error_last(), "TESSERA_SHARED_HEAP");
    TS_GOOD(ts_full(TS_SHAPE(1 << 16), n, NULL)); /* the ordinary heap is not affected */
}

TS_TEST(no_shared_memory_falls_back_to_the_heap)
{
    struct rlimit usual, none;
    TS_EXPECT(getrlimit(RLIMIT_NOFILE, &usual) == 0);
    none = (struct rlimit){0, usual.rlim_max};
    TS_EXPECT(setrlimit(RLIMIT_NOFILE, &none) == 0); /* memfd_create fails */
    TS_EXPECT(ts_shared_heap_get() == NULL);
    setrlimit(RLIMIT_NOFILE, &usual);
    TS_EXPECT_TEXT(ts_error_last(), "no shared memory available: memfd_create");
    ts_tensor_options opt = shared_options();
    ts_tensor *t = ts_full(TS_SHAPE(3), 1, &opt);
    TS_GOOD(t);
    TS_EXPECT(!ts_is_shared(t));
    TS_EXPECT_INT(stats().current_total, 12);
}

TS_TEST(shared_memory_can_be_switched_off)
{
    setenv("TESSERA_SHARED_MEMORY", "0", 1);
    ts_tensor_options opt = shared_options();
    TS_EXPECT(!ts_is_shared(ts_zeros(TS_SHAPE(3), &opt)));
    TS_EXPECT(ts_shared_heap_get() == NULL);
    TS_EXPECT_TEXT(ts_error_last(), "TESSERA_SHARED_MEMORY=0");
}

TS_TEST(shared_heap_respects_the_limit_on_file_sizes)
{
    struct rlimit limit = {8 << 20, RLIM_INFINITY};
    TS_EXPECT(setrlimit(RLIMIT_FSIZE, &limit) == 0); /* passing it would be SIGXFSZ */
    ts_shared_heap *heap = ts_shared_heap_get();
    TS_EXPECT(heap != NULL);
    TS_EXPECT_INT(heap->reserved, 8 << 20);
    limit.rlim_cur = RLIM_INFINITY; /* the harness writes to a file */
    setrlimit(RLIMIT_FSIZE, &limit);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TS_TEST(limited_address_space_gets_a_smaller_reserve)
{
    struct rlimit limit = {INT64_C(1) << 30, INT64_C(1) << 30};
    TS_EXPECT(setrlimit(RLIMIT_AS, &limit) == 0);
    ts_shared_heap *heap = ts_shared_heap_get();
    TS_EXPECT(heap != NULL && heap->reserved >= 64 << 20 && heap->reserved < 1 << 30);
    ts_tensor_options opt = shared_options();
    TS_GOOD(ts_zeros(TS_SHAPE(1000), &opt));
    TS_BAD(ts_empty(TS_SHAPE(1 << 29), NULL), TS_ENOMEM, "bytes");
    TS_GOOD(ts_zeros(TS_SHAPE(1000), NULL));
}
#endif

/* ---- wrapped and mapped memory --------------------------------------------------------------- */

static void count_release(void *data, void *user)
{
    if (data == ((void **)user)[0]) ++*((int **)user)[1];
}

TS_TEST(wrap_releases_once_after_the_last_view)
{
    float data[6] = {0, 1, 2, 3, 4, 5};
    int calls = 0;
    void *user[] = {data, &calls};
    ts_scope scope = ts_scope_begin();
    ts_tensor *t = ts_wrap(data, TS_SHAPE(2, 3), NULL, count_release, user);
    ts_tensor *view = ts_retain(ts_tensor_view(t, TS_SHAPE(2), (int64_t[]){1}, 4));
    ts_tensor_fill_data(t, 9);
    TS_EXPECT_NEAR(data[5], 9, 0);
    TS_PASS(ts_scope_end(scope));
    TS_EXPECT_INT(calls, 0);
    ts_release(view);
    TS_EXPECT_INT(calls, 1);
    TS_BAD(ts_wrap(NULL, TS_SHAPE(2), NULL, count_release, user), TS_EINVAL, "NULL");
    TS_BAD(ts_wrap(data, TS_SHAPE(-2), NULL, count_release, user), TS_ESHAPE, "(-2,)");
    TS_GOOD(ts_wrap(NULL, TS_SHAPE(0, 3), NULL, NULL, NULL));
    TS_EXPECT_INT(calls, 1);
}

TS_TEST(map_file_reads_the_whole_file)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/data", test->dir);
    FILE *file = fopen(path, "w");
    for (int i = 0; i < 10000; i++) fputc(i % 251, file);
    fclose(file);
    ts_tensor *t = ts_map_file(path);
    TS_GOOD(t);
    TS_EXPECT_INT(ts_numel(t), 10000);
    TS_EXPECT_INT(ts_tensor_dtype(t), TS_UINT8);
    const uint8_t *byte = ts_data(t);
    for (int i = 0; i < 10000; i++) TS_EXPECT_INT(byte[i], i % 251);
    TS_EXPECT(ts_data_mut(t) == NULL);
    TS_EXPECT_TEXT(ts_error_last(), "read-only");
    uint8_t copy[10000] = {0};
    TS_FAIL(ts_copy_in(t, copy, sizeof copy), TS_ESTATE, "read-only");
    TS_PASS(ts_copy_out(t, copy, sizeof copy));
    TS_EXPECT_INT(copy[250], 250);
}

TS_TEST(map_file_names_what_is_wrong)
{
    char path[4096];
    TS_BAD(ts_map_file("/no/such/file"), TS_EIO, "/no/such/file: No such file");
    TS_BAD(ts_map_file(test->dir), TS_EIO, "folder");
    TS_BAD(ts_map_file(NULL), TS_EINVAL, "NULL");
    snprintf(path, sizeof path, "%s/empty", test->dir);
    fclose(fopen(path, "w"));
    ts_tensor *t = ts_map_file(path);
    TS_GOOD(t);
    TS_EXPECT_INT(ts_numel(t), 0);
    snprintf(path, sizeof path, "%s/fifo", test->dir);
    TS_EXPECT(mkfifo(path, 0600) == 0);
    TS_BAD(ts_map_file(path), TS_EIO, "not a regular file"); /* and does not block */
}

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
TS_TEST(sanitizer_sees_the_ends_of_pooled_blocks)
{
    for (int shared = 0; shared < 2; shared++) {
        ts_storage *s = ts_storage_new(100, TS_CPU, (ts_memory)shared, TS_CATEGORY_OTHER);
        char *data = s->data;
        TS_EXPECT(!__asan_address_is_poisoned(data + 99));
        TS_EXPECT(__asan_address_is_poisoned(data + 100));
        ts_storage_release(s);
        TS_EXPECT(__asan_address_is_poisoned(data + 50));
    }
}
#endif

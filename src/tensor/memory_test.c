/* SPDX-License-Identifier: Apache-2.0 */
/* Pools, ledger, storages and their allocators. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>

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

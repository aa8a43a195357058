/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tensor/tensor.h"
#include "test.h"

static ts_tensor_options shared_options(void)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.memory = TS_MEMORY_SHARED;
    return opt;
}

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
    ts_memory_stats now;
    ts_memory_read(&now);
    TS_EXPECT_INT(now.current_total, 12);
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

/* ---- detached pages -------------------------------------------------------------------------- */

enum { DETACHED = 300000 };

static ts_tensor *bytes_full(int value)
{
    ts_tensor_options opt = shared_options();
    opt.dtype = TS_UINT8;
    return ts_full(TS_SHAPE(DETACHED), value, &opt);
}

/* A peer's stores no longer arrive, but for the parts of pages at both ends; the contents stay, and
 * the block is not handed out again. */
TS_TEST(shared_heap_detaches_pages)
{
    ts_shared_heap *heap = ts_shared_heap_get();
    char *peer = mmap(NULL, heap->reserved, PROT_READ | PROT_WRITE, MAP_SHARED, heap->fd, 0);
    TS_EXPECT(peer != MAP_FAILED);
    ts_scope scope = ts_scope_begin();
    ts_tensor *t = bytes_full(1), *next = bytes_full(2);
    unsigned char *data = ts_data_mut(t);
    int64_t place = ts_shared_heap_offset(heap, data);
    TS_PASS(ts_shared_heap_detach(heap, place + 100, DETACHED - 200));
    TS_EXPECT_ALL(t, 1);
    memset(peer + place, 3, DETACHED);
    TS_EXPECT_ALL(ts_slice(t, 0, 0, 4096, 1), 3);
    TS_EXPECT_ALL(ts_slice(t, 0, 4096, DETACHED / 4096 * 4096, 1), 1);
    TS_EXPECT_ALL(ts_slice(t, 0, DETACHED / 4096 * 4096, DETACHED, 1), 3);
    TS_EXPECT_ALL(next, 2);
    TS_EXPECT_INT(ts_shared_heap_place(heap, data, 4096), place);
    TS_EXPECT_INT(ts_shared_heap_place(heap, data, 4097), -1);
    TS_EXPECT_INT(ts_storage_place(t->storage, 4095, 2), -1);
    TS_EXPECT_INT(ts_storage_place(next->storage, 5, 2), next->storage->shared_offset + 5);
    const void *after = ts_data(next);
    TS_PASS(ts_scope_end(scope));
    TS_EXPECT(ts_data(bytes_full(4)) == after);
    TS_EXPECT(ts_data(bytes_full(5)) != data);
    munmap(peer, heap->reserved);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* No memory for the copy: an error, and the block is not handed out again either. */
TS_TEST(shared_heap_that_cannot_detach_keeps_the_block)
{
    ts_shared_heap *heap = ts_shared_heap_get();
    ts_scope scope = ts_scope_begin();
    ts_tensor *t = bytes_full(1);
    const void *data = ts_data(t);
    struct rlimit usual, none;
    TS_EXPECT(getrlimit(RLIMIT_AS, &usual) == 0);
    none = (struct rlimit){1 << 20, usual.rlim_max};
    TS_EXPECT(setrlimit(RLIMIT_AS, &none) == 0);
    ts_status status = ts_shared_heap_detach(heap, ts_shared_heap_offset(heap, data), DETACHED);
    setrlimit(RLIMIT_AS, &usual);
    TS_EXPECT_INT(status, TS_ENOMEM);
    TS_EXPECT_TEXT(ts_error_last(), "no memory for a copy");
    TS_EXPECT_INT(ts_shared_heap_place(heap, data, DETACHED), -1);
    TS_PASS(ts_scope_end(scope));
    TS_EXPECT(ts_data(bytes_full(2)) != data);
}
#endif

/* In the child of a fork: 0, or which check failed. */
static int use_inherited(ts_tensor *t, ts_tensor *local, const ts_shared_heap *parents)
{
    ts_tensor_options opt = shared_options();
    double sum = 0;
    if (ts_item(ts_sum(t), &sum) != TS_OK || sum != 300000) return 1;
    if (ts_tensor_fill_data(t, 2) != TS_OK) return 2;
    if (ts_item(ts_sum(t), &sum) != TS_OK || sum != 200000) return 3;
    if (ts_storage_place(t->storage, 0, 4) != -1) return 4;
    ts_release(t);
    ts_release(local);
    for (int i = 0; i < 200; i++) {
        ts_tensor *own = ts_full(TS_SHAPE(1 + i * 997), 1, i % 2 ? &opt : NULL);
        if (ts_item(ts_sum(own), &sum) != TS_OK || sum != 1 + i * 997) return 5;
        if (i % 2 && (!ts_is_shared(own) || ts_shared_heap_get() == parents)) return 6;
    }
    return 0;
}

/* A child has what its parent had; what it writes is its own. */
TS_TEST(forked_child_uses_tensors_of_shared_memory, .mode = TS_TEST_PROCESSES)
{
    int status;
    ts_tensor_options opt = shared_options();
    ts_shared_heap *heap = ts_shared_heap_get();
    ts_tensor *t = ts_retain(ts_full(TS_SHAPE(100000), 3, &opt));
    ts_tensor *local = ts_retain(ts_ones(TS_SHAPE(1000), NULL));
    for (int i = 0; i < 100; i++) ts_release(ts_retain(ts_full(TS_SHAPE(1 + i * 1000), 4, &opt)));
    ts_scope scope = ts_scope_begin();
    pid_t child = fork();
    if (child == 0) _exit(use_inherited(t, local, heap));
    TS_EXPECT_INT(waitpid(child, &status, 0), child);
    TS_EXPECT_INT(status, 0);
    TS_EXPECT(ts_shared_heap_get() == heap);
    TS_EXPECT_ALL(t, 3.0);
    TS_PASS(ts_scope_end(scope));
    ts_release(t);
    ts_release(local);
}

/* A child sees a detached tensor as its parent did, not what peers have stored since. */
TS_TEST(forked_child_inherits_detached_pages, .mode = TS_TEST_PROCESSES)
{
    int status;
    double sum = 0;
    ts_tensor_options opt = shared_options();
    ts_shared_heap *heap = ts_shared_heap_get();
    ts_tensor *t = ts_full(TS_SHAPE(100000), 3, &opt);
    TS_PASS(ts_shared_heap_detach(heap, t->storage->shared_offset, ts_nbytes(t)));
    TS_PASS(ts_tensor_fill_data(t, 5));
    pid_t child = fork();
    if (child == 0) _exit(ts_item(ts_sum(t), &sum) != TS_OK || sum != 500000);
    TS_EXPECT_INT(waitpid(child, &status, 0), child);
    TS_EXPECT_INT(status, 0);
}

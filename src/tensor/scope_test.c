/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include "base/thread.h"
#include "tensor/scope_impl.h"
#include "test.h"

static int64_t bytes_now(void)
{
    ts_memory_stats stats;
    ts_memory_read(&stats);
    return stats.current_total;
}

TS_TEST(scope_end_reports_the_first_unseen_failure)
{
    ts_scope outer = ts_scope_begin();
    double item;
    TS_FAIL(ts_item(ts_fail_tensor(TS_EDTYPE, "seen"), &item), TS_EDTYPE, "seen");
    ts_fail_tensor(TS_ESHAPE, "first");
    ts_scope_begin();
    ts_fail_tensor(TS_EINVAL, "second");
    TS_FAIL(ts_scope_end(outer), TS_ESHAPE, "first");
    TS_FAIL(ts_scope_end(outer), TS_EINVAL, "not open");
}

TS_TEST(scope_end_keep_hands_the_value_outwards)
{
    ts_scope outer = ts_scope_begin();
    int64_t before = bytes_now();
    ts_scope inner = ts_scope_begin();
    ts_zeros(TS_SHAPE(100), NULL);
    ts_tensor *kept = ts_scope_end_keep(inner, ts_ones(TS_SHAPE(10), NULL));
    TS_EXPECT_INT(bytes_now() - before, 40);
    TS_EXPECT_NEAR(*(const float *)ts_data(kept), 1, 0);
    ts_scope again = ts_scope_begin(); /* a value of an outer scope passes through */
    TS_EXPECT(ts_scope_end_keep(again, kept) == kept);
    again = ts_scope_begin();
    TS_EXPECT(ts_scope_end_keep(again, NULL) == NULL);
    again = ts_scope_begin(); /* kept, but not the newest */
    kept = ts_zeros(TS_SHAPE(10), NULL);
    ts_zeros(TS_SHAPE(10), NULL);
    ts_scope_end_keep(again, kept);
    TS_EXPECT_INT(bytes_now() - before, 80);
    TS_PASS(ts_scope_end(outer));
    TS_EXPECT_INT(bytes_now(), before);
}

TS_TEST(scope_end_keep_does_not_lose_failures)
{
    ts_scope outer = ts_scope_begin(), inner = ts_scope_begin();
    ts_fail_tensor(TS_ESHAPE, "lost and found");
    ts_scope_end_keep(inner, ts_zeros(TS_SHAPE(2), NULL));
    TS_FAIL(ts_scope_end(outer), TS_ESHAPE, "lost and found");
    outer = ts_scope_begin();
    inner = ts_scope_begin();
    ts_tensor *kept = ts_scope_end_keep(inner, ts_fail_tensor(TS_EDTYPE, "kept"));
    TS_BAD(kept, TS_EDTYPE, "kept");
    TS_FAIL(ts_scope_end(outer), TS_EDTYPE, "kept");
}

TS_TEST(scope_outer_end_ends_forgotten_inner_ones)
{
    int64_t before = bytes_now();
    ts_scope outer = ts_scope_begin();
    ts_scope forgotten[50];
    for (int i = 0; i < 50; i++) {
        forgotten[i] = ts_scope_begin();
        ts_zeros(TS_SHAPE(10), NULL);
    }
    TS_PASS(ts_scope_end(outer));
    TS_EXPECT_INT(bytes_now(), before);
    for (int i = 0; i < 50; i++) TS_FAIL(ts_scope_end(forgotten[i]), TS_EINVAL, "not open");
}

TS_TEST(scope_retained_values_outlive_it)
{
    int64_t before = bytes_now();
    ts_scope scope = ts_scope_begin();
    ts_tensor *t = ts_retain(ts_full(TS_SHAPE(1000), 3, NULL));
    ts_tensor *view = ts_retain(ts_tensor_view(t, TS_SHAPE(10), (int64_t[]){2}, 5));
    TS_PASS(ts_scope_end(scope));
    ts_release(t);
    TS_EXPECT_INT(bytes_now() - before, 4000);
    TS_EXPECT_NEAR(*(const float *)ts_data(view), 3, 0);
    ts_release(view);
    TS_EXPECT_INT(bytes_now(), before);
    TS_EXPECT(ts_retain(NULL) == NULL);
    ts_release(NULL);
}

static void end_scope_of_other_thread(void *arg)
{
    ts_scope *scope = arg;
    scope->id = ts_scope_end(*scope) == TS_EINVAL;
}

TS_TEST(scope_of_another_thread_is_refused)
{
    ts_scope scope = ts_scope_begin(), copy = scope;
    pthread_t thread;
    TS_PASS(ts_thread_start(&thread, "other", end_scope_of_other_thread, &copy));
    pthread_join(thread, NULL);
    TS_EXPECT_INT(copy.id, 1);
    TS_PASS(ts_scope_end(scope));
}

static void leave_values(void *arg)
{
    ts_scope_begin();
    ts_zeros(TS_SHAPE(1 << 20), NULL);
    *(ts_tensor **)arg = ts_retain(ts_full(TS_SHAPE(3), 2, NULL));
}

TS_TEST(scope_root_ends_with_its_thread)
{
    int64_t before = bytes_now();
    ts_tensor *kept = NULL;
    pthread_t thread;
    TS_PASS(ts_thread_start(&thread, "leaves", leave_values, &kept));
    pthread_join(thread, NULL);
    TS_EXPECT_INT(bytes_now() - before, 12);
    TS_EXPECT_NEAR(*(const float *)ts_data(kept), 2, 0);
    ts_release(kept);
    TS_EXPECT_INT(bytes_now(), before);
}

static void make_in_release(void *data, void *user)
{
    (void)data;
    ts_scope scope = ts_scope_begin();
    ts_zeros(TS_SHAPE(8), NULL);
    ts_scope_end(scope);
    ts_zeros(TS_SHAPE(8), NULL); /* lands in the scope that is just ending */
    ++*(int *)user;
}

TS_TEST(scope_end_survives_callbacks_that_make_values)
{
    int64_t before = bytes_now();
    static float data[4];
    int calls = 0;
    ts_scope scope = ts_scope_begin();
    for (int i = 0; i < 3; i++) ts_wrap(data, TS_SHAPE(4), NULL, make_in_release, &calls);
    TS_PASS(ts_scope_end(scope));
    TS_EXPECT_INT(calls, 3);
    TS_EXPECT_INT(bytes_now(), before);
}

TS_TEST(failed_values_are_inert)
{
    ts_scope scope = ts_scope_begin();
    ts_tensor *bad = ts_fail_tensor(TS_ESHAPE, "cause %d", 1);
    ts_fail(TS_EINVAL, "something later");
    TS_BAD(bad, TS_ESHAPE, "cause 1");
    TS_EXPECT_INT(ts_numel(bad), 0);
    TS_EXPECT_INT(ts_ndim(bad), 0);
    TS_EXPECT_INT(ts_nbytes(bad), 0);
    TS_EXPECT_INT(ts_size(bad, 0), 0);
    TS_EXPECT(ts_data(bad) == NULL && ts_data_mut(bad) == NULL);
    TS_EXPECT(!ts_is_contiguous(bad) && !ts_is_shared(bad) && !ts_same_storage(bad, bad));
    TS_EXPECT(ts_zeros_like(bad) == bad);
    TS_EXPECT(ts_normal_(bad, 0, 1) == bad);
    TS_EXPECT(ts_tensor_view(bad, TS_SHAPE(1), (int64_t[]){1}, 0) == bad);
    ts_tensor_set_name(bad, "x");
    TS_EXPECT_STR(ts_tensor_name(bad), "");
    char bytes[4];
    TS_FAIL(ts_copy_out(bad, bytes, 4), TS_ESHAPE, "cause 1");
    TS_FAIL(ts_copy_in(bad, bytes, 4), TS_ESHAPE, "cause 1");
    TS_PASS(ts_scope_end(scope)); /* it has been reported */
}

TS_TEST(null_is_none_everywhere)
{
    TS_EXPECT(!ts_failed(NULL));
    TS_EXPECT_INT(ts_tensor_status(NULL), TS_OK);
    TS_EXPECT_STR(ts_tensor_error(NULL), "");
    TS_EXPECT_INT(ts_numel(NULL) + ts_ndim(NULL) + ts_size(NULL, 0) + ts_stride(NULL, 0), 0);
    TS_EXPECT(ts_data(NULL) == NULL && ts_data_mut(NULL) == NULL);
    TS_EXPECT_INT(ts_storage_offset(NULL), 0);
    TS_EXPECT_STR(ts_tensor_name(NULL), "");
    ts_tensor_set_name(NULL, "x");
    int64_t item;
    TS_FAIL(ts_item_int(NULL, &item), TS_EINVAL, "missing");
    TS_BAD(ts_empty_like(NULL), TS_EINVAL, "empty_like");
}

/* The value that needs no memory goes through everything and is reported once per scope. */
TS_TEST(out_of_memory_value_survives_everything)
{
    ts_scope scope = ts_scope_begin();
    ts_tensor *t = ts_scope_give(&ts_no_memory_value);
    for (int i = 0; i < 5; i++) ts_release(t);
    ts_retain(t);
    TS_BAD(t, TS_ENOMEM, "out of memory");
    TS_FAIL(ts_scope_end(scope), TS_ENOMEM, "out of memory");
    scope = ts_scope_begin();
    double item;
    ts_scope_give(&ts_no_memory_value);
    TS_FAIL(ts_item(&ts_no_memory_value, &item), TS_ENOMEM, "out of memory");
    TS_PASS(ts_scope_end(scope));
}

TS_TEST(tensor_names_are_copied)
{
    char name[] = "weight";
    ts_tensor *t = ts_zeros(TS_SHAPE(2), NULL);
    ts_tensor_set_name(t, name);
    name[0] = 'x';
    TS_EXPECT_STR(ts_tensor_name(t), "weight");
    ts_tensor_set_name(t, NULL);
    TS_EXPECT_STR(ts_tensor_name(t), "");
}

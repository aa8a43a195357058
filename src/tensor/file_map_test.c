/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is not ours: wrapped and mapped. */
#include <sys/stat.h>

#include "tensor/tensor.h"
#include "test.h"

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

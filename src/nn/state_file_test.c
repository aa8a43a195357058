/* SPDX-License-Identifier: Apache-2.0 */
#include <tessera/formats.h>

#include "test.h"

static const char *path_in(ts_test *test, const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", test->dir, name);
    return path;
}

/* Two linear layers that share their weight. */
static ts_module *tied_new(double value)
{
    ts_module *m = ts_sequential_new(
        (ts_module *[]){ts_linear_new(3, 3, NULL), ts_module_list_new(NULL, 0)}, 2);
    ts_init_constant_(ts_module_parameter(m, "0.weight"), value);
    ts_init_constant_(ts_module_parameter(m, "0.bias"), value);
    ts_module_add_parameter(ts_module_child(m, "1"), "tied", ts_module_parameter(m, "0.weight"));
    return m;
}

TS_TEST(modules_save_and_load_in_both_formats)
{
    static const char *const names[] = {"m.pt", "m.safetensors"};
    for (int i = 0; i < 2; i++) {
        ts_module *m = tied_new(2.5), *other = tied_new(0.0);
        const char *path = path_in(test, names[i]);
        TS_PASS(ts_module_save(m, path));
        ts_object *file = ts_load(path, NULL), *report;
        TS_EXPECT_INT(ts_object_count(file), i == 0 ? 3 : 2); /* shared tensors once */
        ts_object_free(file);
        TS_PASS(ts_module_load(&report, other, path, true));
        TS_EXPECT_INT(ts_object_count(ts_object_get(report, "missing")), 0);
        TS_EXPECT_ALL(ts_module_parameter(other, "0.weight"), 2.5);
        TS_EXPECT_ALL(ts_module_parameter(other, "1.tied"), 2.5);
        TS_EXPECT_ALL(ts_module_parameter(other, "0.bias"), 2.5);
        ts_object_free(report);
        ts_module_free(m);
        ts_module_free(other);
    }
}

TS_TEST(module_files_report_missing_and_unexpected_names)
{
    const char *text, *path = path_in(test, "other.safetensors");
    ts_object *map = ts_object_map(), *report;
    ts_object_set(map, "0.bias", ts_object_tensor(ts_full(TS_SHAPE(3), 7, NULL)));
    ts_object_set(map, "more", ts_object_tensor(ts_ones(TS_SHAPE(1), NULL)));
    TS_PASS(ts_save(map, path, NULL));
    ts_object_free(map);
    ts_module *m = tied_new(1.0);
    TS_FAIL(ts_module_load(&report, m, path, true), TS_EINVAL,
            "missing: 0.weight, 1.tied; unexpected: more (strict)");
    TS_EXPECT_INT(ts_object_count(ts_object_get(report, "missing")), 2);
    ts_object_free(report);
    TS_EXPECT_ALL(ts_module_parameter(m, "0.bias"), 1.0);
    TS_PASS(ts_module_load(&report, m, path, false));
    TS_PASS(ts_object_as_text(ts_object_at(ts_object_get(report, "unexpected"), 0), &text));
    TS_EXPECT_STR(text, "more");
    ts_object_free(report);
    TS_EXPECT_ALL(ts_module_parameter(m, "0.bias"), 7.0);
    TS_EXPECT_ALL(ts_module_parameter(m, "0.weight"), 1.0);
    TS_FAIL(ts_module_load(&report, m, "/no/such/file", false), TS_EIO, "/no/such/file");
    TS_EXPECT(report == NULL);
    ts_module_free(m);
}

TS_TEST(module_files_of_pytorch_load)
{
    ts_object *checkpoint = ts_object_map(), *report;
    ts_module *m = ts_linear_new(3, 2, NULL);
    TS_PASS(ts_module_load(&report, m, ts_test_path("tests/golden/files/module.pt"), false));
    TS_EXPECT_INT(ts_object_count(ts_object_get(report, "missing")), 2); /* "0.weight" there */
    ts_object_free(report);
    ts_module *all = ts_sequential_new((ts_module *[]){m}, 1);
    TS_PASS(ts_module_load(&report, all, ts_test_path("tests/golden/files/module.pt"), false));
    TS_EXPECT_INT(ts_object_count(ts_object_get(report, "missing")), 0);
    TS_EXPECT_INT(ts_object_count(ts_object_get(report, "unexpected")), 5); /* of the batch norm */
    ts_object_free(report);
    ts_module_free(all);
    ts_object_set(checkpoint, "step", ts_object_int(3));
    TS_PASS(ts_save(checkpoint, path_in(test, "c.pt"), NULL));
    ts_object_free(checkpoint);
    m = ts_linear_new(3, 2, NULL);
    TS_FAIL(ts_module_load(NULL, m, path_in(test, "c.pt"), false), TS_EINVAL,
            "'step' is no tensor");
    ts_module_free(m);
}

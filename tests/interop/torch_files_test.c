/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch reads what is saved here; the interpreter is $TESSERA_TEST_PYTHON or python3. */
#include "../cli/cli.h"
#include "paths.h"

static cli_job job;

#define PYTHON "${TESSERA_TEST_PYTHON:-python3} "

TS_TEST(torch_loads_what_is_saved, .timeout_s = 120)
{
    cli_run(test, &job, PYTHON "-c 'import torch'");
    if (job.status != 0) ts_test_skip(test, "PyTorch is not installed (see TESSERA_TEST_PYTHON)");
    char path[512];
    ts_save_options opt = TS_SAVE_OPTIONS_INIT;
    opt.integer_keys = true;
    snprintf(path, sizeof path, "%s/nested.pt", test->dir);
    ts_object *o = ts_load(ts_test_path("tests/golden/files/nested.pt"), NULL);
    TS_PASS(ts_save(o, path, &opt));
    ts_object_free(o);
    cli_run(test, &job, PYTHON TS_SOURCE_DIR "/tests/interop/torch_files.py nested.pt");
    CLI_EXPECT_STATUS(&job, 0);
    TS_EXPECT_TEXT(job.out, "equal");
}

/* Written by this PyTorch, today. */
TS_TEST(torch_files_of_the_day_load, .timeout_s = 120)
{
    cli_run(test, &job,
            PYTHON "-c 'import torch; torch.save({\"w\": torch.arange(6.).reshape(2, 3).t()}, "
                   "\"x.pt\")'");
    if (job.status != 0) ts_test_skip(test, "PyTorch is not installed (see TESSERA_TEST_PYTHON)");
    char path[512];
    snprintf(path, sizeof path, "%s/x.pt", test->dir);
    ts_object *o = ts_load(path, NULL);
    TS_PASS(ts_object_status(o));
    TS_EXPECT_VALUES(ts_object_as_tensor(ts_object_get(o, "w")), 0, 0, 3, 1, 4, 2, 5);
    ts_object_free(o);
}

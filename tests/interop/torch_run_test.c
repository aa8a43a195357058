/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch programs below tessera run; the interpreter is $TESSERA_TEST_PYTHON or python3. */
#include <stdlib.h>

#include "../cli/cli.h"
#include "paths.h"

static cli_job job, other;

TS_TEST(run_starts_pytorch_programs, .timeout_s = 120)
{
    const char *line = "$T run -q -n 2 ${TESSERA_TEST_PYTHON:-python3} " TS_SOURCE_DIR
                       "/tests/interop/torch_run.py";
    cli_run(test, &job, "${TESSERA_TEST_PYTHON:-python3} -c 'import torch'");
    if (job.status != 0) ts_test_skip(test, "PyTorch is not installed");
    cli_start(test, &job, line);
    cli_start(test, &other, line); /* a second job at the same time */
    cli_wait(&job);
    cli_wait(&other);
    CLI_EXPECT_STATUS(&job, 0);
    CLI_EXPECT_STATUS(&other, 0);
    TS_EXPECT_TEXT(job.out, "sum [3.0, 3.0, 3.0]");
    TS_EXPECT_TEXT(other.out, "sum [3.0, 3.0, 3.0]");
}

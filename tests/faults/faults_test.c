/* SPDX-License-Identifier: Apache-2.0 */
/* A sample of the fault campaign; make soak runs 500. */
#include <stdlib.h>

#include "../cli/cli.h"
#include "paths.h"

TS_TEST(fault_campaign, .timeout_s = 900)
{
    static cli_job job;
    bool soak = getenv("TESSERA_TEST_SOAK");
    cli_run(test, &job,
            soak ? TS_BINARY_DIR "/bin/fault-campaign --runs 500"
                 : TS_BINARY_DIR "/bin/fault-campaign --runs 40");
    CLI_EXPECT_STATUS(&job, 0);
}

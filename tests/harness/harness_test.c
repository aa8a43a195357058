/* SPDX-License-Identifier: Apache-2.0 */
/* The harness tests itself: it runs this program again with cases that must fail, which
 * nothing else runs: their names begin with self_. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "paths.h"
#include "test.h"

TS_TEST(self_fails) { TS_EXPECT_INT(1 + 1, 3); }

TS_TEST(self_crashes)
{
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
}

TS_TEST(self_hangs, .timeout_s = 0.2)
{
    TS_EXPECT(true);
    for (;;) pause();
}

TS_TEST(self_leaves_a_process)
{
    if (fork() == 0) {
        setsid();
        if (fork() == 0)
            for (;;) pause();
        _exit(0);
    }
}

TS_TEST(self_needs_a_program, .skip_unless = "no-such-program-anywhere")
{
    TS_FAIL_TEST("must not run");
}

static int run_self(char *output, size_t size)
{
    FILE *pipe = popen("TESSERA_TEST_SELF=1 exec " TS_BINARY_DIR "/bin/tessera-tests :self_", "r");
    if (!pipe) return -1;
    size_t length = fread(output, 1, size - 1, pipe);
    output[length] = 0;
    return pclose(pipe);
}

TS_TEST(harness_reports_failures, .timeout_s = 60)
{
    static char output[16384];
    int status = run_self(output, sizeof output);
    TS_EXPECT(status > 0);
    TS_EXPECT_TEXT(output, "FAILED self_fails");
    TS_EXPECT_TEXT(output, "1 + 1 is 2, expected 3");
    TS_EXPECT_TEXT(output, "ended by signal 11");
    TS_EXPECT_TEXT(output, "rank 0 is running, last check at tests/harness/harness_test.c:");
    TS_EXPECT_TEXT(output, "left process");
    TS_EXPECT_TEXT(output, "0 passed, 4 failed, 1 skipped\n");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* tessera bench coll --tune, seen from outside: the table that the native backend chooses by is one
 * that the program reads and writes. */
#include <stdio.h>

#include "cli.h"
#include "paths.h"

static cli_job job;

#define TABLE TS_SOURCE_DIR "/src/comm/backend/native/select_table.inc"

static void write_table(ts_test *test, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/t", test->dir);
    FILE *to = fopen(path, "we");
    TS_EXPECT(to && fputs(text, to) >= 0 && fclose(to) == 0);
}

TS_TEST(tune_writes_the_table_as_it_is_in_the_sources)
{
    /* Of the barrier there is one algorithm, so nothing is measured. */
    cli_run(test, &job, "cp " TABLE " t");
    cli_run(test, &job, "$T bench coll --tune --op barrier --output t");
    CLI_EXPECT_STATUS(&job, 0);
    cli_run(test, &job, "cmp t " TABLE);
    CLI_EXPECT_STATUS(&job, 0);
}

TS_TEST(tune_replaces_the_rows_that_it_is_about)
{
    write_table(test, "ROW(BARRIER, ONE, 2, 0, SHM, 0)\nROW(BARRIER, ONE, 4, 0, FLAT, 0)\n"
                      "ROW(BARRIER, TWO, 2, 0, SHM, 0)\nROW(SCATTER, ONE, 2, 99, FLAT, 0)\n"
                      "ROW(SCATTER, ONE, 2, 0, SHM, 7)\n");
    cli_run(test, &job, "$T bench coll --tune --op barrier --class one --output t");
    CLI_EXPECT_STATUS(&job, 0);
    cli_run(test, &job, "grep ROW t");
    TS_EXPECT_STR(job.out, "ROW(BARRIER, ONE, 2, 0, FLAT, 0)\nROW(BARRIER, TWO, 2, 0, SHM, 0)\n"
                           "ROW(SCATTER, ONE, 2, 99, FLAT, 0)\nROW(SCATTER, ONE, 2, 0, SHM, 7)\n");
}

TS_TEST(tune_refuses_a_file_that_is_no_table)
{
    write_table(test,
                "/* x */\nROW(BARRIER, ONE, 2, 0, FLAT, 0)\nROW(BARRIER, ONE, 2, 0, SLOW, 0)\n");
    cli_run(test, &job, "$T bench coll --tune --op barrier --output t");
    CLI_EXPECT_STATUS(&job, 1);
    TS_EXPECT_TEXT(job.err, "t: line 3 is not the next row of a table");
    cli_run(test, &job, "grep -c SLOW t");
    TS_EXPECT_STR(job.out, "1\n");
}

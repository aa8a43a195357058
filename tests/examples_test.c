/* SPDX-License-Identifier: Apache-2.0 */
/* The lessons run and print what they promise. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "paths.h"
#include "test.h"

/* Output of a shell command (stdout), its exit status in *status. */
static const char *output_of(int *status, const char *command)
{
    static char text[16384];
    FILE *pipe = popen(command, "r");
    size_t n = pipe ? fread(text, 1, sizeof text - 1, pipe) : 0;
    text[n] = '\0';
    *status = pipe ? pclose(pipe) : -1;
    return text;
}

TS_TEST(lesson_01_tensors)
{
    int status;
    const char *text = output_of(&status, TS_BINARY_DIR "/bin/01_tensors");
    TS_EXPECT_INT(status, 0);
    TS_EXPECT_TEXT(text, "y = 3.00 x -1.00");
    TS_EXPECT_TEXT(text, "TS_ESHAPE: add: ");
    TS_EXPECT_TEXT(text, "(2, 3)");
}

TS_TEST(lesson_02_ddp)
{
    int status;
    double loss = 100;
    const char *text =
        output_of(&status, TS_BINARY_DIR "/bin/tessera run -n 2 " TS_BINARY_DIR "/bin/02_ddp");
    TS_EXPECT_INT(status, 0);
    const char *last = strstr(text, "step 200  loss ");
    TS_EXPECT(last);
    TS_EXPECT_INT(sscanf(last, "step 200  loss %lf", &loss), 1);
    TS_EXPECT(loss < 0.2);
}

TS_TEST(lesson_03_collectives)
{
    int status;
    const char *text = output_of(&status, TS_BINARY_DIR "/bin/tessera run -n 4 " TS_BINARY_DIR
                                                        "/bin/03_collectives");
    TS_EXPECT_INT(status, 0);
    TS_EXPECT_TEXT(text, "sum of 1 .. 4 is 10");
    TS_EXPECT_TEXT(text, "last rank is 3, counted 1000 meanwhile");
    TS_EXPECT_TEXT(text, "doubled by every rank: 16");
    TS_EXPECT_TEXT(text, "TS_EMISMATCH: ");
}

TS_TEST(lesson_07_spawn)
{
    int status;
    const char *text = output_of(&status, TS_BINARY_DIR "/bin/07_spawn");
    TS_EXPECT_INT(status, 0);
    TS_EXPECT_TEXT(text, "forked: 3 ranks, sum 6");
    TS_EXPECT_TEXT(text, "started again: 3 ranks, sum 6");
    TS_EXPECT_TEXT(text, "failed with exit code 1: matmul: ");
}

TS_TEST(lesson_04_objects)
{
    int status;
    const char *text =
        output_of(&status, TS_BINARY_DIR "/bin/tessera run -n 3 " TS_BINARY_DIR "/bin/04_objects");
    TS_EXPECT_INT(status, 0);
    TS_EXPECT_TEXT(text, "last rank has lr 0.05 of {\"lr\": 0.05, \"name\": \"first run\", "
                         "\"start\": float32(3,)}");
    TS_EXPECT_TEXT(text, "rank 0 reports []\nrank 1 reports [0]\nrank 2 reports [0, 1]");
    TS_EXPECT_TEXT(text, "rank 0 sent a last object {\"1\": 2}");
}

TS_TEST(lesson_05_own_backend)
{
    int status;
    const char *text = output_of(&status, TS_BINARY_DIR "/bin/tessera run -n 3 " TS_BINARY_DIR
                                                        "/bin/05_own_backend");
    TS_EXPECT_INT(status, 0);
    TS_EXPECT_TEXT(text, "by_store: the sum is 6, the last rank has 3");
    TS_EXPECT_TEXT(text, "TS_EMISMATCH: all_reduce #3 of group 'default': ranks disagree");
}

TS_TEST(lesson_06_groups)
{
    int status;
    const char *text =
        output_of(&status, TS_BINARY_DIR "/bin/tessera run -n 4 " TS_BINARY_DIR "/bin/06_groups");
    TS_EXPECT_INT(status, 0);
    TS_EXPECT_TEXT(text, "rank 0: row sum 1, column sum 2");
    TS_EXPECT_TEXT(text, "rank 3: row sum 5, column sum 4");
    TS_EXPECT_TEXT(text, "second of the row of rank 2: 3");
    TS_EXPECT_TEXT(text, "elements reduced by the pair: 3");
    TS_EXPECT_TEXT(text, "rank 2 of 4 is rank 2 of 3 now, sum 3");
}

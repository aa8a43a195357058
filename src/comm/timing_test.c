/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/timing.h"
#include "test.h"

TS_TEST(timing_table_has_min_median_max)
{
    char text[2048];
    int64_t times[3][TS_NUM_MARKS];
    for (int rank = 0; rank < 3; rank++)
        for (int i = 0; i < TS_NUM_MARKS; i++) times[rank][i] = 1 + i * 1000000 * (rank + 1);
    ts_timing_table(text, sizeof text, times, 3, "all_reduce");
    TS_EXPECT_TEXT(text, "start of 3 rank(s)");
    TS_EXPECT_TEXT(text, "records exchanged                       1.00      2.00      3.00\n");
    TS_EXPECT_TEXT(text, "first all_reduce                        1.00      2.00      3.00\n");
    TS_EXPECT_TEXT(text, "in all                                  8.00     16.00     24.00\n");
    for (int rank = 0; rank < 3; rank++) times[rank][0] = times[rank][1] = 0; /* no launcher */
    ts_timing_table(text, sizeof text, times, 3, "all_reduce");
    TS_EXPECT(!strstr(text, "launcher") && !strstr(text, "libraries"));
    TS_EXPECT_TEXT(text, "in all                                  6.00     12.00     18.00\n");
}

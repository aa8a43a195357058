/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/wording.h"

#include <stdlib.h>

#include "test.h"

static ts_said sum_of(int rank, const char *site)
{
    return (ts_said){.rank = rank,
                     .op = TS_COLL_ALL_REDUCE,
                     .dtype = TS_FLOAT32,
                     .reduce = TS_SUM,
                     .shape = TS_SHAPE(4),
                     .count = 4,
                     .text = site};
}

TS_TEST(wording_names_rows_of_ranks_and_call_sites)
{
    ts_said said[9];
    char text[2048];
    for (int i = 0; i < 9; i++) said[i] = sum_of(2 * (i > 4) + i, "a.c:1 in step");
    said[2].dtype = said[8].dtype = TS_INT32;
    said[8].reduce = TS_MAX;
    said[4].text = "b.c:2 in step";
    said[8].text = "";
    ts_word_verdict(text, sizeof text, said, 9);
    TS_EXPECT_TEXT(text, "ranks disagree on the dtype and the reduction: ranks {0,1,3,4,7-9} call "
                         "all_reduce SUM of float32 (4,) at a.c:1 in step and elsewhere; "
                         "ranks {2} call all_reduce SUM of int32 (4,) at a.c:1 in step; "
                         "ranks {10} call all_reduce MAX of int32 (4,); all ranks must call");
    said[3].status = TS_EINVAL;
    said[3].text = "all_reduce: tensor is missing";
    ts_word_verdict(text, sizeof text, said, 9);
    TS_EXPECT_TEXT(text, "rank 3 came with bad arguments: TS_EINVAL: all_reduce: tensor is");
}

/* A thousand ranks that each say something else: the end of the text is still there. */
TS_TEST(wording_of_many_calls_keeps_what_to_do)
{
    enum { RANKS = 1000 };
    ts_said *said = calloc(RANKS, sizeof *said);
    char text[1700];
    TS_EXPECT(said);
    for (int i = 0; said && i < RANKS; i++) {
        said[i] = sum_of(i, "");
        said[i].shape = TS_SHAPE(i);
        said[i].count = i;
    }
    ts_word_verdict(text, sizeof text, said, said ? RANKS : 0);
    TS_EXPECT_TEXT(text, "on the size: ranks {0} call");
    TS_EXPECT_TEXT(text, "with equal dtypes and sizes");
    free(said);
}

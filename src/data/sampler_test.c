/* SPDX-License-Identifier: Apache-2.0 */
#include "golden.h"
#include "test.h"

TS_TEST(sampler_takes_the_indices_that_pytorch_takes)
{
    ts_tensor_list *golden;
    TS_PASS(ts_golden_read(&golden, "tests/golden/sampler.bin"));
    ts_tensor *table = ts_golden_get(golden, "rows"), *list = ts_golden_get(golden, "indices");
    TS_EXPECT(table && list);
    const int16_t *row = ts_data(table);
    const uint8_t *expected = ts_data(list), *end = expected + ts_numel(list);
    ts_sampler_options opt = TS_SAMPLER_OPTIONS_INIT;
    opt.shuffle = false;
    for (int64_t r = 0; r < ts_size(table, 0); r++, row += 5) {
        ts_sampler *s;
        opt.drop_last = row[3] != 0;
        TS_PASS(ts_sampler_new(&s, row[0], row[1], row[2], &opt));
        TS_EXPECT_INT(ts_sampler_length(s), row[4]);
        for (int i = 0; i < row[4]; i++) TS_EXPECT_INT(ts_sampler_index(s, i), *expected++);
        ts_sampler_free(s);
    }
    TS_EXPECT(expected == end);
    ts_tensor_list_free(golden);
}

TS_TEST(sampler_flags_padding)
{
    ts_sampler_options opt = TS_SAMPLER_OPTIONS_INIT;
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        int real = 0, padding = 0;
        opt.shuffle = shuffle;
        for (int rank = 0; rank < 4; rank++) {
            ts_sampler *s;
            TS_PASS(ts_sampler_new(&s, 10, 4, rank, &opt));
            TS_EXPECT_INT(ts_sampler_length(s), 3);
            for (int i = 0; i < 3; i++) *(ts_sampler_is_padding(s, i) ? &padding : &real) += 1;
            TS_EXPECT(ts_sampler_is_padding(s, 2) == (rank >= 2));
            TS_EXPECT(!ts_sampler_is_padding(s, 3));
            TS_EXPECT_INT(ts_sampler_index(s, 3), -1);
            TS_EXPECT_INT(ts_sampler_index(s, -1), -1);
            ts_sampler_free(s);
        }
        TS_EXPECT_INT(real, 10);
        TS_EXPECT_INT(padding, 2);
    }
}

TS_TEST(sampler_shuffles_by_seed_and_epoch)
{
    enum { SIZE = 101, RANKS = 3 };
    int seen[SIZE] = {0}, moved = 0;
    for (int rank = 0; rank < RANKS; rank++) {
        ts_sampler *a, *b;
        ts_sampler_options opt = TS_SAMPLER_OPTIONS_INIT;
        opt.seed = 5;
        TS_PASS(ts_sampler_new(&a, SIZE, RANKS, rank, &opt));
        opt.seed = 3;
        TS_PASS(ts_sampler_new(&b, SIZE, RANKS, rank, &opt));
        int64_t before[SIZE];
        for (int i = 0; i < ts_sampler_length(b); i++) before[i] = ts_sampler_index(b, i);
        TS_PASS(ts_sampler_set_epoch(b, 2)); /* seed 3 + epoch 2 is seed 5 + epoch 0 */
        for (int i = 0; i < ts_sampler_length(a); i++) {
            TS_EXPECT_INT(ts_sampler_index(a, i), ts_sampler_index(b, i));
            moved += ts_sampler_index(b, i) != before[i];
            if (!ts_sampler_is_padding(a, i)) seen[ts_sampler_index(a, i)]++;
        }
        ts_sampler_free(a);
        ts_sampler_free(b);
    }
    for (int i = 0; i < SIZE; i++) TS_EXPECT_INT(seen[i], 1);
    TS_EXPECT(moved > SIZE / 2);
}

TS_TEST(sampler_refuses_wrong_arguments)
{
    ts_sampler *s = NULL;
    ts_sampler_options bare = {0};
    TS_FAIL(ts_sampler_new(&s, -1, 1, 0, NULL), TS_EINVAL, "-1 samples");
    TS_FAIL(ts_sampler_new(&s, 4, 0, 0, NULL), TS_EINVAL, "0 replicas");
    TS_FAIL(ts_sampler_new(&s, 4, 2, 2, NULL), TS_EINVAL, "rank 2 is not in 0 .. 1");
    TS_FAIL(ts_sampler_new(&s, 4, 2, -1, NULL), TS_EINVAL, "rank -1");
    TS_FAIL(ts_sampler_new(&s, 4, 2, 0, &bare), TS_EINVAL, "not initialised");
    TS_FAIL(ts_sampler_set_epoch(NULL, 1), TS_EINVAL, "missing");
    TS_EXPECT(s == NULL);
}

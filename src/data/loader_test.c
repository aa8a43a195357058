/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "test.h"

/* Sample i is the number i and (i, 2 i); some fail; some are slow, so that workers finish in disorder. */
typedef struct squares {
    int64_t fails_at;
    bool slow;
    _Atomic int calls;
} squares;

static ts_status get_square(ts_tensor **sample, const ts_sample_id *id, void *state)
{
    squares *s = state;
    s->calls++;
    if (s->slow) usleep((useconds_t)(id->seed % 3000));
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_INT64;
    sample[0] = id->index == s->fails_at ? ts_zeros(TS_SHAPE(-1), &opt)
                                         : ts_scalar((double)id->index, &opt);
    sample[1] = ts_full(TS_SHAPE(2), (double)(id->seed % 1000), NULL);
    return TS_OK;
}

static const ts_dataset_class square_class = {.name = "squares", .fields = 2, .get = get_square};

/* The numbers of an epoch, or of what is left of it. */
static int64_t read_epoch(ts_test *test, int64_t *to, double *seeds, ts_loader *l)
{
    int64_t count = 0;
    for (bool more = true; more;) {
        ts_scope scope = ts_scope_begin();
        ts_tensor *batch[TS_SAMPLE_FIELDS];
        ts_status status = ts_loader_next(batch, &more, l);
        if (status != TS_OK) ts_test_fail(test, __FILE__, __LINE__, "%s", ts_error_last());
        if (status != TS_OK) return -1;
        int64_t n = more ? ts_size(batch[0], 0) : 0;
        if (n) (void)ts_copy_out(batch[0], to + count, (size_t)n * sizeof *to);
        for (int64_t i = 0; seeds && i < n; i++)
            seeds[count + i] = ((const float *)ts_data(batch[1]))[2 * i];
        count += n;
        ts_scope_end(scope);
    }
    return count;
}

/* The order, the samples and their seeds are those of one thread, for any number of workers. */
TS_TEST(loader_gives_the_same_batches_with_any_workers, .timeout_s = 60)
{
    int64_t expected[3][37], got[37];
    double expected_seed[3][37], seed[37];
    for (int workers = 0; workers <= 4; workers += 2) {
        squares state = {.fails_at = -1, .slow = workers > 0};
        ts_dataset *data;
        ts_loader *l;
        ts_loader_options opt = TS_LOADER_OPTIONS_INIT;
        opt.batch_size = 5;
        opt.shuffle = true;
        opt.seed = 7;
        opt.num_workers = workers;
        TS_PASS(ts_dataset_new(&data, &square_class, 37, &state));
        TS_PASS(ts_loader_new(&l, data, &opt));
        TS_EXPECT_INT(ts_loader_length(l), 8);
        for (int epoch = 0; epoch < 3; epoch++) {
            int64_t *to = workers ? got : expected[epoch];
            double *seeds = workers ? seed : expected_seed[epoch];
            TS_EXPECT_INT(read_epoch(test, to, seeds, l), 37);
            TS_EXPECT(memcmp(to, expected[epoch], sizeof got) == 0);
            TS_EXPECT(memcmp(seeds, expected_seed[epoch], sizeof seed) == 0);
        }
        TS_EXPECT(memcmp(expected[0], expected[1], sizeof got) != 0);
        ts_loader_free(l);
        ts_dataset_free(data);
    }
}

/* Stopped anywhere, with batches under way, and continued elsewhere. */
TS_TEST(loader_goes_on_where_it_was)
{
    for (int stop = 0; stop <= 4; stop++) {
        squares state = {.fails_at = -1};
        int64_t whole[20], rest[20];
        ts_tensor *batch[2];
        bool more;
        ts_dataset *data;
        ts_loader *l, *other;
        ts_loader_options opt = TS_LOADER_OPTIONS_INIT;
        opt.batch_size = 5, opt.shuffle = true, opt.seed = 3, opt.num_workers = 2;
        TS_PASS(ts_dataset_new(&data, &square_class, 20, &state));
        TS_PASS(ts_loader_new(&l, data, &opt));
        TS_EXPECT_INT(read_epoch(test, whole, NULL, l), 20); /* epoch 0 */
        for (int b = 0; b < stop; b++) TS_PASS(ts_loader_next(batch, &more, l));
        ts_loader_state at = ts_loader_state_of(l);
        TS_EXPECT(at.epoch == 1 && at.taken == 5 * stop && at.seed == 3);
        int64_t left = read_epoch(test, whole, NULL, l);
        TS_EXPECT_INT(left, 20 - 5 * stop);
        opt.batch_size = 3, opt.num_workers = 0, opt.seed = 99;
        TS_PASS(ts_loader_new(&other, data, &opt));
        TS_PASS(ts_loader_set_state(other, at));
        TS_EXPECT_INT(read_epoch(test, rest, NULL, other), left);
        TS_EXPECT(memcmp(rest, whole, (size_t)left * sizeof *rest) == 0);
        TS_FAIL(ts_loader_set_state(other, (ts_loader_state){-1, 0, 0}), TS_EINVAL, "epoch -1");
        ts_loader_free(l);
        ts_loader_free(other);
        ts_dataset_free(data);
    }
}

/* Three ranks stop after two steps; two ranks go on: nobody's sample is lost or read twice. */
TS_TEST(loader_goes_on_with_another_number_of_ranks)
{
    squares state = {.fails_at = -1};
    int seen[60] = {0};
    int64_t part[60];
    ts_dataset *data;
    ts_loader_state at = {0};
    ts_loader_options opt = TS_LOADER_OPTIONS_INIT;
    opt.batch_size = 4, opt.shuffle = true, opt.num_replicas = 3;
    TS_PASS(ts_dataset_new(&data, &square_class, 60, &state));
    for (opt.rank = 0; opt.rank < 3; opt.rank++) {
        ts_tensor *batch[2];
        bool more;
        ts_loader *l;
        TS_PASS(ts_loader_new(&l, data, &opt));
        for (int b = 0; b < 2; b++) {
            TS_PASS(ts_loader_next(batch, &more, l));
            TS_PASS(ts_copy_out(batch[0], part, 4 * sizeof *part));
            for (int i = 0; i < 4; i++) seen[part[i]]++;
        }
        at = ts_loader_state_of(l);
        ts_loader_free(l);
    }
    TS_EXPECT_INT(at.taken, 24);
    opt.num_replicas = 2;
    for (opt.rank = 0; opt.rank < 2; opt.rank++) {
        ts_loader *l;
        TS_PASS(ts_loader_new(&l, data, &opt));
        TS_PASS(ts_loader_set_state(l, at));
        int64_t n = read_epoch(test, part, NULL, l);
        TS_EXPECT_INT(n, 18);
        for (int64_t i = 0; i < n; i++) seen[part[i]]++;
        ts_loader_free(l);
    }
    for (int i = 0; i < 60; i++) TS_EXPECT_INT(seen[i], 1);
    ts_dataset_free(data);
}

TS_TEST(loader_reports_a_bad_sample_in_its_place)
{
    for (int workers = 0; workers < 3; workers++) {
        squares state = {.fails_at = 7};
        ts_tensor *batch[2];
        bool more;
        ts_dataset *data;
        ts_loader *l;
        ts_loader_options opt = TS_LOADER_OPTIONS_INIT;
        opt.batch_size = 4, opt.num_workers = workers, opt.drop_last = true;
        TS_PASS(ts_dataset_new(&data, &square_class, 15, &state));
        TS_PASS(ts_loader_new(&l, data, &opt));
        TS_PASS(ts_loader_next(batch, &more, l));
        TS_FAIL(ts_loader_next(batch, &more, l), TS_ESHAPE, "-1");
        TS_PASS(ts_loader_next(batch, &more, l));
        TS_EXPECT(more);
        TS_EXPECT_VALUES(batch[0], 0, 8, 9, 10, 11);
        TS_PASS(ts_loader_next(batch, &more, l));
        TS_EXPECT(!more); /* 12, 13, 14 are dropped */
        ts_loader_free(l);
        ts_dataset_free(data);
    }
}

/* Workers fetch no more than their share ahead. */
TS_TEST(loader_fetches_ahead_within_bounds)
{
    squares state = {.fails_at = -1};
    ts_tensor *batch[2];
    bool more;
    ts_dataset *data;
    ts_loader *l;
    ts_loader_options opt = TS_LOADER_OPTIONS_INIT;
    opt.batch_size = 2, opt.num_workers = 2, opt.prefetch_factor = 3;
    TS_PASS(ts_dataset_new(&data, &square_class, 1000, &state));
    TS_PASS(ts_loader_new(&l, data, &opt));
    TS_PASS(ts_loader_next(batch, &more, l));
    for (int i = 0; i < 200 && state.calls < 2 * 7; i++) usleep(1000);
    usleep(20000);
    TS_EXPECT_INT(state.calls, 2 * 7); /* the batch taken, and six ahead */
    ts_loader_free(l);
    ts_dataset_free(data);
}

TS_TEST(tensor_datasets_give_rows)
{
    ts_tensor *x = ts_transpose(ts_reshape(ts_arange(0, 12, 1, NULL), TS_SHAPE(2, 6)), 0, 1);
    ts_tensor *batch[2];
    bool more;
    ts_dataset *data;
    ts_loader *l;
    ts_loader_options opt = TS_LOADER_OPTIONS_INIT;
    opt.batch_size = 4;
    TS_PASS(ts_tensor_dataset_new(&data, (ts_tensor *[]){x, ts_arange(0, 6, 1, NULL)}, 2));
    TS_PASS(ts_loader_new(&l, data, &opt));
    TS_PASS(ts_loader_next(batch, &more, l));
    TS_EXPECT_VALUES(batch[0], 0, 0, 6, 1, 7, 2, 8, 3, 9);
    TS_PASS(ts_loader_next(batch, &more, l));
    TS_EXPECT_VALUES(batch[1], 0, 4, 5);
    TS_PASS(ts_loader_next(batch, &more, l));
    TS_EXPECT(!more);
    ts_loader_free(l);
    ts_dataset_free(data);
    TS_FAIL(ts_tensor_dataset_new(&data, (ts_tensor *[]){x, ts_zeros(TS_SHAPE(5), NULL)}, 2),
            TS_ESHAPE, "tensor 1 has 5 rows, the first 6");
    TS_FAIL(ts_tensor_dataset_new(&data, (ts_tensor *[]){ts_scalar(1, NULL)}, 1), TS_ESHAPE,
            "no rows");
}

/* ---- streams --------------------------------------------------------------------------------- */

typedef struct counter {
    int64_t at, end;
} counter;

static ts_status next_number(ts_tensor **sample, bool *end, void *state)
{
    counter *c = state;
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_INT64;
    *end = c->at == c->end;
    if (!*end) sample[0] = ts_scalar((double)c->at++, &opt);
    return TS_OK;
}

static ts_status begin_numbers(int64_t epoch, void *state)
{
    ((counter *)state)->at = 100 * epoch;
    ((counter *)state)->end = 100 * epoch + 11;
    return TS_OK;
}

static const ts_dataset_class counter_class = {
    .name = "counter", .fields = 1, .next = next_number, .begin = begin_numbers};

TS_TEST(loader_reads_streams_in_order)
{
    for (int workers = 0; workers < 4; workers++) {
        counter state = {0};
        int64_t got[16];
        ts_tensor *batch[1];
        bool more;
        ts_dataset *data;
        ts_loader *l;
        ts_loader_options opt = TS_LOADER_OPTIONS_INIT;
        opt.batch_size = 2, opt.num_workers = workers, opt.num_replicas = 2, opt.rank = 1;
        TS_PASS(ts_dataset_new(&data, &counter_class, -1, &state));
        TS_PASS(ts_loader_new(&l, data, &opt));
        TS_EXPECT_INT(ts_loader_length(l), -1);
        for (int epoch = 0; epoch < 2; epoch++) {
            TS_EXPECT_INT(read_epoch(test, got, NULL, l), 5);
            for (int i = 0; i < 5; i++) TS_EXPECT_INT(got[i], 100 * epoch + 2 * i + 1);
        }
        TS_PASS(ts_loader_next(batch, &more, l));
        ts_loader_state at = ts_loader_state_of(l);
        TS_EXPECT(at.epoch == 2 && at.taken == 4);
        TS_PASS(ts_loader_set_state(l, at));
        TS_PASS(ts_loader_next(batch, &more, l));
        TS_EXPECT_VALUES(batch[0], 0, 205, 207);
        ts_loader_free(l);
        opt.shuffle = true;
        TS_FAIL(ts_loader_new(&l, data, &opt), TS_EINVAL, "cannot be shuffled");
        ts_dataset_free(data);
    }
}

TS_TEST(loader_says_what_is_wrong)
{
    squares state = {.fails_at = -1};
    ts_dataset *data;
    ts_loader *l;
    ts_loader_options opt = TS_LOADER_OPTIONS_INIT;
    ts_dataset_class both = square_class;
    both.next = next_number;
    TS_FAIL(ts_dataset_new(&data, &both, 3, NULL), TS_EINVAL, "either get or next");
    TS_FAIL(ts_dataset_new(&data, &square_class, -3, NULL), TS_EINVAL, "-3 samples");
    TS_PASS(ts_dataset_new(&data, &square_class, 3, &state));
    opt.batch_size = 0;
    TS_FAIL(ts_loader_new(&l, data, &opt), TS_EINVAL, "batch_size 0");
    opt.batch_size = 1, opt.rank = 1;
    TS_FAIL(ts_loader_new(&l, data, &opt), TS_EINVAL, "rank 1 of 1");
    TS_FAIL(ts_loader_new(&l, NULL, NULL), TS_EINVAL, "missing");
    ts_dataset_free(data);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Where gradients lie: buckets, their order, their dtypes. */
#include "test.h"

/* Parameters p0, p1, ...; the output is the sum of weight[i] x p[i] x, joined in the order given. */
typedef struct terms {
    ts_tensor *p[4];
    double weight[4];
    int n, order[4];
} terms;

static ts_tensor *terms_forward(ts_module *self, ts_tensor *x)
{
    const terms *m = ts_module_state(self);
    ts_tensor *sum = NULL;
    for (int i = 0; i < m->n; i++) {
        int k = m->order[i];
        ts_tensor *scaled = ts_mul_scalar(ts_to_dtype(x, ts_tensor_dtype(m->p[k])), m->weight[k]);
        ts_tensor *term = ts_to_dtype(ts_sum(ts_mul(m->p[k], scaled)), TS_FLOAT32);
        sum = sum ? ts_add(sum, term) : term;
    }
    return sum;
}

static const ts_module_class terms_class = {
    .name = "terms", .state_size = sizeof(terms), .forward = terms_forward};

static ts_module *terms_new(int n, const int64_t *sizes, const ts_dtype *dtypes)
{
    ts_module *self = ts_module_new(&terms_class);
    terms *m = ts_module_state(self);
    m->n = n;
    for (int i = 0; i < n; i++) {
        ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
        char name[3] = {'p', (char)('0' + i), '\0'};
        if (dtypes) opt.dtype = dtypes[i];
        m->p[i] = ts_module_add_parameter(self, name, ts_zeros(TS_SHAPE(sizes[i]), &opt));
        m->weight[i] = i + 1;
        m->order[i] = i;
    }
    return self;
}

static int num_buckets(ts_test *test, const int64_t *sizes, double cap_mb)
{
    ts_module *ddp;
    ts_ddp_stats stats = {.num_buckets = -1};
    ts_ddp_options opt = TS_DDP_OPTIONS_INIT;
    opt.bucket_cap_mb = cap_mb;
    if (ts_ddp_new(&ddp, terms_new(3, sizes, NULL), &opt) != TS_OK) return -2;
    if (ts_ddp_get_stats(&stats, ddp) != TS_OK) test->failures++;
    ts_module_free(ddp);
    return stats.num_buckets;
}

/* The last parameter comes first.  A bucket closes when it reaches its cap: 1 MiB for the first, 25
 * for the others; one cap for all if it is given. */
TS_TEST(ddp_bucket_caps_to_the_byte, .ranks = 1, .mode = TS_TEST_THREADS)
{
    enum { MIB = 262144 };
    TS_EXPECT_INT(num_buckets(test, (int64_t[]){1, 25 * MIB, MIB}, 0), 3);
    TS_EXPECT_INT(num_buckets(test, (int64_t[]){1, 25 * MIB - 1, MIB}, 0), 2);
    TS_EXPECT_INT(num_buckets(test, (int64_t[]){1, MIB, MIB - 1}, 0), 2);
    TS_EXPECT_INT(num_buckets(test, (int64_t[]){1, MIB, MIB}, 25), 1);
    TS_EXPECT_INT(num_buckets(test, (int64_t[]){1, 2, 2}, 8.5 / 1048576), 3); /* 8 bytes */
    TS_EXPECT_INT(num_buckets(test, (int64_t[]){1, 2, 2}, 9.0 / 1048576), 2);
}

TS_TEST(ddp_four_parameters_make_two_buckets, .ranks = 2)
{
    static const int64_t sizes[] = {2, 2, 2, 2};
    ts_module *ddp, *model = terms_new(4, sizes, NULL);
    const terms *m = ts_module_state(model);
    ts_ddp_options opt = TS_DDP_OPTIONS_INIT;
    ts_ddp_stats stats;
    opt.bucket_cap_mb = 16.0 / 1048576;
    TS_PASS(ts_ddp_new(&ddp, model, &opt));
    for (int step = 0; step < 3; step++) {
        TS_PASS(ts_backward(ts_forward(ddp, ts_full(TS_SHAPE(2), test->rank, NULL))));
        TS_PASS(ts_ddp_get_stats(&stats, ddp));
        TS_EXPECT_INT(stats.num_buckets, 2);
        TS_EXPECT(ts_same_storage(ts_grad(m->p[0]), ts_grad(m->p[1])));
        TS_EXPECT(ts_same_storage(ts_grad(m->p[2]), ts_grad(m->p[3])));
        TS_EXPECT(!ts_same_storage(ts_grad(m->p[1]), ts_grad(m->p[2])));
        for (int i = 0; i < 4; i++) TS_EXPECT_ALL(ts_grad(m->p[i]), (i + 1) * 0.5);
        ts_module_zero_grad(ddp);
    }
    ts_module_free(ddp);
}

/* Gradients become ready in another order on each rank: buckets still start in one order, and after
 * the first step rank 0's order holds on all. */
TS_TEST(ddp_ranks_with_other_orders_stay_in_step, .ranks = 3)
{
    static const int64_t sizes[] = {2, 2, 2, 2};
    ts_module *ddp, *model = terms_new(4, sizes, NULL);
    terms *m = ts_module_state(model);
    ts_ddp_options opt = TS_DDP_OPTIONS_INIT;
    for (int i = 0; i < 4; i++) m->order[i] = (test->rank == 2 ? 4 - i : i + test->rank) % 4;
    opt.bucket_cap_mb = 8.0 / 1048576; /* a bucket each */
    TS_PASS(ts_ddp_new(&ddp, model, &opt));
    for (int step = 0; step < 4; step++) {
        TS_PASS(ts_backward(ts_forward(ddp, ts_full(TS_SHAPE(2), test->rank, NULL))));
        for (int i = 0; i < 4; i++) TS_EXPECT_ALL(ts_grad(m->p[i]), i + 1);
        ts_module_zero_grad(ddp);
    }
    ts_module_free(ddp);
}

TS_TEST(ddp_keeps_dtypes_apart, .ranks = 2)
{
    static const int64_t sizes[] = {2, 2, 2, 2};
    static const ts_dtype dtypes[] = {TS_FLOAT32, TS_BFLOAT16, TS_FLOAT32, TS_FLOAT64};
    ts_module *ddp, *model = terms_new(4, sizes, dtypes);
    const terms *m = ts_module_state(model);
    ts_ddp_stats stats;
    TS_PASS(ts_ddp_new(&ddp, model, NULL));
    for (int step = 0; step < 3; step++) {
        TS_PASS(ts_backward(ts_forward(ddp, ts_full(TS_SHAPE(2), test->rank, NULL))));
        TS_PASS(ts_ddp_get_stats(&stats, ddp));
        TS_EXPECT_INT(stats.num_buckets, 3);
        TS_EXPECT_INT(stats.bucket_bytes_total, 2 * (4 + 2 + 4 + 8));
        for (int i = 0; i < 4; i++) {
            TS_EXPECT_INT(ts_tensor_dtype(ts_grad(m->p[i])), dtypes[i]);
            TS_EXPECT_ALL(ts_grad(m->p[i]), (i + 1) * 0.5);
        }
        ts_module_zero_grad(ddp);
    }
    ts_module_free(ddp);
}

static int64_t gradient_bytes(void)
{
    ts_memory_stats stats;
    ts_memory_read(&stats);
    return stats.current[TS_CATEGORY_GRADIENT];
}

/* There is no second copy of the gradients, before or after the buckets are rebuilt; a gradient that
 * was dropped comes back into its bucket, one that was zeroed stays there. */
TS_TEST(ddp_gradients_exist_once, .ranks = 2)
{
    ts_module *ddp, *model = terms_new(2, (const int64_t[]){100, 100}, NULL);
    const terms *m = ts_module_state(model);
    TS_PASS(ts_ddp_new(&ddp, model, NULL));
    ts_tensor *x = ts_full(TS_SHAPE(100), test->rank, NULL);
    const void *where = NULL;
    for (int step = 0; step < 5; step++) {
        TS_PASS(ts_backward(ts_forward(ddp, x)));
        TS_EXPECT_INT(gradient_bytes(), 800);
        TS_EXPECT(ts_same_storage(ts_grad(m->p[0]), ts_grad(m->p[1])));
        TS_EXPECT_ALL(ts_grad(m->p[0]), 0.5);
        TS_EXPECT_ALL(ts_grad(m->p[1]), 1.0);
        if (step > 1) TS_EXPECT(ts_data(ts_grad(m->p[0])) == where);
        where = ts_data(ts_grad(m->p[0]));
        bool former = ts_no_grad_begin();
        ts_zero_(ts_grad(m->p[0]));
        ts_no_grad_end(former);
        TS_PASS(ts_set_grad(m->p[1], NULL));
    }
    ts_module_free(ddp);
}

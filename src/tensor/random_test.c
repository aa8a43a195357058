/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/random.h"

#include <stdlib.h>
#include <tessera/threads.h>

#include "kernels/isa.h"
#include "kernels/philox_impl.h"
#include "tensor/tensor.h"
#include "test.h"

TS_TEST(philox_known_answers)
{
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } known[] = {
        {{0}, {0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t out[4];
        ts_philox4x32(out, known[i].counter, known[i].key);
        TS_EXPECT(memcmp(out, known[i].out, sizeof out) == 0);
    }
    uint32_t words[1000], piece[300];
    ts_kernel_random_words(words, 1000, 0, 0, 0);
    TS_EXPECT(memcmp(words, known[0].out, 16) == 0);
    for (uint64_t first = 0; first < 9; first++) {
        ts_kernel_random_words(piece, 300, 0, first, 0);
        TS_EXPECT(memcmp(piece, words + first, sizeof piece) == 0);
    }
}

TS_TEST(philox_avx2_gives_the_words_of_the_plain_loop)
{
    if (ts_isa_best() < TS_ISA_AVX2) ts_test_skip(test, "no AVX2 here");
#if defined(__x86_64__)
    uint32_t plain[4 * TS_PHILOX_BATCH], fast[4 * TS_PHILOX_BATCH];
    for (uint64_t i = 0; i < 64; i++) {
        uint64_t seed = i * UINT64_C(0x9E3779B97F4A7C15), first = seed ^ seed >> 7;
        if (i % 4 == 0) first = (i << 32) - 5; /* the block number passes 32 bits in the batch */
        ts_philox_batch_ref(plain, seed, first, (uint32_t)i);
        ts_philox_batch_avx2(fast, seed, first, (uint32_t)i);
        TS_EXPECT(memcmp(plain, fast, sizeof plain) == 0);
    }
#endif
}

TS_TEST(random_block_number_uses_64_bits)
{
    uint32_t words[300], again[4], counter[4] = {1, 1, 2, 0}, key[2] = {7, 9};
    ts_kernel_random_words(words, 300, UINT64_C(9) << 32 | 7, UINT64_C(0xFFFFFFFE) * 4, 2);
    ts_philox4x32(again, counter, key);
    TS_EXPECT(memcmp(words + 12, again, sizeof again) == 0);
}

/* Any piece of a sequence equals that part of the whole. */
TS_TEST(random_numbers_depend_on_their_index_only)
{
    enum { N = 700 };
    float uniform[N], normal[N], f32[N];
    double wide[N], normal64[N], f64[N];
    ts_kernel_uniform_f32(uniform, N, 5, 100);
    ts_kernel_uniform_f64(wide, N, 5, 100);
    ts_kernel_normal_f32(normal, N, 5, 100);
    ts_kernel_normal_f64(normal64, N, 5, 100);
    for (int begin = 0; begin < 7; begin++) {
        int n = N - 10 * begin - begin;
        ts_kernel_uniform_f32(f32, n, 5, 100 + (uint64_t)begin);
        TS_EXPECT(memcmp(f32, uniform + begin, (size_t)n * 4) == 0);
        ts_kernel_normal_f32(f32, n, 5, 100 + (uint64_t)begin);
        TS_EXPECT(memcmp(f32, normal + begin, (size_t)n * 4) == 0);
        ts_kernel_normal_f64(f64, n, 5, 100 + (uint64_t)begin);
        TS_EXPECT(memcmp(f64, normal64 + begin, (size_t)n * 8) == 0);
    }
    for (int i = 0; i < N; i++) TS_EXPECT_NEAR(uniform[i], wide[i], 0x1p-24);
    TS_EXPECT_NEAR(ts_random_uniform((ts_generator_state){5, 100}, 33), uniform[33], 0);
}

static void moments(const float *x, int n, double *mean, double *variance, double *kurtosis)
{
    double m = 0, v = 0, k = 0;
    for (int i = 0; i < n; i++) m += x[i];
    m /= n;
    for (int i = 0; i < n; i++) v += (x[i] - m) * (x[i] - m);
    v /= n;
    for (int i = 0; i < n; i++) k += pow(x[i] - m, 4);
    *mean = m;
    *variance = v;
    *kurtosis = k / n / (v * v);
}

TS_TEST(random_distributions_have_their_moments)
{
    enum { N = 200000 };
    double mean, variance, kurtosis;
    ts_tensor *u = ts_rand(TS_SHAPE(N), NULL), *z = ts_randn(TS_SHAPE(N), NULL);
    moments(ts_data(u), N, &mean, &variance, &kurtosis);
    TS_EXPECT_NEAR(mean, 0.5, 0.004);
    TS_EXPECT_NEAR(variance, 1.0 / 12, 0.002);
    moments(ts_data(z), N, &mean, &variance, &kurtosis);
    TS_EXPECT_NEAR(mean, 0, 0.012);
    TS_EXPECT_NEAR(variance, 1, 0.02);
    TS_EXPECT_NEAR(kurtosis, 3, 0.1);
}

TS_TEST(random_fills_follow_the_generator)
{
    ts_manual_seed(42);
    ts_tensor *a = ts_rand(TS_SHAPE(5), NULL);
    ts_generator_state after = ts_generator_get_state();
    TS_EXPECT_INT(after.seed, 42);
    TS_EXPECT_INT(after.offset, 8);
    ts_tensor *b = ts_rand(TS_SHAPE(5), NULL);
    TS_EXPECT(memcmp(ts_data(a), ts_data(b), 20) != 0);
    ts_generator_set_state((ts_generator_state){42, 0});
    ts_tensor *c = ts_rand(TS_SHAPE(5), NULL);
    TS_EXPECT(memcmp(ts_data(a), ts_data(c), 20) == 0);
    ts_rand(TS_SHAPE(0), NULL);
    TS_EXPECT_INT(ts_generator_get_state().offset, 8);
}

TS_TEST(random_fills_do_not_depend_on_threads_strides_or_width)
{
    enum { ROWS = 300, COLS = 311 };
    float plain[ROWS * COLS], turned[ROWS * COLS];
    TS_PASS(ts_set_num_threads(1));
    ts_manual_seed(1);
    TS_PASS(ts_copy_out(ts_randn(TS_SHAPE(ROWS, COLS), NULL), plain, sizeof plain));
    TS_PASS(ts_set_num_threads(4));
    ts_manual_seed(1);
    ts_tensor *t = ts_zeros(TS_SHAPE(COLS, 2 * ROWS), NULL);
    ts_tensor *view = ts_tensor_view(t, TS_SHAPE(ROWS, COLS), (const int64_t[]){2, 2 * ROWS}, 1);
    TS_GOOD(ts_normal_(view, 0, 1));
    TS_PASS(ts_copy_out(view, turned, sizeof turned));
    TS_EXPECT(memcmp(plain, turned, sizeof plain) == 0);
    for (int i = 0; i < 2 * ROWS; i += 2) TS_EXPECT_NEAR(((const float *)ts_data(t))[i], 0, 0);

    ts_tensor_options half = TS_TENSOR_OPTIONS_INIT;
    half.dtype = TS_BFLOAT16;
    ts_manual_seed(1);
    ts_tensor *narrow = ts_randn(TS_SHAPE(ROWS, COLS), &half);
    ts_tensor *wide = ts_empty(TS_SHAPE(ROWS, COLS), NULL);
    TS_PASS(ts_tensor_copy_data(wide, narrow));
    for (int i = 0; i < ROWS * COLS; i++)
        TS_EXPECT_NEAR(((const float *)ts_data(wide))[i], plain[i], fabs(plain[i]) / 256);
}

TS_TEST(uniform_stays_below_its_end_in_every_dtype)
{
    static const ts_dtype dtypes[] = {TS_FLOAT32, TS_FLOAT64, TS_FLOAT16, TS_BFLOAT16};
    static const double ends[][2] = {{0, 1}, {-3, 0.1}, {2, 3}, {-1, 0}, {0, 1e-6}};
    for (size_t d = 0; d < 4; d++)
        for (size_t e = 0; e < 5; e++) {
            ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
            opt.dtype = dtypes[d];
            ts_tensor *t = ts_uniform_(ts_empty(TS_SHAPE(20000), &opt), ends[e][0], ends[e][1]);
            TS_GOOD(t);
            double value[20000];
            opt.dtype = TS_FLOAT64;
            ts_tensor *wide = ts_wrap(value, TS_SHAPE(20000), &opt, NULL, NULL);
            TS_PASS(ts_tensor_copy_data(wide, t));
            double slack = fabs(ends[e][0]) / 128;
            for (int i = 0; i < 20000; i++)
                TS_EXPECT(value[i] >= ends[e][0] - slack && value[i] < ends[e][1]);
        }
}

TS_TEST(randint_covers_its_range)
{
    int64_t seen[3] = {0};
    ts_tensor *t = ts_randint(-1, 2, TS_SHAPE(3000), NULL);
    TS_GOOD(t);
    const int64_t *value = ts_data(t);
    for (int i = 0; i < 3000; i++) {
        TS_EXPECT(value[i] >= -1 && value[i] < 2);
        seen[value[i] + 1]++;
    }
    for (int i = 0; i < 3; i++) TS_EXPECT_NEAR((double)seen[i], 1000, 150);
    TS_GOOD(ts_randint(INT64_MIN, INT64_MAX, TS_SHAPE(8), NULL));
    ts_tensor_options u8 = TS_TENSOR_OPTIONS_INIT;
    u8.dtype = TS_UINT8;
    TS_GOOD(ts_randint(0, 256, TS_SHAPE(8), &u8));
    TS_BAD(ts_randint(0, 257, TS_SHAPE(8), &u8), TS_EDTYPE, "uint8");
    TS_BAD(ts_randint(4, 4, TS_SHAPE(8), NULL), TS_EINVAL, "no number");
}

TS_TEST(random_fills_refuse_wrong_tensors)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_INT64;
    TS_BAD(ts_uniform_(ts_zeros(TS_SHAPE(2), &opt), 0, 1), TS_EDTYPE, "int64");
    opt.dtype = TS_FLOAT32;
    opt.requires_grad = true;
    TS_GOOD(ts_randn(TS_SHAPE(2), &opt));
    TS_BAD(ts_normal_(ts_zeros(TS_SHAPE(2), &opt), 0, 1), TS_ESTATE, "no_grad");
    TS_BAD(ts_normal_(ts_zeros(TS_SHAPE(2), NULL), 0, -1), TS_EINVAL, "negative");
    TS_BAD(ts_uniform_(ts_zeros(TS_SHAPE(2), NULL), 1, 0), TS_EINVAL, "not a range");
    ts_tensor *wide = ts_tensor_view(ts_zeros(TS_SHAPE(1), NULL), TS_SHAPE(4), (int64_t[]){0}, 0);
    TS_BAD(ts_uniform_(wide, 0, 1), TS_ESTATE, "share memory");
    TS_BAD(ts_uniform_(NULL, 0, 1), TS_EINVAL, "missing");
    ts_tensor *failed = ts_zeros(TS_SHAPE(-1), NULL);
    TS_EXPECT(ts_uniform_(failed, 0, 1) == failed);
}

TS_TEST(permutation_is_complete_and_repeatable)
{
    int64_t a[2000], b[2000];
    bool seen[2000] = {false};
    TS_PASS(ts_permutation(a, 2000, 3));
    TS_PASS(ts_permutation(b, 2000, 3));
    TS_EXPECT(memcmp(a, b, sizeof a) == 0);
    int fixed = 0;
    for (int i = 0; i < 2000; i++) {
        TS_EXPECT(a[i] >= 0 && a[i] < 2000 && !seen[a[i]]);
        seen[a[i]] = true;
        fixed += a[i] == i;
    }
    TS_EXPECT(fixed < 10);
    TS_PASS(ts_permutation(b, 2000, 4));
    TS_EXPECT(memcmp(a, b, sizeof a) != 0);
    int count[6] = {0}; /* all orders of three are about equally likely */
    for (uint64_t seed = 0; seed < 6000; seed++) {
        TS_PASS(ts_permutation(a, 3, seed));
        count[a[0] * 2 + (a[1] > a[2])]++;
    }
    for (int i = 0; i < 6; i++) TS_EXPECT_NEAR(count[i], 1000, 150);
    TS_PASS(ts_permutation(NULL, 0, 0));
    TS_FAIL(ts_permutation(NULL, 2, 0), TS_EINVAL, "permutation");
}

TS_TEST(random_permutations_are_tensors)
{
    enum { N = 1000 };
    ts_manual_seed(5);
    ts_tensor *a = ts_randperm(N, NULL), *b = ts_randperm(N, NULL);
    ts_manual_seed(5);
    TS_EXPECT_EQUAL(ts_randperm(N, NULL), a);
    TS_EXPECT(memcmp(ts_data(a), ts_data(b), N * sizeof(int64_t)) != 0);
    bool seen[N] = {false};
    for (int i = 0; i < N; i++) seen[((const int64_t *)ts_data(a))[i]] = true;
    for (int i = 0; i < N; i++) TS_EXPECT(seen[i]);
    TS_EXPECT_INT(ts_numel(ts_randperm(0, NULL)), 0);
    TS_BAD(ts_randperm(-1, NULL), TS_ESHAPE, "n is -1");
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_UINT8;
    TS_GOOD(ts_randperm(256, &opt));
    TS_BAD(ts_randperm(257, &opt), TS_EDTYPE, "uint8 does not hold");
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <pthread.h>
#include <stdlib.h>

#include "kernels/gemm.h"
#include <tessera/threads.h>

static double at(ts_dtype dtype, const void *data, int64_t i)
{
    return dtype == TS_FLOAT64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

/* count small numbers that are exact in float32. */
static void *numbers(ts_dtype dtype, int64_t count, int seed)
{
    void *data = calloc((size_t)count + 1, 8);
    for (int64_t i = 0; data && i < count; i++) {
        double x = (double)((i * 7 + seed * 13 + i * i % 11) % 17 - 8) / 8;
        if (dtype == TS_FLOAT64)
            ((double *)data)[i] = x;
        else
            ((float *)data)[i] = (float)x;
    }
    return data;
}

/* Largest difference of call's result from the plain sum in double; c held before. */
static double error_of(const ts_gemm_call *call, const void *before)
{
    double most = 0;
    for (int64_t i = 0; i < call->m; i++)
        for (int64_t j = 0; j < call->n; j++) {
            double sum = call->add    ? at(call->dtype, before, i * call->ldc + j)
                         : call->bias ? at(call->dtype, call->bias, j)
                                      : 0;
            for (int64_t q = 0; q < call->k; q++)
                sum += at(call->dtype, call->a.data, i * call->a.row + q * call->a.col) *
                       at(call->dtype, call->b.data, q * call->b.row + j * call->b.col);
            most = fmax(most, fabs(at(call->dtype, call->c, i * call->ldc + j) - sum));
        }
    return most;
}

static const int64_t sizes[][3] = {{1, 1, 1},   {3, 5, 7},   {8, 32, 16},  {9, 33, 20},
                                   {17, 70, 3}, {25, 16, 0}, {13, 100, 41}};
enum { NUM_SIZES = sizeof sizes / sizeof *sizes };

/* small: with b as it lies, and with b in panels as pack_b makes them. */
static double small_error(const ts_gemm_kernels *kernels, ts_gemm_call call, const void *before,
                          bool panels)
{
    int64_t nr = kernels->nr, esize = call.dtype == TS_FLOAT64 ? 8 : 4;
    memcpy(call.c, before, (size_t)(call.m * call.ldc * esize));
    if (!panels) {
        kernels->small(call.m, call.n, call.k, &call.a, &call.b, call.c, call.ldc, call.add);
        return error_of(&call, before);
    }
    char *packed = calloc((size_t)((call.n + nr) * call.k) + 1, 8);
    kernels->pack_b(packed, &call.b, call.k, call.n);
    for (int64_t j = 0; j < call.n; j += nr) {
        ts_matrix panel = {packed + j * call.k * esize, nr, 1};
        kernels->small(call.m, call.n - j < nr ? call.n - j : nr, call.k, &call.a, &panel,
                       (char *)call.c + j * esize, call.ldc, call.add);
    }
    free(packed);
    return error_of(&call, before);
}

TS_TEST(gemm_small_equals_plain_sums_for_every_layout)
{
    for (int variant = 0; variant < TS_NUM_ISAS * 2 * NUM_SIZES * 8; variant++) {
        int layout = variant % 8, size = variant / 8 % NUM_SIZES;
        ts_dtype dtype = (ts_dtype)(variant / 8 / NUM_SIZES % 2);
        ts_isa isa = (ts_isa)(variant / 8 / NUM_SIZES / 2);
        const ts_gemm_kernels *kernels = ts_gemm_kernels_of(dtype, isa);
        if (!kernels) continue;
        int64_t m = sizes[size][0], n = sizes[size][1], k = sizes[size][2];
        ts_gemm_call call = {.dtype = dtype, .m = m, .n = n, .k = k, .ldc = n + 3};
        void *a = numbers(dtype, m * k * 2, 1), *b = numbers(dtype, k * n * 2, 2);
        void *c = numbers(dtype, m * call.ldc, 3), *before = numbers(dtype, m * call.ldc, 3);
        call.a = layout & 1 ? (ts_matrix){a, 1, m} : (ts_matrix){a, 2 * k, 2};
        call.b = layout & 2 ? (ts_matrix){b, 1, k} : (ts_matrix){b, n, 1};
        call.c = c;
        call.add = layout & 4;
        double in_panels = small_error(kernels, call, before, true);
        double as_it_lies = layout & 2 ? 0 : small_error(kernels, call, before, false);
        bool untouched = at(dtype, c, n) == at(dtype, before, n);
        free(a), free(b), free(c), free(before);
        TS_EXPECT(untouched);
        TS_EXPECT_NEAR(in_panels, 0, 0); /* these sums are exact */
        TS_EXPECT_NEAR(as_it_lies, 0, 0);
    }
}

static void *multiply(void *user)
{
    const ts_gemm_call *call = user;
    void *scratch = aligned_alloc(64, ts_gemm_scratch(call) + 64);
    ts_status status = scratch ? ts_gemm(call, scratch) : TS_ENOMEM;
    free(scratch);
    return status == TS_OK ? NULL : user;
}

TS_TEST(gemm_equals_plain_sums_for_every_layout)
{
    static const int64_t shapes[][3] = {
        {200, 40, 600}, {5, 1100, 300}, {300, 9, 0},   {0, 4, 4}, {1, 7, 5},
        {7, 1, 5},      {3, 4, 1},      {1200, 7, 30}, /* pieces of rows; above, of columns */
        {700, 9, 40}};
    for (int variant = 0; variant < 9 * 16; variant++) {
        int layout = variant % 16;
        ts_dtype dtype = layout & 8 ? TS_FLOAT64 : TS_FLOAT32;
        const int64_t *shape = shapes[variant / 16];
        int64_t m = shape[0], n = shape[1], k = shape[2];
        ts_gemm_call call = {.dtype = dtype, .m = m, .n = n, .k = k, .ldc = n + 2};
        void *a = numbers(dtype, m * k * 3, 1), *b = numbers(dtype, k * n * 3, 2);
        void *c = numbers(dtype, m * call.ldc, 3), *before = numbers(dtype, m * call.ldc, 3);
        void *bias = numbers(dtype, n, 4);
        const ts_matrix as[] = {{a, k, 1}, {a, 1, m}, {a, 3 * k, 3}, {a, 0, 1}};
        const ts_matrix bs[] = {{b, n, 1}, {b, 1, k}, {b, 1, 2 * k}, {b, n, 0}};
        call.a = as[layout % 4];
        call.b = bs[(layout / 2 + variant) % 4];
        call.c = c;
        call.add = layout & 4;
        call.bias = layout & 2 ? bias : NULL;
        bool good = multiply(&call) == NULL;
        double error = error_of(&call, before);
        free(a), free(b), free(c), free(before), free(bias);
        TS_EXPECT(good);
        TS_EXPECT_NEAR(error, 0, 0);
    }
}

enum { SIDE = 1030 }; /* three pieces */

/* Numbers whose sums round, so that another order of summation shows. */
static float *rough(int seed)
{
    float *data = malloc(sizeof(float) * SIDE * SIDE);
    for (int i = 0; data && i < SIDE * SIDE; i++) data[i] = sinf((float)(i * seed) * 0.37f);
    return data;
}

TS_TEST(gemm_bits_do_not_depend_on_threads)
{
    float *a = rough(1), *b = rough(3), *c[3];
    for (int threads = 1; threads <= 3; threads++) {
        c[threads - 1] = malloc(sizeof(float) * SIDE * SIDE);
        ts_set_num_threads(threads);
        ts_gemm_call call = {TS_FLOAT32,   SIDE,           SIDE, SIDE,  {a, SIDE, 1},
                             {b, SIDE, 1}, c[threads - 1], SIDE, false, NULL};
        multiply(&call);
    }
    bool same = !memcmp(c[0], c[1], sizeof(float) * SIDE * SIDE) &&
                !memcmp(c[0], c[2], sizeof(float) * SIDE * SIDE);
    free(a), free(b), free(c[0]), free(c[1]), free(c[2]);
    TS_EXPECT(same);
}

/* Many products of user's shape, each compared with the first: user if one differs, else NULL. */
static void *multiply_again_and_again(void *user)
{
    ts_gemm_call call = *(const ts_gemm_call *)user;
    size_t bytes = sizeof(float) * (size_t)(call.m * call.n);
    float *c = malloc(bytes);
    bool same = c != NULL;
    call.c = c;
    for (int round = 0; same && round < 2000000000 / (call.m * call.n * call.k) + 50; round++) {
        memset(c, 0xff, bytes);
        same = ts_gemm(&call, NULL) == TS_OK && !memcmp(c, ((const ts_gemm_call *)user)->c, bytes);
    }
    free(c);
    return same ? NULL : user;
}

TS_TEST(gemm_runs_in_four_threads_at_once, .timeout_s = 60)
{
    enum { THREADS = 4 };
    static const int64_t shapes[][3] = {{24, 16, 16}, {3, 5, 700}, {200, 130, 90}};
    float *a = rough(1), *b = rough(3), *c = malloc(sizeof(float) * SIDE * SIDE);
    bool same = true;
    for (int s = 0; s < 3; s++) {
        int64_t m = shapes[s][0], n = shapes[s][1], k = shapes[s][2];
        ts_gemm_call call = {TS_FLOAT32, m, n, k, {a, k, 1}, {b, 1, k}, c, n, false, NULL};
        pthread_t thread[THREADS];
        void *wrong;
        same = same && multiply(&call) == NULL;
        for (int i = 0; i < THREADS; i++)
            pthread_create(&thread[i], NULL, multiply_again_and_again, &call);
        for (int i = 0; i < THREADS; i++) {
            pthread_join(thread[i], &wrong);
            same = same && !wrong;
        }
    }
    free(a), free(b), free(c);
    TS_EXPECT(same);
}

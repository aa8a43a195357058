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

static void run_isa(const ts_gemm_kernels *kernels, const ts_gemm_call *call)
{
    int64_t m = call->m + kernels->mr, n = call->n + kernels->nr;
    void *a = calloc((size_t)(m * call->k) + 1, 8), *b = calloc((size_t)(n * call->k) + 1, 8);
    kernels->pack_a(a, &call->a, call->m, call->k);
    kernels->pack_b(b, &call->b, call->k, call->n);
    kernels->packed(call->m, call->n, call->k, a, b, call->c, call->ldc, call->add, call->bias);
    free(a);
    free(b);
}

static const int64_t sizes[][3] = {{1, 1, 1},   {3, 5, 7},   {8, 32, 16},  {9, 33, 20},
                                   {17, 70, 3}, {25, 16, 0}, {13, 100, 41}};
enum { NUM_SIZES = sizeof sizes / sizeof *sizes };

TS_TEST(gemm_tiles_equal_plain_sums_for_every_layout)
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
        void *bias = numbers(dtype, n, 4);
        call.a = layout & 1 ? (ts_matrix){a, 1, m} : (ts_matrix){a, 2 * k, 2};
        call.b = layout & 2 ? (ts_matrix){b, 1, k} : (ts_matrix){b, n, 1};
        call.c = c;
        call.add = layout & 4;
        call.bias = call.add ? NULL : bias;
        run_isa(kernels, &call);
        double error = error_of(&call, before);
        bool untouched = at(dtype, c, n) == at(dtype, before, n);
        double small_error = 0, unpacked_error = 0;
        if (!(layout & 1)) {
            call.a = (ts_matrix){a, k, 1};
            void *packed_b = calloc((size_t)((n + kernels->nr) * k) + 1, 8);
            kernels->pack_b(packed_b, &call.b, k, n);
            memcpy(c, before, (size_t)(m * call.ldc) * (dtype == TS_FLOAT64 ? 8 : 4));
            kernels->unpacked(m, n, k, &call.a, packed_b, c, call.ldc, call.add, call.bias);
            unpacked_error = error_of(&call, before);
            free(packed_b);
        }
        if (!(layout & 2)) {
            call.bias = NULL;
            memcpy(c, before, (size_t)(m * call.ldc) * (dtype == TS_FLOAT64 ? 8 : 4));
            kernels->small(m, n, k, &call.a, &call.b, c, call.ldc, call.add);
            small_error = error_of(&call, before);
        }
        free(a), free(b), free(c), free(before), free(bias);
        TS_EXPECT(untouched);
        TS_EXPECT_NEAR(error, 0, 0); /* these sums are exact */
        TS_EXPECT_NEAR(unpacked_error, 0, 0);
        TS_EXPECT_NEAR(small_error, 0, 0);
    }
}

static void *multiply(void *user)
{
    const ts_gemm_call *call = user;
    void *scratch = aligned_alloc(64, ts_gemm_scratch(call));
    if (scratch) ts_gemm(call, scratch);
    free(scratch);
    return NULL;
}

TS_TEST(gemm_blocks_equal_plain_sums)
{
    static const int64_t shapes[][3] = {{200, 40, 600}, {5, 1100, 300}, {300, 9, 0}, {0, 4, 4}};
    for (int i = 0; i < 4; i++) {
        ts_gemm_call call = {.dtype = TS_FLOAT64, .m = shapes[i][0], .n = shapes[i][1]};
        call.k = shapes[i][2];
        void *a = numbers(TS_FLOAT64, call.m * call.k, 1),
             *b = numbers(TS_FLOAT64, call.k * call.n, 2);
        void *c = numbers(TS_FLOAT64, call.m * call.n, 3), *bias = numbers(TS_FLOAT64, call.n, 4);
        call.a = (ts_matrix){a, call.k, 1};
        call.b = (ts_matrix){b, 1, call.k};
        call.c = c;
        call.ldc = call.n;
        call.bias = bias;
        multiply(&call);
        double error = error_of(&call, NULL);
        free(a), free(b), free(c), free(bias);
        TS_EXPECT_NEAR(error, 0, 0);
    }
}

enum { SIDE = 260 };

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

TS_TEST(gemm_runs_in_four_threads_at_once)
{
    enum { THREADS = 4 };
    float *a = rough(1), *b = rough(3), *c[THREADS];
    ts_gemm_call call[THREADS];
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++) {
        c[i] = malloc(sizeof(float) * SIDE * SIDE);
        call[i] = (ts_gemm_call){TS_FLOAT32,   SIDE, SIDE, SIDE,  {a, SIDE, 1},
                                 {b, SIDE, 1}, c[i], SIDE, false, NULL};
    }
    ts_set_num_threads(2);
    for (int i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, multiply, &call[i]);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    bool same = true;
    for (int i = 1; i < THREADS; i++)
        same = same && !memcmp(c[0], c[i], sizeof(float) * SIDE * SIDE);
    free(a), free(b);
    for (int i = 0; i < THREADS; i++) free(c[i]);
    TS_EXPECT(same);
}

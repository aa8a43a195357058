/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "kernels/combine.h"
#include "test.h"

/* Value i of rank r: small, exact in every dtype, so that sums and products are too. */
static double value_of(int rank, int64_t i) { return (double)((i * 7 + rank * 3) % 4 + 1); }

static ts_tensor *make(int rank, int64_t n, ts_dtype dtype, ts_memory memory)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.memory = memory;
    opt.dtype = TS_FLOAT64;
    ts_tensor *t = ts_empty(TS_SHAPE(n), &opt);
    double *data = ts_data_mut(t);
    for (int64_t i = 0; i < n; i++) data[i] = value_of(rank, i);
    opt.dtype = dtype;
    ts_tensor *out = ts_empty(TS_SHAPE(n), &opt);
    void *bytes = ts_data_mut(out);
    for (int64_t i = 0; i < n; i++) {
        double v = data[i];
        switch (dtype) {
        case TS_FLOAT32: ((float *)bytes)[i] = (float)v; break;
        case TS_FLOAT64: ((double *)bytes)[i] = v; break;
        case TS_INT32: ((int32_t *)bytes)[i] = (int32_t)v; break;
        case TS_INT64: ((int64_t *)bytes)[i] = (int64_t)v; break;
        case TS_UINT8: ((uint8_t *)bytes)[i] = (uint8_t)v; break;
        default: break;
        }
    }
    return out;
}

static double expected(int size, int64_t i, ts_reduce_op op)
{
    double sum = 0, product = 1, least = 100, most = -100;
    for (int r = 0; r < size; r++) {
        double v = value_of(r, i);
        sum += v;
        product *= v;
        least = v < least ? v : least;
        most = v > most ? v : most;
    }
    switch (op) {
    case TS_AVG: return sum / size;
    case TS_PRODUCT: return product;
    case TS_MIN: return least;
    case TS_MAX: return most;
    default: return sum;
    }
}

static bool check(ts_test *test, ts_tensor *t, ts_reduce_op op, double tolerance)
{
    int64_t n = ts_numel(t);
    double *data = calloc((size_t)n + 1, sizeof *data);
    bool good = true;
    for (int64_t i = 0; good && i < n; i++) {
        double v = 0;
        const void *bytes = ts_data(t);
        switch (ts_tensor_dtype(t)) {
        case TS_FLOAT32: v = ((const float *)bytes)[i]; break;
        case TS_FLOAT64: v = ((const double *)bytes)[i]; break;
        case TS_INT32: v = ((const int32_t *)bytes)[i]; break;
        case TS_INT64: v = (double)((const int64_t *)bytes)[i]; break;
        default: v = ((const uint8_t *)bytes)[i]; break;
        }
        double want = expected(test->size, i, op);
        if (ts_tensor_dtype(t) != TS_FLOAT32 && ts_tensor_dtype(t) != TS_FLOAT64)
            want = floor(want);
        if (fabs(v - want) > tolerance * fabs(want)) {
            ts_test_fail(test, __FILE__, __LINE__, "element %lld of %lld is %g, expected %g",
                         (long long)i, (long long)n, v, want);
            good = false;
        }
    }
    free(data);
    return good;
}

static void sizes(ts_test *test)
{
    static const int64_t n[] = {0, 1, 6, 7, 1000, 8193, 20011, 400003, 1200007};
    static const ts_memory memory[] = {TS_MEMORY_HEAP, TS_MEMORY_SHARED};
    for (size_t i = 0; i < sizeof n / sizeof *n; i++)
        for (int m = 0; m < 2; m++) {
            ts_scope scope = ts_scope_begin();
            ts_tensor *t = make(test->rank, n[i], TS_FLOAT32, memory[m]);
            TS_PASS(ts_all_reduce(test->group, t, TS_SUM, NULL));
            if (!check(test, t, TS_SUM, 0)) return;
            TS_PASS(ts_scope_end(scope));
        }
}

TS_TEST(all_reduce_sizes_2, .ranks = 2) { sizes(test); }
TS_TEST(all_reduce_sizes_3, .ranks = 3) { sizes(test); }
TS_TEST(all_reduce_sizes_5, .ranks = 5) { sizes(test); }
TS_TEST(all_reduce_sizes_hosts, .ranks = 4, .hosts = 2) { sizes(test); }

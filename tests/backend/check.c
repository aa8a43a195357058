/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a job that checks a backend: check BACKEND WHAT.  Started by mpirun and by tessera run
 * from backend_test.c; uses the library as a program of a user does.  Prints "ok RANK of SIZE" at the
 * end, or what was wrong. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/tessera.h>
#include <time.h>
#include <unistd.h>

#include "by_store.h"

static int rank, size;
static bool has_messages = true;

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "rank %d, line %d: %s does not hold\n", rank, __LINE__, #condition);   \
            exit(3);                                                                               \
        }                                                                                          \
    } while (0)

#define FAILS(expr, expected, needle)                                                              \
    do {                                                                                           \
        ts_status s_ = (expr);                                                                     \
        if (s_ != (expected) || !strstr(s_ ? ts_error_last() : "", needle)) {                      \
            fprintf(stderr, "rank %d, line %d: %s gives %s (%s)\n", rank, __LINE__, #expr,         \
                    ts_status_name(s_), s_ ? ts_error_last() : "");                                \
            exit(3);                                                                               \
        }                                                                                          \
    } while (0)

static void join(const char *backend, int64_t timeout_ms)
{
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    opt.backend = backend;
    opt.timeout_ms = timeout_ms;
    ts_must(ts_init_process_group(&opt));
    rank = ts_rank();
    size = ts_world_size();
    EXPECT(strcmp(ts_group_backend(NULL), backend) == 0);
}

static double at(ts_tensor *t, int64_t i)
{
    double value;
    ts_must(ts_item(ts_select(ts_reshape(t, TS_SHAPE(-1)), 0, i), &value));
    return value;
}

static bool all_are(ts_tensor *t, double value)
{
    double least, most;
    if (ts_numel(t) == 0) return true;
    t = ts_to_dtype(t, TS_FLOAT64);
    ts_must(ts_item(ts_min(t), &least));
    ts_must(ts_item(ts_max(t), &most));
    return least == value && most == value;
}

static ts_tensor *filled(ts_shape shape, double value, ts_dtype dtype)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = dtype;
    return ts_full(shape, value, &opt);
}

/* ---- collectives ----------------------------------------------------------------------------- */

static void check_sums(int64_t n)
{
    static const ts_dtype dtypes[] = {TS_FLOAT32, TS_FLOAT64, TS_FLOAT16, TS_BFLOAT16, TS_INT8,
                                      TS_UINT8,   TS_INT16,   TS_INT32,   TS_INT64};
    double sum = size * (size + 1) / 2.0, product = 1;
    for (int q = 0; q < size; q++) product *= q + 1;
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        ts_scope scope = ts_scope_begin();
        static const ts_reduce_op ops[] = {TS_SUM, TS_AVG, TS_PRODUCT, TS_MIN, TS_MAX};
        double results[] = {sum, sum / size, product, 1, size};
        if (!ts_dtype_is_floating(dtypes[d])) results[1] = trunc(results[1]);
        for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) {
            ts_tensor *t = filled(TS_SHAPE(n), rank + 1, dtypes[d]);
            ts_must(ts_all_reduce(NULL, t, ops[k], NULL));
            EXPECT(all_are(t, results[k]));
            t = filled(TS_SHAPE(n), rank + 1, dtypes[d]);
            ts_must(ts_reduce(NULL, t, size - 1, ops[k], NULL));
            EXPECT(all_are(t, rank == size - 1 ? results[k] : rank + 1));
            ts_tensor *out = filled(TS_SHAPE(n), 0, dtypes[d]);
            ts_must(ts_reduce_scatter_tensor(
                NULL, out, filled(TS_SHAPE(size, n), rank + 1, dtypes[d]), ops[k], NULL));
            EXPECT(all_are(out, results[k]));
        }
        ts_must(ts_scope_end(scope));
    }
}

static void check_special_values(void)
{
    ts_tensor *t = filled(TS_SHAPE(3), rank == 0 ? NAN : rank, TS_FLOAT32);
    ts_must(ts_all_reduce(NULL, t, TS_MAX, NULL));
    EXPECT(isnan(at(t, 0)) && isnan(at(t, 2)));
    t = filled(TS_SHAPE(100), rank == size - 1 ? NAN : rank, TS_FLOAT64);
    ts_must(ts_all_reduce(NULL, t, TS_MIN, NULL));
    EXPECT(isnan(at(t, 0)) && isnan(at(t, 99)));
    t = filled(TS_SHAPE(50), rank == size - 1, TS_BOOL);
    ts_must(ts_all_reduce(NULL, t, TS_SUM, NULL));
    EXPECT(all_are(t, 1));
    t = filled(TS_SHAPE(50), rank == size - 1, TS_BOOL);
    ts_must(ts_all_reduce(NULL, t, TS_PRODUCT, NULL));
    EXPECT(all_are(t, size == 1));
    t = filled(TS_SHAPE(50), 1 << rank, TS_INT32);
    ts_must(ts_all_reduce(NULL, t, TS_BOR, NULL));
    EXPECT(all_are(t, (1 << size) - 1));
    t = filled(TS_SHAPE(50), 7, TS_INT64);
    ts_must(ts_all_reduce(NULL, t, TS_BXOR, NULL));
    EXPECT(all_are(t, size % 2 ? 7 : 0));
    /* In bfloat16 1 + 1/256 + 1/256 is 1 unless it is rounded once. */
    t = filled(TS_SHAPE(40), rank == 0 ? 1 : 1.0 / 256, TS_BFLOAT16);
    ts_must(ts_all_reduce(NULL, t, TS_SUM, NULL));
    if (size == 3) EXPECT(all_are(t, 1 + 1.0 / 128));
}

static void check_moves(int64_t n)
{
    ts_tensor *t = filled(TS_SHAPE(n), rank, TS_FLOAT32), *list[64], *in[64];
    ts_must(ts_broadcast(NULL, t, size - 1, NULL));
    EXPECT(all_are(t, size - 1));
    ts_tensor *all = filled(TS_SHAPE(size, n), -1, TS_INT32);
    ts_must(ts_all_gather_into_tensor(NULL, all, filled(TS_SHAPE(n), rank, TS_INT32), NULL));
    for (int q = 0; q < size; q++) EXPECT(all_are(ts_select(all, 0, q), q));
    for (int q = 0; q < size; q++) list[q] = filled(TS_SHAPE(n + q), -1, TS_FLOAT64);
    ts_must(ts_all_gather(NULL, list, size, filled(TS_SHAPE(n + rank), rank, TS_FLOAT64), NULL));
    for (int q = 0; q < size; q++) EXPECT(all_are(list[q], q));
    bool root = rank == 1 % size;
    for (int uneven = 0; uneven < 2; uneven++) {
        for (int q = 0; q < size; q++) list[q] = filled(TS_SHAPE(n + uneven * q), -1, TS_INT64);
        t = filled(TS_SHAPE(n + uneven * rank), rank, TS_INT64);
        ts_must(ts_gather(NULL, t, root ? list : NULL, root ? size : 0, 1 % size, NULL));
        for (int q = 0; root && q < size; q++) EXPECT(all_are(list[q], q));
        for (int q = 0; q < size; q++) list[q] = filled(TS_SHAPE(n + uneven * q), q, TS_INT64);
        ts_must(ts_scatter(NULL, t, root ? list : NULL, root ? size : 0, 1 % size, NULL));
        EXPECT(all_are(t, rank));
        for (int q = 0; q < size; q++) {
            in[q] = filled(TS_SHAPE(n + uneven * (rank + 2 * q)), 100 * rank + q, TS_INT32);
            list[q] = filled(TS_SHAPE(n + uneven * (q + 2 * rank)), -1, TS_INT32);
        }
        ts_must(ts_all_to_all(NULL, list, in, size, NULL));
        for (int q = 0; q < size; q++) EXPECT(all_are(list[q], 100 * q + rank));
        for (int q = 0; q < size; q++)
            in[q] = filled(TS_SHAPE(n + uneven * q), rank + 1, TS_FLOAT32);
        t = filled(TS_SHAPE(n + uneven * rank), 0, TS_FLOAT32);
        ts_must(ts_reduce_scatter(NULL, t, in, size, TS_SUM, NULL));
        EXPECT(all_are(t, size * (size + 1) / 2.0));
    }
    ts_must(ts_barrier(NULL, NULL));
}

static void check_whole_exchange(void)
{
    ts_tensor *in = ts_arange(0, 2 * size, 1, NULL), *out = ts_zeros(TS_SHAPE(2 * size), NULL);
    ts_must(ts_all_to_all_single(NULL, out, in, NULL, NULL, NULL));
    for (int q = 0; q < size; q++)
        EXPECT(at(out, 2 * q) == 2 * rank && at(out, 2 * q + 1) == 2 * rank + 1);
}

static void check_asynchronous(void)
{
    ts_work *work[20];
    ts_tensor *t[20];
    for (int i = 0; i < 20; i++) {
        t[i] = filled(TS_SHAPE(1 + 37 * i), i + rank, TS_FLOAT32);
        ts_must(ts_all_reduce(NULL, t[i], TS_SUM, &work[i]));
    }
    for (int i = 0; i < 20; i++) {
        ts_must(ts_work_wait(work[i], 0));
        ts_work_free(work[i]);
        EXPECT(all_are(t[i], size * i + size * (size - 1) / 2.0));
    }
}

static void check_disagreement(void)
{
    ts_tensor *t = filled(TS_SHAPE(rank == 0 ? 3 : 4), 1, TS_FLOAT32);
    if (size == 1) return;
    FAILS(ts_all_reduce(NULL, t, TS_SUM, NULL), TS_EMISMATCH, "ranks {0} call all_reduce SUM");
    EXPECT(all_are(t, 1));
    t = filled(TS_SHAPE(3), 1, TS_FLOAT32);
    FAILS(rank == 0 ? ts_barrier(NULL, NULL) : ts_all_reduce(NULL, t, TS_SUM, NULL), TS_EMISMATCH,
          "barrier");
    if (rank == 1)
        FAILS(ts_all_reduce(NULL, NULL, TS_SUM, NULL), TS_EINVAL, "all_reduce");
    else
        FAILS(ts_all_reduce(NULL, t, TS_SUM, NULL), TS_EREMOTE, "rank 1 came with bad arguments");
    ts_tensor *list[64];
    for (int q = 0; q < size; q++) list[q] = filled(TS_SHAPE(q == 1 ? 5 : 3), 0, TS_FLOAT32);
    FAILS(ts_gather(NULL, t, rank == 0 ? list : NULL, rank == 0 ? size : 0, 0, NULL), TS_EMISMATCH,
          "3 elements");
    ts_must(ts_all_reduce(NULL, t, TS_SUM, NULL));
    EXPECT(all_are(t, size));
}

/* ---- messages -------------------------------------------------------------------------------- */

static void check_ring(int64_t n)
{
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    ts_tensor *out = filled(TS_SHAPE(n), rank, TS_FLOAT32),
              *in = filled(TS_SHAPE(n), -1, TS_FLOAT32);
    ts_work *sent, *received;
    if (size == 1 || !has_messages) return;
    ts_must(ts_isend(NULL, out, next, 5, &sent));
    ts_must(ts_irecv(NULL, in, before, 5, &received));
    ts_must(ts_work_wait(received, 0));
    ts_must(ts_work_wait(sent, 0));
    EXPECT(all_are(in, before));
    EXPECT(ts_work_source_rank(received) == before);
    ts_work_free(sent);
    ts_work_free(received);
}

static void check_messages(void)
{
    ts_tensor *t = filled(TS_SHAPE(4), rank, TS_INT32), *u = filled(TS_SHAPE(4), -1, TS_INT32);
    int from = -1;
    if (size < 3 || !has_messages) return;
    if (rank == 0) {
        bool seen[64] = {false};
        for (int i = 1; i < size; i++) { /* from any, by tag */
            ts_must(ts_recv(NULL, u, TS_ANY_SOURCE, 7, &from));
            EXPECT(from > 0 && !seen[from] && all_are(u, from));
            seen[from] = true;
        }
        ts_must(ts_recv(NULL, u, 1, 9, NULL)); /* sent after tag 8 */
        EXPECT(all_are(u, 9));
        ts_must(ts_recv(NULL, u, 1, 8, NULL));
        EXPECT(all_are(u, 8));
        FAILS(ts_recv(NULL, filled(TS_SHAPE(2), 0, TS_INT32), 1, 3, NULL), TS_EMISMATCH, "rank 1");
        FAILS(ts_recv(NULL, filled(TS_SHAPE(9), 0, TS_INT32), 2, 3, NULL), TS_EMISMATCH,
              "16 bytes");
        ts_must(ts_recv(NULL, filled(TS_SHAPE(0), 0, TS_INT32), 1, 4, NULL));
    } else {
        ts_must(ts_send(NULL, t, 0, 7));
        if (rank == 1) {
            ts_must(ts_send(NULL, filled(TS_SHAPE(4), 8, TS_INT32), 0, 8));
            ts_must(ts_send(NULL, filled(TS_SHAPE(4), 9, TS_INT32), 0, 9));
        }
        if (rank < 3) ts_must(ts_send(NULL, t, 0, 3));
        if (rank == 1) ts_must(ts_send(NULL, filled(TS_SHAPE(0), 0, TS_INT32), 0, 4));
    }
    ts_must(ts_barrier(NULL, NULL));
}

static void check_cancel(void)
{
    ts_work *work;
    ts_tensor *t = filled(TS_SHAPE(4), -1, TS_INT32);
    ts_must(ts_irecv(NULL, t, (rank + 1) % size, 77, &work));
    FAILS(ts_work_wait(work, 20), TS_ETIMEOUT, "20 ms");
    ts_must(ts_work_abort(work));
    FAILS(ts_work_wait(work, 0), TS_EABORTED, "");
    ts_work_free(work);
    ts_must(ts_barrier(NULL, NULL));
}

/* ---- what a job does ------------------------------------------------------------------------- */

static void check_all(const char *backend)
{
    static const int64_t lengths[] = {0, 1, 5, 7, 1000, 70001};
    for (int round = 0; round < 2; round++) { /* over two groups, one after the other */
        join(backend, 20000);
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            ts_scope scope = ts_scope_begin();
            check_sums(lengths[i]);
            check_moves(lengths[i]);
            check_ring(lengths[i] + 1);
            ts_must(ts_scope_end(scope));
        }
        check_special_values();
        check_whole_exchange();
        check_asynchronous();
        check_disagreement();
        check_messages();
        check_ring(3000000);
        if (size > 1 && has_messages) check_cancel();
        ts_must(ts_destroy_process_group(NULL));
    }
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The last rank does not come: the others name it, and go on with a new group. */
static void check_late(const char *backend)
{
    char name[32];
    ts_tensor *t = ts_ones(TS_SHAPE(1000), NULL);
    join(backend, 1000);
    ts_must(ts_barrier(NULL, NULL));
    snprintf(name, sizeof name, "not arrived: rank %d", size - 1);
    double start = now();
    if (rank == size - 1) usleep(2500000);
    ts_status status = ts_all_reduce(NULL, t, TS_SUM, NULL);
    EXPECT(status == TS_EREMOTE || (rank < size - 1 && status == TS_ETIMEOUT));
    EXPECT(strstr(ts_error_last(), name));
    EXPECT(now() - start < (rank == size - 1 ? 4 : 2));
    FAILS(ts_barrier(NULL, NULL), status, "broken since");
    ts_must(ts_destroy_process_group(NULL));
    join(backend, 20000);
    ts_must(ts_all_reduce(NULL, t, TS_SUM, NULL));
    EXPECT(all_are(t, size));
    ts_must(ts_destroy_process_group(NULL));
}

static void check_abort(const char *backend)
{
    join(backend, 20000);
    ts_must(ts_barrier(NULL, NULL));
    double start = now();
    if (rank == 0) {
        usleep(200000);
        ts_must(ts_abort_process_group(NULL));
        FAILS(ts_barrier(NULL, NULL), TS_EABORTED, "aborted");
    } else {
        FAILS(ts_barrier(NULL, NULL), TS_EREMOTE, "rank 0 aborted");
    }
    EXPECT(now() - start < 5);
    ts_must(ts_destroy_process_group(NULL));
}

/* Rank 0 leaves; the others still count on it. */
static void check_leave(const char *backend)
{
    join(backend, 20000);
    ts_must(ts_barrier(NULL, NULL));
    double start = now();
    if (rank > 0) { /* or another rank was quicker to notice, and told */
        ts_status status = ts_barrier(NULL, NULL);
        EXPECT(status == TS_ENETWORK || status == TS_EREMOTE);
        EXPECT(strstr(ts_error_last(), "rank 0 has left"));
    }
    EXPECT(now() - start < 5);
    ts_must(ts_destroy_process_group(NULL));
}

static void check_killed(const char *backend)
{
    join(backend, 20000);
    ts_must(ts_barrier(NULL, NULL));
    if (rank == 1) raise(SIGKILL);
    ts_must(ts_barrier(NULL, NULL));
}

static void check_forgets(const char *backend)
{
    join(backend, 20000);
    ts_must(ts_barrier(NULL, NULL));
}

static void check_given(const char *backend)
{
    ts_init_options opt = TS_INIT_OPTIONS_INIT;
    opt.backend = backend;
    opt.rank = 4;
    opt.world_size = 5;
    ts_must(ts_init_process_group(&opt));
    rank = ts_rank();
    size = ts_world_size();
    EXPECT(size != 5 && rank < size);
    ts_must(ts_destroy_process_group(NULL));
}

/* More than 2 GiB in one call. */
static void check_long(const char *backend)
{
    int64_t n = (int64_t)2200 << 20;
    ts_tensor *t = filled(TS_SHAPE(n), rank + 1, TS_INT8);
    join(backend, 120000);
    ts_must(ts_all_reduce(NULL, t, TS_SUM, NULL));
    EXPECT(at(t, 0) == size * (size + 1) / 2 && at(t, n - 1) == at(t, 0));
    ts_tensor *in = filled(TS_SHAPE(n), -1, TS_INT8);
    if (rank == 0) ts_must(ts_send(NULL, t, 1, 0));
    if (rank == 1) {
        ts_must(ts_recv(NULL, in, 0, 0, NULL));
        EXPECT(at(in, n - 1) == at(t, 0));
    }
    ts_must(ts_destroy_process_group(NULL));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(const char *backend);
    } checks[] = {{"all", check_all},         {"late", check_late},     {"abort", check_abort},
                  {"leave", check_leave},     {"killed", check_killed}, {"given", check_given},
                  {"forgets", check_forgets}, {"long", check_long}};
    if (argc == 3 && strcmp(argv[1], "by_store") == 0) {
        register_by_store();
        has_messages = false;
    }
    for (size_t i = 0; argc == 3 && i < sizeof checks / sizeof *checks; i++)
        if (strcmp(checks[i].name, argv[2]) == 0) {
            checks[i].run(argv[1]);
            printf("ok %d of %d\n", rank, size);
            return 0;
        }
    fprintf(stderr, "usage: backend-check BACKEND WHAT\n");
    return 2;
}

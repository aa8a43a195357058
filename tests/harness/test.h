/* SPDX-License-Identifier: Apache-2.0 */
/* The test harness.
 *
 *     TS_TEST(all_reduce_uneven, .ranks = 3, .timeout_s = 10)
 *     {
 *         ts_tensor *t = ts_full(TS_SHAPE(7), 1.0 + test->rank, NULL);
 *         TS_PASS(ts_all_reduce(test->group, t, TS_SUM, NULL));
 *         TS_EXPECT_ALL(t, 6.0);
 *     }
 *
 * A test runs in processes of its own, with a time limit; its output is shown only when it fails.
 * With ranks > 0 the body runs once per rank, with a group made; by default the whole test runs
 * twice: ranks as threads of one process, then as processes.  Checks that fail return from the
 * body.
 *
 *     tessera-tests [--list] [--jobs N] [-v] [--here] [PART...]
 *
 * runs the tests whose "file:name/mode" contains one of the parts; --here runs them in the
 * process itself, for a debugger (not tests with ranks as processes). */
#ifndef TS_TEST_H
#define TS_TEST_H

#include <math.h>
#include <string.h>
#include <tessera/tessera.h>

/* Thread sanitizer: slow, hungry for memory, and lost in children that have threads after a fork. */
#if defined(__SANITIZE_THREAD__)
#define TS_TEST_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TS_TEST_THREAD_SANITIZER 1
#endif
#endif
#ifndef TS_TEST_THREAD_SANITIZER
#define TS_TEST_THREAD_SANITIZER 0
#endif

typedef enum ts_test_mode {
    TS_TEST_BOTH = 0, /* multi-rank: threads, then processes */
    TS_TEST_THREADS = 1,
    TS_TEST_PROCESSES = 2
} ts_test_mode;

typedef struct ts_test {
    const char *name;
    int rank, size;  /* 0 and 1 for single tests */
    ts_group *group; /* NULL for single tests and with .no_group */
    bool threads;    /* ranks are threads */
    const char *dir; /* an empty folder of this test's own, removed afterwards */
    ts_store *store; /* multi-rank: a store shared by the ranks */
    int failures;
    int meetings;              /* so far; part of the keys of ts_test_meet */
    struct ts_test_seat *seat; /* where the watching process sees how far this rank is */
} ts_test;

typedef struct ts_test_case {
    const char *name, *file;
    void (*run)(ts_test *test);
    int ranks;         /* 0: single */
    int hosts;         /* > 1: ranks split into that many pretend hosts (TCP between them) */
    const char *split; /* with hosts: ranks of each, "3+1"; NULL: in equal runs */
    double timeout_s;  /* 0: 30 */
    ts_test_mode mode;
    bool no_group;           /* multi-rank without ts_init_process_group */
    const char *skip_unless; /* a program that must be on the path, or NULL */
    struct ts_test_case *next;
} ts_test_case;

void ts_test_register(ts_test_case *test_case);

/* Notes the line, which the report of a time limit shows. */
void ts_test_at(ts_test *test, int line);

#define TS_TEST(...) TS_TEST_(__VA_ARGS__, .next = NULL)
#define TS_TEST_(test_name, ...)                                                                   \
    static void test_name(ts_test *test);                                                          \
    static ts_test_case test_name##_case = {                                                       \
        .name = #test_name, .file = __FILE__, .run = test_name, __VA_ARGS__};                      \
    __attribute__((constructor)) static void test_name##_register(void)                            \
    {                                                                                              \
        ts_test_register(&test_name##_case);                                                       \
    }                                                                                              \
    static void test_name(__attribute__((unused)) ts_test *test)

/* Says why and counts as skipped; does not return (the other ranks are ended). */
_Noreturn void ts_test_skip(ts_test *test, const char *format, ...) TS_PRINTF(2, 3);
void ts_test_fail(ts_test *test, const char *file, int line, const char *format, ...)
    TS_PRINTF(4, 5);

/* A TCP port on which this test may listen and nobody else does: a socket that is bound to it, and
 * does not listen, keeps it for the rest of the process. */
int ts_test_port(void);

#define TS_FAIL_TEST(...)                                                                          \
    do {                                                                                           \
        ts_test_fail(test, __FILE__, __LINE__, __VA_ARGS__);                                       \
        return;                                                                                    \
    } while (0)

#define TS_EXPECT(condition)                                                                       \
    do {                                                                                           \
        ts_test_at(test, __LINE__);                                                                \
        if (!(condition)) TS_FAIL_TEST("%s does not hold", #condition);                            \
    } while (0)

#define TS_EXPECT_INT(actual, expected)                                                            \
    do {                                                                                           \
        ts_test_at(test, __LINE__);                                                                \
        long long a_ = (long long)(actual), e_ = (long long)(expected);                            \
        if (a_ != e_) TS_FAIL_TEST("%s is %lld, expected %lld", #actual, a_, e_);                  \
    } while (0)

#define TS_EXPECT_NEAR(actual, expected, tolerance)                                                \
    do {                                                                                           \
        double a_ = (actual), e_ = (expected);                                                     \
        if (!(fabs(a_ - e_) <= (tolerance)) && !(isnan(a_) && isnan(e_)) && !(a_ == e_))           \
            TS_FAIL_TEST("%s is %.17g, expected %.17g within %g", #actual, a_, e_,                 \
                         (double)(tolerance));                                                     \
    } while (0)

#define TS_EXPECT_STR(actual, expected)                                                            \
    do {                                                                                           \
        const char *a_ = (actual), *e_ = (expected);                                               \
        if (strcmp(a_, e_) != 0) TS_FAIL_TEST("%s is \"%s\", expected \"%s\"", #actual, a_, e_);   \
    } while (0)

#define TS_EXPECT_TEXT(haystack, needle)                                                           \
    do {                                                                                           \
        const char *h_ = (haystack), *n_ = (needle);                                               \
        if (!strstr(h_, n_)) TS_FAIL_TEST("\"%s\" does not contain \"%s\"", h_, n_);               \
    } while (0)

/* The action succeeds. */
#define TS_PASS(expr)                                                                              \
    do {                                                                                           \
        ts_test_at(test, __LINE__);                                                                \
        ts_status s_ = (expr);                                                                     \
        if (s_ != TS_OK) TS_FAIL_TEST("%s: %s: %s", #expr, ts_status_name(s_), ts_error_last());   \
    } while (0)

/* The action fails with status and a text that contains each of the words given ("" if none). */
#define TS_FAIL(expr, expected_status, needle)                                                     \
    do {                                                                                           \
        ts_test_at(test, __LINE__);                                                                \
        ts_status s_ = (expr);                                                                     \
        if (s_ != (expected_status))                                                               \
            TS_FAIL_TEST("%s gives %s (%s), expected %s", #expr, ts_status_name(s_),               \
                         s_ == TS_OK ? "" : ts_error_last(), ts_status_name(expected_status));     \
        TS_EXPECT_TEXT(ts_error_last(), needle);                                                   \
    } while (0)

/* The value is good / has failed with status and a text that contains needle. */
#define TS_GOOD(t)                                                                                 \
    do {                                                                                           \
        const ts_tensor *t_ = (t);                                                                 \
        if (ts_failed(t_)) TS_FAIL_TEST("%s has failed: %s", #t, ts_tensor_error(t_));             \
    } while (0)
#define TS_BAD(t, expected_status, needle)                                                         \
    do {                                                                                           \
        const ts_tensor *t_ = (t);                                                                 \
        if (ts_tensor_status(t_) != (expected_status))                                             \
            TS_FAIL_TEST("%s has status %s (%s), expected %s", #t,                                 \
                         ts_status_name(ts_tensor_status(t_)), ts_tensor_error(t_),                \
                         ts_status_name(expected_status));                                         \
        TS_EXPECT_TEXT(ts_tensor_error(t_), needle);                                               \
    } while (0)

/* Every element equals value (NaN equals NaN) / the elements are these, in row-major order. */
#define TS_EXPECT_ALL(t, value)                                                                    \
    do {                                                                                           \
        if (!ts_test_all(test, __FILE__, __LINE__, #t, (t), (value))) return;                      \
    } while (0)
#define TS_EXPECT_VALUES(t, tolerance, ...)                                                        \
    do {                                                                                           \
        const double v_[] = {__VA_ARGS__};                                                         \
        if (!ts_test_values(test, __FILE__, __LINE__, #t, (t), v_, sizeof v_ / sizeof *v_,         \
                            (tolerance)))                                                          \
            return;                                                                                \
    } while (0)
/* Equal shape and dtype, and |a - b| <= atol + rtol |b| everywhere. */
#define TS_EXPECT_CLOSE(a, b, rtol, atol)                                                          \
    do {                                                                                           \
        if (!ts_test_close(test, __FILE__, __LINE__, #a, (a), #b, (b), (rtol), (atol))) return;    \
    } while (0)
#define TS_EXPECT_EQUAL(a, b) TS_EXPECT_CLOSE(a, b, 0.0, 0.0)

bool ts_test_all(ts_test *test, const char *file, int line, const char *text, ts_tensor *t,
                 double value);
bool ts_test_values(ts_test *test, const char *file, int line, const char *text, ts_tensor *t,
                    const double *values, size_t n, double tolerance);
bool ts_test_close(ts_test *test, const char *file, int line, const char *a_text, ts_tensor *a,
                   const char *b_text, ts_tensor *b, double rtol, double atol);

/* The ranks of a multi-rank test meet here (through the store, not through the group); where is
 * shown by the report of a time limit.  All ranks meet equally often. */
void ts_test_meet(ts_test *test, const char *where);
/* For tests that look at the bytes of links and stores: the job has neither a secret nor encryption,
 * although the run of the tests may have them. */
void ts_test_in_the_clear(void);

/* Path of a file of the source tree ("tests/golden/gpt.bin"), in a static buffer. */
const char *ts_test_path(const char *relative);

#endif

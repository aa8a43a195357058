/* SPDX-License-Identifier: Apache-2.0 */
/* One table of cases for every backend, on any group of the first ranks and through the public
 * interface only.
 *
 * Every rank of a group goes through the same cases.  A check that fails is reported and counted; the
 * case goes on, so that the ranks stay in step. */
#ifndef TS_CONFORMANCE_H
#define TS_CONFORMANCE_H

#include <stdio.h>
#include <tessera/tessera.h>

enum {
    CONF_QUICK = 1,       /* layouts, memory and works take turns instead of meeting everything */
    CONF_FAKE = 2,        /* nothing travels: only that everything ends well is checked */
    CONF_LONG = 4,        /* and messages and tensors of many megabytes */
    CONF_NO_MESSAGES = 8, /* the backend has collectives only */
    CONF_LARGE = 16,      /* the cases of more than 2 GiB and no others */
};

/* Runs the cases whose names contain filter (NULL: all) on group (NULL: the default one), which has
 * all ranks or the first ones.  Returns the number of failures on this rank, which are on stderr. */
int ts_conformance(ts_group *group, const char *filter, unsigned flags);
/* The same on the default group, and again on the group of all ranks but the last one if there are
 * more than two, which calls it too. */
int ts_conformance_with_subgroup(const char *filter, unsigned flags);

/* ---- for the cases --------------------------------------------------------------------------- */

typedef struct conf {
    ts_group *group;
    int rank, size;
    unsigned flags;
    const char *name; /* of the case */
    int failures;
    unsigned turn; /* counts variants; the same on every rank */
} conf;

typedef struct conf_case {
    const char *name;
    void (*run)(conf *c);
    int least, most; /* numbers of ranks that it is for; most 0: any number from least on */
} conf_case;

void conf_fail(conf *c, int line, const char *format, ...) TS_PRINTF(3, 4);

#define CONF_EXPECT(condition)                                                                     \
    do {                                                                                           \
        if (!(condition)) conf_fail(c, __LINE__, "%s does not hold", #condition);                  \
    } while (0)
#define CONF_OK(expr)                                                                              \
    do {                                                                                           \
        if ((expr) != TS_OK) conf_fail(c, __LINE__, "%s: %s", #expr, ts_error_last());             \
    } while (0)
/* Fails with that status and a text that contains needle. */
#define CONF_FAILS(expr, status, needle) conf_fails(c, __LINE__, #expr, (expr), (status), (needle))
void conf_fails(conf *c, int line, const char *what, ts_status got, ts_status wanted,
                const char *needle);

/* ---- numbers (values.c) ---------------------------------------------------------------------- */

/* What a tensor holds, or should hold. */
typedef enum conf_kind {
    CONF_BLANK,  /* 9 everywhere */
    CONF_VALUE,  /* small numbers by rank, slot and index */
    CONF_REDUCED /* these of all ranks, reduced */
} conf_kind;

typedef struct conf_want {
    conf_kind kind;
    int rank, slot;
    ts_reduce_op op; /* numbers are chosen such that it stays exact in every dtype */
    int size;
} conf_want;

conf_want conf_blank(void);
conf_want conf_value(int rank, int slot, ts_reduce_op op);
conf_want conf_reduced(int size, int slot, ts_reduce_op op);
/* Of element i; complex numbers count as two. */
double conf_number(const conf_want *want, ts_dtype dtype, int64_t i);
/* Each rank's factor for TS_PREMUL_SUM. */
double conf_factor(int rank);
bool conf_allows(ts_dtype dtype, ts_reduce_op op);

/* ---- tensors (values.c) ---------------------------------------------------------------------- */

typedef enum conf_layout {
    CONF_WHOLE,
    CONF_COLUMN, /* of a matrix */
    CONF_MIDDLE, /* of a longer tensor */
    CONF_NUM_LAYOUTS
} conf_layout;

typedef struct conf_variant {
    ts_dtype dtype;
    int64_t n;
    conf_layout layout;
    ts_memory memory;
    bool async;
    ts_reduce_op op;
    bool uneven;
    int root;
} conf_variant;

typedef struct conf_tensor {
    ts_tensor *view, *base;
    conf_layout layout;
    int64_t n;
} conf_tensor;

conf_tensor conf_make(const conf_variant *v, int64_t n, conf_want want);
/* The view holds that, and the memory around it what it did. */
void conf_check(conf *c, int line, const conf_tensor *t, conf_want want);
#define CONF_CHECK(t, want) conf_check(c, __LINE__, (t), (want))

/* n float32 numbers. */
ts_tensor *conf_full(int64_t n, double value);
void conf_all_are(conf *c, int line, ts_tensor *t, double value);
#define CONF_ALL_ARE(t, value) conf_all_are(c, __LINE__, (t), (value))

/* All of dtypes, sizes, layouts, kinds of memory, sync and async; in a scope each. */
typedef void (*conf_body)(conf *c, conf_variant *v);
void conf_each(conf *c, conf_body body);
/* Ends a call that was issued with work, or without (NULL). */
void conf_finish(conf *c, int line, const char *what, ts_status status, ts_work **work);
/* call uses `w` as its last argument. */
#define CONF_RUN(v, call)                                                                          \
    do {                                                                                           \
        ts_work *work_ = NULL, **w = (v)->async ? &work_ : NULL;                                   \
        conf_finish(c, __LINE__, #call, (call), w);                                                \
    } while (0)

extern const conf_case conf_moving[], conf_reducing[], conf_wrong[], conf_known[], conf_messages[],
    conf_several[], conf_large[];

#endif

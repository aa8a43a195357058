/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TS_BASE_CLOCK_H
#define TS_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds of the monotonic clock. */
static inline int64_t ts_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* A point in time by which a wait must end.  timeout_ms: > 0 from now; 0 no limit. */
typedef struct ts_deadline {
    int64_t at_ns; /* INT64_MAX: no limit */
    int64_t timeout_ms;
} ts_deadline;

static inline ts_deadline ts_deadline_in(int64_t timeout_ms)
{
    ts_deadline deadline = {INT64_MAX, timeout_ms};
    if (timeout_ms > 0 && timeout_ms < INT64_MAX / 2000000)
        deadline.at_ns = ts_now_ns() + timeout_ms * 1000000;
    return deadline;
}

/* Milliseconds left, rounded up, at least 0; -1 (what poll takes for "no limit") without limit. */
static inline int ts_deadline_left_ms(ts_deadline deadline)
{
    if (deadline.at_ns == INT64_MAX) return -1;
    int64_t left = deadline.at_ns - ts_now_ns();
    if (left <= 0) return 0;
    left = (left + 999999) / 1000000;
    return left > 1000000000 ? 1000000000 : (int)left;
}

static inline int ts_deadline_passed(ts_deadline deadline)
{
    return deadline.at_ns != INT64_MAX && ts_now_ns() >= deadline.at_ns;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Status codes and error text.
 *
 * Three kinds of results exist in Tessera, and the signature tells which one you hold:
 *   values   (tensors)  are returned; a failed value is inert and keeps its first cause;
 *   modules             are returned; a failed module is inert likewise;
 *   actions             return ts_status and write results through out-parameters.
 * NULL always means "none", never failure.
 */
#ifndef TESSERA_STATUS_H
#define TESSERA_STATUS_H

#include <tessera/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, number, parent, text).  A code is also every one of its ancestors: see ts_status_is. */
#define TS_STATUSES(X)                                                                             \
    X(OK, 0, OK, "ok")                                                                             \
    X(EINVAL, 1, EINVAL, "invalid argument")                                                       \
    X(ESHAPE, 2, EINVAL, "shape")                                                                  \
    X(EDTYPE, 3, EINVAL, "dtype")                                                                  \
    X(ESTATE, 4, EINVAL, "call not allowed in this state")                                         \
    X(ENOTMEMBER, 5, EINVAL, "not a member of the group")                                          \
    X(EUNSUPPORTED, 6, EUNSUPPORTED, "not supported")                                              \
    X(ENOMEM, 7, ENOMEM, "out of memory")                                                          \
    X(EIO, 8, EIO, "input/output")                                                                 \
    X(EFORMAT, 9, EIO, "data format")                                                              \
    X(EDIST, 10, EDIST, "distributed")                                                             \
    X(ENETWORK, 11, EDIST, "network")                                                              \
    X(ESTORE, 12, EDIST, "store")                                                                  \
    X(EBACKEND, 13, EDIST, "backend")                                                              \
    X(ETIMEOUT, 14, EDIST, "time-out")                                                             \
    X(EMISMATCH, 15, EDIST, "ranks disagree")                                                      \
    X(EREMOTE, 16, EDIST, "another rank failed")                                                   \
    X(EABORTED, 17, EDIST, "aborted")                                                              \
    X(EUSER, 18, EUSER, "user callback")                                                           \
    X(EEMPTY, 19, ESTORE, "queue is empty")

typedef enum ts_status {
#define X(name, number, parent, text) TS_##name = number,
    TS_STATUSES(X)
#undef X
} ts_status;

/* "TS_ESHAPE" and "shape".  Static strings; an unknown number gives "TS_?". Any thread. */
TS_API const char *ts_status_name(ts_status status);
TS_API const char *ts_status_text(ts_status status);

/* 1 if status is klass or one of its descendants: ts_status_is(TS_ESHAPE, TS_EINVAL) is 1. */
TS_API int ts_status_is(ts_status status, ts_status klass);

/* Text of the failure that the calling thread met last.  Meaningful just after a non-zero status;
 * valid until the next failing call of this thread.  Never NULL. */
TS_API const char *ts_error_last(void);

/* For programs, not for libraries: if status is not TS_OK, prints rank, expression and message to
 * stderr and exits with status 1. */
#define ts_must(expr) ts_must_at((expr), #expr, __FILE__, __LINE__)
TS_API void ts_must_at(ts_status status, const char *expr, const char *file, int line);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A shape is a plain value: up to TS_MAX_DIMS sizes.  TS_SHAPE(2, 3) writes one in an expression;
 * ts_shape_scalar() is the shape of a 0-dim tensor. */
#ifndef TESSERA_SHAPE_H
#define TESSERA_SHAPE_H

#include <tessera/export.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TS_MAX_DIMS 8

typedef struct ts_shape {
    int ndim; /* -1: more than TS_MAX_DIMS were asked for; every function refuses it */
    int64_t dim[TS_MAX_DIMS];
} ts_shape;

TS_API ts_shape ts_shape_make(int ndim, const int64_t *dims);
TS_API ts_shape ts_shape_scalar(void);
TS_API bool ts_shape_equal(ts_shape a, ts_shape b);
/* Product of the sizes; -1 if negative, overflowing or not a shape. */
TS_API int64_t ts_shape_numel(ts_shape shape);
/* "(2, 3)" into buf; returns buf. */
TS_API char *ts_shape_format(char *buf, size_t size, ts_shape shape);
#define TS_SHAPE_TEXT 192 /* enough for any shape */

#ifdef __cplusplus
}
template <typename... Int> static inline ts_shape ts_shape_of_(Int... sizes)
{
    const int64_t dims[] = {static_cast<int64_t>(sizes)...};
    return ts_shape_make(static_cast<int>(sizeof...(sizes)), dims);
}
#define TS_SHAPE(...) ts_shape_of_(__VA_ARGS__)
#else
#define TS_SHAPE(...)                                                                              \
    ts_shape_make((int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                 \
                  (const int64_t[]){__VA_ARGS__})
#endif

#endif

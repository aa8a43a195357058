/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TS_BASE_NEAREST_H
#define TS_BASE_NEAREST_H

/* The name nearest to text by edit distance; NULL if none is close. */
const char *ts_nearest(const char *text, const char *const *names, int n);

#endif

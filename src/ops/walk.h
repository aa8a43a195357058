/* SPDX-License-Identifier: Apache-2.0 */
/* The shortest loop nest over an output and up to three inputs that broadcast to it. */
#ifndef TS_OPS_WALK_H
#define TS_OPS_WALK_H

#include "tensor/tensor.h"

enum { TS_WALK_MAX = 4 };

/* One line: pointers and steps (in elements) of the operands, output first. */
typedef void (*ts_walk_line)(char *const *at, const int64_t *step, int64_t n, const void *user);

/* Calls line for pieces that cover the elements of t[0], the output, on several threads if there are
 * many. */
void ts_walk(ts_tensor *const *t, int count, ts_walk_line line, const void *user);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Golden files: named arrays written by tests/golden/golden_file.py. */
#ifndef TS_GOLDEN_H
#define TS_GOLDEN_H

#include <tessera/module.h>

/* path: relative to the source tree, or absolute.  *out is yours. */
ts_status ts_golden_read(ts_tensor_list **out, const char *path);

/* The array called by format, in its dtype; NULL if there is none. */
ts_tensor *ts_golden_get(const ts_tensor_list *golden, const char *format, ...) TS_PRINTF(2, 3);

#endif

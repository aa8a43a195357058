/* SPDX-License-Identifier: Apache-2.0 */
/* Option structs begin with size_t struct_size, which their _INIT value sets. */
#ifndef TS_BASE_OPTIONS_H
#define TS_BASE_OPTIONS_H

#include <string.h>

#include "base/error.h"

/* Copies the caller's options over the defaults in `to`.  from NULL: keeps the defaults.  A struct
 * of an older, shorter version keeps the defaults of newer fields; struct_size 0 is refused. */
static inline ts_status ts_options_read(void *to, size_t size, const void *from, const char *op)
{
    size_t given = 0;
    if (!from) return TS_OK;
    memcpy(&given, from, sizeof given);
    if (given == 0)
        return ts_fail(TS_EINVAL, "%s: options are not initialised; start from their _INIT value",
                       op);
    memcpy(to, from, given < size ? given : size);
    return TS_OK;
}

#endif

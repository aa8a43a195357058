/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESSERA_VERSION_H
#define TESSERA_VERSION_H

#include <tessera/export.h>

#define TS_VERSION_MAJOR 0
#define TS_VERSION_MINOR 1
#define TS_VERSION_PATCH 0
#define TS_VERSION_STRING "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the library in use, which may be newer than the header's.  Static string. */
TS_API const char *ts_version(void);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include <tessera/version.h>

const char *ts_version(void) { return TS_VERSION_STRING; }

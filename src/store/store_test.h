/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TS_STORE_TEST_H
#define TS_STORE_TEST_H

#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "test.h"

/* A path of this process's own that does not exist yet. */
static inline char *test_path(char path[256], const char *name)
{
    snprintf(path, 256, "/tmp/tessera-test-%d-%s", (int)getpid(), name);
    unlink(path);
    return path;
}

#endif

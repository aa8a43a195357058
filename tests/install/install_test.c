/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "paths.h"
#include "test.h"

static int shell(const char *format, ...) TS_PRINTF(1, 2);
static int shell(const char *format, ...)
{
    char command[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    return system(command);
}

TS_TEST(other_systems_are_refused_at_configuration, .skip_unless = "cmake")
{
    const char *file = ts_test_path("cmake/platform.cmake");
    TS_EXPECT_INT(shell("cmake -DCMAKE_SYSTEM_NAME=Linux -P %s", file), 0);
    TS_EXPECT(shell("cmake -DCMAKE_SYSTEM_NAME=Darwin -P %s 2>%s/err", file, test->dir) != 0);
    TS_EXPECT_INT(shell("grep -q 'Darwin is not supported' %s/err", test->dir), 0);
}

TS_TEST(public_headers_compile_alone, .timeout_s = 60)
{
    TS_EXPECT_INT(
        shell("%s %s %s", ts_test_path("tests/install/headers.sh"), TS_SOURCE_DIR, test->dir), 0);
}

TS_TEST(installed_library_can_be_used, .timeout_s = 60, .skip_unless = "pkg-config")
{
    if (access(TS_BINARY_DIR "/lib/libtessera.a", F_OK) != 0)
        ts_test_skip(test, "no static library in this build");
    TS_EXPECT_INT(shell("%s %s %s %s", ts_test_path("tests/install/install.sh"), TS_BINARY_DIR,
                        TS_SOURCE_DIR, test->dir),
                  0);
}

TS_TEST(library_can_be_loaded_into_a_running_program, .skip_unless = "python3")
{
    if (strstr(TS_BINARY_DIR, "build-")) ts_test_skip(test, "sanitizers must be loaded first");
    TS_EXPECT_INT(shell("python3 %s %s", ts_test_path("tests/install/ctypes_mlp.py"),
                        TS_BINARY_DIR "/lib/libtessera.so"),
                  0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the registered tests: tessera-tests [--list] [--jobs N] [NAME-OR-FILE-PART...] */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

static ts_test_case *first_case;

void ts_test_register(ts_test_case *test_case)
{
    test_case->next = first_case;
    first_case = test_case;
}

void ts_test_fail(ts_test *test, const char *file, int line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "[rank%d] %s:%d: ", test->rank, file, line);
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    test->failures++;
}

void ts_test_skip(ts_test *test, const char *format, ...)
{
    (void)test;
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    exit(77);
}

const char *ts_test_path(const char *relative)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", TS_SOURCE_DIR, relative);
    return path;
}

static int run_case(ts_test_case *c)
{
    FILE *output = tmpfile();
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(fileno(output), 1);
        dup2(fileno(output), 2);
        alarm((unsigned)(c->timeout_s > 0 ? c->timeout_s : 30));
        ts_test test = {.name = c->name, .size = 1};
        c->run(&test);
        fflush(NULL);
        exit(test.failures ? 1 : 0);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    int result = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    if (result != 0 && result != 77) {
        printf("FAILED %s (%s)", c->name, c->file);
        if (WIFSIGNALED(status)) printf(" signal %d", WTERMSIG(status));
        printf("\n");
        rewind(output);
        char line[4096];
        while (fgets(line, sizeof line, output)) printf("    %s", line);
    }
    fclose(output);
    return result;
}

int main(int argc, char **argv)
{
    int passed = 0, failed = 0, skipped = 0;
    for (ts_test_case *c = first_case; c; c = c->next) {
        int wanted = argc < 2;
        for (int i = 1; i < argc; i++)
            if (strstr(c->name, argv[i]) || strstr(c->file, argv[i])) wanted = 1;
        if (!wanted || c->ranks > 0) continue;
        int result = run_case(c);
        if (result == 77)
            skipped++;
        else if (result == 0)
            passed++;
        else
            failed++;
    }
    if (skipped) printf("%d skipped\n", skipped);
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}

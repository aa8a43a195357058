/* SPDX-License-Identifier: Apache-2.0 */
/* Inside a child. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/context.h"
#include "comm/spawn_impl.h"

static int report_to = -1;

static void report(ts_status status, const char *text)
{
    char message[TS_SPAWN_REPORT_MAX];
    int number = (int)status;
    size_t length = strnlen(text, sizeof message - sizeof number);
    if (report_to < 0) return;
    memcpy(message, &number, sizeof number);
    memcpy(message + sizeof number, text, length);
    ssize_t n = write(report_to, message, sizeof number + length);
    (void)n;
    close(report_to);
    report_to = -1;
}

/* A child that ends by exit, as ts_must does, has its last error to tell. */
static void report_last_error(void)
{
    const ts_thread_ctx *thread = ts_thread();
    if (thread->error_status != TS_OK) report(thread->error_status, thread->error);
}

_Noreturn void ts_spawn_child_run(int index, int report_fd, ts_spawn_fn fn, void *arg)
{
    report_to = report_fd;
    ts_thread()->error_status = TS_OK;
    atexit(report_last_error);
    ts_status status = fn(index, arg);
    if (status != TS_OK)
        report(status,
               ts_thread()->error_status == status ? ts_error_last() : ts_status_text(status));
    report_to = -1;
    fflush(NULL);
    _exit(status == TS_OK ? 0 : 1);
}

void ts_spawn_child_of(pid_t parent, int death_signal)
{
    prctl(PR_SET_PDEATHSIG, death_signal);
    if (getppid() != parent) raise(death_signal);
}

static void set_int(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

void ts_spawn_child_is_rank(int index, int size, const char *run)
{
    static const char *const others[] = {"MASTER_ADDR", "MASTER_PORT",
                                         "TORCHELASTIC_USE_AGENT_STORE"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) unsetenv(others[i]);
    set_int("RANK", index);
    set_int("LOCAL_RANK", index);
    set_int("WORLD_SIZE", size);
    set_int("LOCAL_WORLD_SIZE", size);
    setenv("TESSERA_RUN_ID", run, 1);
}
